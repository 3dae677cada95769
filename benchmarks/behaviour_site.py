"""Where a checkout of toolcrib runs to be compared: a copy of it, a home of its own, and a record of what it says.

Knows processes, their pipes and what must differ between two runs; never knows what is asked.
"""

import http.client
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PYTHON = sys.executable
LEGACY, MODERN = "2025-11-25", "2026-07-28"
META = "io.modelcontextprotocol/"
COPIED = ("server", "packs", "scripts", "docs")
PATIENCE_S = 600

_AT_ANY_TIME = ("notifications/resources/list_changed", "notifications/prompts/list_changed")
"""Told when a server or the skills have been read, whatever a client asks meanwhile."""

JsonObject = dict[str, Any]
Answers = dict[str, str]
"""What was said, by what was asked."""

_WRITTEN_AT = 1_700_000_000
_NOT_COPIED = shutil.ignore_patterns("__pycache__", "*.egg-info", "node_modules")
_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|\+00:00)?"
_COMMANDS = """\
import json, os, sys, traceback
from toolcrib.cli import main

for number, arguments in enumerate(json.loads(sys.argv[1])):
    for descriptor, name in ((1, "out"), (2, "err")):
        file = os.open(os.path.join(sys.argv[2], f"{number}.{name}"), os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        os.dup2(file, descriptor)
        os.close(file)
    try:
        code = main(arguments)
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = "raised"
    sys.stdout.flush()
    sys.stderr.flush()
    with open(os.path.join(sys.argv[2], f"{number}.code"), "w") as file:
        file.write(str(code))
"""
"""Runs commands one after the other as the installed program does, without a start of Python for each."""

_CHANGING: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), shown)
    for pattern, shown in (
        (_TIME, "<time>"),
        (r"\b\d{8}T\d{6}Z", "<time>"),
        (r"\blocal-\d+\.", "local-<pid>."),
        (r'"(duration_ms|seconds)": ?[\d.]+', r'"\1": "<duration>"'),
        (r"(bytes|FAILED), \d+ ms\b", r"\1, <duration>"),
        (r"tools in \d+\.\d s", "tools in <duration>"),
    )
)


def normalised(text: str, more: Iterable[tuple[re.Pattern[str], str]] = ()) -> str:
    """Return a text without what no two runs have in common: times, durations, process ids."""
    for pattern, shown in (*_CHANGING, *more):
        text = pattern.sub(shown, text)
    return text


def ended(code: str, out: bytes, err: bytes) -> str:
    """Return as one text how a process ended and what it said."""
    said, complained = (text.decode("utf-8", "backslashreplace") for text in (out, err))
    return normalised(f"exit code {code}\n--- stdout\n{said}\n--- stderr\n{complained}")


def copied(root: Path, place: Path) -> None:
    """Copy what runs of a checkout to a place, so that each checkout is in turn under the same path."""
    for name in COPIED:
        if (root / name).is_dir():
            shutil.copytree(root / name, place / name, ignore=_NOT_COPIED)
    aged(place / "packs")


def aged(folder: Path) -> None:
    """Have all files in a folder be of the same moment in every run: answers about skills tell it."""
    for file in folder.rglob("*"):
        os.utime(file, (_WRITTEN_AT, _WRITTEN_AT))


@dataclass(frozen=True, slots=True)
class World:
    """A person's home and a working directory, in which a checkout runs."""

    folder: Path
    checkout: Path

    def __post_init__(self) -> None:
        for name in ("home", "project", "run", "tmp"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)

    @property
    def home(self) -> Path:
        """The home directory."""
        return self.folder / "home"

    @property
    def project(self) -> Path:
        """The working directory."""
        return self.folder / "project"

    @property
    def environ(self) -> dict[str, str]:
        """The whole environment: nothing of whoever runs this changes an answer."""
        return {
            "PATH": f"{Path(PYTHON).parent}:/usr/bin:/bin",
            "HOME": str(self.home),
            "XDG_RUNTIME_DIR": str(self.folder / "run"),
            "TMPDIR": str(self.folder / "tmp"),
            "PYTHONPATH": str(self.checkout / "server"),
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "COLUMNS": "120",
            "SHELL": "/bin/bash",
        }

    def wrote(self, name: str, content: str | JsonObject) -> Path:
        """Write a file, JSON where it is no text, and return its path."""
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content, indent=1), encoding="utf-8")
        return file

    def command(self, *arguments: str, given: str = "") -> str:
        """Run a command of toolcrib's and return its exit code, stdout and stderr as one text."""
        return self.python("-m", "toolcrib", *arguments, given=given)

    def python(self, *arguments: str, given: str = "") -> str:
        """Run Python on the checkout's source and return its exit code, stdout and stderr as one text."""
        command = [PYTHON, *arguments]
        try:
            done = subprocess.run(
                command,
                input=given.encode(),
                capture_output=True,
                env=self.environ,
                cwd=self.project,
                timeout=PATIENCE_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "has not ended"
        return ended(str(done.returncode), done.stdout, done.stderr)

    def commands(self, *several: Sequence[str]) -> list[str]:
        """Run commands of toolcrib's in one process; return the exit code, stdout and stderr of each."""
        folder = self.folder / "tmp" / "commands"
        folder.mkdir(exist_ok=True)
        whole = self.python("-c", _COMMANDS, json.dumps(several), str(folder))
        codes = [folder / f"{number}.code" for number in range(len(several))]
        said = [
            ended(code.read_text(), code.with_suffix(".out").read_bytes(), code.with_suffix(".err").read_bytes())
            if code.exists()
            else f"not run: {whole}"
            for code in codes
        ]
        shutil.rmtree(folder)
        return said

    def served(self, config: Path, *options: str) -> "Conversation":
        """Start ``toolcrib serve`` on a config."""
        command = [PYTHON, "-m", "toolcrib", "serve", "--config", str(config), *options]
        return Conversation(command, self.environ, self.project)


@dataclass(slots=True)
class Client:
    """What a client says of itself, and what its person answers when asked, in turn."""

    name: str = "behaviour"
    era: str = LEGACY
    capabilities: JsonObject = field(default_factory=dict)
    replies: list[JsonObject] = field(default_factory=list)

    @property
    def info(self) -> JsonObject:
        """Its name and version."""
        return {"name": self.name, "version": "1"}

    @property
    def envelope(self) -> JsonObject:
        """What it adds to each request where there is no handshake."""
        about = {"protocolVersion": self.era, "clientInfo": self.info, "clientCapabilities": self.capabilities}
        return {META + key: value for key, value in about.items()}


class Conversation:
    """A server's process and a client's conversation with it, of which every line is kept as it came."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], folder: Path) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environ),
            cwd=folder,
        )
        assert self._process.stdin
        assert self._process.stdout
        assert self._process.stderr
        self._stdin, self._stdout, self._stderr = self._process.stdin, self._process.stdout, self._process.stderr
        self._errors = b""
        self._listener = threading.Thread(target=self._hear, daemon=True)
        self._listener.start()
        self._watchdog = threading.Timer(PATIENCE_S, self._process.kill)
        self._watchdog.daemon = True
        self._watchdog.start()
        self._last_id = 0
        self.client = Client()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def _hear(self) -> None:
        self._errors = self._stderr.read()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> str:
        """Close its input and return its exit code and what it said on stderr."""
        with suppress(BrokenPipeError):
            self._stdin.close()
        code = self._process.wait()
        self._watchdog.cancel()
        self._listener.join()
        rest = b"" if self._stdout.closed else self._stdout.read()
        self._stdout.close()
        self._stderr.close()
        return ended(str(code), rest, self._errors)

    def opened(self, client: Client) -> str:
        """Shake hands, or discover, as a client of an era does; return what the server says."""
        self.client = client
        if client.era == MODERN:
            return self.said("server/discover", {})
        about = {"protocolVersion": client.era, "capabilities": client.capabilities, "clientInfo": client.info}
        said = self.said("initialize", about)
        self.send({"method": "notifications/initialized"})
        return said

    def send(self, message: JsonObject) -> None:
        """Send a message as it is."""
        self.write(json.dumps({"jsonrpc": "2.0", **message}))

    def write(self, line: str) -> None:
        """Send a line, which need not be a message."""
        with suppress(BrokenPipeError):  # that it has ended is what it then says
            self._stdin.write(line.encode() + b"\n")
            self._stdin.flush()

    def said(self, method: str, params: JsonObject) -> str:
        """Send a request and return all that comes until its answer, line by line."""
        if self.client.era == LEGACY:
            return self._said(method, params)
        params = {**params, "_meta": {**self.client.envelope, **params.get("_meta", {})}}
        said = [self._said(method, params)]
        while self.client.replies and "inputRequests" in (asked := result_of(said[-1])):
            replies = {key: self._next_reply().get("result", {}) for key in asked["inputRequests"]}
            again = {"inputResponses": replies, "requestState": asked.get("requestState")}
            said.append(self._said(method, {**params, **again}))
        return "\n".join(said)

    def _said(self, method: str, params: JsonObject) -> str:
        self._last_id += 1
        self.send({"id": self._last_id, "method": method, "params": params})
        return self.until(self._last_id)

    def until(self, key: int | None) -> str:
        """Return all that comes until the answer to a request; questions of the server's are answered meanwhile."""
        lines: list[str] = []
        while line := self._stdout.readline():
            message = _message(line)
            if message.get("method") in _AT_ANY_TIME:
                continue
            lines.append(line.decode("utf-8", "backslashreplace").removesuffix("\n"))
            if "method" in message and "id" in message:
                self._reply(message)
            elif "method" not in message and message.get("id") == key:
                return "\n".join(lines)
        return "\n".join([*lines, "(ended)"])

    def _reply(self, question: JsonObject) -> None:
        self.send({"id": question["id"], **self._next_reply()})

    def _next_reply(self) -> JsonObject:
        replies = self.client.replies
        return replies.pop(0) if replies else {"error": {"code": -32601, "message": "nobody answers"}}

    def called(self, name: str, arguments: JsonObject, **more: Any) -> str:
        """Call a tool and return all that comes until its answer."""
        return self.said("tools/call", {"name": name, "arguments": arguments, **more})


class HttpServed:
    """``toolcrib serve`` over HTTP on a free port of loopback, and requests to it whose answers are kept whole."""

    def __init__(self, world: World, config: Path, *options: str) -> None:
        command = [PYTHON, "-m", "toolcrib", "serve", "--config", str(config), "--transport", "http", "--port", "0"]
        self._process = subprocess.Popen(
            [*command, *options], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=world.environ, cwd=world.project
        )
        assert self._process.stderr
        self._stderr = self._process.stderr
        self._watchdog = threading.Timer(PATIENCE_S, self._process.kill)
        self._watchdog.daemon = True
        self._watchdog.start()
        self._before = b""
        self._host, self._session = "", ""
        for line in self._stderr:
            self._before += line
            if found := re.search(rb"serving http://([\d.:]+)", line):
                self._host = found[1].decode()
                break

    def end(self) -> str:
        """Ask it to end, and return its exit code and what it said on stderr."""
        self._process.terminate()
        said = self._before + self._stderr.read()
        code = self._process.wait()
        self._watchdog.cancel()
        self._stderr.close()
        return self._shown(ended(str(code), b"", said))

    def asked(self, method: str, path: str, body: str = "", headers: Mapping[str, str] | None = None) -> str:
        """Send one HTTP request and return its status and messages; of a refusal the headers and the body."""
        usual = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        session = {"mcp-session-id": self._session} if self._session else {}
        connection = http.client.HTTPConnection(self._host, timeout=PATIENCE_S)
        try:
            connection.request(method, path, body.encode(), {**usual, **session, **(headers or {})})
            answer = connection.getresponse()
            said = answer.read().decode("utf-8", "backslashreplace")
        except (OSError, http.client.HTTPException) as error:
            return f"no answer: {type(error).__name__}"
        finally:
            connection.close()
        if answer.status == 200:
            self._session = answer.getheader("mcp-session-id") or self._session
        headers = {name.lower(): value for name, value in answer.getheaders()}
        if answer.status == 200:
            return self._shown("\n".join(["200", *messages_in(said)]))
        kept = sorted(f"{name}: {value}" for name, value in headers.items() if name not in _NO_NEWS)
        return self._shown("\n".join([str(answer.status), *kept, "", said]))

    def _shown(self, said: str) -> str:
        said = said.replace(self._host, "<host>") if self._host else said
        return normalised(said, ((_ID, r"\1<id>"),))


def messages_in(body: str) -> list[str]:
    """Return the messages of an answer over HTTP, which is a stream of them if it is slow."""
    lines = [line.removeprefix("data: ") for line in body.splitlines()]
    return [
        line for line in lines if (message := _message(line.encode())) and message.get("method") not in _AT_ANY_TIME
    ]


_NO_NEWS = ("date", "content-length")
_ID = re.compile(r"^(mcp-session-id: ).+", re.MULTILINE)


def _message(line: bytes) -> JsonObject:
    """Return what a line says; nothing where it is no message."""
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def result_of(said: str) -> JsonObject:
    """Return the result with which an exchange ended; nothing where it ended with an error."""
    result = _message(said.rpartition("\n")[2].encode()).get("result")
    return result if isinstance(result, dict) else {}


def schema_of(file: Path) -> str:
    """Return what a database file says of its format: versions, and every statement that made it."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as base:
        versions = [f"{name}: {base.execute(f'PRAGMA {name}').fetchone()[0]}" for name in _PRAGMAS]
        made = base.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name").fetchall()
    return "\n".join([*versions, *("\n".join(map(str, row)) for row in made)])


_PRAGMAS = ("user_version", "application_id", "encoding", "page_size", "auto_vacuum", "journal_mode")


def in_parallel(jobs: Sequence[Callable[[], None]], workers: int) -> None:
    """Run jobs, so many at a time, in their order; raise the first error of any."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(workers) as pool:
        for done in [pool.submit(job) for job in jobs]:
            done.result()


def removed(folder: Path) -> None:
    """Remove a folder with all in it, whatever its modes are."""
    for path in folder.rglob("*"):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o700)
    shutil.rmtree(folder)
