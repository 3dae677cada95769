"""toolcrib add, remove, get, enable and disable: the config keeps its comments, and what was added is tried at once."""

import json
import stat
import sys
from pathlib import Path

import pytest

from cli.command_line import Run
from fakes.menu import FakeServer, tool

TOOLS = [
    tool("create_issue", "Open an issue. It stays open.", {"title": "string"}, ["title"]),
    tool("drop", "Drop it."),
]
CONFIG = """{
  // mine
  "mcpServers": {
    "a": {"command": "a"}, // first
    "b": {"url": "https://h/mcp"}
  },
  "toolcrib": {"policy": {"deny": ["a.rm", "x"]}, "servers": {"a": {"description": "A"}}}
}
"""


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "etc" / "toolcrib" / "toolcrib.json"


@pytest.fixture
def config(target: Path) -> Path:
    target.parent.mkdir(parents=True)
    target.write_text(CONFIG)
    return target


def _servers(file: Path) -> dict[str, object]:
    return json.loads(
        "".join(line.partition("//")[0] if " //" in line else line for line in file.read_text().splitlines())
    )


@pytest.fixture
def fake(tmp_path: Path) -> list[str]:
    """Return the words that start a server with two tools."""
    server = FakeServer(tmp_path, tools=TOOLS)
    return [server.command, *server.args]


def test_a_server_is_added_tried_and_its_tools_are_shown(run: Run, fake: list[str], target: Path):
    code, out, err = run("add", "tickets", "--", *fake)
    assert code == 0, err
    assert out == (
        f"Added tickets to {target}.\nIt works, and has 2 tools:\n"
        "  tickets__create_issue  Open an issue.\n  tickets__drop  Drop it.\n"
    )
    assert json.loads(target.read_text())["mcpServers"]["tickets"] == {"command": fake[0], "args": fake[1:]}
    code, out, _err = run("search", "open issue")
    assert (code, "tickets__create_issue" in out) == (0, True), "it is in the index now"
    code, out, _err = run("get", "tickets")
    assert (code, "tools: 2" in out) == (0, True)
    code, out, _err = run("get", "tickets", "--json")
    assert json.loads(out)["command"] == fake[0]


def test_only_the_server_that_is_added_is_started(run: Run, fake: list[str], tmp_path: Path):
    started = tmp_path / "started"
    run("add", "other", "--no-try", "--", sys.executable, "-c", f"open({str(started)!r}, 'w')")
    assert run("add", "tickets", "--", *fake)[0] == 0
    assert not started.exists()


def test_a_server_that_fails_is_told_and_stays(run: Run, target: Path):
    code, out, err = run("add", "bad", "--", sys.executable, "-c", "import sys; sys.exit('no licence')")
    assert (code, "Added bad" in out) == (1, True)
    assert "no licence" in err
    assert "`toolcrib remove bad` removes it" in err
    assert "bad" in json.loads(target.read_text())["mcpServers"]
    code, out, _err = run("add", "worse", "--json", "--", "no-such-program-anywhere")
    told = json.loads(out)
    assert (code, told["tools"], "no-such-program-anywhere" in told["failed"]) == (1, [], True)


@pytest.mark.parametrize(
    ("words", "entry"),
    [
        (["--url", "https://h/mcp"], {"type": "http", "url": "https://h/mcp"}),
        (["https://h/mcp"], {"type": "http", "url": "https://h/mcp"}),
        (["https://h/v1/sse"], {"type": "sse", "url": "https://h/v1/sse"}),
        (["-t", "http", "https://h/sse"], {"type": "http", "url": "https://h/sse"}),
        (["--transport", "sse", "https://h/sse"], {"type": "sse", "url": "https://h/sse"}),
        (
            ["--url", "https://h/mcp", "-H", "Authorization: Bearer ${T}", "--header", "X-A: b:c"],
            {"type": "http", "url": "https://h/mcp", "headers": {"Authorization": "Bearer ${T}", "X-A": "b:c"}},
        ),
        (["-e", "A=b=c", "--", "x", "-y"], {"command": "x", "args": ["-y"], "env": {"A": "b=c"}}),
    ],
)
def test_servers_are_described_as_to_other_clients(words: list[str], entry: dict[str, object], run: Run, target: Path):
    code, _out, err = run("add", "it", "--no-try", *words)
    assert code == 0, err
    assert json.loads(target.read_text())["mcpServers"] == {"it": entry}


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--url", "https://h/mcp", "--", "x"],
        ["--url", "ftp://h"],
        ["--url", "https://h/mcp", "--env", "A=b"],
        ["--header", "A: b", "--", "x"],
        ["--transport", "ws", "--url", "https://h/mcp"],
    ],
)
def test_a_server_that_cannot_be_meant_so_is_not_added(words: list[str], run: Run, target: Path):
    code, _out, err = run("add", "it", "--no-try", *words)
    assert code in (1, 2)
    assert err
    assert not target.exists()


@pytest.mark.parametrize(
    ("name", "plain"), [("bad name", "bad-name"), ("a__b", "a_b"), ("é", "server"), ("x/y", "x-y")]
)
def test_a_name_that_names_of_tools_cannot_have_is_refused_with_one_that_they_can(
    name: str, plain: str, run: Run, target: Path
):
    code, _out, err = run("add", name, "--no-try", "--", "x")
    assert (code, target.exists()) == (1, False)
    assert f"is not a name for a server: use letters, digits, - and _, as in {plain}." in err
    assert run("add", plain, "--no-try", "--", "x")[0] == 0


def test_a_secret_is_named_and_not_shown(run: Run, target: Path):
    code, out, err = run("add", "it", "--no-try", "--url", "https://h/mcp", "-H", "Authorization: Bearer canary-secret")
    assert (code, "canary" in out + err) == (0, False)
    assert "headers.Authorization is stored in plain text; use ${IT_TOKEN}" in out
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_comments_and_order_stay(run: Run, config: Path):
    assert run("add", "c", "--no-try", "--", "c")[0] == 0
    text = config.read_text()
    assert '    "a": {"command": "a"}, // first\n    "b": {"url": "https://h/mcp"},\n    "c": {\n' in text
    assert run("remove", "c")[0] == 0
    assert config.read_text() == CONFIG


def test_a_name_that_is_taken_is_an_error(run: Run, config: Path):
    code, _out, err = run("add", "a", "--no-try", "--", "x")
    assert (code, "already has a server a" in err) == (1, True)
    assert config.read_text() == CONFIG


def test_with_a_server_goes_what_is_said_about_it(run: Run, config: Path):
    assert run("remove", "a")[0] == 0
    assert _servers(config) == {
        "mcpServers": {"b": {"url": "https://h/mcp"}},
        "toolcrib": {"policy": {"deny": ["x"]}, "servers": {}},
    }
    assert "// mine" in config.read_text()


def test_a_server_may_be_used_where_servers_are_allowed_by_name(run: Run, target: Path, fake: list[str]):
    target.parent.mkdir(parents=True)
    target.write_text('{"mcpServers": {"a": {"command": "a"}}, "toolcrib": {"policy": {"allow": ["a.*"]}}}')
    code, out, err = run("add", "tickets", "--", *fake)
    assert code == 0, err
    assert "has 2 tools" in out
    assert json.loads(target.read_text())["toolcrib"]["policy"]["allow"] == ["a.*", "tickets.*"]
    run("remove", "tickets")
    assert json.loads(target.read_text())["toolcrib"]["policy"]["allow"] == ["a.*"]


def test_a_server_is_switched_off_and_on_for_toolcrib_alone(run: Run, config: Path):
    assert run("disable", "b")[0] == 0
    code, out, _err = run("get", "b")
    assert (code, "left_out: is disabled" in out) == (0, True)
    code, out, _err = run("enable", "b", "--json")
    assert (code, json.loads(out)["message"]) == (0, "b is now enabled.")
    assert config.read_text() == CONFIG
    assert "already enabled" in run("enable", "b")[1]


def test_switching_on_takes_away_what_any_client_calls_it(run: Run, target: Path):
    target.parent.mkdir(parents=True)
    target.write_text('{\n  // theirs\n  "mcpServers": {"a": {"command": "a", "isActive": false, "mode": "off"}}\n}')
    assert "a: is disabled (isActive is false)" in run("config", "check")[2]
    assert run("enable", "a")[1].strip() == "a is now enabled."
    assert target.read_text() == '{\n  // theirs\n  "mcpServers": {"a": {"command": "a"}}\n}'
    assert "is disabled" not in run("config", "check")[2]


def test_switching_on_says_what_still_leaves_it_out(run: Run, target: Path):
    target.parent.mkdir(parents=True)
    unusable, program = "cannot be used: ", "command is the program alone, args the list of the rest"
    for entry, reason in (
        (
            {"command": "${NOT_SET}", "disabledTools": ["b"]},
            "the variable NOT_SET is not set (set it, or write ${NOT_SET:-default})",
        ),
        ({"command": ["a"]}, f"{unusable}command is a list, as opencode writes it ({program})"),
        ({"command": "a", "args": 3}, f'{unusable}args must be a list (write a list of texts: ["--port", "80"])'),
    ):
        target.write_text(json.dumps({"mcpServers": {"a": {**entry, "disabled": True}}}))
        assert run("enable", "a")[1].split() == f"a is now enabled. It is not served all the same: {reason}.".split()


def test_switching_on_says_what_keeps_its_tools_denied(run: Run, target: Path):
    target.parent.mkdir(parents=True)
    target.write_text(
        '{"mcpServers": {"a": {"command": "a", "disabled": true}}, "toolcrib": {"policy": {"deny": ["a.*"]}}}'
    )
    code, out, _err = run("enable", "a")
    assert (code, "toolcrib.policy.deny still has a.*" in out) == (0, True)
    assert json.loads(target.read_text())["mcpServers"] == {"a": {"command": "a"}}


@pytest.mark.parametrize("command", ["get", "remove", "enable", "disable"])
def test_a_server_that_is_not_there_is_answered_with_a_near_one(command: str, run: Run, config: Path):
    config.write_text(CONFIG.replace('"a": {"command"', '"github": {"command"'))
    code, _out, err = run(command, "gihub")
    assert (code, "did you mean github?" in err) == (1, True)


def test_secrets_of_a_server_are_not_shown(run: Run, config: Path):
    config.write_text(
        '{"mcpServers": {"a": {"command": "a", "args": ["--token", "canary-1"], "env": {"T": "canary-2"}}}}'
    )
    for flags in ([], ["--json"]):
        code, out, err = run("get", "a", *flags)
        assert (code, "canary" in out + err) == (0, False)


def test_a_yaml_config_is_changed_as_well(run: Run, tmp_path: Path):
    file = tmp_path / "mine.yaml"
    file.write_text("# mine\nmcpServers:\n  a: {command: a} # first\n")
    assert run("add", "b", "--no-try", "--config", str(file), "--", "b", "-x")[0] == 0
    assert (
        file.read_text() == '# mine\nmcpServers:\n  a: {command: a} # first\n  b:\n    command: b\n    args: ["-x"]\n'
    )
    run("disable", "a", "--config", str(file))
    run("enable", "a", "--config", str(file))
    run("remove", "b", "--config", str(file))
    assert file.read_text().startswith("# mine\nmcpServers:\n  a: {command: a} # first\n")


def test_what_a_server_says_on_stderr_is_kept_without_its_secrets(run: Run, tmp_path: Path):
    noisy = FakeServer(tmp_path, "noisy", tools=TOOLS, stderr="ready, with canary-secret")
    code, _out, err = run("add", "noisy", "--env", "TOKEN=canary-secret", "--", noisy.command, *noisy.args)
    assert code == 0, err
    code, out, _err = run("logs", "noisy")
    assert (code, out.endswith(" ready, with ***\n")) == (0, True)
    code, out, _err = run("logs", "noisy", "--json", "-n", "1")
    assert len(json.loads(out)["lines"]) == 1
    run("add", "quiet", "--no-try", "--", "x")
    code, out, err = run("logs", "quiet")
    assert (code, out, "nothing to stderr" in err) == (0, "", True)
    code, _out, err = run("logs", "nosy")
    assert (code, "did you mean noisy?" in err) == (1, True)
