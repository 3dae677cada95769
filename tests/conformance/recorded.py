"""What the last whole run of the suites came to, and why checks are lost: the two files beside this, and their page.

``recorded.json`` is written by ``benchmarks/conformance.py --record`` and holds a run for each server, suite and way.
``reasons.toml`` is written by hand: why a check that passes directly does not pass by some way. docs/conformance.md has
both between its markers.
"""

import json
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from conformance.suites import SUITES, Outcome
from conformance.ways import FASTMCP_PROXY, FIXTURES, WAYS, Fixture

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
RECORDED, REASONS = Path(__file__).with_name("recorded.json"), Path(__file__).with_name("reasons.toml")
BEGIN, END = "<!-- begin {}, written by benchmarks/conformance.py -->", "<!-- end {} -->"
DIRECT = "direct"
ANY = "any"


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One suite against one server by one way: how many checks passed of those that pass directly, and which are lost.

    ``lost`` counts each check, as ``scenario: id``. ``when`` is the day and the commit.
    """

    server: str
    suite: str
    way: str
    passed: int
    of: int
    lost: dict[str, int] = field(default_factory=dict)
    when: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.server, self.suite, self.way

    @property
    def result(self) -> tuple[int, int, dict[str, int]]:
        """All but when it was."""
        return self.passed, self.of, self.lost


@dataclass(frozen=True, slots=True)
class Reason:
    """Why some checks of a scenario are lost. An empty list stands for all."""

    scenario: str
    why: str
    checks: Sequence[str] = ()
    servers: Sequence[str] = ()
    suites: Sequence[str] = ()
    ways: Sequence[str] = ()

    def explains(self, run: Run, lost: str) -> bool:
        scenario, _, check = lost.partition(": ")
        asked = ((self.checks, check), (self.servers, run.server), (self.suites, run.suite), (self.ways, run.way))
        return scenario == self.scenario and all(not wanted or got in wanted for wanted, got in asked)


def run_of(server: Fixture, suite: str, way: str, found: Outcome, direct: Outcome, when: str = "") -> Run:
    """Return a run as it is recorded."""
    lost = {f"{check.scenario}: {check.id}": 0 for check in found.lost(direct)}
    for check in found.lost(direct):
        lost[f"{check.scenario}: {check.id}"] += direct.passed[check] - found.passed[check]
    passed = (found.passed & direct.passed).total()
    return Run(server.name, suite, way, passed, direct.passed.total(), lost, when)


def recorded() -> dict[tuple[str, str, str], Run]:
    """Return the runs that are recorded, by their keys."""
    runs = [Run(**run) for run in json.loads(RECORDED.read_text(encoding="utf-8"))]
    return {run.key: run for run in runs}


def record(runs: Iterable[Run]) -> None:
    """Write down runs, in place of those with their keys, and what the page says of them."""
    everything = (recorded() if RECORDED.exists() else {}) | {run.key: run for run in runs}
    lines = [json.dumps(asdict(everything[key])) for key in sorted(everything)]
    RECORDED.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
    PAGE.write_text(rendered(PAGE.read_text(encoding="utf-8"), [*everything.values()], reasons()), encoding="utf-8")


def reasons() -> list[Reason]:
    """Return the reasons that are given."""
    return [Reason(**reason) for reason in tomllib.loads(REASONS.read_text(encoding="utf-8"))["reason"]]


def is_explained(run: Run) -> bool:
    """Whether a run is one of toolcrib's, whose lost checks have reasons."""
    return run.way not in (DIRECT, FASTMCP_PROXY)


def rendered(page: str, runs: Sequence[Run], why: Sequence[Reason]) -> str:
    """Return the page with its generated parts written anew."""
    parts = {"conditions": _conditions(), "figures": _figures(runs), "reasons": _reasons(runs, why)}
    for name, lines in parts.items():
        begin, end = BEGIN.format(name), END.format(name)
        before, rest = page.split(begin)
        page = f"{before}{begin}\n\n" + "\n".join(lines) + f"\n\n{end}{rest.split(end)[1]}"
    return page


def _conditions() -> Iterator[str]:
    yield "| way | server over | `toolcrib` in the config | options of `toolcrib serve` |"
    yield "|---|---|---|---|"
    for way in WAYS:
        options = " ".join(("--transport http", *way.options))
        settings = f"`{json.dumps(way.toolcrib)}`" if way.toolcrib else "nothing"
        yield f"| {way.name} | {'HTTP' if way.over_http else 'stdio'} | {settings} | `{options}` |"


def _figures(runs: Sequence[Run]) -> Iterator[str]:
    by_key = {run.key: run for run in runs}
    for number, server in enumerate(FIXTURES):
        ways = [DIRECT, *(way.name for way in WAYS), FASTMCP_PROXY]
        ways = [way for way in ways if any(run.server == server.name and run.way == way for run in runs)]
        yield from ([] if number == 0 else [""])
        yield f"**{server.name}**: {server.about}."
        yield ""
        yield f"| suite | {' | '.join(ways)} |"
        yield "|---" * (1 + len(ways)) + "|"
        for suite in SUITES:
            found = [by_key.get((server.name, suite.name, way)) for way in ways]
            yield f"| {suite.name} | {' | '.join(f'{run.passed}/{run.of}' if run else '' for run in found)} |"
        yield ""
        yield f"Recorded {' and '.join(sorted({run.when for run in runs if run.server == server.name}))}."


def _reasons(runs: Sequence[Run], why: Sequence[Reason]) -> Iterator[str]:
    yield "| scenario | checks | server | suite | way | why |"
    yield "|---|---|---|---|---|---|"
    for reason in why:
        about = {(run, lost) for run in runs if is_explained(run) for lost in run.lost if reason.explains(run, lost)}
        checks = sorted({lost.partition(": ")[2] for _, lost in about})
        shown = f"{len(checks)} checks" if len(checks) > 4 else ", ".join(f"`{check}`" for check in checks)
        where = (", ".join(names) or ANY for names in (reason.servers, reason.suites, reason.ways))
        yield f"| `{reason.scenario}` | {shown} | {' | '.join(where)} | {reason.why} |"
