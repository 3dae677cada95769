"""Notices every call that may block while the event loop waits for it: files, SQLite, sleep, processes, host names.

So are imports in functions, also those that another test's have made quick: which test comes first does not matter.

By call, not by time: a call that took no time here stands still for seconds where a disk is slow or a file is locked.
``ALLOWED`` has what may do so all the same, each with its reason.
"""

import asyncio  # noqa: TID251 - whether a loop is running on this thread
import builtins
import functools
import inspect
import os
import sqlite3
import stat
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

ALLOWED = {
    "toolcrib.gateway.composition:_open_connector": "the start and the end",
    "toolcrib.cli.in_process:status_now": "one command of a person, that only reads files",
    "toolcrib.cli.in_process:with_tools": "one command of a person: nobody else waits for its loop",
    "toolcrib.cli.in_process:try_servers": "likewise",
    "toolcrib.cli.in_process:with_index": "one command of a person, that only reads files",
    "toolcrib.cli.in_process:with_skills": "one command of a person",
    "toolcrib.cli.enriching:enrich": "one command of a person",
    "toolcrib.cli.login:_log_in_and_list": "one command of a person",
    "toolcrib.cli.login:logout": "one command of a person",
    "toolcrib.events.log:Batches.flush": "the end; and when a thousand events wait for a disk that is too slow",
    "toolcrib.catalog.tool_search:ToolFinder._shown": "one read of the few rows that a quick search has found",
    "toolcrib.catalog.arguments:ArgumentChecks._read_schema": "one row, when a tool is called first, or is huge",
    "toolcrib.downstream.process:_spawn": "the loop itself starts processes, by a fork and an exec",
    "toolcrib.downstream.process:Lifeline.ready": "likewise, once, with the first server",
    "toolcrib.programs.workers:_spawned": "likewise, once for many programs",
    "toolcrib.server.http:serve_http.<locals>.serve": "the start of the HTTP server",
}
"""Functions, as ``module:qualified name``, that may block the loop or whatever they call; each with its reason."""

NOT_OURS = ("logging", "traceback", "linecache", "coverage", "encodings")
"""Modules that open files whoever is running: to write a traceback, to measure which lines are run, or, once a process,
to load the codec of a body that is not UTF-8, which the SDK's JSON parser looks for."""

LOADED = ("mcp", "pydantic", "collections", "typing")
"""Packages that whoever serves has loaded before; the first is imported in functions for those that serve nobody, the
second, and through it the third, by its own core, which has no frame and seems to be whoever calls it; the last one by
Python itself from 3.12 on, wherever a generic class is named."""

AUDITED = frozenset(
    {
        *("open", "os.chmod", "os.chown", "os.link", "os.listdir", "os.mkdir", "os.remove", "os.rename", "os.rmdir"),
        *("os.scandir", "os.symlink", "os.truncate", "os.utime", "os.walk", "fcntl.flock", "fcntl.lockf"),
        *("shutil.copyfile", "shutil.move", "shutil.rmtree", "tempfile.mkdtemp", "tempfile.mkstemp"),
        *("subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system"),
        *("socket.getaddrinfo", "socket.gethostbyaddr", "socket.gethostbyname", "socket.getnameinfo"),
        "sqlite3.connect",
    }
)
"""What Python itself tells of (its table of audit events)."""

ROOT = Path(__file__).resolve().parents[1]
OURS, TESTS = f"{ROOT / 'server' / 'toolcrib'}{os.sep}", f"{ROOT / 'tests'}{os.sep}"
SEEN_THROUGH = (__file__, f"{TESTS}delays.py")
"""Files whose functions stand between the loop, or a thread, and whatever it calls."""

_ASYNC = 0x80 | 0x200
"""Flags of the code of coroutines and asynchronous generators."""

_watching: list[list[str]] = []
"""Where calls are noted, by whoever watches; the innermost one counts."""


@contextmanager
def watched() -> Generator[list[str]]:
    """Give the list of calls that block the loop while this is open, each with the functions of ours that led to it."""
    calls: list[str] = []
    _watching.append(calls)
    try:
        yield calls
    finally:
        _watching.pop()


def notice(what: str) -> None:
    """Note a call that may block, if it is made on the thread of a running loop, and by the product."""
    if not _watching or asyncio._get_running_loop() is None:
        return
    if ours := _functions_of_ours(sys._getframe(1)):
        _watching[-1].append(f"{' '.join(what.split())[:100]} in {' < '.join(ours)}")


def _functions_of_ours(frame: FrameType | None) -> list[str]:
    """Return the product's functions that a call comes from, the nearest first; none where one of them may block.

    A test may call a function that blocks. A coroutine of ours may not, whoever waits for it.
    """
    found: list[str] = []
    is_async = False
    while frame is not None:
        code = frame.f_code
        whose = _whose(code.co_filename)
        if whose == "ours":
            name = f"{frame.f_globals.get('__name__', '?')}:{code.co_qualname}"
            if name in ALLOWED:
                return []
            found.append(name)
            is_async = is_async or bool(code.co_flags & _ASYNC)
        elif whose == "a test's":
            return found if is_async else []
        elif not found and frame.f_globals.get("__name__", "").partition(".")[0] in NOT_OURS:
            return []
        frame = frame.f_back
    return found


@functools.cache
def _whose(file: str) -> str:
    """Return who has written a file: ``ours``, ``a test's``, or an empty text for everybody else."""
    if file.startswith(OURS):
        return "ours"
    return "a test's" if file.startswith(TESTS) and file not in SEEN_THROUGH else ""


# -- how calls are seen --------------------------------------------------------------------------


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event in AUDITED:
        notice(f"{event}({arguments[0] if arguments else ''})")


class WatchedConnection(sqlite3.Connection):
    """A connection whose statements are noticed. It never waits for the disk: nobody cuts the power of a test."""

    def execute(self, statement: str, *given: Any) -> sqlite3.Cursor:
        notice(f"SQLite: {statement}")
        if statement.startswith("PRAGMA synchronous ="):
            statement = "PRAGMA synchronous = OFF"
        return super().execute(statement, *given)

    def executemany(self, *given: Any) -> sqlite3.Cursor:
        notice(f"SQLite: {given[0]}")
        return super().executemany(*given)

    def executescript(self, *given: Any) -> sqlite3.Cursor:
        notice(f"SQLite: {given[0]}")
        return super().executescript(*given)

    def backup(self, *given: Any, **options: Any) -> None:
        notice("SQLite: a backup")
        super().backup(*given, **options)

    def close(self) -> None:
        notice("SQLite: a connection is closed")
        super().close()


def _noticing(function: Callable[..., Any], is_file: Callable[..., bool]) -> Callable[..., Any]:
    """Return a function that Python does not tell of, made to be noticed where it is about a file."""

    @functools.wraps(function)
    def noticed(*given: Any, **options: Any) -> Any:
        if _watching and asyncio._get_running_loop() is not None and is_file(*given):
            notice(f"{function.__module__}.{function.__name__}({given[0]})")
        return function(*given, **options)

    for supported in (os.supports_dir_fd, os.supports_effective_ids, os.supports_fd, os.supports_follow_symlinks):
        if function in supported:
            supported.add(noticed)
    return noticed


def _importing(imported: Callable[..., ModuleType]) -> Callable[..., ModuleType]:
    """Return what imports, made to be noticed where a function of ours does it: the first one to do so reads files."""

    @functools.wraps(imported)
    def noticed(name: str, *given: Any, **options: Any) -> ModuleType:
        # What rules out most imports comes first: there are a hundred a test.
        if _watching and asyncio._get_running_loop() is not None and name.partition(".")[0] not in LOADED:
            code = sys._getframe(1).f_code
            if code.co_flags & inspect.CO_OPTIMIZED and _whose(code.co_filename) == "ours":
                notice(f"import of {name}")
        return imported(name, *given, **options)

    return noticed


def install() -> None:
    """Begin to notice, for the rest of the process; does nothing the second time."""
    if hasattr(os.write, "__wrapped__"):
        return
    fstat, connect = os.fstat, sqlite3.connect
    for name in ("read", "write", "pread", "pwrite", "fsync", "ftruncate"):
        is_file = functools.partial(_is_regular, fstat)
        setattr(os, name, _noticing(getattr(os, name), is_file))
    for name in ("stat", "lstat", "readlink", "statvfs"):
        setattr(os, name, _noticing(getattr(os, name), lambda *_given: True))
    time.sleep = _noticing(time.sleep, lambda *_given: True)
    sqlite3.connect = functools.wraps(connect)(functools.partial(_connect, connect))
    builtins.__import__ = _importing(builtins.__import__)
    sys.addaudithook(_audit)


def _is_regular(fstat: Callable[[int], os.stat_result], fd: int, *_given: Any) -> bool:
    try:
        return stat.S_ISREG(fstat(fd).st_mode)
    except OSError:
        return False


def _connect(connect: Callable[..., Any], *given: Any, **options: Any) -> sqlite3.Connection:
    return connect(*given, **{"factory": WatchedConnection, **options})
