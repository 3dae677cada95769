"""Answers ``initialize`` and the first list as the last identical start did, if nothing has changed since.

It runs before the rest of toolcrib is loaded, so it imports almost nothing.
"""

import hashlib
import json
import os
import re
import select
import sqlite3
import stat
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from toolcrib import __version__
from toolcrib.config.paths import USER_FILES, absolute, user_cache_dir, user_config_dir

FOLDER = "greetings"
"""The folder of stored greetings, in the cache directory."""

_STDIN, _STDOUT = 0, 1
_DATA_MAX, STORED_MAX = 64 * 1024, 2 * 1024 * 1024
"""Maximum number of bytes read from a client here, and stored for it."""
_FIRST_LINE_S = 0.02
"""How long to wait for a client's first line, in seconds: hosts write it before Python runs, others are not delayed."""
_OF_A_PERSON = ("HOME", "USERPROFILE", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
_VARIABLE = re.compile(rb"\$\{(?:env:)?(\w+)")
_FILE = re.compile(rb"\$\{file:([^}]+?)(?::-[^}]*)?\}")
_KEYRING = b"${keyring:"
_CACHE_DIR = re.compile(rb"""cache_dir["']?\s*:\s*["']?([^"'\n#,}]+)""")
_PASSED_OVER = (
    *("notifications/initialized", "ping", "logging/setLevel", "subscriptions/listen"),
    *("prompts/list", "resources/list", "resources/templates/list"),
)
"""Messages that do not affect later answers: they are left to be handled normally."""
_ROWS = (
    "SELECT key, config_fingerprint, catalog_fingerprint, withheld, denied, extensions FROM servers ORDER BY key",
    "SELECT id, root, record_hash, is_pinned FROM skills ORDER BY id",
    "SELECT id, is_off, use_count, last_used FROM skills ORDER BY id",
)
"""What a greeting depends on in the tool index, in the skill index, and among decisions."""


_NOT_FOR_US = (OSError, ValueError, KeyError, TypeError, RecursionError, sqlite3.Error)
"""Any error in a file of ours or a line of the client's is left to be reported by the normal path."""


class EarlyExchange:
    """What was exchanged with a client before the server was loaded.

    ``data`` are the bytes read from it, ``given`` the answered questions, each with its outcome as members of the
    answer, and ``ids`` those of these requests. A question is a method with its params. ``unsent`` is the rest of the
    last answer that did not fit into the pipe: waiting for the client could deadlock, as it may be writing itself.
    """

    def __init__(self) -> None:
        self.start: StartConditions | None = None
        self.data = b""
        self.replayed: list[Any] = []
        self.ids: set[int | str] = set()
        self.unsent = b""
        self._due: list[Any] = []
        self._looked_at = 0
        self._going_on: tuple[threading.Thread, int, int] | None = None

    def read(self) -> bool:
        """Read what the client has sent; return whether more may be read here."""
        self.data += (chunk := os.read(_STDIN, _DATA_MAX))
        return bool(chunk) and len(self.data) <= _DATA_MAX

    def answer(self, due: list[Any]) -> None:
        """Answer what was read, and continue in a thread while the rest is loaded; ``due`` are questions with outcomes.

        If a client does not ask them in this order, it is answered normally from there on.
        """
        self._due = due
        if (self._answer_lines() or self.unsent) and self.replayed:
            # In a thread: hosts that start many servers take longer to ask than any pause that a start could afford.
            woken, wake = os.pipe()
            thread = threading.Thread(target=self._go_on, args=(woken,), daemon=True)
            self._going_on = thread, woken, wake
            thread.start()

    def end(self) -> None:
        """Hand the client over to the server, which sends ``unsent`` first."""
        if self._going_on:
            thread, woken, wake = self._going_on
            self._going_on = None
            os.close(wake)
            thread.join()
            os.close(woken)

    def _go_on(self, woken: int) -> None:
        with suppress(*_NOT_FOR_US):
            may_read = not self.unsent
            # Once woken, only the server may read: a message whose bytes went to both would be lost.
            while may_read and select.select([_STDIN, woken], [], [])[0] == [_STDIN]:
                may_read = self.read() and self._answer_lines()
            while self.unsent and not select.select([woken], [_STDOUT], [])[0]:
                self.unsent = self.unsent[_written(self.unsent) :]

    def _answer_lines(self) -> bool:
        """Answer complete lines read since; return whether what comes next may be answered here too."""
        *lines, _rest = self.data[self._looked_at :].split(b"\n")
        for line in lines:
            self._looked_at += len(line) + 1
            request = json.loads(line)
            if self._due and _question(request) == self._due[0][0]:
                answer = {"jsonrpc": "2.0", "id": request["id"], **self._due[0][1]}
                data = json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
                self.replayed.append(self._due.pop(0))  # not before: what cannot be encoded here is answered normally
                self.ids.add(request["id"])
                self.unsent = data[_written(data) :]
                if self.unsent:
                    return False
            elif request["method"] not in _PASSED_OVER:
                return False
        return bool(self._due)


class StartConditions:
    """The start parameters that determine an answer: arguments, config file, variables and code."""

    def __init__(self, arguments: Sequence[str], environ: Mapping[str, str]) -> None:
        self._environ = environ
        pairs = zip(arguments, [*arguments[1:], ""], strict=False)
        told = [value if each == "--config" else each[9:] for each, value in pairs if each.split("=")[0] == "--config"]
        named = told[-1] if told else environ.get("TOOLCRIB_CONFIG")
        self.places = () if named else tuple(str(user_config_dir(environ) / name) for name in USER_FILES)
        found = absolute(named, Path.cwd(), environ) if named else next(filter(os.path.isfile, self.places), None)
        self.config = Path(found) if found else None
        self._text = self.config.read_bytes() if self.config else b""
        names = {*_OF_A_PERSON, *map(os.fsdecode, _VARIABLE.findall(self._text))}
        variables: list[Any] = sorted(
            each for each in environ.items() if each[0] in names or each[0].startswith("TOOLCRIB_")
        )
        base = self.config.parent if self.config else Path.cwd()
        named = sorted({str(absolute(os.fsdecode(each), base, environ)) for each in _FILE.findall(self._text)})
        variables += [(path, _stamp(path)) for path in named]
        text, code = hashlib.sha256(self._text).hexdigest(), [__version__, sys.version, *sys.path]
        self._digest = _digest([code, str(Path.cwd()), list(arguments), str(self.config), text, variables])

    @property
    def is_knowable(self) -> bool:
        """Whether everything that the start depends on can be checked here: a keyring cannot."""
        return _KEYRING not in self._text

    def files(self, question: Any) -> list[Path]:
        """Return the possible files of the answer to a client's first question; their content says what it is for."""
        base = self.config.parent if self.config else Path.cwd()
        named = [os.fsdecode(each).strip() for each in _CACHE_DIR.findall(self._text)[:3]]
        folders = [absolute(text, base, self._environ) for text in named]
        folders.append(absolute(self._environ.get("TOOLCRIB_CACHE_DIR", ""), Path.cwd(), self._environ))
        name = f"{_digest([self._digest, question])}.json"
        return [folder / FOLDER / name for folder in (*folders, user_cache_dir(self._environ, self.config))]

    def situation(self, files: Iterable[str], places: Iterable[str], names: Iterable[str], rows: Sequence[str]) -> Any:
        """Return everything that an answer depends on, as JSON: starts in the same situation give the same answers.

        ``files`` are compared by time and size, ``places`` by their real paths, ``names`` of variables by whether they
        are set. ``rows`` are the paths of the three databases, empty for an unused one.
        """
        return {
            "start": self._digest,
            "files": {path: _stamp(path) for path in files},
            "places": {path: os.path.realpath(path) if os.path.lexists(path) else None for path in places},
            "names": {name: bool(self._environ.get(name)) for name in names},
            "rows": [[path, path and _digest_of_rows(path, query)] for path, query in zip(rows, _ROWS, strict=True)],
        }

    def known(self, question: Any) -> list[Any]:
        """Return the answers for a client with this first question; empty if they are not known for certain."""
        for path in self.files(question):
            with suppress(FileNotFoundError), path.open("rb") as file:
                status = os.fstat(file.fileno())
                # What another user could have written would answer in our name.
                if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                    return []
                kept = json.loads(file.read(STORED_MAX))
                was = kept["situation"]
                now = self.situation(was["files"], was["places"], was["names"], [path for path, _rows in was["rows"]])
                return kept["answers"] if now == was else []
        return []


def answer_early(arguments: Sequence[str], environ: Mapping[str, str]) -> EarlyExchange:
    """Answer the first requests on stdin, as far as their answers are known; return what was read."""
    begun = EarlyExchange()
    with suppress(*_NOT_FOR_US):
        mode = os.fstat(_STDIN).st_mode
        # Only a pipe or a socket has a program at its end, and can be polled.
        if sys.platform == "win32" or "http" in " ".join(arguments) or not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            return begun
        start = StartConditions(arguments, environ)
        if not start.is_knowable:
            return begun
        # Set even if nothing is stored for it yet: the server then stores what it answers.
        begun.start = start
        if not any(path.parent.is_dir() for path in start.files(None)):
            return begun
        while b"\n" not in begun.data and select.select([_STDIN], [], [], _FIRST_LINE_S)[0] and begun.read():
            pass
        line, newline, _rest = begun.data.partition(b"\n")
        question = _question(json.loads(line)) if newline else None
        if question:
            begun.answer(start.known(question))
    return begun


def _question(message: Any) -> Any:
    """Return the method and params of a request; None for any other message."""
    if message["jsonrpc"] != "2.0" or type(message.get("id")) not in (int, str):
        return None
    return [message["method"], message.get("params", {})]


def _written(data: bytes) -> int:
    """Write as much as fits, and return the number of bytes."""
    # A client that is writing itself may read only afterwards: a write that waits for it could wait for ever.
    was_blocking = os.get_blocking(_STDOUT)
    os.set_blocking(_STDOUT, False)
    try:
        return os.write(_STDOUT, data)
    except BlockingIOError:
        return 0
    finally:
        os.set_blocking(_STDOUT, was_blocking)  # shared with others, such as stderr


def _stamp(path: str) -> list[int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - a thousand of them
    except OSError:
        return None
    # The time of the change of the inode too: nobody can set it, unlike that of the content.
    return [status.st_mtime_ns, status.st_size, status.st_ino, status.st_ctime_ns]


def _digest_of_rows(path: str, query: str) -> str:
    quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    with closing(sqlite3.connect(f"file:{quoted}?mode=ro", uri=True, timeout=0)) as connection:
        return _digest(connection.execute(query).fetchall())


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
