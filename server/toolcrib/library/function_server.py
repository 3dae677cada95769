"""Functions of the program as a server: calls reach them through the gateway like any others, without messages."""

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from hashlib import sha256
from typing import Any

import anyio
import anyio.abc
import anyio.to_thread
import mcp_types as types
from mcp import MCPError
from mcp_types.version import LATEST_MODERN_VERSION
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_jsonable_python

from toolcrib.base.errors import BadRequest
from toolcrib.base.json_values import as_list, as_object, compact
from toolcrib.base.model import JsonObject
from toolcrib.config.settings import MemoryTarget
from toolcrib.jsonrpc.sdk import CallOptions, Channel, OnNotify, OnNotifyIntercept, OnRequest
from toolcrib.library.functions import FunctionTool, function_tool

_THREADS = 40
"""Functions that are not async and run at a time, of one server; the others wait."""


def function_target(functions: Iterable[Any]) -> MemoryTarget:
    """Return the server that has these functions as its tools; each is a function or a :class:`FunctionTool`.

    Raises:
        BadRequest: one of them cannot be a tool, or two have one name.

    """
    tools: dict[str, FunctionTool] = {}
    for function in functions:
        tool = function if isinstance(function, FunctionTool) else function_tool(function)
        if tool.name in tools:
            raise BadRequest(f"Two functions are called {tool.name}: give one of them another name.")
        tools[tool.name] = tool
    listed = [tool.definition for tool in tools.values()]

    @asynccontextmanager
    async def opened() -> AsyncGenerator[Channel]:
        yield _FunctionChannel(tools)

    return MemoryTarget(opened, sha256(compact(listed).encode("utf-8", "surrogatepass")).hexdigest())


class _FunctionChannel:
    """A channel to functions: a request runs in the task that makes it, so its cancellation is the function's."""

    def __init__(self, tools: Mapping[str, FunctionTool]) -> None:
        self._tools, self.ended = tools, anyio.Event()
        # One of its own: functions that take long must not keep the gateway's own work waiting.
        self._threads = anyio.CapacityLimiter(_THREADS)

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,  # noqa: ARG002 - of a transport
    ) -> JsonObject:
        """Answer a request."""
        match method:
            case "tools/call":
                return await self._call(params or {})
            case "tools/list":
                # Copies: what the gateway takes of a list is its own.
                return {"tools": [dict(tool.definition) for tool in self._tools.values()]}
            case "server/discover":
                return {
                    "supportedVersions": [LATEST_MODERN_VERSION],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "functions", "version": ""},
                    "resultType": "complete",
                    "ttlMs": 0,
                    "cacheScope": "private",
                }
            case _:
                raise MCPError(types.METHOD_NOT_FOUND, f"Functions have no {method}.")

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """Take no notice."""

    async def run(
        self,
        on_request: OnRequest,  # noqa: ARG002 - functions ask nothing
        on_notify: OnNotify,  # noqa: ARG002
        on_notify_intercept: OnNotifyIntercept | None = None,  # noqa: ARG002
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Wait for the end of the connection, which is that of the block that has opened it."""
        task_status.started()
        try:
            await anyio.sleep_forever()
        finally:
            self.ended.set()

    async def _call(self, params: Mapping[str, Any]) -> JsonObject:
        tool = self._tools.get(params["name"])
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params['name']}")
        try:
            positional, named = tool.bind(as_object(params.get("arguments")))
            if tool.is_async:
                return result_of(await tool.function(*positional, **named))
            run = partial(tool.function, *positional, **named)
            # Given up, not waited for, when the call is cancelled or its time is over.
            return result_of(await anyio.to_thread.run_sync(run, abandon_on_cancel=True, limiter=self._threads))
        except MCPError:
            raise
        except Exception as error:  # barrier: a function of the program; the model reads what went wrong
            text = str(error) if isinstance(error, BadRequest) else f"{type(error).__name__}: {error}"
            return {"content": [{"type": "text", "text": text}], "isError": True}


def result_of(value: Any) -> JsonObject:
    """Return what a function has returned as the result of a call.

    A result or blocks of the SDK stay what they are; an object is structured content too; anything else is a text: a
    string as it is, None as an empty one, other values as JSON.
    """
    if isinstance(value, types.CallToolResult):
        return _plain(value)
    if _is_block(value):
        return {"content": [_plain(value)]}
    if (blocks := as_list(value)) and all(map(_is_block, blocks)):
        return {"content": [_plain(each) for each in blocks]}
    if value is None or isinstance(value, str):
        return _text(value or "")
    try:
        made = to_jsonable_python(value)
    except PydanticSerializationError:
        return _text(str(value))
    result = _text(compact(made))
    return {**result, "structuredContent": as_object(made)} if isinstance(made, dict) else result


def _is_block(value: Any) -> bool:
    return isinstance(value, types.TextContent | types.ImageContent | types.AudioContent | types.EmbeddedResource)


def _plain(model: BaseModel) -> JsonObject:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def _text(text: str) -> JsonObject:
    return {"content": [{"type": "text", "text": text}]}
