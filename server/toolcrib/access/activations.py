"""What an activation scope has activated: one run, one kept session id, or nothing at all.

Knows the three kinds of scope; never knows tools, what a list shows, or how activations are kept on disk.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

import anyio
import anyio.to_thread


class Activations(Protocol):
    """What one activation scope has activated."""

    @property
    def names(self) -> Iterable[str]:
        """Public names, in no order."""
        ...

    def __contains__(self, name: object, /) -> bool: ...

    async def add(self, name: str, /) -> bool:
        """Record an activation; return whether it is new."""
        ...


class ActivationStore(Protocol):
    """Where the activations of session ids are kept. Times are in seconds since the epoch."""

    def activated(self, principal: str, session_id: str) -> set[str]:
        """Return the public names that a caller's session has activated."""
        ...

    def record_activation(self, principal: str, session_id: str, name: str, now: float) -> None:
        """Keep an activation under a caller and a session id."""
        ...

    def touch(self, principal: str, session_id: str, now: float) -> None:
        """Note that a session is in use."""
        ...


class RunActivations:
    """Activations of one MCP session, gone with it (R72)."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def __contains__(self, name: object) -> bool:
        return name in self.names

    async def add(self, name: str) -> bool:
        """Record an activation; return whether it is new."""
        new = name not in self.names
        self.names.add(name)
        return new


class NoActivations:
    """The scope of a request that belongs to no session: nothing is kept, nothing is new."""

    names: frozenset[str] = frozenset()

    def __contains__(self, _name: object) -> bool:
        return False

    async def add(self, _name: str) -> bool:
        """Keep nothing."""
        return False


class StoredActivations:
    """Activations of one (principal, session id), kept across reconnects (R73); changes are serialised (R74)."""

    def __init__(self, store: ActivationStore, key: tuple[str, str], now: Callable[[], float]) -> None:
        self._store, self._key, self._now = store, key, now
        self._changing = anyio.Lock()
        self.names = store.activated(*key)
        store.touch(*key, now())

    def __contains__(self, name: object) -> bool:
        return name in self.names

    async def add(self, name: str) -> bool:
        """Record an activation, on disk too; return whether it is new."""
        async with self._changing:
            new = name not in self.names
            self.names.add(name)
            await anyio.to_thread.run_sync(self._store.record_activation, *self._key, name, self._now())
            return new
