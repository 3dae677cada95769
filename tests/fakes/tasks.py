"""A server in memory whose tools run as tasks, in both forms that the protocol has had."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import anyio
from anyio.abc import TaskGroup
from mcp import MCPError

from fakes.memory import Call, JsonObject, MemoryServer, text
from fakes.menu import tool
from toolcrib.downstream.transport import Streams

EXTENSION = "io.modelcontextprotocol/tasks"
RELATED = "io.modelcontextprotocol/related-task"
ENDED = ("completed", "failed", "cancelled")
_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


@dataclass(eq=False)
class FakeTask:
    """One task of a :class:`TaskServer`. ``call`` has made it, ``result_call`` waits for its result."""

    id: str
    call: Call
    is_modern: bool
    poll_ms: int
    status: str = "working"
    message: str = ""
    result: JsonObject | MCPError = field(default_factory=dict)
    looks: int = 0
    questions: JsonObject = field(default_factory=dict)
    answers: JsonObject = field(default_factory=dict)
    changed: anyio.Event = field(default_factory=anyio.Event)
    result_call: Call | None = None

    @property
    def arguments(self) -> JsonObject:
        return self.call.arguments

    def say(self, message: str, status: str = "working") -> None:
        """Change the status."""
        self.status, self.message = status, message
        self.notice()

    def notice(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()

    async def looked_at(self, times: int = 1) -> None:
        """Wait until somebody has asked for its state so many times more."""
        until = self.looks + times
        while self.looks < until:
            await self.changed.wait()

    async def ask(self, method: str, **params: Any) -> JsonObject:
        """Ask the client, as the form of the task has it, and return the answer."""
        self.say("asks", "input_required")
        if self.is_modern:
            name = f"question {len(self.questions) + len(self.answers)}"
            self.questions[name] = {"method": method, "params": params}
            while name not in self.answers:
                await self.changed.wait()
            answer = self.answers[name]
        else:
            while self.result_call is None:
                await self.changed.wait()
            answer = await self.result_call.ask(method, {**params, "_meta": {RELATED: {"taskId": self.id}}})
        if not self.questions:
            self.say("goes on")
        return answer

    @property
    def told(self) -> JsonObject:
        """What the server says of it."""
        suffix = "Ms" if self.is_modern else ""
        said = {"statusMessage": self.message} if self.message else {}
        times = {"createdAt": "2026-11-23T00:00:00Z", "lastUpdatedAt": "2026-11-23T00:00:00Z"}
        return {
            "taskId": self.id,
            "status": self.status,
            **said,
            **times,
            f"ttl{suffix}": 60_000,
            f"pollInterval{suffix}": self.poll_ms,
        }


async def _wait_for_ever(_task: FakeTask) -> JsonObject:
    await anyio.sleep_forever()
    raise AssertionError


Script = Callable[[FakeTask], Awaitable[JsonObject]]


@dataclass(eq=False)
class TaskServer(MemoryServer):
    """``required`` and ``optional`` are its tools that run as tasks. ``script`` returns a task's result, or raises.

    With ``ends_at_once`` that is the result of a task which has ended when it is made. ``made`` are the tasks that it
    has made, ``cancelled`` those that it was asked to cancel.
    """

    required: tuple[str, ...] = ("research",)
    optional: tuple[str, ...] = ()
    script: Script = _wait_for_ever
    poll_ms: int = 1
    ends_at_once: JsonObject | None = None
    made: list[FakeTask] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    _group: TaskGroup | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for support in ("required", "optional"):
            for name in getattr(self, support):
                self.tools.append({**tool(name), "execution": {"taskSupport": support}})
                self.answers[name] = self._called
        self._numbers = count(1)
        self.others |= {
            "tasks/get": self._get,
            "tasks/result": self._result,
            "tasks/cancel": self._cancel,
            "tasks/update": self._update,
        }

    @property
    def capabilities(self) -> JsonObject:
        tasks = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
        return {**super().capabilities, "tasks": tasks, "extensions": {EXTENSION: {}}}

    @asynccontextmanager
    async def streams(self) -> AsyncGenerator[Streams]:
        async with anyio.create_task_group() as self._group, super().streams() as streams:
            yield streams
            self._group.cancel_scope.cancel()

    async def _called(self, call: Call) -> JsonObject:
        declared = call.params.get("_meta", {}).get(_CAPABILITIES)
        is_required = call.params["name"] in self.required
        if declared is not None:
            wants = EXTENSION in declared.get("extensions", {})
            if not wants and is_required:
                needed = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
                raise MCPError(-32021, "Missing required client capability", needed)
        else:
            wants = "task" in call.params
            if not wants and is_required:
                raise MCPError(-32601, "This tool runs as a task only")
        if not wants:
            return text("ran at once")
        task = FakeTask(f"task-{next(self._numbers)}", call, declared is not None, self.poll_ms)
        self.made.append(task)
        if self.ends_at_once is not None:
            task.result, task.status = self.ends_at_once, "completed"
            return {"resultType": "task", **task.told} if task.is_modern else {"task": task.told}
        assert self._group is not None
        self._group.start_soon(self._run, task)
        return {"resultType": "task", **task.told} if task.is_modern else {"task": task.told}

    async def _run(self, task: FakeTask) -> None:
        status = "completed"
        try:
            task.result = await self.script(task)
        except MCPError as error:
            task.result, status = error, "failed"
        if task.status not in ENDED:
            task.say("", status)

    def _known(self, call: Call) -> FakeTask:
        for task in self.made:
            if task.id == call.params["taskId"]:
                return task
        raise MCPError(-32602, "Task not found")

    async def _get(self, call: Call) -> JsonObject:
        task = self._known(call)
        task.looks += 1
        task.notice()
        if not task.is_modern:
            return task.told
        if task.status == "input_required":
            return {**task.told, "inputRequests": dict(task.questions)}
        if isinstance(task.result, MCPError):
            return {**task.told, "error": task.result.error.model_dump(exclude_none=True)}
        return {**task.told, **({"result": task.result} if task.status == "completed" else {})}

    async def _result(self, call: Call) -> JsonObject:
        task = self._known(call)
        task.result_call = call
        task.notice()
        while task.status not in ENDED:
            await task.changed.wait()
        if isinstance(task.result, MCPError):
            raise task.result
        return {**task.result, "_meta": {RELATED: {"taskId": task.id}}}

    async def _cancel(self, call: Call) -> JsonObject:
        task = self._known(call)
        self.cancelled.append(task.id)
        task.say("", "cancelled")
        return {} if task.is_modern else task.told

    async def _update(self, call: Call) -> JsonObject:
        task = self._known(call)
        for name, answer in call.params["inputResponses"].items():
            if task.questions.pop(name, None):
                task.answers[name] = answer
        task.notice()
        return {}
