"""Which programs compute: each has a place while it does, none while it waits; callers share the places (ADR 92)."""

from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from itertools import count

import anyio

from toolcrib.base.cache import Recent

_CALLERS_KEPT = 1000
_TOLD_FROM_S = 0.5
"""How long a program has waited for its place where that is told."""


def share_of_one(total: int) -> int:
    """Return how many of so many one caller may have: half of them, rounded up, so that there is one for the next."""
    return (total + 1) // 2


class Places:
    """The places of all programs of a gateway."""

    def __init__(self) -> None:
        self._most = 1
        self._held = Counter[str]()
        self._waiting = list[Place]()
        self._turns, self._last_turns = count(1), Recent[str, int](_CALLERS_KEPT)

    @contextmanager
    def place(self, caller: str, most: int, report: Callable[[str], Awaitable[None]]) -> Generator["Place"]:
        """Have a place for one program during the block, not requested yet; there are ``most`` from now on."""
        self._most = most
        self._give()
        place = Place(self, caller, report)
        try:
            yield place
        finally:
            place.leave()

    def request(self, place: "Place") -> None:
        """Give a place, now or once it is its turn."""
        self._waiting.append(place)
        self._give()

    def take_back(self, place: "Place") -> None:
        """Take a place back, for whoever waits, or no longer wait for it."""
        if place in self._waiting:
            self._waiting.remove(place)
        elif place.given.is_set():
            place.given = anyio.Event()
            self._held -= Counter((place.caller,))
            self._give()

    def waits(self, place: "Place") -> bool:
        """Return whether a place is requested and not given yet."""
        return place in self._waiting

    def why_none(self, caller: str) -> str:
        """Return why there is none for a caller now; empty: there is."""
        if self._held.total() >= self._most:
            return f"all places for programs that compute are taken (programs.workers: {self._most})"
        if self._held[caller] >= (share := share_of_one(self._most)):
            return f"this caller's programs have their share of the places (half of programs.workers: {share})"
        return ""

    def _give(self) -> None:
        """Give what is free to the caller that has least, else got one longest ago, and there to who waits longest."""
        while able := [place for place in self._waiting if not self.why_none(place.caller)]:
            place = min(able, key=lambda each: (self._held[each.caller], self._last_turns.get(each.caller, int)))
            self._waiting.remove(place)
            self._held[place.caller] += 1
            self._last_turns[place.caller] = next(self._turns)
            place.given.set()


class Place:
    """The place of one program, which is left, requested or ``given``; a long wait for it is reported once.

    ``waited_s`` are the seconds that the program has waited for it, and ``why`` is the reason, the last time.
    """

    def __init__(self, places: Places, caller: str, report: Callable[[str], Awaitable[None]]) -> None:
        self._places, self.caller, self._report = places, caller, report
        self._is_reported = False
        self.given = anyio.Event()
        self.waited_s, self.why = 0.0, ""

    @property
    def is_left(self) -> bool:
        """Whether it is neither given nor requested."""
        return not self.given.is_set() and not self._places.waits(self)

    def request(self) -> None:
        """Request it while it is left; it is the program's from when :meth:`wait` returns until :meth:`leave`."""
        self._places.request(self)

    async def wait(self) -> None:
        """Wait until it is given."""
        if self.given.is_set():
            return
        began, self.why = anyio.current_time(), self._places.why_none(self.caller)
        try:
            with anyio.move_on_after(_TOLD_FROM_S):
                await self.given.wait()
            if not self.given.is_set():
                await self._tell()
                await self.given.wait()
        finally:
            self.waited_s += anyio.current_time() - began

    async def _tell(self) -> None:
        self.why = self._places.why_none(self.caller)
        if not self._is_reported:
            self._is_reported = True
            with anyio.move_on_after(_TOLD_FROM_S):  # so that no place is kept by a client that does not read
                await self._report(f"It waits for its turn: {self.why}.")

    def leave(self) -> None:
        """Leave it to others, and wait for it no more."""
        self._places.take_back(self)

    @property
    def long_wait(self) -> str:
        """Why the program has waited for it, and for how long; empty: not for long."""
        if self.waited_s < _TOLD_FROM_S:
            return ""
        return f"It waited {self.waited_s:.1f} s for its turn, the last time because {self.why}."
