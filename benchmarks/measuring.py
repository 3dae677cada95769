"""What all benchmarks share: options, repeats, percentiles, and a table of figures beside their baselines.

Knows numbers and how they are shown; never knows what is measured.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Target:
    """The most that a figure should be: itself, its ratio to the baseline, or what it has over the baseline.

    Where more is better (``is_least``), the least.
    """

    bound: float
    of: Literal["figure", "ratio", "difference"] = "figure"
    is_least: bool = False

    def __str__(self) -> str:
        sign = "≥" if self.is_least else "≤"
        return {"figure": "{} {:g}", "ratio": "ratio {} {:g}", "difference": "{} +{:g}"}[self.of].format(
            sign, self.bound
        )


@dataclass(frozen=True, slots=True)
class Finding:
    """One figure of toolcrib's beside its baseline, both from this run."""

    what: str
    unit: str
    toolcrib: float
    baseline: float | None = None
    against: str = ""
    target: Target | None = None

    @property
    def ratio(self) -> float | None:
        """Toolcrib's figure as a multiple of the baseline."""
        return self.toolcrib / self.baseline if self.baseline else None

    @property
    def holds(self) -> bool | None:
        """Whether the target is met; None where there is none."""
        if self.target is None:
            return None
        reached = {
            "figure": self.toolcrib,
            "ratio": self.ratio,
            "difference": self.toolcrib - (self.baseline or 0),
        }[self.target.of]
        if reached is None:
            return False
        return reached >= self.target.bound if self.target.is_least else reached <= self.target.bound


def options(description: str | None, *, repeat: int) -> argparse.ArgumentParser:
    """Return a command line with the options that every benchmark has."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=repeat, metavar="N", help=f"rounds (default: {repeat})")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser


def show(findings: Sequence[Finding], *notes: str, as_json: bool) -> None:
    """Print the findings as a Markdown table or as JSON."""
    machine = f"Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} CPUs"
    if as_json:
        rows = [{**asdict(one), "ratio": one.ratio, "holds": one.holds} for one in findings]
        print(json.dumps({"machine": machine, "findings": rows, "notes": notes}))
        return
    print("| what | toolcrib | baseline | ratio | target | holds |\n|---|---|---|---|---|---|")
    for one in findings:
        baseline = "" if one.baseline is None else f"{_figure(one.baseline, one.unit)} {one.against}"
        ratio = "" if one.ratio is None else f"{one.ratio:.2g}" if one.ratio < 0.1 else f"{one.ratio:.2f}"
        holds = {True: "yes", False: "**no**", None: ""}[one.holds]
        figure = _figure(one.toolcrib, one.unit)
        print(f"| {one.what} | {figure} | {baseline} | {ratio} | {one.target or ''} | {holds} |")
    print("\n" + "\n".join((*notes, machine)))


def _figure(value: float, unit: str) -> str:
    shown = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{shown} {unit}"


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which ``share`` (0 to 1) of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def median(values: Sequence[float]) -> float:
    """Return the middle value."""
    return statistics.median(values)


def interleaved(rounds: int, cases: Mapping[str, Callable[[], T]]) -> dict[str, list[T]]:
    """Run each case once a round, every other round backwards, so that a busy moment harms all alike."""
    results: dict[str, list[T]] = {name: [] for name in cases}
    for number in range(rounds):
        for name in _in_turn(cases, number):
            results[name].append(cases[name]())
    return results


async def interleaved_async(rounds: int, cases: Mapping[str, Callable[[], Awaitable[T]]]) -> dict[str, list[T]]:
    """Do the same with cases that are awaited."""
    results: dict[str, list[T]] = {name: [] for name in cases}
    for number in range(rounds):
        for name in _in_turn(cases, number):
            results[name].append(await cases[name]())
    return results


def _in_turn(names: Mapping[str, object], number: int) -> list[str]:
    return list(names) if number % 2 == 0 else list(names)[::-1]


def say(text: str) -> None:
    """Tell a person who waits what is going on."""
    print(text, file=sys.stderr, flush=True)


def any_of(terms: Sequence[str]) -> str:
    """Return an FTS5 MATCH expression for rows with any of these words of letters and digits: the plain baseline."""
    return " OR ".join(f'"{term}"' for term in terms)


def day_and_commit() -> str:
    """Return the day, and the commit of this repository if there is one: what a recorded run is of."""
    commit = subprocess.run(
        ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    return f"{datetime.now(UTC):%Y-%m-%d}" + (f" at `{commit}`" if commit else "")
