"""Opens a gateway, or only its indexes, in this process for as long as one command takes.

Slow modules are imported when a command runs, so that the other commands do not wait for them.
"""

import math
import os
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from toolcrib.base.errors import BadRequest, ToolcribError
from toolcrib.base.names import may_belong_to
from toolcrib.cli.output import load_settings
from toolcrib.cli.waiting import WaitingLine

if TYPE_CHECKING:
    from toolcrib.base.model import JsonObject
    from toolcrib.catalog.failures import KnownFailure
    from toolcrib.catalog.gate import Gate
    from toolcrib.catalog.snapshot import Catalog
    from toolcrib.catalog.tool_search import ToolFinder
    from toolcrib.config.settings import Settings
    from toolcrib.downstream.fleet import Fleet
    from toolcrib.downstream.head_start import HeadStart
    from toolcrib.gateway.composition import Gateway
    from toolcrib.gateway.offline import Offline
    from toolcrib.gateway.status import Status
    from toolcrib.gateway.tools import ToolUseCases
    from toolcrib.policy.sessions import Session
    from toolcrib.skills.use_cases import SkillUseCases

_Answer = TypeVar("_Answer")

_LOOK_S = 0.05
"""Seconds between two looks at which servers are still being listed."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """What the index has: the tools, the search among them, and the servers that were never listed as configured."""

    settings: "Settings"
    catalog: "Catalog"
    finder: "ToolFinder"
    gate: "Gate"
    unlisted: list[str]


@dataclass(frozen=True, slots=True)
class Tried:
    """The result of starting a server once; ``seconds`` is None if it did not answer in time.

    ``failed`` is why it is down, empty where it is not; ``needs_login``: for want of that. ``era`` is the kind of
    protocol that it speaks. ``denied``: the policy denies all its tools to the person at this machine.
    """

    tools: int
    seconds: float | None
    era: str
    failed: str
    needs_login: bool = False
    denied: bool = False


def try_servers(
    settings: "Settings", within_s: float, line: WaitingLine, keys: Collection[str] | None = None, *, command: str
) -> dict[str, Tried]:
    """Start all servers of a config, or those of ``keys``, in parallel, list their tools, and return each result.

    Raises:
        ToolcribError: a toolcrib has started this process, or the index cannot be used.

    """
    import anyio

    from toolcrib.config.launching import refuse_nested

    # A server that runs this would be started by it again, and so on.
    refuse_nested(os.environ)
    if keys is not None:
        settings = replace(settings, servers={key: settings.servers[key] for key in keys})
    # A server that waits for its turn would be called slow.
    at_once = settings.toolcrib.limits.model_copy(update={"parallel_starts": max(1, len(settings.servers))})
    settings = replace(settings, toolcrib=settings.toolcrib.model_copy(update={"limits": at_once}))
    with line.below_the_log():
        return anyio.run(_try, _quiet(settings), within_s, line, keys, command)


async def _try(
    settings: "Settings", within_s: float, line: WaitingLine, keys: Collection[str] | None, command: str
) -> dict[str, Tried]:
    import anyio

    from toolcrib.downstream.fleet import failed
    from toolcrib.gateway.composition import open_gateway
    from toolcrib.gateway.runtime import Runtime

    took: dict[str, float] = {}
    tried: dict[str, Tried] = {}
    async with (
        open_gateway(settings, Runtime(command=command), skills=False, list_only=keys) as gateway,
        anyio.create_task_group() as tasks,
    ):
        fleet = gateway.fleet
        tasks.start_soon(line.follow, fleet)
        tasks.start_soon(_time_listings, fleet, list(settings.servers), took)
        began = anyio.current_time()
        with anyio.move_on_after(within_s):
            await gateway.fleet.list_all()
            # Those that were listed between two looks, and the last one.
            took = dict.fromkeys(settings.servers, anyio.current_time() - began) | took
        failures = failed(fleet.statuses())
        catalog = gateway.tools.indexer.current()
        counted = [tool.server for tool in catalog.tools]
        allowed = {tool.server for tool in gateway.tools.gate.allowed(_session(settings), catalog).tools}
        closed = gateway.generation.offline.indexer.closed
        for key in settings.servers:
            failed_why, needs_login = failures.get(key, ""), fleet.snapshot().needs_login(key)
            denied = key in closed or (key in counted and key not in allowed)
            era = fleet[key].era or ""
            tried[key] = Tried(counted.count(key), took.get(key), era, failed_why, needs_login, denied)
        tasks.cancel_scope.cancel()
    return tried


async def _time_listings(fleet: "Fleet", keys: list[str], took: dict[str, float]) -> None:
    """Note after how many seconds each server is no longer being listed, until cancelled."""
    import anyio

    began = anyio.current_time()
    begun = set[str]()
    while True:
        under_way = fleet.listing
        begun |= under_way
        for key in keys:
            if key in begun and key not in under_way and key not in took:
                took[key] = anyio.current_time() - began
        await anyio.sleep(_LOOK_S)


def tool_names_now(settings: "Settings") -> list[str]:
    """Return the public names of all tools in the index.

    Raises:
        StoreError: it cannot be read.

    """
    from toolcrib.gateway.offline import open_offline
    from toolcrib.gateway.runtime import Runtime

    with open_offline(settings, Runtime(), keep_rows=True) as offline:
        return [tool.public_name for tool in offline.indexer.current().tools]


@dataclass(frozen=True, slots=True)
class NeverListed:
    """Servers of which the index has no tools: those to start for a command, and those that failed before, with why."""

    started: list[str]
    left_out: "Mapping[str, KnownFailure]"


Choose = Callable[["Catalog", NeverListed], NeverListed]
"""Chooses among the servers that were never listed, by what the index has."""


def all_untried(_catalog: "Catalog", never_listed: NeverListed) -> NeverListed:
    """Choose all that never failed: what failed before would mostly fail again, and take its time."""
    return never_listed


def for_tool(name: str) -> Choose:
    """Choose for a tool: nothing if the index knows it or its server, else the server that it names, else any."""

    def choose(catalog: "Catalog", never_listed: NeverListed) -> NeverListed:
        if catalog.spelled(name) or any(may_belong_to(name, key) for key in {tool.server for tool in catalog.tools}):
            return NeverListed([], {})
        named = [key for key in (*never_listed.started, *never_listed.left_out) if may_belong_to(name, key)]
        return NeverListed(named, {}) if named else never_listed

    return choose


def with_tools(
    config: Path | None,
    use: "Callable[[ToolUseCases, Session], Awaitable[_Answer]]",
    line: WaitingLine,
    server: str | None = None,
    *,
    command: str,
    choose: Choose | None = all_untried,
    tool: str = "",
) -> _Answer:
    """Return what ``use`` does with the use cases of tools and a session of the person at this machine.

    ``line`` shows what it waits for meanwhile; events name the ``command``. Of the servers that were never listed,
    those are started that ``choose`` returns, None: all; if ``server`` is given, only that one. Any other server is
    started when a tool of it is called: that of ``tool``, which ``use`` will call, at once.

    Raises:
        ToolcribError: the config cannot be used, it has no such ``server``, or ``use`` raised it.

    """
    import anyio
    import anyio.to_thread

    from toolcrib.gateway.runtime import Runtime

    settings = _with_servers(config, server)
    left_out: dict[str, KnownFailure] = {}
    list_only = (server,) if server is not None else None if choose is None else ()

    async def run() -> _Answer | ToolcribError:
        called, is_listed = _called_server(settings, tool, command) if tool else (None, True)
        async with _started_ahead(settings, called) as ahead:
            # The SDK takes as long to import as a server to start: in a thread, what a server writes is read meanwhile.
            open_gateway = await anyio.to_thread.run_sync(load_gateway)
            runtime = Runtime(command=command, ahead=ahead)
            # Listed for the first time, it stays up for the call: it would be started twice.
            quiet = _quiet(settings, stays_up=None if is_listed else called)
            return await answered(open_gateway(quiet, runtime, skills=False, list_only=list_only))

    async def answered(opening: "AbstractAsyncContextManager[Gateway]") -> _Answer | ToolcribError:
        answer: _Answer | ToolcribError = ToolcribError("Cancelled.")
        async with opening as gateway, anyio.create_task_group() as tasks:
            if choose is not None and server is None:
                chosen = choose(gateway.tools.indexer.current(), _never_listed(gateway.generation.offline))
                gateway.list_now(chosen.started)
                left_out.update(chosen.left_out)
            tasks.start_soon(line.follow, gateway.fleet)
            answer = await _answer_or_error(use(gateway.tools, _session(settings)))
            tasks.cancel_scope.cancel()
        return answer

    with line.below_the_log():
        answer = anyio.run(run)
    for key, known in left_out.items():
        line.note(f"{key} is left out, because it failed before: {known.failure.reason}.")
    if left_out:
        line.note("`toolcrib index refresh` starts every server; `toolcrib doctor` says what to do.")
    return _raised(answer)


def load_gateway() -> "Callable[..., AbstractAsyncContextManager[Gateway]]":
    """Import what opens a gateway, the SDK with it, and return it."""
    from toolcrib.gateway.composition import open_gateway

    return open_gateway


def _called_server(settings: "Settings", tool: str, command: str) -> tuple[str | None, bool]:
    """Return the server that a call of this tool will start, None if none or unknown, and whether it was ever listed.

    It is that of a tool that the person may call, or one that was never listed and that the name names. Where a
    person may have to confirm calls, nothing starts before that.
    """
    from toolcrib.gateway.offline import open_offline
    from toolcrib.gateway.runtime import Runtime

    confirm = settings.toolcrib.policy.confirm
    if confirm.tools or confirm.effects:
        return None, True
    with open_offline(settings, Runtime(command=command), keep_rows=True) as offline:
        catalog = offline.indexer.current()
        if found := catalog.find(tool, offline.gate.permitted(_session(settings), catalog)):
            return found.server, True
        chosen = for_tool(tool)(catalog, _never_listed(offline)).started
        named = [key for key in chosen if may_belong_to(tool, key) and key not in offline.indexer.closed]
        return (named[0], False) if len(named) == 1 else (None, True)


def _started_ahead(settings: "Settings", server: str | None) -> "AbstractAsyncContextManager[HeadStart | None]":
    """Start a server; None for one that is not a process."""
    from toolcrib.config.settings import StdioTarget
    from toolcrib.downstream.head_start import head_start

    target = settings.servers[server].target if server is not None and server in settings.servers else None
    if not isinstance(target, StdioTarget) or sys.platform == "win32":
        return nullcontext()
    return head_start(target, settings.toolcrib.limits.close_timeout_s)


def _never_listed(offline: "Offline") -> NeverListed:
    unlisted, failed = offline.indexer.unlisted(), offline.failures.read()
    return NeverListed(
        [key for key in unlisted if key not in failed], {key: failed[key] for key in unlisted if key in failed}
    )


def with_index(
    config: Path | None,
    use: "Callable[[Indexed, Session], Awaitable[_Answer]]",
    server: str | None = None,
    *,
    command: str,
) -> _Answer:
    """Return what ``use`` does with the index and a session of the person at this machine; no server is started.

    Raises:
        ToolcribError: the config or the index cannot be used, it has no such ``server``, or ``use`` raised it.

    """
    import anyio

    from toolcrib.gateway.offline import open_offline
    from toolcrib.gateway.runtime import Runtime

    settings = _with_servers(config, server)

    async def run() -> _Answer:
        with open_offline(settings, Runtime(command=command), keep_rows=True) as offline:
            indexer = offline.indexer
            indexed = Indexed(settings, indexer.current(), offline.finder, offline.gate, indexer.unlisted())
            return await use(indexed, _session(settings))

    return anyio.run(run)


def with_skills(
    config: Path | None,
    use: "Callable[[SkillUseCases, Session], Awaitable[_Answer]]",
    *,
    command: str,
    decides: bool = False,
) -> _Answer:
    """Return what ``use`` does with the skills and a session of the person at this machine; no server is started.

    ``decides``: it stores a decision of the person.

    Raises:
        ToolcribError: the config cannot be used, a decision could not be stored, or ``use`` raised it.

    """
    import anyio

    from toolcrib.gateway.composition import open_gateway
    from toolcrib.gateway.runtime import Runtime

    settings = load_settings(config)

    async def run() -> _Answer | ToolcribError:
        async with open_gateway(_quiet(settings), Runtime(command=command), skills=True, list_only=()) as gateway:
            answer = await _answer_or_error(use(gateway.skills, _session(settings)))
            if decides and not isinstance(answer, ToolcribError):
                return why_not_stored(gateway.generation.offline) or answer
            return answer

    return _raised(anyio.run(run))


def why_not_stored(offline: "Offline") -> ToolcribError | None:
    """Return why the decisions made so far are not in their file; None if they are."""
    if offline.state.store.path is not None:
        return None
    file, why = offline.settings.state_file, offline.state.store.rebuilt or "it cannot be written"
    # The store goes on in memory, which ends with this command.
    why = why.removesuffix("; it is kept in memory for now")
    return ToolcribError(
        f"Nothing was stored in {file}: {why}. Make {file.parent} writable, or name another folder by "
        "toolcrib.state_dir or TOOLCRIB_STATE_DIR; `toolcrib doctor` checks it."
    )


async def _answer_or_error(answer: Awaitable[_Answer]) -> _Answer | ToolcribError:
    """Return an answer, or the error in its place: out of the gateway's tasks it would come wrapped in groups."""
    try:
        return await answer
    except ToolcribError as error:
        return error


def _raised(answer: _Answer | ToolcribError) -> _Answer:
    if isinstance(answer, ToolcribError):
        raise answer
    return answer


def first_seen(settings: "Settings", *, whole: bool = False) -> "tuple[str, list[JsonObject]]":
    """Return the instructions and the definitions that an unknown client gets first, by the index; starts no server.

    ``whole``: as if all its tools were listed because they are few.

    Raises:
        StoreError: an index cannot be read.

    """
    import anyio

    from toolcrib.gateway.runtime import Runtime
    from toolcrib.server.serving import open_server

    session = _session(settings)

    async def run() -> "tuple[str, list[JsonObject]]":
        async with open_server(_quiet(settings), "stdio", Runtime(command="tokens"), list_only=()) as serving:
            if whole:
                session.whole_list = await serving.gateway.whole_lists.of_all(session)
            else:
                await serving.gateway.whole_lists.settle(session)
            instructions = await serving.handler.instructions.told_to(session, is_rehearsal=True)
            return instructions, await serving.handler.listing.definitions(session)

    return anyio.run(run)


def status_now(settings: "Settings") -> "Status":
    """Return the status as the indexes tell it, to the person at this machine; starts no server, scans no skills.

    Raises:
        StoreError: an index cannot be read.

    """
    import anyio

    from toolcrib.gateway.runtime import Runtime
    from toolcrib.gateway.status import open_status

    async def run() -> "Status":
        with open_status(settings, Runtime()) as status:
            return await status.read(_session(settings))

    return anyio.run(run)


def _with_servers(config: Path | None, server: str | None) -> "Settings":
    """Return the settings of a config that has servers, and among them ``server``, if one is named.

    Raises:
        ConfigError: it cannot be used.
        BadRequest: there is no server in it, or not that one; the text says why.
        StartRefused: a toolcrib has started this process.

    """
    from toolcrib.config.launching import refuse_nested

    refuse_nested(os.environ)
    settings = load_settings(config)
    if reason := settings.why_no_servers:
        raise BadRequest(f"There is nothing to search: {reason.text}.")
    if server is not None and server not in settings.servers:
        from toolcrib.config.findings import did_you_mean

        if why := settings.why_left_out(server):
            raise BadRequest(f"The server {server!r} is left out: it {why}.")
        raise BadRequest(f"There is no server {server!r}: {did_you_mean(server, settings.servers)}")
    return settings


def _session(settings: "Settings") -> "Session":
    from toolcrib.policy.sessions import RunActivations, Session, local_caller

    return Session("command-line", local_caller(settings), RunActivations(), growing=False)


def _quiet(settings: "Settings", stays_up: str | None = None) -> "Settings":
    """Return the settings without what keeps servers up, but for one, or looks for news in the background."""
    servers = {
        key: replace(
            server, options=server.options.model_copy(update={"start": "eager" if key == stays_up else "lazy"})
        )
        for key, server in settings.servers.items()
    }
    limits = settings.toolcrib.limits.model_copy(update={"catalog_max_age_s": math.inf})
    return replace(settings, servers=servers, toolcrib=settings.toolcrib.model_copy(update={"limits": limits}))
