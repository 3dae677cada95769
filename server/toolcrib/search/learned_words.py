"""Words learned from use: the tools a caller meant by them, as weights that decay (ADR 49)."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from toolcrib.base.text import QUERY_MAX, words
from toolcrib.search.query import FRAMING_WORDS, SET_APART_MARK, parsed, without_set_apart

HALF_LIFE_S = 30 * 86_400.0
"""The weight of a lesson halves once later lessons span this time."""

ENTRIES_MAX = 1000
"""Maximum number of (word, tool) pairs in one vocabulary; when it is exceeded, a tenth is removed, from the tools with
the most words.
"""

WEIGHT_MAX = 4.0
"""Maximum weight of an entry, so that repeated lessons can always be outweighed by later ones."""

_WORDS_MAX, _LONGEST, _SHORTEST = 8, 20, 3
"""Maximum number of words of a request that teaches anything, since most words of a longer one are incidental; and
maximum and minimum length of a learnable word.
"""

_PLAIN = re.compile(r"(?<!\S)[^\w\s]*+([^\W\d_]++(?:['\u2019-][^\W\d_]++)?+)[^\w\s]*+(?!\S)")
"""One or two groups of letters, optionally with punctuation around them, between spaces."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """These words (stems) led to the use of this tool. ``worth`` is its weight, ``at`` is seconds since the epoch."""

    words: tuple[str, ...]
    tool: str
    worth: float
    at: float


@dataclass(frozen=True, slots=True)
class Entry:
    """What was learnt about a word and a tool: the weight of the lessons as of ``at``, the time of the last one."""

    weight: float
    at: float

    def weight_at(self, now: float) -> float:
        """Return the decayed weight: it halves with each half-life."""
        return self.weight * 0.5 ** (max(now - self.at, 0.0) / HALF_LIFE_S)

    def sureness_at(self, now: float) -> float:
        """Return the decayed weight as a certainty, at least 0 and below 1."""
        weight = self.weight_at(now)
        return weight / (1 + weight)

    def after(self, lesson: Lesson) -> "Entry":
        """Return the entry with one more lesson."""
        return Entry(min(self.weight_at(lesson.at) + lesson.worth, WEIGHT_MAX), max(self.at, lesson.at))


Entries = Mapping[str, Mapping[str, Entry]]
"""By word (a stem), then by the public name of a tool."""


@dataclass(frozen=True)
class Vocabulary:
    """All that one owner has taught, as one immutable value.

    It decays with its own lessons, never with a clock: without new lessons its results stay the same (R7).
    """

    entries: Entries

    @cached_property
    def last_lessons(self) -> Mapping[str, float]:
        """The time of the last lesson about each tool, in seconds since the epoch."""
        last: dict[str, float] = {}
        for _, tool, entry in self.pairs():
            last[tool] = max(entry.at, last.get(tool, entry.at))
        return last

    def newest(self, tools: Container[str]) -> float:
        """Return the time of the last lesson about any of these tools, in seconds since the epoch; 0 without any."""
        return max((at for tool, at in self.last_lessons.items() if tool in tools), default=0.0)

    @cached_property
    def size(self) -> int:
        """The number of entries."""
        return sum(map(len, self.entries.values()))

    def pairs(self) -> Iterator[tuple[str, str, Entry]]:
        """Yield every (word, tool) pair with its entry."""
        for word, by_tool in self.entries.items():
            for tool, entry in by_tool.items():
                yield word, tool, entry

    def after(self, lesson: Lesson) -> "Vocabulary":
        """Return the vocabulary with one more lesson, within the bounds."""
        entries = dict(self.entries)
        for word in lesson.words:
            by_tool = entries.get(word, {})
            known = by_tool.get(lesson.tool, Entry(0.0, lesson.at))
            entries[word] = {**by_tool, lesson.tool: known.after(lesson)}
        taught = Vocabulary(entries)
        return taught._lessened() if taught.size > ENTRIES_MAX else taught

    def sureness(self, words: Iterable[str], tools: Container[str]) -> Mapping[str, Mapping[str, float]]:
        """Return how surely each of these words means each of ``tools`` that it was taught for, above 0 and below 1.

        Lessons about other tools neither count nor age these: callers who may not use those tools must not notice them.
        """
        now, untaught = self.newest(tools), dict[str, Entry]()
        taught = ((word, self.entries.get(word, untaught)) for word in words)
        return {
            word: {tool: entry.sureness_at(now) for tool, entry in by_tool.items() if tool in tools}
            for word, by_tool in taught
        }

    def words_of(self, query: str, stem: Callable[[str], str]) -> tuple[str, ...]:
        """Return the learnable stems of a query; none if nothing was taught about any of its words."""
        if self.entries.keys().isdisjoint(map(stem, parsed(query).terms)):
            return ()
        return learnable(query, stem)

    def _lessened(self) -> "Vocabulary":
        """Return it without a tenth of its entries: those of least weight, from the tools with the most words.

        So however much is taught about some tools, it displaces little of what was taught about others.
        """
        now = self.newest(self.last_lessons)
        by_weight = sorted(self.pairs(), key=lambda pair: (-pair[2].weight_at(now), -pair[2].at, *pair[:2]))
        words_of = Counter[str]()
        ranked: list[tuple[int, tuple[str, str, Entry]]] = []
        for pair in by_weight:
            words_of[pair[1]] += 1
            ranked.append((words_of[pair[1]], pair))
        ranked.sort(key=lambda each: each[0])
        return vocabulary_of([pair for _, pair in ranked[: ENTRIES_MAX * 9 // 10]])


NOTHING_LEARNT = Vocabulary({})


def vocabulary_of(pairs: Collection[tuple[str, str, Entry]]) -> Vocabulary:
    """Return a vocabulary of (word, tool, entry) triples."""
    entries: dict[str, dict[str, Entry]] = {}
    for word, tool, entry in pairs:
        entries.setdefault(word, {})[tool] = entry
    return Vocabulary(entries)


def learnable(
    text: str, stem: Callable[[str], str], is_private: Callable[[str], bool] = lambda _word: False
) -> tuple[str, ...]:
    """Return the learnable stems of a request; none of a long one, or one that may have been truncated.

    Only ordinary words in letters are learnt: nothing quoted, no address, nothing with a digit or written like an
    identifier or a key, and no framing words. What a person types besides words, such as a password, must not be
    stored, nor a word that ``is_private``.
    """
    # A truncated secret can no longer be recognized.
    if len(text) >= QUERY_MAX:
        return ()
    text = without_set_apart(text)
    significant = parsed(text).terms.keys() - FRAMING_WORDS - {SET_APART_MARK}
    if len(significant) > _WORDS_MAX:
        return ()
    plain = words(" ".join(filter(_is_natural, _PLAIN.findall(text))))
    learnable = (word for word in plain if word in significant and _is_word(word) and not is_private(word))
    return tuple(dict.fromkeys(map(stem, learnable)))


def _is_natural(word: str) -> bool:
    """Return whether a word is capitalized at most at its beginning, or fully, unlike identifiers in programs."""
    return word[1:] == word[1:].lower() or word == word.upper()


def _is_word(word: str) -> bool:
    return len(word) <= _LONGEST and (len(word) >= _SHORTEST or not word.isascii())
