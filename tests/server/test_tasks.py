"""Tools that run as tasks: waited for where the client knows no tasks, in every pairing of the protocol's eras."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import MCPError
from mcp.client.extension import advertise

from fakes.memory import MODERN
from fakes.menu import tool
from fakes.tasks import ENDED, EXTENSION, RELATED, FakeTask, TaskServer
from toolcrib.base.model import Caller
from worlds import DEADLINE_S, ERAS, Client, World, passing, text, time_passes, until, world

pytestmark = pytest.mark.anyio

FORMS = ("legacy", "modern")
EVERYTHING = {"tool_search": {"default_loading_mode": "always"}}
FORM = {"type": "object", "properties": {"name": {"type": "string"}}}
JsonObject = dict[str, Any]


async def found(task: FakeTask) -> JsonObject:
    task.say("gathers")
    await task.looked_at(2)
    task.say("writes")
    await task.looked_at(2)
    return text(f"report on {task.arguments['topic']}")


async def asking(task: FakeTask) -> JsonObject:
    answer = await task.ask("elicitation/create", message="Who?", requestedSchema=FORM)
    return text(answer["content"]["name"])


def told(tasks: "Tasks") -> list[JsonObject]:
    """Return what a client was told of tasks by notifications."""
    return [each["params"] for each in tasks.client.frames if each.get("method") == "notifications/tasks/status"]


def server(form: str, script: Any = found, **more: Any) -> TaskServer:
    return TaskServer(eras=(form,), script=script, **more)


@pytest.mark.sampled
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("door", ["direct", "tool_call"])
async def test_a_tool_that_requires_tasks_runs_to_its_end_for_a_client_that_knows_none(
    tmp_path: Path, form: str, mode: str, door: str
):
    lab = server(form)

    async with world(tmp_path, {"lab": lab}, listing="auto") as w, w.client(mode) as client:
        call = client.call if door == "direct" else client.tool_call
        result = await call("lab__research", {"topic": "owls"})

    assert result["content"] == [{"type": "text", "text": "report on owls"}]
    assert [task.status for task in lab.made] == ["completed"]
    assert lab.cancelled == []


class Tasks:
    """What a client of either era does with tasks."""

    def __init__(self, client: Client) -> None:
        self.client, self.is_modern = client, client.protocol_version >= MODERN

    async def start(self, name: str, arguments: JsonObject, **params: Any) -> JsonObject:
        """Call a tool as a task, and return the task."""
        if self.is_modern:
            created = await self.client.ask("tools/call", {"name": name, "arguments": arguments, **params})
            assert created["resultType"] == "task"
            return created
        created = await self.client.ask("tools/call", {"name": name, "arguments": arguments, "task": {}, **params})
        assert set(created) <= {"task", "_meta"}
        return created["task"]

    async def get(self, task: JsonObject) -> JsonObject:
        return await self.client.ask("tasks/get", {"taskId": task["taskId"]})

    async def cancel(self, task: JsonObject) -> JsonObject:
        return await self.client.ask("tasks/cancel", {"taskId": task["taskId"]})

    async def result(self, task: JsonObject) -> JsonObject:
        """Return the result of a task, once there is one."""
        if not self.is_modern:
            return await self.client.ask("tasks/result", {"taskId": task["taskId"]})
        state = await self.reaches(task, *ENDED)
        return state["result"]

    async def reaches(self, task: JsonObject, *statuses: str) -> JsonObject:
        """Ask for a task's state until it is one of these, and return it."""
        while (state := await self.get(task))["status"] not in statuses:
            await anyio.sleep(0.002)
        return state


@asynccontextmanager
async def connected(w: World, mode: str, **options: Any) -> AsyncGenerator[Tasks]:
    """Connect a client that knows tasks, in its own era's way."""
    async with w.client(mode, extensions=[advertise(EXTENSION)], **options) as client:
        yield Tasks(client)


@pytest.mark.sampled
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("door", ["lab__research", "tool_call"])
async def test_a_client_with_tasks_gets_a_task_and_its_result_in_the_form_of_its_own_era(
    tmp_path: Path, form: str, mode: str, door: str
):
    lab = server(form)
    given = {"topic": "owls"}
    arguments = given if door != "tool_call" else {"name": "lab__research", "arguments": given}

    async with world(tmp_path, {"lab": lab}, listing="auto") as w, connected(w, mode) as tasks:
        task = await tasks.start(door, arguments)
        result = await tasks.result(task)
        ended = await tasks.get(task)

    assert result["content"] == [{"type": "text", "text": "report on owls"}]
    assert task["status"] == "working"
    assert ended["status"] == "completed"
    assert task["taskId"] != lab.made[0].id
    assert ("ttlMs" in ended, "ttl" in ended) == (mode == MODERN, mode != MODERN)
    relation = result.get("_meta", {}).get(RELATED)
    assert relation == (None if mode == MODERN else {"taskId": task["taskId"]})


async def test_tasks_are_declared_and_no_listed_tool_requires_them(tmp_path: Path):
    lab = server("legacy", optional=("count",))

    async with world(tmp_path, {"lab": lab}, EVERYTHING) as w, w.client("legacy") as client:
        declared = client.server_capabilities.tasks
        tools = {each["name"]: each.get("execution") for each in await client.tools()}

    assert declared is not None
    assert declared.model_dump(exclude_none=True) == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    assert tools["lab__research"] == tools["lab__count"] == tools["tool_call"] == {"taskSupport": "optional"}


async def test_a_client_of_2026_is_told_of_the_extension_alone(tmp_path: Path):
    async with world(tmp_path, {"lab": server("legacy")}, listing="auto") as w, w.client(MODERN) as client:
        declared = (await client.ask("server/discover"))["capabilities"]

    assert declared["extensions"] == {EXTENSION: {}}
    assert "tasks" not in declared


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(("config", "declared"), [({}, True), ({"policy": {"deny": ["lab.*"]}}, False)])
async def test_tasks_are_declared_only_where_a_server_has_them_that_the_caller_may_use(
    tmp_path: Path, mode: str, config: JsonObject, declared: bool
):
    lab = TaskServer()

    async def told(w: World) -> JsonObject:
        async with w.client(mode) as client:
            if mode == MODERN:
                return (await client.ask("server/discover"))["capabilities"].get("extensions", {})
            assert client.server_capabilities
            return client.server_capabilities.model_dump(exclude_none=True)

    async with world(tmp_path, {"lab": lab, "zoo": [tool("feed")]}, config, listing="auto") as w:
        before = await told(w)
    async with world(tmp_path, {"lab": lab, "zoo": [tool("feed")]}, config, listing="auto", wait=False) as w:
        after = await told(w)

    assert ("tasks" in before or EXTENSION in before) == declared
    assert ("tasks" in after or EXTENSION in after) == declared


async def test_without_servers_there_are_no_tasks(tmp_path: Path):
    async with world(tmp_path) as w, w.client("legacy") as client:
        declared = client.server_capabilities.tasks
        with pytest.raises(MCPError) as error:
            await client.ask("tasks/list")

    assert declared is None
    assert error.value.error.code == types.METHOD_NOT_FOUND


@pytest.mark.parametrize("form", FORMS)
async def test_what_a_task_says_of_itself_is_progress_for_a_client_that_waits(tmp_path: Path, form: str):
    async def reporting(task: FakeTask) -> JsonObject:
        result = await found(task)
        await task.call.report(7, 10, "by its own count")
        await task.looked_at()
        return result

    heard: list[tuple[float, str | None]] = []

    async def hear(progress: float, _total: float | None, message: str | None) -> None:
        heard.append((progress, message))

    async with world(tmp_path, {"lab": server(form, reporting)}) as w, w.client("legacy") as client:
        await client.ask("tools/call", {"name": "lab__research", "arguments": {"topic": "owls"}}, on_progress=hear)

    assert [message for _progress, message in heard if message] == ["gathers", "writes", "by its own count"]


@pytest.mark.parametrize("form", FORMS)
async def test_a_client_that_gives_up_has_the_task_cancelled(tmp_path: Path, form: str):
    lab = TaskServer(eras=(form,))

    async with world(tmp_path, {"lab": lab}) as w, w.client("legacy") as client:
        async with anyio.create_task_group() as calls:
            calls.start_soon(client.call, "lab__research", {})
            await until(lambda: bool(lab.made))
            calls.cancel_scope.cancel()
        await until(lambda: bool(lab.cancelled))

    assert lab.cancelled == ["task-1"]


@pytest.mark.sampled
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_cancels_its_task_and_is_told_so(tmp_path: Path, form: str, mode: str):
    lab = TaskServer(eras=(form,))

    async with world(tmp_path, {"lab": lab}, listing="auto") as w, connected(w, mode) as tasks:
        task = await tasks.start("lab__research", {})
        answer = await tasks.cancel(task)
        state = await tasks.get(task)
        await until(lambda: bool(lab.cancelled))

    assert answer.get("status") == (None if mode == MODERN else "cancelled")
    assert state["status"] == "cancelled"


@pytest.mark.parametrize("form", FORMS)
async def test_the_questions_of_a_task_reach_a_client_that_knows_no_tasks(tmp_path: Path, form: str):
    async def ask(_context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": params.message})

    async with (
        world(tmp_path, {"lab": server(form, asking)}) as w,
        w.client("legacy", elicitation_callback=ask) as client,
    ):
        result = await client.call("lab__research", {})

    assert result["content"][0]["text"] == "Who?"


@pytest.mark.sampled
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("mode", ERAS)
async def test_the_questions_of_a_task_reach_a_client_in_the_way_of_its_own_era(tmp_path: Path, form: str, mode: str):
    async def ask(_context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": params.message})

    async with (
        world(tmp_path, {"lab": server(form, asking)}, listing="auto") as w,
        connected(w, mode, elicitation_callback=ask) as tasks,
    ):
        task = await tasks.start("lab__research", {})
        state = await tasks.reaches(task, "input_required", *ENDED)
        if mode == MODERN:
            [(name, question)] = state["inputRequests"].items()
            answers = {name: {"action": "accept", "content": {"name": question["params"]["message"]}}}
            update = {"taskId": task["taskId"], "inputResponses": answers}
            assert (await tasks.client.ask("tasks/update", update))["resultType"] == "complete"
        result = await tasks.result(task)

    assert state["status"] == "input_required"
    assert result["content"][0]["text"] == "Who?"


@pytest.mark.sampled
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("mode", ERAS)
async def test_a_task_that_fails_has_the_error_of_its_server(tmp_path: Path, form: str, mode: str):
    async def failing(_task: FakeTask) -> JsonObject:
        raise MCPError(-32050, "out of paper")

    async with world(tmp_path, {"lab": server(form, failing)}, listing="auto") as w, connected(w, mode) as tasks:
        task = await tasks.start("lab__research", {})
        state = await tasks.reaches(task, *ENDED)
        if mode == MODERN:
            error = state["error"]
        else:
            with pytest.raises(MCPError) as raised:
                await tasks.result(task)
            error = raised.value.error.model_dump(exclude_none=True)

    assert state["status"] == "failed"
    assert error == {"code": -32050, "message": "out of paper"}


@pytest.mark.parametrize("mode", ERAS)
async def test_a_result_that_is_an_error_has_the_status_of_the_era(tmp_path: Path, mode: str):
    async def failing(_task: FakeTask) -> JsonObject:
        return text("out of paper", isError=True)

    async with world(tmp_path, {"lab": server("legacy", failing)}, listing="auto") as w, connected(w, mode) as tasks:
        task = await tasks.start("lab__research", {})
        state = await tasks.reaches(task, *ENDED)
        result = await tasks.result(task)

    assert state["status"] == ("completed" if mode == MODERN else "failed")
    assert result["isError"] is True


@pytest.mark.parametrize("mode", ERAS)
async def test_a_task_is_nobody_elses(tmp_path: Path, mode: str):
    lab = TaskServer(eras=("legacy",))
    ann, bob = Caller("ann"), Caller("bob")

    async with (
        world(tmp_path, {"lab": lab}, listing="auto", transport="http") as w,
        connected(w, mode, caller=ann) as first,
        connected(w, mode, caller=bob) as other,
        connected(w, mode, caller=ann, name="another") as third,
    ):
        task = await first.start("lab__research", {})
        refusals = []
        for client, taken in (
            (other, task),
            (third, task),
            (first, {"taskId": "guessed"}),
            (first, {"taskId": "task-1"}),
        ):
            for ask in (client.get, client.cancel):
                with pytest.raises(MCPError) as error:
                    await ask(taken)
                refusals.append(error.value.error)
        state = await first.get(task)

    assert {(error.code, error.message) for error in refusals} == {(types.INVALID_PARAMS, refusals[0].message)}
    assert "restarted" in refusals[0].message
    assert state["status"] == "working"


async def test_tasks_of_a_session_end_with_it(tmp_path: Path):
    lab = TaskServer(eras=("legacy",))

    async with world(tmp_path, {"lab": lab}) as w, w.client("legacy"):
        async with connected(w, "legacy") as tasks:
            await tasks.start("lab__research", {})
        await until(lambda: bool(lab.cancelled))

    assert lab.cancelled == ["task-1"]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_task_of_a_tool_that_is_denied_by_now_is_not_there(tmp_path: Path, mode: str):
    lab = server("legacy")

    async with world(tmp_path, {"lab": lab}, listing="auto") as w, connected(w, mode) as tasks:
        task = await tasks.start("lab__research", {"topic": "owls"})
        await tasks.reaches(task, *ENDED)
        await w.reload({"policy": {"deny": ["lab__research"]}, "gate": {"listing": "auto"}})
        with pytest.raises(MCPError) as denied:
            await tasks.get(task)
        with pytest.raises(MCPError) as unknown:
            await tasks.get({"taskId": "unknown"})
        listed = [] if mode == MODERN else (await tasks.client.ask("tasks/list"))["tasks"]

    assert denied.value.error == unknown.value.error
    assert listed == []


async def test_a_server_that_restarts_has_lost_its_tasks_whatever_ids_it_gives_then(tmp_path: Path):
    lab = TaskServer(eras=("legacy",), poll_ms=20)

    async with world(tmp_path, {"lab": lab}, EVERYTHING) as w, connected(w, "legacy") as tasks:
        task = await tasks.start("lab__research", {})
        await lab.hang_up()
        state = await tasks.reaches(task, *ENDED)
        result = await tasks.result(task)

    assert state["status"] == "failed"
    assert result["isError"] is True
    assert "went away" in result["content"][0]["text"]


async def test_more_tasks_than_a_session_may_have_are_refused_before_anything_runs(tmp_path: Path):
    lab = TaskServer(eras=("legacy",))

    async with world(tmp_path, {"lab": lab}, {"limits": {"tasks": 1}}) as w, connected(w, "legacy") as tasks:
        first = await tasks.start("lab__research", {})
        refused = await tasks.client.call("lab__research", {}, task={})
        await tasks.cancel(first)
        await until(lambda: bool(lab.cancelled))
        second = await tasks.start("lab__research", {})

    assert refused["isError"] is True
    assert "limits.tasks" in refused["content"][0]["text"]
    assert [task.id for task in lab.made] == ["task-1", "task-2"]
    assert first["taskId"] != second["taskId"]


async def test_a_client_of_2026_with_too_many_tasks_gets_the_result_instead(tmp_path: Path):
    lab = server("modern")

    async with (
        world(tmp_path, {"lab": lab}, {"limits": {"tasks": 1}}, listing="auto") as w,
        connected(w, MODERN) as tasks,
    ):
        lab.script, script = TaskServer.script, lab.script
        await tasks.start("lab__research", {})
        lab.script = script
        result = await tasks.client.call("lab__research", {"topic": "owls"})

    assert result["content"][0]["text"] == "report on owls"


async def test_a_task_that_takes_longer_than_it_is_kept_is_cancelled(tmp_path: Path):
    lab = TaskServer(eras=("legacy",))

    async with world(tmp_path, {"lab": lab}) as w, connected(w, "legacy") as tasks:
        task = await tasks.client.call("lab__research", {}, task={"ttl": 50})
        state = await tasks.reaches(task["task"], *ENDED)
        await until(lambda: bool(lab.cancelled))

    assert task["task"]["ttl"] == lab.calls()[0]["task"]["ttl"] == 50
    assert state["status"] == "cancelled"


async def test_who_asks_for_a_task_of_a_tool_without_them_gets_one_that_has_ended(tmp_path: Path):
    async with world(tmp_path, {"zoo": [tool("feed")]}) as w, connected(w, "legacy") as tasks:
        task = await tasks.start("tool_call", {"name": "zoo__feed", "arguments": {}})
        result = await tasks.result(task)

    assert task["status"] == "completed"
    assert result["content"] == text("ran feed {}")["content"]


async def test_what_may_be_a_task_or_none_is_one_for_who_asks_for_it(tmp_path: Path):
    lab = server("legacy", required=(), optional=("research",))

    async with world(tmp_path, {"lab": lab}) as w, connected(w, "legacy") as tasks:
        at_once = await tasks.client.call("lab__research", {"topic": "owls"})
        task = await tasks.start("lab__research", {"topic": "owls"})

    assert at_once["content"] == text("ran at once")["content"]
    assert task["status"] == "working"


async def test_the_status_of_a_task_is_notified_in_a_session(tmp_path: Path):
    async with world(tmp_path, {"lab": server("legacy")}) as w, connected(w, "legacy") as tasks:
        task = await tasks.start("lab__research", {"topic": "owls"})
        await tasks.reaches(task, *ENDED)
        await until(lambda: tasks.client.told("tasks/status") > 0 and told(tasks)[-1]["status"] == "completed")

    assert {each["taskId"] for each in told(tasks)} == {task["taskId"]}


async def test_a_client_of_2026_that_declares_no_tasks_has_none(tmp_path: Path):
    async with world(tmp_path, {"lab": server("modern")}, listing="auto") as w, w.client(MODERN) as client:
        codes = []
        for method, more in (
            ("get", {}),
            ("cancel", {}),
            ("update", {"inputResponses": {}}),
            ("list", {}),
            ("result", {}),
        ):
            with pytest.raises(MCPError) as error:
                await client.ask(f"tasks/{method}", {"taskId": "one", **more})
            codes.append(error.value.error.code)

    assert codes == [types.MISSING_REQUIRED_CLIENT_CAPABILITY] * 3 + [types.METHOD_NOT_FOUND] * 2


async def test_the_status_counts_the_tasks_of_the_session(tmp_path: Path):
    lab = TaskServer(eras=("legacy",), required=("research", "count"))

    async def counted(client: Client) -> JsonObject:
        read = await client.ask("resources/read", {"uri": "toolcrib://status"})
        return json.loads(read["contents"][0]["text"])["tasks"]

    async with world(tmp_path, {"lab": lab}) as w, connected(w, "legacy") as tasks, w.client("legacy") as other:
        before = await counted(tasks.client)
        await tasks.start("lab__research", {})
        ended = await tasks.start("lab__count", {})
        await tasks.cancel(ended)
        await until(lambda: bool(w.happened("task_ended")))
        after, elsewhere = await counted(tasks.client), await counted(other)

    assert before == elsewhere == {"running": 0, "ended": 0}
    assert after == {"running": 1, "ended": 1}


async def test_tasks_are_told_in_events(tmp_path: Path):
    async with world(tmp_path, {"lab": server("legacy")}) as w:
        async with connected(w, "legacy") as tasks:
            await tasks.result(await tasks.start("lab__research", {"topic": "owls"}))
        await until(lambda: bool(w.happened("task_ended")))
        [created], [ended] = w.happened("task_created"), w.happened("task_ended")

    assert created["tool_name"] == ended["tool_name"] == "lab__research"
    assert ended["status"] == "completed"


@pytest.mark.sampled
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("mode", ERAS)
async def test_a_task_may_have_ended_when_it_is_made(tmp_path: Path, form: str, mode: str):
    lab = server(form)
    lab.ends_at_once = text("at once")

    async with world(tmp_path, {"lab": lab}, listing="auto") as w, connected(w, mode) as tasks:
        result = await tasks.result(await tasks.start("lab__research", {}))

    assert result["content"] == text("at once")["content"]


async def test_a_task_that_takes_longer_than_a_call_may_is_cancelled_for_a_client_that_waits(tmp_path: Path):
    lab = TaskServer(eras=("legacy",))

    async with world(tmp_path, {"lab": lab}, {"limits": {"call_max_s": DEADLINE_S}}) as w, w.client("legacy") as client:
        async with passing(DEADLINE_S):
            result = await client.call("lab__research", {})
        await until(lambda: bool(lab.cancelled))

    assert result["isError"] is True
    assert "limits.call_max_s" in result["content"][0]["text"]
    assert lab.calls()[0]["task"] == {"ttl": 6000}


async def test_only_calls_of_tools_are_sent_as_tasks(tmp_path: Path):
    lab = server("legacy", offers={"prompts": [{"name": "research"}]})

    async with world(tmp_path, {"lab": lab}) as w, w.client("legacy") as client:
        await client.call("lab__research", {"topic": "owls"})
        await client.ask("prompts/get", {"name": "lab__research"})

    [asked] = [message["params"] for message in lab.received if message.get("method") == "prompts/get"]
    assert "task" not in asked


@pytest.mark.parametrize("mode", ERAS)
async def test_no_secret_of_a_server_is_in_the_error_of_its_task(tmp_path: Path, mode: str):
    async def failing(_task: FakeTask) -> JsonObject:
        return text("denied for hunter2-of-anna", isError=True)

    lab = server("legacy", failing, entry={"command": "in-memory", "env": {"TOKEN": "hunter2-of-anna"}})

    async with world(tmp_path, {"lab": lab}, listing="auto") as w:
        async with w.client(mode) as client:
            waited = await client.call("lab__research", {})
        async with connected(w, mode) as tasks:
            followed = await tasks.result(await tasks.start("lab__research", {}))

    assert "hunter2" not in str(waited) + str(followed)


async def test_a_server_does_not_go_to_sleep_between_two_looks_at_a_task(tmp_path: Path):
    async def ended_when_looked_at_again(task: FakeTask) -> JsonObject:
        await task.looked_at()
        return text("found")

    lab = server("legacy", ended_when_looked_at_again, poll_ms=2000 * DEADLINE_S)

    async with world(tmp_path, {"lab": lab}, {"servers": {"lab": {"idle_stop_s": DEADLINE_S}}}) as w:
        starts = lab.starts
        async with connected(w, "legacy") as tasks:
            task = await tasks.start("lab__research", {})
            for _ in range(2):
                await time_passes(2 * DEADLINE_S)
            result = await tasks.result(task)

    assert result["content"] == text("found")["content"]
    assert lab.starts == starts + 1


async def test_a_server_that_says_nothing_of_its_task_is_not_waited_for(tmp_path: Path):
    lab = TaskServer(eras=("legacy",), hangs_at="tasks/get")

    async def looked() -> None:
        await until(lambda: "tasks/get" in lab.methods())

    async with world(tmp_path, {"lab": lab}, {"servers": {"lab": {"call_timeout_s": DEADLINE_S}}}) as w:
        async with w.client("legacy") as client, passing(DEADLINE_S, looked):
            result = await client.call("lab__research", {})

    assert result["isError"] is True
    assert "did not say within 6 s" in result["content"][0]["text"]


@pytest.mark.parametrize("form", FORMS)
async def test_a_question_that_cannot_be_asked_ends_the_task_or_is_answered_with_an_error(tmp_path: Path, form: str):
    lab = server(form, asking)

    async with world(tmp_path, {"lab": lab}) as w, w.client("legacy") as client:
        result = await client.tried("lab__research", {})

    assert isinstance(result, MCPError) or result["isError"]
    assert not [task for task in lab.made if task.status == "completed"]


async def test_a_task_of_a_tool_that_only_runs_as_one_asks_a_client_of_2026_that_knows_no_tasks(tmp_path: Path):
    async def ask(_context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": params.message})

    lab = server("modern", asking)

    async with (
        world(tmp_path, {"lab": lab}, listing="auto") as w,
        w.client(MODERN, elicitation_callback=ask) as client,
    ):
        result = (await client.call_tool("lab__research", {})).model_dump(exclude_none=True)

    assert result["content"] == text("Who?")["content"]
    assert len(lab.made) == 1


@pytest.mark.parametrize("mode", ERAS)
async def test_after_a_restart_of_toolcrib_a_task_is_said_to_be_lost(tmp_path: Path, mode: str):
    lab = TaskServer(eras=("legacy",))

    async with world(tmp_path, {"lab": lab}, listing="auto") as w, connected(w, mode) as tasks:
        task = await tasks.start("lab__research", {})
    async with world(tmp_path, {"lab": lab}, listing="auto") as w, connected(w, mode) as tasks:
        another = await tasks.start("lab__research", {})
        with pytest.raises(MCPError) as error:
            await tasks.get(task)
        state = await tasks.get(another)

    assert "toolcrib was restarted since, with which tasks are lost" in error.value.error.message
    assert state["status"] == "working"


@pytest.mark.sampled
@pytest.mark.parametrize("mode", ERAS)
async def test_a_server_of_both_eras_makes_tasks_for_clients_of_either(tmp_path: Path, mode: str):
    async def ask(_context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": params.message})

    lab = TaskServer(script=found)

    async with world(tmp_path, {"lab": lab}, listing="auto") as w:
        async with connected(w, mode, elicitation_callback=ask) as tasks:
            followed = await tasks.result(await tasks.start("lab__research", {"topic": "owls"}))
        async with w.client(mode, elicitation_callback=ask) as client:
            waited = await client.call("lab__research", {"topic": "owls"})

    assert followed["content"] == waited["content"] == text("report on owls")["content"]


async def test_a_task_goes_on_over_a_reload(tmp_path: Path):
    lab = TaskServer(eras=("legacy",))

    async def ending(task: FakeTask) -> JsonObject:
        while not task.message:
            await task.changed.wait()
        return text("ended")

    lab.script = ending

    async with world(tmp_path, {"lab": lab}) as w, connected(w, "legacy") as tasks:
        task = await tasks.start("lab__research", {})
        await w.reload({"policy": {"deny": ["other.*"]}})
        state = await tasks.get(task)
        lab.made[0].say("after the reload")
        result = await tasks.result(task)

    assert state["status"] == "working"
    assert result["content"] == text("ended")["content"]
    assert lab.cancelled == []
