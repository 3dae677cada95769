"""One skill search in process over a folder of real skills, beside SQLite's plain full-text query in the same file.

For speed the skills are copied as often as needed, each copy with a name and a body of its own. For quality, where
queries are given, they are one JSON object a line: `query`, and `gold`, the names of the skills that answer it.
"""

import gc
import json
import sqlite3
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path

from measuring import Finding, Target, any_of, interleaved, median, options, percentile, say, show
from toolcrib.base.model import FileMark, SearchType, SkillFile, SkillOrigin, SkillRecord, SkillScope, SkillText
from toolcrib.base.text import QUERY_MAX, query_terms
from toolcrib.search.engine import SearchSettings
from toolcrib.search.english import read_synonyms, stem
from toolcrib.search.postings import Counting, Worded, nothing
from toolcrib.search.ranking import FieldedBm25, Relevance
from toolcrib.skills.formats.agent_skill import read_agent_skill
from toolcrib.skills.identity import skill_id
from toolcrib.skills.index import SHORT_FIELDS, SKILLS_SCHEMA, SkillIndex
from toolcrib.skills.search import FIELDS, SkillQuery, SkillSearcher
from toolcrib.skills.visible import VisibleSkills
from toolcrib.storage.store import Store

SHARED = Path(__file__).resolve().parents[2] / "shared" / "skills-dev"
SEARCH_TARGETS_MS = {600: Target(3), 5000: Target(10)}
FIRST_TARGETS_MS = {600: Target(300)}
PATTERNS = ("^azure", "review|refactor", "pdf", "test.*driven", "(deploy|release)-")
PLAIN = "SELECT rowid FROM skills_fts WHERE skills_fts MATCH ? ORDER BY bm25(skills_fts) LIMIT 10"
DEPTHS = {1: 0.63, 3: 0.77, 8: 0.93}
"""How many of the first hits are looked at, with the share of queries that should find their skill there."""
FOUND_MAX = 10
ROOT = "corpus"


def read_corpus(folder: Path) -> list[SkillText]:
    paths = sorted(folder.rglob("SKILL.md"))
    read = (read_agent_skill(path.read_bytes(), folder_name=path.parent.name, path=path.name) for path in paths)
    # What agents are not shown is not searched either.
    return [text for text, _ in read if text is not None and not text.is_hidden]


def copies(texts: Sequence[SkillText]) -> Iterator[SkillText]:
    """Yield the skills, and then copies without end: each with the body of another, so that no two are alike."""
    yield from texts
    turn = 0
    while True:
        turn += 1
        for place, text in enumerate(texts):
            body = texts[(place + 7 * turn) % len(texts)].body
            hashed = f"{text.content_hash}-{turn}"
            yield replace(text, name=f"{text.name}-{turn}", body=body, content_hash=hashed)


def as_file(number: int, text: SkillText) -> SkillFile:
    folder = f"{number:05}"
    scope = SkillScope("global")
    record = SkillRecord(
        id=skill_id(scope, ROOT, folder),
        text=text,
        source=ROOT,
        folder=folder,
        path=f"{folder}/SKILL.md",
        origin=SkillOrigin.DIR,
        origin_ref="",
        scope=scope,
        is_pinned=False,
        is_conforming=True,
    )
    return SkillFile(record.path, FileMark(1, 1, ""), (record,), ())


@contextmanager
def indexed(path: Path, texts: Sequence[SkillText]) -> Iterator[tuple[SkillIndex, VisibleSkills]]:
    with Store(path, SKILLS_SCHEMA) as store:
        index = SkillIndex(store)
        index.apply(ROOT, [as_file(number, text) for number, text in enumerate(texts)], (), now=time.time())
        yield index, VisibleSkills(index.load({ROOT: ROOT}, None, None))


def milliseconds(work: Callable[..., object], *given: object) -> float:
    began = time.perf_counter()
    work(*given)
    return (time.perf_counter() - began) * 1000


def each_query(queries: Sequence[str], search: Callable[[str], object]) -> Callable[[], list[float]]:
    """Return a round: the milliseconds that each query takes."""
    return lambda: [milliseconds(search, query) for query in queries]


def measure_speed(given: Namespace, path: Path, texts: Sequence[SkillText], queries: Sequence[str]) -> list[Finding]:
    size = len(texts)
    with indexed(path, texts) as (index, visible), closing(sqlite3.connect(path)) as connection:
        firsts = [
            milliseconds(lambda: SkillSearcher(index, SearchSettings()).search(SkillQuery("warm"), visible))
            for _ in range(given.repeat)
        ]
        searcher = SkillSearcher(index, SearchSettings())
        cases = {
            "words": each_query(queries, lambda query: searcher.search(SkillQuery(query), visible)),
            "pattern": each_query(
                PATTERNS, lambda query: searcher.search(SkillQuery(query, SearchType.REGEX), visible)
            ),
            "plain": each_query(queries, lambda query: plain(connection, query)),
        }
        interleaved(1, cases)  # what is worked out once is worked out now
        gc.freeze()  # as the product does when it has started
        rounds = interleaved(given.repeat, cases)
    found = [
        Finding(f"{size:,} skills, first search", "ms", median(firsts), target=FIRST_TARGETS_MS.get(size)),
    ]
    for name in ("words", "pattern"):
        for share in (0.5, 0.95):
            taken, base = (median([percentile(each, share) for each in rounds[case]]) for case in (name, "plain"))
            target = SEARCH_TARGETS_MS.get(size) if share == 0.95 and name == "words" else None
            baseline = (base, "plain FTS5") if name == "words" else (None, "")
            found.append(Finding(f"{size:,} skills, {name}, p{share * 100:g}", "ms", taken, *baseline, target))
    return found


def plain(connection: sqlite3.Connection, query: str) -> list[int]:
    """Return the rows that FTS5 finds by the same words, in the order of its own bm25()."""
    return [row[0] for row in connection.execute(PLAIN, (any_of(query_terms(query)),))]


def measure_quality(path: Path, texts: Sequence[SkillText], cases: Sequence[tuple[str, set[str]]]) -> list[Finding]:
    with indexed(path, texts) as (index, visible), closing(sqlite3.connect(path)) as connection:
        searcher = SkillSearcher(index, SearchSettings())
        names = {skill.row: skill.name for skill in visible.everything}
        stems = index.stems(names)
        short = [Worded(stems[skill.row][:SHORT_FIELDS]) for skill in visible.skills]
        none = nothing(Counting(stem, SHORT_FIELDS, {}))
        inverted, slots = none.derive([None] * len(short), lambda numbers: [short[number] for number in numbers])
        bodiless = Relevance(FieldedBm25(inverted, slots, FIELDS[:SHORT_FIELDS]), stem, read_synonyms(stem))

        def with_body(query: str) -> list[str]:
            return [
                match.document.name for match in searcher.search(SkillQuery(query, limit=FOUND_MAX), visible).matches
            ]

        def without_body(query: str) -> list[str]:
            ranked = bodiless.rank(query, None, FOUND_MAX)
            return [visible.skills[number].name for number, _relevance in ranked.matches]

        ways = (
            with_body,
            without_body,
            lambda query: [names[row] for row in plain(connection, query)],
            everything_plain(texts),
        )
        ranks = [[first_of(way(query), gold) for query, gold in cases] for way in ways]
        triggered = [text for text in texts if text.trigger not in text.description]
        own = [first_of(with_body(text.description[:QUERY_MAX]), {text.name}) for text in triggered]
    found: list[Finding] = []
    for place, label in enumerate(("", " without bodies")):
        for depth, least in DEPTHS.items():
            ours = hit_share(ranks[place], depth)
            for base, against in ((ranks[2], "plain FTS5"), (ranks[3], "FTS5 with bodies")):
                found.append(Finding(f"hit@{depth}{label}", "of 1", ours, hit_share(base, depth), against))
            if not label:
                missed = Target(round(1 - least, 2))
                found.append(Finding(f"missed in the first {depth}", "of 1", 1 - ours, target=missed))
        ours, base = reciprocal_rank(ranks[place]), reciprocal_rank(ranks[3])
        found.append(Finding(f"mean reciprocal rank{label}", "", ours, base, "FTS5 with bodies"))
    missed = 1 - hit_share(own, 1) if own else 0.0
    what = f"{len(triggered)} skills with triggers, missed by their descriptions"
    return [*found, Finding(what, "of 1", missed, target=Target(0))]


def everything_plain(texts: Sequence[SkillText]) -> Callable[[str], list[str]]:
    """Return a search of FTS5, as it is, over names, descriptions and whole bodies."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE every USING fts5(name, description, body, tokenize='porter unicode61')")
    rows = [(text.name, f"{text.description} {text.trigger}", text.body) for text in texts]
    connection.executemany("INSERT INTO every VALUES (?, ?, ?)", rows)

    def search(query: str) -> list[str]:
        found = connection.execute(
            "SELECT rowid FROM every WHERE every MATCH ? ORDER BY bm25(every) LIMIT ?",
            (any_of(query_terms(query)), FOUND_MAX),
        )
        return [texts[row - 1].name for (row,) in found]

    return search


def first_of(names: Sequence[str], gold: set[str]) -> int | None:
    """Return the rank of the first name that is right, from 1."""
    return next((rank for rank, name in enumerate(names[:FOUND_MAX], 1) if name in gold), None)


def hit_share(ranks: Sequence[int | None], depth: int) -> float:
    return sum(rank is not None and rank <= depth for rank in ranks) / len(ranks)


def reciprocal_rank(ranks: Sequence[int | None]) -> float:
    return sum(1 / rank for rank in ranks if rank is not None) / len(ranks)


def measure(given: Namespace, folder: Path) -> None:
    texts = read_corpus(given.corpus)
    lines = [json.loads(line) for line in given.queries.read_text(encoding="utf-8").splitlines()]
    known = {text.name for text in texts}
    golds = [(line["query"], known.intersection(line["gold"])) for line in lines]
    cases = [(query, gold) for query, gold in golds if gold]
    say(f"{len(texts)} skills, {len(cases)} queries that have an answer")
    found = measure_quality(folder / "quality.db", texts, cases)
    for size in given.sizes:
        say(f"indexing {size:,} skills ...")
        chosen = list(islice(copies(texts), size))
        found += measure_speed(given, folder / f"{size}.db", chosen, [query for query, _ in cases])
    show(found, f"copied as often as needed; medians of {given.repeat} rounds", as_json=given.json)


def main() -> None:
    parser = options(__doc__, repeat=5)
    parser.add_argument(
        "--corpus", type=Path, default=SHARED / "corpus", metavar="DIR", help="folder with SKILL.md files"
    )
    parser.add_argument(
        "--queries", type=Path, default=SHARED / "queries.jsonl", metavar="FILE", help="queries, a line each"
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[600, 5000], metavar="N", help="numbers of skills")
    given = parser.parse_args()
    if not (given.corpus.is_dir() and given.queries.is_file()):
        parser.error("no skills or queries there; name them with --corpus and --queries")
    with tempfile.TemporaryDirectory() as folder:
        measure(given, Path(folder))


if __name__ == "__main__":
    main()
