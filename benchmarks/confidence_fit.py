"""The coefficients of the confidence: a logistic regression on whether the first hit is right, and how well it holds.

Fitted to the tuning halves of the sets of tools, each of the same weight, and to requests that nothing serves. The
curve is that of each set by a fit to the others. Needs numpy.
"""

import argparse
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from retrieval import default_paths
from retrieval_beside import Row
from retrieval_confidence import ANSWERABLE, CAPTURED, FOREIGN, OWN, POINTS, asked, is_of, recall_at

SIGNALS: Mapping[str, Callable[[Mapping[str, float]], float]] = {
    "level": lambda signals: signals["level"],
    "coverage": lambda signals: signals["coverage"],
    "gap": lambda signals: min(signals["gap"], 0.5),
    "length": lambda signals: math.log(min(max(signals["length"], 1), 24)),
}
UNSERVED_WEIGHT = 1.0
"""The weight of the requests that nothing serves, where a set weighs 1."""
RIDGE, EPSILON = 1e-3, 1e-9
STEPS = 30

Array = Any


def inputs(rows: Sequence[Row]) -> Array:
    return np.array([[signal(row["signals"]) for signal in SIGNALS.values()] + [1.0] for row in rows])


def fitted(rows: Sequence[Row]) -> Array:
    """Return the coefficients and the base, by Newton's method on the weighted likelihood."""
    given, right = inputs(rows), np.array([float(row["first"]) for row in rows])
    weights = weighted(rows)
    spread = np.append(given[:, :-1].std(axis=0), 0.0)
    # The same for all signals, whatever their unit; a little more for one that is always the same.
    ridge = RIDGE * np.diag(spread**2) + EPSILON * np.eye(len(spread))
    found = np.zeros(given.shape[1])
    for _ in range(STEPS):
        likely = likelihood(given, found)
        slope = given.T @ (weights * (likely - right)) + ridge @ found
        bend = (given.T * (weights * likely * (1 - likely))) @ given + ridge
        found -= np.linalg.solve(bend, slope)
    return found


def likelihood(given: Array, coefficients: Array) -> Array:
    return 1 / (1 + np.exp(-given @ coefficients))


def weighted(rows: Sequence[Row]) -> Array:
    """Return weights that make sets equal, however many requests they have."""
    groups = [(row["set"], row["kind"] == ANSWERABLE) for row in rows]
    sizes = Counter(groups)
    weights = np.array([(1.0 if group[1] else UNSERVED_WEIGHT) / sizes[group] for group in groups])
    return weights / weights.sum()


def report(rows: Sequence[Row]) -> dict[str, Any]:
    usable = [row for row in rows if row["signals"] and row["signals"]["level"] and not row["lines"]]
    tuned = [row for row in usable if row["half"] == "tune"]
    learnt = [row for row in tuned if is_of(row, FOREIGN) or row["set"] == CAPTURED]
    sets = list(dict.fromkeys(row["set"] for row in learnt if row["kind"] == ANSWERABLE))
    left_out: list[dict[str, Any]] = []
    without: dict[str, list[float]] = {}
    for name in sets if len(sets) > 1 else ():
        coefficients = fitted([row for row in learnt if row["set"] != name])
        without[name] = [round(float(each), 2) for each in coefficients]
        asked_there = [row for row in tuned if row["set"] == name]
        likely = likelihood(inputs(asked_there), coefficients)
        left_out += [{**row, "evidence": float(each)} for row, each in zip(asked_there, likely, strict=True)]
    return {
        "coefficients": [round(float(each), 2) for each in fitted(learnt)],
        "without": without,
        "recall by precision, each set by the others": curve(left_out),
        "recall by precision, as it is": curve([row for row in tuned if row["set"] in sets]),
    }


def curve(rows: Sequence[Row]) -> dict[float, float]:
    return {point: round(recall_at(rows, point), 3) for point in POINTS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", type=Path, nargs="*", metavar="PATH", help="sets, as retrieval.py takes them")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    given = parser.parse_args()
    found = report([row for row in asked(given.paths or default_paths()) if row["set"] != OWN])
    if given.json:
        print(json.dumps(found))
        return
    print(f"\n| | {' | '.join([*SIGNALS, 'base'])} |\n|---|{'---|' * (len(SIGNALS) + 1)}")
    for name, coefficients in {"all": found["coefficients"], **found["without"]}.items():
        print(f"| {name if name == 'all' else f'without {name}'} | {' | '.join(map(str, coefficients))} |")
    for title in list(found)[2:]:
        print(f"\n{title}: {', '.join(f'{recall:.1%} at {point}' for point, recall in found[title].items())}")


if __name__ == "__main__":
    main()
