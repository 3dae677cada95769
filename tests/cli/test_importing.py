"""toolcrib init and import: shown, asked, written once; no source is touched, and no secret is shown."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from cli.command_line import Run
from fakes.menu import FakeServer, tool
from toolcrib.config.loading import load
from toolcrib.config.settings import HttpTarget, StdioTarget

CURSOR = """{ // mine
  "mcpServers": {
    "git": {"command": "uvx", "args": ["mcp-server-git"], "excludeTools": ["git_reset"]},
    "gh": {"url": "https://h/mcp", "headers": {"Authorization": "Bearer canary-header"}},
    "db": {"command": "db", "args": ["--token", "canary-argument"], "env": {"DB_PASSWORD": "canary-env"}}
  }
}
"""
CODEX = '[mcp_servers.git]\ncommand = "uvx"\nargs = ["mcp-server-git"]\ndisabled_tools = ["git_add"]\n'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Path:
    """Return a home in which Cursor and Codex have servers; ``run`` has set up the rest of the environment."""
    home = tmp_path / "home"
    (home / ".cursor").mkdir(parents=True)
    (home / ".codex").mkdir()
    (home / ".cursor" / "mcp.json").write_text(CURSOR)
    (home / ".codex" / "config.toml").write_text(CODEX)
    monkeypatch.setenv("HOME", str(home))
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR", "COPILOT_HOME"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return tmp_path / "etc" / "toolcrib" / "toolcrib.json"


def test_what_was_found_is_shown_and_nothing_is_written_where_nobody_can_be_asked(run: Run, home: Path, written: Path):
    code, out, err = run("init")
    assert (code, written.exists()) == (1, False)
    assert "Nothing was written. Add --yes" in err
    assert "git   Cursor, Codex  uvx mcp-server-git" in out
    assert "git: its tools: without git_reset, reset, git_add, add" in out
    assert "gh: contains secrets in headers.Authorization" in out
    assert "db: contains secrets in " in out
    assert "canary" not in out + err


def test_what_hides_in_what_is_written_is_shown_before(run: Run, home: Path):
    args = ["safe.js\u200b\u2060", "x\u202egnp.exe"]
    entries = {"mcpServers": {"tools": {"command": "node", "args": args}}}
    (home / ".cursor" / "mcp.json").write_text(json.dumps(entries))
    _, out, _ = run("init")
    assert r"node 'safe.js\u200b\u2060' 'x\u202egnp.exe'" in out


def test_servers_are_written_for_their_owner_alone_and_their_sources_stay(run: Run, home: Path, written: Path):
    code, out, err = run("init", "--yes")
    assert code == 0, err
    assert f"Written: {written}" in out
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    document = json.loads(written.read_text())
    assert list(document["mcpServers"]) == ["git", "gh", "db"]
    assert document["toolcrib"]["policy"] == {"deny": ["git.git_reset", "git.reset", "git.git_add", "git.add"]}
    assert (home / ".cursor" / "mcp.json").read_text() == CURSOR
    assert (home / ".codex" / "config.toml").read_text() == CODEX
    assert "canary" not in out + err


def test_numbers_in_the_config_are_those_of_the_client(run: Run, home: Path, written: Path):
    ours = {"git": {"command": "x", "args": ["--port", 3000, "--token", 12345678], "env": {"API_TOKEN": 87654321}}}
    theirs = {
        "git": {"command": "x", "args": ["--port", "3000", "--token", "12345678"], "env": {"API_TOKEN": 87654321}}
    }
    (home / ".codex" / "config.toml").unlink()
    (home / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": theirs}))
    written.parent.mkdir(parents=True)
    written.write_text(json.dumps({"mcpServers": ours}))
    code, out, err = run("init", "--yes", "--env")
    assert (code, err) == (0, "")
    assert "git: already in the config" in out
    assert json.loads(written.read_text()) == {"mcpServers": ours}
    assert "5678" not in out


def test_a_server_that_the_config_has_and_cannot_use_is_told(run: Run, home: Path, written: Path):
    (home / ".codex" / "config.toml").unlink()
    (home / ".cursor" / "mcp.json").write_text('{"mcpServers": {"git": {"command": "x"}, "b": {"command": "b"}}}')
    written.parent.mkdir(parents=True)
    written.write_text('{"mcpServers": {"git": {"command": "x", "args": "-y z"}, "b": {"command": "b", "args": null}}}')
    out = run("init", "--yes")[1]
    assert "git: toolcrib does not serve it: mcpServers.git: cannot be used: args must be a list (write a list" in out
    assert "b: already in the config\n" in out
    assert "b: toolcrib" not in out


def test_the_config_is_found_afterwards_without_being_named(run: Run, home: Path, written: Path):
    run("init", "--yes")
    code, out, _err = run("config", "path", "--json")
    assert (code, json.loads(out)["config"]) == (0, str(written))
    code, out, _err = run("config", "show", "--json")
    assert list(json.loads(out)["mcpServers"]) == ["git", "gh", "db"]


def test_secrets_move_to_variables_in_a_file_of_their_own(run: Run, home: Path, written: Path):
    code, out, err = run("init", "--yes", "--env")
    beside = written.with_name("toolcrib.env")
    assert code == 0
    assert "canary" not in out + err + written.read_text()
    lines = {"GH_TOKEN=canary-header", "DB_PASSWORD=canary-env", "DB_SECRET=canary-argument"}
    assert set(beside.read_text().splitlines()) == lines
    assert stat.S_IMODE(beside.stat().st_mode) == 0o600
    assert f"gh: its secrets in headers.Authorization move to {beside}, as GH_TOKEN\n" in out
    assert f"toolcrib reads {beside} wherever it is started" in out
    settings = load(written, {"HOME": str(home)}, home)
    assert json.loads(written.read_text())["toolcrib"]["env_file"] == "toolcrib.env"
    assert (list(settings.servers), settings.skipped) == (["git", "gh", "db"], ())


def test_where_moved_secrets_are_is_told_by_whatever_checks_the_config(run: Run, home: Path, written: Path):
    run("init", "--yes", "--env", "--from", "cursor")
    beside = written.with_name("toolcrib.env")
    text = f"variables of {beside}, where the environment has none of that name: DB_PASSWORD, DB_SECRET, GH_TOKEN"
    assert text in run("config", "check")[1]
    told = {"path": str(beside), "variables": ["DB_PASSWORD", "DB_SECRET", "GH_TOKEN"]}
    assert json.loads(run("config", "check", "--json")[1])["env_file"] == told
    assert json.loads(run("config", "path", "--json")[1])["env_file"] == str(beside)


def test_a_variable_that_has_another_value_is_left_as_it_is(
    run: Run, home: Path, written: Path, monkeypatch: pytest.MonkeyPatch
):
    """The environment wins over the file, so a secret under a name that is set would never be read."""
    monkeypatch.setenv("GH_TOKEN", "canary-of-another")
    written.parent.mkdir(parents=True)
    beside = written.with_name("toolcrib.env")
    beside.write_text("# mine\nDB_PASSWORD='of\nmine'\nexport OWN=1")
    run("init", "--yes", "--env", "--from", "cursor")
    assert beside.read_text().startswith("# mine\nDB_PASSWORD='of\nmine'\nexport OWN=1\n")
    settings = load(written, dict(os.environ), home)
    gh, db = settings.servers["gh"].target, settings.servers["db"].target
    assert isinstance(gh, HttpTarget)
    assert isinstance(db, StdioTarget)
    assert gh.headers == {"Authorization": "Bearer canary-header"}
    assert db.env["DB_PASSWORD"] == "canary-env"


def test_a_file_of_variables_that_cannot_be_read_is_not_written_over(run: Run, home: Path, written: Path):
    written.parent.mkdir(parents=True)
    beside = written.with_name("toolcrib.env")
    beside.write_bytes(b"\xff\xfe")
    code, _out, err = run("init", "--yes", "--env")
    assert (code, "No secret can be moved" in err, written.exists()) == (1, True, False)
    assert beside.read_bytes() == b"\xff\xfe"


def test_another_account_of_a_server_that_the_config_has_is_another_server(run: Run, home: Path, written: Path):
    run("init", "--yes", "--env", "--from", "cursor")
    (home / ".cursor" / "mcp.json").write_text(CURSOR.replace("canary-header", "canary-second"))
    code, out, _err = run("init", "--yes", "--env", "--from", "cursor")
    assert (code, "db: already in the config\n" in out) == (0, True)
    beside = written.with_name("toolcrib.env").read_text()
    assert "GH_TOKEN=canary-header\n" in beside
    assert "canary-second" in beside
    assert list(json.loads(written.read_text())["mcpServers"]) == ["git", "gh", "db", "gh-cursor"]


def test_in_the_home_directory_the_persons_own_files_are_read_and_not_called_unread(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(home)
    (home / ".mcp.json").write_text('{"mcpServers": {"a": {"command": "a"}}}')
    _code, out, _err = run("init")
    assert "uvx mcp-server-git" in out
    assert [line for line in out.splitlines() if line.startswith("not read")] == [
        f"not read: {home / '.mcp.json'}, because it is in the working directory; --project imports it too"
    ]


def test_a_server_that_one_client_uses_and_another_does_not_is_told_as_it_is_written(
    run: Run, home: Path, written: Path
):
    (home / ".cursor" / "mcp.json").write_text('{"mcpServers": {"a": {"command": "a", "disabled": true}}}')
    (home / ".codex" / "config.toml").write_text('[mcp_servers.a]\ncommand = "a"\n')
    _code, out, _err = run("init", "--yes")
    assert "a: it is disabled in Cursor, but not here, because it is in use in Codex\n" in out
    assert "disabled" not in json.loads(written.read_text())["mcpServers"]["a"]
    (home / ".gemini").mkdir()
    never = '{"mcp": {"excluded": ["a"]}, "mcpServers": {"a": {"command": "a"}}}'
    (home / ".gemini" / "settings.json").write_text(never)
    written.unlink()
    _code, out, _err = run("init", "--yes")
    assert "a: Gemini CLI is told never to use it, so it is disabled here too\n" in out
    assert json.loads(written.read_text())["mcpServers"]["a"]["disabled"] is True


def test_what_a_server_lacks_here_and_what_is_no_variable_is_told(
    run: Run, home: Path, written: Path, monkeypatch: pytest.MonkeyPatch
):
    (home / ".codex" / "config.toml").unlink()
    (home / ".claude.json").write_text(
        """{"mcpServers": {
        "odd": {"command": "nowhere-to-be-found", "args": ["${command:pick}"], "env": {"P_PASSWORD": "a${b-c}d"}},
        "var": {"command": "nowhere-either", "env": {"T": "${UNSET}"}}, "old": {"url": "https://h/v1/sse"}}}"""
    )
    _code, out, _err = run("init", "--yes", "--from", "claude-code")
    assert "nowhere-to-be-found '${command:pick}'\n" in out
    assert "odd: ${command:pick} is no variable of Claude Code: it is text there, and here too\n" in out
    assert "odd: what stands in ${…} is no variable of Claude Code: it is text there, and here too\n" in out
    assert "b-c" not in out, "which may be a part of a password"
    assert "odd: there is no program nowhere-to-be-found (install it, or write its full path)\n" in out
    assert "var: it is left out for now: the variable UNSET is not set\n" in out
    assert "var: there is no program nowhere-either" in out
    monkeypatch.setenv("UNSET", "canary-shell")
    written.unlink()
    _code, out, _err = run("init", "--yes", "--from", "claude-code")
    note = "var: a client may leave it out, having less than this shell: the variable UNSET is not set\n"
    assert (note in out, "left out for now" in out) == (True, False)
    assert "old: its address ends in /sse, so the older transport is used (type: sse)\n" in out
    assert json.loads(written.read_text())["mcpServers"]["old"]["type"] == "sse"


def test_a_second_time_adds_what_is_new_and_keeps_what_is_there(run: Run, home: Path, written: Path):
    written.parent.mkdir(parents=True)
    written.write_text('{\n  // by hand\n  "mcpServers": {"own": {"command": "own"}}\n}\n')
    assert run("init", "--yes", "--from", "codex")[0] == 0
    assert run("init", "--yes")[0] == 0
    text = written.read_text()
    assert text.startswith('{\n  // by hand\n  "mcpServers": {"own": {"command": "own"}, "git": ')
    code, out, _err = run("init", "--yes")
    assert (code, "already has all of them" in out, written.read_text() == text) == (0, True, True)


INLINED = """{"mcp": {
  "cookie": {"type": "remote", "url": "http://127.0.0.1:1/mcp", "headers": {"Cookie": "session=canary-cookie"}},
  "plain": {"type": "local", "command": ["plain"], "environment": {"SEED": "{file:~/seed}"}},
  "word": {"type": "local", "command": ["word", "{file:~/seed}"]},
  "place": {"type": "remote", "url": "http://127.0.0.1:1/{file:~/seed}"}
}}"""


@pytest.fixture
def opencode(home: Path, tmp_path: Path) -> Path:
    """Return the file of a client whose secrets nothing but their origin, or the name Cookie, tells."""
    for file in (home / ".cursor" / "mcp.json", home / ".codex" / "config.toml"):
        file.unlink()
    (home / "seed").write_text("canary of $${one} file")
    file = tmp_path / "etc" / "opencode" / "opencode.json"
    file.parent.mkdir(parents=True)
    file.write_text(INLINED)
    return file


@pytest.mark.parametrize("how", [["--env"], []], ids=["in variables", "written out"])
def test_a_server_is_known_again_however_its_secrets_were_written(
    how: list[str], run: Run, opencode: Path, written: Path
):
    code, out, err = run("init", "--yes", *how)
    assert code == 0, err
    text = written.read_text()
    assert ("canary" in text) == (not how)
    assert "canary" not in out + err
    assert "already has all of them" in run("init", "--yes", *how)[1]
    assert written.read_text() == text
    out = run("connect", "opencode", "--replace", "--yes")[1]
    assert [out.count(f"mcp.{name} stays: toolcrib ") for name in json.loads(INLINED)["mcp"]] == [1] * 4
    assert "does not have it" not in out
    assert "canary" not in out


def test_one_client_alone_is_asked_for_by_name_and_a_slip_is_told(run: Run, home: Path):
    code, out, _err = run("init", "--from", "codex", "--json")
    assert (code, [server["key"] for server in json.loads(out)["servers"]]) == (0, ["git"])
    code, _out, err = run("init", "--from", "cursr")
    assert (code, "did you mean cursor?" in err) == (1, True)


def test_programs_get_the_whole_of_it_and_nothing_is_written_unless_they_say_so(run: Run, home: Path, written: Path):
    code, out, _err = run("init", "--json")
    found = json.loads(out)
    assert (code, found["written"], written.exists()) == (0, [], False)
    assert found["servers"][0]["denied"] == ["git_reset", "reset", "git_add", "add"]
    assert found["servers"][1]["secrets"] == ["headers.Authorization"]
    assert "canary" not in out
    code, out, _err = run("init", "--json", "--yes")
    assert (code, json.loads(out)["written"]) == (0, [str(written)])


def test_what_the_working_directory_says_is_taken_over_only_when_asked_for(run: Run, home: Path, tmp_path: Path):
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"evil": {"command": "evil"}}}')
    _code, out, _err = run("init", "--yes")
    assert f"not read: {tmp_path / '.mcp.json'}" in out
    assert "evil" not in run("config", "show", "--json")[1]
    assert "evil" in run("init", "--project", "--json")[1]


def test_nothing_found_is_said(run: Run, home: Path):
    (home / ".cursor" / "mcp.json").unlink()
    (home / ".codex" / "config.toml").write_text("[mcp_servers.a\n")
    code, _out, err = run("init", "--yes")
    assert code == 1
    assert "is not TOML" in err
    assert "Found no server" in err


def test_a_person_at_a_terminal_is_asked(run: Run, home: Path, written: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolcrib.cli.importing.sys.stdin", _Terminal("n\n"))
    assert run("init")[0] == 1
    assert not written.exists()
    monkeypatch.setattr("toolcrib.cli.importing.sys.stdin", _Terminal("y\n"))
    assert run("init")[0] == 0
    assert written.exists()


class _Terminal:
    def __init__(self, answer: str) -> None:
        self._answer = answer

    def isatty(self) -> bool:
        return True

    def readline(self, *_: int) -> str:
        return self._answer


def test_one_file_is_taken_over_by_its_words_or_as_it_is_told(run: Run, home: Path, written: Path, tmp_path: Path):
    file = tmp_path / "some.json"
    file.write_text('{"servers": {"a": {"command": "a", "args": ["${env:X}"]}}}')
    code, _out, err = run("import", str(file), "--yes")
    assert code == 0, err
    assert json.loads(written.read_text())["mcpServers"] == {"a": {"command": "a", "args": ["${X}"]}}
    file.write_text('{"mcpServers": {"b": {"url": "https://h/sse"}}}')
    assert run("import", str(file), "--yes", "--from", "gemini-cli")[0] == 0
    assert json.loads(written.read_text())["mcpServers"]["b"]["type"] == "sse"


def test_a_file_that_cannot_be_read_is_an_error(run: Run, home: Path, tmp_path: Path):
    file = tmp_path / "some.json"
    file.write_text("{")
    code, _out, err = run("import", str(file), "--yes")
    assert (code, "is not JSON" in err) == (1, True)
    assert run("import", str(tmp_path / "none.json"))[0] == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mcp.json", '{"servers": {"a": {"command": "a"}}}'),
        ("config.toml", '[mcp_servers.a]\ncommand = "a"\n'),
        ("config.yaml", "extensions: {a: {cmd: a}}\n"),
    ],
)
def test_a_config_that_is_another_clients_ends_with_2_and_names_the_command(
    name: str, text: str, run: Run, home: Path, tmp_path: Path
):
    file = tmp_path / "a b" / name
    file.parent.mkdir()
    file.write_text(text)
    for command in (["config", "check"], ["serve"]):
        code, _out, err = run(*command, "--config", str(file))
        assert code == 2
        assert f"`toolcrib import '{file}'`" in err
    assert run("import", str(file), "--yes")[0] == 0


BRIDGED = """{"mcpServers": {
  "wiki": {"command": "npx", "args": ["-y", "mcp-remote", "https://h/mcp", "--header", "Authorization:${AUTH}"],
           "env": {"AUTH": "Bearer canary-header"}},
  "git": {"command": "uvx", "args": ["mcp-server-git"]}
}}"""


def test_a_server_behind_a_bridge_is_taken_over_as_it_is_and_the_direct_form_is_offered(
    run: Run, home: Path, written: Path, tmp_path: Path
):
    file = tmp_path / "bridged.json"
    file.write_text(BRIDGED)
    code, out, _ = run("import", str(file), "--yes")
    assert code == 0
    assert "wiki: it runs mcp-remote, a bridge to https://h/mcp, which toolcrib can connect to itself" in out
    assert json.loads(written.read_text())["mcpServers"]["wiki"]["command"] == "npx"


def test_a_server_behind_a_bridge_is_written_without_it_where_that_is_wanted(
    run: Run, home: Path, written: Path, tmp_path: Path
):
    file = tmp_path / "bridged.json"
    file.write_text(BRIDGED)
    code, out, _ = run("import", str(file), "--direct", "--yes")
    assert code == 0
    assert "run `toolcrib login`" in out
    assert "canary" not in out
    servers = json.loads(written.read_text())["mcpServers"]
    assert servers["wiki"] == {"url": "https://h/mcp", "headers": {"Authorization": "Bearer canary-header"}}
    assert servers["git"] == {"command": "uvx", "args": ["mcp-server-git"]}


@pytest.mark.parametrize("options", [[], ["--env"]], ids=["written out", "in variables"])
def test_a_server_that_was_written_without_its_bridge_is_not_added_again_behind_it(
    run: Run, home: Path, written: Path, tmp_path: Path, options: list[str]
):
    file = tmp_path / "bridged.json"
    file.write_text(BRIDGED)
    assert run("import", str(file), "--direct", "--yes", *options)[0] == 0
    before = written.read_text()
    code, out, _ = run("import", str(file), "--yes", *options)
    assert code == 0
    assert "wiki: already in the config" in out
    assert written.read_text() == before


@pytest.mark.parametrize("is_direct", [True, False])
def test_a_person_at_a_terminal_is_asked_about_a_bridge(
    run: Run, written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_direct: bool
):
    file = tmp_path / "bridged.json"
    file.write_text(BRIDGED)
    asked: list[str] = []
    monkeypatch.setattr("toolcrib.cli.importing.sys.stdin", _Terminal(""))
    monkeypatch.setattr(
        "builtins.input", lambda question: asked.append(question) or ("y" if len(asked) > 1 or is_direct else "n")
    )
    assert run("import", str(file))[0] == 0
    assert asked[0] == "wiki: reached by mcp-remote. Connect directly instead? [Y/n] "
    assert ("url" in json.loads(written.read_text())["mcpServers"]["wiki"]) == is_direct


@pytest.mark.parametrize(
    "rule",
    [
        {"tools": {"exclude": ["drop"]}},
        {"disabledTools": {"drop": True}},
        {"toolFilter": {"mode": "block", "list": ["drop"]}},
        {"excludeTools": ["zoo__drop"]},
    ],
    ids=lambda rule: next(iter(rule)),
)
def test_a_tool_that_its_client_denied_does_not_exist_in_what_was_imported(run: Run, tmp_path: Path, rule: Any):
    fake = FakeServer(tmp_path, tools=[tool("drop", "Drop all."), tool("get", "Get one.")])
    source, config = tmp_path / "theirs.json", tmp_path / "ours.json"
    source.write_text(json.dumps({"mcpServers": {"zoo": {**fake.entry(), **rule}}}))
    assert run("import", str(source), "--yes", "--config", str(config))[0] == 0
    code, out, err = run("call", "zoo__drop", "--config", str(config))
    assert (code, out) == (1, "")
    assert err.startswith("Unknown tool: zoo__drop")
    assert run("call", "zoo__get", "--config", str(config))[0] == 0
    assert [call["name"] for call in fake.calls()] == ["get"]
