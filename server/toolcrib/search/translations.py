"""Translates German, Spanish, French, Portuguese, Chinese and Japanese requests into the English words of catalogs.

Knows how to tell such a request from an English one; never knows the catalog beyond which words it has.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from toolcrib.base.text import QUERY_MAX, STOP_WORDS, words
from toolcrib.search.dictionary import Dictionary, Rendering, SpacedLanguage, UnspacedLanguages, read_dictionary

_SHARED = frozenset("a an as can do has i in me on or so us use was will".split())
"""English stop words that are words of the other languages too."""

_ENGLISH_ONLY = STOP_WORDS - _SHARED

_APOSTROPHES = ("'", "\u2019")

_WORDS_MAX = 160
"""Maximum number of words of a request that are looked up, from the start."""

_NAME_MIN = 2
"""Minimum length of unknown text between known words that may be a name; a single character is usually grammar."""

Knows = Callable[[str], bool]
"""Returns whether the searched documents, as visible to the caller, contain a word in any inflected form."""


@dataclass(frozen=True, slots=True)
class _Text:
    """A request in spaced writing: its folded words, and the text before, between and after them."""

    said: Sequence[str]
    written: Sequence[str]
    between: Sequence[str]


class Translations:
    """Translates requests into English. The dictionary is loaded for the first request that may need it."""

    def __init__(self, read: Callable[[], Dictionary] = read_dictionary) -> None:
        self._read = read
        self._dictionary: Dictionary | None = None

    def is_ready(self, request: str, knows: Knows) -> bool:
        """Return whether :meth:`in_english` can translate this request without reading a file."""
        return self._dictionary is not None or not (_is_unspaced(request) or _unknown(request, knows))

    def in_english(self, request: str, knows: Knows) -> str:
        """Return a request with its known words in English; an English request is returned unchanged.

        At most ``QUERY_MAX`` characters of a foreign request count. Words that occur in the catalog stay, since it may
        be in the request's language; so do words that are in no dictionary, such as names.
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
    """Return whether part of a request is written in Chinese or Japanese script."""
    # Compiled on the first such request: compiling these ranges takes longer than the rest of this module.
    return not request.isascii() and bool(re.search(r"[\u3005\u3040-\u30ff\u3400-\u9fff]", request[:QUERY_MAX]))


def _unknown(request: str, knows: Knows) -> Sequence[str]:
    """Return the words that the catalog does not contain if they outnumber the purely English ones, else none.

    Only such a request can be in another language, so most requests need no dictionary.
    """
    said = dict.fromkeys(words(request[:QUERY_MAX])[:_WORDS_MAX])
    english = len(_ENGLISH_ONLY & said.keys())
    unknown = [word for word in said if word not in STOP_WORDS and word.isalpha() and not knows(word)]
    return unknown if len(unknown) > english else ()


def _language(said: Sequence[str], dictionary: Dictionary, knows: Knows) -> SpacedLanguage | None:
    """Return the language of most words; None unless more words can only be foreign than only English."""
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
    """Return how many of the words belong to the language, and which."""
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
    # A name in camel case stays one word, which is in no dictionary.
    return _Text(["".join(words(each)) for each in written], written, [*between, text[place:]])


def _of_words(text: _Text, language: SpacedLanguage, knows: Knows) -> Iterator[str]:
    """Yield the text in pieces, with words of the language translated."""
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
    """Return some words in English, and also unchanged if the catalog contains them."""
    if not rendering:
        return ""
    own = " ".join(said) if all(map(knows, said)) else ""
    english = _known(rendering, knows)
    if own:
        return f"{own} {english}" if english and english != own else own
    return english or rendering[0]


def _of_run(run: str, languages: UnspacedLanguages, knows: Knows) -> str:
    """Return a run of unspaced characters in English, and also unchanged if the catalog contains words of it."""
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
    """Return the first alternative of which the catalog contains all words, else nothing."""
    return next((each for each in rendering if all(map(knows, words(each)))), "")
