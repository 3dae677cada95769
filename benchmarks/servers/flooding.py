"""An MCP server on loopback HTTP whose tools answer with a flood; prints its address, and serves until its input ends.

Each tool's name says how: ``json`` or ``events``, ``plain`` or ``zipped``. Its one argument is the size in bytes.
"""

import gzip
import io
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOOLS = [f"{form}_{coding}" for form in ("json", "events") for coding in ("plain", "zipped")]
_CHUNK = b" " * (1 << 20)
_SCHEMA = {"type": "object", "properties": {"size": {"type": "integer"}}}


def flood(form: str, size: int) -> Iterator[bytes]:
    """Yield an answer that never becomes one."""
    yield b'data: {"jsonrpc":' if form == "events" else b'{"jsonrpc":'
    for _ in range(size // len(_CHUNK)):
        yield _CHUNK


def zipped(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the same as gzip makes it."""
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=1) as file:
        for chunk in chunks:
            file.write(chunk)
    yield buffer.getvalue()


class Handler(BaseHTTPRequestHandler):
    """Answers one request after the other."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        """Say nothing."""

    def do_GET(self) -> None:
        """Refuse a stream of its own."""
        self._send(405, b"")

    def do_POST(self) -> None:
        """Answer one message."""
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        params = message.get("params") or {}
        match message.get("method"):
            case "initialize":
                about = {"serverInfo": {"name": "flooding", "version": "1"}, "capabilities": {"tools": {}}}
                self._answer(message, {"result": {"protocolVersion": "2025-11-25", **about}})
            case "tools/list":
                tools = [{"name": name, "inputSchema": _SCHEMA} for name in TOOLS]
                self._answer(message, {"result": {"tools": tools}})
            case "tools/call" if size := params["arguments"].get("size"):
                form, coding = params["name"].split("_")
                self._flood(form, coding, size)
            case "tools/call":
                self._answer(message, {"result": {"content": []}})
            case _ if "id" in message:
                self._answer(message, {"error": {"code": -32601, "message": "Method not found"}})
            case _:
                self._send(202, b"")

    def _answer(self, message: dict[str, Any], body: dict[str, Any]) -> None:
        self._send(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _flood(self, form: str, coding: str, size: int) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if form == "events" else "application/json")
        if coding == "zipped":
            self.send_header("content-encoding", "gzip")
        self.end_headers()
        chunks = flood(form, size)
        try:
            for chunk in zipped(chunks) if coding == "zipped" else chunks:
                self.wfile.write(chunk)
        except OSError:  # whoever asked has heard enough
            pass


def main() -> None:
    """Serve until the input ends."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_port}/mcp", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
