"""A server whose tools run as tasks, as the suite's scenarios for the extension of 2026-07-28 require (SEP-2663).

Run as ``python tasks_server.py`` on its pipes, or as ``python tasks_server.py PORT`` over streamable HTTP on loopback.
"""

import sys
import time
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server

JsonObject = dict[str, Any]
Context = ServerRequestContext[Any, Any]

EXTENSION = "io.modelcontextprotocol/tasks"
_TEXT: JsonObject = {"type": "string"}
TOOLS: dict[str, JsonObject] = {
    "greet": {"name": _TEXT},
    "slow_compute": {"seconds": {"type": "number"}, "label": _TEXT},
    "failing_job": {},
    "protocol_error_job": {},
    "confirm_delete": {"filename": _TEXT},
    "multi_input": {},
    "test_tool_with_task": {},
}
"""The scenarios' tools, with the properties of their arguments."""

ASKS = {"confirm_delete": ("confirm",), "multi_input": ("first", "second")}


class TaskId(types.RequestParams):
    """Params of ``tasks/get`` and ``tasks/cancel``."""

    task_id: str


class TaskUpdate(TaskId):
    """Params of ``tasks/update``."""

    input_responses: dict[str, Any]


@dataclass
class Task:
    """One task, whose state follows from the time and the answers that came."""

    id: str
    result: JsonObject | MCPError
    ends: float
    asks: dict[str, JsonObject] = field(default_factory=dict)
    is_cancelled: bool = False

    @property
    def status(self) -> str:
        if self.is_cancelled:
            return "cancelled"
        if self.asks:
            return "input_required"
        if time.monotonic() < self.ends:
            return "working"
        return "failed" if isinstance(self.result, MCPError) else "completed"

    @property
    def told(self) -> JsonObject:
        at = "2026-07-28T00:00:00Z"
        times = {"createdAt": at, "lastUpdatedAt": at, "ttlMs": 600_000, "pollIntervalMs": 100}
        return {"taskId": self.id, "status": self.status, **times}

    @property
    def detailed(self) -> JsonObject:
        match self.status, self.result:
            case "input_required", _:
                return {**self.told, "inputRequests": self.asks}
            case "completed", dict() as result:
                return {**self.told, "result": {"resultType": "complete", **result}}
            case "failed", MCPError() as error:
                return {**self.told, "error": error.error.model_dump(exclude_none=True)}
        return self.told


class TaskingServer(Server[Any]):
    """The server."""

    def __init__(self) -> None:
        self._ids = count(1)
        self._tasks: dict[str, Task] = {}
        super().__init__("tasking-server", on_list_tools=self._list_tools, on_call_tool=self._call_tool)
        self.extensions[EXTENSION] = {}
        self.add_request_handler("tasks/get", TaskId, self._get)
        self.add_request_handler("tasks/cancel", TaskId, self._cancel)
        self.add_request_handler("tasks/update", TaskUpdate, self._update)

    async def _list_tools(self, _context: Context, _params: Any) -> types.ListToolsResult:
        tools = [
            {"name": name, "description": f"Does {name}.", "inputSchema": {"type": "object", "properties": properties}}
            for name, properties in TOOLS.items()
        ]
        return types.ListToolsResult.model_validate({"tools": tools})

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> Any:
        name, given = params.name, params.arguments or {}
        if name == "greet":
            return types.CallToolResult.model_validate(_said(f"Hello, {given['name']}!"))
        seconds = given.get("seconds", 0)
        if not _declares(context):
            if name == "failing_job":
                raise _needed()
            await anyio.sleep(seconds)
            return types.CallToolResult.model_validate(_said("done"))
        result: JsonObject | MCPError = _said(f"computed for {seconds} s")
        if name == "failing_job":
            seconds, result = 1, {**_said("It failed."), "isError": True}
        elif name == "protocol_error_job":
            result = MCPError(types.INTERNAL_ERROR, "It broke.")
        elif name == "test_tool_with_task":
            answers = params.input_responses or {}
            if "user_name" not in answers:
                return types.InputRequiredResult.model_validate({"inputRequests": {"user_name": _form()}})
            said = answers["user_name"].model_dump(mode="json", exclude_none=True)
            result = _said(f"Hello, {said['content']['name']}!")
        asks = {key: _form() for key in ASKS.get(name, ())}
        task = Task(f"{next(self._ids)}", result, time.monotonic() + seconds, asks)
        self._tasks[task.id] = task
        return {"resultType": "task", **task.told}

    async def _get(self, context: Context, params: TaskId) -> JsonObject:
        return self._known(context, params).detailed

    async def _cancel(self, context: Context, params: TaskId) -> JsonObject:
        task = self._known(context, params)
        task.is_cancelled = task.status in ("working", "input_required")
        return {}

    async def _update(self, context: Context, params: TaskUpdate) -> JsonObject:
        task = self._known(context, params)
        for key in params.input_responses:
            task.asks.pop(key, None)
        return {}

    def _known(self, context: Context, params: TaskId) -> Task:
        if not _declares(context):
            raise _needed()
        if context.request is not None and context.request.headers.get("mcp-name", params.task_id) != params.task_id:
            raise MCPError(types.HEADER_MISMATCH, "Mcp-Name names another task")
        if params.task_id not in self._tasks:
            raise MCPError(types.INVALID_PARAMS, "Task not found")
        return self._tasks[params.task_id]


def _declares(context: Context) -> bool:
    declared = context.session.client_capabilities
    return declared is not None and EXTENSION in (declared.extensions or {})


def _needed() -> MCPError:
    needed = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
    return MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "Missing required client capability", needed)


def _said(what: str) -> JsonObject:
    return {"content": [{"type": "text", "text": what}]}


def _form() -> JsonObject:
    schema = {"type": "object", "properties": {"name": _TEXT}}
    return {"method": "elicitation/create", "params": {"mode": "form", "message": "Who?", "requestedSchema": schema}}


async def _on_pipes(server: TaskingServer) -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def main() -> None:
    """Serve until it is stopped."""
    server = TaskingServer()
    if len(sys.argv) < 2:
        anyio.run(_on_pipes, server)
        return
    app = server.streamable_http_app()
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", timeout_graceful_shutdown=1)


if __name__ == "__main__":
    main()
