"""A server to write programs for, and what running one comes back with."""

import json
from typing import Any

import mcp_types as types

from fakes.memory import Call, JsonObject, MemoryServer, text
from fakes.menu import tool
from worlds import Client

ON: JsonObject = {"programs": {"enabled": "auto"}}
READS = {"readOnlyHint": True}


def configured(policy: JsonObject | None = None, **programs: Any) -> JsonObject:
    """Return a config with programs, bounded as given."""
    return {"programs": {"enabled": "auto", **programs}, **({"policy": policy} if policy else {})}


LOG: JsonObject = {
    "type": "object",
    "properties": {
        "result": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"sha": {"type": "string"}, "count": {"type": "integer"}},
                "required": ["sha", "count"],
            },
        }
    },
    "required": ["result"],
}
"""The output schema of a log, as SDKs write that of a list."""


async def _log(call: Call) -> JsonObject:
    commits = [{"sha": f"{n}" * 4, "count": n} for n in range(call.arguments.get("count", 2))]
    return {**text(json.dumps(commits)), "structuredContent": {"result": commits}}


def git(**answers: Any) -> MemoryServer:
    """Return a server with a log to read, a file to read, an issue to write, and a tool with an odd name."""
    tools = [
        tool(
            "git_log",
            "Show commits.",
            {"repo": "string", "count": "integer"},
            ["repo"],
            annotations=READS,
            outputSchema=LOG,
        ),
        tool(
            "read",
            "Read a file.",
            {"path": "string", "mode": {"enum": ["text", "lines"]}},
            ["path"],
            annotations=READS,
        ),
        tool("write", "Write a file.", {"path": "string", "body": "string"}, ["path"]),
        tool("odd-name", "Do what is odd.", {"max-count": "integer"}, annotations=READS),
        tool("secret", "Tell a secret.", {}, annotations=READS),
    ]
    return MemoryServer(tools, answers={"git_log": _log, **answers})


async def ran(client: Client, code: str, *, progress_callback: Any = None, **more: Any) -> str:
    """Run a program, and return the text that comes back, after ``ERROR`` if it is one."""
    # As hosts call it: without a session, the client answers what is asked and repeats the call.
    result = await client.call_tool("tool_run", {"code": code, **more}, progress_callback=progress_callback)
    [block] = result.content
    assert isinstance(block, types.TextContent)
    return ("ERROR " if result.is_error else "") + block.text


class Person:
    """Answers questions, one by one; ``asked`` are the questions. Without an answer left, they say no."""

    def __init__(self, *answers: str) -> None:
        self._answers, self.asked = list(answers), list[str]()

    async def __call__(self, _context: Any, params: Any) -> types.ElicitResult:
        self.asked.append(params.message)
        if not self._answers:
            return types.ElicitResult(action="decline")
        return types.ElicitResult(action="accept", content={"answer": self._answers.pop(0)})
