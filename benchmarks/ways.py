"""The way of a warm request through toolcrib: how many modules of ours it passes, and how many calls it takes.

For ``tools/call``, also under how many names the request's context is passed: the names of parameters by which
functions of ours get the SDK's context, the session, or an object made for this request that refers to one of them.
With ``--check``, the exit code is 1 if a target is missed.

One world in memory, asked as over stdio; the event loop's thread and the worker threads are both watched. A request
has been made before, so what is worked out once is not counted. What moves bytes is not either: that is a pipe in
memory here. Counted is each function of ours that is entered, without comprehensions, which newer Pythons inline.
"""

import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
from argparse import Namespace
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from dis import opmap
from functools import partial
from pathlib import Path
from types import FrameType, FunctionType, MethodType
from typing import Any

import anyio

import toolcrib
from measuring import Finding, Target, options, show

ROOT = Path(toolcrib.__file__).resolve().parents[2]
"""The checkout that is measured: the one whose toolcrib is imported."""

MODULES_MOST = {
    "tools/list": Target(15),
    "tools/call": Target(22),
    # As for skills, and two ideas that only tools have: capabilities (ADR 62) and requests that were written (ADR 61).
    "tool_search": Target(27),
    "skill_search": Target(25),
    "skill_get": Target(25),
}
NAMES_MOST = {"tools/call": Target(4)}
WARMING = 3
_RESUME = opmap["RESUME"]
_INLINED = ("<listcomp>", "<dictcomp>", "<setcomp>")
_PIPE = "fakes."
_CONTEXT = ("toolcrib.policy.sessions.Session", "mcp.server.context.ServerRequestContext")
_DEPTH = 4

STEPS = "\n".join(f"{number}. Do part {number}, then look at what came of it." for number in range(1, 12))
SKILL = f"""\
---
name: fill-form
description: Fills in forms. Use when a form is to be filled in.
metadata: {{tags: forms}}
---
# Fill in a form

Ask for what is missing before you begin. Mail questions to forms@company.io.

## Steps

{STEPS}

## Pitfalls

- A form with two pages has to be sent as one.
"""
TOOLS = {
    "issues": ("create_issue", "list_issues", "close_issue", "delete_issue"),
    "mail": ("send_mail", "search_mail"),
}
REQUESTS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "tools/list": ("tools/list", {}),
    "tools/call": ("tools/call", {"name": "issues__create_issue", "arguments": {"title": "x"}}),
    "tool_search": ("tools/call", {"name": "tool_search", "arguments": {"query": "create issue"}}),
    "skill_search": ("tools/call", {"name": "skill_search", "arguments": {"query": "fill in a form"}}),
    "skill_get": ("tools/call", {"name": "skill_get", "arguments": {"names": ["fill-form"], "force": True}}),
}


@dataclass(frozen=True, slots=True)
class Way:
    """What one request passed: its functions of ours by module, and how often each was entered."""

    entered: Mapping[str, Mapping[str, int]]
    names: Mapping[str, str]
    """The names of parameters by which the request's context was passed, each with a function that has it."""

    @property
    def calls(self) -> int:
        """Return how many calls it took."""
        return sum(sum(functions.values()) for functions in self.entered.values())


class Context:
    """The context of one request: finds it in the objects that are made from now on."""

    def __init__(self) -> None:
        self._before = gc.get_objects()  # held, so that no new object has the id of one of them
        self._ids = set(map(id, self._before))

    def is_in(self, value: object) -> bool:
        """Return whether a value is the session or the SDK's context, or was made since and refers to one of them."""
        return self._is_in(value, _DEPTH)

    def _is_in(self, value: object, depth: int) -> bool:
        of = type(value)
        if f"{of.__module__}.{of.__qualname__}" in _CONTEXT:
            return True
        if not depth or id(value) in self._ids:
            return False
        if isinstance(value, FunctionType):
            parts = [cell.cell_contents for cell in value.__closure__ or ()]
        elif isinstance(value, partial | MethodType | dict | tuple) or of.__module__.startswith("toolcrib."):
            parts = gc.get_referents(value)
        else:
            return False
        return any(self._is_in(part, depth - 1) for part in parts)


class Watch:
    """Counts the functions that are entered while it is on, in this thread and in those that start later."""

    def __init__(self) -> None:
        self._entered: Counter[tuple[str, str]] = Counter()
        self._names: dict[str, str] = {}
        self._context: Context | None = None
        self._is_on = False

    @contextmanager
    def installed(self) -> Generator[None]:
        """Be told of every call. Threads that run already are not watched, so this comes first."""
        before = sys.getprofile()
        threading.setprofile(self._tell)
        sys.setprofile(self._tell)
        try:
            yield
        finally:
            sys.setprofile(before)
            threading.setprofile(before)

    @contextmanager
    def counting(self) -> Generator[None]:
        """Count from here to the end of the block."""
        self._entered.clear()
        self._names.clear()
        self._context = Context()
        self._is_on = True
        try:
            yield
        finally:
            self._is_on = False
            self._context = None

    def way(self) -> Way:
        """Return what was counted."""
        entered: dict[str, dict[str, int]] = {}
        for (module, function), count in sorted(self._entered.items()):
            entered.setdefault(module, {})[function] = count
        return Way(entered, dict(self._names))

    def _tell(self, frame: FrameType, event: str, _argument: object) -> None:
        if not self._is_on or event != "call":
            return
        module, code = frame.f_globals.get("__name__", ""), frame.f_code
        if not module.startswith("toolcrib.") or code.co_name in _INLINED or not _begins(frame):
            return
        caller = frame.f_back.f_globals.get("__name__", "") if frame.f_back else ""
        if not caller.startswith(_PIPE):
            self._entered[module, code.co_qualname] += 1
            self._note_names(frame)

    def _note_names(self, frame: FrameType) -> None:
        code, context = frame.f_code, self._context
        for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
            if context is not None and name not in ("self", *self._names) and context.is_in(frame.f_locals.get(name)):
                self._names[name] = f"{frame.f_globals['__name__']}:{code.co_qualname}"


def _begins(frame: FrameType) -> bool:
    """Return whether a function begins here, and is not a coroutine or generator that goes on."""
    raw, at = frame.f_code.co_code, frame.f_lasti
    return raw[at] == _RESUME and raw[at + 1] & 3 == 0


async def ways(folder: Path, watch: Watch, rounds: int) -> dict[str, list[Way]]:
    """Return the way of each request, once a round."""
    from worlds import world  # the tests of the same checkout

    skill = folder / "project" / ".agents" / "skills" / "fill-form" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text(SKILL)
    servers = {
        server: [
            {"name": name, "description": f"{name.replace('_', ' ')}.", "inputSchema": {"type": "object"}}
            for name in names
        ]
        for server, names in TOOLS.items()
    }
    found: dict[str, list[Way]] = {name: [] for name in REQUESTS}
    # The figures must not depend on whether the model of an extra is installed.
    config = {"skills": {}, "tool_search": {"semantic": {"enabled": False}}}
    async with world(folder, servers, config) as opened, opened.client() as client:
        for name, (method, params) in REQUESTS.items():
            for number in range(WARMING + rounds):
                # What is due once in a while, such as a check of the files of skills, is done by the first of the two.
                await client.ask(method, params)
                await anyio.wait_all_tasks_blocked()
                with watch.counting():
                    result = await client.ask(method, params)
                if result.get("isError"):
                    raise RuntimeError(f"{name} failed: {result}")
                if number >= WARMING:
                    found[name].append(watch.way())
    return found


def measured(rounds: int) -> dict[str, list[Way]]:
    """Open a world in a folder of its own and return the way of each request, once a round."""
    watch = Watch()
    with tempfile.TemporaryDirectory() as folder, watch.installed():
        return anyio.run(ways, Path(folder), watch, rounds)


def figures(found: Mapping[str, list[Way]]) -> dict[str, dict[str, float]]:
    """Return the fewest modules, calls and names of each request: what is done beside a request varies."""
    return {
        name: {
            "modules": min(len(way.entered) for way in each),
            "calls": min(way.calls for way in each),
            "names": min(len(way.names) for way in each),
        }
        for name, each in found.items()
    }


def figures_of(root: Path, rounds: int) -> dict[str, dict[str, float]]:
    """Return the figures of another checkout, measured by this script in a process of its own."""
    command = [sys.executable, __file__, "--json", "--repeat", str(rounds)]
    environ = {**os.environ, "PYTHONPATH": str(root / "server")}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    found: dict[str, dict[str, float]] = {name: {} for name in REQUESTS}
    for one in json.loads(done.stdout)["findings"]:
        name, _, kind = one["what"].partition(", ")
        found[name][kind] = one["toolcrib"]
    return found


def measure(given: Namespace) -> None:
    found = measured(given.repeat)
    if given.show:
        way = found[given.show][-1]
        for module, functions in way.entered.items():
            print(module, *(f"  {count:4} {function}" for function, count in functions.items()), sep="\n")
        print("names of the context", *(f"  {name} ({at})" for name, at in way.names.items()), sep="\n")
        return
    own = figures(found)
    base = None if given.against is None else figures_of(given.against, given.repeat)
    findings = [
        Finding(
            f"{name}, {kind}",
            kind,
            own[name][kind],
            None if base is None else base[name][kind],
            "there",
            {"modules": MODULES_MOST, "names": NAMES_MOST}.get(kind, {}).get(name),
        )
        for name in REQUESTS
        for kind in ("modules", "calls", "names")
        if kind != "names" or name in NAMES_MOST
    ]
    notes = [f"there: {given.against}"] if given.against else []
    show(findings, f"here: {ROOT}", *notes, as_json=given.json)
    if given.check and any(one.holds is False for one in findings):
        sys.exit(1)


def main() -> None:
    parser = options(__doc__, repeat=3)
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout, whose figures are the baseline")
    parser.add_argument("--show", choices=REQUESTS, help="print what one request passes instead")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    given = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    measure(given)


if __name__ == "__main__":
    main()
