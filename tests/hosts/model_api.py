"""A model on loopback that says what a script tells it, in whichever API a host speaks, and keeps every request.

It is the hosts' HTTP proxy too: what they would send to anybody else is refused here, and kept as well. Knows HTTP;
never knows which host is asking.
"""

import json
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from hosts.dialects import DIALECTS, Dialect, JsonObject, Say, Turn, tool_names

LAST_WORD = Say("Done.")
POLL_S = 0.01
"""How often the server looks whether it is to end."""


Reaction = Callable[[Sequence[str]], Turn]
"""Returns a turn that depends on what the model was given of its calls so far."""


@dataclass(frozen=True, slots=True)
class Script:
    """What the model says: its turns in order, and its answers to a host's own questions.

    A question of a host's own offers one tool to answer with, or none; ``asides`` has the answers by that tool.
    """

    turns: Sequence[Turn | Reaction]
    asides: Mapping[str, Turn] = field(default_factory=dict[str, Turn])


@dataclass(frozen=True, slots=True)
class Asked:
    """One request to the model."""

    dialect: Dialect
    body: JsonObject

    @property
    def tools(self) -> list[JsonObject]:
        return self.dialect.tools(self.body)

    @property
    def results(self) -> list[str]:
        return self.dialect.results(self.body)


@dataclass
class Model:
    """What was asked so far: in the conversation, besides it, and of anybody else; and what went wrong here."""

    script: Script
    url: str
    asked: list[Asked] = field(default_factory=list[Asked])
    aside: list[Asked] = field(default_factory=list[Asked])
    elsewhere: list[str] = field(default_factory=list[str])
    faults: list[str] = field(default_factory=list[str])

    def answer(self, asked: Asked) -> tuple[Turn, int]:
        """Return the next turn and its number: so many of the calls have their results in the request.

        That way nothing is lost by a request that a host repeats.
        """
        names, done = tool_names(asked.tools), len(asked.results)
        if not names or (len(names) == 1 and names[0] in self.script.asides):
            self.aside.append(asked)
            return self.script.asides[names[0]] if names else LAST_WORD, 0
        self.asked.append(asked)
        turn = self.script.turns[done] if done < len(self.script.turns) else LAST_WORD
        return turn(asked.results) if callable(turn) else turn, done


@contextmanager
def serving(script: Script) -> Generator[Model]:
    """Serve on a free port until the block ends."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.model = Model(script, f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, args=(POLL_S,), daemon=True)
        thread.start()
        try:
            yield server.model
        finally:
            server.shutdown()
            thread.join()


class _Server(ThreadingHTTPServer):
    model: Model

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep what went wrong, unless the host just hung up."""
        error = sys.exception()
        if not isinstance(error, ConnectionError):
            self.model.faults.append(repr(error))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def _model(self) -> Model:
        assert isinstance(self.server, _Server)
        return self.server.model

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        path = urlsplit(self.path).path
        dialect = next((one for end, one in DIALECTS.items() if path.endswith(end)), None)
        if dialect is None or not self.path.startswith("/"):
            self._refuse()
            return
        asked = Asked(dialect, json.loads(raw))
        turn, number = self._model.answer(asked)
        if dialect.wants_stream(path, asked.body):
            self._send(200, dialect.stream(turn, str(number)), "text/event-stream")
        else:
            self._send(200, json.dumps(dialect.whole(turn, str(number))).encode())

    def do_GET(self) -> None:
        self._refuse()

    def do_HEAD(self) -> None:
        self._refuse()

    def do_CONNECT(self) -> None:
        self._refuse()

    def _refuse(self) -> None:
        """Refuse: whatever a host fetches, it can do without. A path without a slash at its head is for a proxy."""
        if self.path.startswith("/"):
            self._send(404)
        else:
            self._model.elsewhere.append(self.path)
            self._send(403)

    def _send(self, status: int, data: bytes = b"{}", kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's own name
        """Keep quiet."""
