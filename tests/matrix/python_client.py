"""The Python SDK's client trying features of a server: prints what each comes to, as JSON by feature.

Run as ``python python_client.py PLAN``, which is JSON: ``mode``, ``target`` (a URL or a command line), ``tool`` and
``resource`` (what names begin with behind toolcrib), ``features`` (see features.py) and ``answers``.
"""

import json
import os
import sys
import warnings
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import anyio
import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import PromptsListChanged, ResourceUpdated, ToolsListChanged
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

JsonObject = dict[str, Any]
NOTHING = "nothing in time"
WITHIN_S = 5
"""Seconds in which something has to come."""
QUIET_S = 0.5
"""Seconds in which what an earlier call brings about has come."""


class Trial:
    """A client, how it answers questions, and what it has been notified of."""

    def __init__(self, plan: JsonObject) -> None:
        self._answers, self._tool, self._resource = plan["answers"], plan["tool"], plan["resource"]
        self._notified, self._receive = anyio.create_memory_object_stream[tuple[str, Any]](1000)
        self.client: Client | None = None

    async def fill_in(self, context: Any, params: Any) -> types.ElicitResult:
        if params.mode == "url":
            return types.ElicitResult(action="accept")
        asked = params.requested_schema.get("properties", {})
        return types.ElicitResult(
            action="accept", content=self._answers["form"] if "size" in asked else {"name": "Ann"}
        )

    async def sample(self, context: Any, params: Any) -> types.CreateMessageResult:
        content = types.TextContent(type="text", text=self._answers["sampled"])
        return types.CreateMessageResult(role="assistant", content=content, model="m")

    async def list_roots(self, context: Any) -> types.ListRootsResult:
        return types.ListRootsResult.model_validate({"roots": [self._answers["root"]]})

    async def on_message(self, message: Any) -> None:
        match message:
            case types.ResourceUpdatedNotification(params=params):
                self._notified.send_nowait(("updated", str(params.uri)))
            case types.ToolListChangedNotification():
                self._notified.send_nowait(("tools", "changed"))
            case types.PromptListChangedNotification():
                self._notified.send_nowait(("prompts", "changed"))
            case _:
                pass

    async def on_log(self, params: Any) -> None:
        self._notified.send_nowait(("log", f"{params.level}: {_plain(params.data)}"))

    async def outcome(self, feature: JsonObject) -> str:
        """Return what a feature comes to."""
        feature = json.loads(json.dumps(feature).replace("KEY", uuid4().hex))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                with anyio.fail_after(3 * WITHIN_S):
                    said = await self._tried(feature)
            except Exception as raised:  # whatever a client raises is what the feature comes to
                said = _said(_first_of(raised))
        return said

    async def _tried(self, feature: JsonObject) -> str:
        match feature:
            case {"call": [name, arguments]}:
                return await self._called(name, arguments)
            case {"progress": call}:
                return await self._with_progress(*call, in_full=not feature.get("any"))
            case {"log": call}:
                said = await self._logged(*call)
                return "a line" if feature.get("any") else said
            case {"updated": [name, arguments], "uri": uri}:
                return await self._updated(name, arguments, self._resource + uri)
            case {"changed": [name, arguments], "of": kind}:
                return await self._changed(name, arguments, kind)
            case {"cancelled": call, "then": [then, given]}:
                await self._given_up(*call)
                return await self._seen(then, given)
            case _:
                raise ValueError(feature)

    async def _with_progress(self, name: str, arguments: JsonObject, *, in_full: bool) -> str:
        steps: list[str] = []

        async def on_progress(done: float, total: float | None, _message: str | None) -> None:
            steps.append(f"{done:g}/{total or 0:g}")

        said = await self._called(name, arguments, on_progress)
        return f"{', '.join(steps if in_full else steps[:1])}; {said}"

    async def _logged(self, name: str, arguments: JsonObject) -> str:
        if not self._is_modern:
            await self._connected.set_logging_level("debug")
        await self._called(name, arguments)
        return await self._next("log")

    async def _updated(self, name: str, arguments: JsonObject, uri: str) -> str:
        if self._is_modern:
            async with self._listening(resource_subscriptions=[uri]):
                await self._called(name, arguments)
                return await self._next("updated")
        await self._connected.subscribe_resource(uri)
        await self._called(name, arguments)
        return await self._next("updated")

    async def _changed(self, name: str, arguments: JsonObject, kind: str) -> str:
        # Where a list grows by use, the first call of a tool changes it too.
        await self._called(name, arguments)
        await anyio.sleep(QUIET_S)
        self._forget()
        if self._is_modern:
            async with self._listening(**{f"{kind}_list_changed": True}):
                await self._called(name, arguments)
                return await self._next(kind)
        await self._called(name, arguments)
        return await self._next(kind)

    async def _seen(self, name: str, arguments: JsonObject) -> str:
        """Ask until a call has been noticed to be cancelled."""
        for _ in range(20):
            said = await self._called(name, arguments)
            if said != "False":
                return said
            await anyio.sleep(0.1)
        return "goes on"

    @property
    def _connected(self) -> Client:
        assert self.client is not None
        return self.client

    @property
    def _is_modern(self) -> bool:
        return self._connected.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def _called(self, name: str, arguments: JsonObject, progress: Any = None) -> str:
        result = await self._connected.call_tool(self._tool + name, arguments, progress_callback=progress)
        texts = [block.text if isinstance(block, types.TextContent) else block.type for block in result.content]
        return ("error: " if result.is_error else "") + " ".join(texts)

    async def _next(self, kind: str) -> str:
        with anyio.fail_after(WITHIN_S):
            while True:
                got, what = await self._receive.receive()
                if got == kind:
                    return what

    def _forget(self) -> None:
        try:
            while True:
                self._receive.receive_nowait()
        except anyio.WouldBlock:
            pass

    @asynccontextmanager
    async def _listening(self, **wanted: Any) -> AsyncGenerator[None]:
        """Hold a subscription of 2026-07-28, and note what it brings as in the older era."""

        async def read(events: Any) -> None:
            async for event in events:
                match event:
                    case ResourceUpdated(uri=uri):
                        self._notified.send_nowait(("updated", uri))
                    case ToolsListChanged():
                        self._notified.send_nowait(("tools", "changed"))
                    case PromptsListChanged():
                        self._notified.send_nowait(("prompts", "changed"))
                    case _:
                        pass

        async with self._connected.listen(**wanted) as events, anyio.create_task_group() as group:
            group.start_soon(read, events)
            yield
            group.cancel_scope.cancel()

    async def _given_up(self, name: str, arguments: JsonObject) -> None:
        """Call a tool, and cancel the call as soon as it works."""
        async with anyio.create_task_group() as group:
            works = anyio.Event()

            async def on_progress(*_report: Any) -> None:
                works.set()

            group.start_soon(self._called, name, arguments, on_progress)
            with anyio.move_on_after(WITHIN_S):
                await works.wait()
            group.cancel_scope.cancel()


def _first_of(error: BaseException) -> BaseException:
    """Return an exception, of a group the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _said(error: BaseException) -> str:
    match error:
        case MCPError(code=code):
            return f"error {code}: {error}"
        case TimeoutError():
            return NOTHING
        case _:
            return f"error: {type(error).__name__}"


def _plain(data: Any) -> str:
    return data if isinstance(data, str) else json.dumps(data)


async def outcomes(plan: JsonObject) -> dict[str, str]:
    """Connect once and return what each feature comes to, or for each of them why there is no connection."""
    trial, target = Trial(plan), plan["target"]
    found: dict[str, str] = {}
    try:
        if isinstance(target, str):
            transport = streamable_http_client(target)
        else:
            parameters = StdioServerParameters(command=target[0], args=target[1:], env={**os.environ})
            transport = stdio_client(parameters)
        async with Client(
            transport, mode=plan["mode"], elicitation_callback=trial.fill_in, sampling_callback=trial.sample,
            list_roots_callback=trial.list_roots, logging_callback=trial.on_log, log_level="debug",
            message_handler=trial.on_message,
        ) as trial.client:  # fmt: skip
            for name, feature in plan["features"].items():
                found[name] = await trial.outcome(feature)
    except Exception as error:  # likewise, if it does not connect
        found |= {name: f"no connection: {_first_of(error)}" for name in plan["features"] if name not in found}
    return found


if __name__ == "__main__":
    print(json.dumps(anyio.run(outcomes, json.loads(sys.argv[1]))))
