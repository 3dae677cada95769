"""The methods for tasks, in both forms that the protocol has had (ADR 70).

Up to 2025-11-25 they are part of the protocol (Basic Utilities, Tasks); in 2026-07-28 they are the extension
``io.modelcontextprotocol/tasks`` (SEP-2663).
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp import MCPError
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION

from toolcrib.base.errors import BadRequest
from toolcrib.base.json_values import as_object
from toolcrib.base.model import JsonObject
from toolcrib.downstream.isolation import TASKS
from toolcrib.gateway.tools import ToolUseCases
from toolcrib.jsonrpc.sdk import MCP_NAME_HEADER, Context, ProtocolServer, decode_header_value
from toolcrib.policy.requests import Request
from toolcrib.server.sessions import Sessions

if TYPE_CHECKING:
    from toolcrib.gateway.tasks import CallerTask  # few sessions have tasks

_DECLARED: JsonObject = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
"""What a client of 2025-11-25 is told of tasks."""

_REVISIONS: Mapping[str, tuple[str, ...]] = {
    "tasks/get": (LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION),
    "tasks/cancel": (LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION),
    "tasks/result": (LATEST_HANDSHAKE_VERSION,),
    "tasks/list": (LATEST_HANDSHAKE_VERSION,),
    "tasks/update": (LATEST_MODERN_VERSION,),
}


def with_tasks(capabilities: JsonObject, revision: object) -> JsonObject:
    """Return the capabilities with tasks, in the form of a protocol revision; without one, in that of 2026-07-28."""
    if revision == LATEST_HANDSHAKE_VERSION:
        return {**capabilities, "tasks": _DECLARED}
    if revision is not None:
        return capabilities
    return {**capabilities, "extensions": {**(capabilities.get("extensions") or {}), TASKS: {}}}


class TaskMethods:
    """Answers ``tasks/*`` for the tasks of the session; those of tools that it may no longer call do not exist."""

    def __init__(self, tool_use_cases: ToolUseCases, sessions: Sessions) -> None:
        self._tool_use_cases, self._sessions = tool_use_cases, sessions

    def register(self, server: ProtocolServer) -> None:
        """Register the handlers of these methods."""
        handlers: Mapping[str, Callable[[Request], Awaitable[JsonObject]]] = {
            "tasks/get": self._get,
            "tasks/result": self._result,
            "tasks/list": self._list,
            "tasks/cancel": self._cancel,
            "tasks/update": self._update,
        }

        async def answer(context: Context, params: JsonObject) -> JsonObject:
            request = await self._sessions.request(context)
            if request.session.is_modern:
                _require_extension(request)
                _require_same_name(context, params)
            return await handlers[context.method](request)

        for method in handlers:
            server.answer_verbatim(method, answer, _validate)

    async def _get(self, request: Request) -> JsonObject:
        task = await self._find(request)
        return task.detailed() if request.session.is_modern else task.told(modern=False)

    async def _result(self, request: Request) -> JsonObject:
        return await (await self._find(request)).result(request)

    async def _list(self, request: Request) -> JsonObject:
        if request.params.get("cursor") is not None:
            raise BadRequest("'cursor' is not one that was given here: all tasks stand on the first page.")
        tasks = await self._tool_use_cases.tasks(request.session)
        return {"tasks": [each.told(modern=False) for each in tasks]}

    async def _cancel(self, request: Request) -> JsonObject:
        task = await self._find(request)
        if request.session.is_modern:
            task.cancel()
            return {}
        if task.outcome is not None or task.is_cancelled:
            raise BadRequest(f"The task has ended already: it is {task.told(modern=False)['status']}.")
        task.cancel()
        return task.told(modern=False)

    async def _update(self, request: Request) -> JsonObject:
        (await self._find(request)).answer(request.params["inputResponses"])
        return {}

    async def _find(self, request: Request) -> "CallerTask":
        return await self._tool_use_cases.task(request.session, request.params["taskId"])


def _validate(method: str, version: str, params: Mapping[str, Any] | None) -> None:
    if version not in _REVISIONS[method]:
        raise KeyError(method)
    given = params or {}
    if method != "tasks/list" and not isinstance(given.get("taskId"), str):
        raise MCPError(types.INVALID_PARAMS, f"{method} takes a string 'taskId'.")
    if method == "tasks/update" and not isinstance(given.get("inputResponses"), dict):
        raise MCPError(types.INVALID_PARAMS, "tasks/update takes an object 'inputResponses'.")


def _require_extension(request: Request) -> None:
    """Refuse a client that does not declare the extension in this very request (SEP-2663, Protocol Errors)."""
    if TASKS not in as_object(request.session.capabilities.get("extensions")):
        raise MCPError(
            types.MISSING_REQUIRED_CLIENT_CAPABILITY,
            f"Only a client that declares the extension {TASKS} has tasks.",
            {"requiredCapabilities": {"extensions": {TASKS: {}}}},
        )


def _require_same_name(context: Context, params: JsonObject) -> None:
    """Refuse a request over HTTP whose header for routing names another task (SEP-2663, Routing Headers)."""
    named = None if context.request is None else context.request.headers.get(MCP_NAME_HEADER)
    if named is not None and decode_header_value(named) != params["taskId"]:
        raise MCPError(types.HEADER_MISMATCH, "The header Mcp-Name names another task than 'taskId'.")
