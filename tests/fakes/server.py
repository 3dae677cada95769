"""A downstream MCP server on stdio that does what a menu says: right, slow, broken or hostile.

Run as ``python -S server.py MENU``, MENU being JSON or the path of a JSON file; ``fakes/menu.py`` lists its keys.
Needs the standard library only, so that it starts in some 30 ms.
"""

import itertools
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import behaviours
import generated

MODERN = "2026-07-28"
HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
META = "io.modelcontextprotocol/"
VERSION_KEY = META + "protocolVersion"
POINTS = {
    "server/discover": "discover",
    "initialize": "initialize",
    "tools/list": "list",
    "tools/call": "call",
}
FOREVER_S = 600
"""How long a fake sleeps where the menu says forever: none is left over after a broken test run."""


class Refusal(Exception):
    """A JSON-RPC error to answer with."""

    def __init__(self, code, message, data=None):
        super().__init__(message)
        self.error = {"code": code, "message": message} | ({} if data is None else {"data": data})


class Record:
    """The file in which tests read what happened: one JSON object a line, several processes may append."""

    def __init__(self, path):
        self._fd = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600) if path else None
        self.starts = Path(path).read_text().count('"event": "start"') if path else 0

    def write(self, event, **facts):
        if self._fd is not None:
            os.write(self._fd, json.dumps({"event": event, "pid": os.getpid(), **facts}).encode() + b"\n")


class Wire:
    """stdout, one whole message at a time, each with as much garbage before it as the menu says."""

    def __init__(self, garbage):
        self._garbage = b"".join(b"this is not JSON %d\n" % number for number in range(garbage))
        self._lock = threading.Lock()

    def send(self, message):
        self.write(self._garbage + json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def write(self, data):
        try:
            with self._lock:
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
        except BrokenPipeError:
            os._exit(0)


class Server:
    """One conversation."""

    def __init__(self, menu):
        self.menu = menu
        self.record = Record(menu.get("record"))
        self.wire = Wire(menu.get("garbage", 0))
        self.faulty = self.record.starts < menu.get("faulty_starts", sys.maxsize)
        self.tools = load_tools(menu.get("tools", ["echo"]))
        self.eras = menu.get("eras", ["legacy", "modern"])
        self.era = None
        self.listeners = []
        self.running = {}
        self.cancelled = []
        self.counter = itertools.count(1)
        self.cursors = itertools.count(1)

    def run(self):
        if self.menu.get("ignore_sigterm"):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if text := self.menu.get("stderr"):
            print(text, file=sys.stderr, flush=True)
        self.record.write("start")
        if self.menu.get("fork_child"):
            self.fork_child()
        if self.menu.get("detach_child"):
            self.fork_child(os.setsid)
        for size in chunks(self.menu.get("flood", 0)):
            self.wire.write(b"x" * size)
        if not self.reach("spawn"):
            time.sleep(FOREVER_S)
        for line in sys.stdin.buffer:
            self.receive(line)
        self.record.write("end")
        if self.menu.get("ignore_sigterm") or self.menu.get("ignore_eof"):
            time.sleep(FOREVER_S)

    def fork_child(self, first=lambda: None):
        """Start a grandchild that sleeps and holds our pipes open."""
        if os.fork() == 0:
            first()
            self.record.write("child")
            time.sleep(FOREVER_S)
            os._exit(0)

    def die(self, code, why):
        print(why, file=sys.stderr, flush=True)
        os._exit(code)

    def reach(self, point):
        """Do what the menu says of this point of the conversation; return whether to go on."""
        time.sleep(self.menu.get("slow_s", {}).get(point, 0))
        if point == self.menu.get("hold_at"):
            self.hold()
        if not self.faulty:
            return True
        if point == self.menu.get("exit_at"):
            self.die(3, f"the fake server exits at {point}")
        return point != self.menu.get("hang_at")

    def hold(self):
        """Wait until the test lets it go on."""
        let_go, given_up_at = Path(self.menu["let_go"]), time.monotonic() + FOREVER_S
        while not let_go.exists() and time.monotonic() < given_up_at:
            time.sleep(0.005)
        let_go.unlink(missing_ok=True)

    def receive(self, line):
        try:
            message = json.loads(line)
        except ValueError:
            self.record.write("unreadable", line=line.decode(errors="replace"))
            return
        self.record.write("message", message=message)
        method, request_id = message.get("method"), message.get("id")
        if method == "notifications/cancelled":
            self.cancel(message["params"]["requestId"])
        elif method is not None and request_id is not None:
            self.running[request_id] = threading.Event()
            if self.takes_time(method, message.get("params") or {}):
                threading.Thread(target=self.answer, args=(message,), daemon=True).start()
            else:
                self.answer(message)

    def takes_time(self, method, params):
        late = (*self.menu.get("slow_s", {}), self.menu.get("hold_at", ""))
        return POINTS.get(method, method) in late or params.get("name") in behaviours.TAKE_TIME

    def cancel(self, request_id):
        self.cancelled.append(request_id)
        if request_id in self.listeners:
            self.listeners.remove(request_id)
        if request_id in self.running:
            self.running[request_id].set()

    def answer(self, message):
        method, request_id = message["method"], message["id"]
        if method == "server/discover" and self.menu.get("die_on_discover") and self.era is None:
            self.die(1, "server/discover before initialize")
        if method in POINTS and not self.reach(POINTS[method]):
            return
        try:
            result = self.result(method, message.get("params") or {}, request_id)
            if method == "tools/call" and self.menu.get("wrong_ids"):
                request_id = f"not {request_id}"
        except Refusal as refusal:
            self.wire.send({"id": request_id, "error": refusal.error})
        else:
            if result is not None:
                self.wire.send({"id": request_id, "result": result})
        finally:
            self.running.pop(message["id"], None)
        if method == "tools/list" and self.menu.get("storm"):
            threading.Thread(target=self.storm, daemon=True).start()

    def storm(self):
        while True:
            self.notify("notifications/message", {"level": "info", "data": "x" * 100})

    def result(self, method, params, request_id):
        """Return the result of one request, or ``None`` for a request that gets no answer."""
        if VERSION_KEY in (params.get("_meta") or {}) and "modern" in self.eras:
            return self.modern_result(method, params, request_id)
        return self.legacy_result(method, params, request_id)

    def legacy_result(self, method, params, request_id):
        if "legacy" not in self.eras or self.era == "modern":
            asked = params.get("protocolVersion")
            raise Refusal(-32022, "Unsupported protocol version", {"supported": [MODERN], "requested": asked})
        if method == "initialize":
            self.era = "legacy"
            return self.initialize_result(params["protocolVersion"])
        if method == "ping":
            return {}
        if method not in ("tools/list", "tools/call"):
            raise Refusal(-32601, "Method not found", method)
        if self.era is None:
            raise Refusal(-32602, "Invalid request parameters", "")
        return self.page(params.get("cursor")) if method == "tools/list" else self.call(params, request_id)

    def modern_result(self, method, params, request_id):
        if self.era == "legacy":
            raise Refusal(-32600, "this connection serves the handshake protocol era")
        if (asked := params["_meta"][VERSION_KEY]) != MODERN:
            raise Refusal(-32022, "Unsupported protocol version", {"supported": [MODERN], "requested": asked})
        self.era = "modern"
        if method == "subscriptions/listen":
            return self.listen(params, request_id)
        fresh = {"ttlMs": 0, "cacheScope": "private"}
        if method == "server/discover":
            result = fresh | {"supportedVersions": [MODERN], **self.introduction()}
        elif method == "tools/list":
            result = fresh | self.page(params.get("cursor"))
        elif method == "tools/call":
            result = self.call(params, request_id)
        else:
            raise Refusal(-32601, "Method not found", method)
        return None if result is None else self.stamped(result)

    @property
    def info(self):
        return {"name": self.menu.get("name", "fake"), "version": "1.0.0"}

    def introduction(self):
        changes = self.menu.get("list_changed_capability", "list_changed_after" in self.menu)
        shown = {"capabilities": {"tools": {"listChanged": changes}}}
        return shown | {key: self.menu[key] for key in ("instructions",) if key in self.menu}

    def stamped(self, result):
        meta = {META + "serverInfo": self.info} | result.get("_meta", {})
        return {"resultType": "complete", **result, "_meta": meta}

    def initialize_result(self, asked):
        newest = self.menu.get("legacy_version", HANDSHAKE[-1])
        version = asked if asked in HANDSHAKE and asked <= newest else newest
        return {"protocolVersion": version, "serverInfo": self.info, **self.introduction()}

    def listen(self, params, request_id):
        wanted = {"toolsListChanged": True} if params["notifications"].get("toolsListChanged") else {}
        self.notify(
            "notifications/subscriptions/acknowledged",
            {"_meta": {META + "subscriptionId": request_id}, "notifications": wanted},
        )
        if wanted:
            self.listeners.append(request_id)

    def page(self, cursor):
        if loop := self.menu.get("cursor_loop"):
            return {
                "tools": self.tools,
                "nextCursor": str(next(self.cursors)) if loop == "fresh" else "again",
            }
        try:
            start = int(cursor or 0)
        except ValueError:
            raise Refusal(-32602, "Unknown cursor") from None
        end = start + self.menu.get("page_size", len(self.tools))
        return {"tools": self.tools[start:end]} | ({"nextCursor": str(end)} if end < len(self.tools) else {})

    def call(self, params, request_id):
        name = params["name"]
        if all(tool["name"] != name for tool in self.tools):
            raise Refusal(-32602, f"Unknown tool: {name}")
        if error := self.menu.get("error_on_call", {}).get(name):
            raise Refusal(**error)
        if name == self.menu.get("list_changed_after"):
            self.change_list()
        if name in self.menu.get("results", {}):
            return self.menu["results"][name]
        return behaviours.run(self, params, self.running[request_id])

    def change_list(self):
        more = load_tools(self.menu.get("more_tools", []))
        gone = {*self.menu.get("fewer_tools", []), *(tool["name"] for tool in more)}
        self.tools = [tool for tool in self.tools if tool["name"] not in gone] + more
        for _ in range(self.menu.get("announcements", 1)):
            if self.era == "legacy":
                self.notify("notifications/tools/list_changed", {})
            for request_id in list(self.listeners):
                self.notify("notifications/tools/list_changed", {"_meta": {META + "subscriptionId": request_id}})

    def notify(self, method, params):
        self.wire.send({"method": method, "params": params})


def load_tools(source):
    """Return tool definitions: given ones, bare names, those of a catalog file, or generated ones."""
    if isinstance(source, dict):
        return generated.tools(source["generate"])
    if isinstance(source, str):
        return json.loads(Path(source).read_text())["tools"]
    bare = {"description": "A tool of the fake server.", "inputSchema": {"type": "object"}}
    return [{"name": tool, **bare} if isinstance(tool, str) else tool for tool in source]


def chunks(total, size=1 << 16):
    """Yield the sizes of the pieces in which ``total`` bytes are written."""
    while total > 0:
        yield min(size, total)
        total -= size


if __name__ == "__main__":
    given = sys.argv[1]
    Server(json.loads(given if given.lstrip().startswith("{") else Path(given).read_text())).run()
