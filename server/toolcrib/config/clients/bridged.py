"""Clients' servers that use a bridge, and the equivalent direct servers.

Knows which entries run one; never knows whether a server wants a login.
"""

from collections.abc import Iterable
from dataclasses import replace

from toolcrib.config.clients.reading import FoundServer
from toolcrib.config.servers import bridge_in


def bridged(servers: Iterable[FoundServer]) -> list[FoundServer]:
    """Return those of the servers that are reached by a bridge."""
    return [server for server in servers if not server.read.lost and bridge_in(server.read.entry)]


def without_bridges(servers: Iterable[FoundServer]) -> list[FoundServer]:
    """Return the servers, each reached by itself; where that takes a step of the person, a notice says so."""
    return [_direct(server) for server in servers]


def _direct(server: FoundServer) -> FoundServer:
    bridge = None if server.read.lost else bridge_in(server.read.entry)
    if bridge is None:
        return server
    notices = [
        *server.read.notices,
        "without mcp-remote, whose logins toolcrib cannot use: run `toolcrib login`",
    ]
    if bridge.unread:
        notices.append(f"ignored: {', '.join(bridge.unread)}")
    return replace(server, read=replace(server.read, entry=bridge.entry, notices=tuple(notices)))
