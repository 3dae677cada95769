"""What running toolcribs are doing: each keeps a private file up to date, which `toolcrib top` reads (ADR 35)."""

import json
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from toolcrib import __version__
from toolcrib.base.json_values import as_list, as_object
from toolcrib.base.model import JsonObject
from toolcrib.base.signals import ChangeSignal
from toolcrib.catalog.gate import SkillTools
from toolcrib.config.paths import RUNNING, user_cache_root
from toolcrib.config.settings import Settings
from toolcrib.downstream.states import Status
from toolcrib.policy.sessions import Session
from toolcrib.storage.files import identity_of, lock_file, private_directory

_APP = "toolcrib"
_LOCK, _FILE, _NEW = ".lock", ".json", ".new"
_TRIES = 5
_FILES_MAX, _BYTES_MAX = 200, 4 * 1024 * 1024
"""Maximum number of files read from one folder, and bytes of one file."""

_FIRST_REPORT_S = 0.5
"""Delay before a process first reports, in seconds: its client's first requests take precedence."""
_REPORT_EVERY_S = 1.0
"""Minimum interval between two reports, in seconds."""

SESSIONS_MAX, NAMES_MAX = 50, 100
"""Maximum number of reported sessions, the most recently active ones; and of names in one list."""
_REASON_MAX = 500

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunningSkill:
    """One active skill: its label, and the public names and states of the tools that it names."""

    name: str
    tools: Mapping[str, str]

    @property
    def as_json(self) -> JsonObject:
        """Return it as a JSON object."""
        return {"name": self.name, "tools": dict(self.tools)}


@dataclass(frozen=True, slots=True)
class RunningSession:
    """One session: its label in events, its client's name, its kind of list, and its activity.

    Times are seconds since the epoch; ``active`` is the time of its last request. ``activated`` are public names of
    tools, ``skills`` those that it received, each the last :data:`NAMES_MAX`; ``active_skills`` are active now.
    ``tokens_saved`` is an estimate of what its programs saved.
    """

    label: str
    client: str
    listing: str
    began: float
    active: float
    searches: int
    calls: int
    failed: int
    programs: int
    tokens_saved: int
    activated: tuple[str, ...]
    skills: tuple[str, ...]
    active_skills: tuple[RunningSkill, ...]

    @property
    def as_json(self) -> JsonObject:
        """Return it as a JSON object."""
        return {
            "session": self.label,
            "client": self.client,
            "listing": self.listing,
            "began": _text(self.began),
            "active": _text(self.active),
            "searches": self.searches,
            "calls": self.calls,
            "failed": self.failed,
            "programs": self.programs,
            "tokens_saved": self.tokens_saved,
            "activated": list(self.activated),
            "skills": list(self.skills),
            "active_skills": [each.as_json for each in self.active_skills],
        }


@dataclass(frozen=True, slots=True)
class RunningServer:
    """One server: its state, the reason, if there is one, since when, and the protocol revision spoken with it."""

    key: str
    state: str
    reason: str
    since: float
    protocol: str = ""

    @property
    def as_json(self) -> JsonObject:
        """Return it as a JSON object."""
        return {
            "server": self.key,
            "state": self.state,
            "reason": self.reason,
            "since": _text(self.since),
            "protocol": self.protocol,
        }


@dataclass(frozen=True, slots=True)
class RunningInstance:
    """One process. ``written`` is when it wrote this record, ``memory_bytes`` its memory use then; None if unknown.

    ``transport`` is ``stdio`` or ``http``, ``address`` its address over HTTP. ``sessions`` are the most recently
    active, latest first, of ``session_count`` in all. ``reload_failure`` says why its config could not be reloaded.
    """

    pid: int
    version: str
    transport: str
    address: str
    config: str
    began: float
    written: float
    memory_bytes: int | None
    session_count: int
    sessions: tuple[RunningSession, ...]
    servers: tuple[RunningServer, ...]
    reload_failure: str = ""

    @property
    def as_json(self) -> JsonObject:
        """Return it as a JSON object."""
        return {
            "pid": self.pid,
            "version": self.version,
            "transport": self.transport,
            "address": self.address or None,
            "config": self.config,
            "began": _text(self.began),
            "told": _text(self.written),
            "memory_bytes": self.memory_bytes,
            "calls": sum(each.calls for each in self.sessions),
            "failed": sum(each.failed for each in self.sessions),
            "session_count": self.session_count,
            "sessions": [each.as_json for each in self.sessions],
            "servers": [each.as_json for each in self.servers],
            "reload_failure": self.reload_failure or None,
        }


def parse_instance(document: Any) -> RunningInstance | None:
    """Parse the file of a running toolcrib; None if it is not in this version's format."""
    raw = as_object(document)
    try:
        memory = raw["memory_bytes"]
        return RunningInstance(
            pid=int(raw["pid"]),
            version=str(raw["version"]),
            transport=str(raw["transport"]),
            address=str(raw["address"] or ""),
            config=str(raw["config"]),
            began=_seconds(raw["began"]),
            written=_seconds(raw["told"]),
            memory_bytes=None if memory is None else int(memory),
            session_count=int(raw["session_count"]),
            sessions=tuple(_parsed_session(as_object(each)) for each in as_list(raw["sessions"])),
            servers=tuple(_server(as_object(each)) for each in as_list(raw["servers"])),
            reload_failure=str(raw["reload_failure"] or ""),
        )
    # Another version may have other members: then its process is not shown, which is no error.
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _parsed_session(raw: JsonObject) -> RunningSession:
    return RunningSession(
        label=str(raw["session"]),
        client=str(raw["client"]),
        listing=str(raw["listing"]),
        began=_seconds(raw["began"]),
        active=_seconds(raw["active"]),
        searches=int(raw["searches"]),
        calls=int(raw["calls"]),
        failed=int(raw["failed"]),
        programs=int(raw.get("programs", 0)),
        tokens_saved=int(raw.get("tokens_saved", 0)),
        activated=_names(as_list(raw["activated"])),
        skills=_names(as_list(raw["skills"])),
        active_skills=tuple(_skill(as_object(each)) for each in as_list(raw["active_skills"])),
    )


def _skill(raw: JsonObject) -> RunningSkill:
    return RunningSkill(str(raw["name"]), {name: str(state) for name, state in as_object(raw["tools"]).items()})


def _server(raw: JsonObject) -> RunningServer:
    state = str(raw["state"]), str(raw["reason"]), _seconds(raw["since"])
    return RunningServer(str(raw["server"]), *state, str(raw.get("protocol", "")))


def _names(raw: Iterable[Any]) -> tuple[str, ...]:
    return tuple(map(str, raw))


def _text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@dataclass(frozen=True, slots=True)
class Process:
    """The constant properties of a running process; ``began`` is in seconds since the epoch."""

    pid: int
    began: float
    transport: str
    address: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a gateway is doing. ``now`` is in seconds since the epoch; states of servers are on anyio's clock.

    ``sessions`` are those of all clients, ``skill_tools`` returns the active skills of one with their tools.
    """

    settings: Settings
    now: float
    sessions: Iterable[Session]
    statuses: Mapping[str, Status]
    skill_tools: Callable[[Session], SkillTools]
    reload_failure: str = ""


def describe_instance(process: Process, snapshot: Snapshot) -> RunningInstance:
    """Return a process's report at a snapshot, without secrets."""
    clean, behind = snapshot.settings.redactor.redact, snapshot.now - anyio.current_time()
    seen = sorted(snapshot.sessions, key=lambda each: each.history.active, reverse=True)
    return RunningInstance(
        pid=process.pid,
        version=__version__,
        transport=process.transport,
        address=process.address,
        config=snapshot.settings.source,
        began=process.began,
        written=snapshot.now,
        memory_bytes=None,
        session_count=len(seen),
        sessions=tuple(_running_session(each, snapshot.skill_tools(each), clean) for each in seen[:SESSIONS_MAX]),
        servers=tuple(
            RunningServer(
                key,
                status.state.value,
                clean(status.reason[:_REASON_MAX]),
                status.since + behind,
                status.spoken.protocol if status.spoken else "",
            )
            for key, status in snapshot.statuses.items()
        ),
        reload_failure=clean(snapshot.reload_failure[:_REASON_MAX]),
    )


def _running_session(seen: Session, skill_tools: SkillTools, clean: Callable[[str], str]) -> RunningSession:
    history = seen.history
    return RunningSession(
        label=clean(seen.label),
        client=clean(seen.client),
        listing=seen.client_profile.listing,
        began=history.began,
        active=history.active,
        searches=history.searches,
        calls=history.calls,
        failed=history.failed,
        programs=history.programs,
        tokens_saved=history.tokens_saved,
        activated=tuple(sorted(seen.activations.names)[:NAMES_MAX]),
        skills=tuple(history.skills)[-NAMES_MAX:],
        active_skills=tuple(
            RunningSkill(name, dict(islice(tools.items(), NAMES_MAX))) for name, tools in skill_tools.items()
        ),
    )


class InstanceFile:
    """The file of this process. Each write replaces the content atomically."""

    def __init__(self, lock: Path) -> None:
        self._file, self._new = lock.with_suffix(_FILE), lock.with_suffix(_NEW)

    def write(self, text: str) -> None:
        """Replace the file's content with ``text``. Blocks.

        Raises:
            OSError: it cannot be written; its content is unchanged.

        """
        # Private from its creation on: before a later chmod others could open it.
        self._new.touch(mode=0o600)
        self._new.write_text(text, encoding="utf-8")
        self._new.replace(self._file)

    def remove(self) -> None:
        """Delete the file."""
        for path in (self._new, self._file):
            with suppress(OSError):
                path.unlink(missing_ok=True)


@contextmanager
def open_instance_file(environ: Mapping[str, str], pid: int) -> Generator[InstanceFile | None]:
    """Yield the file of this process, and delete it in the end; None if no folder can be used. Blocks.

    Next to it is a file that this process keeps locked: however it ends, the lock is released, and any process that
    finds the file then deletes it.
    """
    with ExitStack() as stack:
        lock = next(
            (found for folder in instance_folders(environ) if (found := _locked_file(stack, folder, pid))), None
        )
        if lock is None:
            yield None
            return
        stack.callback(_unlink, lock)  # on Windows not while it is open, so the next sweep removes it there
        own = InstanceFile(lock)
        stack.callback(own.remove)
        yield own


def read_instance_files(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the files' contents of running processes; those of ended processes are deleted. Blocks."""
    for folder in instance_folders(environ):
        if not _is_private(folder):
            continue
        for lock in sorted(folder.glob(f"*{_LOCK}"))[:_FILES_MAX]:
            if _is_abandoned(lock):
                InstanceFile(lock).remove()
                _unlink(lock)
                continue
            # Its process may end meanwhile, and delete the file.
            with suppress(OSError, UnicodeDecodeError), lock.with_suffix(_FILE).open(encoding="utf-8") as file:
                yield file.read(_BYTES_MAX)


def instance_folders(environ: Mapping[str, str]) -> list[Path]:
    """Return the folders that may have files, the preferred one first.

    A client may start toolcrib with an almost empty environment, while a person's shell has a complete one: so
    systemd's folder for each user is included even if its variable is not set.
    """
    runtime = environ.get("XDG_RUNTIME_DIR") or (f"/run/user/{os.getuid()}" if sys.platform == "linux" else "")
    usual = [Path(runtime, _APP)] if Path(runtime).is_absolute() and Path(runtime).is_dir() else []
    return [*usual, user_cache_root(environ) / RUNNING]


def _locked_file(stack: ExitStack, folder: Path, pid: int) -> Path | None:
    """Create a file in ``folder`` that is locked until the stack is closed, and return it; None on failure."""
    with suppress(OSError):
        private_directory(folder)
        if not _is_private(folder):
            return None
        for _ in range(_TRIES):
            descriptor, name = tempfile.mkstemp(_LOCK, f"{pid}-", folder)
            lock = Path(name)
            # Before it was locked, another process may have deleted it as abandoned.
            if lock_file(descriptor, exclusive=True) and identity_of(lock) == _identity(descriptor):
                stack.callback(os.close, descriptor)
                return lock
            os.close(descriptor)
            _unlink(lock)
    return None


def _is_private(folder: Path) -> bool:
    """Return whether a folder is ours and inaccessible to others."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    if sys.platform == "win32":
        return folder.is_dir()
    return folder.is_dir() and not folder.is_symlink() and status.st_uid == os.getuid() and not status.st_mode & 0o077


def _is_abandoned(lock: Path) -> bool:
    """Return whether the process that locked a file has ended."""
    try:
        # Not through a link: what is found abandoned is deleted.
        descriptor = os.open(lock, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return False
    try:
        return lock_file(descriptor, exclusive=False)
    finally:
        os.close(descriptor)


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _unlink(path: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)


async def keep_instance_file(
    opened: Callable[[], AbstractContextManager[InstanceFile | None]],
    describe: Callable[[], RunningInstance],
    changed: ChangeSignal,
) -> None:
    """Keep the file that ``opened`` yields up to date with the result of ``describe``, until cancelled.

    It is written when something has changed, at most once a second, in a worker thread. Errors are only logged.
    """
    await anyio.sleep(_FIRST_REPORT_S)
    with ExitStack() as files:
        try:
            own = await anyio.to_thread.run_sync(files.enter_context, opened())
            while own is not None:
                await anyio.to_thread.run_sync(_write, own, describe())
                await changed.wait()
                # What changes during the pause is in the next report: one write, however much happens.
                await anyio.sleep(_REPORT_EVERY_S)
            _log.info("this process is not shown by `toolcrib top`: there is no private folder for its file")
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(files.close)


def _write(own: InstanceFile, instance: RunningInstance) -> None:
    try:
        own.write(json.dumps(replace(instance, memory_bytes=_memory_bytes()).as_json))
    except OSError as error:
        _log.info("the state of this process cannot be written: %s", error.strerror)


def _memory_bytes() -> int | None:
    """Return the current memory use of this process; else its maximum so far, if available."""
    if sys.platform == "win32":
        return None
    import resource  # noqa: PLC0415 - there is none on Windows

    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        # In bytes on macOS, in KiB elsewhere.
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
