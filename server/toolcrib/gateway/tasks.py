"""Tasks of callers: calls that go on after their request was answered, each under a handle (ADR 70).

The handle stands for toolcrib's own wait for the server's task, so its two forms meet here: a task has the form of its
caller's protocol era, whichever the server has.
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

import anyio
from anyio.abc import TaskGroup

from toolcrib.base.errors import BadRequest, Busy, ConnectionLost, DownstreamError, Unavailable
from toolcrib.base.handles import NewHandle
from toolcrib.base.json_values import as_object
from toolcrib.base.model import Caller, JsonObject
from toolcrib.config.schema import LimitsSection
from toolcrib.downstream.isolation import RELATED_TASK
from toolcrib.downstream.suspended import SuspendedCall, carry_out
from toolcrib.events.kinds import TaskCreated, TaskEnded
from toolcrib.events.log import EventLog
from toolcrib.gateway.results import failure
from toolcrib.policy.requests import Request
from toolcrib.policy.sessions import Session

if TYPE_CHECKING:
    from toolcrib.downstream.tasks import ServerTask, TaskState

_POLL_MS = 1000
_CANCELLED = "The task was cancelled. It may have done part of its work."

Owner = tuple[Caller, str]
"""The caller, and the session."""

Status = Literal["working", "input_required", "completed", "failed", "cancelled"]


class CallerTask(SuspendedCall):
    """One task of a caller. To its server it is the request of somebody who can be asked until it ends.

    ``handle`` is its id for the caller, ``tool`` the public name of what was called. ``expires`` is when it is
    forgotten, on the monotonic clock; other times are seconds since the epoch.
    """

    def __init__(
        self, handle: str, request: Request, tool: str, *, ttl_s: float, now: float, expires: float, poll_s: float
    ) -> None:
        super().__init__(request, lambda: "", lasting=True)
        self.handle, self.tool = handle, tool
        self.owner: Owner = owner_of(request.session)
        self.created = self.updated = now
        self.expires, self._ttl_ms, self._poll_ms = expires, round(ttl_s * 1000), max(1, round(poll_s * 1000))
        self.message = ""
        self.is_cancelled = False
        self.ended = anyio.Event()

    async def notify(self, method: str, params: JsonObject) -> None:
        """Notify the caller outside of the request, which was answered long ago."""
        await self.request.tell(method, params)

    async def notify_tools_changed(self) -> None:
        """Notify the caller in the same way."""
        await self.request.tell("notifications/tools/list_changed", {})

    async def _report(self, progress: float, total: float | None, message: str | None) -> None:
        """Pass progress on: a session's token is good for as long as the task (2025-11-25, Tasks, Progress)."""
        if self.request.lasting and self.request.on_progress is not None:
            await self.request.on_progress(progress, total, message)

    @property
    def outcome(self) -> JsonObject | Exception | None:
        """The result, or the error that it ended with; None as long as it runs."""
        return self._outcome

    @property
    def status(self) -> Status:
        """How far it is, in the words of both forms."""
        if self.is_cancelled:
            return "cancelled"
        if self._outcome is None:
            return "input_required" if self.input_requests() else "working"
        return "failed" if isinstance(self._outcome, Exception) else "completed"

    def told(self, *, modern: bool) -> JsonObject:
        """Return what a caller is told of it, in the form of its era."""
        status, suffix = self.status, "Ms" if modern else ""
        # A result that is an error is a completed task in the newer form, and a failed one in the older.
        if not modern and isinstance(self._outcome, dict) and self._outcome.get("isError") and not self.is_cancelled:
            status = "failed"
        message = _CANCELLED if status == "cancelled" else self.message
        return {
            "taskId": self.handle,
            "status": status,
            **({"statusMessage": message} if message else {}),
            "createdAt": _time(self.created),
            "lastUpdatedAt": _time(self.updated),
            f"ttl{suffix}": self._ttl_ms,
            f"pollInterval{suffix}": self._poll_ms,
        }

    def created_result(self) -> JsonObject:
        """Return the result of the call that became this task."""
        if self.session.is_modern:
            return {"resultType": "task", **self.told(modern=True)}
        return {"task": self.told(modern=False)}

    def detailed(self) -> JsonObject:
        """Return the answer to ``tasks/get`` of 2026-07-28, which has questions, result and error in it."""
        told, outcome = self.told(modern=True), self._outcome
        if told["status"] == "input_required":
            return {**told, "inputRequests": self.input_requests()}
        if told["status"] == "completed" and isinstance(outcome, dict):
            return {**told, "result": {"resultType": "complete", **_without_relation(outcome)}}
        if told["status"] == "failed":
            return {**told, "error": _error_json(outcome)}
        return told

    async def result(self, request: Request) -> JsonObject:
        """Return the result, as ``tasks/result`` of 2025-11-25 does: once there is one; until then it asks questions.

        Raises:
            BadRequest: the task was cancelled.
            Exception: the error that the task ended with.

        """
        meta: JsonObject = {RELATED_TASK: {"taskId": self.handle}}
        while (result := await self._unless_cancelled()) is None:
            if not await self.ask_through(request, meta):
                await self.changed.wait()
        return {**_without_relation(result), "_meta": {**_without_relation(result).get("_meta", {}), **meta}}

    async def _unless_cancelled(self) -> JsonObject | None:
        try:
            return await self.next_step()
        except ConnectionLost:
            if self.is_cancelled:
                raise BadRequest(_CANCELLED) from None
            raise

    def cancel(self) -> None:
        """End it, and have its server cancel it."""
        if self._outcome is None:
            self.is_cancelled = True
            self.scope.cancel()


def owner_of(session: Session) -> Owner:
    """Return whose the tasks of a session are."""
    return session.caller, session.label


class CallerTasks:
    """The tasks of all callers, by handle. ``tasks`` own those that run.

    ``now`` is a monotonic clock, ``wall_clock`` for show; ``events`` returns the log in use.
    """

    def __init__(
        self,
        tasks: TaskGroup,
        *,
        new_handle: NewHandle,
        now: Callable[[], float],
        wall_clock: Callable[[], float],
        events: Callable[[], EventLog],
    ) -> None:
        self._tasks, self._new_handle, self._now = tasks, new_handle, now
        self._wall_clock, self._events = wall_clock, events
        self._kept: dict[str, CallerTask] = {}

    def require_room(self, session: Session, limits: LimitsSection) -> None:
        """Return if a session may have another task.

        Raises:
            Busy: it has too many that run; nothing was done.

        """
        if key := self._full(session, limits):
            raise Busy(
                f"There are too many tasks under way (limits.{key}). Nothing ran. Wait for some of them to end, or "
                "cancel them, then repeat the call; or call without a task."
            )

    def has_room(self, session: Session, limits: LimitsSection) -> bool:
        """Return whether a session may have another task."""
        return not self._full(session, limits)

    def _full(self, session: Session, limits: LimitsSection) -> str:
        """Return the limit that leaves no room, else an empty text; tasks that have ended make room."""
        self._forget_expired()
        owner = owner_of(session)
        of_caller = [task for task in self._kept.values() if task.owner[0].principal == owner[0].principal]
        of_session = [task for task in of_caller if task.owner == owner]
        bounds = (("tasks", limits.tasks, of_session), ("tasks_per_principal", limits.tasks_per_principal, of_caller))
        for key, most, counted in bounds:
            while len(counted) >= most:
                oldest = next((task for task in counted if task.ended.is_set()), None)
                if oldest is None:
                    return key
                counted.remove(oldest)
                self._forget([oldest])
        return ""

    def adopt(
        self,
        request: Request,
        tool: str,
        task: "ServerTask",
        limits: LimitsSection,
        finish: Callable[[CallerTask], Awaitable[JsonObject]],
    ) -> JsonObject:
        """Give a caller a handle for a task that a call has become; return the result of that call.

        ``finish`` waits for the end, on account of the request that it gets, and returns the result.
        """
        kept = self._keep(request, tool, limits, task.state.poll_s)
        kept.message = task.state.message

        def note(state: "TaskState") -> None:
            kept.message = state.message
            self._note_change(kept)

        task.on_state = note
        self._events().emit(TaskCreated(tool_name=tool), session=request.session.label)
        self._tasks.start_soon(self._run, kept, finish)
        return kept.created_result()

    def completed(self, request: Request, tool: str, result: JsonObject, limits: LimitsSection) -> JsonObject:
        """Return a task that has ended already, for a caller that asked for one where none was made."""
        kept = self._keep(request, tool, limits, _POLL_MS / 1000)
        kept.end(result)
        kept.ended.set()
        return kept.created_result()

    def _keep(self, request: Request, tool: str, limits: LimitsSection, poll_s: float) -> CallerTask:
        wished_s = (request.task_ttl_ms or 0) / 1000
        ttl_s = min(wished_s or limits.task_ttl_s, limits.task_ttl_s)
        handle, now = self._new_handle(), self._now()
        kept = self._kept[handle] = CallerTask(
            handle,
            request,
            tool,
            ttl_s=ttl_s,
            now=self._wall_clock(),
            expires=now + ttl_s,
            poll_s=max(poll_s, limits.task_poll_s),
        )
        kept.scope.deadline = anyio.current_time() + ttl_s
        return kept

    async def _run(self, task: CallerTask, finish: Callable[[CallerTask], Awaitable[JsonObject]]) -> None:
        began = self._now()

        async def work() -> JsonObject:
            try:
                return await finish(task)
            except Unavailable as error:  # for a model to read, as of any call
                return failure(str(error))

        await carry_out(task, work)
        # The scope ends by its deadline, too, and then nobody has cancelled anything by name.
        task.is_cancelled = task.is_cancelled or task.scope.cancelled_caught
        task.ended.set()
        self._note_change(task)
        status = task.told(modern=False)["status"]
        duration_ms = (self._now() - began) * 1000
        self._events().emit(
            TaskEnded(tool_name=task.tool, status=status), session=task.session.label, duration_ms=duration_ms
        )

    def _note_change(self, task: CallerTask) -> None:
        task.updated = self._wall_clock()
        if task.request.lasting:
            self._tasks.start_soon(task.request.tell, "notifications/tasks/status", task.told(modern=False))

    def find(self, session: Session, handle: object) -> CallerTask | None:
        """Return a task of a session; None if there is none: of another session, expired, or never there."""
        self._forget_expired()
        task = self._kept.get(handle) if isinstance(handle, str) else None
        return task if task is not None and task.owner == owner_of(session) else None

    def of(self, session: Session) -> list[CallerTask]:
        """Return the tasks of a session, the oldest first."""
        self._forget_expired()
        return [task for task in self._kept.values() if task.owner == owner_of(session)]

    def end_session(self, session: Session) -> None:
        """Cancel and forget the tasks of a session, which nobody can ask for any more."""
        self._forget([task for task in self._kept.values() if task.owner == owner_of(session)])

    def _forget_expired(self) -> None:
        self._forget([task for task in self._kept.values() if task.expires <= self._now()])

    def _forget(self, tasks: list[CallerTask]) -> None:
        for task in tasks:
            task.cancel()
            self._kept.pop(task.handle, None)


def _error_json(outcome: JsonObject | Exception | None) -> JsonObject:
    if isinstance(outcome, DownstreamError):
        data = {} if outcome.data is None else {"data": outcome.data}
        return {"code": outcome.code, "message": str(outcome), **data}
    return {
        "code": -32603,
        "message": str(outcome) if isinstance(outcome, BadRequest) else "Internal error of toolcrib.",
    }


def _without_relation(result: JsonObject) -> JsonObject:
    """Return a result without what its server says of the task's id there."""
    meta = {key: value for key, value in as_object(result.get("_meta")).items() if key != RELATED_TASK}
    bare = {key: value for key, value in result.items() if key != "_meta"}
    return {**bare, "_meta": meta} if meta else bare


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
