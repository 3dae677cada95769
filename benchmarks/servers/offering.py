"""A stdio server that offers what stands in a file: tools, resources, prompts. Run as ``python -S offering.py FILE``.

FILE holds an object with the results of ``tools/list`` and its like under ``tools``, ``resources``, ``templates`` and
``prompts``. A tool is called by what stands in its name: ``fail``, ``refuse``, ``long``, ``progress``, ``ask``,
``crash``; any other says what it was called with. Standard library only.
"""

import json
import os
import sys
from pathlib import Path

INFO = {"name": "offering", "version": "1"}
CAPABILITIES = {
    "tools": {"tools": {"listChanged": True}, "logging": {}},
    "resources": {"resources": {"subscribe": True, "listChanged": True}},
    "prompts": {"prompts": {"listChanged": True}, "completions": {}},
}
"""What a server that offers something of a kind says that it can."""

FORM = {
    "message": "Which colour?",
    "requestedSchema": {
        "type": "object",
        "properties": {"colour": {"type": "string", "enum": ["red", "green"]}},
        "required": ["colour"],
    },
}


class RefusedError(Exception):
    """An error to answer with."""

    def __init__(self, code, message):
        super().__init__(message)
        self.error = {"code": code, "message": message}


class Server:
    """One conversation about one offer."""

    def __init__(self, offer):
        self._offer = offer
        self._can_ask = False
        self._asked = 0

    def run(self):
        """Answer each request until the input ends."""
        print("offering: started", file=sys.stderr, flush=True)
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if "id" in message and "method" in message:
                self._answer(message)

    def _answer(self, message):
        try:
            answer = {"result": self._result(message["method"], message.get("params") or {})}
        except RefusedError as refused:
            answer = {"error": refused.error}
        self._send({"id": message["id"], **answer})

    def _send(self, message):
        sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        sys.stdout.buffer.flush()

    def _result(self, method, params):  # noqa: PLR0911 - one for each kind of request
        match method:
            case "initialize":
                self._can_ask = "elicitation" in params.get("capabilities", {})
                can = {
                    key: value
                    for kind in CAPABILITIES
                    if kind in self._offer
                    for key, value in CAPABILITIES[kind].items()
                }
                about = {"capabilities": can, "serverInfo": INFO, "instructions": "Ask before you pay."}
                return {"protocolVersion": "2025-11-25", **about}
            case "tools/list" | "resources/list" | "prompts/list":
                kind = method.partition("/")[0]
                return {kind: self._offer.get(kind, [])}
            case "resources/templates/list":
                return {"resourceTemplates": self._offer.get("templates", [])}
            case "tools/call":
                return self._called(params)
            case "resources/read":
                return self._read(params["uri"])
            case "resources/subscribe":
                self._send({"method": "notifications/resources/updated", "params": {"uri": params["uri"]}})
                return {}
            case "prompts/get":
                words = json.dumps(params.get("arguments"), sort_keys=True)
                content = {"type": "text", "text": f"{params['name']} with {words}"}
                return {"description": "As asked.", "messages": [{"role": "user", "content": content}]}
            case "completion/complete":
                start = params["argument"]["value"]
                words = [word for word in ("alpha", "alphabet", "beta") if word.startswith(start)]
                return {"completion": {"values": words, "total": len(words), "hasMore": False}}
            case "ping" | "resources/unsubscribe" | "logging/setLevel":
                return {}
        raise RefusedError(-32601, "Method not found")

    def _read(self, uri):
        if uri.endswith("missing"):
            raise RefusedError(-32002, "Resource not found")
        if uri.endswith(".png"):
            return {"contents": [{"uri": uri, "mimeType": "image/png", "blob": "iVBORw0KGgo="}]}
        return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": f"What {uri} says.\n"}]}

    def _called(self, params):
        name, given = params["name"], params.get("arguments") or {}
        if "crash" in name:
            print("offering: crashes in a call", file=sys.stderr, flush=True)
            os._exit(3)
        if "refuse" in name:
            raise RefusedError(-32602, "refused as asked")
        if "fail" in name:
            return _text("failed as asked", isError=True)
        if "long" in name:
            return _text("".join(f"line {number} of a long text\n" for number in range(given.get("lines", 400))))
        if "ask" in name:
            return _text(json.dumps(self._ask(), sort_keys=True))
        if "progress" in name:
            self._progress(params)
        return _text(f"{name} {json.dumps(given, sort_keys=True)}", structuredContent={"given": given})

    def _progress(self, params):
        token = (params.get("_meta") or {}).get("progressToken")
        for step in (1, 2, 3) if token is not None else ():
            about = {"progressToken": token, "progress": step, "total": 3, "message": f"step {step}"}
            self._send({"method": "notifications/progress", "params": about})

    def _ask(self):
        """Ask the client to fill in a form and return what it says; nothing else arrives meanwhile."""
        if not self._can_ask:
            return "nobody to ask"
        self._asked += 1
        key = f"ask-{self._asked}"
        self._send({"id": key, "method": "elicitation/create", "params": FORM})
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if message.get("id") == key and "method" not in message:
                return message.get("result") or message.get("error")
        return None


def _text(text, **more):
    return {"content": [{"type": "text", "text": text}], "isError": False, **more}


if __name__ == "__main__":
    Server(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))).run()
