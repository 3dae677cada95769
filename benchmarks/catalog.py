"""What the benchmarks run on: tool lists of many servers, a config that stands toolcrib before them, and queries.

Knows a folder of captured tool lists, if there is one, and makes tools up if not; never knows what is measured.
"""

import argparse
import json
import random
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Any

from raw_client import RawClient

ROOT = Path(__file__).resolve().parents[1]
SERVERS = Path(__file__).resolve().parent / "servers"
CATALOG = ROOT.parent / "shared" / "catalog"
PROMPTS = ROOT.parent / "shared" / "retrieval-dev" / "azure-mcp.json"

Tools = list[dict[str, Any]]

_MADE_UP_SERVERS, _MADE_UP_TOOLS = 41, 1330
_VERBS = "create list get update delete search export archive merge assign publish".split()
_NOUNS = "issue invoice branch ticket dashboard event customer pipeline page".split()
_WORDS = (
    "workspace labels state limit updated archived notify comment region owner priority format filter sort "
    "cursor deadline template channel project version"
).split()
_NOT_IN_KEYS = ("awslabs", "developer", "mcp", "modelcontextprotocol", "server")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|\n")
_KEPT_SHARE = 0.6
_QUERY_WORDS = 12


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the folder of tool lists."""
    parser.add_argument(
        "--catalog",
        type=Path,
        default=CATALOG,
        metavar="DIR",
        help="folder of tool lists, *.json with a key 'tools' (default: ../shared/catalog beside the repository)",
    )


def captured(folder: Path) -> dict[str, Tools]:
    """Return the tool lists of a folder by server key; none if it is not there."""
    files = {server_key(path.stem): path for path in sorted(folder.glob("*.json"))}
    return {key: json.loads(path.read_text(encoding="utf-8"))["tools"] for key, path in files.items()}


def server_key(package: str) -> str:
    """Return what a person would call a server in a config: ``mcp-server-git`` is ``git``."""
    words = dict.fromkeys(word for word in re.split(r"[.-]", package) if word not in _NOT_IN_KEYS)
    return "-".join(words)


def tool_lists(folder: Path) -> tuple[dict[str, Tools], str]:
    """Return the tool lists of a folder, else made-up ones, and a note that says which."""
    lists = captured(folder)
    if lists:
        return lists, f"{sum(map(len, lists.values())):,} tools of {len(lists)} captured servers"
    share = -(-_MADE_UP_TOOLS // _MADE_UP_SERVERS)
    numbers = range(_MADE_UP_TOOLS)
    lists = {
        f"server-{place}": [_made_up(number) for number in numbers[place * share : (place + 1) * share]]
        for place in range(_MADE_UP_SERVERS)
    }
    return lists, f"made-up tools ({folder} is not there): {_MADE_UP_TOOLS:,} of {_MADE_UP_SERVERS} servers"


def _made_up(number: int) -> dict[str, Any]:
    chance = random.Random(number)
    verb, noun = chance.choice(_VERBS), chance.choice(_NOUNS)
    described = {
        word: {
            "type": "string",
            "description": f"The {word} of the {noun}, as {' or '.join(chance.sample(_WORDS, 3))}",
        }
        for word in chance.sample(_WORDS, 6)
    }
    return {
        "name": f"{verb}_{noun}_{number}",
        "description": f"{verb.capitalize()} a {noun} with its {' and '.join(chance.sample(_WORDS, 2))}. "
        f"Answers with the {noun}, its {' and its '.join(chance.sample(_WORDS, 8))}.",
        "inputSchema": {"type": "object", "properties": described, "required": list(described)[:1]},
    }


def enlarged(lists: Mapping[str, Tools], size: int) -> dict[str, Tools]:
    """Return exactly ``size`` tools: the lists, or whole copies of them under other server keys, cut at the end."""
    grown: dict[str, Tools] = {}
    copies = ((key if not number else f"{key}-{number}", tools) for number in count() for key, tools in lists.items())
    for key, tools in copies:
        grown[key] = tools[:size]
        size -= len(grown[key])
        if size == 0:
            return grown
    raise AssertionError("copies never end")


def of_bytes(lists: Mapping[str, Tools], size: int) -> Tools:
    """Return tools that take about ``size`` bytes as JSON, renamed so that each name is there once.

    Without those whose schema has no type: the SDK's client would refuse the whole list because of one of them.
    """
    chosen: Tools = []
    usable = [tool for tools in lists.values() for tool in tools if "type" in tool["inputSchema"]]
    every = (tool for _ in count() for tool in usable)
    for number, tool in enumerate(every):
        chosen.append({**tool, "name": f"tool_{number}"})
        size -= len(json.dumps(chosen[-1], separators=(",", ":"))) + 1
        if size <= 0:
            return chosen
    raise AssertionError("the lists never end")


def write_config(
    folder: Path,
    lists: Mapping[str, Tools],
    toolcrib: Mapping[str, Any] | None = None,
    more: Mapping[str, Sequence[str]] | None = None,
) -> Path:
    """Write a server that lists its tools for each list, and the config that names them all; return its path.

    ``more`` are commands of other servers.
    """
    commands: dict[str, Sequence[str]] = dict(more or {})
    for key, tools in lists.items():
        file = folder / f"{key}.tools.json"
        file.write_text(json.dumps({"tools": tools}, separators=(",", ":")), encoding="utf-8")
        commands[key] = [sys.executable, "-S", str(SERVERS / "listing.py"), str(file)]
    return write_servers(folder, commands, toolcrib)


def write_servers(
    folder: Path,
    ways: Mapping[str, str | Sequence[str] | Mapping[str, Any]],
    toolcrib: Mapping[str, Any] | None = None,
) -> Path:
    """Write the config that names these servers and keeps its index in ``folder``; return its path.

    A server is its command, or its URL, or its whole entry.
    """
    servers = {key: _entry(way) for key, way in ways.items()}
    section = {"cache_dir": str(folder / "cache"), "limits": {"first_index_wait_s": 300}, **(toolcrib or {})}
    config = folder / "mcp.json"
    config.write_text(json.dumps({"mcpServers": servers, "toolcrib": section}), encoding="utf-8")
    return config


def _entry(way: str | Sequence[str] | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(way, Mapping):
        return way
    return {"url": way} if isinstance(way, str) else {"command": way[0], "args": list(way[1:])}


def toolcrib_command(config: Path) -> list[str]:
    """Return the command that serves a config over stdio."""
    return [sys.executable, "-m", "toolcrib", "serve", "--config", str(config)]


def environ_of(checkout: Path, config: Path) -> dict[str, str]:
    """Return what the environment needs for toolcrib to run from a checkout; what it stores stays beside its config."""
    folder = config.parent
    return {
        "PYTHONPATH": str(checkout / "server"),
        "PYTHONPYCACHEPREFIX": str(folder / "compiled"),
        "XDG_DATA_HOME": str(folder / "data"),
    }


def index(config: Path, environ: Mapping[str, str] | None = None) -> int:
    """Have ``toolcrib serve`` list every server of a config once; return how many tools it can find from then on."""
    with RawClient(toolcrib_command(config), environ) as client:
        client.open()
        found = client.call("tool_search", {"query": "anything"})["structuredContent"]["total_deferred"]
    if not found:
        raise RuntimeError("no server could be listed")
    return found


def queries(lists: Mapping[str, Tools], number: int, prompts: Path = PROMPTS) -> list[str]:
    """Return the same ``number`` queries every time: half from prompts of people where there are any.

    The rest are first sentences of the tools' own descriptions with four words in ten left out.
    """
    asked: list[str] = []
    if prompts.is_file():
        texts = [query["text"] for query in json.loads(prompts.read_text(encoding="utf-8"))["queries"]]
        asked = texts[:: max(1, 2 * len(texts) // number)][: number // 2]
    return asked + list(islice(_paraphrases(lists), number - len(asked)))


def _paraphrases(lists: Mapping[str, Tools]) -> Iterator[str]:
    chance = random.Random(1)
    tools = [tool for tools in lists.values() for tool in tools]
    while True:
        tool = chance.choice(tools)
        text = tool.get("title") or tool.get("description") or tool["name"]
        sentence = _SENTENCE_END.split(text.strip(), 1)[0].split()
        kept = [word for word in sentence if chance.random() < _KEPT_SHARE]
        yield " ".join((kept or sentence)[:_QUERY_WORDS])
