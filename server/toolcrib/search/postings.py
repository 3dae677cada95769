"""An inverted index in memory, derived from an earlier one by the documents that differ (ADR 53)."""

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from math import log
from threading import Lock
from typing import Protocol

from toolcrib.search.english import APART
from toolcrib.search.query import NO_ACTIONS, Actions, SynonymGroup, Vocabulary

LENGTH_MIN = 4
"""A shorter word is too close to too many others."""

_LENGTH_MAX = 40
_OTHER_FIRST_MIN = 6
"""A word with another first letter is usually a different word, unless it is long."""


class Lexicon:
    """Words indexed by every spelling with one letter removed: a deletion index.

    Several sets of documents may share one that has the words of all of them. Safe to use from several threads.
    """

    def __init__(self, words: Iterable[str] = ()) -> None:
        self._by_shortened: dict[str, str] = {}  # words joined by spaces: nothing for the garbage collector to traverse
        self._words = set[str]()
        self._learning = Lock()
        self.learn(words)

    def learn(self, words: Iterable[str]) -> None:
        """Add those of ``words`` that are new."""
        with self._learning:
            for word in words:
                if word not in self._words and _is_correctable(word):
                    for shortened in _shortened(word):
                        others = self._by_shortened.get(shortened)
                        self._by_shortened[shortened] = f"{others} {word}" if others else word
                    self._words.add(word)

    def near(self, word: str, among: Container[str] | None = None) -> list[str]:
        """Return the known words, ``among`` some (None: all), that are one edit away, sorted.

        These are the ones with the same first letter, or else the others. An edit is an inserted, missing or wrong
        letter, or a transposition of two neighbours.
        """
        if not _is_correctable(word):
            return []
        # One edit leaves both words one deletion away from a common form, where they meet; words further apart may meet
        # too, so distances are checked at the end.
        met = {near for shortened in _shortened(word) for near in self._by_shortened.get(shortened, "").split()}
        return nearest(word, met if among is None else [each for each in met if each in among])


def around(word: str) -> tuple[str, str, tuple[int, int]] | None:
    """Return the prefix or suffix that every word one edit away has, and its minimum and maximum length.

    None if the word is too short to be looked up.
    """
    if not _is_correctable(word):
        return None
    # One edit changes one letter or two neighbours, so one half stays intact, apart from the middle letter.
    half = (len(word) - 1) // 2
    return word[:half], word[len(word) - half :], (max(len(word) - 1, LENGTH_MIN), min(len(word) + 1, _LENGTH_MAX))


def nearest(word: str, words: Iterable[str]) -> list[str]:
    """Return those of ``words`` one edit away, sorted: those with the same first letter, or else the others."""
    near = sorted(each for each in words if _is_correctable(each) and is_one_edit(word, each))
    alike = [each for each in near if each[0] == word[0]]
    return alike or (near if len(word) >= _OTHER_FIRST_MIN else [])


def _is_correctable(word: str) -> bool:
    return LENGTH_MIN <= len(word) <= _LENGTH_MAX and not word.isdigit() and not word.startswith(APART)


def _shortened(word: str) -> Iterator[str]:
    yield word
    for place in range(len(word)):
        if place == 0 or word[place] != word[place - 1]:  # in a run of one letter each deletion gives the same
            yield word[:place] + word[place + 1 :]


def is_one_edit(one: str, other: str) -> bool:
    """Return whether the words are at most one edit apart (optimal string alignment distance)."""
    if abs(len(one) - len(other)) > 1:
        return False
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    one, other = one[start:], other[start:]
    return (
        one[1:] == other[1:]
        or one == other[1:]
        or one[1:] == other
        or (one[:2] == other[1::-1] and one[2:] == other[2:])
    )


def rarity(having: int, size: int) -> float:
    """Return the rarity weight (IDF) of a word that ``having`` of ``size`` documents contain."""
    # Adding 1 keeps it non-negative; the classic form is negative for words that most documents contain.
    return log(1 + (size - having + 0.5) / (having + 0.5))


_DENSE = 4
"""A number takes four bytes, an entry of the dense form one."""


class NumberSet:
    """Some of the numbers below ``size``."""

    def __init__(self, numbers: Iterable[int], size: int) -> None:
        self._numbers: array[int] | None = array("I", numbers)
        self._flags = b""
        self._length = len(self._numbers)
        if self._length * _DENSE > size:
            flags = bytearray(size)
            for number in self._numbers:
                flags[number] = 1
            self._numbers, self._flags = None, bytes(flags)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:
        if self._numbers is None:
            return compress(range(len(self._flags)), self._flags)
        return iter(self._numbers)

    def among(self, numbers: Sequence[int]) -> Iterable[int]:
        """Return those of ``numbers`` that are in this set."""
        if self._numbers is None:
            return compress(numbers, map(self._flags.__getitem__, numbers))
        return set(numbers).intersection(self._numbers)


class Postings(Vocabulary, Protocol):
    """The vocabulary of some documents, and where each stem occurs."""

    def name(self, number: int) -> Sequence[str]:
        """Return the stems of the name of a scored document."""
        ...

    def action(self, number: int) -> Actions:
        """Return what a scored document does, as far as its own words say."""
        ...

    def scores(
        self, weights: Mapping[str, float], among: Collection[int] | None, synonyms: Sequence[SynonymGroup] = ()
    ) -> Mapping[int, float]:
        """Return the fielded BM25 scores of the documents ``among`` (None: all) that contain any of these stems.

        ``weights`` are those of stems, ``synonyms`` have those of synonyms. For very large sets, an implementation
        may score only the most promising documents.
        """
        ...

    def having(self, term: str, numbers: Collection[int]) -> Collection[int]:
        """Return those of ``numbers``, which are scored documents, that contain a stem."""
        ...

    def only_aside(self, stems: Collection[str], number: int) -> Collection[str]:
        """Return those of ``stems`` that a scored document contains in fields of examples alone."""
        ...


COMMON_MIN = 20
"""In smaller sets no word counts as common."""

_SPARSE_MIN = 1000
"""Number of empty slots that are always tolerated; beyond it at most as many as there are documents."""

Text = str | Mapping[str, int]
"""One field of a document: split words, or its stems with their frequencies."""

Does = Callable[[Sequence[Text]], Actions]
"""Derives a document's actions from its texts."""

Version = str
"""A digest of a document including its name: documents with equal versions have equal words."""


@dataclass(frozen=True, slots=True)
class Worded:
    """A document to be indexed: a text for each field. ``version`` None: it cannot be identified."""

    texts: Sequence[Text]
    version: Version | None = None


Read = Callable[[Sequence[int]], Iterable[Worded]]
"""Returns the documents with these numbers, in order."""


@dataclass(frozen=True, slots=True)
class Counting:
    """How documents are indexed: ``width`` is the number of fields, ``does`` derives actions from texts.

    ``common``: a stem found in this field of a larger share of the documents is ignored there.
    """

    stem: Callable[[str], str]
    width: int
    common: Mapping[int, float]
    does: Does | None = None

    def counts(self, texts: Iterable[Text]) -> list[Mapping[str, int]]:
        """Return the stems of each text with their frequencies."""
        return [Counter(map(self.stem, text.split())) if isinstance(text, str) else text for text in texts]


@dataclass(slots=True)
class Posting:
    """The occurrences of a stem: its cells, ascending, its frequency in each, and its document count.

    A document has a slot, and each of its fields a cell: ``slot * width + place``.
    """

    cells: "array[int]"
    counts: "array[int]"
    documents: int


@dataclass(frozen=True, slots=True)
class Document:
    """An indexed document. ``stems``: each once, starting with the ``named`` stems of its name, the first field.

    ``action`` is what it does.
    """

    stems: Sequence[str]
    named: int
    action: Actions
    version: Version | None


@dataclass(frozen=True, slots=True, eq=False)
class Inverted:
    """An inverted index of some documents, as one immutable value; it contains nothing of any other document.

    ``slots`` are those of documents with a version, ``documents`` all by slot. ``having`` is the document count of each
    stem in a field, and ``common`` the stems ignored there, for the fields that track these. ``lengths`` has the number
    of counted words of each cell. ``lexicon`` may know more words than these documents contain. Unchanged parts are
    shared with the value that this one was derived from.
    """

    counting: Counting
    slots: Mapping[Version, int]
    documents: Mapping[int, Document]
    postings: Mapping[str, Posting]
    having: Mapping[int, Mapping[str, int]]
    common: Mapping[int, frozenset[str]]
    lengths: "array[int]"
    lexicon: Lexicon

    def shared(self, versions: Iterable[Version | None]) -> int:
        """Return how many documents of these versions are indexed here."""
        return sum(version in self.slots for version in versions)

    def first_field(self, stem: str, slot: int) -> int | None:
        """Return the first field in which a document contains a stem; None if none does."""
        posting = self.postings.get(stem)
        if posting is None:
            return None
        cells, width = posting.cells, self.counting.width
        place = bisect_left(cells, slot * width)
        field = cells[place] - slot * width if place < len(cells) else width
        return field if field < width else None

    def derive(self, versions: Sequence[Version | None], read: Read) -> tuple["Inverted", Sequence[int]]:
        """Return an index of the documents with these versions, and the slot of each; missing documents are read.

        A document whose version is None is always read and counted.
        """
        kept = {slot for version in versions if version and (slot := self.slots.get(version)) is not None}
        # Removing a document takes longer than adding one.
        draft = _Draft(self if 2 * len(kept) > len(self.documents) else nothing(self.counting))
        for slot in draft.documents.keys() - kept:
            draft.remove(slot)
        draft.close_up()
        slots = [draft.slots.get(version, -1) if version else -1 for version in versions]
        missing = [number for number, slot in enumerate(slots) if slot < 0]
        for number, document in zip(missing, read(missing) if missing else (), strict=True):
            slots[number] = draft.add(document)
        return draft.done(), slots


def nothing(counting: Counting) -> Inverted:
    """Return the empty index."""
    having = {place: dict[str, int]() for place in counting.common}
    common = {place: frozenset[str]() for place in counting.common}
    return Inverted(counting, {}, {}, {}, having, common, array("I"), Lexicon())


def in_fields(places: Collection[int], width: int, cells: "array[int]") -> Iterator[bool]:
    """Yield for each of these cells whether it belongs to one of these fields."""
    flags = [place in places for place in range(width)] * (cells[-1] // width + 1) if cells else []
    return map(flags.__getitem__, cells)


class _Draft:
    """An index under construction. What it shares with another index is copied before it is changed."""

    def __init__(self, base: Inverted) -> None:
        self._counting, self._width = base.counting, base.counting.width
        self.slots, self.documents = dict(base.slots), dict(base.documents)
        self._postings = dict(base.postings)
        self._having = {place: dict(having) for place, having in base.having.items()}
        self._common = base.common
        self._lengths, self._lexicon = base.lengths[:], base.lexicon
        self._own = dict[str, Posting]()

    def add(self, worded: Worded) -> int:
        """Append a document; return its slot."""
        slot = len(self._lengths) // self._width
        counted, own = self._counting.counts(worded.texts), self._own
        for cell, counts in enumerate(counted, slot * self._width):
            common = self._common.get(cell % self._width, frozenset()).intersection(counts)
            self._lengths.append(sum(counts.values()) - sum(map(counts.__getitem__, common)))
            for stem, count in counts.items():
                posting = own.get(stem) or self._own_copy(stem)
                posting.cells.append(cell)
                posting.counts.append(count)
        stems = tuple(dict.fromkeys(chain.from_iterable(counted)))
        for stem in stems:
            own[stem].documents += 1
        for place, having in self._having.items():
            for stem in counted[place]:
                having[stem] = having.get(stem, 0) + 1
        action = self._counting.does(worded.texts) if self._counting.does else NO_ACTIONS
        self.documents[slot] = Document(stems, len(counted[0]), action, worded.version)
        if worded.version is not None:
            self.slots[worded.version] = slot
        return slot

    def remove(self, slot: int) -> None:
        """Remove a document."""
        document = self.documents.pop(slot)
        if document.version is not None:
            del self.slots[document.version]
        start, end = slot * self._width, (slot + 1) * self._width
        self._lengths[start:end] = array("I", bytes(self._lengths.itemsize * self._width))
        for stem in document.stems:
            posting = self._own.get(stem) or self._own_copy(stem)
            first = bisect_left(posting.cells, start)
            last = bisect_left(posting.cells, end, first)
            for cell in posting.cells[first:last]:
                if having := self._having.get(cell - start):
                    having[stem] -= 1
            del posting.cells[first:last], posting.counts[first:last]
            posting.documents -= 1
            if not posting.documents:
                self._forget(stem)

    def close_up(self) -> None:
        """Renumber the slots consecutively if too many are empty."""
        width = self._width
        if len(self._lengths) <= width * (2 * len(self.documents) + _SPARSE_MIN):
            return
        moved = {slot: number for number, slot in enumerate(sorted(self.documents))}
        cells, lengths = array("I", bytes(self._lengths.itemsize * len(self._lengths))), array("I")
        for slot, number in moved.items():
            cells[slot * width : (slot + 1) * width] = array("I", range(number * width, (number + 1) * width))
            lengths += self._lengths[slot * width : (slot + 1) * width]
        for stem, posting in self._postings.items():
            others = array("I", map(cells.__getitem__, posting.cells))
            self._postings[stem] = Posting(others, posting.counts[:], posting.documents)
        self._own = dict(self._postings)
        self.documents = {number: self.documents[slot] for slot, number in moved.items()}
        self.slots = {version: moved[slot] for version, slot in self.slots.items()}
        self._lengths, self._lexicon = lengths, Lexicon()

    def done(self) -> Inverted:
        """Return the finished index."""
        common = {place: self._now_common(place) for place in self._common}
        for place, stems in common.items():
            for stem in stems - self._common[place]:
                self._lengthen(stem, place, -1)
            for stem in self._common[place] - stems:
                self._lengthen(stem, place, 1)
        return Inverted(
            self._counting,
            self.slots,
            self.documents,
            self._postings,
            self._having,
            common,
            self._lengths,
            self._lexicon,
        )

    def _now_common(self, place: int) -> frozenset[str]:
        """Return the stems that too many documents have in a field: they do not discriminate."""
        if len(self.documents) < COMMON_MIN:
            return frozenset()
        most = self._counting.common[place] * len(self.documents)
        return frozenset([stem for stem, having in self._having[place].items() if having > most])

    def _lengthen(self, stem: str, place: int, times: int) -> None:
        """Change how many occurrences of a stem count in the lengths of a field."""
        posting = self._postings.get(stem)
        if posting is not None:
            there = [*in_fields((place,), self._width, posting.cells)]
            for cell, count in zip(compress(posting.cells, there), compress(posting.counts, there), strict=True):
                self._lengths[cell] += times * count

    def _own_copy(self, stem: str) -> Posting:
        """Return a copy of a stem's posting that may be changed."""
        posting = self._postings.get(stem)
        if posting is None:
            own = Posting(array("I"), array("I"), 0)
        else:
            own = Posting(posting.cells[:], posting.counts[:], posting.documents)
        self._own[stem] = self._postings[stem] = own
        return own

    def _forget(self, stem: str) -> None:
        """Remove a stem that no document has any more."""
        del self._postings[stem], self._own[stem]
        for having in self._having.values():
            having.pop(stem, None)
