"""What the confidence of an answer is worth: how often the first hit is right by how sure the answer says it is.

Asked are the requests of each set of tools, and of the repository's own set also those about software that nothing
there serves: services that are not there, and actions that a service which is there does not have. Each set is split by
a hash of the request; with `--against DIR` another checkout is asked the same in the same run.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from measuring import say
from retrieval_beside import Row, run
from retrieval_data import OWN_TOOLS, UNANSWERABLE, Half, Query, load, unanswerable
from retrieval_halves import HALVES
from retrieval_metrics import LEVELS, Answer, Search, ask, judged, mean
from retrieval_world import opened

ABOUT_SOFTWARE = UNANSWERABLE.with_name("unanswerable_software.json")
KINDS = ("service", "action")
STEPS = 8
"""One request: its set, half and kind, whether the first hit and any hit is right, the label and the evidence."""


def asked(paths: Sequence[Path]) -> Iterator[Row]:
    """Yield what every request gave; the kind of one that a tool serves is ``answerable``."""
    for path in paths:
        whole = load(path)
        if whole.folder is not None:
            continue
        say(f"{whole.name} ...")
        with opened(whole) as ours:
            for half in HALVES:
                yield from (of(whole.name, half, "answerable", each, ours.search) for each in whole.half(half).queries)
                for kind, texts in unserved(half).items() if path == OWN_TOOLS else ():
                    yield from (of(whole.name, half, kind, Query(text, {}), ours.search) for text in texts)


def unserved(half: Half) -> Mapping[str, Sequence[str]]:
    """Return the requests of one half that no tool of the repository's own set serves, by kind."""
    software = json.loads(ABOUT_SOFTWARE.read_text(encoding="utf-8"))
    every = {**{kind: software[kind] for kind in KINDS}, "not software": unanswerable()}
    return {kind: list(in_half(texts, half)) for kind, texts in every.items()}


def in_half(texts: Iterable[str], half: Half) -> Iterator[str]:
    return (text for text in texts if Query(text, {}).is_in(half))


def of(name: str, half: str, kind: str, query: Query, search: Search) -> Row:
    answer: Answer = ask(search, query.text)
    outcome = judged(query, answer, any_counts=False) if query.gold else None
    return {
        "set": name,
        "half": half,
        "kind": kind,
        "first": outcome is not None and outcome.is_first_right,
        "found": outcome is not None and outcome.reciprocal_rank > 0,
        "label": answer.confidence,
        "evidence": answer.evidence or 0.0,
    }


def show(rows: Sequence[Row], others: Sequence[Row]) -> None:
    systems = {"here": rows, **({"there": others} if others else {})}
    print("\n| set | half | | said high | first right, of high | said none | any right, of none |")
    print("|---|---|---|---|---|---|---|")
    for name in dict.fromkeys(cast(str, row["set"]) for row in rows):
        for half in HALVES:
            for system, every in systems.items():
                chosen = [row for row in every if (row["set"], row["half"]) == (name, half)]
                print(f"| {name} | {half} | {system} | {' | '.join(labels(chosen))} |")
    print("\n| own set: requests that nothing serves | half | | number | said high | said none |")
    print("|---|---|---|---|---|---|")
    for kind in (*KINDS, "not software"):
        for half in HALVES:
            for system, every in systems.items():
                chosen = [row for row in every if (row["kind"], row["half"]) == (kind, half)]
                print(
                    f"| {kind} | {half} | {system} | {len(chosen)} | {said(chosen, 'high')} | {said(chosen, 'none')} |"
                )
    show_mixed(systems)
    show_curve(rows)


def labels(rows: Sequence[Row]) -> list[str]:
    """Return the cells of one set: requests that tools of it serve."""
    answerable = [row for row in rows if row["kind"] == "answerable"]
    high, none = ([row for row in answerable if row["label"] == label] for label in ("high", "none"))
    return [said(answerable, "high"), percent(row["first"] for row in high), said(answerable, "none"),
            percent(row["found"] for row in none)]  # fmt: skip


def show_mixed(systems: Mapping[str, Sequence[Row]]) -> None:
    """Print how right the labels are where requests about software that nothing serves are among the others."""
    print("\n| own set with all that is about software | half | first right, of high | any right, of low | of none |")
    print("|---|---|---|---|---|")
    for half in HALVES:
        for system, every in systems.items():
            own = [row for row in every if row["half"] == half and row["kind"] != "not software"]
            own = [row for row in own if row["set"] == "own tools"]
            cells = [
                percent(row["first" if label == "high" else "found"] for row in own if row["label"] == label)
                for label in reversed(LEVELS)
            ]
            print(f"| {system} | {half} | {' | '.join(cells)} |")


def show_curve(rows: Sequence[Row]) -> None:
    """Print how often the first hit is right, and any, by the number behind the label: all that is about software."""
    print("\n| evidence, own set | half | requests | first right | any right |\n|---|---|---|---|---|")
    for half in HALVES:
        own = [
            row for row in rows if (row["set"], row["half"]) == ("own tools", half) and row["kind"] != "not software"
        ]
        ordered = sorted(own, key=lambda row: cast(float, row["evidence"]))
        for step in range(STEPS):
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
