"""What transports serve: the wire of the config currently in use.

Knows which wire is current; never knows a config, or why another one takes its place.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from mcp.server import Server

from toolcrib.jsonrpc.sdk import ServerMiddleware
from toolcrib.policy.sessions import Session
from toolcrib.wire.greeting import Greeter, GreetingParts
from toolcrib.wire.server import Wire


class Gateway:
    """Forwards to the current wire. A request ends on the wire on which it began; connections outlive wires.

    ``server`` is run by the SDK. ``wire`` is set before anybody is served.
    """

    wire: Wire

    def __init__(self) -> None:
        self.server = self.server_behind()

    def server_behind(self, *front: ServerMiddleware[Any]) -> Server[Any]:
        """Return the server for the SDK to run, with the transport's middleware in front."""
        return cast("Server[Any]", _StandIn(self, front))

    def use(self, wire: Wire, lists: Mapping[Session, tuple[object, ...]]) -> None:
        """Switch to another wire, and notify everybody whose list differs from the one in ``lists``."""
        before, self.wire = self.wire, wire
        wire.take_over(before, lists)

    def serves_modern(self, params: Mapping[str, Any] | None) -> bool:
        """Return whether a request of the sessionless era with these params is served."""
        return self.wire.serves_modern(params)

    def is_ready(self) -> bool:
        """Return whether answers no longer wait for servers that are being listed for the first time."""
        return self.wire.is_ready()

    def end_subscriptions(self) -> None:
        """End every subscription gracefully."""
        self.wire.changes.end_subscriptions()

    def take_back_tools(self) -> None:
        """Notify everybody connected now, or soon, that the list of tools they received is not current."""
        self.wire.changes.take_back_tools()

    @property
    def greeting(self) -> GreetingParts:
        """The parts of an answer to ``initialize``."""
        return self.wire.greeting

    def greet_by(self, greeter: Greeter | None) -> None:
        """Let ``greeter`` answer ``initialize`` while this config is in use."""
        self.wire.greeter = greeter


class _StandIn:
    """Delegates every attribute to the current server, with the transport's middleware in front.

    The SDK asks its server for the middleware and handler for each request, and for the declaration for each
    connection; it caches none of them.
    """

    def __init__(self, gateway: Gateway, front: Sequence[ServerMiddleware[Any]]) -> None:
        self._gateway, self._front = gateway, front

    @property
    def middleware(self) -> list[ServerMiddleware[Any]]:
        return [*self._front, *self._gateway.wire.server.middleware]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gateway.wire.server, name)
