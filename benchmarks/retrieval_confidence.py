"""What the confidence of an answer is worth: how often the first hit is right by how sure the answer says it is.

Asked are the requests of each set, and those that nothing serves: of the repository's own set, services that are not
there and actions that a service which is there does not have; of a catalog of captured servers, if there is one, more
kinds. Each set is split by a hash of the request; with `--against DIR` another checkout is asked the same in the same
run.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import catalog
from measuring import say
from retrieval_beside import Row, run
from retrieval_data import OWN_TOOLS, UNANSWERABLE, Query, load, unanswerable
from retrieval_halves import HALVES
from retrieval_metrics import LEVELS, Answer, Search, ask, judged, mean
from retrieval_world import opened, opened_tools

ABOUT_SOFTWARE = UNANSWERABLE.with_name("unanswerable_software.json")
ABOUT_CATALOG = UNANSWERABLE.with_name("unanswerable_catalog.json")
ANSWERABLE, NOT_SOFTWARE = "answerable", "not software"
OWN, CAPTURED = "own tools", "captured servers"
STEPS = 8
WORDS = tuple(reversed(LEVELS))
"""The words that an answer says, the surest first."""
POINTS = (0.95, 0.93, 0.92, 0.91, 0.9, 0.88, 0.85)
"""Precisions of which the curve tells the recall."""
"""One request: its set, half and kind, whether the first hit and any hit is right, the label and the evidence."""


def asked(paths: Sequence[Path]) -> Iterator[Row]:
    """Yield what every request gave; the kind of one that a document serves is ``answerable``."""
    for path in paths:
        whole = load(path)
        say(f"{whole.name} ...")
        with opened(whole) as ours:
            for query in whole.queries:
                if query.gold:
                    kind = ANSWERABLE if whole.folder is None else "skills"
                    yield of(whole.name, kind, query, ours.search, any_counts=whole.any_counts)
            if path == OWN_TOOLS:
                yield from unserved(OWN, ABOUT_SOFTWARE, ours.search)
    lists = catalog.captured(catalog.CATALOG) if OWN_TOOLS in paths else {}
    if lists:
        say(f"{CAPTURED} ...")
        with opened_tools(lists) as ours:
            yield from unserved(CAPTURED, ABOUT_CATALOG, ours.search)


def unserved(name: str, file: Path, search: Search) -> Iterator[Row]:
    """Yield what the requests gave that nothing serves, by kind."""
    kinds: Mapping[str, Sequence[str]] = json.loads(file.read_text(encoding="utf-8"))
    for kind, texts in {**kinds, NOT_SOFTWARE: unanswerable()}.items():
        if kind != "about":
            yield from (of(name, kind, Query(text, {}), search, any_counts=False) for text in texts)


def of(name: str, kind: str, query: Query, search: Search, *, any_counts: bool) -> Row:
    answer: Answer = ask(search, query.text)
    outcome = judged(query, answer, any_counts=any_counts) if query.gold else None
    return {
        "set": name,
        "half": next(half for half in HALVES if query.is_in(half)),
        "kind": kind,
        "first": outcome is not None and outcome.is_first_right,
        "found": outcome is not None and outcome.reciprocal_rank > 0,
        "label": answer.confidence,
        "evidence": answer.evidence or 0.0,
        "signals": answer.signals,
        "lines": query.text.count("\n"),
    }


# -- showing -------------------------------------------------------------------------------------


def show(rows: Sequence[Row], others: Sequence[Row]) -> None:
    systems = {"here": rows, **({"there": others} if others else {})}
    show_words(systems)
    show_unserved(systems)
    show_mixed(systems)
    for half in HALVES:
        show_curve({system: [row for row in every if row["half"] == half] for system, every in systems.items()}, half)
    show_reliability(rows)


def show_words(systems: Mapping[str, Sequence[Row]]) -> None:
    """Print of each word how often it is said and how often the first hit is then right; and how many are called right.

    The last rows are all requests of the sets of tools that are not the repository's own, each counted once.
    """
    heads = " | ".join(f"{word}: said, first right" for word in WORDS)
    print(f"\n| set | half | | {heads} | high, of right first |\n|---|---|---|{'---|' * len(WORDS)}---|")
    served = {
        system: [row for row in every if row["kind"] in {ANSWERABLE, "skills"}] for system, every in systems.items()
    }
    names = [*dict.fromkeys(row["set"] for row in served["here"]), FOREIGN]
    for name in names:
        for half in HALVES:
            for system, every in served.items():
                chosen = [row for row in every if row["half"] == half and is_of(row, name)]
                cells = (
                    f"{said(chosen, word)}, {percent(row['first'] for row in chosen if row['label'] == word)}"
                    for word in WORDS
                )
                recall = percent(row["label"] == "high" for row in chosen if row["first"])
                print(f"| {name} | {half} | {system} | {' | '.join(cells)} | {recall} |")


FOREIGN = "foreign tools"


def is_of(row: Row, name: str) -> bool:
    """Return whether a request is of a set, or of any set of tools but the repository's own."""
    return row["set"] == name or (name == FOREIGN and row["kind"] == ANSWERABLE and row["set"] != OWN)


def show_unserved(systems: Mapping[str, Sequence[Row]]) -> None:
    print(f"\n| requests that nothing serves | half | | number | {' | '.join(WORDS)} |\n|---|---|---|---|---|---|---|")
    missing = {
        system: [row for row in every if row["kind"] not in {ANSWERABLE, "skills"}] for system, every in systems.items()
    }
    for name, kind in dict.fromkeys((row["set"], row["kind"]) for row in missing["here"]):
        for half in HALVES:
            for system, every in missing.items():
                chosen = [row for row in every if (row["set"], row["kind"], row["half"]) == (name, kind, half)]
                cells = " | ".join(said(chosen, word) for word in WORDS)
                print(f"| {name}: {kind} | {half} | {system} | {len(chosen)} | {cells} |")


def show_mixed(systems: Mapping[str, Sequence[Row]]) -> None:
    """Print how right the labels are where requests about software that nothing serves are among the others."""
    print("\n| own set with all that is about software | half | first right, of high | any right, of low | of none |")
    print("|---|---|---|---|---|")
    for half in HALVES:
        for system, every in systems.items():
            own = [row for row in every if row["half"] == half and row["kind"] != NOT_SOFTWARE]
            own = [row for row in own if row["set"] == OWN]
            cells = [
                percent(row["first" if label == "high" else "found"] for row in own if row["label"] == label)
                for label in WORDS
            ]
            print(f"| {system} | {half} | {' | '.join(cells)} |")


def show_curve(systems: Mapping[str, Sequence[Row]], half: str) -> None:
    """Print how many of the right first hits the evidence finds at what precision, over all foreign sets of tools."""
    print(f"\n| of {FOREIGN}, {half} | {' | '.join(f'precision {point}' for point in POINTS)} |")
    print(f"|---|{'---|' * len(POINTS)}")
    for system, every in systems.items():
        foreign = [row for row in every if is_of(row, FOREIGN)]
        cells = (f"{recall_at(foreign, point):.0%}" for point in POINTS)
        print(f"| right first hits called right, {system} | {' | '.join(cells)} |")


def recall_at(rows: Sequence[Row], precision: float) -> float:
    """Return the largest share of right first hits above a point from which so many are right."""
    best = right = 0
    for number, row in enumerate(sorted(rows, key=lambda row: -cast(float, row["evidence"])), 1):
        right += row["first"]
        if right >= precision * number:
            best = right
    return best / max(sum(row["first"] for row in rows), 1)


def show_reliability(rows: Sequence[Row]) -> None:
    """Print how often the first hit is right, and any, by the number behind the label: all that is about software."""
    print("\n| evidence, own set | half | requests | first right | any right |\n|---|---|---|---|---|")
    for half in HALVES:
        own = [row for row in rows if (row["set"], row["half"]) == (OWN, half) and row["kind"] != NOT_SOFTWARE]
        ordered = sorted(own, key=lambda row: cast(float, row["evidence"]))
        for step in range(STEPS if own else 0):
            part = ordered[step * len(ordered) // STEPS : (step + 1) * len(ordered) // STEPS]
            span = f"{part[0]['evidence']:.2f} to {part[-1]['evidence']:.2f}"
            cells = f"{percent(row['first'] for row in part)} | {percent(row['found'] for row in part)}"
            print(f"| {span} | {half} | {len(part)} | {cells} |")


def said(rows: Sequence[Row], label: str) -> str:
    return percent(row["label"] == label for row in rows)


def percent(values: Iterable[bool]) -> str:
    every = [float(value) for value in values]
    return f"{mean(every):.0%}" if every else "-"


def main() -> None:
    run(__doc__, asked, show)


if __name__ == "__main__":
    main()
