"""A client that speaks MCP over streamable HTTP without an SDK, on one connection, so that little of it is its own.

Knows JSON-RPC in requests and answers of HTTP; never knows what the server is.
"""

import http.client
import json
import socket
from typing import Any
from urllib.parse import urlsplit

from raw_client import CLIENT, PROTOCOL, cpu_ms, result_of

_TIMEOUT_S = 60


class RawHttpClient:
    """A conversation with the server of a URL, which the process ``pid`` serves."""

    def __init__(self, url: str, pid: int) -> None:
        parts = urlsplit(url)
        self._path, self._pid, self._last_id = parts.path, pid, 0
        self._connection = http.client.HTTPConnection(parts.netloc, timeout=_TIMEOUT_S)
        self._headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}

    def open(self) -> None:
        """Shake hands."""
        self._connect()
        self.request("initialize", CLIENT)
        self._headers["mcp-protocol-version"] = PROTOCOL
        self._send({"method": "notifications/initialized"})

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its result; whatever else is told meanwhile is dropped."""
        self._last_id += 1
        for line in self._send({"id": self._last_id, "method": method, "params": params}).splitlines():
            text = line.removeprefix(b"data: ")
            message = json.loads(text) if text.startswith(b"{") else {}
            if message.get("id") == self._last_id:
                return result_of(message, method)
        raise RuntimeError(f"no answer to {method}")

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool and return its result."""
        return self.request("tools/call", {"name": name, "arguments": arguments})

    def cpu_ms(self) -> float:
        """Return the CPU time of the server's process so far, in milliseconds (Linux)."""
        return cpu_ms(self._pid)

    def _send(self, message: dict[str, Any]) -> bytes:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        try:
            answer = self._answer(body)
        except (ConnectionError, http.client.RemoteDisconnected):  # closed while another server was measured
            self._connect()
            answer = self._answer(body)
        self._headers |= {name: value for name, value in answer.getheaders() if name == "mcp-session-id"}
        return answer.read()

    def _answer(self, body: bytes) -> http.client.HTTPResponse:
        self._connection.request("POST", self._path, body, self._headers)
        return self._connection.getresponse()

    def _connect(self) -> None:
        self._connection.close()
        self._connection.connect()
        self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
