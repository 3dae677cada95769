"""Commands in a row, as people run them: no server is ever gone from a client and from toolcrib too (R330, R332)."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from cli.command_line import Run
from cli.test_connecting import PROGRAM
from fakes.menu import FakeServer
from serve.served import started
from toolcrib.clients.connecting import ConnectedEntry, connected_entries
from toolcrib.clients.known import Client, UserEnvironment, client_table
from toolcrib.clients.reading import read_file

SECRETS = {"API_TOKEN": "canary-secret", "PLAIN": "yes"}


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> UserEnvironment:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(PROGRAM).parent), "/usr/bin", "/bin"]))
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("COPILOT_HOME", raising=False)
    return UserEnvironment(dict(os.environ), tmp_path, sys.platform)


def _standard(server: Mapping[str, Any]) -> dict[str, Any]:
    return {"mcpServers": {"works": server}}


def _entries(server: Mapping[str, Any]) -> dict[str, Any]:
    """Return the file of each client that is no ``mcpServers``, by the client."""
    words = [server["command"], *server["args"]]
    return {
        "vscode": {"servers": {"works": server}},
        "opencode": {"mcp": {"works": {"type": "local", "command": words, "environment": server["env"]}}},
        "goose": {
            "extensions": {"works": {"cmd": words[0], "args": words[1:], "envs": server["env"], "type": "stdio"}}
        },
        "zed": {"context_servers": {"works": server}},
    }


def _toml(server: Mapping[str, Any]) -> str:
    env = "".join(f"{name} = {json.dumps(value)}\n" for name, value in server["env"].items())
    lines = f"command = {json.dumps(server['command'])}\nargs = {json.dumps(server['args'])}\n"
    return f"[mcp_servers.works]\n{lines}[mcp_servers.works.env]\n{env}"


def _write(client: Client, user: UserEnvironment, server: Mapping[str, Any]) -> Path:
    file = user.locate(client.files[0])
    file.parent.mkdir(parents=True, exist_ok=True)
    document = _entries(server).get(client.key) or _standard(server)
    file.write_text(_toml(server) if client.key == "codex" else json.dumps(document))
    return file


def _names(file: Path, client: Client, user: UserEnvironment) -> list[str]:
    return [server.name for server in read_file(file, client, user, in_project=False).servers]


def _ours(client: Client, user: UserEnvironment) -> Iterator[ConnectedEntry]:
    return (entry for entry in connected_entries(user) if entry.client == client)


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("client", client_table().clients, ids=lambda client: client.key)
async def test_secrets_that_were_moved_reach_their_server_from_an_entry_that_is_started_with_nothing(
    client: Client, run: Run, user: UserEnvironment, tmp_path: Path
):
    server = FakeServer(tmp_path, "works", tools=["env"]).entry(env=SECRETS)
    file = _write(client, user, server)
    before = file.read_bytes()
    assert run("init", "--env", "--yes")[0] == 0
    config = user.home / ".config" / "toolcrib"
    assert "canary" not in (config / "toolcrib.json").read_text()
    assert run("connect", client.key, "--yes")[0] == 0
    [entry] = _ours(client, user)
    # No variable at all but the home: so little has a client that was started by a click.
    bare = ["/usr/bin/env", "-i", f"HOME={user.home}", *entry.command]
    async with started(bare, tmp_path) as crib:
        await crib.initialize()
        answer = await crib.tool("tool_call", name="works__env")
        environment = json.loads(answer["content"][0]["text"])
    assert {name: environment.get(name) for name in SECRETS} == SECRETS
    assert run("disconnect", client.key, "--yes")[0] == 0
    assert file.read_bytes() == before


@pytest.fixture
def works(tmp_path: Path) -> dict[str, Any]:
    return FakeServer(tmp_path, "works", tools=["a"]).entry(env=SECRETS)


@pytest.fixture
def cursor(user: UserEnvironment, works: dict[str, Any]) -> Path:
    """Return a client's file with a server that works and one that needs a variable of this shell."""
    file = user.home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    shell = {**works, "env": {"API_TOKEN": "${env:FROM_SHELL}"}}
    file.write_text(json.dumps({"mcpServers": {"works": works, "shell": shell, "off": {**works, "disabled": True}}}))
    return file


def _is_somewhere(name: str, file: Path, run: Run) -> bool:
    """Return whether a server is in the client, or served by toolcrib when that starts it."""
    in_client = json.loads(file.read_text())["mcpServers"]
    entry = [PROGRAM, "config", "show", "--json"]
    env = {"HOME": os.environ["HOME"], "PATH": os.environ["PATH"]}
    said = subprocess.run(entry, env=env, capture_output=True, text=True, check=True)
    return name in in_client or name in json.loads(said.stdout)["mcpServers"]


REPLACE = ["connect", "cursor", "--replace"]
ROWS: dict[str, list[list[str]]] = {
    "as documented": [["init"], REPLACE],
    "secrets moved": [["init", "--env"], REPLACE],
    "twice": [["init", "--env"], ["connect", "cursor"], REPLACE, ["connect", "cursor"]],
    "again and again": [["init", "--env"], REPLACE, ["init"], REPLACE],
    "one left out since": [["init"], ["disable", "works"], REPLACE],
    "without a config": [REPLACE, ["init"], REPLACE],
}


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("shell", ["", "canary-of-this-shell"], ids=["not set", "set"])
def test_a_server_that_worked_is_never_gone_from_both(
    row: list[list[str]], shell: str, run: Run, user: UserEnvironment, cursor: Path, monkeypatch: pytest.MonkeyPatch
):
    if shell:
        monkeypatch.setenv("FROM_SHELL", shell)
    before = cursor.read_bytes()
    for command in row:
        code, out, err = run(*command, *(["--yes"] if command[0] != "disable" else []))
        assert code in (0, 1), err
        assert "canary" not in out + err
        for name in ("works", "shell"):
            assert _is_somewhere(name, cursor, run), (command, name, out)
    assert run("disconnect", "cursor", "--yes")[0] == 0
    assert cursor.read_bytes() == before
    assert run("uninstall", "--all", "--yes")[0] == 0
    assert cursor.read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize("end", [["disconnect", "cursor"], ["uninstall"]], ids=" ".join)
def test_what_was_replaced_comes_back_to_a_file_that_the_client_has_written_since(
    end: list[str], run: Run, user: UserEnvironment, cursor: Path
):
    before = json.loads(cursor.read_text())["mcpServers"]
    run("init", "--env", "--yes")
    run("connect", "cursor", "--replace", "--yes")
    document = json.loads(cursor.read_text())
    assert list(document["mcpServers"]) == ["shell", "toolcrib"]
    cursor.write_text(json.dumps({**document, "written": "by the client"}))
    run("connect", "cursor", "--yes")
    assert run(*end, "--yes")[0] == 0
    after = json.loads(cursor.read_text())
    assert (after["mcpServers"], after["written"]) == (before, "by the client")
