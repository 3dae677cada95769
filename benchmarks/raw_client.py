"""A client that speaks MCP line by line without an SDK, so that next to nothing of what it measures is its own.

Knows JSON-RPC over a process's pipes; never knows what the process is.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PROTOCOL = "2025-11-25"
CLIENT = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": {"name": "benchmark", "version": "1"}}
_END_S = 15
_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"


def cpu_ms(pid: int) -> float:
    """Return the CPU time of a process so far, of the user and the system, in milliseconds (Linux).

    Its clock's number is what clock_getcpuclockid(3) makes of the process's id.
    """
    return time.clock_gettime(~pid << 3 | 2) * 1000


def children(pid: int) -> list[int]:
    """Return the processes that a process has started and that it has not waited for yet (Linux)."""
    found: list[int] = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            # The name of the program stands before this, in brackets, and may have brackets and spaces of its own.
            parent = each.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1]
            found += [int(each.parent.name)] if int(parent) == pid else []
    return found


def environment() -> dict[str, str]:
    """Return this process's environment, but with compiled modules: a start is measured as people have it."""
    return {name: value for name, value in os.environ.items() if name != _NO_BYTECODE}


class RefusedError(RuntimeError):
    """A request was answered with an error."""


def result_of(answer: dict[str, Any], method: str) -> dict[str, Any]:
    """Return the result that answers a request.

    Raises:
        RefusedError: it was answered with an error.

    """
    if "error" in answer:
        raise RefusedError(f"{method} failed: {answer['error']}")
    return answer["result"]


class RawClient:
    """A server's process and a conversation with it. ``environ`` is added to this process's environment."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str] | None = None) -> None:
        self._command = command
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment() | dict(environ or {}),
        )
        assert self._process.stdin
        assert self._process.stdout
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._last_id = 0
        self._begun: dict[int, dict[str, Any] | None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stdin.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stdout.close()

    def end(self, number: signal.Signals | None = None) -> None:
        """Send a signal to the process, or let it see the end of its input."""
        if number is None:
            self._stdin.close()
        else:
            self._process.send_signal(number)

    def open(self, name: str = "benchmark") -> dict[str, Any]:
        """Shake hands under a name and return what the server says of itself."""
        result = self.request("initialize", {**CLIENT, "clientInfo": {"name": name, "version": "1"}})
        self.notify("notifications/initialized", {})
        return result

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its result; whatever else arrives meanwhile is dropped, unless it was begun."""
        number = self._sent(method, params)
        while line := self._stdout.readline():
            message = json.loads(line)
            if message.get("id") == number and "method" not in message:
                return result_of(message, method)
            if message.get("id") in self._begun:
                self._begun[message["id"]] = message
        raise RuntimeError(f"ended during {method}; to see why, run: {' '.join(self._command)}")

    def begin(self, method: str, params: dict[str, Any]) -> int:
        """Send a request, and return its number for :meth:`ended`."""
        number = self._sent(method, params)
        self._begun[number] = None
        return number

    def ended(self, number: int) -> dict[str, Any] | None:
        """Return the result of a request that was begun, if it has come during another one."""
        answer = self._begun[number]
        return None if answer is None else result_of(answer, "a request")

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool and return its result."""
        return self.request("tools/call", {"name": name, "arguments": arguments})

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification."""
        self._send({"method": method, "params": params})

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def cpu_ms(self) -> float:
        """Return the CPU time of the process so far, in milliseconds (Linux)."""
        return cpu_ms(self._process.pid)

    def resident_mb(self) -> float:
        """Return the process's resident memory in MB (Linux)."""
        return self._status_mb("VmRSS")

    def peak_mb(self) -> float:
        """Return the most that it had, in MB, since its peak was forgotten (Linux)."""
        return self._status_mb("VmHWM")

    def forget_peak(self) -> None:
        """Have the peak begin anew with what it has now (Linux)."""
        Path(f"/proc/{self._process.pid}/clear_refs").write_text("5", encoding="ascii")

    def _status_mb(self, name: str) -> float:
        for line in Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024 / 1e6
        raise RuntimeError(f"the kernel does not tell {name}")

    def _sent(self, method: str, params: dict[str, Any]) -> int:
        self._last_id += 1
        self._send({"id": self._last_id, "method": method, "params": params})
        return self._last_id

    def _send(self, message: dict[str, Any]) -> None:
        self._stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._stdin.flush()
