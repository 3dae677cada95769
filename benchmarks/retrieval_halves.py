"""What a change of the ranking gives on the half of the requests that it was tuned on, and on the half that it was not.

Every set is split by a hash of the request, the same way for ever. With `--against DIR` the same requests are asked of
another checkout in the same run, and its figures stand beside.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import get_args

from measuring import say
from retrieval_beside import Row, run
from retrieval_data import Half, load
from retrieval_metrics import Metrics, evaluate, mean
from retrieval_world import opened

HALVES = tuple(half for half in get_args(Half) if half != "all")
SHARES = (0.0, 0.5)
FIGURES = {"R@1": "first right", "R@5": "R@5", "nDCG@10": "nDCG@10"}
MEANT = "nDCG@10"


def measured(paths: Sequence[Path]) -> Iterator[Row]:
    """Yield the figures of each half of each set, as it stands and with half of its longer words misspelt."""
    for path in paths:
        whole = load(path)
        say(f"{whole.name} ...")
        with opened(whole) as ours:
            for share in SHARES:
                for half in HALVES:
                    found = evaluate(ours.search, whole.half(half).misspelt(share))
                    yield row(whole.name, half, found, is_misspelt=share > 0, is_of_tools=whole.folder is None)


def row(name: str, half: str, found: Metrics, *, is_misspelt: bool, is_of_tools: bool) -> Row:
    first = mean([outcome.is_first_right for outcome in found.outcomes])
    return {
        "set": name,
        "half": half,
        "misspelt": is_misspelt,
        "tools": is_of_tools,
        "requests": found.count,
        **{figure: found.figures[figure] for figure in FIGURES if figure != "R@1"},
        "R@1": first,
        "p95 ms": found.ms["p95"],
    }


def show(rows: Sequence[Row], others: Sequence[Row]) -> None:
    before = {key(each): each for each in others}
    for is_misspelt in (False, True):
        print(f"\n## {'half of the longer words misspelt' if is_misspelt else 'as they stand'}\n")
        print(f"| set | half | requests | {' | '.join(FIGURES.values())} | p95 ms |\n|---|---|---|---|---|---|---|")
        for each in rows:
            if each["misspelt"] == is_misspelt:
                cells = [cell(each, before.get(key(each)), figure) for figure in FIGURES]
                print(f"| {each['set']} | {each['half']} | {each['requests']} | {' | '.join(cells)} |", end="")
                print(f" {each['p95 ms']:.2f} |")
        for half in HALVES:
            print(f"\nmean {MEANT} of the sets of tools, {half}: {means(rows, before, half, is_misspelt=is_misspelt)}")


def key(row: Row) -> tuple[str, str, bool]:
    return row["set"], row["half"], row["misspelt"]


def cell(row: Row, before: Row | None, figure: str) -> str:
    value = f"{row[figure]:.3f}"
    return value if before is None else f"{before[figure]:.3f} → {value} ({row[figure] - before[figure]:+.3f})"


def means(rows: Sequence[Row], before: Mapping[tuple[str, str, bool], Row], half: str, *, is_misspelt: bool) -> str:
    chosen = [each for each in rows if (each["half"], each["misspelt"]) == (half, is_misspelt) and each["tools"]]
    now = mean([each[MEANT] for each in chosen])
    if not before:
        return f"{now:.3f}"
    there = mean([before[key(each)][MEANT] for each in chosen])
    return f"{there:.3f} → {now:.3f} ({now - there:+.3f})"


def main() -> None:
    run(__doc__, measured, show)


if __name__ == "__main__":
    main()
