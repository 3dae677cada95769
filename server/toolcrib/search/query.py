"""Parses a request in a person's words: which of them count, their weights, and its clauses.

Knows how people ask; never knows what is searched or what any word means there.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from toolcrib.base.text import QUERY_MAX, STOP_WORDS, words

_FRAMING, _QUOTED, _PLACEHOLDER = 0.3, 0.6, 0.4
"""Weights of words that only frame the request, that are quoted, and of placeholders.

Measured on the tuned halves of four catalogs: flat around these values.
"""

_COMPLEMENT, _OBJECT_WORDS_MIN = 0.9, 2
"""Factor on the weight of words behind the first preposition of a request of one clause, and how many words precede it.

"Comments of an issue" are comments. Measured on both halves of five sets: none loses with 0.9; less takes from some.
"""

PREPOSITIONS = frozenset("about as at by for from in into of on to under with".split())
_BEFORE_COMPLEMENT = PREPOSITIONS - {"with"}
"""What follows "with" is often what is wanted: "cover it with tests"."""

FRAMING_WORDS = frozenset(
    "assist assistance assisting currently help helping ideally interested like liked look looking need needed needs "
    "please possible possibly preferably provide provided provides providing recommend recommendation recommendations "
    "recommended specific specifically suggestion suggestions urgent urgently want wanted wanting wants wonder "
    "wondering".split()
)
"""Words that say that something is wanted, not what."""

_TERMS_MAX = 160
"""Maximum number of distinct words that count, from the start."""

_PART_WORDS_MIN, _WHOLE_WORDS_MIN, _PARTS_MAX = 2, 8, 6
"""Minimum number of significant words of a part, minimum number of a request that is split into parts, and maximum
number of parts.
"""

_REMEMBERED_MAX = 16
"""Requests are parsed repeatedly only within one search."""

_SET_APART = re.compile(
    r"(?P<placeholder><[^<>\n]{1,60}>)"
    r"|(?P<quoted>'[^'\n]{2,120}'(?!\w)|\"[^\"\n]{2,200}\"|“[^“”\n]{2,200}”|https?://\S{1,200}|[\w.+-]{1,60}@[\w.-]{1,60})"
)
SET_APART_MARK = "0"
"""A digit, so that together with adjacent characters it never forms a purely alphabetic word."""

_WEIGHTS = {"placeholder": _PLACEHOLDER, "quoted": _QUOTED}
_PART_END = re.compile(
    r"(?<=[.!?;])\s+|\n+|;\s*|,\s+and\s+|,?\s+(?:and\s+)?(?:then|afterwards|after that|finally|next|also)[,\s]+",
    re.IGNORECASE,
)

Terms = Mapping[str, float]
"""The words that count, in order, with their weights; at most 1."""


@dataclass(frozen=True, slots=True)
class Part:
    """A request, or one clause of it. ``text`` is the original text."""

    text: str
    terms: Terms


@dataclass(frozen=True, slots=True)
class Query(Part):
    """A whole request. ``parts`` are its clauses, if it is long and has several."""

    parts: Sequence[Part] = ()


@lru_cache(_REMEMBERED_MAX)
def parsed(text: str) -> Query:
    """Parse a request into words and parts; only its first ``QUERY_MAX`` characters count."""
    text = text[:QUERY_MAX]
    terms = _terms(text)
    parts = _parts(text, terms)
    return Query(text, terms if parts else _object_first(text, terms), parts)


def plain(text: str) -> Query:
    """Return a request in which every word has the same weight, such as one of stop words only."""
    return Query(text[:QUERY_MAX], dict.fromkeys(islice(words(text[:QUERY_MAX]), _TERMS_MAX), 1.0))


def without_set_apart(text: str) -> str:
    """Return a request with each quotation, address and placeholder replaced by ``SET_APART_MARK``."""
    return _SET_APART.sub(SET_APART_MARK, text)


def _terms(text: str) -> Terms:
    counted: dict[str, float] = {}
    for piece, weight in _pieces(text):
        for word in words(piece):
            if word not in STOP_WORDS and (word in counted or len(counted) < _TERMS_MAX):
                own = weight * (_FRAMING if word in FRAMING_WORDS else 1.0)
                counted[word] = max(own, counted.get(word, 0.0))
    most = max(counted.values(), default=1.0)
    return {word: weight / most for word, weight in counted.items()} if most < 1 else counted


def _object_first(text: str, terms: Terms) -> Terms:
    """Return the terms of one clause; those that only follow a preposition say where, or of what, and weigh less."""
    if _PART_END.search(text):
        return terms
    object_words: set[str] = set()
    # A preposition inside a quotation, an address or a compound ("check-in") begins no complement.
    for token in without_set_apart(text).split():
        if token.lower() in _BEFORE_COMPLEMENT and len(object_words - FRAMING_WORDS) >= _OBJECT_WORDS_MIN:
            return {term: own if term in object_words else own * _COMPLEMENT for term, own in terms.items()}
        object_words.update(word for word in words(token) if word in terms)
    return terms


def _pieces(text: str) -> Iterator[tuple[str, float]]:
    """Yield the text in pieces, each with the weight of its words."""
    place = 0
    for found in _SET_APART.finditer(text):
        yield text[place : found.start()], 1.0
        yield found[0], _WEIGHTS[found.lastgroup or ""]
        place = found.end()
    yield text[place:], 1.0


def _parts(text: str, terms: Terms) -> Sequence[Part]:
    if len(terms) < _WHOLE_WORDS_MIN:
        return ()
    clauses = (Part(clause, _share(clause, terms)) for clause in _PART_END.split(text) if clause)
    telling = (part for part in clauses if _telling(part.terms) >= _PART_WORDS_MIN)
    parts = [*islice(telling, _PARTS_MAX)]
    return parts if len(parts) > 1 else ()


def _share(clause: str, terms: Terms) -> Terms:
    return {word: terms[word] for word in words(clause) if word in terms}


def _telling(terms: Terms) -> int:
    return sum(word not in FRAMING_WORDS for word in terms)
