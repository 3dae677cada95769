"""The tools that the conformance suite calls, a way to call them by the suite's names, and what a scenario came to.

The suite calls fixed names, and behind toolcrib every tool has its server's name before its own; only tests
need it otherwise, so the renaming is here, between the suite and toolcrib.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

from mcp import MCPError

from fakes.memory import Call, MemoryServer
from fakes.menu import tool

SERVER = "fixture"
PREFIX = f"{SERVER}__".encode()
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
DIALECT = "https://json-schema.org/draft/2020-12/schema"

TEXT = {"type": "text", "text": "This is a simple text response for testing."}
IMAGE = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": SILENCE, "mimeType": "audio/wav"}
RESOURCE = {
    "type": "resource",
    "resource": {"uri": "test://embedded-resource", "mimeType": "text/plain", "text": "An embedded resource."},
}
FAILED = {"type": "text", "text": "This tool intentionally returns an error for testing"}

KEYWORDS = {
    "$schema": DIALECT,
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
MIRRORED = {"region": {"type": "string", "x-mcp-header": "Region"}}


def fixture_server() -> MemoryServer:
    """Return a server with the tools of the suite."""
    needs_sampling = MCPError(-32021, "Needs sampling", {"requiredCapabilities": {"sampling": {}}})
    server = MemoryServer(
        answers={
            "test_simple_text": {"content": [TEXT]},
            "test_image_content": {"content": [IMAGE]},
            "test_audio_content": {"content": [AUDIO]},
            "test_embedded_resource": {"content": [RESOURCE]},
            "test_multiple_content_types": {"content": [TEXT, IMAGE, RESOURCE]},
            "test_error_handling": {"content": [FAILED], "isError": True},
            "test_tool_with_progress": _in_steps,
            "test_logging_tool": {"content": [TEXT]},
            "test_streaming_elicitation": {"content": [TEXT]},
            "test_missing_capability": needs_sampling,
            "json_schema_2020_12_tool": {"content": [TEXT]},
            "test_custom_headers": {"content": [TEXT]},
        },
    )
    server.answers["test_trigger_tool_change"] = _changing(server)
    server.tools = [tool(name) for name in server.answers]
    server.tools[-2] = tool("test_custom_headers", params=MIRRORED)
    server.tools[-3] = {"name": "json_schema_2020_12_tool", "description": "Keywords.", "inputSchema": KEYWORDS}
    return server


async def _in_steps(call: Call) -> dict[str, Any]:
    for progress in (0, 50, 100):
        await call.report(progress, 100)
    return {"content": [TEXT]}


def _changing(server: MemoryServer) -> Any:
    async def change(_call: Call) -> dict[str, Any]:
        changed = tool(f"test_added_{len(server.tools)}")
        await server.change(*server.tools, changed)
        return {"content": [TEXT]}

    return change


class Renamed:
    """An ASGI application in front of another, to whose clients the fixture's tools have their own names."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = _with_prefix(await _body_of(receive))
        headers = [
            (name, _with_prefix_name(value) if name == b"mcp-name" else value) for name, value in scope["headers"]
        ]
        headers = [(name, value) for name, value in headers if name != b"content-length"]
        scope = {**scope, "headers": [*headers, (b"content-length", str(len(body)).encode())]}
        given = False

        async def read() -> Any:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def write(message: Any) -> None:
            if message["type"] == "http.response.start":
                kept = [(name, value) for name, value in message["headers"] if name != b"content-length"]
                message = {**message, "headers": kept}
            elif message["type"] == "http.response.body":
                message = {**message, "body": message.get("body", b"").replace(PREFIX, b"")}
            await send(message)

        await self._app(scope, read, write)


async def _body_of(receive: Any) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body


def _with_prefix(body: bytes) -> bytes:
    try:
        message = json.loads(body)
    except ValueError:
        return body
    match message:
        case {"method": "tools/call", "params": {"name": str(name)}}:
            message["params"]["name"] = _with_prefix_name(name.encode()).decode()
            return json.dumps(message).encode()
    return body


def _with_prefix_name(name: bytes) -> bytes:
    return PREFIX + name if name.startswith((b"test_", b"json_schema_")) else name


def checks(command: list[str], folder: Path) -> dict[str, str]:
    """Run one scenario, whose results go into ``folder``, and return the status of each of its checks by id."""
    ended = subprocess.run(
        [*command, "--output-dir", str(folder)], capture_output=True, text=True, timeout=55, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    [file] = folder.rglob("checks.json")
    return {check["id"]: check["status"] for check in json.loads(file.read_text(encoding="utf-8"))}
