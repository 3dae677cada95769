"""How well requests in other languages find what is described in English, beside a search without a dictionary.

`--split` reports the halves of the requests apart: `tune` was looked at while the dictionary was made, `test` after.
`--show` prints each request in English, as far as the search understands it, and at which place its answer is.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from unittest.mock import patch

from retrieval_data import FOREIGN_SKILLS, FOREIGN_TOOLS, Dataset, load
from retrieval_groups import COMPARED, Figures, figures
from retrieval_metrics import Outcome, evaluate
from retrieval_world import opened
from toolcrib.search.query import Knows
from toolcrib.search.translation import Translations

SETS = {"tools": FOREIGN_TOOLS, "skills": FOREIGN_SKILLS}
ALL = "all"
HALVES = ("all", "tune", "test")


def outcomes(dataset: Dataset) -> Sequence[Outcome]:
    with opened(dataset) as ours:
        return evaluate(ours.search, dataset).outcomes


def by_language(found: Sequence[Outcome]) -> Figures:
    """Return the figures of all requests and of those in each language."""
    languages = dict.fromkeys(need for outcome in found for need in outcome.query.needs)
    groups = {language: [each for each in found if language in each.query.needs] for language in languages}
    return {group: figures(each) for group, each in {ALL: found, **groups}.items()}


def untranslated() -> AbstractContextManager[object]:
    """Let searches take requests as they are written."""
    return patch.object(Translations, "in_english", lambda _self, request, _knows: request)


def shown() -> AbstractContextManager[object]:
    """Print what becomes of each request."""
    in_english = Translations.in_english

    def told(self: Translations, request: str, knows: Knows) -> str:
        english = in_english(self, request, knows)
        print(f"{request}  =>  {' '.join(english.split())}", file=sys.stderr)
        return english

    return patch.object(Translations, "in_english", told)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", nargs="+", choices=HALVES, default=[*HALVES], help="halves of the requests")
    parser.add_argument("--show", action="store_true", help="print each request in English")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    given = parser.parse_args()
    report: dict[str, dict[str, Figures]] = {}
    for half in given.split:
        for name, path in SETS.items():
            dataset = load(path).half(half)
            with untranslated():
                before = by_language(outcomes(dataset))
            with shown() if given.show else nullcontext():
                found = outcomes(dataset)
            report[f"{name}, {half}"] = {"without": before, "with": by_language(found)}
    if given.json:
        print(json.dumps(report))
        return
    for name, both in report.items():
        columns = [*(f"{each}, without" for each in COMPARED), *COMPARED]
        print(f"\n| {name} | requests | {' | '.join(columns)} |\n|---|---|{'---|' * len(columns)}")
        for group, after in both["with"].items():
            cells = [f"{found[each]:.3f}" for found in (both["without"][group], after) for each in COMPARED]
            print(f"| {group} | {after['requests']} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
