"""Functions of the program as a server: calls reach them through the gateway like any others, without messages."""

import inspect
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from hashlib import sha256
from itertools import islice
from typing import Any, cast

import anyio
import anyio.abc
import anyio.to_thread
import mcp_types as types
from mcp import MCPError
from mcp_types.version import LATEST_MODERN_VERSION
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from toolcrib.base.errors import BadRequest, innermost
from toolcrib.base.json_values import as_object, compact
from toolcrib.base.model import JsonObject
from toolcrib.config.settings import MemoryTarget
from toolcrib.jsonrpc.sdk import CallOptions, Channel, OnNotify, OnNotifyIntercept, OnRequest
from toolcrib.library.functions import FunctionTool, function_tool

_THREADS = 40
"""Functions that are not async and run at a time, of one server; the others wait."""

_ITEMS_MAX = 100_000
"""Maximum number of values that are taken from an iterator, which may have no end."""

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+>")
_BLOCKS = (types.TextContent, types.ImageContent, types.AudioContent, types.EmbeddedResource, types.ResourceLink)


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
            return await self._result(partial(tool.function, *positional, **named), is_async=tool.is_async)
        except MCPError:
            raise
        except (Exception, SystemExit) as error:  # barrier: a function of the program; the model reads what went wrong
            # A parser of command lines exits where it refuses, which would end the program that called the tool.
            return {**_text(_said_of(innermost(error))), "isError": True}

    async def _result(self, function: Callable[[], Any], *, is_async: bool) -> JsonObject:
        if is_async:
            value = await function()
        else:
            value = await self._in_thread(partial(_result_unless_pending, function))
            if not _is_pending(value):
                return value
        while _is_pending(value):
            value = await _settled(value)
        return await self._in_thread(partial(result_of, value)) if isinstance(value, Iterator) else result_of(value)

    async def _in_thread(self, run: Callable[[], Any]) -> Any:
        """Run it in a thread; given up, not waited for, when the call is cancelled or its time is over."""
        return await anyio.to_thread.run_sync(run, abandon_on_cancel=True, limiter=self._threads)


def _said_of(error: BaseException) -> str:
    if isinstance(error, BadRequest):
        return str(error)
    name, text = type(error).__name__, str(error)
    return f"{name}: {text}" if text else name


def _result_unless_pending(function: Callable[[], Any]) -> Any:
    """Run a function, and return its result, or what only the event loop can wait for."""
    value = function()
    return value if _is_pending(value) else result_of(value)


def _is_pending(value: Any) -> bool:
    return inspect.isawaitable(value) or isinstance(value, AsyncIterator)


async def _settled(value: Any) -> Any:
    """Wait for a value, or for all values of an asynchronous iterator."""
    if not isinstance(value, AsyncIterator):
        return await value
    taken: list[Any] = []
    async for each in cast("AsyncIterator[Any]", value):
        taken.append(each)
        _check_number(taken)
    return taken


def _check_number(taken: list[Any]) -> None:
    if len(taken) > _ITEMS_MAX:
        raise BadRequest(f"The function ran, and yielded more than {_ITEMS_MAX} values: let it yield fewer.")


def result_of(value: Any) -> JsonObject:
    """Return what a function has returned as the result of a call.

    A result or blocks of the SDK stay what they are, and what stands beside blocks becomes blocks too; an object is
    structured content as well; anything else is a text: a string as it is, None as an empty one, other values as JSON,
    as pydantic writes them, but bytes as base64, and null for numbers that JSON has not. An iterator is the list of its
    values.

    Raises:
        BadRequest: it has no JSON form; the text says what the function should return.

    """
    if isinstance(value, types.CallToolResult):
        return _plain(value)
    if isinstance(value, Iterator):
        taken = list(islice(cast("Iterator[Any]", value), _ITEMS_MAX + 1))
        _check_number(taken)
        value = taken
    if isinstance(value, _BLOCKS):
        return {"content": [_plain(value)]}
    if isinstance(value, list | tuple):
        every = cast("Sequence[Any]", value)
        if any(issubclass(kind, _BLOCKS) for kind in set(map(type, every))):  # a list may be long, its types are few
            return {"content": [block for each in every for block in result_of(each)["content"]]}
    if value is None or isinstance(value, str):
        return _text(value or "")
    made = _json_of(value)
    if isinstance(made, str):
        return _text(made)
    text = compact(made)
    if "NaN" in text or "Infinity" in text:
        # What pydantic may leave in a model, and a reader of JSON refuses; a string with the word stays what it is.
        made = json.loads(text, parse_constant=lambda _constant: None)
        text = compact(made)
    return {**_text(text), "structuredContent": as_object(made)} if isinstance(made, dict) else _text(text)


def _json_of(value: Any) -> Any:
    try:
        return to_jsonable_python(value, bytes_mode="base64", fallback=_shown)
    except UnicodeDecodeError as error:
        # A model writes bytes by its own config, whatever is asked here.
        raise BadRequest(
            f"The function ran, and returned an object of {type(value).__name__} with bytes that are no text: set "
            "ser_json_bytes='base64' in its model's model_config, or return ImageContent or a string of base64."
        ) from error


def _shown(value: Any) -> str:
    """Return the text of an object that has no JSON form, if it says more than where the object is."""
    text = str(value)
    if _ADDRESS.search(text):
        raise BadRequest(
            f"The function ran, and returned an object of {type(value).__name__}, which has no JSON form: let it "
            "return a string, numbers, lists, dicts, dataclasses, pydantic models, or give the class a __str__."
        )
    return text


def _plain(model: BaseModel) -> JsonObject:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def _text(text: str) -> JsonObject:
    return {"content": [{"type": "text", "text": text}]}
