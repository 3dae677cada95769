"""``initialize`` answered at once with what the same start answered before, where nothing has changed since.

Knows one line of JSON, and which files, rows and variables an answer rests on; never knows what any of them means.
It is done before the rest of toolcrib is loaded, so it imports next to nothing.
"""

import hashlib
import json
import os
import re
import select
import sqlite3
import stat
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from toolcrib import __version__
from toolcrib.config.paths import USER_FILES, absolute, user_cache_dir, user_config_dir

FOLDER = "greetings"
"""Where greetings are kept, in the cache directory."""

_STDIN, _STDOUT = 0, 1
_LINE_MAX, _KEPT_MAX = 64 * 1024, 2 * 1024 * 1024
"""Bytes of a request, and of a kept greeting."""
_PATIENCE_S = 0.02
"""How long a client may take with its first line: hosts write it before Python runs, others are not held up."""
_OF_A_PERSON = ("HOME", "USERPROFILE", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
_VARIABLE = re.compile(rb"\$\{(?:env:)?(\w+)")
_FILE = re.compile(rb"\$\{file:([^}]+?)(?::-[^}]*)?\}")
_KEYRING = b"${keyring:"
_CACHE_DIR = re.compile(rb"""cache_dir["']?\s*:\s*["']?([^"'\n#,}]+)""")
_ROWS = (
    "SELECT key, config_fingerprint, catalog_fingerprint, withheld, denied FROM servers ORDER BY key",
    "SELECT id, root, record_hash, is_pinned FROM skills ORDER BY id",
    "SELECT id, is_off, use_count, last_used FROM skills ORDER BY id",
)
"""What a greeting is made of in the index of tools, in that of skills, and among decisions."""


class Begun:
    """What was done before the rest was loaded: the bytes read from the client, and what it was answered, if it was."""

    def __init__(self) -> None:
        self.start: Start | None = None
        self.data = b""
        self.request_id: int | str | None = None
        self.result: Any = None


class Start:
    """What a process was started with, as far as it decides an answer: arguments, config file, variables and code."""

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
        """Whether all that the start rests on can be looked at here: a keyring cannot."""
        return _KEYRING not in self._text

    def files(self, params: Any) -> list[Path]:
        """Return where the answer to ``initialize`` with these params may lie; what lies there says what it is for."""
        base = self.config.parent if self.config else Path.cwd()
        named = [os.fsdecode(each).strip() for each in _CACHE_DIR.findall(self._text)[:3]]
        folders = [absolute(text, base, self._environ) for text in named]
        folders.append(absolute(self._environ.get("TOOLCRIB_CACHE_DIR", ""), Path.cwd(), self._environ))
        name = f"{_digest([self._digest, params])}.json"
        return [folder / FOLDER / name for folder in (*folders, user_cache_dir(self._environ, self.config))]

    def situation(self, files: Iterable[str], places: Iterable[str], names: Iterable[str], rows: Sequence[str]) -> Any:
        """Return all that an answer rests on, as JSON: starts in the same situation answer alike.

        ``files`` count with time and size, ``places`` with where they lead to, ``names`` of variables with whether they
        are set. ``rows`` are the paths of the three databases, empty for one that is not used.
        """
        return {
            "start": self._digest,
            "files": {path: _stamp(path) for path in files},
            "places": {path: os.path.realpath(path) if os.path.lexists(path) else None for path in places},
            "names": {name: bool(self._environ.get(name)) for name in names},
            "rows": [[path, path and _digest_of_rows(path, query)] for path, query in zip(rows, _ROWS, strict=True)],
        }

    def known(self, params: Any) -> Any:
        """Return the result of ``initialize`` with these params; None where it is not known for certain."""
        for path in self.files(params):
            with suppress(FileNotFoundError), path.open("rb") as file:
                status = os.fstat(file.fileno())
                if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                    return None
                kept = json.loads(file.read(_KEPT_MAX))
                was = kept["situation"]
                now = self.situation(was["files"], was["places"], was["names"], [path for path, _rows in was["rows"]])
                return kept["result"] if now == was else None
        return None


def begin(arguments: Sequence[str], environ: Mapping[str, str]) -> Begun:
    """Answer the first request on stdin, if it is ``initialize`` and its answer is known; return what was read."""
    begun = Begun()
    # Whatever is wrong with a file of ours or a line of the client's is told by the ordinary way.
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError, sqlite3.Error):
        mode = os.fstat(_STDIN).st_mode
        if sys.platform == "win32" or "http" in " ".join(arguments) or not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            return begun
        start = Start(arguments, environ)
        if not start.is_knowable:
            return begun
        begun.start = start
        if not any(path.parent.is_dir() for path in start.files(None)):
            return begun
        while b"\n" not in begun.data and select.select([_STDIN], [], [], _PATIENCE_S)[0]:
            begun.data += (chunk := os.read(_STDIN, _LINE_MAX))
            if not chunk or len(begun.data) > _LINE_MAX:
                break
        line, newline, _rest = begun.data.partition(b"\n")
        request: dict[str, Any] = json.loads(line) if newline else {}
        request_id, params = request["id"], request["params"]
        if request["jsonrpc"] == "2.0" and request["method"] == "initialize" and type(request_id) in (int, str):
            result = start.known(params)
            if result is not None:
                answer = {"jsonrpc": "2.0", "id": request_id, "result": result}
                data = json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
                begun.request_id, begun.result = request_id, result
                while data:
                    data = data[os.write(_STDOUT, data) :]
    return begun


def _stamp(path: str) -> list[int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - a thousand of them
    except OSError:
        return None
    return [status.st_mtime_ns, status.st_size, status.st_ino]


def _digest_of_rows(path: str, query: str) -> str:
    quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    with closing(sqlite3.connect(f"file:{quoted}?mode=ro", uri=True, timeout=0)) as connection:
        return _digest(connection.execute(query).fetchall())


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
