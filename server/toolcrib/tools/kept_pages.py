"""Stored pages of results that were too large: for a limited time, bounded per session and in total.

Knows handles, owners and bytes; never knows what is on a page or how an owner proves to be one.
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from toolcrib.base.errors import BadRequest
from toolcrib.base.model import Caller
from toolcrib.config.schema import LimitsSection

_HANDLE_BYTES = 16
"""Random bytes of a handle; the owner is compared as well."""

_NOTHING = (
    "There is nothing to read with this handle: it is not one of this session, or it has expired. Call the tool again, "
    "and ask for less at a time."
)

Owner = tuple[Caller, str]
"""The caller, and the session."""


@dataclass(slots=True)
class _Kept:
    """The later pages of one result, page 2 first; ``read`` is the number of the page read last."""

    owner: Owner
    pages: tuple[bytes, ...]
    expires: float
    read: int = 1

    @property
    def size(self) -> int:
        return sum(map(len, self.pages))


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a result: its stored bytes, its number, from 2 on, and the number of the last page."""

    content: bytes
    number: int
    last: int


class KeptPages:
    """Stored pages, by handle. ``now`` is a monotonic clock, in seconds."""

    def __init__(self, limits: LimitsSection, now: Callable[[], float]) -> None:
        self._limits, self._now = limits, now
        self._kept: dict[str, _Kept] = {}

    def keep(self, owner: Owner, pages: Sequence[bytes]) -> tuple[str, int]:
        """Store the pages that fit into the owner's share, and return their handle and number.

        The owner's oldest results are evicted first; if all owners together exceed the limit, results of the caller
        with the most.
        """
        self._forget_expired()
        fitting, left = list[bytes](), self._limits.results_kept_bytes
        for page in pages:
            left -= len(page)
            if left < 0:
                break
            fitting.append(page)
        handle = secrets.token_urlsafe(_HANDLE_BYTES)
        if not fitting:
            return handle, 0
        self._kept[handle] = _Kept(owner, tuple(fitting), self._now() + self._limits.results_kept_s)
        while self._size(owner) > self._limits.results_kept_bytes:
            self._forget_oldest(lambda kept: kept.owner == owner)
        while self._size() > self._limits.results_kept_total_bytes:
            self._forget_oldest(self._is_of_greatest())
        return handle, len(fitting) if handle in self._kept else 0

    def page(self, owner: Owner, handle: str, number: int | None) -> Page:
        """Return a page by its number, or the one after the page read last.

        Raises:
            BadRequest: no valid handle of this owner, or no such page.

        """
        self._forget_expired()
        kept = self._kept.get(handle)
        if kept is None or kept.owner != owner:
            raise BadRequest(_NOTHING)
        last = len(kept.pages) + 1
        wanted = kept.read + 1 if number is None else number
        if not 1 < wanted <= last:
            raise BadRequest(f"'page' must be from 2 to {last}; page 1 is what the call itself returned.")
        kept.read = wanted
        return Page(kept.pages[wanted - 2], wanted, last)

    def _size(self, owner: Owner | None = None) -> int:
        return sum(kept.size for kept in self._kept.values() if owner in (None, kept.owner))

    def _is_of_greatest(self) -> Callable[[_Kept], bool]:
        """Return a predicate for results of the principal with the most stored bytes."""
        sizes: dict[str, int] = {}
        for kept in self._kept.values():
            principal = kept.owner[0].principal
            sizes[principal] = sizes.get(principal, 0) + kept.size
        principal = max(sizes, key=sizes.__getitem__)
        return lambda kept: kept.owner[0].principal == principal

    def _forget_oldest(self, concerns: Callable[[_Kept], bool]) -> None:
        del self._kept[next(handle for handle, kept in self._kept.items() if concerns(kept))]

    def _forget_expired(self) -> None:
        for handle in [handle for handle, kept in self._kept.items() if kept.expires <= self._now()]:
            del self._kept[handle]
