"""What hosts make of few tools that are listed at once, and of results that are longer than a model can bear.

Each case is what stands behind a host, and what the model calls; never what is expected of which host.
"""

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from e2e.crib import serve, write_config
from fakes.menu import FakeServer, tool
from hosts.dialects import JsonObject
from hosts.running import READ_ONLY, Crib, Step, Steps, crib

FEW: JsonObject = {"gate": {"pass_through_tokens": 2000}}
FEW_STEPS: Steps = {
    "reads": ("tickets__list_tickets", {"project": "reads"}),
    "writes": ("tickets__create_ticket", {"title": "writes"}),
}

_LINE = "Line {number:06}: the harbour was quiet, and nobody had seen the ship since the evening before.\n"
BOOK = "".join(_LINE.format(number=number) for number in range(1, 8801))
"""800,000 characters: some 200,000 tokens."""
ORDERS = json.dumps(
    {
        "orders": [
            {"id": number, "customer": f"customer {number % 97}", "state": "open", "total": number / 4}
            for number in range(1, 29_001)
        ]
    },
    separators=(",", ":"),
)
"""2 MB of JSON."""
FIRST_LINE, FIRST_ORDER = "Line 000001", '"id":1,'
FOUND_LINE, FOUND_ORDER = "Line 007777", '"id":27777,'
"""What stands in their middle, where the model looks for it."""
BEARABLE = 100_000
"""Characters of a result that a model can bear: 20,000 tokens, with what a host adds to quote them."""

_TOOLS = {"read_book": BOOK, "export_orders": ORDERS}
_HANDLE = re.compile(r'handle\\*":\\*"([\w-]+)')


@dataclass(frozen=True, slots=True)
class Case:
    """What stands behind a host, and what the model calls."""

    behind: Crib
    steps: Steps


def few(folder: Path) -> Case:
    """Return a toolcrib that lists all tools: they are known, as from the second start on."""
    behind = crib(folder, FEW)
    refresh = [*behind.command[: behind.command.index("serve")], "index", "refresh"]
    subprocess.run([*refresh, "--config", folder / "toolcrib.json"], check=True, capture_output=True, timeout=120)
    return Case(behind, FEW_STEPS)


def long(folder: Path) -> Case:
    """Return a toolcrib with a server whose tools have long results; the model calls them and looks for the rest."""
    server = _library(folder)
    steps: Steps = {
        "text": _through("library__read_book"),
        "text found": lambda shown: _rest(shown, find="line 007777"),
        "json": _through("library__export_orders"),
        "json found": lambda shown: _rest(shown, path="$.orders[27776]"),
    }
    command = serve(write_config(folder, {"library": server.entry()}))
    return Case(Crib(folder, command, server), steps)


def long_directly(folder: Path) -> Case:
    """Return that server alone, in toolcrib's place."""
    server = _library(folder)
    steps: Steps = {"text": ("read_book", {}), "json": ("export_orders", {})}
    return Case(Crib(folder, [server.command, *server.args], server), steps)


def plain(shown: str) -> str:
    """Return what was shown without the backslashes of quotation: some hosts show results as JSON."""
    return shown.replace("\\", "")


def _library(folder: Path) -> FakeServer:
    folder.mkdir(parents=True)
    results = {name: {"content": [{"type": "text", "text": text}]} for name, text in _TOOLS.items()}
    return FakeServer(folder, "library", tools=[tool(name, **READ_ONLY) for name in _TOOLS], results=results)


def _through(name: str, arguments: JsonObject | None = None) -> Step:
    return "tool_call_read", {"name": name, "arguments": arguments or {}}


def _rest(shown: str, **wanted: str) -> Step:
    """Return the call that what was shown of a result gives for its rest; one that fails if it gives none."""
    handle = _HANDLE.search(shown)
    return _through("read_more", {"handle": handle[1] if handle else "none was shown", **wanted})
