"""What a serving process tells of itself, kept up to date in its file while it runs.

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
from toolcrib.access.sessions import Session
from toolcrib.config.settings import Settings
from toolcrib.downstream.states import Status
from toolcrib.running.folder import OwnFile
from toolcrib.running.pulse import Pulse
from toolcrib.running.records import NAMES_MAX, SESSIONS_MAX, RunningCrib, RunningServer, RunningSession, RunningSkill
from toolcrib.tools.skill_tools import SkillTools

_NO_HURRY_S = 0.5
"""After how long a process tells of itself first: the first requests of its client go before."""
_PAUSE_S = 1.0
"""Between two times that it tells of itself, at least."""
_REASON_MAX = 500

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Process:
    """What stays the same of a process for as long as it runs; ``began`` is in seconds since the epoch."""

    pid: int
    began: float
    transport: str
    address: str = ""


@dataclass(frozen=True, slots=True)
class Moment:
    """What is going on at one moment. ``now`` is in seconds since the epoch; states of servers are on anyio's clock.

    ``skill_tools`` tells of a session's active skills.
    """

    settings: Settings
    now: float
    seen: Iterable[Session]
    statuses: Mapping[str, Status]
    skill_tools: Callable[[Session], SkillTools]
    reload_failure: str = ""


def told(process: Process, moment: Moment) -> RunningCrib:
    """Return what a process tells of itself at a moment, without secrets."""
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
    """Keep the file that ``opened`` gives up to date with what ``tell`` returns, until cancelled.

    It is written when something has changed, at most once a second, in a worker thread. Whatever is wrong with it
    disturbs nobody: it is logged.
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
    """Return how much memory this process uses now; where that is not to be had, the most it has used, if that is."""
    if sys.platform == "win32":
        return None
    import resource  # noqa: PLC0415 - there is none on Windows

    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
