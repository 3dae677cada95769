"""Programs over tools: what one comes back with, and what its calls are (R385)."""

import json

import anyio
import pytest
from repository import ON, configured, git, ran

from fakes.memory import Call, JsonObject, MemoryServer, text
from toolcrib.base.json_values import compact
from worlds import ERAS, Client, settled, until, world

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("era", ERAS)
async def test_a_program_calls_tools_and_only_its_value_comes_back(tmp_path, era):
    code = "from tools import git__git_log\nlog = await git__git_log(repo='.', count=4)\nsum(c['count'] for c in log)"
    async with world(tmp_path, {"git": git()}, ON) as w, w.client(era) as client:
        assert await ran(client, code) == "6"
        assert [call["arguments"] for call in w["git"].calls()] == [{"repo": ".", "count": 4}]


async def test_it_is_listed_where_programs_are_on_and_not_where_they_are_off(tmp_path):
    async with world(tmp_path, {"git": git()}, ON) as w, w.client() as client:
        assert "tool_run" in await client.names()
    async with world(tmp_path, {"git": git()}, configured(enabled="off")) as w, w.client() as client:
        assert "tool_run" not in await client.names()
        assert "Unknown tool: tool_run" in str(await client.tried("tool_run", {"code": "1"}))


@pytest.mark.parametrize(
    ("writes", "told"),
    [
        ("ask", "network. A person confirms what may write. At most 75 calls, 90 s."),
        ("never", "network. Tools that may write cannot be called. At most 75 calls, 90 s."),
        ("allow", "network. At most 75 calls, 90 s."),
    ],
)
async def test_its_definition_tells_what_the_config_allows_in_at_most_230_tokens(tmp_path, writes, told):
    config = configured(writes=writes, calls=75, timeout_s=90)
    async with world(tmp_path, {"git": git()}, config) as w, w.client() as client:
        [shown] = [each for each in await client.tools() if each["name"] == "tool_run"]
    assert shown["description"].endswith(told)
    # Measured: it has 4.0 characters a token of cl100k.
    assert len(compact({key: shown[key] for key in ("name", "description", "inputSchema")})) <= 4 * 230


async def test_a_config_without_search_lists_nothing_of_ours(tmp_path):
    config = {**ON, "tool_search": {"enabled": False}}
    async with world(tmp_path, {"git": git()}, config) as w, w.client() as client:
        assert "tool_run" not in await client.names()


async def test_where_the_extra_is_missing_nothing_is_listed(tmp_path, monkeypatch):
    monkeypatch.setattr("toolcrib.gateway.composition.are_installed", lambda: False)
    async with world(tmp_path, {"git": git()}, ON) as w, w.client() as client:
        assert "tool_run" not in await client.names()


async def test_what_it_prints_comes_back_after_its_value(tmp_path):
    async with world(tmp_path, {}, ON) as w, w.client() as client:
        assert await ran(client, "print('one')\nprint('two')") == "one\ntwo"
        assert await ran(client, "print('one')\n{'a': (1, None)}") == '{"a":[1,null]}\nPrinted:\none'
        assert "it has no value" in await ran(client, "x = 1")


async def test_a_text_comes_back_as_it_is_and_other_values_as_json(tmp_path):
    async with world(tmp_path, {}, ON) as w, w.client() as client:
        assert await ran(client, "'a \"text\"'") == 'a "text"'
        assert await ran(client, "{'é': [1.5, True], 2: {3}}") == '{"é":[1.5,true],"2":[3]}'
        assert await ran(client, "return [1]") == "[1]"


async def test_calls_in_parallel_are_under_way_together_but_not_more_than_allowed(tmp_path):
    under_way, most = 0, 0

    async def read(call: Call) -> JsonObject:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await until(lambda: most > 2)
        await settled()
        under_way -= 1
        return text(call.arguments["path"])

    code = "from tools import git__read\nawait parallel([git__read(path=str(n)) for n in range(7)])"
    async with world(tmp_path, {"git": git(read=read)}, configured(calls_at_a_time=3)) as w, w.client() as client:
        assert json.loads(await ran(client, code)) == [str(n) for n in range(7)]
    assert most == 3


async def test_a_failed_call_can_be_caught_and_failures_of_parallel_calls_returned(tmp_path):
    refused = {**text("no such file"), "isError": True}
    async with world(tmp_path, {"git": git(read=refused)}, ON) as w, w.client() as client:
        head = "from tools import git__read, git__git_log\n"
        caught = "try:\n    await git__read(path='a')\nexcept ToolError as error:\n    print('caught', error)"
        assert await ran(client, head + caught) == "caught no such file"
        both = "await parallel([git__read(path='a'), git__git_log(repo='.', count=1)], errors='return')"
        assert json.loads(await ran(client, head + both)) == [{"error": "no such file"}, [{"sha": "0000", "count": 0}]]


async def test_an_error_has_its_line_and_the_calls_that_were_made(tmp_path):
    code = "from tools import git__git_log\nlog = await git__git_log(repo='.')\nlog[0]['totl']"
    async with world(tmp_path, {"git": git()}, ON) as w, w.client() as client:
        said = await ran(client, code)
    assert said.startswith("ERROR The program failed in line 3: KeyError: totl\n    log[0]['totl']\n")
    assert said.endswith("\nCalls made: git__git_log 1. None was sent to a tool that may change something.")


async def test_calls_before_a_failure_are_counted_by_tool(tmp_path):
    code = """from tools import git__git_log, git__read
for n in range(30):
    await git__git_log(repo='.')
await parallel([git__read(path='a'), git__git_log(repo='.')], errors='return')
await search('commits')
1 / 0"""
    async with world(tmp_path, {"git": git(read={**text("no such file"), "isError": True})}, ON) as w:
        async with w.client() as client:
            said = await ran(client, code)
    [line] = said.splitlines()[2:]
    assert line.startswith("Calls made: git__git_log 31, git__read 1 (1 failed: no such file), search 1. None was sent")


async def test_an_uncaught_failure_of_a_tool_is_told_with_its_text(tmp_path):
    async with world(tmp_path, {"git": git(read={**text("no such file"), "isError": True})}, ON) as w:
        async with w.client() as client:
            said = await ran(client, "from tools import git__read\n\nawait git__read(path='a')")
    assert "in line 3: ToolError: no such file" in said
    assert "git__read 1 (1 failed: no such file)" in said


async def test_a_search_finds_what_the_same_program_calls(tmp_path):
    code = "hits = await search('show commits')\nname = hits[0]['name']\n[name, len(await call(name, {'repo': '.'}))]"
    async with world(tmp_path, {"git": git()}, ON) as w, w.client() as client:
        assert json.loads(await ran(client, code)) == ["git__git_log", 2]


async def test_a_name_that_is_neither_written_nor_found_is_not_called(tmp_path):
    code = "hits = await search('show commits')\nawait call('git__' + 'secret')"
    async with world(tmp_path, {"git": git()}, ON) as w, w.client() as client:
        assert "neither written in the program nor found" in await ran(client, code)
        assert "takes a name that is written here" in await ran(client, "await call('git__' + 'secret')")
        assert w["git"].calls() == []


async def test_odd_names_are_imported_with_underscores_and_odd_arguments_given_by_a_dict(tmp_path):
    code = "from tools import git__odd_name as odd\nawait odd(**{'max-count': 3})"
    async with world(tmp_path, {"git": git()}, ON) as w, w.client() as client:
        await ran(client, code)
        assert [call["arguments"] for call in w["git"].calls("odd-name")] == [{"max-count": 3}]


async def test_a_search_says_how_an_odd_name_is_imported(tmp_path):
    async with world(tmp_path, {"git": git()}, ON) as w, w.client() as client:
        result = await client.call("tool_search", {"query": "do what is odd"})
        names = {hit["name"]: hit.get("import_name") for hit in result["structuredContent"]["tools"]}
        assert names["git__odd-name"] == "git__odd_name"
        assert "in programs git__odd_name" in result["content"][0]["text"]
        assert set(names.values()) <= {None, "git__odd_name"}
    async with world(tmp_path, {"git": git()}) as w, w.client() as client:
        assert "in programs" not in str(await client.call("tool_search", {"query": "do what is odd"}))


async def test_after_three_equal_calls_in_a_row_one_line_names_the_tool_for_programs(tmp_path):
    async def told(client: Client, name: str) -> bool:
        return "tool_run makes them all at once" in str(await client.tool_call(name, {"path": "a"}))

    async with world(tmp_path, {"git": git()}, ON) as w, w.client() as client:
        assert [await told(client, "git__read") for _ in range(5)] == [False, False, True, False, False]
        assert not await told(client, "git__odd-name")
        assert [await told(client, "git__read") for _ in range(3)] == [False, False, True]
    async with world(tmp_path, {"git": git()}) as w, w.client() as client:
        assert not any([await told(client, "git__read") for _ in range(4)])


async def test_each_call_has_an_event_and_so_has_the_program(tmp_path):
    code = "from tools import git__git_log\nlen(await parallel([git__git_log(repo='.'), git__git_log(repo='..')]))"
    async with world(tmp_path, {"git": git()}, ON) as w, w.client() as client:
        await ran(client, code)
        assert [each["tool_name"] for each in w.happened("tool_call")] == ["git__git_log"] * 2
        [run] = w.happened("program_run")
        assert (run["ok"], run["calls"], run["failed"], run["characters_returned"]) == (True, 2, 0, 1)
        # What a model reads of two logs of two commits, in one of the two forms in which the server sends them.
        read = 2 * len('[{"sha":"0000","count":0},{"sha":"1111","count":1}]')
        assert run["characters_read"] == read
        assert run["tokens_saved"] == (read - len(code) - 1) // 4


async def test_a_program_that_failed_saved_nothing_and_bytes_of_media_are_not_counted_as_read(tmp_path):
    image = {"type": "image", "data": "aGk=" * 10_000, "mimeType": "image/png"}
    answers = {"content": [{"type": "text", "text": "a cat"}, image]}
    code = "from tools import git__read\nx = await git__read(path='a')\n"
    async with world(tmp_path, {"git": git(read=answers)}, ON) as w, w.client() as client:
        assert await ran(client, f"{code}len(x)") == "40055"
        said = await ran(client, f"{code}x.index('dog')")
        seen, failed = w.happened("program_run")
    assert seen["characters_read"] == failed["characters_read"] < 100
    assert (failed["ok"], failed["characters_returned"]) == (False, len(said.removeprefix("ERROR ")))
    assert failed["tokens_saved"] == (-len(code) - len("x.index('dog')") - failed["characters_returned"]) // 4 < 0


async def test_a_long_result_is_whole_in_a_program(tmp_path):
    long = "\n".join(f"line {n}" for n in range(20_000))
    code = "from tools import git__read\nlen((await git__read(path='a')).splitlines())"
    async with world(tmp_path, {"git": git(read=text(long))}, {**ON, "limits": {"result_max_bytes": 2000}}) as w:
        async with w.client() as client:
            assert await ran(client, code) == "20000"
        # Call by call, a model would have been shown the first page.
        assert w.happened("program_run")[0]["characters_read"] == 2000


async def test_a_result_that_was_kept_for_paging_can_be_read_whole(tmp_path):
    long = "\n".join(f"line {n}" for n in range(2000))
    async with world(tmp_path, {"git": git(read=text(long))}, {**ON, "limits": {"result_max_bytes": 2000}}) as w:
        async with w.client() as client, w.client() as other:
            page = await client.tool_call("git__read", {"path": "a"})
            handle = page["content"][-1]["text"].partition('"handle":"')[2].partition('"')[0]
            code = f"(await result('{handle}')).splitlines()[-1]"
            assert await ran(client, code) == "line 1999"
            assert "There is nothing to read with this handle" in await ran(other, code)


@pytest.mark.parametrize("era", ERAS)
async def test_progress_of_its_calls_is_reported_as_its_own_and_only_grows(tmp_path, era):
    async def read(call: Call) -> JsonObject:
        await call.report(5, 10, "half")
        return text("done")

    reports: list[tuple[float, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, message))

    code = "from tools import git__read\nfor n in range(2):\n    await git__read(path='a')"
    async with world(tmp_path, {"git": git(read=read)}, ON) as w, w.client(era) as client:
        await client.call_tool("tool_run", {"code": code}, progress_callback=on_progress)
        await until(lambda: len(reports) >= 2)
    numbers = [number for number, _message in reports]
    assert numbers == sorted(set(numbers))
    assert "git__read" in {message for _number, message in reports}


async def test_what_a_server_says_of_itself_is_not_put_into_results(tmp_path):
    server = git()
    server.instructions = "Read me first."
    async with world(tmp_path, {"git": server}, ON) as w, w.client() as client:
        assert await ran(client, "from tools import git__git_log\nlen(await git__git_log(repo='.'))") == "2"


async def test_a_program_goes_on_while_the_config_is_reloaded(tmp_path):
    entered, released = anyio.Event(), anyio.Event()

    async def read(_call: Call) -> JsonObject:
        entered.set()
        await released.wait()
        return text("done")

    said: list[str] = []
    async with world(tmp_path, {"git": git(read=read)}, ON) as w, w.client() as client:
        async with anyio.create_task_group() as tasks:

            async def run() -> None:
                said.append(await ran(client, "from tools import git__read\nawait git__read(path='a')"))

            tasks.start_soon(run)
            await entered.wait()
            await w.reload(ON)
            released.set()
    assert said == ["done"]


async def test_servers_that_are_not_listed_yet_are_waited_for(tmp_path):
    async with world(tmp_path, {"git": git()}, ON, wait=False) as w, w.client() as client:
        assert await ran(client, "from tools import git__git_log\nlen(await git__git_log(repo='.'))") == "2"


def test_names_that_become_equal_get_a_number_and_no_tool_loses_its_own():
    from toolcrib.programs.source import import_names

    named = import_names(["a__x-y", "a__x_y", "a__x.y", "7z__list", "b__z"])
    assert named == {
        "a__x_y": "a__x_y",
        "a__x_y_2": "a__x-y",
        "a__x_y_3": "a__x.y",
        "_7z__list": "7z__list",
        "b__z": "b__z",
    }


async def test_an_unknown_server_has_no_tools_to_import(tmp_path):
    async with world(tmp_path, {"git": MemoryServer([])}, ON) as w, w.client() as client:
        assert "Unknown tool: nope__x" in await ran(client, "from tools import nope__x\nawait nope__x()")
