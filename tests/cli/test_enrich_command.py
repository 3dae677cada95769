"""toolcrib index enrich: a command of the person writes requests, by which tools are found from then on."""

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from fakes.menu import tool
from toolcrib.base.model import Caller
from toolcrib.cli import main
from worlds import MemoryServer, until, world

pytestmark = pytest.mark.anyio

Run = Callable[..., Any]
FEED, COUNT = "zoo__feed", "zoo__count"
FEEDING = tool("feed", "Gives food to an animal of the zoo.")
WRITES = "1. breakfast for the hippos\n- 'nourish it'\n\n1. breakfast for the hippos\n* three\nfour\n"


@pytest.fixture
def run(in_project: None, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Run ``index enrich`` by the config of the world in ``tmp_path``, in a thread of its own."""

    async def run(*arguments: str) -> tuple[int, str, str]:
        words = ["index", "enrich", *arguments, "--config", str(tmp_path / "toolcrib.json")]
        code = await anyio.to_thread.run_sync(main, words)
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def command(tmp_path: Path) -> Callable[[str], str]:
    """Return a command that runs these lines of Python, with ``tool`` as the definition that it got."""

    def command(lines: str) -> str:
        script = tmp_path / "it's a script.py"
        script.write_text(f"import json, os, sys, time\ntool = json.load(sys.stdin)\n{lines}\n")
        return shlex.join([sys.executable, str(script)])

    return command


def zoo(*tools: Any) -> dict[str, MemoryServer]:
    return {"zoo": MemoryServer([*(tools or (FEEDING,)), tool("count", "Counts the animals.")])}


async def listed(tmp_path: Path) -> None:
    async with world(tmp_path, zoo()) as w, w.client() as client:
        await client.search("anything")


async def test_a_tool_is_found_by_requests_that_the_command_wrote(tmp_path, run, command):
    async with world(tmp_path, zoo()) as w, w.client() as client:
        assert await client.found("breakfast hippos") == []
        code, out, err = await run("--with", command(f"print({WRITES!r})"), "--tool", FEED)
        assert (code, out) == (0, "Wrote 4 requests for 1 tool.\n")
        assert err == f"1/1 {FEED}: 4 requests\n"
        await client.search("anything")  # a running toolcrib notices with a search
        await until(lambda: bool(w.gateway.generation.offline.own_words.current()))
        answer = await client.search("breakfast hippos")
        assert [hit["name"] for hit in answer["tools"]] == [FEED]
        assert "nourish" not in json.dumps(w.said)


async def test_requests_outweigh_no_definition(tmp_path, run, command):
    await listed(tmp_path)
    assert (await run("--with", command("print('count the animals')"), "--tool", FEED))[0] == 0
    async with world(tmp_path, zoo()) as w, w.client() as client:
        assert await client.found("count the animals") == [COUNT, FEED]


async def test_a_tool_that_names_a_denied_one_has_none_for_those_to_whom_it_is_denied(tmp_path, run, command):
    servers = zoo(tool("feed", "Gives food to an animal; see `count`."))
    hidden = {"policy": {"visibility": [{"when": {"tenant_id": "red"}, "deny": ["zoo.count"]}]}}
    async with world(tmp_path, servers) as w, w.client() as client:
        await client.search("anything")
    assert (await run("--with", command("print('breakfast, then headcount')"), "--tool", FEED))[0] == 0
    async with world(tmp_path, servers, hidden) as w:
        async with w.client(caller=Caller("ann", tenant_id="red")) as ann:
            assert await ann.found("headcount") == []
        async with w.client() as client:
            assert await client.found("headcount") == [FEED]


async def test_the_command_gets_the_definition_and_the_environment(tmp_path, run, command, monkeypatch):
    await listed(tmp_path)
    monkeypatch.setenv("OWN_KEY", "of the shell")
    seen = tmp_path / "seen.json"
    lines = f"open({str(seen)!r}, 'w').write(json.dumps([tool, os.environ['OWN_KEY']]))\nprint('feed it')"
    assert (await run("--with", command(lines), "--tool", FEED))[0] == 0
    definition, value = json.loads(seen.read_text())
    assert (definition["name"], definition["description"], value) == (FEED, FEEDING["description"], "of the shell")
    assert definition["inputSchema"] == FEEDING["inputSchema"]


async def test_only_what_is_new_or_has_changed_is_written_again(tmp_path, run, command):
    await listed(tmp_path)
    writes = command("print('ask for it')")
    assert "2 requests for 2 tools" in (await run("--with", writes))[1]
    assert (await run("--with", writes))[1] == "Wrote 0 requests for 0 tools; 2 tools had some already.\n"
    assert "1 request for 1 tool" in (await run("--with", writes, "--again", "--tool", FEED))[1]
    # The index is a cache: what was written for a definition outlives it.
    (tmp_path / "cache" / "tool_cache.db").unlink()
    async with world(tmp_path, zoo(tool("feed", "Gives meat to the lions."))) as w, w.client() as client:
        await client.search("anything")
        assert await client.found("ask for it") == [COUNT]
    assert (await run("--with", writes))[1] == "Wrote 1 request for 1 tool; 1 tool had some already.\n"


async def test_a_failed_command_is_named_and_the_others_go_on(tmp_path, run, command):
    await listed(tmp_path)
    failing = "sys.exit('out of credit') if 'feed' in tool['name'] else print('how many are there')"
    code, out, err = await run("--with", command(failing))
    assert (code, out) == (1, "Wrote 1 request for 1 tool; failed for 1 tool.\n")
    assert f"{FEED}: the command ended with 1: out of credit; try it alone: --tool {FEED}" in err
    code, out, _err = await run("--with", command("print(' ')"), "--again", "--json")
    report = json.loads(out)
    assert (code, report["tools"]) == (1, 0)
    assert report["failed"] == dict.fromkeys([COUNT, FEED], "the command printed nothing")


@pytest.mark.parametrize(
    ("lines", "options", "said"),
    [
        ("time.sleep(600)", ("--timeout", "1"), "longer than 1 s"),
        ("print('x' * 200_000)", (), "more than 64 KiB"),
    ],
)
async def test_a_command_is_bounded(tmp_path, run, command, lines, options, said):
    await listed(tmp_path)
    code, _out, err = await run("--with", command(lines), "--tool", FEED, *options)
    assert (code, said in err) == (1, True)


async def test_secrets_in_requests_are_not_stored(tmp_path, run, command):
    await listed(tmp_path)
    assert (await run("--with", command("print('feed with sk-abcdefghijklmnopqrst1234')"), "--tool", FEED))[0] == 0
    assert b"sk-abcdef" not in b"".join(file.read_bytes() for file in tmp_path.rglob("state.db*"))


async def test_removed_requests_find_nothing_any_more(tmp_path, run, command):
    await listed(tmp_path)
    assert (await run("--with", command("print('breakfast')")))[0] == 0
    assert (await run("--remove", "--tool", FEED))[1] == "Removed the requests of 1 tool.\n"
    assert (await run("--remove", "--server", "zoo", "--json"))[1] == '{\n  "removed": 1\n}\n'
    async with world(tmp_path, zoo()) as w, w.client() as client:
        assert await client.found("breakfast") == []


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "--with"),
        (("--with", "x", "--remove"), 2, "--with"),
        (("--with", "'"), 1, "cannot be split"),
        (("--with", " "), 1, "is empty"),
        (("--with", "no-such-program-anywhere"), 1, "no-such-program-anywhere cannot be started"),
        (("--with", "x", "--server", "nowhere"), 1, "no server 'nowhere'"),
        (("--with", "x", "--tool", "nothing"), 1, "no such tool"),
    ],
)
async def test_what_cannot_be_done_is_said(tmp_path, run, arguments, code, said):
    await listed(tmp_path)
    found, _out, err = await run(*arguments)
    assert (found, said in err) == (code, True)


async def test_requests_of_denied_tools_change_no_answer(tmp_path, run, command):
    red = Caller("ann", tenant_id="red")
    hidden = {"policy": {"visibility": [{"when": {"tenant_id": "red"}, "deny": ["zoo.feed"]}]}}
    await listed(tmp_path)
    async with world(tmp_path, zoo(), hidden) as w, w.client(caller=red) as ann:
        before = json.dumps([await ann.search("breakfast of animals"), await ann.search("breakfast")])
    assert (await run("--with", command("print('breakfast of animals')"), "--tool", FEED))[0] == 0
    async with world(tmp_path, zoo(), hidden) as w, w.client(caller=red) as ann:
        assert json.dumps([await ann.search("breakfast of animals"), await ann.search("breakfast")]) == before
        async with w.client() as client:
            assert await client.found("breakfast") == [FEED]
