"""A server of the demo that only lists tools: ``python -S demo_server.py FILE NAME``, standard library only.

FILE has the lists of several servers in short: by server and tool, what the tool does, and of each parameter the type
(``!``: required) and what it means.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def definitions(tools: dict[str, tuple[str, dict[str, str]]]) -> Iterator[dict[str, Any]]:
    """Yield the definitions of tools that are written in short."""
    for name, (description, parameters) in tools.items():
        schema: dict[str, Any] = {"type": "object", "properties": {}}
        for key, text in parameters.items():
            kind, _, about = text.partition(" ")
            schema["properties"][key] = {**_type(kind.removesuffix("!")), "description": about}
            if kind.endswith("!"):
                schema.setdefault("required", []).append(key)
        yield {"name": name, "description": description, "inputSchema": schema}


def _type(kind: str) -> dict[str, Any]:
    if kind.endswith("[]"):
        return {"type": "array", "items": _type(kind.removesuffix("[]"))}
    if kind in ("string", "integer", "number", "boolean", "object"):
        return {"type": kind}
    return {"type": "string", "enum": kind.split("|")}


def main(file: str, name: str) -> None:
    """Answer requests on stdin until it ends."""
    tools = list(definitions(json.loads(Path(file).read_text(encoding="utf-8"))[name]))
    said = {"type": "text", "text": "This server of the demo only lists its tools."}
    results: dict[str, Any] = {
        "initialize": {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": name, "version": "0"},
        },
        "tools/list": {"tools": tools},
        "tools/call": {"content": [said], "isError": True},
    }
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            result = results.get(request["method"])
            answer = (
                {"error": {"code": -32601, "message": "Method not found"}} if result is None else {"result": result}
            )
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
