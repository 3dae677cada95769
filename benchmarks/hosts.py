"""What agent hosts make of toolcrib: what their models get of an answer, what runs unasked, what becomes of the list.

Runs the hosts that ``scripts/install-hosts`` has installed, at their defaults and once more with the line that
docs/clients.md gives for their approvals, with a scripted model on loopback: the harness of tests/hosts. Characters,
not tokens; they do not vary, so one round is enough. ``--case few``: what becomes of few tools that are all listed;
``--case long``: of results of 200,000 tokens and of 2 MB, directly and through toolcrib.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from measuring import options, say

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path.insert(0, str(TESTS))

if TYPE_CHECKING:
    from hosts.cases import Case
    from hosts.reading import Sent
    from hosts.running import Run

    Start = Callable[..., Run]


@dataclass(frozen=True, slots=True)
class Row:
    """One host. ``search`` and ``skill`` are what its model got of an answer, ``around`` what was not toolcrib's."""

    host: str
    version: str
    reaches: str
    instructions: str
    search: int
    skill: int
    form: str
    around: int
    unasked: str
    approved: str
    listing: str
    head: str
    own_name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class FewRow:
    """One host with few tools that are all listed: where its model sees them, and which it can call."""

    host: str
    version: str
    sees: str
    unasked: str
    approved: str
    seconds: float


@dataclass(frozen=True, slots=True)
class LongRow:
    """One host with long results: characters shown to its model, and whether that finds the rest."""

    host: str
    version: str
    text_directly: int | str
    text: int | str
    text_found: str
    json_directly: int | str
    json: int | str
    json_found: str


HEADINGS = {
    "host": "host",
    "version": "version",
    "reaches": "reaches the model",
    "instructions": "instructions",
    "search": "`tool_search`, 5 hits",
    "skill": "`skill_get`",
    "form": "form",
    "around": "around it",
    "unasked": "runs unasked",
    "approved": "with the line",
    "listing": "list",
    "head": "head of the prompt",
    "own_name": "used tool by its own name",
    "seconds": "s",
    "sees": "sees first",
    "text_directly": "text, directly",
    "text": "text",
    "text_found": "finds a line of the rest",
    "json_directly": "JSON, directly",
    "json": "JSON",
    "json_found": "finds an object of the rest",
}
"""Of the tables, by field."""


def row(name: str, version: str, runs: Sequence["Run"], sent: "Sent", listing: str) -> Row:
    """Return what was seen of a host: at its defaults first, last with the most approvals."""
    from hosts.reading import forms, reached, structured_of, text_of, told

    seen = runs[-1]
    shown, found = seen.answers.get("search", ""), forms(seen.answers.get("search", ""), sent)
    sizes = {"text": len(text_of(sent.search)), "structured": len(structured_of(sent.search))}
    return Row(
        host=name,
        version=version,
        reaches=reached(seen, sent),
        instructions=told(seen, sent),
        search=len(shown),
        skill=len(seen.answers.get("skill", "")),
        form=" + ".join(sorted(found.elements(), reverse=True)) or "none",
        around=max(0, len(shown) - sum(sizes[form] for form in found.elements())),
        unasked=_ways(runs[0]),
        approved=_ways(runs[-1]) if len(runs) > 1 else "",
        listing=listing,
        head="changes" if len(set(seen.heads)) > 1 else "stays",
        own_name="yes" if "own name" in seen.ran else "no",
        seconds=round(sum(run.seconds for run in runs), 1),
    )


def _ways(run: "Run") -> str:
    """Return by which of toolcrib's tools a read-only tool ran."""
    names = {"read": "tool_call_read", "call": "tool_call"}
    return ", ".join(name for step, name in names.items() if step in run.ran) or "nothing"


def few_row(name: str, version: str, folder: Path, start: "Start") -> FewRow:
    """Return what a host makes of few tools that are all listed."""
    from hosts.cases import few
    from hosts.expected import EXPECTED
    from hosts.running import USED

    turns = [False] if EXPECTED[name].approved is None else [False, True]
    runs = [start(name, few(folder / f"{name}-few-{approved}"), approved=approved) for approved in turns]
    prompt, offered = runs[-1].prompt, json.dumps(runs[-1].before.tools)
    described = "List the tickets of a project, newest first."
    return FewRow(
        host=name,
        version=version,
        sees="tools" if described in offered else "their names" if USED in prompt else "the server's name",
        unasked=_which(runs[0]),
        approved=_which(runs[-1]) if len(runs) > 1 else "",
        seconds=round(sum(run.seconds for run in runs), 1),
    )


def _which(run: "Run") -> str:
    """Return which kinds of tools ran."""
    ran = ["read-only"] if run.ran else []
    return ", ".join([*ran, *(["others"] if "ran create_ticket" in run.answers.get("writes", "") else [])]) or "nothing"


def long_row(name: str, version: str, folder: Path, start: "Start") -> LongRow:
    """Return what a host makes of long results."""
    from hosts.cases import FOUND_LINE, FOUND_ORDER, long, long_directly, plain

    directly = start(name, long_directly(folder / f"{name}-directly"), approved=True)
    through = start(name, long(folder / f"{name}-through"), approved=True)

    def found(step: str, what: str) -> str:
        return "yes" if what in plain(through.answers.get(step, "")) else "no"

    def shown(run: "Run", step: str) -> int | str:
        return len(run.answers[step]) if step in run.answers else "does not go on"

    return LongRow(
        host=name,
        version=version,
        text_directly=shown(directly, "text"),
        text=shown(through, "text"),
        text_found=found("text found", FOUND_LINE),
        json_directly=shown(directly, "json"),
        json=shown(through, "json"),
        json_found=found("json found", FOUND_ORDER),
    )


def measure_case(case: str, names: Sequence[str], folder: Path) -> Iterator[FewRow | LongRow | str]:
    """Yield a row of a case for each host, or why there is none."""
    from e2e.npm import HOW_TO_INSTALL, find
    from hosts.expected import EXPECTED
    from hosts.launching import HOSTS
    from hosts.running import hosts_folder, installed, run

    npm, programs = find(os.environ), hosts_folder(os.environ)
    if npm is None:
        yield HOW_TO_INSTALL
        return

    def start(name: str, case: "Case", *, approved: bool) -> "Run":
        return run(
            name,
            npm,
            programs,
            case.behind,
            approved=approved and EXPECTED[name].approved is not None,
            steps=case.steps,
        )

    for name in names:
        package = installed(programs, HOSTS[name].package)
        if package is None:
            yield f"{name}: not installed, run scripts/install-hosts"
            continue
        say(f"running {name} ...")
        yield {"few": few_row, "long": long_row}[case](name, package.rpartition("@")[2], folder, start)


def measure(names: Sequence[str], listing: str | None, folder: Path) -> Iterator[Row | str]:
    """Yield a row for each host, or why there is none; ``listing`` is toolcrib's own option."""
    from e2e.npm import HOW_TO_INSTALL, find
    from hosts.expected import EXPECTED, TODAY
    from hosts.launching import HOSTS
    from hosts.reading import ask, client_of
    from hosts.running import crib, hosts_folder, installed, run
    from toolcrib.config.loading import load
    from toolcrib.policy.client_profiles import ClientProfiles

    npm, programs = find(os.environ), hosts_folder(os.environ)
    if npm is None:
        yield HOW_TO_INSTALL
        return
    config, options = dict(TODAY.config), ["--listing", listing] if listing else []
    nobody = crib(folder / "nobody", config, *options)
    hosts = ClientProfiles(load(nobody.folder / "toolcrib.json", {"HOME": str(nobody.folder)}, nobody.folder), "stdio")
    for name in names:
        package = installed(programs, HOSTS[name].package)
        if package is None:
            yield f"{name}: not installed, run scripts/install-hosts"
            continue
        say(f"running {name} ...")
        turns = [False] if EXPECTED[name].approved is None else [False, True]
        runs = [
            run(name, npm, programs, crib(folder / f"{name}-{approved}", config, *options), approved=approved)
            for approved in turns
        ]
        if not runs[-1].model.asked:
            yield f"{name}: never asked its model anything; it said: {runs[-1].said[-300:]}"
            continue
        client = client_of(runs[-1])
        sent = anyio.run(ask, nobody.command, client)
        yield row(name, package.rpartition("@")[2], runs, sent, listing or hosts.profile(client).listing)


def show(found: Sequence[Row | FewRow | LongRow | str], *, as_json: bool) -> None:
    """Print the rows as a Markdown table or as JSON, and below them what has none."""
    rows = [asdict(one) for one in found if not isinstance(one, str)]
    notes = [f"{datetime.now(UTC):%Y-%m-%d}", *(one for one in found if isinstance(one, str))]
    if as_json:
        print(json.dumps({"findings": rows, "notes": notes}))
        return
    for one in rows[:1]:
        print("| " + " | ".join(HEADINGS[key] for key in one) + " |\n|" + "---|" * len(one))
    for one in rows:
        print("| " + " | ".join(f"{each:,}" if isinstance(each, int) else str(each) for each in one.values()) + " |")
    print("\n" + "\n".join(notes))


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    from hosts.launching import HOSTS

    given = options(__doc__, repeat=1)
    given.add_argument("--hosts", nargs="+", choices=HOSTS, default=list(HOSTS), metavar="HOST", help=", ".join(HOSTS))
    given.add_argument("--case", choices=["few", "long"], help="another case than what a model is shown at first")
    given.add_argument("--listing", choices=["dynamic", "stable", "auto"], help="toolcrib's list (default: its own)")
    return given


def main() -> None:
    given = parser().parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if given.case:
            found = list(measure_case(given.case, given.hosts, Path(folder)))
        else:
            found = list(measure(given.hosts, given.listing, Path(folder)))
        show(found, as_json=given.json)


if __name__ == "__main__":
    main()
