"""Bounds the calls in progress of each session and principal, in number and bytes; more are refused.

Knows numbers and sizes; never knows what is called.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType

from toolcrib.base.errors import Busy
from toolcrib.base.json_values import weight
from toolcrib.base.model import JsonObject
from toolcrib.config.schema import LimitsSection
from toolcrib.policy.sessions import Session


@dataclass(slots=True)
class _Load:
    calls: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class _Bound:
    """The limits for one kind of owner, and each owner's load; ``keys`` are the config keys of the limits."""

    whose: str
    calls: int
    size: int
    keys: tuple[str, str]
    loads: dict[str, _Load] = field(default_factory=dict[str, _Load])

    def refuse_more(self, owner: str, size: int) -> None:
        """Raise if the owner may not have another call of this size under way.

        Raises:
            Busy: the owner has too much under way.

        """
        load = self.loads.get(owner)
        if load is None:  # a single one is bounded by limits.request_max_bytes
            return
        calls_key, size_key = self.keys
        if load.calls >= self.calls:
            raise Busy(
                f"toolcrib is busy: {self.whose} has {load.calls} calls under way (limits.{calls_key}). Nothing ran. "
                "Wait for some of them to end, then repeat the call."
            )
        if load.size + size > self.size:
            raise Busy(
                f"toolcrib is busy: the calls that {self.whose} has under way take {load.size} bytes, and this one "
                f"{size} more (limits.{size_key}). Nothing ran. Wait for some of them to end, then repeat the call."
            )

    def add(self, owner: str, size: int) -> None:
        """Add one call."""
        load = self.loads.setdefault(owner, _Load())
        load.calls, load.size = load.calls + 1, load.size + size

    def remove(self, owner: str, size: int) -> None:
        """Remove one call."""
        load = self.loads[owner]
        load.calls, load.size = load.calls - 1, load.size - size
        if not load.calls:
            del self.loads[owner]


class Taken:
    """One call, counted during the block. A class rather than a generator, because every call passes here."""

    __slots__ = ("_owners", "_size")

    def __init__(self, owners: Sequence[tuple[_Bound, str]], size: int) -> None:
        self._owners, self._size = owners, size

    def __enter__(self) -> None:
        for bound, owner in self._owners:
            bound.add(owner, self._size)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for bound, owner in self._owners:
            bound.remove(owner, self._size)


class PendingCalls:
    """Counts the calls under way; refuses calls that are too many or too large in total."""

    def __init__(self, limits: LimitsSection) -> None:
        self._most = max(limits.pending_bytes, limits.pending_bytes_per_principal)
        self._of_session = _Bound(
            "this session", limits.pending_calls, limits.pending_bytes, ("pending_calls", "pending_bytes")
        )
        self._of_principal = _Bound(
            "this caller",
            limits.pending_calls_per_principal,
            limits.pending_bytes_per_principal,
            ("pending_calls_per_principal", "pending_bytes_per_principal"),
        )

    def taken(self, session: Session, arguments: JsonObject) -> Taken:
        """Return a context manager that counts one call while it is under way.

        Raises:
            Busy: its session or its principal has too much under way; nothing ran.

        """
        size = weight(arguments, self._most)
        owners = ((self._of_session, session.label), (self._of_principal, session.caller.principal))
        for bound, owner in owners:
            bound.refuse_more(owner, size)
        return Taken(owners, size)
