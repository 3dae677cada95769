"""A fleet of real servers, and all that it told the rest of the program.

async with fleet_of(settings_of(fake)) as it:
    assert await it.text("fake", "echo", {"a": 1}) == '{"a": 1}'
"""

import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import anyio
import anyio.lowlevel

from fakes.menu import FakeServer
from patience import patience_s
from toolcrib.base.errors import StartFailed
from toolcrib.config.schema import LimitsSection, ServerSection
from toolcrib.config.settings import HttpTarget, ServerSettings, StdioTarget
from toolcrib.downstream.connection import Era, Greeting
from toolcrib.downstream.fleet import Fleet, open_fleet
from toolcrib.downstream.isolation import Isolation
from toolcrib.downstream.lifecycle import DownstreamDependencies
from toolcrib.downstream.states import RawList, State, Status
from toolcrib.downstream.suspended import SuspendedCalls
from toolcrib.downstream.transport import Connector, open_streams
from toolcrib.policy.requests import OWN_REQUEST, Progress, Request
from toolcrib.policy.sessions import Caller, NoActivations, Session
from waiting import DEADLINE_S, PATIENCE_S, passing, settled, time_passes, until

__all__ = [
    "DEADLINE_S",
    "HURRIED_S",
    "LATE_S",
    "PATIENCE_S",
    "TEST_S",
    "JsonObject",
    "Stopwatch",
    "Watched",
    "asleep",
    "fleet_of",
    "http_settings",
    "passing",
    "session_of",
    "settings_of",
    "settled",
    "time_passes",
    "until",
]

JsonObject = dict[str, Any]
TEST_S = patience_s(50)
HURRIED_S = 0.3
"""How long servers get to end in a test that has one which does not end by itself, and no other."""

LATE_S = patience_s(10)
"""How long what ends at once may take on a busy machine."""


def session_of(*capabilities: str, is_modern: bool = False) -> Session:
    """Return the session of a client that can do this."""
    caller, can_do = Caller(), {each: dict[str, Any]() for each in capabilities}
    return Session("s", caller, NoActivations(), growing=False, is_modern=is_modern, capabilities=can_do)


@dataclass
class Watched:
    """A running fleet. ``lists`` are the tool names of each listing with its era, ``cuts`` why they are not whole;
    ``states`` every change of state.

    A ``listing_error`` is what taking in a list fails with. Servers are used on the connections of ``session``.
    """

    session: Session = OWN_REQUEST.session
    fleet: Fleet = field(init=False)
    lists: list[tuple[str, list[str], Era]] = field(default_factory=list)
    cuts: list[str] = field(default_factory=list)
    states: list[tuple[str, Status]] = field(default_factory=list)
    starting_most: int = 0
    listing_error: Exception | None = None

    async def listed(self, server: ServerSettings, raw: RawList, greeting: Greeting) -> Mapping[str, str]:
        if self.listing_error is not None:
            raise self.listing_error
        self.cuts.append(raw.cut)
        self.lists.append((server.key, [tool["name"] for tool in raw.items], greeting.era))
        await anyio.lowlevel.checkpoint()
        return {tool["name"]: json.dumps(tool, sort_keys=True) for tool in raw.items}

    async def compared(self, server: ServerSettings, raw: list[Any]) -> tuple[Mapping[str, str], Mapping[str, str]]:
        listed = await self.listed(server, RawList(raw), Greeting("legacy"))
        return listed, listed

    def state_changed(self, key: str, status: Status) -> None:
        self.states.append((key, status))
        latest = {key: status.state for key, status in self.states}
        self.starting_most = max(self.starting_most, list(latest.values()).count(State.STARTING))

    def states_of(self, key: str = "fake") -> list[str]:
        """Return the states that a server went through."""
        return [status.state.value for one, status in self.states if one == key]

    def reason(self, key: str = "fake") -> str:
        """Return why a server is in its state."""
        return self.fleet[key].status.reason

    async def call(
        self, key: str, name: str, arguments: JsonObject | None = None, on_progress: Progress | None = None
    ) -> JsonObject:
        """Call a tool, as the server lists it now, and return the raw result."""
        await self.fleet.resolve(key, self.session).connection()
        return await self.send(key, name, {"arguments": arguments or {}}, on_progress=on_progress)

    async def send(
        self,
        key: str,
        name: str,
        params: JsonObject,
        *,
        fingerprint: str | None = None,
        on_progress: Progress | None = None,
    ) -> JsonObject:
        """Send a call with further params, decided by the list as it is now unless a fingerprint is given."""
        server = self.fleet.resolve(key, self.session)
        decided_by = server.live.get(name, "") if fingerprint is None else fingerprint
        request = Request(self.session, on_progress=on_progress)
        with server.open_call(
            request, "tools/call", {"name": name, **params}, target=name, fingerprint=decided_by
        ) as call:
            return await server.calls.run(call)

    async def text(self, key: str, name: str, arguments: JsonObject | None = None) -> str:
        """Call a tool and return the text of its result."""
        return (await self.call(key, name, arguments))["content"][0]["text"]

    async def up(self, key: str = "fake") -> None:
        """Start a server."""
        await self.fleet[key].connection()

    async def answers(self, key: str, name: str) -> None:
        """Call a tool until it answers, however often the server is not started for it."""
        with anyio.fail_after(PATIENCE_S):
            while True:
                with suppress(StartFailed):
                    await self.call(key, name)
                    return

    async def is_in(self, state: State, key: str = "fake") -> None:
        """Wait until a server is in a state."""
        await until(lambda: self.fleet[key].status.state is state)


@asynccontextmanager
async def fleet_of(
    *servers: ServerSettings,
    eras: Mapping[str, Era] | None = None,
    session: Session = OWN_REQUEST.session,
    jitter: float = 0.0,
    connector: Connector = open_streams,
    **limits: Any,
) -> AsyncGenerator[Watched]:
    """Run a fleet. The shortest pause after a failure is a quarter of a second."""
    bounds = LimitsSection.model_validate({"close_timeout_s": DEADLINE_S, **limits})
    watched = Watched(session)
    dependencies = DownstreamDependencies(
        bounds,
        connector,
        watched.listed,
        watched.state_changed,
        lambda: jitter,
        watched.compared,
        Isolation(),
        SuspendedCalls(bounds),
    )
    with anyio.fail_after(TEST_S):
        async with open_fleet({server.key: server for server in servers}, eras or {}, dependencies) as watched.fleet:
            yield watched


def settings_of(fake: FakeServer, secrets: tuple[str, ...] = (), **options: Any) -> ServerSettings:
    """Return the settings of a fake on stdio."""
    target = StdioTarget(fake.command, tuple(fake.args), {"PATH": "/usr/bin:/bin"}, None)
    return ServerSettings(fake.name, target, ServerSection(**options), "fingerprint", secrets)


def http_settings(
    url: str, key: str = "web", headers: Mapping[str, str] | None = None, *, sse: bool = False, **options: Any
) -> ServerSettings:
    """Return the settings of a server on HTTP."""
    return ServerSettings(key, HttpTarget(url, headers or {}, sse), ServerSection(**options), "fingerprint")


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._began = monotonic()

    @property
    def seconds(self) -> float:
        return monotonic() - self._began


def asleep() -> subprocess.Popen[bytes]:
    """Start a process that nothing but a kill ends, in a group of its own."""
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    return process
