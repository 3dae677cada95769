"""toolcrib config check: it names what cannot have been meant, and never calls a file right that is of no use."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.command_line import Run
from config.source_document import SOURCE_SECTION
from fakes.menu import FakeServer, tool

Check = Callable[..., tuple[int, str, str]]

PYTHON = {"command": sys.executable}
"""An entry with which nothing is wrong."""

SERVER = {"url": "https://host/mcp"}
TOOLS = [
    tool("create_issue", "Open an issue.", {"title": "string"}, ["title"]),
    tool("close_issue", "Close an issue.", {"number": "integer"}, ["number"]),
    tool("drop_all", "Remove everything."),
]


@pytest.fixture
def check(run: Run, tmp_path: Path) -> Check:
    """Check a config given as text or as a document, and return the exit code, stdout and stderr."""

    def check(config: Any, *arguments: str, name: str = "mcp.json") -> tuple[int, str, str]:
        file = tmp_path / name
        file.write_text(config if isinstance(config, str) else json.dumps(config), encoding="utf-8")
        return run("config", "check", "--config", str(file), *arguments)

    return check


def test_a_config_with_which_nothing_is_wrong_is_ok(check: Check, tmp_path: Path):
    code, out, err = check({"mcpServers": {"a": PYTHON, "b": SERVER, "c": {"command": "x", "disabled": True}}})
    assert (code, out) == (0, f"OK: {tmp_path / 'mcp.json'} (servers: 2, skipped: 1, notices: 0)\n")
    assert err == "skipped: mcpServers.c: is disabled\n"


# -- files of other clients ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "place", "client"),
    [
        ({"servers": {"a": {"type": "stdio", "command": "x"}}, "inputs": []}, "servers", "VS Code"),
        ({"mcp": {"servers": {"a": {"command": "x"}}}}, "mcp.servers", "VS Code"),
        ({"context_servers": {"a": {"source": "custom", "command": "x"}}}, "context_servers", "Zed"),
        ({"context_servers": {"a": {"command": {"path": "x"}}}}, "context_servers", "Zed"),
        ({"mcp": {"a": {"type": "local", "command": ["npx", "x"]}}}, "mcp", "opencode"),
        ({"extensions": {"a": {"type": "stdio", "cmd": "x", "args": []}}}, "extensions", "Goose"),
        ({"mcp_servers": {"a": {"command": "x"}}}, "mcp_servers", "Codex"),
        ({"amp.mcpServers": {"a": {"command": "x"}}}, "amp.mcpServers", "Amp"),
        ({"projects": {"/home/a": {"mcpServers": {"a": {"command": "x"}}}}}, "projects", "Claude Code"),
        ({"mcpServers": [{"name": "a", "command": "x"}]}, "mcpServers", "Continue"),
    ],
)
def test_the_file_of_another_client_is_named_for_what_it_is(
    document: dict[str, Any], place: str, client: str, check: Check
):
    code, out, err = check(document)
    assert (code, out) == (2, "")
    assert f"\n  {place}: " in err
    assert client in err


def test_keys_that_only_sound_like_another_clients_are_no_problem(check: Check):
    document = {"servers": ["a"], "extensions": {"colour": {"on": True}}, "mcp": 1, "projects": {"a": 1}}
    code, _out, err = check({**document, "mcpServers": {"a": SERVER}})
    assert code == 1, "servers is nearly mcpServers"
    assert "wrong:" not in err
    assert check({"extensions": {"colour": {"on": True}}, "mcpServers": {"a": SERVER}})[0] == 0


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"command": ["npx", "-y", "x"]}, "is a list, as opencode writes it"),
        ({"command": {"path": "x", "args": []}}, "is an object, as Zed writes it"),
        ({"httpUrl": "https://host/mcp"}, "rename httpUrl to url"),
        ({"serverUrl": "https://host/mcp"}, "rename serverUrl to url"),
        ({"uri": "https://host/mcp"}, "rename uri to url"),
        ({"cmd": "x"}, "rename cmd to command"),
    ],
)
def test_an_entry_of_another_client_is_left_out_and_the_others_are_served(
    entry: dict[str, Any], said: str, check: Check
):
    code, out, err = check({"mcpServers": {"a": entry, "b": SERVER}})
    assert (code, "servers: 1, skipped: 1" in out) == (1, True)
    assert "skipped: mcpServers.a" in err
    assert said in err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"arg": ["x"]}, "arg: did you mean args?"),
        ({"environment": {"A": "b"}}, "environment: opencode's env"),
        ({"enabled": "perhaps"}, "write disabled: true"),
        ({"envFile": ".env"}, "envFile: VS Code's file of variables"),
    ],
)
def test_a_key_that_is_nearly_ours_or_means_something_elsewhere_is_told(more: dict[str, Any], said: str, check: Check):
    code, out, err = check({"mcpServers": {"a": {**PYTHON, **more}}})
    assert (code, out.startswith("Usable, but with likely mistakes")) == (1, True)
    assert said in err


def test_a_number_among_arguments_is_at_its_place_when_a_secret_is_named(check: Check):
    entry = {**PYTHON, "args": [8080, "--token", "canary-12"], "env": {"API_KEY": 12345678901234567890}}
    code, _out, err = check({"mcpServers": {"a": entry}})
    assert "mcpServers.a.args[2]: looks like a secret in plain text" in err
    assert "mcpServers.a.env.API_KEY: looks like a secret in plain text" in err
    assert (code, "canary" in err) == (0, False)


def test_a_key_of_another_client_that_changes_nothing_is_no_problem(check: Check):
    assert check({"mcpServers": {"a": {**PYTHON, "enabled": True, "timeout": 5, "disabledTools": []}}})[0] == 0


def test_a_slip_in_the_key_that_a_server_needs_is_told_with_what_was_meant(check: Check):
    code, _out, err = check({"mcpServers": {"a": {"comand": "x"}}})
    assert code == 1
    assert "mcpServers.a: cannot be used: it needs a command or a url (comand: did you mean command?)" in err


@pytest.mark.parametrize("name", ["config.toml", "mcp.json"])
def test_toml_is_named(name: str, check: Check):
    code, out, err = check('[mcp_servers.a]\ncommand = "npx"\nargs = ["x"]\n', name=name)
    assert (code, out) == (2, "")
    assert "is TOML, as Codex's config.toml is" in err
    assert "[mcp_servers.NAME]" in err


# -- paths ---------------------------------------------------------------------------------------


def test_a_backslash_that_json_would_drop_is_an_error(check: Check):
    text = '{ // its path: "C:\\d"\n"mcpServers": {"a": {"command": "C:\\Users\\me\\x.exe", "args": [\'\\d\']},}}'
    code, _out, err = check(text)
    assert code == 2
    assert "line 2 has an invalid backslash escape, as in a Windows path" in err


def test_a_backslash_that_yaml_does_not_know_is_an_error_with_what_to_write(check: Check):
    code, _out, err = check('mcpServers: {a: {command: "C:\\Program\\x.exe"}}', name="mcp.yaml")
    assert code == 2
    assert "'single quotes'" in err


@pytest.mark.parametrize("text", [r"C:\new\x.exe", r"D:\tools\bin"])
def test_a_windows_path_that_was_read_as_escapes_is_told(text: str, check: Check):
    as_args = f'{{"mcpServers": {{"a": {{"command": {json.dumps(sys.executable)}, "args": ["{text}"]}}}}}}'
    code, _out, err = check(as_args.replace(r"\x", r"\u0078").replace(r"\bin", r"\\bin"))
    assert code == 1
    assert "wrong: mcpServers.a.args[0]: is a path of Windows whose backslashes were read as escapes" in err


@pytest.mark.skipif(os.sep != "/", reason="it may be there")
def test_a_windows_path_where_there_is_no_windows_is_told(check: Check):
    code, _out, err = check({"mcpServers": {"a": {"command": "C:\\x\\x.exe"}}})
    assert (code, "it is a path of Windows" in err) == (1, True)


@pytest.mark.parametrize("argument", ["~/notes", "--root=~/notes", "~"])
def test_a_home_directory_that_no_shell_fills_in_is_told(argument: str, check: Check):
    code, _out, err = check({"mcpServers": {"a": {**PYTHON, "args": ["-x", argument]}}})
    assert code == 1
    assert "wrong: mcpServers.a.args[1]: has a ~, which is not expanded to the home directory" in err
    assert check({"mcpServers": {"a": {**PYTHON, "args": ["a~b", "x~"]}}})[0] == 0


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("no-such-program-anywhere", "there is no program no-such-program-anywhere (install it"),
        ("./no/such/program", "no/such/program (check the path)"),
        (f"{sys.executable} -m x", f"contains arguments too (write {sys.executable} alone, and the rest as args"),
    ],
)
def test_a_program_that_is_not_there_is_told(command: str, said: str, check: Check):
    code, _out, err = check({"mcpServers": {"a": {"command": command}}})
    assert code == 1
    assert "wrong: mcpServers.a.command: " in err
    assert said in err


def test_how_a_well_known_program_is_come_by_is_told(check: Check, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "")
    assert "install Node.js" in check({"mcpServers": {"a": {"command": "npx"}}})[2]


def test_a_program_beside_toolcribs_own_python_is_found_though_no_search_path_has_it(
    check: Check, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", "")
    assert check({"mcpServers": {"a": {"command": Path(sys.executable).name}}})[0] == 0


def test_folders_that_are_not_there_are_told(check: Check, tmp_path: Path):
    skills = {"skill_dirs": ["none", "preset:claude"], "skill_packs": [{"name": "x", "path": "none.yaml"}]}
    code, _out, err = check({"mcpServers": {"a": {**PYTHON, "cwd": "nowhere"}}, "toolcrib": {"skills": skills}})
    assert code == 1
    assert f"wrong: mcpServers.a.cwd: there is no folder {tmp_path / 'nowhere'}" in err
    assert f"wrong: toolcrib.skills.skill_dirs[0]: there is no folder {tmp_path / 'none'}" in err
    assert f"toolcrib.skills.skill_packs[0].path: there is no file or folder {tmp_path / 'none.yaml'}" in err


def test_a_program_is_looked_for_in_the_folder_of_its_server(check: Check, tmp_path: Path):
    program = tmp_path / "inside" / "bin" / "run"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    assert check({"mcpServers": {"a": {"command": "bin/run", "cwd": "inside"}}})[0] == 0
    assert check({"mcpServers": {"a": {"command": "bin/run"}}})[0] == 1


# -- no servers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({}, "there are no servers"),
        ({"mcpServers": {}}, "there are no servers"),
        ({"mcpServers": {"a": {"command": "x", "disabled": True}}}, "no server is used"),
    ],
)
def test_no_server_is_never_ok(document: dict[str, Any], said: str, check: Check):
    code, out, err = check(document)
    assert (code, out.startswith("OK")) == (1, False)
    assert f"wrong: mcpServers: {said}" in err


def test_no_config_file_is_never_ok(run: Run):
    code, out, err = run("config", "check")
    assert (code, out.startswith("OK")) == (1, False)
    assert "there is no config file" in err


def test_a_variable_that_is_not_set_is_wrong(check: Check):
    code, out, _err = check({"mcpServers": {"a": {**PYTHON, "args": ["${UNSET}"]}, "b": SERVER}})
    assert (code, "servers: 1, skipped: 1" in out) == (1, True)


def test_a_program_gets_all_of_it_as_json(check: Check):
    code, out, err = check({"mcpServers": {"a": {"command": "nowhere-at-all", "arg": []}}}, "--json")
    answer = json.loads(out)
    assert (code, err, answer["ok"], answer["servers"]) == (1, "", False, ["a"])
    assert [problem["path"] for problem in answer["problems"]] == ["mcpServers.a.command"]
    assert answer["notices"][0]["hint"] == "arg: did you mean args?"


# -- names of tools ------------------------------------------------------------------------------


@pytest.fixture
def check_names(run: Run, check: Check, tmp_path: Path) -> Check:
    """Check what a config says of a server ``zoo`` that was listed under ``before``; False: it was never listed."""
    entries = {"zoo": FakeServer(tmp_path, tools=TOOLS).entry(), "desk": PYTHON}

    def check_names(section: dict[str, Any], before: Any = None) -> tuple[int, str, str]:
        servers = {"zoo": entries["zoo"]}
        if before is not False:
            file = tmp_path / "mcp.json"
            file.write_text(json.dumps({"mcpServers": servers, "toolcrib": {"cache_dir": "c", **(before or {})}}))
            assert run("index", "refresh", "--config", str(file))[0] == 0
        return check({"mcpServers": servers, "toolcrib": {"cache_dir": "c", **section}})

    return check_names


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"always_loaded_tools": ["create_isue"]}, "always_loaded_tools[0]"),
        ({"deferred_tools": ["close_issue", "create_isue"]}, "deferred_tools[1]"),
        ({"tags": {"create_isue": ["x"], "*": ["y"]}}, "tags.create_isue"),
        ({"side_effects": {"create_isue": "write"}}, "side_effects.create_isue"),
        ({"tool_examples": {"create_isue": []}}, "tool_examples.create_isue"),
    ],
)
def test_a_name_that_no_tool_of_the_server_has_is_told_with_the_nearest(
    options: dict[str, Any], place: str, check_names: Check
):
    code, _out, err = check_names({"servers": {"zoo": options}})
    assert code == 1
    assert f"wrong: toolcrib.servers.zoo.{place}: zoo has no such tool: create_isue" in err
    assert "did you mean create_issue?" in err


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("section", "said"),
    [
        (
            {"tool_search": {"always_loaded_patterns": ["zoo.create_isue"]}},
            "always_loaded_patterns[0]: zoo has no such",
        ),
        ({"tool_search": {"always_loaded_patterns": ["create_issue"]}}, "(write *.create_issue)"),
        ({"tool_search": {"always_loaded_patterns": ["zo.*"]}}, "there is no server zo (did you mean zoo?)"),
        ({"tool_search": {"preferred_namespaces": ["zo"]}}, "there is no server zo (did you mean zoo?)"),
        ({"policy": {"deny": ["drop_al"]}}, "policy.deny[0]: there is no such tool: drop_al (did you mean drop_all?)"),
        ({"policy": {"confirm": {"tools": ["zoo__drop_al"]}}}, "confirm.tools[0]: zoo has no such tool: drop_al"),
        ({"policy": {"deny": ["zoo__drop_al"]}}, "policy.deny[0]: zoo has no such tool: drop_al"),
        ({"policy": {"allow": ["zoo.*", "zoo.x*"]}}, "policy.allow[1]: zoo has no such tool: x*"),
        (
            {"policy": {"visibility": [{"when": {}, "deny": ["drop_al"]}]}},
            "policy.visibility[0].deny[0]: there is no such",
        ),
    ],
)
def test_a_pattern_that_matches_nothing_is_told(section: dict[str, Any], said: str, check_names: Check):
    code, _out, err = check_names(section)
    assert code == 1
    assert said in err


def test_names_and_patterns_that_match_are_ok(check_names: Check):
    options = {
        "always_loaded_tools": ["create_*"],
        "tags": {"*": ["x"]},
        "side_effects": {"close_issue": "write"},
        "tool_examples": {"create_issue": [{"args": {"title": "x"}}]},
    }
    policy = {"allow": ["*"], "deny": ["drop_all", "zoo.close_*", "*/drop_all", "*delete*"]}
    search = {"always_loaded_patterns": ["zoo.create_issue", "*__create_issue"], "preferred_namespaces": ["zoo"]}
    section = {"servers": {"zoo": options}, "policy": policy, "tool_search": search}
    code, _out, err = check_names({**section, "policy": {**policy, "deny": policy["deny"][:3]}})
    assert (code, err) == (0, "")
    code, _out, err = check_names(section, before={"policy": {"deny": ["drop_all"]}})
    assert (code, err) == (0, ""), "a denied tool is known again by its name, and a pattern may mean any"


def test_of_a_server_that_was_never_listed_only_its_own_name_can_be_wrong(check_names: Check):
    section = {"policy": {"deny": ["zoo.whatever", "whatever"]}, "servers": {"zoo": {"tags": {"x": ["y"]}}}}
    assert check_names(section, before=False)[0] == 0
    code, _out, err = check_names({"policy": {"deny": ["zo.create_issue"]}}, before=False)
    assert (code, "did you mean zoo?" in err) == (1, True)


def test_an_example_that_does_not_fit_its_tool_is_told(check_names: Check):
    examples = {"close_issue": [{"args": {"number": 1}}, {"args": {"number": "one"}}, {"args": {}}]}
    code, _out, err = check_names({"servers": {"zoo": {"tool_examples": examples}}})
    assert code == 1
    place = "wrong: toolcrib.servers.zoo.tool_examples.close_issue"
    assert f"{place}[1]: does not fit the tool: " in err
    assert f"{place}[2]: does not fit the tool: " in err
    assert f"{place}[0]" not in err


# -- secrets that are written out, and bridges ----------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "place", "name"),
    [
        (
            {"url": "https://host/mcp", "headers": {"Authorization": "Bearer canary-1"}},
            "headers.Authorization",
            "A_TOKEN",
        ),
        ({"url": "https://host/mcp?api_key=canary-1"}, "url", "A_KEY"),
        ({**PYTHON, "env": {"API_KEY": "canary-1"}}, "env.API_KEY", "API_KEY"),
        ({**PYTHON, "args": ["--token", "canary-1"]}, "args[1]", "A_SECRET"),
    ],
)
def test_a_secret_that_is_written_out_is_warned_of_and_not_shown(check: Check, entry: Any, place: str, name: str):
    code, _, err = check({"mcpServers": {"a": entry}})
    assert code == 0
    assert err.startswith(f"notice: mcpServers.a.{place}: looks like a secret in plain text")
    assert f"toolcrib secret set {name}" in err
    assert "canary" not in err


@pytest.mark.parametrize("value", ["${API_KEY}", "Bearer ${file:~/token}", "${keyring:wiki:-}", "${env:KEY}"])
def test_a_secret_that_is_referred_to_is_not_warned_of(check: Check, value: str):
    headers = {"Authorization": value}
    _, _, err = check({"mcpServers": {"a": {"url": "https://host/mcp", "headers": headers, "disabled": True}}})
    assert "plain text" not in err


def test_secrets_are_found_in_our_own_keys_too(check: Check):
    tokens = [{"token": "canary-1", "subject": "ann"}, {"token": "${GITHUB_TOKEN}", "subject": "bob"}]
    code, _, err = check({"mcpServers": {"a": SERVER}, "toolcrib": {"http": {"tokens": tokens}}})
    assert code == 0
    assert err.count("plain text") == 1
    assert "toolcrib.http.tokens[0].token: looks like a secret" in err


def test_a_bridge_is_named_with_the_entry_that_needs_none(check: Check):
    args = ["-y", "mcp-remote@latest", "https://host/mcp?key=canary", "--header", "X-Key: canary", "--resource", "r"]
    _, _, err = check({"mcpServers": {"wiki": {"command": sys.executable, "args": args}}})
    assert "mcp-remote" not in err
    _, _, err = check({"mcpServers": {"wiki": {"command": "npx", "args": args}}})
    assert "mcpServers.wiki: runs mcp-remote, a bridge to https://host/mcp, which toolcrib can connect to itself" in err
    assert 'write {"url":"https://host/mcp","headers":{"X-Key":"***"}}, then run `toolcrib login wiki`' in err
    assert "ignored: --resource" in err
    assert "canary" not in err


def test_a_name_is_told_once_with_all_its_places_and_one_that_is_near_none_is_no_mistake(check_names: Check):
    options = {
        "always_loaded_tools": ["merge_branch", "fork"],
        "side_effects": {"merge_branch": "write"},
        "tool_examples": {"merge_branch": []},
    }
    section = {"servers": {"zoo": options}, "tool_search": {"preferred_namespaces": ["payments"]}}
    code, out, err = check_names(section)
    assert (code, out.startswith("OK: ")) == (0, True)
    assert err.count("zoo has no such tool: merge_branch") == 1
    assert "also in side_effects.merge_branch, tool_examples.merge_branch" in err
    assert err.count("known: close_issue") == 1
    assert "notice: toolcrib.tool_search.preferred_namespaces[0]: there is no server payments" in err
    assert check_names({"policy": {"deny": ["zoo.merge_branch"]}})[0] == 1, "somebody relies on it"


def test_the_source_documents_own_config_is_ok(check_names: Check):
    code, out, err = check_names({**SOURCE_SECTION, "cache_dir": "c"})
    assert (code, out.startswith("OK: ")) == (0, True), err
    assert "always_loaded_patterns[0]: there is no server tasks (known: zoo)" in err
    assert "enable_incremental_index: has no effect" in err
    assert len(err.splitlines()) == len({*err.splitlines()})
