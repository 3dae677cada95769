"""What the state machines share: a world in a thread of its own, and clients that come to it and go."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from anyio.from_thread import start_blocking_portal
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, rule

from worlds import Client, JsonObject, MemoryServer, world

_Entered = TypeVar("_Entered")


@dataclass(eq=False)
class Guest:
    """A connected client."""

    client: Client
    close: Callable[[], None]


_GuestT = TypeVar("_GuestT", bound=Guest)


class WorldMachine(RuleBasedStateMachine):
    """Clients come to a toolcrib and go. A machine calls :meth:`open` first; without that there is nobody to ask."""

    guests = Bundle("guests")

    def __init__(self) -> None:
        super().__init__()
        self.present: list[Any] = []
        self.stack = ExitStack()
        self.portal = self.stack.enter_context(start_blocking_portal("asyncio"))
        self.folder = Path(self.stack.enter_context(TemporaryDirectory()))

    def open(self, servers: Mapping[str, MemoryServer], config: JsonObject, **options: Any) -> None:
        """Run a toolcrib."""
        self.world = self.enter(world(self.folder, servers, config, **options))

    def enter(self, context: AbstractAsyncContextManager[_Entered], stack: ExitStack | None = None) -> _Entered:
        """Enter something in the world's thread, until the machine ends or ``stack`` does."""
        return (stack or self.stack).enter_context(self.portal.wrap_async_context_manager(context))

    def connected(self, mode: str, **options: Any) -> tuple[Client, Callable[[], None]]:
        """Connect a client; return it with what makes it leave."""
        own = ExitStack()
        client = self.enter(self.world.client(mode, **options), own)
        self.stack.callback(own.close)
        return client, own.close

    def come(self, guest: _GuestT) -> _GuestT:
        """Take note of a guest who is there from now on."""
        self.present.append(guest)
        return guest

    @rule(guest=consumes(guests))
    def leave(self, guest: Guest) -> None:
        """Have a guest go."""
        guest.close()
        self.present.remove(guest)

    def teardown(self) -> None:
        """End the world and its thread."""
        self.stack.close()
