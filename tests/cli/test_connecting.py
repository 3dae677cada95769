"""toolcrib connect and disconnect: shown, asked, written with all else kept, and undone byte for byte."""

import json
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.command_line import Run
from config.client_files import CLIENT_TEXTS, ClientText
from fakes.menu import FakeServer
from toolcrib.clients.known import Client, UserEnvironment, client_named, client_table
from toolcrib.clients.reading import read_file

PROGRAM = str(Path(sys.executable).parent / "toolcrib")
USER_FILES = [
    case
    for case in CLIENT_TEXTS
    if case.path.startswith("home/") and case.client != "other" and not case.path.endswith("Code/User/settings.json")
]
EDITABLE = [case for case in USER_FILES if not case.problems]


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> UserEnvironment:
    """Return an empty home, without any client on the search path."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("PATH", str(Path(PROGRAM).parent))
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR", "COPILOT_HOME"):
        monkeypatch.delenv(name, raising=False)
    config = home / ".config" / "toolcrib" / "toolcrib.json"
    config.parent.mkdir(parents=True)
    config.write_text('{"mcpServers": {"git": {"command": "uvx", "args": ["mcp-server-git"]}}}')
    return UserEnvironment(dict(os.environ), tmp_path, sys.platform)


def _file_of(client: Client, user: UserEnvironment) -> Path:
    return user.locate(client.files[0])


def _put(user: UserEnvironment, case: ClientText) -> Path:
    file = user.home.parent / case.path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(case.text.encode())
    return file


@pytest.mark.sampled
@pytest.mark.parametrize("client", client_table().clients, ids=lambda client: client.key)
def test_a_client_without_a_file_gets_one_and_loses_it_again(client: Client, run: Run, user: UserEnvironment):
    code, out, err = run("connect", client.key, "--yes")
    assert code == 0, err
    file = _file_of(client, user)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert PROGRAM in out
    [server] = [each for each in read_file(file, client, user).servers if each.name == "toolcrib"]
    assert server.read.lost == "starts toolcrib itself", "as the client writes it, and so that it starts toolcrib"
    assert run("connect", client.key)[1] == f"{client.title} is already connected.\n"
    assert run("disconnect", client.key, "--yes")[0] == 0
    assert not file.exists()
    assert "is not connected" in run("disconnect", client.key)[1]


@pytest.mark.sampled
@pytest.mark.parametrize("case", EDITABLE, ids=lambda case: f"{case.client}: {case.title}")
@pytest.mark.parametrize("command", [["disconnect"], ["connect", "--undo"]], ids=" ".join)
def test_a_client_gets_its_file_back_byte_for_byte(
    case: ClientText, command: list[str], run: Run, user: UserEnvironment
):
    file = _put(user, case)
    before = file.read_bytes()
    code, out, err = run("connect", case.client, "--yes")
    assert code == 0, err
    assert file.read_bytes() != before
    names = [server.name for server in read_file(file, client_named(case.client), user, in_project=False).servers]
    assert sorted(names) == sorted([*case.servers, "toolcrib"]), "nothing else went or came"
    assert "canary" not in out + err
    code, out, _err = run(*command, case.client, "--yes")
    assert (code, "byte for byte" in out) == (0, True)
    assert file.read_bytes() == before


@pytest.mark.parametrize("case", [case for case in USER_FILES if case.problems], ids=lambda case: case.title)
def test_a_file_that_is_not_understood_is_left_alone(case: ClientText, run: Run, user: UserEnvironment):
    file = _put(user, case)
    code, _out, err = run("connect", case.client, "--yes")
    if code:
        assert "was not changed" in err
        assert file.read_bytes() == case.text.encode()
    else:
        assert "is given twice" in " ".join(case.problems), "which no client minds"


@pytest.mark.parametrize("command", ["connect", "disconnect"])
@pytest.mark.parametrize("leads", ["to a pipe", "to a folder", "to itself"])
def test_what_is_in_the_place_of_a_clients_file_and_is_none_is_told(
    run: Run, user: UserEnvironment, command: str, leads: str
):
    path = user.home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    match leads:
        case "to a pipe":
            os.mkfifo(path)
        case "to a folder":
            path.mkdir()
        case _:
            path.symlink_to(path.name)
    code, _out, err = run(command, "cursor", "--yes")
    assert (code, err.startswith(f"Error: {path} could not be changed: ")) == (1, True)
    assert run("init")[0] in (0, 1), "which looks at the files of every client"


def test_the_change_is_shown_and_nothing_happens_where_nobody_can_be_asked(run: Run, user: UserEnvironment):
    code, out, err = run("connect", "cursor")
    file = user.home / ".cursor" / "mcp.json"
    assert (code, file.exists()) == (1, False)
    assert out == (f'{file} (new):\n  +  mcpServers.toolcrib = {{"command": "{PROGRAM}", "args": ["serve"]}}\n')
    assert "Add --yes" in err


def test_what_helps_in_a_host_is_in_its_entry(run: Run, user: UserEnvironment):
    run("connect", "claude-code", "--yes")
    run("connect", "codex", "--yes")
    run("connect", "copilot-cli", "--yes")
    claude = json.loads((user.home / ".claude.json").read_text())["mcpServers"]["toolcrib"]
    assert claude == {"type": "stdio", "alwaysLoad": True, "command": PROGRAM, "args": ["serve"]}
    assert "required = true" in (user.home / ".codex" / "config.toml").read_text()
    copilot = json.loads((user.home / ".copilot" / "mcp-config.json").read_text())["mcpServers"]["toolcrib"]
    assert copilot["tools"] == ["*"]


def test_a_config_that_serve_does_not_find_by_itself_is_named(run: Run, user: UserEnvironment, tmp_path: Path):
    config = tmp_path / "mine.json"
    config.write_text("{}")
    run("connect", "cursor", "--yes", "--config", "mine.json")
    entry = json.loads((user.home / ".cursor" / "mcp.json").read_text())["mcpServers"]["toolcrib"]
    assert entry["args"] == ["serve", "--config", str(config)]


GIT = {"command": "uvx", "args": ["mcp-server-git"]}
CURSOR = """{
  // mine
  "mcpServers": {
    "git": {"command": "uvx", "args": ["mcp-server-git"]}, // behind toolcrib
    "other": {"command": "other"}
  }
}
"""


@pytest.fixture
def cursor(user: UserEnvironment, tmp_path: Path) -> Path:
    """Return a file with a server that toolcrib has too, and that works."""
    git = FakeServer(tmp_path, "git", tools=["git_log"]).entry()
    file = user.home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text(CURSOR.replace(json.dumps(GIT), json.dumps(git)))
    _config(user).write_text(json.dumps({"mcpServers": {"git": git}}))
    return file


def _config(user: UserEnvironment) -> Path:
    return user.home / ".config" / "toolcrib" / "toolcrib.json"


def test_servers_behind_toolcrib_leave_the_clients_list_and_come_back(run: Run, cursor: Path):
    before = cursor.read_text()
    code, out, _err = run("connect", "cursor", "--replace", "--yes")
    assert code == 0
    assert "  -  mcpServers.git\n" in out
    assert "mcpServers.other stays: toolcrib's config does not have it; `toolcrib init` adds it\n" in out
    text = cursor.read_text()
    assert "// mine" in text
    assert '"git"' not in text
    assert '"other": {"command": "other"}' in text
    assert run("disconnect", "cursor", "--yes")[0] == 0
    assert cursor.read_text() == before


def _servers(**changes: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda git: {"mcpServers": {"git": {**git, **changes}}}


WHY_NOT_SERVED = {
    "switched off": (_servers(disabled=True), "is disabled"),
    "a variable of this shell": (_servers(env={"T": "${GITHUB_TOKEN}"}), "the variable GITHUB_TOKEN is not set"),
    "policy": (lambda git: {**_servers()(git), "toolcrib": {"policy": {"deny": ["git.*"]}}}, "denies all its tools"),
    "a config with a mistake": (
        lambda git: {**_servers()(git), "toolcrib": {"gat": {}}},
        "cannot be used: toolcrib.gat",
    ),
}


@pytest.mark.parametrize(("config", "reason"), WHY_NOT_SERVED.values(), ids=WHY_NOT_SERVED)
def test_a_server_that_toolcrib_would_not_serve_stays_in_the_client_and_is_named(
    config: Callable[[dict[str, Any]], dict[str, Any]], reason: str, run: Run, cursor: Path, user: UserEnvironment
):
    git = _parsed(cursor)["git"]
    document = config(git)
    _config(user).write_text(json.dumps(document))
    if "env" in document["mcpServers"]["git"]:
        env = {"T": "${env:GITHUB_TOKEN}"}
        cursor.write_text(json.dumps({"mcpServers": {"git": {**git, "env": env}}}))
    code, out, err = run("connect", "cursor", "--replace", "--yes")
    assert code == 0, err
    assert reason in next(line for line in out.splitlines() if line.startswith("mcpServers.git stays: "))
    assert {"git", "toolcrib"} <= {server.name for server in read_file(cursor, client_named("cursor"), user).servers}


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ({"excludeTools": ["git_reset"]}, "toolcrib's policy lacks its rules about tools; `toolcrib init` adds them"),
        (
            {"toolset": "all"},
            "its rule about tools is not understood (toolset): write it into toolcrib.policy",
        ),
    ],
    ids=["denied", "not understood"],
)
def test_a_server_whose_rules_toolcrib_lacks_stays_in_the_client(
    rule: dict[str, Any], reason: str, run: Run, cursor: Path, user: UserEnvironment
):
    servers = _parsed(cursor)
    cursor.write_text(json.dumps({"mcpServers": {**servers, "git": {**servers["git"], **rule}}}))
    code, out, _err = run("connect", "cursor", "--replace", "--yes")
    assert (code, f"mcpServers.git stays: {reason}" in out) == (0, True)
    assert _parsed(cursor)["git"] == {**servers["git"], **rule}


def test_a_server_whose_rules_toolcrib_has_leaves_the_client(run: Run, cursor: Path, user: UserEnvironment):
    git = _parsed(cursor)["git"]
    cursor.write_text(json.dumps({"mcpServers": {"git": {**git, "excludeTools": ["git_reset"]}}}))
    assert run("import", str(cursor), "--yes")[0] == 0
    assert run("connect", "cursor", "--replace", "--yes")[0] == 0
    assert list(_parsed(cursor)) == ["toolcrib"]


def test_a_server_that_does_not_start_or_wants_a_login_stays_in_the_client(
    run: Run, cursor: Path, user: UserEnvironment
):
    servers = {"gone": {"command": sys.executable, "args": ["-c", "raise SystemExit('no licence')"]}}
    cursor.write_text(json.dumps({"mcpServers": servers}))
    _config(user).write_text(json.dumps({"mcpServers": servers}))
    code, out, _err = run("connect", "cursor", "--replace", "--yes", "--json")
    told = json.loads(out)
    assert (code, told["removed"], told["written"]) == (0, [], True)
    [staying] = told["staying"]
    assert staying["server"] == "mcpServers.gone"
    assert "toolcrib cannot start it" in staying["reason"]
    assert json.loads(cursor.read_text())["mcpServers"]["gone"] == servers["gone"]


def test_another_account_stays_in_the_client(run: Run, cursor: Path, user: UserEnvironment):
    git = FakeServer(user.home, "accounts", tools=["a"]).entry()
    document = {"mcpServers": {"git": {**git, "env": {"TOKEN": "${T}"}}}, "toolcrib": {"env_file": "e"}}
    _config(user).write_text(json.dumps(document))
    _config(user).with_name("e").write_text("T=canary-one\n")
    entries = {name: {**git, "env": {"TOKEN": f"canary-{name}"}} for name in ("one", "two")}
    cursor.write_text(json.dumps({"mcpServers": entries}))
    code, out, err = run("connect", "cursor", "--replace", "--yes")
    assert code == 0
    assert "canary" not in out + err
    assert "mcpServers.two stays: toolcrib's config does not have it" in out
    assert list(json.loads(cursor.read_text())["mcpServers"]) == ["two", "toolcrib"]


@pytest.mark.parametrize("off", [{"disabled": True}, {"isActive": False, "status": "disabled"}], ids=str)
def test_what_a_person_has_added_to_our_entry_is_kept(off: dict[str, Any], run: Run, cursor: Path):
    env = {"GH_TOKEN": "canary-env"}
    ours = {"command": "toolcrib", "args": ["serve"], "env": env, **off}
    cursor.write_text(json.dumps({"mcpServers": {"toolcrib": ours}}))
    assert run("connect", "cursor", "--yes")[0] == 0
    entry = {"env": env, "command": PROGRAM, "args": ["serve"]}
    assert json.loads(cursor.read_text())["mcpServers"]["toolcrib"] == entry
    assert "already connected" in run("connect", "cursor")[1]


def test_a_file_that_was_changed_since_keeps_the_change_and_gets_its_servers_back(
    run: Run, cursor: Path, user: UserEnvironment
):
    git = json.loads(_config(user).read_text())["mcpServers"]["git"]
    run("connect", "cursor", "--replace", "--yes")
    cursor.write_text(cursor.read_text().replace('"other": {"command": "other"}', '"new": {"command": "new"}'))
    code, out, _err = run("disconnect", "cursor", "--yes")
    assert (code, "it has changed since" in out) == (0, True)
    text = cursor.read_text()
    assert "// mine" in text
    servers = json.loads(text.replace("// mine", ""))["mcpServers"]
    assert servers == {"new": {"command": "new"}, "git": git}


def test_connecting_twice_still_gives_back_what_there_was_before_the_first_time(
    run: Run, cursor: Path, user: UserEnvironment
):
    before = cursor.read_text()
    run("connect", "cursor", "--yes")
    run("connect", "cursor", "--replace", "--yes")
    run("disconnect", "cursor", "--yes")
    assert cursor.read_text() == before


def test_connecting_again_after_another_change_still_gives_back_what_was_replaced(run: Run, cursor: Path):
    before = _parsed(cursor)
    run("connect", "cursor", "--replace", "--yes")
    cursor.write_text(cursor.read_text().replace('"other": {"command": "other"}', '"new": {"command": "new"}'))
    cursor.write_text(cursor.read_text().replace(PROGRAM, "/old/toolcrib"))
    assert run("connect", "cursor", "--yes")[0] == 0
    assert PROGRAM in cursor.read_text()
    code, out, _err = run("disconnect", "cursor", "--yes")
    assert (code, "it has changed since" in out) == (0, True)
    assert _parsed(cursor) == {"git": before["git"], "new": {"command": "new"}}


def test_who_has_taken_us_out_by_hand_begins_anew(run: Run, cursor: Path):
    run("connect", "cursor", "--replace", "--yes")
    cursor.write_text('{"mcpServers": {"mine": {"command": "mine"}}}')
    before = cursor.read_text()
    run("connect", "cursor", "--yes")
    run("disconnect", "cursor", "--yes")
    assert cursor.read_text() == before


def _parsed(file: Path) -> dict[str, Any]:
    return json.loads("".join(line.partition("//")[0] for line in file.read_text().splitlines()))["mcpServers"]


def test_an_entry_that_a_person_wrote_is_given_back(run: Run, cursor: Path):
    by_hand = CURSOR.replace('"other"', '"toolcrib"', 1)
    cursor.write_text(by_hand)
    run("connect", "cursor", "--yes")
    assert "other" not in cursor.read_text()
    cursor.write_text(cursor.read_text() + "\n")
    run("disconnect", "cursor", "--yes")
    text = cursor.read_text()
    assert text.startswith(by_hand.partition('"toolcrib"')[0])
    assert "".join(text.split()) == "".join(by_hand.split())


def test_an_entry_without_a_record_is_taken_out_all_the_same(run: Run, cursor: Path):
    cursor.write_text('{"mcpServers": {"toolcrib": {"command": "toolcrib", "args": ["serve"]}, "a": {"command": "a"}}}')
    assert run("disconnect", "cursor", "--yes")[0] == 0
    assert cursor.read_text() == '{"mcpServers": {"a": {"command": "a"}}}'


def test_a_copy_with_the_time_in_its_name_is_kept_for_its_owner_alone(run: Run, cursor: Path, tmp_path: Path):
    before = cursor.read_text()
    _code, out, _err = run("connect", "cursor", "--yes")
    [copy] = (tmp_path / "data" / "toolcrib" / "connections").glob("cursor-*-mcp.json")
    assert str(copy) in out
    assert copy.read_text() == before
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600


@pytest.fixture
def claude(user: UserEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the log of a program ``claude`` that adds and removes servers as Claude Code does."""
    log, folder = tmp_path / "claude.log", tmp_path / "bin"
    folder.mkdir()
    program = folder / "claude"
    program.write_text(
        f"""#!{sys.executable}
import json, os, pathlib, sys
pathlib.Path({str(log)!r}).open("a").write(json.dumps(sys.argv[1:]) + "\\n")
file = pathlib.Path(os.environ["HOME"], ".claude.json")
document = json.loads(file.read_text()) if file.exists() else {{}}
servers = document.setdefault("mcpServers", {{}})
if sys.argv[2] == "add-json":
    servers[sys.argv[5]] = json.loads(sys.argv[6])
elif sys.argv[5] not in servers:
    sys.exit("No user-scoped MCP server found")
else:
    del servers[sys.argv[5]]
file.write_text(json.dumps(document))
"""
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{Path(PROGRAM).parent}")
    return log


def test_a_client_that_can_do_it_itself_does(run: Run, claude: Path, user: UserEnvironment):
    file = user.home / ".claude.json"
    file.write_text('{"numStartups": 1}')
    code, out, err = run("connect", "claude-code", "--yes")
    assert code == 0, err
    assert "run   claude mcp add-json --scope user toolcrib " in out
    assert [json.loads(line)[1] for line in claude.read_text().splitlines()] == ["add-json"]
    assert json.loads(file.read_text())["mcpServers"]["toolcrib"]["alwaysLoad"] is True
    assert run("disconnect", "claude-code", "--yes")[0] == 0
    assert file.read_text() == '{"numStartups": 1}'


def test_a_client_that_has_written_its_file_since_takes_us_out_itself(run: Run, claude: Path, user: UserEnvironment):
    file = user.home / ".claude.json"
    run("connect", "claude-code", "--yes")
    file.write_text(json.dumps({**json.loads(file.read_text()), "numStartups": 2}))
    code, out, _err = run("disconnect", "claude-code", "--yes")
    assert (code, "by Claude Code itself" in out) == (0, True)
    assert json.loads(file.read_text()) == {"mcpServers": {}, "numStartups": 2}


def test_a_clients_command_that_fails_is_told(run: Run, claude: Path, tmp_path: Path):
    (tmp_path / "bin" / "claude").write_text("#!/bin/sh\necho 'no such scope' >&2; exit 3\n")
    code, _out, err = run("connect", "claude-code", "--yes")
    assert (code, "`claude mcp add-json` ended with 3: no such scope" in err) == (1, True)


def test_programs_are_told_in_json(run: Run, user: UserEnvironment):
    code, out, _err = run("connect", "zed", "--yes", "--json")
    assert code == 0
    assert json.loads(out)["written"] is True
    code, out, _err = run("connect", "zed", "--json")
    assert json.loads(out)["written"] is False


def test_an_unknown_client_and_a_config_that_is_not_there_are_told(run: Run, user: UserEnvironment):
    code, _out, err = run("connect", "cursr", "--yes")
    assert (code, "did you mean cursor?" in err) == (1, True)
    (user.home / ".config" / "toolcrib" / "toolcrib.json").unlink()
    code, _out, err = run("connect", "cursor", "--yes")
    assert (code, "There is no config yet" in err) == (0, True)
