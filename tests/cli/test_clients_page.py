"""What docs/clients.md tells people to write can be read, and starts what it says."""

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from toolcrib.cli.serve import _parser

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
HOSTS = ROOT / ".ci" / "hosts.txt"


READ = {"json": json.loads, "toml": tomllib.loads, "yaml": yaml.safe_load}


def documents() -> Iterator[dict[str, Any]]:
    """Yield every file that the page shows: from blocks, from the table of addresses, and what a command adds."""
    for language, text in re.findall(r"^```(json|toml|yaml)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE):
        yield READ[language](text)
    for text in re.findall(r"`(\{.*?\}\}\}\})`", PAGE):
        yield json.loads(text)
    for name, text in re.findall(r"mcp add-json .* (\w+) '(\{.*?\})'", PAGE):
        yield {"mcpServers": {name: json.loads(text)}}


def entries() -> Iterator[dict[str, Any]]:
    """Yield every entry for toolcrib, of whatever client."""
    for document in documents():
        for servers in document.values():
            if isinstance(servers, dict) and "toolcrib" in servers:
                yield servers["toolcrib"]
            elif isinstance(servers, list):
                yield from (server for server in servers if server.get("name") == "toolcrib")


def command_of(entry: dict[str, Any]) -> list[str]:
    """Return the whole command that an entry starts, or nothing where it names an address."""
    command = entry.get("command", entry.get("cmd", []))
    return command if isinstance(command, list) else [command, *entry["args"]]


def test_every_command_is_one_that_serve_understands():
    commands = [command for entry in entries() if (command := command_of(entry))]
    assert len(commands) == 16
    for program, verb, *options in commands:
        assert Path(program).name == "toolcrib"
        assert verb == "serve"
        assert _parser().parse_args(options).config == Path("/path/to/mcp.json")


@pytest.mark.parametrize("client", ["Copilot CLI", "opencode", "Qwen Code", "Continue", "Cline", "Windsurf", "Goose"])
def test_a_client_says_whether_it_was_run(client: str):
    section = PAGE.split(f"### {client}\n\n")[1]
    assert section.startswith(("Run: ", "Not run. "))


def test_the_versions_that_were_run_are_those_of_the_tests():
    pinned = [line.split() for line in HOSTS.read_text().splitlines() if not line.startswith("#")]
    sections = PAGE.split("### ")
    for _, _, version in pinned:
        assert any(section.partition("\n\n")[2].startswith("Run: ") and version in section for section in sections)


def test_every_address_is_given_with_its_token():
    addresses = [entry for entry in entries() if not command_of(entry)]
    assert len(addresses) == 5
    for entry in addresses:
        assert {"https://crib.example.com/mcp"} == {entry[key] for key in ("url", "httpUrl") if key in entry}
        assert "bearer_token_env_var" in entry or entry["headers"] == {"Authorization": "Bearer …"}
