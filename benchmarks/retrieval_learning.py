"""What learning from use gives and takes, how far a client that cheats gets, and what it costs.

Half of the requests of each set teach, by a hash, wherever the right tool is not the first hit; then all are asked
again, those of the other half too, and the first half with half of its longer words misspelt. A client that cheats
teaches the second hit a thousand times, for every request and for every tool's own name.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median

from measuring import say
from retrieval import default_paths
from retrieval_data import Dataset, Query, load
from retrieval_metrics import mean
from retrieval_world import lists_of, opened_use_cases
from toolcrib.base.model import Caller
from toolcrib.base.names import public_name
from toolcrib.catalog.learning import FOUND, NOT_FOUND
from toolcrib.catalog.tool_search import SearchRequest
from toolcrib.policy.sessions import RunActivations, Session
from toolcrib.search.english import stem
from toolcrib.search.learned_words import NOTHING_LEARNT, Lesson, Vocabulary, learnable

DEPTH, SHOWN, TRIES = 10, 8, 1000
NOT_THERE = DEPTH + 1
AT = 1_800_000_000.0
TURNS = range(2 * 12)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request found: public names, best first, and how sure the answer was."""

    names: tuple[str, ...]
    confidence: str

    def place(self, right: frozenset[str]) -> int:
        """Return where the first right one stands, from 1."""
        return next((place for place, name in enumerate(self.names, 1) if name in right), NOT_THERE)


@dataclass(frozen=True, slots=True)
class Change:
    """What lessons change for some requests. ``lost`` and ``won``: first places; ``worse``: any place."""

    set: str
    requests: str
    count: int
    lessons: int
    first_before: float
    first: float
    in_five_before: float
    in_five: float
    won: int
    lost: int
    worse: int


@dataclass(frozen=True, slots=True)
class Cheated:
    """How often the second hit came first by a thousand lessons: where words are sure, are not, and for names."""

    set: str
    sure: int
    sure_overtaken: int
    unsure: int
    unsure_overtaken: int
    names: int
    names_overtaken: int
    made_sure: int


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU time in microseconds: the median search without and with a full vocabulary, and one lesson."""

    set: str
    entries: int
    without_us: float
    with_us: float
    lesson_us: float


@dataclass(frozen=True, slots=True)
class World:
    """A set that can be asked. ``right`` are the public names of the right tools of a request."""

    data: Dataset
    ask: Callable[[str, Vocabulary], Asked]
    right: Callable[[Query], frozenset[str]]

    def half(self, *, teaches: bool) -> list[Query]:
        """Return the requests of one half that have an answer."""
        return [query for query in self.data.queries if query.gold and query.is_in("tune") is teaches]


@contextmanager
def opened(data: Dataset) -> Generator[World]:
    names = {document.id: public_name(document.server, document.name) for document in data.documents}
    session = Session("benchmark", Caller(), RunActivations(), growing=False)
    with opened_use_cases(lists_of(data)) as (portal, crib):
        portal.call(crib.survey, session)  # waits until all is listed
        catalog = crib.indexer.current()
        permitted = crib.gate.permitted(session, catalog)

        def ask(text: str, learnt: Vocabulary) -> Asked:
            found = crib.finder.searcher.search(SearchRequest(text, limit=DEPTH), catalog, permitted, learnt)
            return Asked(tuple(match.document.public_name for match in found.matches), found.confidence)

        yield World(data, ask, lambda query: frozenset(names[one] for one in query.gold))


def taught(world: World) -> tuple[Vocabulary, int]:
    """Return what use of one half teaches, and by how many lessons."""
    learnt, lessons = NOTHING_LEARNT, 0
    for query in world.half(teaches=True):
        asked, right = world.ask(query.text, NOTHING_LEARNT), world.right(query)
        words = learnable(query.text, stem)
        if asked.place(right) > 1 and words:
            lessons += 1
            used = next((name for name in asked.names if name in right), min(right))
            worth = FOUND if used in asked.names[:SHOWN] else NOT_FOUND
            learnt = learnt.after(Lesson(words, used, worth, AT + 60 * lessons))
    return learnt, lessons


def changes(world: World) -> Generator[Change]:
    learnt, lessons = taught(world)
    teaching = world.half(teaches=True)
    again = Dataset(world.data.name, world.data.documents, tuple(teaching)).misspelt(0.5).queries
    groups = {"those that teach": teaching, "misspelt": again, "other half": world.half(teaches=False)}
    for name, queries in groups.items():
        rights = [world.right(query) for query in queries]
        before, after = (
            [world.ask(query.text, known).place(right) for query, right in zip(queries, rights, strict=True)]
            for known in (NOTHING_LEARNT, learnt)
        )
        pairs = list(zip(before, after, strict=True))
        yield Change(
            set=world.data.name,
            requests=name,
            count=len(queries),
            lessons=lessons,
            first_before=mean([place == 1 for place in before]),
            first=mean([place == 1 for place in after]),
            in_five_before=mean([place <= 5 for place in before]),
            in_five=mean([place <= 5 for place in after]),
            won=sum(now == 1 < then for then, now in pairs),
            lost=sum(then == 1 < now for then, now in pairs),
            worse=sum(then < now for then, now in pairs),
        )


def cheated(world: World) -> Cheated:
    sure, unsure, made_sure = [], [], 0
    for query in world.data.queries:
        before = world.ask(query.text, NOTHING_LEARNT)
        words = learnable(query.text, stem)
        if len(before.names) > 1 and words:
            after = world.ask(query.text, often(words, before.names[1]))
            (sure if before.confidence == "high" else unsure).append(after.names[0] == before.names[1])
            made_sure += after.confidence == "high" != before.confidence
    names = []
    for document in world.data.documents[:500]:
        before = world.ask(document.name, NOTHING_LEARNT)
        words = learnable(document.name.replace("_", " "), stem)
        if before.confidence == "high" and len(before.names) > 1 and words:
            names.append(world.ask(document.name, often(words, before.names[1])).names[0] != before.names[0])
    return Cheated(world.data.name, len(sure), sum(sure), len(unsure), sum(unsure), len(names), sum(names), made_sure)


def often(words: tuple[str, ...], tool: str) -> Vocabulary:
    """Return what a client has taught that says the same again and again."""
    learnt = NOTHING_LEARNT
    for number in range(TRIES):
        learnt = learnt.after(Lesson(words, tool, FOUND, AT + number))
    return learnt


def cost(world: World) -> Cost:
    """Measure with what one half has taught, filled up with words of no request, for requests of both halves."""
    full, _ = taught(world)
    tool = public_name(world.data.documents[0].server, world.data.documents[0].name)
    for number in range(900 - full.size):
        full = full.after(Lesson((f"filler{number}",), tool, FOUND, AT))
    texts = [query.text for query in world.data.queries][:200]
    least: dict[bool, list[float]] = {False: [], True: []}
    for text in texts:
        # One beside the other, and the least of several: what else the machine does takes time of either.
        runs = [(turn % 2 == 1, timed(partial(world.ask, text, (NOTHING_LEARNT, full)[turn % 2]))) for turn in TURNS]
        for learns, times in least.items():
            times.append(min(us for learnt, us in runs if learnt is learns))
    without, learning = median(least[False]), median(least[True])
    lesson = median(timed(lambda: full.after(Lesson(("arrange", "standup"), tool, FOUND, AT))) for _ in range(200))
    return Cost(world.data.name, full.size, without, learning, lesson)


def timed(work: Callable[[], object]) -> float:
    """Return the CPU time that it takes, in microseconds."""
    began = time.thread_time()
    work()
    return (time.thread_time() - began) * 1e6


def show(found: Sequence[Change], tries: Sequence[Cheated], costs: Sequence[Cost]) -> None:
    columns = "set", "requests", "", "lessons", "first right", "among five", "won", "lost", "worse"
    print(f"\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for each in found:
        first = f"{each.first_before:.3f} → {each.first:.3f}"
        five = f"{each.in_five_before:.3f} → {each.in_five:.3f}"
        print(f"| {each.set} | {each.requests} | {each.count} | {each.lessons} | {first} | {five} |", end="")
        print(f" {each.won} | {each.lost} | {each.worse} |")
    print("\n| set | sure: overtaken | unsure: overtaken | names: overtaken | made sure |\n|---|---|---|---|---|")
    for each in tries:
        cells = [
            f"{overtaken} of {count}"
            for overtaken, count in (
                (each.sure_overtaken, each.sure),
                (each.unsure_overtaken, each.unsure),
                (each.names_overtaken, each.names),
            )
        ]
        print(f"| {each.set} | {' | '.join(cells)} | {each.made_sure} |")
    print("\n| set | entries | search, µs of CPU | with them | | lesson |\n|---|---|---|---|---|---|")
    for each in costs:
        more = each.with_us / each.without_us - 1
        print(f"| {each.set} | {each.entries} | {each.without_us:.0f} | {each.with_us:.0f} |", end="")
        print(f" {more:+.1%} | {each.lesson_us:.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", type=Path, nargs="*", metavar="PATH", help="sets of tools, as retrieval.py takes them")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    given = parser.parse_args()
    found: list[Change] = []
    tries: list[Cheated] = []
    costs: list[Cost] = []
    for data in map(load, given.paths or default_paths()):
        if data.folder is None:
            say(f"{data.name} ...")
            with opened(data) as world:
                found += changes(world)
                tries.append(cheated(world))
                costs.append(cost(world))
    if given.json:
        json.dump([asdict(each) for each in (*found, *tries, *costs)], sys.stdout)
        return
    show(found, tries, costs)


if __name__ == "__main__":
    main()
