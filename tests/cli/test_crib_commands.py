"""toolcrib status, search, call, tools and index: what a person sees, what a program gets, and the exit codes."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fakes.menu import FakeServer, tool
from toolcrib.cli import in_process, main

Run = Callable[..., tuple[int, str, str]]

TOOLS = [
    tool("echo", "Say it again. And again.", {"text": "string"}, ["text"]),
    tool("fail", "Go wrong on purpose."),
    tool("progress", "Work in steps.", {"steps": "integer"}),
    {"name": "broken", "description": "No schema at all.", "inputSchema": 1},
]


@pytest.fixture
def fake(tmp_path: Path) -> FakeServer:
    return FakeServer(tmp_path, tools=TOOLS)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, fake: FakeServer) -> Run:
    """Run a command with a config that has one server; ``toolcrib`` is the rest of the config."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TOOLCRIB_PARENT", raising=False)

    def run(*arguments: str, toolcrib: dict[str, Any] | None = None, servers: Any = None) -> tuple[int, str, str]:
        section = {"cache_dir": "cache", **(toolcrib or {})}
        file = tmp_path / "crib.json"
        entries = {"zoo": fake.entry()} if servers is None else servers
        file.write_text(json.dumps({"mcpServers": entries, "toolcrib": section}))
        code = main([*arguments, "--config", str(file)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


# -- status and index ----------------------------------------------------------------------------


def test_status_starts_nothing_and_makes_no_file(run: Run, fake: FakeServer, tmp_path: Path):
    code, out, _err = run("status")
    assert code == 0
    assert "zoo: not listed yet" in out
    assert "(not created yet)" in out
    assert fake.starts() == []
    assert not (tmp_path / "cache").exists()


def test_status_says_how_much_is_indexed_and_what_was_refused_and_why(run: Run, fake: FakeServer):
    assert run("index", "refresh")[0] == 0
    code, out, _err = run("status")
    assert code == 0
    assert "listing  auto, for unknown clients" in out
    assert "servers  1, with 3 tools" in out
    assert "zoo: 3 tools, listed 20" in out
    assert "refused: broken: " in out
    code, out, err = run("status", "--json")
    [server] = json.loads(out)["servers"]
    assert (server["server"], server["tools"], server["refused"][0]["name"]) == ("zoo", 3, "broken")
    assert err == ""
    assert len(fake.starts()) == 1


def test_status_says_which_list_and_which_answers_known_clients_get_and_why(run: Run):
    section = {"results": {"hosts": {"mine-*": {"listing": "auto"}}}}
    code, out, _err = run("status", toolcrib=section)
    assert code == 0
    assert "listing  auto, for unknown clients" in out
    assert "dynamic, text alone: claude-code\n" in out
    assert "stable, text alone: codex-mcp-client, gemini-cli-mcp-client*, " in out
    assert "auto, structured answers: mine-*\n" in out
    hosts = {host["clients"]: host for host in json.loads(run("status", "--json", toolcrib=section)[1])["hosts"]}
    assert hosts["mine-*"]["listing_reason"] == 'set by results.hosts["mine-*"]'
    assert "shows its model the text of a result" in hosts["opencode"]["structured_reason"]


def test_status_does_not_count_what_was_listed_under_another_config(run: Run, fake: FakeServer):
    run("index", "refresh")
    assert "zoo: not listed yet" in run("status", toolcrib={"servers": {"zoo": {"inherit_env": ["ZOO_*"]}}})[1]


def test_status_changes_nothing_and_makes_no_further_file(run: Run, fake: FakeServer, tmp_path: Path):
    run("index", "refresh")
    before = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.db"))
    code, out, _err = run("status", toolcrib={"tool_search": {"rebuild_cache_on_init": True}})
    assert (code, "zoo: 3 tools" in out) == (0, True)
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.db")) == before
    assert "zoo: 3 tools" in run("status")[1]
    assert len(fake.starts()) == 1


def test_status_tells_its_owner_of_servers_that_nobody_may_use(run: Run):
    run("index", "refresh")
    denied = {"policy": {"deny": ["zoo.*"]}}
    [server] = json.loads(run("status", "--json", toolcrib=denied)[1])["servers"]
    assert server["server"] == "zoo"
    assert server["tools"] == 0


def test_status_tells_of_skills_once_they_were_read_and_which_files_could_not_be(run: Run, tmp_path: Path):
    section = {"skills": {"core_pack": False, "skill_dirs": ["skills"], "discover": []}}
    file = tmp_path / "skills" / "forms" / "SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text("---\nname: forms\ndescription: Fills in forms.\n---\nDo it.\n")
    broken = tmp_path / "skills" / "broken" / "SKILL.md"
    broken.parent.mkdir()
    broken.write_text("nothing here")
    assert "skills   not read yet" in run("status", toolcrib=section)[1]
    run("skills", "list", toolcrib=section)
    code, out, _err = run("status", toolcrib=section)
    assert code == 0
    assert "skills   1: 1 from " in out
    assert "not loaded: dir/skills/broken/SKILL.md:1: " in out
    found = json.loads(run("status", "--json", toolcrib=section)[1])
    assert (found["skills"]["count"], found["skills"]["errors_count"]) == (1, 1)
    off = {"skills": {"enabled": False}}
    assert "skills   off" in run("status", toolcrib=off)[1]
    assert json.loads(run("status", "--json", toolcrib=off)[1])["skills"] is None


def test_status_says_why_an_index_was_made_anew(run: Run, tmp_path: Path):
    run("index", "refresh")
    (tmp_path / "cache" / "tool_cache.db").write_bytes(b"no database at all" * 100)
    code, out, _err = run("status")
    assert code == 0
    assert "zoo: not listed yet" in out
    assert "rebuilt  tool_cache.db: " in out


def test_refresh_lists_a_changed_server_anew(run: Run, fake: FakeServer):
    run("index", "refresh")
    fake.change(tools=["another"])
    assert run("tools", "list")[1].split()[0] == "zoo__echo"
    code, out, _err = run("index", "refresh")
    assert code == 0
    assert "zoo: 1 tools" in out
    assert run("tools", "list")[1].split()[0] == "zoo__another"


def test_refresh_fails_with_the_reason_and_keeps_what_was_known(run: Run, fake: FakeServer):
    run("index", "refresh")
    fake.change(exit_at="list")
    code, out, _err = run("index", "refresh")
    assert code == 1
    assert "failed: " in out
    assert "zoo: 3 tools" in out
    code, out, _err = run("index", "refresh", "--json")
    assert code == 1
    assert "exited with status 3" in json.loads(out)[0]["failed"]


def test_clear_forgets_the_tools(run: Run, fake: FakeServer):
    assert json.loads(run("index", "clear", "--json")[1]) == {"forgotten": 0}
    run("index", "refresh")
    code, out, _err = run("index", "clear")
    assert code == 0
    assert "Deleted 3 tools" in out
    assert "zoo: not listed yet" in run("status")[1]


# -- search, tools and call ----------------------------------------------------------------------


def test_search_shows_what_agents_find(run: Run, fake: FakeServer):
    run("index", "refresh")
    code, out, _err = run("search", "say again")
    assert code == 0
    first, second = out.splitlines()[:2]
    assert first.endswith("  zoo__echo(text: string) -> str")
    assert second.strip() == "Say it again."
    code, out, _err = run("search", "zoo__.*", "--type", "regex", "--limit", "2", "--schema", "--json")
    hits = json.loads(out)["tools"]
    assert len(hits) == 2
    assert all(hit["input_schema"]["type"] == "object" for hit in hits)
    assert len(fake.starts()) == 1


def test_search_says_so_when_there_is_nothing(run: Run):
    run("index", "refresh")
    code, out, _err = run("search", "astronomy")
    assert (code, out.splitlines()[0]) == (0, "Nothing found.")


def test_search_starts_nothing_and_says_what_was_never_listed_and_what_to_do(run: Run, fake: FakeServer):
    code, out, err = run("search", "say again")
    assert (code, out) == (1, "")
    assert err == "Error: Not searched, because not listed yet: zoo. `toolcrib index refresh` lists every server.\n"
    assert fake.starts() == []


def test_one_bad_entry_is_named_everywhere_and_the_others_work(run: Run, fake: FakeServer):
    good = fake.entry()
    servers = {"zoo": {**good, "env": {**good.get("env", {}), "PORT": 3000}}, "desk": {"command": "x", "args": "-y z"}}
    why = 'cannot be used: args must be a list (write a list of texts: ["--port", "80"])'
    code, out, _err = run("call", "zoo__echo", "text=hi", servers=servers)
    assert (code, "hi" in out) == (0, True)
    for command in (["status"], ["config", "check"]):
        assert f"skipped: mcpServers.desk: {why}" in run(*command, servers=servers)[2]
    assert f"Not searched: server desk {why}." in run("search", "say again at the desk", servers=servers)[1]
    code, _out, err = run("call", "desk__echo", "text=hi", servers=servers)
    assert (code, "Unknown tool: desk__echo" in err) == (1, True)


def test_search_in_a_part_of_the_servers_says_which_are_missing(run: Run, fake: FakeServer, tmp_path: Path):
    run("index", "refresh")
    other = FakeServer(tmp_path, "desk", tools=TOOLS)
    servers = {"zoo": fake.entry(), "desk": other.entry(), "echoes": {**fake.entry(), "disabled": True}}
    code, out, err = run("search", "say echoes again", servers=servers)
    assert (code, "zoo__echo" in out) == (0, True)
    assert "Not searched: server echoes is disabled." in out
    assert "not listed yet: desk." in err
    answer = json.loads(run("search", "say again", "--json", servers=servers)[1])
    assert (answer["tools"][0]["name"], answer["unlisted"]) == ("zoo__echo", ["desk"])
    assert run("search", "say again", "--server", "desk", servers=servers)[2].endswith("lists every server.\n")
    assert other.starts() == []


@pytest.mark.sampled
@pytest.mark.parametrize("command", [["search", "say again"], ["tools", "list"], ["lint"]], ids=" ".join)
def test_a_name_that_no_server_has_is_an_error_with_near_names(run: Run, command: list[str]):
    run("index", "refresh")
    code, out, err = run(*command, "--server", "zo")
    assert (code, out, err) == (1, "", "Error: There is no server 'zo': did you mean zoo?\n")


@pytest.mark.parametrize(
    "command", [["search", "x"], ["tools", "list"], ["call", "x"], ["index", "refresh"]], ids=" ".join
)
def test_without_servers_there_is_nothing_to_look_for(run: Run, command: list[str], fake: FakeServer):
    code, out, err = run(*command, servers={})
    assert (code, out) == (1, "")
    assert "there are no servers" in err
    assert "each of them is left out" in run(*command, servers={"zoo": {**fake.entry(), "disabled": True}})[2]


@pytest.mark.slow
def test_search_waits_for_no_sdk(run: Run, tmp_path: Path):
    run("index", "refresh")
    code = (
        "import sys; from toolcrib.cli import main; "
        f"main(['search', 'say again', '--config', {str(tmp_path / 'crib.json')!r}]); "
        "print({'mcp', 'rich', 'starlette', 'jsonschema', 'toolcrib.gateway.composition'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "zoo__echo" in done.stdout
    assert done.stdout.splitlines()[-1] == "set()"


def test_a_pattern_that_cannot_be_used_is_an_error(run: Run):
    run("index", "refresh")
    code, out, err = run("search", "(", "--type", "regex")
    assert (code, out) == (1, "")
    assert err.startswith("Error: ")
    assert run("search", "x", "--type", "magic")[0] == 2


def test_tools_lists_what_may_be_called_and_nothing_else(run: Run):
    code, out, _err = run("tools", "list", toolcrib={"policy": {"deny": ["fail"]}})
    assert code == 0
    assert out.splitlines() == ["zoo__echo  [deferred]  Say it again.", "zoo__progress  [deferred]  Work in steps."]
    names = [tool["name"] for tool in json.loads(run("tools", "list", "--json")[1])]
    assert names == ["zoo__echo", "zoo__fail", "zoo__progress"]


def test_tools_lists_those_of_one_loading_mode(run: Run):
    always = {"tool_search": {"always_loaded_patterns": ["zoo.echo"]}}
    assert run("tools", "list", "--mode", "always", toolcrib=always)[1] == "zoo__echo  [always]  Say it again.\n"
    deferred = json.loads(run("tools", "list", "--mode", "deferred", "--json", toolcrib=always)[1])
    assert [(tool["name"], tool["loading_mode"]) for tool in deferred] == [
        ("zoo__fail", "deferred"),
        ("zoo__progress", "deferred"),
    ]
    assert run("tools", "list", "--mode", "sometimes", toolcrib=always)[0] == 2


@pytest.mark.sampled
@pytest.mark.parametrize("command", [["tools", "show"], ["call"]], ids=" ".join)
@pytest.mark.parametrize("typed", ["zoo__ehco", "ecoh", "zoo.progres"])
def test_a_name_that_no_tool_has_is_an_error_with_near_names(run: Run, command: list[str], typed: str):
    code, out, err = run(*command, typed)
    assert (code, out) == (1, "")
    assert f"Unknown tool: {typed}. Similar names: " in err
    assert ("zoo__echo" if "c" in typed and "p" not in typed else "zoo__progress") in err


@pytest.mark.sampled
@pytest.mark.parametrize("spelling", ["zoo__echo", "zoo.echo", "echo"])
def test_tools_shows_one_in_any_spelling(run: Run, spelling: str):
    code, out, _err = run("tools", "show", spelling)
    assert code == 0
    assert out.startswith("zoo__echo\n")
    assert '"inputSchema"' in out
    assert json.loads(run("tools", "show", spelling, "--json")[1])["name"] == "zoo__echo"


def test_a_denied_tool_cannot_be_shown_or_called(run: Run, fake: FakeServer):
    denied = {"policy": {"deny": ["echo"]}}
    assert run("tools", "show", "echo", toolcrib=denied) == (1, "", "Error: Unknown tool: echo\n")
    code, out, err = run("call", "zoo__echo", '{"text": "hi"}', toolcrib=denied)
    assert (code, out) == (1, "")
    assert err.startswith("Unknown tool: zoo__echo")
    assert fake.calls() == []


def test_call_prints_the_result(run: Run, fake: FakeServer):
    code, out, err = run("call", "zoo.echo", '{"text": "hi"}')
    assert (code, out, err) == (0, '{"text": "hi"}\n', "")
    code, out, _err = run("call", "zoo.echo", '{"text": "hi"}', "--json")
    assert json.loads(out)["structuredContent"] == {"text": "hi"}
    assert fake.calls()[0]["arguments"] == {"text": "hi"}


@pytest.mark.parametrize(
    ("result", "printed"),
    [
        ({}, "\n"),
        ({"content": None}, "\n"),
        ({"content": [], "structuredContent": {"n": 1}}, '{\n  "n": 1\n}\n'),
        ({"content": [{"type": "text", "text": ""}], "structuredContent": {"n": 1}}, '{\n  "n": 1\n}\n'),
        ({"content": [{"type": "image", "data": "AAAA"}], "structuredContent": 1}, "[image: see --json]\n1\n"),
        ({"content": [{"type": "text", "text": "one"}], "structuredContent": {"n": 1}}, "one\n"),
        ({"content": [{"type": "resource", "resource": {"text": "one"}}], "structuredContent": {"n": 1}}, "one\n"),
    ],
    ids=["nothing", "no content", "structured", "a blank text", "an image", "text", "a resource"],
)
def test_call_prints_structured_content_where_there_is_no_text(tmp_path: Path, run: Run, result: Any, printed: str):
    servers = {
        "zoo": FakeServer(tmp_path, "answering", tools=[tool("answer", "Answer.", {"result": "object"})]).entry()
    }
    assert run("call", "zoo.answer", json.dumps({"result": result}), servers=servers) == (0, printed, "")


def test_call_shows_progress_beside_the_result(run: Run):
    code, out, err = run("call", "progress", '{"steps": 2}')
    assert (code, out) == (0, "2 steps\n")
    assert err == "... 1 of 2 step 1\n... 2 of 2 step 2\n"


def test_a_failed_call_is_told_on_stderr_and_by_the_exit_code(run: Run, fake: FakeServer):
    assert run("call", "fail", '{"message": "too late"}') == (1, "", "too late\n")
    code, _out, err = run("call", "echo", "{}")
    assert code == 1
    assert "text: is required" in err
    assert run("call", "echo", "{")[0] == 2
    assert [call["name"] for call in fake.calls()] == ["fail"]


def test_a_result_that_is_no_text_is_named_and_cannot_steer_the_terminal(run: Run, fake: FakeServer):
    picture = {"type": "image", "mimeType": "image/png", "data": "AAAA"}
    blocks = [picture, {"type": "resource_link", "uri": "x:y", "name": "n"}, {"type": "text", "text": "a\x1b[2Jb"}]
    fake.change(results={"echo": {"content": blocks}})
    code, out, _err = run("call", "echo", '{"text": ""}')
    assert code == 0
    assert out == "[image: image/png, 3 bytes]\n[resource_link: see --json]\na[2Jb\n"


@pytest.mark.sampled
@pytest.mark.parametrize("command", [["tools", "show"], ["call"]], ids=" ".join)
def test_a_shell_completes_the_names_of_tools_in_the_index(
    run: Run, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake: FakeServer
):
    def offered(word: str) -> list[str]:
        words = ["toolcrib", *command, word]
        monkeypatch.setenv("TOOLCRIB_CONFIG", str(tmp_path / "crib.json"))
        monkeypatch.setenv("_TOOLCRIB_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", " ".join(words))
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        try:
            return run(toolcrib=None)[1].split()
        finally:
            monkeypatch.delenv("_TOOLCRIB_COMPLETE")

    assert offered("zoo__e") == []
    run("index", "refresh")
    assert offered("zoo__e") == ["zoo__echo"]
    assert offered("fa") == ["fail"]
    assert len(fake.starts()) == 1


# -- when a call starts its server -----------------------------------------------------------------


def test_the_server_of_a_tool_starts_before_the_rest_is_loaded(
    run: Run, fake: FakeServer, monkeypatch: pytest.MonkeyPatch
):
    run("index", "refresh")

    load = in_process.load_gateway

    def load_after_the_start() -> object:
        deadline = time.monotonic() + 30
        while len(fake.starts()) < 2:
            assert time.monotonic() < deadline, "it was not started ahead"
            time.sleep(0.01)
        return load()

    monkeypatch.setattr(in_process, "load_gateway", load_after_the_start)
    code, out, _err = run("call", "zoo.echo", "text=hello")
    assert (code, "hello" in out) == (0, True)
    assert len(fake.starts()) == 2
    assert not fake.survivors()


def test_a_server_that_was_never_listed_is_started_once_for_a_call(run: Run, fake: FakeServer):
    code, out, _err = run("call", "zoo.echo", "text=hello")
    assert (code, "hello" in out) == (0, True)
    assert len(fake.starts()) == 1
    assert not fake.survivors()
    assert run("tools", "list")[1].startswith("zoo__")


@pytest.mark.parametrize(
    ("policy", "tool_name"),
    [
        ({"deny": ["zoo.echo"]}, "zoo.echo"),
        ({"confirm": {"tools": ["zoo.echo"]}}, "zoo.echo"),
        ({"confirm": {"effects": ["write"]}}, "zoo.echo"),
        ({}, "zoo.none"),
    ],
    ids=["denied", "to be confirmed", "to be confirmed by its effect", "unknown"],
)
def test_a_call_that_is_refused_starts_nothing(run: Run, fake: FakeServer, policy: dict[str, Any], tool_name: str):
    run("index", "refresh", toolcrib={"policy": policy})
    begun = len(fake.starts())
    assert run("call", tool_name, "text=hello", toolcrib={"policy": policy})[0] == 1
    assert len(fake.starts()) == begun


# -- exit codes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [["status"], ["search", "x"], ["tools", "list"], ["call", "x"], ["index", "clear"]])
def test_a_wrong_config_ends_every_command_with_2(run: Run, command: list[str]):
    code, out, err = run(*command, toolcrib={"gat": 1})
    assert (code, out) == (2, "")
    assert "did you mean gate?" in err


def test_inside_a_server_that_toolcrib_started_nothing_is_started(run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TOOLCRIB_PARENT", "1")
    code, out, err = run("search", "x")
    assert (code, out) == (3, "")
    assert "another toolcrib" in err


def test_commands_do_not_keep_eager_servers_up(run: Run, fake: FakeServer):
    eager = {"servers": {"zoo": {"start": "eager"}}}
    run("index", "refresh", toolcrib=eager)
    run("search", "x", toolcrib=eager)
    assert len(fake.starts()) == 1


def test_a_server_that_the_policy_closes_to_everyone_is_not_started_and_the_status_says_why(run):
    closed = {"policy": {"deny": ["zoo.*"]}}
    assert run("index", "refresh", toolcrib=closed)[0] == 0
    assert "zoo: not started: the policy denies all its tools to everyone" in run("status", toolcrib=closed)[1]


# -- which servers a command starts --------------------------------------------------------------


@pytest.fixture
def broken(tmp_path: Path, run: Run, fake: FakeServer) -> FakeServer:
    """A server that was tried once and failed, beside one that is listed."""
    server = FakeServer(tmp_path, "desk", exit_at="list", stderr="no licence")
    run("index", "refresh", servers={"zoo": fake.entry(), "desk": server.entry()})
    return server


COMMANDS = (
    ["call", "zoo.echo", '{"text": "hi"}'],
    ["call", "zoo.nothing"],
    ["call", "nothing"],
    ["tools", "list"],
    ["tools", "show", "echo"],
    ["search", "say again"],
    ["lint"],
    ["status"],
)


@pytest.mark.sampled
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_what_failed_before_is_not_started_again_unless_it_is_asked_for(
    run: Run, command: list[str], fake: FakeServer, broken: FakeServer
):
    begun, failed = len(fake.starts()), len(broken.starts())
    run(*command, servers={"zoo": fake.entry(), "desk": broken.entry()})
    assert len(broken.starts()) == failed
    assert len(fake.starts()) - begun == (command[:2] == ["call", "zoo.echo"])


@pytest.mark.sampled
@pytest.mark.parametrize("command", [["call", "nothing"], ["tools", "list"], ["lint"]], ids=" ".join)
def test_what_was_left_out_is_named_with_the_reason_and_what_to_do(
    run: Run, command: list[str], fake: FakeServer, broken: FakeServer
):
    err = run(*command, servers={"zoo": fake.entry(), "desk": broken.entry()})[2]
    assert "desk is left out, because it failed before: " in err
    assert "no licence" in err
    assert "`toolcrib index refresh` starts every server" in err


def test_a_server_that_failed_before_is_started_where_it_is_asked_for(run: Run, fake: FakeServer, broken: FakeServer):
    servers = {"zoo": fake.entry(), "desk": broken.entry()}
    broken.change(exit_at="spawn", stderr="still none")
    code, out, err = run("tools", "list", "--server", "desk", servers=servers)
    assert (code, out) == (1, "")
    assert "The server desk could not be listed: " in err
    assert "still none" in err
    assert "`toolcrib logs desk`" in err
    broken.change(tools=["sort"], faulty_starts=0)
    code, _out, err = run("call", "desk.sort", servers=servers)
    assert (code, err) == (0, "")


def test_a_call_starts_only_the_server_of_its_tool(run: Run, fake: FakeServer, tmp_path: Path):
    other, third = FakeServer(tmp_path, "desk", tools=["sort"]), FakeServer(tmp_path, "shed", tools=["saw"])
    servers = {"zoo": fake.entry(), "desk": other.entry(), "shed": third.entry()}
    assert run("call", "desk.sort", servers=servers)[0] == 0
    assert (len(fake.starts()), len(third.starts())) == (0, 0)
    assert other.starts()
    assert run("call", "saw", servers=servers)[0] == 0, "any server may have a tool that is named without one"


def test_events_say_which_command_made_them(run: Run, tmp_path: Path):
    run("index", "refresh")
    run("call", "zoo.echo", '{"text": "hi"}')
    events = [json.loads(line) for line in (tmp_path / "cache" / "events.jsonl").read_text().splitlines()]
    assert {event["command"] for event in events} == {"index refresh", "call"}
    assert [event["command"] for event in events if event["event"] == "tool_call"] == ["call"]


# -- how arguments are written -------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (["text=hi"], {"text": "hi"}),
        (["text=5", "steps=5"], {"text": "5", "steps": 5}),
        (["text=a=b", "flag=true", "names=[1]"], {"text": "a=b", "flag": True, "names": [1]}),
        (["text=x", "steps=many"], {"text": "x", "steps": "many"}),
        (["text=x", "either=5"], {"text": "x", "either": "5"}),
        (["text:=5", 'names:=["a"]'], {"text": 5, "names": ["a"]}),
        (['{"text": "old", "steps": 1}', "text=new"], {"text": "new", "steps": 1}),
        (["text=old", "@given.json"], {"text": "from the file"}),
    ],
    ids=" ".join,
)
def test_arguments_may_be_written_as_pairs_or_in_a_file(
    written: list[str], meant: dict[str, Any], run: Run, fake: FakeServer, tmp_path: Path
):
    (tmp_path / "given.json").write_text('{"text": "from the file"}')
    parameters = {"text": {}, "steps": "integer", "flag": "boolean", "names": "array"}
    either = {"anyOf": [{"type": "string"}, {"type": "integer"}]}
    fake.change(tools=[tool("take", "Take it.", {**parameters, "either": either})])
    run("index", "refresh")
    run("call", "zoo.take", *written)
    sent = [call["arguments"] for call in fake.calls("take")]
    assert sent == ([meant] if meant.get("steps") != "many" else []), "what does not fit is refused, with the reason"


def test_json_comes_by_o_as_by_its_own_option_and_lists_can_be_cut(run: Run, fake: FakeServer):
    run("index", "refresh")
    for command in (["tools", "list"], ["search", "say"], ["status"], ["events"], ["skills", "list"]):
        assert json.loads(run(*command, "-o", "json")[1]) is not None
    assert run("tools", "list", "-o", "json", "-s", "zoo")[1] == run("tools", "list", "--json")[1]
    assert len(json.loads(run("tools", "list", "-n", "2", "-o", "json")[1])) == 2
    assert len(run("tools", "list", "-n", "1")[1].splitlines()) == 1
    assert len(json.loads(run("search", "zoo", "-n", "1", "-s", "zoo", "-o=json")[1])["tools"]) == 1
    assert run("tools", "list", "-o", "text")[1] == run("tools", "list")[1]


def test_refresh_says_how_many_rows_it_has_written(run: Run, fake: FakeServer):
    assert "index: 3 rows written, 0 removed, 0 unchanged" in run("index", "refresh")[1]
    assert "index: 0 rows written, 0 removed, 3 unchanged" in run("index", "refresh")[1]
    fake.change(tools=[*TOOLS[:2], tool("new", "Something new.")])
    assert json.loads(run("index", "refresh", "-s", "zoo", "--json")[1])[0]["rows"] == {
        "added": 1,
        "updated": 0,
        "removed": 1,
    }


def test_one_server_can_be_refreshed_alone(run: Run, fake: FakeServer, tmp_path: Path):
    other = FakeServer(tmp_path, "desk", tools=["sort"])
    code, out, _err = run("index", "refresh", "-s", "desk", servers={"zoo": fake.entry(), "desk": other.entry()})
    assert (code, "zoo" in out, fake.starts()) == (0, False, [])
