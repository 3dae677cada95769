"""How well the right tools are found among thousands of foreign ones: toolcrib's search beside others.

Each path is a file as of retrieval.py; the set that is kept with the tests where none is given. Ours is asked by both
sources of postings: in memory, and in the file by FTS5.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from measuring import say
from retrieval_baselines import baselines
from retrieval_data import OWN_TOOLS, Dataset, load
from retrieval_foreign import foreign
from retrieval_metrics import Metrics, compared, evaluate
from retrieval_world import SECTION, opened

OURS, STORED = "toolcrib, in memory", "toolcrib, FTS5"
COMPARED = ("R@5", "nDCG@10")
OTHERS = ("FTS5, OR", "bm25s", "FastMCP")
SAME_WITHIN = 0.005


def with_foreign(dataset: Dataset, number: int, seed: int) -> Dataset:
    """Return the set with so many foreign tools around it."""
    documents = (*dataset.documents, *foreign(dataset.documents, number, seed))
    return replace(dataset, name=f"{dataset.name} + {number:,}", documents=documents)


def measured(dataset: Dataset) -> list[Metrics]:
    """Return the figures of ours by both sources, and of the others that are installed here."""
    found: list[Metrics] = []
    for name, most in ((OURS, 10_000_000), (STORED, 0)):
        limits = {**SECTION["limits"], "ranked_in_memory": most}
        with opened(dataset, {"limits": limits}) as ours:
            found.append(evaluate(ours.search, dataset, name, ours.index_s))
    with baselines(dataset) as others:
        found += [evaluate(each.search, dataset, each.name, each.index_s) for each in others if each.name in OTHERS]
    return found


def show(found: Sequence[Metrics]) -> bool:
    """Print the figures of one set; return whether ours is not below any other, and the same by both sources."""
    ours, stored, *others = found
    print(f"\n{ours.dataset}, {ours.count} queries\n\n| | R@5 | nDCG@10 | against ours |\n|---|---|---|---|")
    for each in found:
        against = (
            ", ".join(f"{name} {compared(ours, each, name).verdict}" for name in COMPARED) if each in others else ""
        )
        print(f"| {each.system} | {each.figures['R@5']:.3f} | {each.figures['nDCG@10']:.3f} | {against} |")
    same = abs(ours.figures["nDCG@10"] - stored.figures["nDCG@10"]) <= SAME_WITHIN
    ahead = all(ours.figures[name] >= each.figures[name] for name in COMPARED for each in others)
    print(f"\nnot below any other: {'yes' if ahead else 'NO'}; the same by both sources: {'yes' if same else 'NO'}")
    return same and ahead


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, help="sets (default: the one in tests/retrieval)")
    parser.add_argument("--foreign", type=int, default=7000, metavar="N", help="foreign tools (default: 7000)")
    parser.add_argument("--seed", type=int, default=1, help="of the foreign tools (default: 1)")
    parser.add_argument("--limit", type=int, metavar="N", help="queries of each set (default: all)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    holds = True
    for path in given.paths or [OWN_TOOLS]:
        dataset = with_foreign(load(path).first(given.limit), given.foreign, given.seed)
        say(f"{dataset.name}: {len(dataset.documents):,} tools ...")
        found = measured(dataset)
        if given.json:
            print(json.dumps([{"set": one.dataset, "system": one.system, **one.figures} for one in found]))
        else:
            holds = show(found) and holds
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
