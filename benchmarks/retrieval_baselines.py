"""Other ways to search the same catalog: SQLite's full text, FastMCP, bm25s, a regular expression, and vectors alone.

Knows what each of them makes of a document's text and a query; never knows what is right.
"""

import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from measuring import say
from retrieval_data import Dataset, Document
from retrieval_metrics import DEPTH, Answer
from toolcrib.base.text import query_terms
from toolcrib.search.semantic import SharedModel
from toolcrib.search.static_model import find_model, load_model

_WORD = re.compile(r"\w+")
_SCHEMA = """
    CREATE TABLE items (name, description, tags);
    CREATE VIRTUAL TABLE items_fts USING fts5 (
        name, description, tags, content='items', content_rowid='rowid', tokenize='porter unicode61'
    );
"""
_FOUND = "SELECT rowid, bm25(items_fts) FROM items_fts WHERE items_fts MATCH ? ORDER BY 2 LIMIT ?"

Find = Callable[[str], Sequence[tuple[int, float | None]]]
"""Takes a query and returns places in the catalog with their scores, if it tells them, best first."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """One other way to search. ``index_s`` is how long its index took."""

    name: str
    documents: Sequence[Document]
    find: Find
    index_s: float

    def search(self, query: str) -> Answer:
        """Return what it finds; the score of the best is taken for how sure it is."""
        began = time.perf_counter()
        found = self.find(query)
        ms = (time.perf_counter() - began) * 1000
        return Answer(
            tuple(self.documents[place].id for place, _ in found),
            evidence=found[0][1] if found else 0.0,
            ms=ms,
        )


@contextmanager
def baselines(dataset: Dataset) -> Iterator[list[Baseline]]:
    """Index the catalog in every other way that is installed here; skills with and without their bodies."""
    documents = dataset.documents
    short = [document.text for document in documents]
    texts = {"": short}
    if any(document.body for document in documents):
        whole = [f"{text} {document.body}" for text, document in zip(short, documents, strict=True)]
        texts[" + bodies"] = whole
    with closing(sqlite3.connect(":memory:")) as connection:
        began = time.perf_counter()
        fill(connection, documents)
        took = time.perf_counter() - began
        made = [
            Baseline("FTS5, OR", documents, full_text(connection, " OR "), took),
            Baseline("FTS5, AND", documents, full_text(connection, " "), took),
        ]
        for suffix, given in texts.items():
            ways = ("FastMCP", fastmcp), ("bm25s", bm25s_index), ("regex", alternation), ("the model alone", vectors)
            for name, build in ways:
                try:
                    build(given[:1])  # so that the import is not in the time of the index
                except ImportError as error:
                    say(f"{name} is left out: {error}")
                    continue
                began = time.perf_counter()
                made.append(Baseline(name + suffix, documents, build(given), time.perf_counter() - began))
        yield made


def fill(connection: sqlite3.Connection, documents: Sequence[Document]) -> None:
    connection.executescript(_SCHEMA)
    rows = [(number, one.name, one.description, " ".join(one.tags)) for number, one in enumerate(documents)]
    connection.executemany("INSERT INTO items (rowid, name, description, tags) VALUES (?, ?, ?, ?)", rows)
    connection.execute("INSERT INTO items_fts (items_fts) VALUES ('rebuild')")


def full_text(connection: sqlite3.Connection, operator: str) -> Find:
    """Search as the source document has it: bm25() of FTS5 over name, description and tags."""

    def find(query: str) -> list[tuple[int, float]]:
        expression = operator.join(f'"{word}"' for word in _WORD.findall(query))
        if not expression:
            return []
        with suppress(sqlite3.OperationalError):
            return [(row, -raw) for row, raw in connection.execute(_FOUND, (expression, DEPTH))]
        return []

    return find


def fastmcp(texts: Sequence[str]) -> Find:
    """Search as FastMCP's BM25 transform does: its own index class over its own text of a tool."""
    from fastmcp.server.transforms.search.bm25 import _BM25Index as Index  # pyright: ignore[reportMissingImports] - may be absent

    index = Index()
    index.build(list(texts))
    return lambda query: [(place, None) for place in index.query(query, DEPTH)]


def bm25s_index(texts: Sequence[str]) -> Find:
    """Search with bm25s, its English stop words and, where it is installed, its stemmer."""
    import bm25s  # pyright: ignore[reportMissingImports] - may be absent
    import Stemmer  # pyright: ignore[reportMissingImports] - may be absent

    stemmer = Stemmer.Stemmer("english")

    def tokens(text: str | Sequence[str]) -> list[list[str]]:
        return bm25s.tokenize(text, stopwords="en", stemmer=stemmer, show_progress=False, return_ids=False)

    index = bm25s.BM25()
    index.index(tokens(list(texts)), show_progress=False)
    depth = min(DEPTH, len(texts))

    def find(query: str) -> list[tuple[int, float]]:
        places, scores = index.retrieve(tokens(query), k=depth, show_progress=False)
        pairs = zip(places[0].tolist(), scores[0].tolist(), strict=True)
        return [(place, score) for place, score in pairs if score > 0]

    return find


def vectors(texts: Sequence[str]) -> Find:
    """Search by the cosines of the installed model for search by meaning; words do not count."""
    model = SharedModel(lambda: load_model(find_model(None, Path(os.devnull))), optional=True).get()
    if model is None:
        raise ImportError("there is no model for search by meaning")
    rows = model.unit_rows(list(texts))

    def find(query: str) -> list[tuple[int, float]]:
        cosines = (rows @ model.unit_rows([query])[0]).tolist()
        return sorted(enumerate(cosines), key=lambda pair: -pair[1])[:DEPTH]

    return find


def alternation(texts: Sequence[str]) -> Find:
    """Search for any of the query's words, as a pattern; what has more of them comes first."""
    lowered = [text.lower() for text in texts]

    def find(query: str) -> list[tuple[int, float]]:
        terms = query_terms(query)
        if not terms:
            return []
        pattern = re.compile("|".join(map(re.escape, terms)))
        hits = ((place, float(len(set(pattern.findall(text))))) for place, text in enumerate(lowered))
        return sorted((hit for hit in hits if hit[1]), key=lambda hit: (-hit[1], hit[0]))[:DEPTH]

    return find
