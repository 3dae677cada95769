"""How many of the documents that one caller may see have a word, and how long they are, out of what is counted of all.

Knows sums and what to take from them; never knows which words a query has or what a document is worth.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Protocol

from toolcrib.base.cache import Recent
from toolcrib.search.bm25 import Field
from toolcrib.search.inverted import COMMON_MIN
from toolcrib.search.number_sets import NumberSet
from toolcrib.storage.stems import BATCH, IN_NAME, Document, StemReader, StemTables, Tally, Word

_REMEMBERED_MAX = 10_000
"""Number of words whose frequency is cached per set of documents."""

_SETS_MAX = 512
"""Number of words for which the set of documents containing them is cached, per caller's documents."""


class Seen(Protocol):
    """The documents visible to one caller, as one immutable value."""

    @property
    def in_order(self) -> Sequence[int]:
        """The row of each document; its index here is its number."""
        ...

    @property
    def number_by_row(self) -> Mapping[int, int]:
        """The number of each row."""
        ...

    @property
    def hides_nothing(self) -> bool:
        """Whether this caller may read all texts as they are, also those of a later version."""
        ...

    def __hash__(self) -> int:
        """Distinguish it from every other such set."""
        ...

    def edited(self) -> Mapping[int, Sequence[str]]:
        """Return, by row, the words of each field of documents that this caller sees in another version."""
        ...


Edited = Mapping[int, Sequence[str]]
"""By number, the stems of each field of documents that a caller sees in another version than stored."""


@dataclass(frozen=True, slots=True)
class Counted:
    """How many documents contain a stem in a field where it counts, and how many have it in their name.

    ``word`` looks it up in the fields where it counts.
    """

    documents: int
    named: int
    word: Word


@dataclass(frozen=True)
class Statistics:
    """Statistics of one caller's documents; bit-identical to those of a catalog without any others.

    ``stamp`` identifies the state that was counted. ``averages`` are the average lengths of the fields, ``common`` the
    stems ignored in each. ``edited`` has, by number, the stems of documents that this caller sees in another version
    than stored, and ``edited_by_stem`` their numbers by mark and stem. ``sets`` caches the documents that contain a
    word. ``servers`` (None: all) are those whose stored counts are used, and ``adjusted`` is added to these.
    """

    stamp: int
    fields: Sequence[Field]
    size: int
    averages: Sequence[float]
    common: Sequence[frozenset[str]]
    edited: Edited
    servers: Collection[str] | None
    adjusted: Mapping[str, Collection[tuple[int, int]]]
    tables: StemTables
    edited_by_stem: Mapping[str, AbstractSet[int]]
    sets: Recent[Word, NumberSet] = field(default_factory=lambda: Recent[Word, NumberSet](_SETS_MAX))
    remembered: Recent[str, Counted] = field(default_factory=lambda: Recent[str, Counted](_REMEMBERED_MAX))

    def counted(self, reader: StemReader, term: str) -> Counted:
        """Return how many documents contain a stem."""
        return self.remembered.get(term, lambda: self._counted(reader, term))

    def edited_having(self, word: Word) -> AbstractSet[int]:
        """Return the edited documents that contain a word."""
        stem, marks = word
        return {number for mark in marks for number in self.edited_by_stem.get(f"{mark}{stem}", ())}

    def edited_with(self, words: Iterable[Word], other: Word) -> AbstractSet[int]:
        """Return the edited documents that contain one of these words, and the other."""
        return {number for word in words for number in self.edited_having(word)}.intersection(self.edited_having(other))

    def _counted(self, reader: StemReader, term: str) -> Counted:
        by_mask = Counter(dict(reader.counts(term, self.servers)))
        for mask, number in self.adjusted.get(term, ()):
            by_mask[mask] += number
        places = [place for place in self.tables.counted if term in self.common[place]]
        left_out = sum(self.tables.bits[place] for place in places)
        gone = {self.tables.marks[place] for place in places}
        marks = tuple(mark for mark in dict.fromkeys(self.tables.marks) if mark not in gone)
        named = sum(number for mask, number in by_mask.items() if mask & self.tables.in_name)
        documents = sum(number for mask, number in by_mask.items() if mask & ~left_out)
        return Counted(documents, named, (term, marks))


def statistics_of(reader: StemReader, seen: Seen, fields: Sequence[Field], edited: Edited) -> Statistics:
    """Count the documents that one caller may see: stored counts of servers, less hidden and edited documents."""
    servers, adjusted = _adjusted(reader, seen, edited)
    by_term: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for (term, mask), number in adjusted.having.items():
        by_term[term].append((mask, number))
    size, lengths = adjusted.documents, adjusted.lengths
    for documents, sums in reader.sums(servers):
        size += documents
        lengths = [one + other for one, other in zip(lengths, sums, strict=True)]
    common = _common(reader, fields, size, servers, by_term)
    for place, terms in enumerate(common):
        lengths[place] -= sum(reader.uses(term, place, servers) + adjusted.uses[term, place] for term in terms)
    return Statistics(
        stamp=reader.stamp,
        fields=fields,
        size=size,
        averages=[length / max(size, 1) for length in lengths],
        common=common,
        edited=edited,
        servers=servers,
        adjusted=by_term,
        tables=reader.tables,
        edited_by_stem=_by_stem(edited, reader.tables.marks),
    )


def _adjusted(reader: StemReader, seen: Seen, edited: Edited) -> tuple[Collection[str] | None, Tally]:
    """Return the servers whose stored counts are used (None: all), and the correction to them.

    A server that is mostly hidden is left out; its visible documents are added instead.
    """
    rows_of = dict(reader.owned())
    edited_rows = {seen.in_order[number] for number in edited}
    taken: set[str] = set()
    less: list[int] = []
    more: list[int] = []
    tally = reader.tables.tally()
    for server, rows in rows_of.items():
        shown = list(filter(seen.number_by_row.__contains__, rows))
        apart = edited_rows.intersection(shown) if edited_rows else edited_rows
        if 2 * len(shown) >= len(rows):
            taken.add(server)
            less += apart if len(shown) == len(rows) else {*rows}.difference(shown) | apart
        else:
            more += {*shown} - apart
        tally.add([_counted(edited[seen.number_by_row[row]]) for row in apart])
    for documents in _read(reader, less):
        tally.take(documents)
    for documents in _read(reader, more):
        tally.add(documents)
    return None if len(taken) == len(rows_of) else taken, tally


def _read(reader: StemReader, rows: Sequence[int]) -> Iterator[Sequence[Document]]:
    for start in range(0, len(rows), BATCH):
        yield [_counted(texts) for texts in reader.texts(rows[start : start + BATCH]).values()]


def _counted(texts: Iterable[str]) -> Document:
    return [text.split() for text in texts]


def _common(
    reader: StemReader,
    fields: Sequence[Field],
    size: int,
    servers: Collection[str] | None,
    adjusted: Mapping[str, Collection[tuple[int, int]]],
) -> Sequence[frozenset[str]]:
    """Return for each field the stems that too many of the documents have there, as in :class:`FieldedBm25`."""
    common: list[set[str]] = [set() for _ in fields]
    if size >= COMMON_MIN:
        for term, place in reader.often(min(field.common for field in fields) * size):
            counts = (*reader.counts(term, servers), *adjusted.get(term, ()))
            documents = sum(number for mask, number in counts if mask & reader.tables.bits[place])
            if documents > fields[place].common * size:
                common[place].add(term)
    return tuple(map(frozenset, common))


def _by_stem(edited: Edited, marks: Sequence[str]) -> Mapping[str, AbstractSet[int]]:
    found: defaultdict[str, set[int]] = defaultdict(set)
    for number, texts in edited.items():
        for mark, text in (*zip(marks, texts, strict=True), (IN_NAME, texts[0])):
            for term in text.split():
                found[f"{mark}{term}"].add(number)
    return found
