"""Ordinary tasks as programs over eight real servers: how many are right at the first try, and what they save.

The programs were written by a model that had seen toolcrib's instructions, the definitions of its tools and the hits of
its own searches, and had run nothing; a second one, where there is any, with the first one's error alone. They are run
as they were written, over data that is made anew; the answers are known. ``--python`` names a Python that has
mcp-server-fetch and mcp-server-sqlite (``pip install 'mcp<2' mcp-server-fetch mcp-server-sqlite``); without it their
tasks are left out. The servers from npm are those that ``scripts/install-node-tools`` installs. ``--only NAME`` runs
one task and shows what came back. Writes need no confirmation here.
"""

import argparse
import json
import os
import re
import sys
import tempfile
import tomllib
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import catalog
from measuring import Finding, Target, options, say, show
from program_world import World, shop
from raw_client import RawClient

sys.path.insert(0, str(catalog.ROOT / "tests"))
from e2e.npm import HOW_TO_INSTALL, Npm, find

TASKS = Path(__file__).resolve().parent / "tasks"
SETS = {"thirty": "thirty tasks", "held_out": "twenty held out"}
_CLOSE = 1e-9
_SHOWN = 160
_CHARACTERS = 4
_UNIT = f"tokens (estimate: characters / {_CHARACTERS})"
_REFUSED = "Nothing ran"
_SERVER = re.compile(r"\b([a-z]+)__[a-z]")


@dataclass(frozen=True, slots=True)
class Task:
    """What is asked, its answer, and the programs that were written for it: one, or two where the first was wrong."""

    name: str
    ask: str
    answer: Any
    programs: tuple[str, ...]

    def is_of(self, servers: Collection[str]) -> bool:
        """Return whether its programs call tools of these servers alone."""
        return {*_SERVER.findall("\n".join(self.programs))} <= {*servers}


@dataclass(frozen=True, slots=True)
class Try:
    """A program that was run: what came back, and what its calls were, which a model would have made one by one."""

    code: str
    text: str
    is_right: bool
    calls: int = 0
    read: int = 0

    @property
    def tokens(self) -> float:
        """What a model writes and reads of it."""
        return (len(self.code) + len(self.text)) / _CHARACTERS

    @property
    def read_tokens(self) -> float:
        """What a model would read of the results of its calls."""
        return self.read / _CHARACTERS


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of the programs of a task, up to the first that was right."""

    task: Task
    tries: tuple[Try, ...]

    def is_right_at(self, most: int) -> bool:
        """Return whether one of so many was right."""
        return any(each.is_right for each in self.tries[:most])


def read(name: str, world: World) -> list[Task]:
    """Return the tasks of a file, with the places of this world."""
    text = (TASKS / f"{name}.toml").read_text(encoding="utf-8")
    placed = tomllib.loads(text.replace("{folder}", str(world.folder)).replace("{site}", world.site))
    return [Task(each["name"], each["ask"], each["answer"], tuple(each.get("programs", ()))) for each in placed["task"]]


def is_right(text: str, answer: Any) -> bool:
    """Return whether what a program gave back is the answer, as JSON or as it is."""
    if isinstance(answer, str) and text.strip() == answer.strip():
        return True
    return any(_equal(value, answer) for value in _values(text))


def _values(text: str) -> Iterator[Any]:
    """Yield each JSON that begins a line: the value of the program, or what it printed."""
    for begun in re.finditer("^", text, re.MULTILINE):
        with suppress(ValueError):
            yield json.JSONDecoder().raw_decode(text, begun.start())[0]


def _equal(value: Any, answer: Any) -> bool:
    if isinstance(answer, dict) and isinstance(value, dict):
        return value.keys() == answer.keys() and all(_equal(value[key], answer[key]) for key in answer)
    if isinstance(answer, list) and isinstance(value, list):
        return len(value) == len(answer) and all(map(_equal, value, answer))
    if isinstance(answer, int | float) and isinstance(value, int | float):
        return abs(value - answer) < _CLOSE
    return value == answer


def tried(client: RawClient, task: Task) -> Tried:
    """Run the programs of a task until one is right."""
    tries: list[Try] = []
    for code in task.programs:
        result = client.call("tool_run", {"code": code})
        text = result["content"][0]["text"]
        tries.append(Try(code, text, not result.get("isError") and is_right(text, task.answer)))
        if tries[-1].is_right:
            break
    return Tried(task, tuple(tries))


def counted(done: Sequence[Tried], events: Path) -> list[Tried]:
    """Return the same with the calls of each program, by the events of all that were not refused, in their order."""
    lines = map(json.loads, events.read_text(encoding="utf-8").splitlines())
    ran = iter([each for each in lines if each["event"] == "program_run"])
    return [Tried(each.task, tuple(_counted(one, ran) for one in each.tries)) for each in done]


def _counted(one: Try, ran: Iterator[dict[str, Any]]) -> Try:
    if one.text.startswith(_REFUSED):
        return one
    event = next(ran)
    return replace(one, calls=event["calls"], read=event["characters_read"])


def run(name: str, npm: Npm, given: argparse.Namespace) -> list[Tried]:
    """Run the tasks of a file, in their order, in a world of their own."""
    with tempfile.TemporaryDirectory() as made, shop(Path(made).resolve(), npm, given.python, given.catalog) as world:
        config = catalog.write_servers(world.folder, world.servers, {"programs": {"writes": "allow"}})
        catalog.index(config)
        with RawClient(catalog.toolcrib_command(config)) as client:
            client.open()
            asked = [task for task in read(name, world) if given.only in (None, task.name)]
            done = [tried(client, task) for task in asked if task.programs and task.is_of(world.servers)]
        return counted(done, world.folder / "cache" / "events.jsonl")


def found(name: str, done: Sequence[Tried]) -> list[Finding]:
    """Return how many tasks of a set were right, and what those took beside their calls one by one."""
    of = SETS[name]
    first, some = (sum(each.is_right_at(most) for each in done) for most in (1, 2))
    right = [each for each in done if each.is_right_at(2)]
    tries = [one for each in right for one in each.tries]
    calls, read_tokens = sum(each.tries[-1].calls for each in right), sum(each.tries[-1].read_tokens for each in right)
    return [
        Finding(
            f"{of}: right at the first try", "tasks", first, len(done), "asked", Target(0.9, "ratio", is_least=True)
        ),
        Finding("… at the second at the latest", "tasks", some, len(done), "asked", Target(1, "ratio", is_least=True)),
        Finding("… round trips of those", "", len(tries), calls, "call by call", Target(0.25, "ratio")),
        Finding("… tokens", _UNIT, sum(one.tokens for one in tries), read_tokens, "call by call", Target(0.2, "ratio")),
    ]


def told(each: Tried) -> Iterator[str]:
    """Yield a line on a task whose first program was not right, and one on a task that hardly gains."""
    first, last = each.tries[0], each.tries[-1]
    if not first.is_right:
        when = "right at the second try" if last.is_right else "never right"
        yield f"* {each.task.name}: {when}; first came: {' '.join(first.text.split())[:_SHOWN]}"
    tokens = sum(one.tokens for one in each.tries)
    if tokens > last.read_tokens / 2:
        yield f"* {each.task.name}: {tokens:,.0f} tokens, {last.read_tokens:,.0f} call by call in {last.calls} calls"


def main() -> None:
    parser = options(__doc__, repeat=1)
    catalog.add_option(parser)
    parser.add_argument("--python", type=Path, metavar="FILE", help="a Python that has the servers of fetch and sqlite")
    parser.add_argument("--only", metavar="NAME", help="run this task alone, and show what came back")
    given = parser.parse_args()
    if find_spec("pydantic_monty") is None:
        say("The extra toolcrib[programs] is not installed: nothing to measure.")
        return
    npm = find(os.environ)
    if npm is None:
        say(f"Nothing to measure: it {HOW_TO_INSTALL}.")
        return
    done = {name: run(name, npm, given) for name in SETS}
    every = list(chain(*done.values()))
    if given.only:
        say("\n\n".join(one.text for each in every for one in each.tries))
    notes = [line for each in every for line in told(each)]
    show([one for name, of in done.items() if of for one in found(name, of)], *notes, as_json=given.json)


if __name__ == "__main__":
    main()
