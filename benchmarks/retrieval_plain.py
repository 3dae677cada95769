"""How well requests in a person's plain words find their tool among those of many real servers.

People name a purpose ("give the customer the money back"), tools the mechanism that serves it. All recorded servers
stand in one catalog; where there are none, nothing is measured. A request counts as answered within a depth if any of
its right tools is among so many first hits.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import catalog
from measuring import say
from retrieval_baselines import baselines
from retrieval_beside import Row, search_of
from retrieval_data import PLAIN, Dataset, over_recorded
from retrieval_metrics import Metrics, Outcome, evaluate
from retrieval_world import opened

OURS = "toolcrib"
DEPTHS = {"first": 1, "in three": 3, "in five": 5}
BESIDE = {"FTS5, OR", "FastMCP", "bm25s"}
SHOWN_WRONG = 5


def measured(dataset: Dataset, against: Path | None, *, alone: bool) -> Iterator[Metrics]:
    """Yield the figures of toolcrib, of that of another checkout, and unless ``alone`` of other ways to search."""
    say(f"{dataset.name}: {len(dataset.documents):,} tools, {len(dataset.queries):,} requests ...")
    with opened(dataset) as ours:
        if ours.missing:
            say(f"{ours.missing} tools were refused or are hidden from models, so toolcrib never finds them")
        yield evaluate(ours.search, dataset, OURS)
    if against:
        yield evaluate(search_of(against, dataset), dataset, f"{OURS} of {against}")
    if not alone:
        with baselines(dataset) as others:
            yield from (evaluate(one.search, dataset, one.name) for one in others if one.name in BESIDE)


def row(found: Metrics) -> Row:
    answered = {name: sum(_is_within(each, depth) for each in found.outcomes) for name, depth in DEPTHS.items()}
    return {"system": found.system, "requests": found.count, **answered, "nDCG@10": found.figures["nDCG@10"]}


def _is_within(outcome: Outcome, depth: int) -> bool:
    return any(outcome.query.gold.get(one) for one in outcome.answer.ids[:depth])


def show(rows: Sequence[Row]) -> None:
    print(f"\n| {rows[0]['requests']} requests | {' | '.join(DEPTHS)} | nDCG@10 |\n|---|{'---|' * len(DEPTHS)}---|")
    for each in rows:
        counts = [f"{each[name]} ({each[name] / each['requests']:.0%})" for name in DEPTHS]
        print(f"| {each['system']} | {' | '.join(counts)} | {each['nDCG@10']:.3f} |")


def show_wrong(outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        if not outcome.is_first_right:
            print(f"\n{outcome.query.text!r}\n  right: {', '.join(outcome.query.gold)}")
            print(f"  found: {', '.join(outcome.answer.ids[:SHOWN_WRONG]) or 'nothing'}")


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--requests", type=Path, default=PLAIN, metavar="FILE", help="a list of {text, right} (default: our own)"
    )
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout, shown beside")
    parser.add_argument("--alone", action="store_true", help="without the baselines")
    parser.add_argument("--wrong", action="store_true", help="also list the requests whose first hit is wrong")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    catalog.add_option(parser)
    return parser


def main() -> None:
    given = options().parse_args()
    if not any(given.catalog.glob("*.json")):
        say(f"{given.catalog} holds no recorded servers: nothing is measured")
        if given.json:
            print("[]")
        return
    dataset = over_recorded(given.requests, given.catalog, catalog.server_key)
    found = list(measured(dataset, given.against, alone=given.alone))
    rows = [row(each) for each in found]
    if given.json:
        json.dump(rows, sys.stdout)
        return
    show(rows)
    if given.wrong:
        show_wrong(found[0].outcomes)


if __name__ == "__main__":
    main()
