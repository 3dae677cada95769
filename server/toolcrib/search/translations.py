"""Requests in German, Spanish, French, Portuguese, Chinese and Japanese in the English words that catalogs are in.

Knows how to tell such a request from an English one; never knows what is searched but for which words it has.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from toolcrib.base.text import QUERY_MAX, STOP_WORDS, words
from toolcrib.search.dictionary import Dictionary, Rendering, SpacedLanguage, UnspacedLanguages, read_dictionary

_SHARED = frozenset("a an as can do has i in me on or so us use was will".split())
"""Stop words of English that are words of the other languages too."""

_ENGLISH_ONLY = STOP_WORDS - _SHARED

_APOSTROPHES = ("'", "\u2019")

_WORDS_MAX = 160
"""How many words of a request are looked up, the first ones."""

_NAME_MIN = 2
"""So many characters between known words may be a name; a single one is mostly grammar."""

Knows = Callable[[str], bool]
"""Whether what is searched has this word, in any form, where the caller may see it."""


@dataclass(frozen=True, slots=True)
class _Text:
    """A request as the words of writings with spaces, folded, and what stands before, between and behind them."""

    said: Sequence[str]
    written: Sequence[str]
    between: Sequence[str]


class Translations:
    """Puts requests into English. The dictionary is read when the first request may need it."""

    def __init__(self, read: Callable[[], Dictionary] = read_dictionary) -> None:
        self._read = read
        self._dictionary: Dictionary | None = None

    def is_ready(self, request: str, knows: Knows) -> bool:
        """Return whether :meth:`in_english` reads no file for this request."""
        return self._dictionary is not None or not (_is_unspaced(request) or _unknown(request, knows))

    def in_english(self, request: str, knows: Knows) -> str:
        """Return a request in English words as far as they are known; an English request as it is.

        No more than ``QUERY_MAX`` characters of another request count. Words that are searched for stay, since a
        catalog may be in the request's language; so do words in no dictionary, such as names.
        """
        unspaced = _is_unspaced(request)
        unknown = () if unspaced else _unknown(request, knows)
        if not unspaced and not unknown:
            return request
        if self._dictionary is None:
            self._dictionary = self._read()
        text = unicodedata.normalize("NFKC", request[:QUERY_MAX])
        if unspaced:
            languages = self._dictionary.japanese if re.search(r"[\u3040-\u30ff]", text) else self._dictionary.chinese
            return re.sub(
                r"[\u3005\u3040-\u30ff\u3400-\u9fff]+", lambda found: _of_run(found[0], languages, knows), text
            )
        if not any(language.is_telling(word) for language in self._dictionary.spaced for word in unknown):
            return request
        parted = _parted(text)
        language = _language(parted.said[:_WORDS_MAX], self._dictionary, knows)
        return request if language is None else "".join(_of_words(parted, language, knows)).strip()


def _is_unspaced(request: str) -> bool:
    """Return whether some of a request is written as Chinese or Japanese is."""
    # Compiled by the first such request: the ranges take longer than the rest of this module.
    return not request.isascii() and bool(re.search(r"[\u3005\u3040-\u30ff\u3400-\u9fff]", request[:QUERY_MAX]))


def _unknown(request: str, knows: Knows) -> Sequence[str]:
    """Return the words that are not searched for if they are more than those that are English alone, else none.

    Only such a request can be in another language, so for most no dictionary is needed.
    """
    said = dict.fromkeys(words(request[:QUERY_MAX])[:_WORDS_MAX])
    english = len(_ENGLISH_ONLY & said.keys())
    unknown = [word for word in said if word not in STOP_WORDS and word.isalpha() and not knows(word)]
    return unknown if len(unknown) > english else ()


def _language(said: Sequence[str], dictionary: Dictionary, knows: Knows) -> SpacedLanguage | None:
    """Return the language that most words are of; None if no more of them can only be foreign than only English."""
    english = len(_ENGLISH_ONLY.intersection(said))
    best, most = None, (english, 0)
    for language in dictionary.spaced:
        every, foreign = _of_language(said, language)
        telling = [word for word in foreign - STOP_WORDS - dictionary.english if not knows(word)]
        signs = len(telling) if any(map(language.is_telling, telling)) else 0
        if signs > english and (signs, every) > most:
            best, most = language, (signs, every)
    return best


def _of_language(said: Sequence[str], language: SpacedLanguage) -> tuple[int, set[str]]:
    """Return how many of the words the language has, and which."""
    count, foreign, place = 0, set[str](), 0
    while place < len(said):
        found = language.longest(said, place)
        length = found[0] if found else 1
        if found:
            count += length
            foreign.update(said[place : place + length])
        place += length
    return count, foreign


def _parted(text: str) -> _Text:
    written: list[str] = []
    between: list[str] = []
    place = 0
    for found in re.finditer(r"[^\W\d_]+", text):
        between.append(text[place : found.start()])
        written.append(found[0])
        place = found.end()
    # A name in camel case stays one word, which no dictionary has.
    return _Text(["".join(words(each)) for each in written], written, [*between, text[place:]])


def _of_words(text: _Text, language: SpacedLanguage, knows: Knows) -> Iterator[str]:
    """Yield the text in pieces, words of the language in English."""
    place, is_left_out = 0, False
    while place < len(text.said):
        between = text.between[place]
        yield f" {between[1:]}" if is_left_out and between.startswith(_APOSTROPHES) else between
        found = language.longest(text.said, place) if place < _WORDS_MAX else None
        count = found[0] if found else 1
        if found is None:
            yield text.written[place]
        else:
            yield _said(text.said[place : place + count], found[1], knows)
        is_left_out = found is not None and not found[1]
        place += count
    yield text.between[-1]


def _said(said: Sequence[str], rendering: Rendering, knows: Knows) -> str:
    """Return some words in English, and as they are where they are searched for."""
    if not rendering:
        return ""
    own = " ".join(said) if all(map(knows, said)) else ""
    english = _known(rendering, knows)
    if own:
        return f"{own} {english}" if english and english != own else own
    return english or rendering[0]


def _of_run(run: str, languages: UnspacedLanguages, knows: Knows) -> str:
    """Return a run of characters without spaces in English, and as it is where words of it are searched for."""
    parts = [*languages.parted(run)]
    if all(rendering is None for _, rendering in parts):
        return run
    is_known = any(map(knows, words(run)))
    english = [run] if is_known else []
    for part, rendering in parts:
        if rendering:
            english.append(_known(rendering, knows) or ("" if is_known else rendering[0]))
        elif rendering is None and not is_known and len(part) >= _NAME_MIN and not re.search(r"[\u3040-\u309f]", part):
            english.append(part)
    return f" {' '.join(filter(None, english))} "


def _known(rendering: Rendering, knows: Knows) -> str:
    """Return the first of the ways to say something whose words are all searched for, else nothing."""
    return next((each for each in rendering if all(map(knows, words(each)))), "")
