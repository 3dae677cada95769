"""What use has taught about words: which tools somebody meant who said them, as weights that fade (ADR 49).

Knows words, names and times; never knows who has taught them, whether there is such a tool or who may use it.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from toolcrib.base.text import QUERY_MAX, words
from toolcrib.search.query import FRAMING_WORDS, SET_APART_MARK, parsed, without_set_apart

HALF_LIFE_S = 30 * 86_400.0
"""A lesson weighs half once others have come for so long."""

ENTRIES_MAX = 1000
"""Pairs of a word and a tool that one vocabulary has; beyond them a tenth goes, of the tools with the most words."""

WEIGHT_MAX = 4.0
"""However often the same is taught, it weighs no more: what is taught otherwise can always catch up."""

_WORDS_MAX, _LONGEST, _SHORTEST = 8, 20, 3
"""A request with more words teaches nothing: most of them are incidental. Letters of a word that is learnt."""

_PLAIN = re.compile(r"(?<!\S)[^\w\s]*+([^\W\d_]++(?:['\u2019-][^\W\d_]++)?+)[^\w\s]*+(?!\S)")
"""Letters, perhaps in two parts, with marks around them, between spaces."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """Somebody said these words (stems) and used this tool. ``worth`` is its weight, ``at`` seconds since the epoch."""

    words: tuple[str, ...]
    tool: str
    worth: float
    at: float


@dataclass(frozen=True, slots=True)
class Entry:
    """What was taught about a word and a tool: the weight of the lessons at the time ``at`` of the last of them."""

    weight: float
    at: float

    def weight_at(self, now: float) -> float:
        """Return what is left of the weight: half after each half-life."""
        return self.weight * 0.5 ** (max(now - self.at, 0.0) / HALF_LIFE_S)

    def sureness_at(self, now: float) -> float:
        """Return what is left of the weight as a share of certainty, from 0 and below 1."""
        weight = self.weight_at(now)
        return weight / (1 + weight)

    def after(self, lesson: Lesson) -> "Entry":
        """Return it with one more lesson."""
        return Entry(min(self.weight_at(lesson.at) + lesson.worth, WEIGHT_MAX), max(self.at, lesson.at))


Entries = Mapping[str, Mapping[str, Entry]]
"""By word (a stem), by the public name of a tool."""


@dataclass(frozen=True)
class Vocabulary:
    """All that one owner has taught, as one immutable value.

    It ages by its own lessons and never by a clock: as long as nobody teaches anything, it says the same (R7).
    """

    entries: Entries

    @cached_property
    def last_lessons(self) -> Mapping[str, float]:
        """When the last lesson about each tool was, in seconds since the epoch."""
        last: dict[str, float] = {}
        for _, tool, entry in self.pairs():
            last[tool] = max(entry.at, last.get(tool, entry.at))
        return last

    def newest(self, tools: Container[str]) -> float:
        """Return when the last lesson about some tools was, in seconds since the epoch; 0 without any."""
        return max((at for tool, at in self.last_lessons.items() if tool in tools), default=0.0)

    @cached_property
    def size(self) -> int:
        """How many entries there are."""
        return sum(map(len, self.entries.values()))

    def pairs(self) -> Iterator[tuple[str, str, Entry]]:
        """Yield every word with each tool and what was taught about the two."""
        for word, by_tool in self.entries.items():
            for tool, entry in by_tool.items():
                yield word, tool, entry

    def after(self, lesson: Lesson) -> "Vocabulary":
        """Return it with one more lesson, within the bounds."""
        entries = dict(self.entries)
        for word in lesson.words:
            by_tool = entries.get(word, {})
            known = by_tool.get(lesson.tool, Entry(0.0, lesson.at))
            entries[word] = {**by_tool, lesson.tool: known.after(lesson)}
        taught = Vocabulary(entries)
        return taught._lessened() if taught.size > ENTRIES_MAX else taught

    def sureness(self, words: Iterable[str], tools: Container[str]) -> Mapping[str, Mapping[str, float]]:
        """Return how surely each of these words means each of ``tools`` that it was taught for, above 0 and below 1.

        Lessons about other tools count for nothing, and make none older: who may not use those must not notice.
        """
        now, untaught = self.newest(tools), dict[str, Entry]()
        taught = ((word, self.entries.get(word, untaught)) for word in words)
        return {
            word: {tool: entry.sureness_at(now) for tool, entry in by_tool.items() if tool in tools}
            for word, by_tool in taught
        }

    def words_of(self, query: str, stem: Callable[[str], str]) -> tuple[str, ...]:
        """Return the stems of the words of a query that can be learnt; none where nothing was taught of any word."""
        if self.entries.keys().isdisjoint(map(stem, parsed(query).terms)):
            return ()
        return learnable(query, stem)

    def _lessened(self) -> "Vocabulary":
        """Return it without a tenth: of the tools with the most words those that weigh least.

        So what is taught of some tools, however much, takes little of what was taught of others.
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
    """Return a vocabulary of words, tools, and what was taught about each two."""
    entries: dict[str, dict[str, Entry]] = {}
    for word, tool, entry in pairs:
        entries.setdefault(word, {})[tool] = entry
    return Vocabulary(entries)


def learnable(text: str, stem: Callable[[str], str]) -> tuple[str, ...]:
    """Return the stems of the words of a request that may be learnt; none of a long one, or one that may be cut short.

    Only plain words in letters: nothing quoted, no address, nothing with a digit or written like a name or a key, none
    that merely asks. What a person types besides words, such as a password, should not be kept.
    """
    # A secret that is cut short is known to nobody any more.
    if len(text) >= QUERY_MAX:
        return ()
    text = without_set_apart(text)
    telling = parsed(text).terms.keys() - FRAMING_WORDS - {SET_APART_MARK}
    if len(telling) > _WORDS_MAX:
        return ()
    plain = words(" ".join(filter(_is_natural, _PLAIN.findall(text))))
    return tuple(dict.fromkeys(stem(word) for word in plain if word in telling and _is_word(word)))


def _is_natural(word: str) -> bool:
    """Return whether a word has capitals at its beginning at most, or nothing else: not as names in programs do."""
    return word[1:] == word[1:].lower() or word == word.upper()


def _is_word(word: str) -> bool:
    return len(word) <= _LONGEST and (len(word) >= _SHORTEST or not word.isascii())
