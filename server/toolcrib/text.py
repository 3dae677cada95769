"""Text of strangers made safe and searchable: words of identifiers, FTS expressions, sanitising, truncation.

Knows characters and words only; never knows tools, SQL connections or config.
"""

import fnmatch
import re
import unicodedata
from collections.abc import Callable, Iterable

QUERY_MAX = 512
"""Characters of a query that count (C30)."""

STOP_WORDS = frozenset(
    "a about an and any are as at be by can could do does for from get give has have help hey hi how i if in into is "
    "it its let like me my need of on or our please show so some tell that the their them then there these this "
    "those to up us use using want was we what when where which who will with would you your".split()
)
"""English words that say nothing about a tool. Dropped from queries unless nothing else is left."""

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[^\W_]+")
_ASCII_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_DIGIT_EDGE = re.compile(r"(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])")
_SENTENCE_END = re.compile(r"(?<=[.!?。!?])\s+|\n\s*\n|\r?\n(?=\s*[-*#])")
_SPACE = re.compile(r"\s+")
_KEPT_CONTROLS = "\n\t"
_ASCII_MARKS = {code: None for code in range(128) if not chr(code).isalnum()}


def words(text: str) -> list[str]:
    """Return the lower-case words of ``text``: camelCase, snake_case, dots, hyphens and digits are split."""
    if text.isascii():
        return [word.lower() for word in _ASCII_WORD.findall(text)]
    found: list[str] = []
    for chunk in _WORD.findall(_CAMEL.sub(" ", unicodedata.normalize("NFKC", text))):
        found += [part.lower() for part in _DIGIT_EDGE.sub(" ", chunk).split()]
    return found


def search_text(text: str) -> str:
    """Return ``text`` as the index stores it: its words, and each identifier also unsplit where that differs."""
    return " ".join(words(text))


def joined(text: str) -> str:
    """Return ``text`` reduced to its letters and digits, so that every spelling of a name becomes one."""
    return text.lower().translate(_ASCII_MARKS) if text.isascii() else "".join(words(text))


def query_terms(query: str) -> list[str]:
    """Return the distinct words of a query that carry meaning, in order; all its words if none of them does."""
    every = list(dict.fromkeys(words(query[:QUERY_MAX])))
    return [word for word in every if word not in STOP_WORDS] or every


def fts_expression(terms: Iterable[str]) -> str:
    """Return an FTS5 MATCH expression that finds rows with any of ``terms``, each a quoted string.

    Terms come from :func:`words`, so they hold letters and digits only and cannot be FTS5 syntax (R58).
    """
    return " OR ".join(f'"{term}"' for term in terms)


def sanitize(text: str) -> str:
    """Return ``text`` without control, bidirectional, zero-width, tag and lone surrogate characters.

    Newlines and tabs stay. These are the characters that hide text from a person or steer a terminal.
    """
    hidden = [
        char
        for char in set(text)
        if not char.isprintable() and char not in _KEPT_CONTROLS and unicodedata.category(char).startswith("C")
    ]
    return text.translate(dict.fromkeys(map(ord, hidden))) if hidden else text


def one_line(text: str) -> str:
    """Return ``text`` sanitised, with every run of white space as one space."""
    return _SPACE.sub(" ", sanitize(text)).strip()


def truncate(text: str, limit: int) -> str:
    """Return ``text`` cut to at most ``limit`` characters, at a word where one is near, ending in an ellipsis."""
    if len(text) <= limit:
        return text
    head = text[: max(limit - 1, 0)]
    space = head.rfind(" ")
    return (head[:space] if space > limit * 2 // 3 else head).rstrip(" ,.;:") + "…"


def split_summary(text: str) -> tuple[str, str]:
    """Return the first sentence or paragraph of ``text``, and the rest."""
    stripped = text.strip()
    end = _SENTENCE_END.search(stripped)
    return (stripped[: end.start()], stripped[end.end() :]) if end else (stripped, "")


def estimate_tokens(text: str) -> int:
    """Return the estimated number of tokens of ``text``: a quarter of its characters, rounded up (R144)."""
    return -(-len(text) // 4)


def glob_matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Return a predicate: does any of these case-sensitive globs match the whole name? No patterns: never."""
    alternatives = [fnmatch.translate(pattern) for pattern in patterns]
    if not alternatives:
        return lambda _name: False
    match = re.compile("|".join(alternatives)).match
    return lambda name: match(name) is not None
