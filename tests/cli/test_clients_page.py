"""What docs/clients.md tells people to write can be read, and starts what it says."""

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolcrib.cli.serve import _parser

PAGE = (Path(__file__).parents[2] / "docs" / "clients.md").read_text(encoding="utf-8")


def entries() -> Iterator[dict[str, Any]]:
    """Yield every entry for toolcrib, of whatever client: from blocks, and from the table of addresses."""
    blocks = re.findall(r"^```(json|toml)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    inline = [("json", text) for text in re.findall(r"`(\{.*?\}\}\}\})`", PAGE)]
    for language, text in [*blocks, *inline]:
        document = json.loads(text) if language == "json" else tomllib.loads(text)
        [servers] = document.values()
        yield servers["toolcrib"]


def test_every_command_is_one_that_serve_understands():
    commands = [entry for entry in entries() if "command" in entry]
    assert len(commands) == 7
    for entry in commands:
        assert Path(entry["command"]).name == "toolcrib"
        assert entry["args"][0] == "serve"
        assert _parser().parse_args(entry["args"][1:]).config == Path("/path/to/mcp.json")


def test_every_address_is_given_with_its_token():
    addresses = [entry for entry in entries() if "command" not in entry]
    assert len(addresses) == 5
    for entry in addresses:
        assert {"https://crib.example.com/mcp"} == {entry[key] for key in ("url", "httpUrl") if key in entry}
        assert "bearer_token_env_var" in entry or entry["headers"] == {"Authorization": "Bearer …"}
