"""How well tools and skills are found: toolcrib's own search, through its use cases, beside others on the same data.

Each path is a file `{tools, queries}`, one tool `{id, name, description, schema, tags, server}` and one query
`{text, gold: {id: gain}}`, or a folder of skills with `queries.jsonl` in it, one `{query, gold: [name]}` a line, or the
requests of the set in `tests/retrieval`.
"""

import argparse
import gc
import json
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import catalog
from measuring import percentile, say
from retrieval_baselines import baselines
from retrieval_data import OWN_SKILLS, OWN_TOOLS, UNANSWERABLE, Dataset, Half, load, scaled, unanswerable
from retrieval_metrics import FIGURES, Comparison, Metrics, Search, TradeOff, ask, compared, evaluate, trade_offs
from retrieval_names import KnownItems, known_items
from retrieval_world import WORDS_ALONE, Opened, opened, opened_tools
from toolcrib.base.errors import ModelUnavailable
from toolcrib.search.static_model import find_model

__all__ = ["evaluate", "load", "opened", "quick"]

SHARED = catalog.ROOT.parent / "shared"
OURS = "toolcrib"
COMPARED = ("R@5", "nDCG@10")
NOT_BY_WORD_AND = "FTS5, AND"


@dataclass(slots=True)
class Report:
    """All that was measured."""

    metrics: list[Metrics] = field(default_factory=list[Metrics])
    comparisons: list[Comparison] = field(default_factory=list[Comparison])
    confidence: dict[str, list[TradeOff]] = field(default_factory=dict[str, list[TradeOff]])
    names: KnownItems | None = None
    scale: list[dict[str, float]] = field(default_factory=list[dict[str, float]])
    notes: list[str] = field(default_factory=list[str])

    def as_json(self) -> dict[str, Any]:
        return {
            "machine": machine(),
            "metrics": [asdict(replace(one, outcomes=())) for one in self.metrics],
            "comparisons": [{**asdict(one), "verdict": one.verdict} for one in self.comparisons],
            "confidence": {name: [asdict(one) for one in points] for name, points in self.confidence.items()},
            "names": asdict(self.names) if self.names else None,
            "scale": self.scale,
            "notes": self.notes,
        }


# -- measuring -----------------------------------------------------------------------------------


def quick(path: Path | str, half: Half = "tune", misspelt: float = 0.0) -> Metrics:
    """Return toolcrib's figures on one set: what somebody who works on the ranking calls in a loop."""
    dataset = load(Path(path)).half(half)
    with opened(dataset) as ours:
        return evaluate(ours.search, dataset.misspelt(misspelt), OURS, ours.index_s)


def variants(given: argparse.Namespace, whole: Dataset) -> Iterator[Dataset]:
    """Yield the parts of a set that are measured."""
    for half in given.split:
        part = whole.half(half).first(given.limit)
        yield part
        if given.misspell:
            yield part.misspelt(given.misspell, given.seed)


def measure_set(given: argparse.Namespace, path: Path, report: Report) -> None:
    whole = load(path)
    say(f"{whole.name}: {len(whole.documents):,} to find, {len(whole.queries):,} queries ...")
    with opened(whole) as ours, by_words(whole) as words, baselines(whole) as found:
        others = [*words, *found]
        if ours.missing:
            report.notes.append(
                f"{whole.name}: {ours.missing} were refused or are hidden from models, so toolcrib never finds them"
            )
        gc.freeze()  # as the product does when it has started
        for part in variants(given, whole):
            if not any(query.gold for query in part.queries):
                continue
            own = evaluate(ours.search, part, OURS, ours.index_s)
            rest = [] if given.alone else [evaluate(one.search, part, one.name, one.index_s) for one in others]
            report.metrics += [own, *rest]
            report.comparisons += [compared(own, other, figure) for figure in COMPARED for other in rest]
            report.confidence[part.name] = trade_off(given, ours.search, part, own)


@dataclass(frozen=True, slots=True)
class WordsAlone:
    """Toolcrib without search by meaning."""

    search: Search
    index_s: float
    name: str = "words alone"


@contextmanager
def by_words(whole: Dataset) -> Iterator[list[WordsAlone]]:
    """Open the same catalog without search by meaning, if a model is installed: else there is no difference."""
    try:
        find_model(None, Path(os.devnull))
    except ModelUnavailable as error:
        say(f"words alone: {error}")
        yield []
        return
    with opened(whole, WORDS_ALONE) as ours:
        yield [WordsAlone(ours.search, ours.index_s)]


def trade_off(given: argparse.Namespace, search: Search, part: Dataset, own: Metrics) -> list[TradeOff]:
    """Return what its confidence is worth, with what the set itself holds that nothing serves."""
    unserved = [*unanswerable(given.unanswerable), *(query.text for query in part.queries if not query.gold)]
    return trade_offs(own.outcomes, [ask(search, text) for text in unserved])


def measure_names(given: argparse.Namespace) -> KnownItems | None:
    lists = catalog.captured(given.catalog)
    if not lists:
        say(f"{given.catalog} is not there: no names")
        return None
    say(f"names of {sum(map(len, lists.values())):,} tools ...")
    with opened_tools(lists) as ours:
        return known_items(ours.hits, lists)


def measure_scale(given: argparse.Namespace) -> Iterator[dict[str, float]]:
    """Yield the time of a search in catalogs of several sizes."""
    lists, _ = catalog.tool_lists(given.catalog)
    queries = catalog.queries(lists, given.limit or 300)
    for size in given.scale:
        say(f"indexing {size:,} tools ...")
        with opened_tools(scaled(lists, size)) as ours:
            gc.freeze()
            yield {"tools": size - ours.missing, "index_s": ours.index_s, **latencies(ours, queries)}
            gc.unfreeze()


def latencies(ours: Opened, queries: Sequence[str]) -> dict[str, float]:
    rounds = [[ask(ours.search, query).ms or 0.0 for query in queries] for _ in range(2)]
    return {f"p{share * 100:g}_ms": percentile(rounds[-1], share) for share in (0.5, 0.95, 0.99)}


# -- showing -------------------------------------------------------------------------------------


def show(report: Report) -> None:
    for dataset in dict.fromkeys(one.dataset for one in report.metrics):
        rows = [one for one in report.metrics if one.dataset == dataset]
        print(f"\n## {dataset}, {rows[0].count} queries\n")
        print(f"| | {' | '.join(FIGURES)} | empty | AUC labels / number | p50 / p95 / p99 ms | index s |")
        print("|---" * (len(FIGURES) + 5) + "|")
        for one in rows:
            print(f"| {one.system} | {' | '.join(cells(one))} |")
        show_comparisons([one for one in report.comparisons if one.dataset == dataset])
        if dataset in report.confidence:
            show_confidence(rows[0], report.confidence[dataset])
    show_beside(report)
    show_rest(report)


def show_beside(report: Report) -> None:
    """Print every way to search beside the others, set by set."""
    systems = list(dict.fromkeys(one.system for one in report.metrics))
    found = {(one.dataset, one.system): one for one in report.metrics}
    for figure in COMPARED if report.metrics else ():
        print(f"\n| {figure} | {' | '.join(systems)} |\n|---|{'---|' * len(systems)}")
        for dataset in dict.fromkeys(one.dataset for one in report.metrics):
            known = (found.get((dataset, system)) for system in systems)
            shown = ("-" if one is None else share(one.figures[figure]) for one in known)
            print(f"| {dataset} | {' | '.join(shown)} |")


def cells(one: Metrics) -> Iterator[str]:
    for figure in FIGURES:
        error = f" ±{share(one.errors[figure])}" if figure in COMPARED else ""
        yield share(one.figures[figure]) + error
    yield share(one.empty)
    yield " / ".join("-" if value is None else share(value) for value in (one.auc_labels, one.auc_evidence))
    yield " / ".join(f"{value:.2f}" for value in one.ms.values())
    yield "" if one.index_s is None else f"{one.index_s:.2f}"


def share(value: float) -> str:
    return f"{value:.3f}".removeprefix("0") if 0 <= value < 1 else f"{value:.3f}"


def show_comparisons(comparisons: Sequence[Comparison]) -> None:
    for figure in COMPARED:
        said = [
            f"{one.verdict} {'of' if one.verdict == 'ahead' else 'with' if one.verdict == 'level' else ''} "
            f"{one.baseline} ({one.difference:+.3f} ±{one.error:.3f})".replace("  ", " ")
            for one in comparisons
            if one.figure == figure and one.baseline != NOT_BY_WORD_AND
        ]
        if said:
            print(f"\n{figure}: {', '.join(said)}.")


def show_confidence(own: Metrics, points: Sequence[TradeOff]) -> None:
    labels = ", ".join(f"{label} {value:.0%}" for label, value in own.labels.items())
    print(f"\nConfidence: {labels}\n")
    print("| sure from | right first, sure | unanswerable, not sure | wrong first, not sure |\n|---|---|---|---|")
    for one in points:
        point = one.point if isinstance(one.point, str) else f"{one.point:.3f}"
        print(f"| {point} | {one.kept:.0%} | {one.caught:.0%} | {one.wrong_caught:.0%} |")


def show_rest(report: Report) -> None:
    if report.names:
        print(f"\nNames: {report.names.found:,} of {report.names.asked:,} spellings find their tool first")
        for query, hit in report.names.missed:
            print(f"  {query!r} finds {hit}")
    if report.scale:
        print("\n| tools | p50 / p95 / p99 ms | index s |\n|---|---|---|")
        for one in report.scale:
            taken = " / ".join(f"{one[key]:.2f}" for key in ("p50_ms", "p95_ms", "p99_ms"))
            print(f"| {one['tools']:,} | {taken} | {one['index_s']:.2f} |")
    print("\n" + "\n".join([*report.notes, machine()]))


def machine() -> str:
    return f"Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} CPUs"


# -- the command line ----------------------------------------------------------------------------


def default_paths() -> list[Path]:
    """Return the repository's own sets, and those that lie beside it, if any do."""
    skills = SHARED / "skills-dev"
    others = [*sorted((SHARED / "retrieval-dev").glob("*.json")), *([skills] if skills.is_dir() else [])]
    return [OWN_TOOLS, OWN_SKILLS, *others]


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "paths", type=Path, nargs="*", metavar="PATH", help="sets (default: our own, and those in ../shared)"
    )
    halves = ("all", "tune", "test")
    parser.add_argument("--split", nargs="+", choices=halves, default=["all"], help="halves of the queries")
    parser.add_argument("--limit", type=int, metavar="N", help="most queries of a set")
    parser.add_argument("--misspell", type=float, default=0, metavar="SHARE", help="also with so many words misspelt")
    parser.add_argument("--seed", type=int, default=1, help="of the misspellings (default: 1)")
    parser.add_argument("--alone", action="store_true", help="without the baselines")
    parser.add_argument("--names", action="store_true", help="also search every tool of the catalog by its name")
    parser.add_argument("--scale", type=int, nargs="+", default=[], metavar="N", help="also time catalogs of N tools")
    parser.add_argument("--unanswerable", type=Path, default=UNANSWERABLE, metavar="FILE", help="what nothing serves")
    parser.add_argument(
        "--json", nargs="?", const="-", metavar="FILE", help="write JSON, in place of the table if no FILE"
    )
    catalog.add_option(parser)
    return parser


def main() -> None:
    given = options().parse_args()
    report = Report()
    for path in given.paths or ([] if given.names or given.scale else default_paths()):
        measure_set(given, path, report)
    if given.names:
        report.names = measure_names(given)
    report.scale += measure_scale(given)
    if given.json != "-":
        show(report)
    if given.json:
        text = json.dumps(report.as_json(), ensure_ascii=False)
        sys.stdout.write(f"{text}\n") if given.json == "-" else Path(given.json).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
