"""How well the requests of the repository's own set are answered, by what they need; `--record` keeps the figures.

The quick suite compares what it measures with what is recorded. Record anew after a change that is meant to rank
differently, in a commit that says why. Only words count, so that the figures do not depend on what is installed.
"""

import argparse
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from retrieval_data import OWN, OWN_SKILLS, OWN_TOOLS, Dataset, load
from retrieval_metrics import Outcome, evaluate, mean, series
from retrieval_world import WORDS_ALONE, opened

SETS = {"tools": OWN_TOOLS, "skills": OWN_SKILLS}
RECORDED = OWN / "figures.json"
COMPARED = ("R@5", "nDCG@10")
ALL, MISSPELT = "all", "all, half of the words misspelt"
_MISSPELT_SHARE, _SEED = 0.5, 1

Figures = Mapping[str, Mapping[str, float]]
"""For each group of requests how many they are, and the figures that count, rounded to four digits."""


def measured(name: str) -> Figures:
    """Return the figures of all requests of one of the sets, of all with misspellings, and of those with each need."""
    return grouped(load(SETS[name]))


def grouped(dataset: Dataset) -> Figures:
    with opened(dataset, WORDS_ALONE) as ours:
        plain = evaluate(ours.search, dataset).outcomes
        misspelt = evaluate(ours.search, dataset.misspelt(_MISSPELT_SHARE, _SEED)).outcomes
    needs = sorted({need for outcome in plain for need in outcome.query.needs})
    groups = {ALL: plain, MISSPELT: misspelt}
    groups |= {need: [outcome for outcome in plain if need in outcome.query.needs] for need in needs}
    return {group: figures(outcomes) for group, outcomes in groups.items()}


def figures(outcomes: Iterable[Outcome]) -> Mapping[str, float]:
    every = list(outcomes)
    return {"requests": len(every), **{figure: round(mean(series(every, figure)), 4) for figure in COMPARED}}


def recorded(path: Path = RECORDED) -> Mapping[str, Figures]:
    return json.loads(path.read_text(encoding="utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help=f"write {RECORDED.name}, beside the set")
    given = parser.parse_args()
    every = {name: measured(name) for name in SETS}
    for name, groups in every.items():
        print(f"\n| {name} | requests | {' | '.join(COMPARED)} |\n|---|---|{'---|' * len(COMPARED)}")
        for group, found in groups.items():
            print(f"| {group} | {found['requests']} | {' | '.join(f'{found[each]:.3f}' for each in COMPARED)} |")
    if given.record:
        RECORDED.write_text(f"{json.dumps(every, indent=2)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
