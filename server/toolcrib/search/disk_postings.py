"""Postings in a file: reads those of the rarest words, and scores the documents that contain them as in memory."""

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from heapq import nsmallest
from typing import Protocol

from toolcrib.base.cache import Recent
from toolcrib.base.errors import StoreError
from toolcrib.search.documents import CACHED_MAX
from toolcrib.search.postings import COMMON_MIN, Does, NumberSet, around, is_one_edit, nearest, rarity
from toolcrib.search.query import BESIDE, NO_ACTIONS, Actions, SynonymGroup
from toolcrib.search.ranking import Field, gains, leading, share
from toolcrib.storage.stems import BATCH, IN_NAME, Document, StemReader, Stems, StemTables, Tally, Word

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


POSTINGS_MAX = 4000
"""Maximum number of postings read in full for one query, rarest words first; other words are only intersected."""

READ_MAX = 24_000
"""Once this many postings were read or intersected for a query, its remaining, more common words select no documents.
"""

_PASSED = 64
"""Number of postings skipped inside SQLite that count as one read: about their relative cost."""

CANDIDATES_MAX = 120
"""Number of documents scored by their whole texts: those that contain most of the rarest words."""

_ATTEMPTS = 4
"""Attempts to open the postings while others change them."""

_PATIENCE_S = 10.0
"""Maximum time that a search waits for another thread that updates the rows it needs, in seconds."""

Words = Mapping[int, Sequence[str]]
"""By row, the words of each field."""

_State = tuple[Seen, int, int]
"""A caller's documents, and the generation and the stamp of the stems."""

_Done = Callable[[StemReader, Sequence[int]], Mapping[int, Actions]]


class StoredPostings:
    """Opens the postings of a caller's documents from the stored stems of all rows. Safe to use from many threads."""

    def __init__(self, stems: Stems, fields: Sequence[Field]) -> None:
        self._stems, self._fields = stems, fields
        counted = tuple(place for place, field in enumerate(fields) if field.common < 1)
        if counted != tuple(stems.tables.counted):
            raise ValueError("the fields whose common words count for nothing have to be counted by themselves")
        # Keyed by file and stamp too: texts that differ per caller must match the stored rows that they replace.
        self._statistics = Recent[tuple[_State, frozenset[int]], Statistics](CACHED_MAX)
        self._edited = Recent[_State, tuple[Words, Edited]](CACHED_MAX)

    @property
    def available(self) -> bool:
        """Whether the file has any."""
        return self._stems.available

    @contextmanager
    def opened(self, seen: Seen, does: Does | None) -> Generator["OpenPostings"]:
        """Open the postings of the documents in ``seen`` for one query; all reads see one state.

        ``does`` derives a document's actions from its texts.

        Raises:
            StoreError: the file cannot be read, or it is changed by others repeatedly.

        """
        for attempt in range(_ATTEMPTS):
            generation = self._stems.generation
            # The changes may be to other rows too, so the second attempt waits for all of them.
            stamp = self._stems.settled(None if attempt else seen.number_by_row, _PATIENCE_S if attempt else 0)
            key = seen, generation, stamp
            # Read before the rest, since an in-memory store serves one reader at a time.
            words, edited = self._edited.get(key, partial(self._read_edited, seen))
            with self._stems.reading() as reader:
                if (self._stems.generation, reader.stamp) != (generation, stamp):
                    continue
                due = frozenset(() if seen.hides_nothing else filter(seen.number_by_row.__contains__, reader.due()))
                statistics = self._statistics.get((key, due), partial(self._counted, reader, seen, edited, due))
                if attempt == 0 and 2 * statistics.size < len(seen.in_order):
                    continue  # most are still missing: another thread is about to update them
                yield OpenPostings(reader, statistics, seen, partial(_done, does, words))
                return
        raise StoreError("the tool index was changed by other processes while it was searched; try again")

    def _counted(self, reader: StemReader, seen: Seen, edited: Edited, due: AbstractSet[int]) -> Statistics:
        """Count the documents; those of ``due`` rows have no words."""
        # Their stems are of another version than the words from which hidden names are removed.
        without = {seen.number_by_row[row]: ("",) * len(self._fields) for row in due}
        return statistics_of(reader, seen, self._fields, {**edited, **without} if due else edited)

    def _read_edited(self, seen: Seen) -> tuple[Words, Edited]:
        """Return the words, by row, and stems, by number, of documents that this caller sees in another version."""
        words, stem = seen.edited(), self._stems.stem
        return words, {
            seen.number_by_row[row]: tuple(" ".join(map(stem, text.split())) for text in texts)
            for row, texts in words.items()
        }


def _done(does: Does | None, edited: Words, reader: StemReader, rows: Sequence[int]) -> Mapping[int, Actions]:
    """Return by row what documents do, by their words as this caller may read them."""
    if does is None:
        return {}
    words = {**reader.words(row for row in rows if row not in edited), **edited}
    return {row: does(words[row]) for row in rows if row in words}


class OpenPostings:
    """The postings of one caller's documents while one query is answered. For one thread."""

    def __init__(self, reader: StemReader, statistics: Statistics, seen: Seen, done: _Done) -> None:
        self._reader, self._statistics, self._done = reader, statistics, done
        self._number_by_row = seen.number_by_row
        self._row_of: Callable[[int], int] = seen.in_order.__getitem__
        self._texts: dict[int, Sequence[str]] = {}
        self._frequencies: defaultdict[int, dict[str, float]] = defaultdict(dict)
        self._counted_terms: defaultdict[int, set[str]] = defaultdict(set)
        self._actions: dict[int, Actions] = {}
        self.rarity_max = rarity(0, statistics.size)
        self.rarity_of_one = rarity(1, statistics.size)

    def __contains__(self, term: str) -> bool:
        return self.frequency(term) > 0

    def frequency(self, term: str) -> int:
        """Return how many documents contain a stem."""
        return self._statistics.counted(self._reader, term).documents

    def rarity(self, term: str) -> float:
        """Return the rarity weight (IDF) of a stem."""
        return rarity(self.frequency(term), self._statistics.size)

    def near(self, word: str) -> Sequence[str]:
        """Return the stems one edit away from a word, as the in-memory lexicon does."""
        pattern = around(word)
        if pattern is None:
            return []
        # Counting each similar word takes a database query, so distant ones are removed first.
        alike = (each for each in self._reader.alike(*pattern) if is_one_edit(word, each))
        return nearest(word, filter(self.__contains__, alike))

    def name(self, number: int) -> Sequence[str]:
        """Return the stems of the name of a scored document."""
        return tuple(dict.fromkeys(self._texts[number][0].split()))

    def action(self, number: int) -> Actions:
        """Return what a scored document does, by its words as this caller may read them."""
        if number not in self._actions:
            rows = [self._row_of(each) for each in self._texts if each not in self._actions]
            done = self._done(self._reader, rows)
            self._actions |= {self._number_by_row[row]: done.get(row, NO_ACTIONS) for row in rows}
        return self._actions[number]

    def having(self, term: str, numbers: Collection[int]) -> Collection[int]:
        """Return those of ``numbers``, which are scored documents, that contain a stem."""
        for number in numbers:
            if term not in self._counted_terms[number]:
                self._count_terms(number, {term})
        return [number for number in numbers if term in self._frequencies[number]]

    def scores(
        self, weights: Mapping[str, float], among: Collection[int] | None, synonyms: Sequence[SynonymGroup] = ()
    ) -> Mapping[int, float]:
        """Return the scores of the documents that contain most of the rarest words.

        They are bit-identical to those of :class:`FieldedBm25`.
        """
        wanted = dict(weights)
        for each in synonyms:
            for term, weight in each.weights.items():
                wanted[term] = max(wanted.get(term, 0.0), weight)
        numbers = self._chosen(wanted, among)
        self._read_texts([number for number in numbers if number not in self._texts])
        numbers = [number for number in numbers if number in self._texts]
        for number in numbers:
            self._count_terms(number, wanted.keys() - self._counted_terms[number])
        scores: defaultdict[int, float] = defaultdict(float)
        for term, weight in weights.items():
            for number, gain in self._gained(term, numbers):
                scores[number] += weight * gain
        for each in synonyms:
            said = {number for word in each.words for number in self.having(word, numbers)}
            for term, weight in each.weights.items():
                beside = weight * BESIDE
                for number, gain in self._gained(term, numbers):
                    scores[number] += (beside if number in said else weight) * gain
        return scores

    def _gained(self, term: str, numbers: Collection[int]) -> Iterable[tuple[int, float]]:
        """Return what a stem adds to the score of each of these documents that contain it."""
        having = self.having(term, numbers)
        frequencies = array("f", (self._frequencies[number][term] for number in having))
        return zip(having, gains(frequencies, self.rarity(term)), strict=True)

    def _count_terms(self, number: int, terms: AbstractSet[str]) -> None:
        """Look up stems in the texts of a document that were read."""
        if terms and number in self._texts:
            self._frequencies[number] |= self._weighted(self._texts[number], frozenset(terms))
            self._counted_terms[number] |= terms

    def _chosen(self, weights: Mapping[str, float], among: Collection[int] | None) -> Sequence[int]:
        """Return the numbers of the documents that are worth scoring, in order."""
        if among is not None and len(among) <= CANDIDATES_MAX:
            return sorted(among)
        words: list[tuple[int, Word]] = []
        for term in weights:
            counted = self._statistics.counted(self._reader, term)
            words += [(counted.documents, counted.word)] if counted.documents else []
            words += [(counted.named, (term, (IN_NAME,)))] if counted.named else []
        words.sort()
        chosen = _Chosen(None if among is None else frozenset(among))
        for number, word in words:
            if chosen.left <= 0:
                break
            worth = weights[word[0]] * self.rarity(word[0])
            if number <= chosen.to_collect or len(chosen.rarities) < CANDIDATES_MAX:
                numbers = self._having(word) if number <= POSTINGS_MAX else self._some(number, word, words, chosen)
                chosen.collect(word, numbers, worth)
            elif number <= POSTINGS_MAX:
                chosen.add_rarity(self._having(word).among(list(chosen.rarities)), number, worth)
            else:
                both = self._both(chosen.read, word)
                chosen.add_rarity(both, len(both) + number // _PASSED, worth)
        return sorted(leading(chosen.rarities, CANDIDATES_MAX))

    def _some(self, number: int, word: Word, others: Sequence[tuple[int, Word]], chosen: "_Chosen") -> Sequence[int]:
        """Return some of the documents that contain a word: those that contain another one too, if these are enough.

        If there are too many, the lowest numbers are taken, which do not depend on when a list arrived.
        """
        for _, other in others:
            if other != word and chosen.left > 0:
                both = self._both([word], other)
                chosen.left -= len(both) + number // _PASSED
                if len(numbers := chosen.searched(both)) >= CANDIDATES_MAX:
                    return nsmallest(POSTINGS_MAX, numbers)
        return nsmallest(POSTINGS_MAX, chosen.searched(self._both([word], word)))

    def _both(self, words: Sequence[Word], other: Word) -> Sequence[int]:
        """Return the documents that contain one of these words, and the other."""
        edited, statistics = self._statistics.edited, self._statistics
        found = map(self._number_by_row.get, self._reader.postings(*words, also=other))
        numbers = [number for number in found if number is not None and number not in edited]
        return [*numbers, *statistics.edited_with(words, other)] if edited else numbers

    def _having(self, word: Word) -> NumberSet:
        """Return the documents that contain a word, where it counts or in their name, as this caller may read them."""
        return self._statistics.sets.get(word, lambda: self._read_postings(word))

    def _read_postings(self, word: Word) -> NumberSet:
        statistics = self._statistics
        found = map(self._number_by_row.get, self._reader.postings(word))
        numbers = [number for number in found if number is not None]
        if statistics.edited:
            numbers = [number for number in numbers if number not in statistics.edited]
            numbers += statistics.edited_having(word)
        return NumberSet(numbers, len(self._number_by_row))

    def only_aside(self, stems: Collection[str], number: int) -> Collection[str]:
        """Return those of ``stems`` that a scored document contains in fields of examples alone."""
        having: defaultdict[bool, set[str]] = defaultdict(set)
        for text, field_ in zip(self._texts[number], self._statistics.fields, strict=True):
            having[field_.aside].update(text.split())
        return (having[True] - having[False]).intersection(stems)

    def _read_texts(self, numbers: Sequence[int]) -> None:
        """Read the stems of these documents, a text per field, as this caller may read them."""
        edited = self._statistics.edited
        for row, texts in self._reader.texts(
            self._row_of(number) for number in numbers if number not in edited
        ).items():
            self._texts[self._number_by_row[row]] = texts
        self._texts |= {number: edited[number] for number in numbers if number in edited}

    def _weighted(self, texts: Sequence[str], asked: frozenset[str]) -> Mapping[str, float]:
        """Return the weighted frequency in a document of each of these stems that it contains."""
        frequencies: defaultdict[str, float] = defaultdict(float)
        statistics = self._statistics
        for text, weight, average, common in zip(
            texts, statistics.fields, statistics.averages, statistics.common, strict=True
        ):
            stems = text.split()
            found = [*filter(asked.__contains__, stems)]
            if found and (wanted := {*found} - common):
                length = len([stem for stem in stems if stem not in common]) if common else len(stems)
                of_one = share(weight, length, average)
                for stem in wanted:
                    frequencies[stem] += of_one * found.count(stem)
        return frequencies


class _Chosen:
    """The documents that contain some words of a query, with the sum of their rarities, while further words are added.

    Cached reads are charged like others, so that a query always has the same answer.
    """

    def __init__(self, among: AbstractSet[int] | None) -> None:
        self.rarities: dict[int, float] = {}
        self.read: list[Word] = []
        self.to_collect, self.left = POSTINGS_MAX, READ_MAX
        self._among = among

    def searched(self, numbers: Iterable[int]) -> Sequence[int]:
        """Return those of these documents that are searched."""
        return [*(numbers if self._among is None else filter(self._among.__contains__, numbers))]

    def collect(self, word: Word, numbers: NumberSet | Sequence[int], worth: float) -> None:
        """Add the documents that contain a word."""
        self.read.append(word)
        for number in self.searched(numbers):
            self.rarities[number] = self.rarities.get(number, 0.0) + worth
        self.to_collect -= len(numbers)
        self.left -= len(numbers)

    def add_rarity(self, having: Iterable[int], read: int, worth: float) -> None:
        """Add a word's rarity to those already collected documents that contain it; it costs ``read`` postings."""
        for number in filter(self.rarities.__contains__, having):
            self.rarities[number] += worth
        self.left -= read
