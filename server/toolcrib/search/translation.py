"""Translates German, Spanish, French, Portuguese, Chinese and Japanese requests into the English words of catalogs."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import chain

from toolcrib.base.text import QUERY_MAX, STOP_WORDS, words
from toolcrib.search.query import ENGLISH_ONLY, TRANSLATED_MAX, Knows, is_unspaced, unknown_words

_PACKAGE, _FILE = "toolcrib.search", "translations.txt"
_NO_ENTRY = ("#", "[")
_ENGLISH = "="
"""The prefix of lines that list English words."""

_REST_MIN, _COMPOUND_MAX = 3, 40
"""Minimum length of a word without its ending, and maximum length of a word that is split as a compound."""

_PHRASE_MAX = 4
"""Maximum number of words in a phrase."""

_GERMAN_ENDINGS = "ungen ung test tet est ten en em er es et st te ern n e s t"
_SPANISH_ENDINGS = (
    "aciones acion iciones icion amientos amiento imiento adores ador andome andolo ando iendo arlos arlas arlo arla "
    "arle arme erlo irlo ados adas ado ada idos idas ido ida ame eme alo ala alos alas amos emos aron ieron aba ar er "
    "ir an en as es os o a e s"
)
_FRENCH_ENDINGS = (
    "issements issement issant issent issez ations ation ements ement ateurs ateur euses eurs eur antes ante ants ant "
    "ees ee er ez ent ons ais ait ir it is es e s x"
)
_PORTUGUESE_ENDINGS = (
    "acoes acao icoes icao amentos amento imento adores ador ando endo indo ados adas ado ada idos idas ido ida oes ao "
    "ar er ir am em as es os o a e s"
)

Rendering = Sequence[str]
"""The English for a word, as one or more alternatives; none if it says nothing about what is searched."""


class SpacedLanguage:
    """The words of a language written with spaces, lower-case and without accents, recognized in any inflected form.

    ``endings`` are those of its verbs, nouns and adjectives. ``is_compounding``: it writes compounds as one word.
    """

    def __init__(self, endings: str, *, is_compounding: bool = False) -> None:
        self._endings = frozenset(endings.split())
        self._lengths = sorted({len(ending) for ending in self._endings}, reverse=True)
        self._is_compounding = is_compounding
        self._renderings: dict[str, Rendering] = {}
        self._stems: dict[str, Rendering] = {}

    def add(self, entry: str, rendering: Rendering) -> None:
        """Add a word or phrase in its base form. Of duplicates the first counts."""
        is_plain = entry.isascii() and entry.isalpha() and entry.islower()
        key = entry if is_plain else " ".join(words(entry))
        self._renderings.setdefault(key, rendering)
        if rendering and " " not in key:
            self._stems.setdefault(next(self._shortened(key), key), rendering)

    def is_significant(self, word: str) -> bool:
        """Return whether this is a known base form, or a compound of two, that says something about what is searched.

        Inflected forms do not count: an unknown English word may look like one.
        """
        return bool(self._renderings.get(word) or (self._is_compounding and self._compound(word)))

    def longest(self, said: Sequence[str], place: int) -> tuple[int, Rendering] | None:
        """Return the word count of the longest known phrase or word starting at ``place``, and its English."""
        for count in range(min(_PHRASE_MAX, len(said) - place), 1, -1):
            phrase = self._renderings.get(" ".join(said[place : place + count]))
            if phrase is not None:
                return count, phrase
        rendering = self.rendering(said[place])
        return None if rendering is None else (1, rendering)

    def rendering(self, word: str) -> Rendering | None:
        """Return the English for one word, None if it is unknown."""
        found = self._inflected(word)
        if found is None and self._is_compounding:
            found = self._participle(word) or self._compound(word)
        return found

    def _inflected(self, word: str) -> Rendering | None:
        if word in self._renderings:
            return self._renderings[word]
        shorter = [*self._shortened(word)]
        for each in reversed(shorter):  # the longest remaining stem first
            if self._renderings.get(each):
                return self._renderings[each]
        return self._stems.get(shorter[0] if shorter else word)

    def _shortened(self, word: str) -> Iterator[str]:
        """Yield a word with each of its possible endings removed, the longest ending first."""
        for length in self._lengths:
            if len(word) - length >= _REST_MIN and word[-length:] in self._endings:
                yield word[:-length]

    def _participle(self, word: str) -> Rendering | None:
        """Return the English for the infinitive of a German participle such as "gelöscht"."""
        return self._inflected(word.removeprefix("ge")) if word.startswith("ge") else None

    def _compound(self, word: str) -> Rendering | None:
        """Return the English for two nouns written as one, perhaps with a linking "s"."""
        for place in range(min(len(word), _COMPOUND_MAX) - _REST_MIN, _REST_MIN - 1, -1):
            first = self._renderings.get(word[:place]) or self._renderings.get(word[:place].removesuffix("s"))
            second = self._inflected(word[place:]) if first else None
            if first and second:
                return [f"{first[0]} {second[0]}"]
        return None


class UnspacedLanguages:
    """The words of languages without spaces. Of two words of equal length, the first language's wins."""

    def __init__(self, vocabularies: Sequence[Mapping[str, Rendering]]) -> None:
        self._vocabularies = vocabularies
        self._longest = max(map(len, chain.from_iterable(vocabularies)), default=0)

    def split(self, run: str) -> Iterator[tuple[str, Rendering | None]]:
        """Yield the longest known words of a run of characters, each with its English, and the text between them."""
        place = unknown = 0
        while place < len(run):
            found = self._found(run, place)
            if found is None:
                place += 1
                continue
            if unknown < place:
                yield run[unknown:place], None
            yield found
            place += len(found[0])
            unknown = place
        if unknown < len(run):
            yield run[unknown:], None

    def _found(self, run: str, place: int) -> tuple[str, Rendering] | None:
        for length in range(min(self._longest, len(run) - place), 0, -1):
            word = run[place : place + length]
            for vocabulary in self._vocabularies:
                if word in vocabulary:
                    return word, vocabulary[word]
        return None


@dataclass(frozen=True, slots=True)
class Dictionary:
    """All languages. ``english`` are words that count as English even if another language has them too.

    ``chinese`` has the words of both unspaced languages with Chinese first; ``japanese`` with Japanese first.
    """

    spaced: Sequence[SpacedLanguage]
    chinese: UnspacedLanguages
    japanese: UnspacedLanguages
    english: frozenset[str]


@cache
def read_dictionary() -> Dictionary:
    """Return the dictionary shipped with the package. Reads a file the first time: a few milliseconds."""
    text = files(_PACKAGE).joinpath(_FILE).read_text(encoding="utf-8")
    return dictionary(line for line in text.splitlines() if line and not line.startswith(_NO_ENTRY))


def dictionary(concepts: Iterable[str]) -> Dictionary:
    """Parse concepts, one per line: ``English | German | Spanish | French | Portuguese | Chinese | Japanese``.

    A line ``= …`` lists words that count as English even if another language has them.
    """
    spaced = [
        SpacedLanguage(_GERMAN_ENDINGS, is_compounding=True),
        *map(SpacedLanguage, (_SPANISH_ENDINGS, _FRENCH_ENDINGS, _PORTUGUESE_ENDINGS)),
    ]
    chinese: dict[str, Rendering] = {}
    japanese: dict[str, Rendering] = {}
    english: set[str] = set()
    for concept in concepts:
        if concept.startswith(_ENGLISH):
            english.update(words(concept))
            continue
        meant, *columns = concept.split("|")
        rendering = tuple(each.strip() for each in meant.split("/") if each.strip())
        english.update(words(meant))
        entries = [[entry.strip() for entry in column.split(",") if entry.strip()] for column in columns]
        for language, known in zip(spaced, entries, strict=False):
            for entry in known:
                language.add(entry, rendering)
        for vocabulary, known in zip((chinese, japanese), entries[len(spaced) :], strict=True):
            for entry in known:
                vocabulary.setdefault(entry, rendering)
    both = (chinese, japanese)
    return Dictionary(spaced, UnspacedLanguages(both), UnspacedLanguages(both[::-1]), frozenset(english))


_APOSTROPHES = ("'", "\u2019")

_NAME_MIN = 2
"""Minimum length of unknown text between known words that may be a name; a single character is usually grammar."""


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

    @property
    def is_loaded(self) -> bool:
        """Return whether :meth:`in_english` reads no file any more."""
        return self._dictionary is not None

    def in_english(self, request: str, knows: Knows) -> str:
        """Return a request with its known words in English; an English request is returned unchanged.

        At most ``QUERY_MAX`` characters of a foreign request count. Words that occur in the catalog stay, since it may
        be in the request's language; so do words that are in no dictionary, such as names.
        """
        unspaced = is_unspaced(request)
        unknown = () if unspaced else unknown_words(request, knows)
        if not unspaced and not unknown:
            return request
        if self._dictionary is None:
            self._dictionary = self._read()
        text = unicodedata.normalize("NFKC", request[:QUERY_MAX])
        if unspaced:
            languages = self._dictionary.japanese if re.search(r"[\u3040-\u30ff]", text) else self._dictionary.chinese
            return re.sub(
                r"[\u3005\u3040-\u30ff\u3400-\u9fff]+", lambda found: _translated_run(found[0], languages, knows), text
            )
        if not any(language.is_significant(word) for language in self._dictionary.spaced for word in unknown):
            return request
        parted = _split_text(text)
        language = _language(parted.said[:TRANSLATED_MAX], self._dictionary, knows)
        return request if language is None else "".join(_translated_words(parted, language, knows)).strip()


def _language(said: Sequence[str], dictionary: Dictionary, knows: Knows) -> SpacedLanguage | None:
    """Return the language of most words; None unless more words can only be foreign than only English."""
    english = len(ENGLISH_ONLY.intersection(said))
    best, most = None, (english, 0)
    for language in dictionary.spaced:
        every, foreign = _of_language(said, language)
        significant = [word for word in foreign - STOP_WORDS - dictionary.english if not knows(word)]
        signs = len(significant) if any(map(language.is_significant, significant)) else 0
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


def _split_text(text: str) -> _Text:
    written: list[str] = []
    between: list[str] = []
    place = 0
    for found in re.finditer(r"[^\W\d_]+", text):
        between.append(text[place : found.start()])
        written.append(found[0])
        place = found.end()
    # A name in camel case stays one word, which is in no dictionary.
    return _Text(["".join(words(each)) for each in written], written, [*between, text[place:]])


def _translated_words(text: _Text, language: SpacedLanguage, knows: Knows) -> Iterator[str]:
    """Yield the text in pieces, with words of the language translated."""
    place, is_left_out = 0, False
    while place < len(text.said):
        between = text.between[place]
        yield f" {between[1:]}" if is_left_out and between.startswith(_APOSTROPHES) else between
        found = language.longest(text.said, place) if place < TRANSLATED_MAX else None
        count = found[0] if found else 1
        if found is None:
            yield text.written[place]
        else:
            yield _rendered(text.said[place : place + count], found[1], knows)
        is_left_out = found is not None and not found[1]
        place += count
    yield text.between[-1]


def _rendered(said: Sequence[str], rendering: Rendering, knows: Knows) -> str:
    """Return some words in English, and also unchanged if the catalog contains them."""
    if not rendering:
        return ""
    own = " ".join(said) if all(map(knows, said)) else ""
    english = _first_known(rendering, knows)
    if own:
        return f"{own} {english}" if english and english != own else own
    return english or rendering[0]


def _translated_run(run: str, languages: UnspacedLanguages, knows: Knows) -> str:
    """Return a run of unspaced characters in English, and also unchanged if the catalog contains words of it."""
    parts = [*languages.split(run)]
    if all(rendering is None for _, rendering in parts):
        return run
    is_known = any(map(knows, words(run)))
    english = [run] if is_known else []
    for part, rendering in parts:
        if rendering:
            english.append(_first_known(rendering, knows) or ("" if is_known else rendering[0]))
        elif rendering is None and not is_known and len(part) >= _NAME_MIN and not re.search(r"[\u3040-\u309f]", part):
            english.append(part)
    return f" {' '.join(filter(None, english))} "


def _first_known(rendering: Rendering, knows: Knows) -> str:
    """Return the first alternative of which the catalog contains all words, else nothing."""
    return next((each for each in rendering if all(map(knows, words(each)))), "")
