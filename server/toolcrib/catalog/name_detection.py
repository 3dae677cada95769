"""Finds the places in a text where a word may be the name of a tool."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Literal, NamedTuple

from toolcrib.base.cache import SENTENCE_MAX, WORD_MAX, Remembered
from toolcrib.base.markdown import fences
from toolcrib.base.text import unjoined

Kind = Literal["prose", "code", "alone"]
"""The context of a word: running text; code or the word "tool"; or a code span with nothing else in it."""

# Repetitions are possessive, so that no text makes a pattern slow. Our own "another tool" is matched first, without a
# group, so it is not a place: cleaning is idempotent.
_WORD = re.compile(
    r"""another[ ]tool(?![A-Za-z0-9_-])
    | (?P<url>[A-Za-z][A-Za-z0-9+.-]{0,15}://[^\s"'<>()\[\]`]*)
    | (?P<host>(?<![\w.-])(?:[A-Za-z0-9-]++\.)+(?:com|org|net|io|dev|ai|app|co|gov|edu)(?![\w-]|\.\w))
    | (?P<name>(?:[A-Za-z0-9_\u00c0-\u1fff-]|\\[_-])++(?:[.:/](?:[A-Za-z0-9_\u00c0-\u1fff-]|\\[_-])++)*+)""",
    re.VERBOSE,
)
"""What may be or contain a name. Letters of unspaced scripts are excluded: they occur right beside names."""

_URL_START = re.compile(r"[^:]*://[^/?#]*")
_URL_PART = re.compile(r"[A-Za-z0-9_.:/\\-]+")
_SEVERAL_WORDS = re.compile(r"[_\-./:]|[a-z0-9][A-Z]")

# Lists have at most nine words, so that the work for each place is bounded.
_CALLED_A_TOOL = re.compile(
    r"""\b(?:the|use|using|call|calling|run|running|invoke|invoking)\s++
        (?P<before>(?!(?:an?|any|each|every|its|our|that|the|these|this|those|your)\b)
            ["'*\u2018-\u201d]*+\w++["'*\u2018-\u201d]*+
            (?:(?:,\s*+(?:(?:and|or)\s++)?|\s++(?:and|or)\s++|/)(?!(?:an?|the)\b)
            ["'*\u2018-\u201d]*+\w++["'*\u2018-\u201d]*+){0,8}+)
        \s++(?:MCP\s++)?tool(?P<several>s?)\b
    | (?P<quoted>["'*\u2018-\u201d]++\w++["'*\u2018-\u201d]++)\s++tools?\b
    | \btools?\s++(?:named|called)\s++["'*\u2018-\u201d]*+(?P<named>\w++)
    | \btools?\s++["'\u2018-\u201d]\**+(?P<after>\w++)\**+["'\u2018-\u201d]
    | \b(?:call|calling|run|running|invoke|invoking)\s++(?:the\s++)?tool\s++(?P<unquoted>\w++)""",
    re.VERBOSE | re.IGNORECASE,
)
"""A plain word, or a list of them, that is called a tool: ``the search tool``, but not ``a web search tool``."""

_PHRASE_CALLED_A_TOOL = re.compile(
    r"""\b(?:the|use|using|call|calling|run|running|invoke|invoking)\s++["'*\u2018-\u201d]*+
        (?P<before>(?!(?:an?|any|each|every|its|our|that|the|these|this|those|your)\b)[^\W_]++
            (?:[ ](?!(?:and|or|mcp|an?|the)\b)[^\W_]++){1,4}?)
        ["'*\u2018-\u201d]*+\s++(?:MCP\s++)?tool\b
    | (?P<quoted>["'*\u2018-\u201d]++[^\W_]++(?:[ ][^\W_]++){1,4}?["'*\u2018-\u201d]++)\s++tool\b
    | \btool\s++(?:(?:named|called)\s++)?
        (?P<after>["'*\u2018-\u201d]++[^\W_]++(?:[ ][^\W_]++){1,4}?["'*\u2018-\u201d])""",
    re.VERBOSE | re.IGNORECASE,
)
"""A name of several words apart that is called a tool: ``the Drop All tool``; what precedes it may be part of it."""

_PHRASE_IN_CODE = re.compile(r"`++ ?(?P<phrase>(?!another tool)[^\W_]++(?: [^\W_]++){1,4}+) ?`++\Z")
"""A code span with nothing but a few words apart; our own words are none, so that cleaning is idempotent."""

_A_TOOL = re.compile(r"tool", re.IGNORECASE)

_BREAK = re.compile(r"""[^\w\s"'*,/\u2018-\u201d]""")
"""Cannot occur in a phrase that calls a word a tool, so each part between two of these is searched separately."""

_MARK = re.compile(
    r"""[_\-\\.:/+A-Z](?:
        (?<=[_-]) | (?<=\\)(?=[_-]) | (?<=[.:/])(?=[A-Za-z0-9_\u00c0-\u1fff-]|\\[_-]) | (?<=[a-z0-9][A-Z])
        | (?<=:)(?=//) | (?<=[+.])(?=[+A-Za-z0-9.-]{0,14}+://))""",
    re.VERBOSE,
)
"""What turns the letters and digits before it into a name of several words, or a URL.

The pattern begins with a set of characters, so that the search does not try every position.
"""

_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
_FIRST_LETTER, _LAST_LETTER = "\u00c0", "\u1fff"
"""The range of other letters that a name may contain."""

_PLAIN_WORD = re.compile(r"\w+")
_CONJUNCTIONS = frozenset(("and", "or"))
_TOOL_NEXT = re.compile(r"""["'*_`)\u2018-\u201d]*\s+tool(s?)\b""", re.IGNORECASE)
_DETERMINER = re.compile(
    r"""\b(?:an?|each|every|its|our|that|the|these|this|those|your)\s+["'*_`(\u2018-\u201d]*\Z""", re.IGNORECASE
)
_DETERMINER_MAX = 16
"""Number of characters before a place in which a determiner is searched."""

_BLANK_LINES = re.compile(r"(\n[ \t\r]*\n)")
_TICKS = re.compile(r"`+")
_CODE_MARK, _URL_MARK = "`", "://"
_CODE_MARKS, _FENCES = ("`", "~~~"), ("```", "~~~")

_AFTER_SENTENCE = re.compile(r"(?<=[.!?]) ")
_PARTS_KEPT, _TEXTS_KEPT = 20_000, 10_000


class Place(NamedTuple):
    """A word of a text, from ``start`` to before ``end``, that may be or contain the name of a tool.

    In ``prose`` only a name of several words counts.
    """

    start: int
    end: int
    kind: Kind


def places(text: str) -> Iterator[Place]:
    """Yield every place in ``text`` that may be a tool's name, in order.

    A word of several parts (``create_issue``, ``db.drop``, ``listRuns``) anywhere; a plain word in code marks, or if
    the text calls it a tool, and likewise a few words apart, before the places of these words. Hosts of URLs do not
    count. Takes linear time.
    """
    at = 0
    for piece, in_code in by_code_marks(text):
        yield from (_in_code if in_code else _in_prose)(piece, at)
        at += len(piece)


def _in_code(piece: str, at: int) -> Iterator[Place]:
    whole = piece.strip("` ")
    if phrase := _PHRASE_IN_CODE.match(piece):
        yield Place(at + phrase.start("phrase"), at + phrase.end("phrase"), "code")
    for found in _WORD.finditer(piece):
        yield from _of_word(found, at, "alone" if found[0] == whole else "code")


def _in_prose(piece: str, at: int) -> Iterator[Place]:
    # Most texts do not contain "tool" at all, which is checked much faster.
    if not _A_TOOL.search(piece):
        return _of_words(piece, at, frozenset())
    phrases = [Place(at + start, at + end, "code") for start, end in _called_phrases(piece)]
    of_words = _of_words(piece, at, _called_tools(piece))
    return iter(sorted((*phrases, *of_words), key=lambda place: (place.start, -place.end))) if phrases else of_words


def _called_phrases(piece: str) -> Iterator[tuple[int, int]]:
    """Yield where words apart stand that are called a tool, from each word that may be the first of the name."""
    for found in _PHRASE_CALLED_A_TOOL.finditer(piece):
        assert found.lastgroup is not None, "every alternative has a group"
        words = list(_PLAIN_WORD.finditer(piece, *found.span(found.lastgroup)))
        # Of "the useful Drop All tool" some end is the name; what is quoted is one as a whole.
        firsts = words[:-1] if found.lastgroup == "before" else words[:1]
        yield from ((first.start(), words[-1].end()) for first in firsts)


def _of_words(piece: str, at: int, called: frozenset[int]) -> Iterator[Place]:
    starts = several_words(piece)
    if called:
        starts = sorted((*starts, *called))
    end = 0
    for start in starts:
        # A start inside the previous word belongs to that word.
        found = _WORD.match(piece, start) if start >= end else None
        if found is not None:
            end = found.end()
            yield from _of_word(found, at, "code" if start in called else "prose")


def several_words(text: str) -> list[int]:
    """Return the positions of names of several words, URLs, and some positions inside them."""
    starts: list[int] = []
    mark = start = -1
    for found in _MARK.finditer(text):
        begin = at = found.start()
        while begin > mark + 1 and _is_letter(text[begin - 1]):
            begin -= 1
        if begin == mark + 1 and mark >= 0 and _is_letter(text[mark]):
            begin = start  # the mark before is a capital of the same word
        mark, start = at, begin
        if starts[-1:] != [begin] and text[begin - 1 : begin] not in ("_", "-"):
            starts.append(begin)
    return starts


def _is_letter(char: str) -> bool:
    return char in _LETTERS or _FIRST_LETTER <= char <= _LAST_LETTER


def _of_word(found: re.Match[str], at: int, kind: Kind) -> Iterator[Place]:
    """Yield the places in a match of ``_WORD`` in a text that begins at offset ``at`` of the whole."""
    if found.lastgroup == "name":
        yield Place(at + found.start(), at + found.end(), kind)
    elif found.lastgroup == "url":
        rest = _URL_START.match(found[0])
        for part in _URL_PART.finditer(found[0], rest.end() if rest else 0):
            if _SEVERAL_WORDS.search(part[0]):
                start = at + found.start()
                yield Place(start + part.start(), start + part.end(), "prose")


def candidates(text: str) -> list[tuple[int, str]]:
    """Return the position and text of each place, with a backtick before a word in code."""
    if not _has_code(text) and not _A_TOOL.search(text) and not _MARK.search(text):
        return []  # true of most texts, and checked much faster
    return [(place.start, _candidate(text, place)) for place in places(text)]


def _candidate(text: str, place: Place) -> str:
    return ("" if place.kind == "prose" else _CODE_MARK) + text[place.start : place.end]


def counted_candidates(text: str) -> Counter[str]:
    """Return the texts of :func:`candidates`, each with its count; faster for a long text. See also :func:`as_seen`."""
    counts = Counter[str]()
    for seen in as_seen(text):
        counts |= _counted(seen)
    return counts


def as_seen(text: str) -> tuple[str, ...]:
    """Return a text, and if it has joiners the same without: one inside of a name divides it for no reader."""
    plain = unjoined(text)
    return (text,) if plain == text else (text, plain)


def _counted(text: str) -> Counter[str]:
    counts = Counter[str]()
    prose: list[str] = []
    code: list[str] = []
    for piece, is_code in by_code_marks(text):
        if is_code and _URL_MARK not in piece:
            code.append(piece)
            if phrase := _PHRASE_IN_CODE.match(piece):
                counts[_CODE_MARK + phrase["phrase"]] += 1
        elif is_code:
            counts.update(_of_code(piece))
        elif _says_tool(piece):
            counts.update(_of_prose(piece))
        else:
            prose.append(piece)
    # Most pieces are short, so they are searched together: no name reaches across a NUL.
    counts.update(_of_prose("\0".join(prose)))
    names = Counter(name for _url, _host, name in _WORD.findall("\0".join(code)))
    counts.update({_CODE_MARK + name: count for name, count in names.items() if name})
    return counts


class Candidates:
    """Finds the texts of :func:`candidates` in many texts. Safe to use from several threads.

    Outside code, and unless something is called a tool, a space-separated word contains the same names wherever it
    occurs. So each short text is examined once, and of longer ones each such word, and each sentence about tools.
    """

    def __init__(self) -> None:
        self._of_part = Remembered(_of_prose, _PARTS_KEPT, SENTENCE_MAX)
        self._of_code = Remembered(_of_code, _TEXTS_KEPT, WORD_MAX)
        self._of_text = Remembered(self._made, _TEXTS_KEPT, SENTENCE_MAX)

    def among(self, texts: Iterable[str]) -> list[str]:
        """Return the possible names in these texts, in order."""
        return list(chain.from_iterable(map(self._of_text.__getitem__, texts)))

    def parted(self, text: str, *ends: int) -> Iterator[Sequence[str]]:
        """Yield the possible names in ``text``: those that begin before each of these positions, and the rest."""
        bounds = [0, *ends, len(text)]
        if all(_is_apart(text, end) for end in ends):
            yield from (self._made(text[start:end]) for start, end in pairwise(bounds))
        else:
            found = candidates(text)
            found += [(0, each) for plain in as_seen(text)[1:] for each in self._found(plain)]
            yield from ([name for at, name in found if start <= at < end] for start, end in pairwise(bounds))

    def _made(self, text: str) -> tuple[str, ...]:
        return tuple(chain.from_iterable(map(self._found, as_seen(text))))

    def _found(self, text: str) -> tuple[str, ...]:
        if not _has_code(text):
            return self._in_prose(text)
        pieces = by_code_marks(text)
        every = (self._of_code[piece] if is_code else self._in_prose(piece) for piece, is_code in pieces)
        return tuple(chain.from_iterable(every))

    def _in_prose(self, text: str) -> tuple[str, ...]:
        if not _says_tool(text):
            return self._in_words(text)
        sentences = _AFTER_SENTENCE.split(text)
        every = (self._of_part[each] if _says_tool(each) else self._in_words(each) for each in sentences)
        return tuple(chain.from_iterable(every))

    def _in_words(self, text: str) -> tuple[str, ...]:
        words = text.replace("\n", " ").split(" ")
        return tuple(chain.from_iterable(filter(None, map(self._of_part.__getitem__, words))))


def _of_prose(text: str) -> tuple[str, ...]:
    """Return the possible names in a text without code, whatever marks it has."""
    if not _A_TOOL.search(text) and not _MARK.search(text):
        return ()  # true of most words
    return tuple(_candidate(text, place) for place in _in_prose(text, 0))


def _of_code(text: str) -> tuple[str, ...]:
    return tuple(_candidate(text, place) for place in _in_code(text, 0))


def _has_code(text: str) -> bool:
    return any(mark in text for mark in _CODE_MARKS)


def _says_tool(text: str) -> bool:
    return "tool" in text.lower()


def _is_apart(text: str, at: int) -> bool:
    """Return whether the texts before and after ``at`` can be examined separately."""
    if at in (0, len(text)):
        return True
    if text[at] not in " \n" or (text[at - 1] not in ".!?" and _says_tool(text)):
        return False
    # A code span that begins after it stays one; a fence might become one by beginning a line there.
    return not _has_code(text) or not (_has_code(text[:at]) or any(mark in text for mark in _FENCES))


_VALUE = re.compile(r"[\w.:/-]{1,200}\Z")


def may_name_a_tool(value: str) -> bool:
    """Return whether a value that a schema allows may be the name of a tool: of several words, or with its server.

    A single word is an action of many: denying one server's ``delete`` must not cut what others allow.
    """
    return _VALUE.match(unjoined(value)) is not None and is_several_words(value)


def is_several_words(name: str) -> bool:
    """Return whether ``name`` has the form of a name, so that it also counts in running text."""
    return _SEVERAL_WORDS.search(name) is not None


def instead_of(text: str, place: Place) -> str:
    """Return plain words that can replace a place in a text: ``another tool``.

    A visible mark would reveal that something is hidden.
    """
    called = _TOOL_NEXT.match(text, place.end)
    if called is None:
        return "another tool"
    before = text[max(place.start - _DETERMINER_MAX, 0) : place.start]
    return "other" if called[1] or _DETERMINER.search(before) else "another"


def _called_tools(piece: str) -> frozenset[int]:
    """Return the positions of plain words that are called tools; ``the search tools`` are tools that search."""
    starts: set[int] = set()
    breaks = [*(found.start() for found in _BREAK.finditer(piece)), len(piece)]
    parts = (part for part in pairwise((0, *breaks)) if _A_TOOL.search(piece, *part))
    for found in chain.from_iterable(_CALLED_A_TOOL.finditer(piece, *part) for part in parts):
        group = found.lastgroup if found.lastgroup != "several" else "before"
        assert group is not None, "every alternative has a group"
        words = [word for word in _PLAIN_WORD.finditer(piece, *found.span(group)) if word[0] not in _CONJUNCTIONS]
        if group != "before" or not found["several"] or len(words) > 1:
            starts.update(word.start() for word in words)
    return frozenset(starts)


def by_code_marks(text: str) -> Iterator[tuple[str, bool]]:
    """Yield ``text`` in pieces, each with whether it is code: a fence, closed or not, or a span in backticks."""
    at = 0
    for fence in fences(text):
        yield from _by_code_spans(text[at : fence.start])
        yield text[fence.start : fence.end], True
        at = fence.end
    yield from _by_code_spans(text[at:])


def _by_code_spans(text: str) -> Iterator[tuple[str, bool]]:
    if _CODE_MARK not in text:
        yield text, False
        return
    # A code span ends with its paragraph at the latest.
    for paragraph in _BLANK_LINES.split(text):
        if _CODE_MARK not in paragraph:
            yield paragraph, False
            continue
        marks = list(_TICKS.finditer(paragraph))
        next_alike: dict[str, re.Match[str]] = {}
        ends: list[int] = []
        # From the end, so that each mark finds the next one of its length in one pass. Searching forward from each
        # would take time quadratic in the number of unpaired ones.
        for mark in reversed(marks):
            ends.append(next_alike[mark[0]].end() if mark[0] in next_alike else 0)
            next_alike[mark[0]] = mark
        at = 0
        for mark, end in zip(marks, reversed(ends), strict=True):
            if end and mark.start() >= at:
                yield paragraph[at : mark.start()], False
                yield paragraph[mark.start() : end], True
                at = end
        yield paragraph[at:], False
