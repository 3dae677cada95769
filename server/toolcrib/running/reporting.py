"""Keeps the state file of a serving process up to date while it runs.

Knows sessions, servers and when to write; never knows where the file is, or who reads it.
"""

import json
import logging
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import anyio
import anyio.to_thread

from toolcrib import __version__
from toolcrib.catalog.gate import SkillTools
from toolcrib.config.settings import Settings
from toolcrib.downstream.states import Status
from toolcrib.policy.sessions import Session
from toolcrib.running.folder import OwnFile
from toolcrib.running.pulse import Pulse
from toolcrib.running.records import NAMES_MAX, SESSIONS_MAX, RunningCrib, RunningServer, RunningSession, RunningSkill

_NO_HURRY_S = 0.5
"""Delay before a process first reports, in seconds: its client's first requests take precedence."""
_PAUSE_S = 1.0
"""Minimum interval between two reports, in seconds."""
_REASON_MAX = 500

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Process:
    """The constant properties of a running process; ``began`` is in seconds since the epoch."""

    pid: int
    began: float
    transport: str
    address: str = ""


@dataclass(frozen=True, slots=True)
class Moment:
    """The state at one moment. ``now`` is in seconds since the epoch; states of servers are on anyio's clock.

    ``skill_tools`` returns a session's active skills with their tools.
    """

    settings: Settings
    now: float
    seen: Iterable[Session]
    statuses: Mapping[str, Status]
    skill_tools: Callable[[Session], SkillTools]
    reload_failure: str = ""


def told(process: Process, moment: Moment) -> RunningCrib:
    """Return a process's report at a moment, without secrets."""
    clean, behind = moment.settings.redactor.redact, moment.now - anyio.current_time()
    seen = sorted(moment.seen, key=lambda each: each.trail.active, reverse=True)
    return RunningCrib(
        pid=process.pid,
        version=__version__,
        transport=process.transport,
        address=process.address,
        config=moment.settings.source,
        began=process.began,
        told=moment.now,
        memory_bytes=None,
        session_count=len(seen),
        sessions=tuple(_session(each, moment.skill_tools(each), clean) for each in seen[:SESSIONS_MAX]),
        servers=tuple(
            RunningServer(key, status.state.value, clean(status.reason[:_REASON_MAX]), status.since + behind)
            for key, status in moment.statuses.items()
        ),
        reload_failure=clean(moment.reload_failure[:_REASON_MAX]),
    )


def _session(seen: Session, skill_tools: SkillTools, clean: Callable[[str], str]) -> RunningSession:
    trail = seen.trail
    return RunningSession(
        label=clean(seen.label),
        client=clean(seen.client),
        listing=seen.served.listing,
        began=trail.began,
        active=trail.active,
        searches=trail.searches,
        calls=trail.calls,
        failed=trail.failed,
        activated=tuple(sorted(seen.activations.names)[:NAMES_MAX]),
        skills=tuple(trail.skills)[-NAMES_MAX:],
        active_skills=tuple(
            RunningSkill(name, dict(islice(tools.items(), NAMES_MAX))) for name, tools in skill_tools.items()
        ),
    )


async def keep_told(
    opened: Callable[[], AbstractContextManager[OwnFile | None]], tell: Callable[[], RunningCrib], pulse: Pulse
) -> None:
    """Keep the file that ``opened`` yields up to date with the result of ``tell``, until cancelled.

    It is written when something has changed, at most once a second, in a worker thread. Errors are only logged.
    """
    await anyio.sleep(_NO_HURRY_S)
    with ExitStack() as files:
        try:
            own = await anyio.to_thread.run_sync(files.enter_context, opened())
            while own is not None:
                await anyio.to_thread.run_sync(_write, own, tell())
                await pulse.next()
                await anyio.sleep(_PAUSE_S)
            _log.info("nobody can be told of this process: there is no private folder for its file")
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(files.close)


def _write(own: OwnFile, crib: RunningCrib) -> None:
    try:
        own.write(json.dumps(replace(crib, memory_bytes=_memory_bytes()).as_json))
    except OSError as error:
        _log.info("what this process does cannot be told: %s", error.strerror)


def _memory_bytes() -> int | None:
    """Return the current memory use of this process; else its maximum so far, if available."""
    if sys.platform == "win32":
        return None
    import resource  # noqa: PLC0415 - there is none on Windows

    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
