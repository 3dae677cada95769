"""What a query means: its weighted words and clauses, its words in the documents, and the action that it asks for."""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib.resources import files
from itertools import chain, islice, pairwise, takewhile
from typing import Protocol

from toolcrib.base.text import QUERY_MAX, STOP_WORDS, words
from toolcrib.search.english import Synonyms

_STATUS_CODES = frozenset("400 401 403 404 409 422 429 500 502 503 504".split())
"""Numbers that are words for what went wrong: the status codes of HTTP that people meet."""

_FRAMING, _QUOTED, _PLACEHOLDER, _NUMBER = 0.3, 0.6, 0.4, 0.3
"""Weights of words that only frame the request, that are quoted, of placeholders, and of ids and numbers.

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

TRANSLATED_MAX = 160
"""Maximum number of words of a request that may be translated, from the start."""

_PART_WORDS_MIN, _WHOLE_WORDS_MIN, _PARTS_MAX = 2, 8, 6
"""Minimum number of significant words of a part, minimum number of a request that is split into parts, and maximum
number of parts.
"""

_REMEMBERED_MAX = 16
"""Requests are parsed repeatedly only within one search."""

_SET_APART = re.compile(
    r"(?P<placeholder><[^<>\n]{1,60}>)"
    r"|(?P<identifier>(?<![\w-])(?=[\d-]*[^\W\d])(?=(?:[^\W\d]|-)*(?:\d(?:[^\W\d]|-)*){4})[\w-]{6,64}(?![\w-]))"
    r"|(?P<quoted>'[^'\n]{2,120}'(?!\w)|\"[^\"\n]{2,200}\"|“[^“”\n]{2,200}”|https?://\S{1,200}|[\w.+-]{1,60}@[\w.-]{1,60})"
)
SET_APART_MARK = "0"
"""A digit, so that together with adjacent characters it never forms a purely alphabetic word."""

_WEIGHTS = {"placeholder": _PLACEHOLDER, "quoted": _QUOTED, "identifier": _NUMBER}
_PART_END = re.compile(
    r"(?<=[.!?;])\s+|\n+|;\s*|,\s+and\s+|,?\s+(?:and\s+)?(?:then|afterwards|after that|finally|next|also)[,\s]+",
    re.IGNORECASE,
)

_SHORT_PART_END = re.compile(
    r"[;,]?\s+(?:(?:and|plus|&)\s+)?(?:then|afterwards|after that|finally|next|also)[,\s]+|[;,]?\s+(?:and|plus|&)\s+"
    r"|[;,]\s+",
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
    """A whole request. ``parts`` are its clauses, if it is long and has several, or each asks for an action."""

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
    """Return a request with each quotation, address, placeholder and id replaced by ``SET_APART_MARK``."""
    return _SET_APART.sub(SET_APART_MARK, text)


def _terms(text: str) -> Terms:
    counted: dict[str, float] = {}
    for piece, weight in _pieces(text):
        for word in words(piece):
            if word not in STOP_WORDS and (word in counted or len(counted) < _TERMS_MAX):
                own = weight * (_FRAMING if word in FRAMING_WORDS else _NUMBER if _is_value(word) else 1.0)
                counted[word] = max(own, counted.get(word, 0.0))
    # Only the ratio of weights matters: a request that is one quotation must not rank as if it were less important.
    most = max(counted.values(), default=1.0)
    return {word: weight / most for word, weight in counted.items()} if most < 1 else counted


def _is_value(word: str) -> bool:
    """Return whether a word is a number that only says which one, or how many."""
    return word.isdigit() and word not in _STATUS_CODES


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
    parts = [*islice(filter(_is_significant, _clauses(text, terms, _PART_END)), _PARTS_MAX)]
    return parts if len(parts) > 1 else ()


def _clauses(text: str, terms: Terms, end: re.Pattern[str]) -> Iterator[Part]:
    split = filter(None, end.split(text))
    return (Part(clause, {word: terms[word] for word in words(clause) if word in terms}) for clause in split)


def _is_significant(part: Part) -> bool:
    return sum(word not in FRAMING_WORDS for word in part.terms) >= _PART_WORDS_MIN


Knows = Callable[[str], bool]
"""Returns whether the documents, as visible to the caller, contain a lower-case word in any inflected form."""

_SHARED = frozenset("a an as can do has i in me on or so us use was will".split())
"""English stop words that are words of the other languages too."""

ENGLISH_ONLY = STOP_WORDS - _SHARED
"""English stop words that are words of no other language."""


def may_be_foreign(request: str, knows: Knows) -> bool:
    """Return whether a request may be in another language than English; only then translating can change it."""
    # The order matters for cost: script is one search, words need a look-up of each in the documents.
    return is_unspaced(request) or bool(unknown_words(request, knows))


def is_unspaced(request: str) -> bool:
    """Return whether part of a request is written in Chinese or Japanese script."""
    # Compiled on the first such request: compiling these ranges takes longer than the rest of this module.
    return not request.isascii() and bool(re.search(r"[\u3005\u3040-\u30ff\u3400-\u9fff]", request[:QUERY_MAX]))


def unknown_words(request: str, knows: Knows) -> Sequence[str]:
    """Return the words that the catalog does not contain if they outnumber the purely English ones, else none.

    Only such a request can be in another language, so most requests need no dictionary.
    """
    said = dict.fromkeys(words(request[:QUERY_MAX])[:TRANSLATED_MAX])
    english = len(ENGLISH_ONLY & said.keys())
    unknown = [word for word in said if word not in STOP_WORDS and word.isalpha() and not knows(word)]
    return unknown if len(unknown) > english else ()


_REPAIRED = 0.7
"""Weight of a word found only in another spelling: misspelt, split in two, or joined with the next one."""

_AGENT_NOUN = 0.5
"""Weight of the agent noun of a verb, or of the verb of an agent noun."""

_SYNONYM = 0.4
"""Weight of a synonym, whose rarity is capped by that of the original word; see :class:`SynonymGroup`."""

_SYNONYM_RARITY_MIN = 0.1
"""A synonym with less than this share of the maximum rarity is in too many documents to count."""

_PART_MIN, _COMPOUND_MAX = 3, 40
"""Minimum length of a part of a compound, and maximum length of a word that is split as one."""

_REPAIRS_MAX = 2
"""Maximum number of corrections of a misspelt word."""

_VERB_MIN = 4
_ENDING = "er"
_NOT_AGENTS = frozenset(
    "answer border center corner cover custom customer deliver dinner discover enter folder former header later layer "
    "letter manner master matter member never number offer order paper poster power remember river server tower under "
    "water winter".split()
)
"""Words that look like agent nouns and are not, or are of another verb: a server does not serve dinner."""


class Vocabulary(Protocol):
    """The stems that the documents contain which one caller may see; other documents affect no statistic.

    Every method may raise StoreError if the stems are not in memory.
    """

    @property
    def rarity_max(self) -> float:
        """The rarity of a word that no document contains."""
        ...

    @property
    def rarity_of_one(self) -> float:
        """The rarity of a word that one document contains."""
        ...

    def __contains__(self, term: str) -> bool:
        """Return whether any document contains a stem."""
        ...

    def frequency(self, term: str) -> int:
        """Return how many documents contain a stem."""
        ...

    def rarity(self, term: str) -> float:
        """Return the rarity weight (IDF) of a stem."""
        ...

    def near(self, word: str) -> Sequence[str]:
        """Return the stems of documents that are one edit away from a word."""
        ...


BESIDE = 0.35
"""Weight factor of a synonym in a document that contains the word itself; measured, and flat around this value."""


@dataclass(frozen=True, slots=True)
class SynonymGroup:
    """Synonyms of one query word, as stems: ``weights`` are those in a document without the word itself.

    ``words`` are the stems that mean the word. In a document that contains one of them, the weight of a synonym is
    multiplied by ``BESIDE``, because it adds little.
    """

    words: Sequence[str]
    weights: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Concept:
    """One word of a query. ``stems`` of the documents match it, if any; ``rarity`` is its weighted rarity (IDF).

    ``is_framing``: it says that something is wanted, not what.
    """

    rarity: float
    stems: Sequence[str]
    is_framing: bool


@dataclass(frozen=True, slots=True)
class ExpandedQuery:
    """A query in the words of the documents: ``weights`` of the stems that match a word, and ``synonyms`` of its words.

    ``name_weights`` has both, for the words of a document's name. ``is_corrected``: some words were not spelled so.
    ``said`` has the weights of the stems of the query itself.
    """

    concepts: Sequence[Concept]
    weights: Mapping[str, float]
    synonyms: Sequence[SynonymGroup]
    name_weights: Mapping[str, float]
    is_corrected: bool
    said: Mapping[str, float]

    @property
    def stems(self) -> Collection[str]:
        """All stems of the documents that match a word or are synonyms of one."""
        return {*self.weights, *chain.from_iterable(group.weights for group in self.synonyms)}

    def without(self, stems: Collection[str]) -> "ExpandedQuery":
        """Return the same query as if the documents did not contain these stems."""
        return replace(
            self,
            concepts=[
                replace(each, stems=[stem for stem in each.stems if stem not in stems]) for each in self.concepts
            ],
            weights={stem: weight for stem, weight in self.weights.items() if stem not in stems},
            synonyms=[
                replace(group, weights={stem: own for stem, own in group.weights.items() if stem not in stems})
                for group in self.synonyms
            ],
        )


class QueryExpansion:
    """Expands the words of a query to stems of the documents: typos, compounds, related forms and synonyms."""

    def __init__(self, vocabulary: Vocabulary, stem: Callable[[str], str], synonyms: Synonyms) -> None:
        self._vocabulary, self._stem, self._synonyms = vocabulary, stem, synonyms

    def expand(self, terms: Terms, *, corrected: bool = True) -> ExpandedQuery:
        """Return the words of a query, weighted as in ``terms``, as stems of the documents.

        ``corrected``: a word in no document stands for one that is spelled nearly like it.
        """
        by_stem: dict[str, str] = {}
        counted: dict[str, float] = {}
        for term, weight in terms.items():
            stem = self._stem(term)
            by_stem.setdefault(stem, term)
            counted[stem] = max(weight, counted.get(stem, 0.0))
        misspelt = self._misspelt(by_stem) if corrected else {}
        weights, matching = self._matching(by_stem, counted, misspelt)
        # A misspelt word is as rare as its correction: its own spelling occurs nowhere, which would make it the rarest.
        concepts = [
            Concept(
                self._vocabulary.rarity(stems[0] if stems else stem) * counted[stem],
                stems,
                by_stem[stem] in FRAMING_WORDS,
            )
            for stem, stems in matching.items()
        ]
        synonyms = [
            SynonymGroup(stems, group)
            for stem, stems in matching.items()
            if (group := self._synonyms_of(stem, stems, weights, counted[stem]))
        ]
        # A copy, because synonyms of synonyms do not count.
        name_weights = dict(weights)
        unmatched = {stem: counted[stem] for stem, stems in matching.items() if not stems}
        for stem, weight in (weights | unmatched).items():
            for other in self._synonyms.get(stem, ()):
                name_weights.setdefault(other, _SYNONYM * weight)
        return ExpandedQuery(concepts, weights, synonyms, name_weights, is_corrected=bool(misspelt), said=counted)

    def _matching(
        self, by_stem: Mapping[str, str], counted: Mapping[str, float], misspelt: Mapping[str, list[str]]
    ) -> tuple[dict[str, float], dict[str, list[str]]]:
        """Return the weights of stems of the documents, and the stems that each stem of the query means.

        ``misspelt`` are the corrections of those that are misspelt.
        """
        weights: dict[str, float] = {}
        matching: dict[str, list[str]] = {}
        for stem, term in by_stem.items():
            known = stem in self._vocabulary
            matching[stem] = [stem] if known else misspelt.get(stem) or self._parts(stem, term)
            for each in matching[stem]:
                weights[each] = max(weights.get(each, 0.0), counted[stem] * (1.0 if known else _REPAIRED))
        # Two words of the query may be one in the documents: "web hook" and "webhook".
        for (one, first), (other, second) in pairwise(by_stem.items()):
            whole = self._stem(first + second)
            if whole in self._vocabulary:
                weights.setdefault(whole, _REPAIRED * max(counted[one], counted[other]))
                matching[one].append(whole)
                matching[other].append(whole)
        # Last, so that a word of the query itself never gets the lower weight of a related form.
        for stem, stems in matching.items():
            for kindred in agent_noun_stems(stem):
                if kindred in self._vocabulary and kindred not in weights:
                    weights[kindred] = _AGENT_NOUN * counted[stem]
                    stems.append(kindred)
        return weights, matching

    def _synonyms_of(
        self, stem: str, stems: Sequence[str], weights: Mapping[str, float], counted: float
    ) -> Mapping[str, float]:
        """Return the weights of those synonyms of one query word that documents contain."""
        found: dict[str, float] = {}
        least = _SYNONYM_RARITY_MIN * self._vocabulary.rarity_max
        own_rarity = self._vocabulary.rarity(stems[0]) if stems else None
        for each in stems or (stem,):
            for other in self._synonyms.get(each, ()):
                if other in weights or other in found or other not in self._vocabulary:
                    continue
                rarity = self._vocabulary.rarity(other)
                if rarity >= least:
                    # A rare synonym of a common word must not count more than the word itself.
                    found[other] = _SYNONYM * counted * (1.0 if own_rarity is None else min(1.0, own_rarity / rarity))
        return found

    def _is_meant(self, stem: str) -> bool:
        """Return whether the documents have a word, or another one for it: then it is spelled as it is meant."""
        return stem in self._vocabulary or any(other in self._vocabulary for other in self._synonyms.get(stem, ()))

    def _misspelt(self, by_stem: Mapping[str, str]) -> dict[str, list[str]]:
        """Return the corrections of those words of a query that are likely to be misspelt, by stem."""
        misspelt: dict[str, list[str]] = {}
        for stem, term in by_stem.items():
            if not self._is_meant(stem):
                # A typo in the ending gives another stem, so the word itself is looked up as well.
                near = dict.fromkeys((*self._vocabulary.near(stem), *self._vocabulary.near(term)))
                # The word that most documents contain is the likeliest to be meant.
                likeliest = sorted(near, key=lambda each: -self._vocabulary.frequency(each))[:_REPAIRS_MAX]
                if likeliest:
                    misspelt[stem] = likeliest
        return misspelt

    def _parts(self, stem: str, term: str) -> list[str]:
        """Return the two words of the documents that an unknown word consists of."""
        if self._is_meant(stem):
            return []
        for place in range(_PART_MIN, min(len(term), _COMPOUND_MAX) - _PART_MIN + 1):
            parts = [self._stem(term[:place]), self._stem(term[place:])]
            if all(part in self._vocabulary for part in parts):
                return parts
        return []


def agent_noun_stems(stem: str) -> list[str]:
    """Return the stems of the agent noun of a verb, or of the verb of an agent noun: ``watch`` and ``watcher``."""
    if stem in _NOT_AGENTS or len(stem) < _VERB_MIN:
        return []
    if stem.endswith(_ENDING) and len(stem) >= _VERB_MIN + len(_ENDING):
        verb = stem.removesuffix(_ENDING)
        return [verb, f"{verb}e", *([verb[:-1]] if verb[-1] == verb[-2] else [])]
    agents = (f"{stem}r" if stem.endswith("e") else f"{stem}{_ENDING}", f"{stem}{stem[-1]}{_ENDING}")
    return [agent for agent in agents if agent not in _NOT_AGENTS]


_PACKAGE, _FILE = "toolcrib.search", "actions.txt"
_COMMENT, _BAR, _JOINT = "#", "|", "_"

_KINDRED, _OTHER, _WORKED, _CROSSED, _ANSWERED = 0.9, 0.92, 0.7, 0.5, 0.6
"""Factors on the relevance of a tool whose action differs from the requested one: both list or search; both only read,
or both write; the tool only works on what it is given, and the request is a question; one reads and the other writes;
the tool writes and the request is a question (ADR 42).
"""

_CLAUSES_MAX, _CLAUSE_WORDS_MAX, _ACTION_LETTERS_MAX, _OBJECT_MAX = 4, 40, 600, 8
"""Maximum number of clauses of a request, words of each, and letters of both that are examined for its action; and of
words for the object of its verb.
"""

_CLAUSE_END = re.compile(r"[.!?;:]+\s+|\n+|,\s+|\s+(?:and|then|but)\s+", re.IGNORECASE)

_POLITE = frozenset(
    "a able also an and ask be can could d do does for go have hello help hey hi how i if is it just kindly let like "
    "ll m me must my need now ok our please possible s should so the then there to try us want way we wish would you "
    "your".split()
)
"""Words that precede the verb of a request and say nothing about its action."""

_QUESTIONS = frozenset("any are did does had has have is was were what whats when where which who whose why".split())
_ASKS_NOTHING = frozenset(("it", "there"))
""""Is there a way to create…" is not a question about what exists."""

_AMOUNTS, _STATES = frozenset(("many", "much")), frozenset("are big did does far is long often old was".split())
_SPEAKERS = frozenset(("i", "we", "they", "you"))
_BEHIND_THINGS = PREPOSITIONS | _SPEAKERS
_SEEKING = frozenset(("look", "looking", "search", "searching"))
_BEING = frozenset(("am", "m", "re"))
_ALL = frozenset(("all", "every", "each"))
_ARTICLES = frozenset("a an my our the your".split())
_DETERMINERS = _ALL | frozenset(
    "a an any her his it its me my new our some that the their them these this those us what your".split()
)
_SKIPPED = frozenset(("me", "us"))
_PLURAL_MIN = 4
_PARTICIPLES, _GERUND, _UN = ("ed", "ing"), "ing", "un"
_SINGULAR_ENDINGS = ("ss", "us", "is")
_APART_MAX = 3
"""Maximum number of words between the verb and the particle of a phrasal verb: "take the old pod down"."""

_CONJUNCTIONS = frozenset(("and", "or"))
_NAME_TAIL, _BEHIND_NOUN = PREPOSITIONS | {"per", "via"}, PREPOSITIONS | {"that", "which"}
_LEAD_IN = frozenset(
    "a allow allows also an api be can command enable enables endpoint for function help helps is it let lets that the "
    "this to tool use used user users which will you your".split()
)
"""Words that precede the verb of a summary: "This tool lets you list…"."""

_ADVERB = "ly"


@dataclass(frozen=True, slots=True)
class Action:
    """An action. ``effect``: ``look``, ``read``, ``none`` or ``write``, as in the table."""

    effect: str
    name: str

    @property
    def changes_nothing(self) -> bool:
        """Return whether it only reads."""
        return self.effect in {"look", "read"}


Actions = frozenset[Action]
NO_ACTIONS: Actions = frozenset()


@dataclass(frozen=True, slots=True)
class RequestedAction:
    """What a request asks for: one of ``actions``.

    ``is_question``: it only asks for information, which any reading tool may give.
    """

    actions: Actions = NO_ACTIONS
    is_question: bool = False


NO_REQUESTED_ACTION = RequestedAction()


@dataclass(frozen=True, slots=True)
class VerbTable:
    """Verbs with their actions, as stems. ``nouns`` are those that are read as verbs only before an object.

    ``phrases`` are verbs of several words, by their first. ``things`` are nouns of two words of which the first may be
    a verb. ``either`` are verbs that before another noun are nouns: "order history". ``reports`` are nouns of what is
    only read; ``states`` adjectives of what exists, as they are written.
    """

    plain: Mapping[str, Actions]
    nouns: Mapping[str, Actions]
    phrases: Mapping[str, Mapping[Sequence[str], Actions]]
    things: Collection[Sequence[str]]
    either: Collection[str]
    reports: Collection[str]
    states: Collection[str]


class Verbs:
    """Reads the actions of requests and of tools, by a table of verbs."""

    def __init__(self, table: VerbTable, stem: Callable[[str], str]) -> None:
        self._table, self._stem = table, stem
        every = frozenset[Action]().union(*table.plain.values())
        self._looking = frozenset(each for each in every if each.effect == "look")
        self._questions = RequestedAction(frozenset(each for each in every if each.changes_nothing), is_question=True)
        self._listing, self._getting, self._seeking = (
            frozenset(each for each in every if each.name == name) for name in ("list", "get", "search")
        )

    def is_verb(self, word: str, *, is_first: bool = False) -> bool:
        """Return whether a word is a verb of the table; what looks like a plural is one only as the first."""
        return self._stem(word) in self._table.plain and (is_first or not is_plural(word))

    def actions(self, name: str) -> Actions:
        """Return the actions with this name or effect."""
        every = frozenset[Action]().union(*self._table.plain.values())
        return frozenset(each for each in every if name in {each.name, each.effect})

    def is_look(self, stem: str) -> bool:
        """Return whether a verb with this stem may mean to look at something."""
        return bool(self._table.plain.get(stem, NO_ACTIONS) & self._looking)

    def stems_of(self, actions: Actions) -> frozenset[str]:
        """Return the stems of the verbs that mean one of these actions, without those that are nouns as often."""
        return frozenset(stem for stem, meant in self._table.plain.items() if meant & actions)

    def requested(self, request: str) -> RequestedAction:
        """Return the action that a request asks for: by the first verb of each clause, or by being a question."""
        clauses = filter(None, map(words, _CLAUSE_END.split(request[:_ACTION_LETTERS_MAX])))
        read = [
            self._clause(said[:_CLAUSE_WORDS_MAX], is_first=place == 0)
            for place, said in enumerate(islice(clauses, _CLAUSES_MAX))
        ]
        known = [each for each in read if each.actions]
        actions = NO_ACTIONS.union(*(each.actions for each in known))
        return RequestedAction(actions, is_question=bool(known) and all(each.is_question for each in known))

    def _clause(self, said: Sequence[str], *, is_first: bool) -> RequestedAction:
        """Return the action of one clause: of its first verb after polite words, else of what it names."""
        place = 0
        for place, (word, follower) in enumerate(pairwise([*said, ""])):
            if word == "how" and follower in _AMOUNTS:
                return RequestedAction(self._looking)
            if _is_question(word, follower, is_first=place == 0):
                return self._questions
            if word in _SEEKING and follower == "for":
                return RequestedAction(self._seeking)
            # "I'm recovering from…" tells of the speaker.
            if word in _BEING and follower.endswith(_GERUND) and follower not in _SEEKING:
                return NO_REQUESTED_ACTION
            is_noun = place > 0 and said[place - 1] in _ARTICLES
            if not is_noun and (actions := self._verb(said, place, is_first=is_first)):
                return RequestedAction(actions)
            if word not in _POLITE:
                break
        return self._questions if is_first and self._names_what_exists(said[place:]) else NO_REQUESTED_ACTION

    def performed(self, name: str, summary: str, server: str) -> Actions:
        """Return what a tool does, by the words of its name, or else by the first verbs of its summary.

        Words of its server's name say nothing about what the tool does.
        """
        owned = set(server.split())
        said = [word for word in name.split() if word not in owned or word == name]
        named = [*said[:1], *takewhile(lambda word: word not in _NAME_TAIL, said[1:])]
        return self._by_name(named) or self._by_summary(summary.split()) or self._nouns_in_name(named)

    def _by_name(self, said: Sequence[str]) -> Actions:
        if actions := self._phrase(said, 0) if said else NO_ACTIONS:
            return actions
        # A plural or a gerund is not a verb: "commit changes", "house renting"; nor is a part of a thing's name.
        verbs = [place for place, word in enumerate(said) if not _is_noun_form(word)]
        places = [place for place in verbs if not self._is_thing(said, place)]
        for place in dict.fromkeys((*places[:1], *places[-1:], *places)):
            stem = self._stem(said[place])
            if stem in self._table.plain and stem not in self._table.either:
                return self._joined(said, place)
        if len(said) > 1 and self._is_report(said[-1]):
            return self._getting
        stems = (self._stem(said[place]) for place in places)
        return next((self._table.plain[stem] for stem in stems if stem in self._table.plain), NO_ACTIONS)

    def _by_summary(self, said: Sequence[str]) -> Actions:
        """Return the actions of a summary's first verbs: "Lists…", "List, create or delete…", never of a noun there."""
        for place, word in enumerate(said):
            follower = said[place + 1] if place + 1 < len(said) else ""
            if self._stem(word) in self._table.plain:
                return self._joined(said, place)
            if is_plural(word) and follower not in _BEHIND_NOUN and self._stem(word) in self._table.nouns:
                return self._table.nouns[self._stem(word)]
            if word not in _LEAD_IN and not word.endswith(_ADVERB):
                break
        return NO_ACTIONS

    def _nouns_in_name(self, said: Sequence[str]) -> Actions:
        return self._table.nouns.get(self._stem(said[0]), NO_ACTIONS) if len(said) > 1 else NO_ACTIONS

    def _joined(self, said: Sequence[str], place: int) -> Actions:
        """Return the actions of the verb at a position, and of those joined to it by "and" or "or"."""
        rest = takewhile(lambda word: word in _CONJUNCTIONS or self._stem(word) in self._table.plain, said[place + 1 :])
        run = list(rest)
        if not _CONJUNCTIONS.intersection(run):
            run = []
        every = (self._table.plain.get(self._stem(word), NO_ACTIONS) for word in (said[place], *run))
        return NO_ACTIONS.union(*every)

    def _verb(self, said: Sequence[str], place: int, *, is_first: bool) -> Actions:
        """Return the actions of the word at a position, read as a verb; none if it is not a verb."""
        word, stem = said[place], self._stem(said[place])
        if self._is_thing(said, place):
            return NO_ACTIONS
        if actions := self._phrase(said, place):
            return actions
        rest = said[place + 1 :]
        has_object = any(map(_begins_object, rest[:1]))
        if stem not in self._table.plain:
            return self._table.nouns.get(stem, NO_ACTIONS) if has_object else NO_ACTIONS
        if not has_object and (self._is_no_verb(word, rest) or not (is_first or rest)):
            return NO_ACTIONS
        actions = self._table.plain[stem]
        return self._wanted_from_looking(actions, rest) if actions & self._looking else actions

    def _is_no_verb(self, word: str, rest: Sequence[str]) -> bool:
        """Return whether a word that may be a verb is none before these words: "order history", "open orders"."""
        if is_plural(word):  # a request is an imperative
            return True
        if word in self._table.states:
            return self._is_state([word, *_object(rest)])
        return self._stem(word) in self._table.either and any(map(self._is_report, _object(rest)[-1:]))

    def _is_state(self, named: Sequence[str]) -> bool:
        """Return whether words begin with an adjective of what exists: "new files", while "new branch" asks for one."""
        is_verb = self._stem(named[0]) in self._table.plain
        return named[0] in self._table.states and (not is_verb or any(map(is_plural, named[1:])))

    def _is_thing(self, said: Sequence[str], place: int) -> bool:
        return tuple(map(self._stem, said[place : place + 2])) in self._table.things

    def _is_report(self, word: str) -> bool:
        return self._stem(word) in self._table.reports

    def _phrase(self, said: Sequence[str], place: int) -> Actions:
        """Return the actions of the verb of several words that begins at a position; none if none does."""
        for rest, actions in self._table.phrases.get(self._stem(said[place]), {}).items():
            behind = said[place + 1 : place + 1 + _APART_MAX + len(rest)]
            if tuple(behind[: len(rest)]) == rest:
                return actions
            if len(rest) == 1 and rest[0] not in _DETERMINERS and rest[0] in behind and _begins_object(behind[0]):
                return actions
        return NO_ACTIONS

    def _names_what_exists(self, said: Sequence[str]) -> bool:
        """Return whether words without a verb name what is there to read: "commit history", "open orders"."""
        said = [*said[1:]] if said[:1] and said[0] in _ARTICLES else [*said]
        named = _object(said)
        # "Foo the bars": an unknown verb.
        if not named or not _DETERMINERS.isdisjoint(named[1:]):
            return False
        if self._is_report(named[-1]):
            return True
        if len(named) > 1 and (self._is_state(named) or _is_undone(named[0])):
            return True
        # A plural with more behind it is there: "comments on an issue", "pods running on a node", "files I changed".
        behind = (said[place + 1] if place + 1 < len(said) else "" for place in range(len(named)))
        return any(
            is_plural(word) and (after in _BEHIND_THINGS or after.endswith(_PARTICIPLES))
            for word, after in zip(named, behind, strict=True)
        )

    def _wanted_from_looking(self, actions: Actions, rest: Sequence[str]) -> Actions:
        """Return what a verb of looking asks for: details of one thing, or a list of things of a kind."""
        about = _object(rest)
        if _ALL.intersection(about):
            return actions | self._listing
        if any(self._getting & self._table.nouns.get(self._stem(word), NO_ACTIONS) for word in about):
            return self._getting
        return actions | self._listing if any(map(is_plural, about)) else actions


@cache
def read_verbs(stem: Callable[[str], str]) -> Verbs:
    """Return the table that ships with the package. Reads a file, the first time that a process asks for it."""
    text = files(_PACKAGE).joinpath(_FILE).read_text(encoding="utf-8")
    return verbs((line for line in text.splitlines() if line and not line.startswith(_COMMENT)), stem)


def verbs(lines: Iterable[str], stem: Callable[[str], str]) -> Verbs:
    """Return verbs from lines such as ``write create: create set_up add | file``, or ``reports: history log``."""
    plain: defaultdict[str, Actions] = defaultdict(frozenset)
    nouns: defaultdict[str, Actions] = defaultdict(frozenset)
    phrases: defaultdict[str, defaultdict[Sequence[str], Actions]] = defaultdict(lambda: defaultdict(frozenset))
    listed: defaultdict[str, set[str]] = defaultdict(set)
    for line in lines:
        head, _, rest = line.partition(":")
        if " " not in head:
            listed[head].update(rest.split())
            continue
        action = frozenset((Action(*head.split()),))
        for table, part in zip((plain, nouns), rest.split(_BAR), strict=False):
            for word in part.split():
                first, *others = word.split(_JOINT)
                if others:
                    phrases[stem(first)][tuple(others)] |= action
                else:
                    table[stem(word)] |= action
    either, reports = (frozenset(map(stem, listed[name])) for name in ("either", "reports"))
    things = frozenset(tuple(map(stem, thing.split(_JOINT))) for thing in listed["things"])
    return Verbs(VerbTable(dict(plain), dict(nouns), phrases, things, either, reports, listed["states"]), stem)


def parted(query: Query, verbs: Verbs) -> Query:
    """Return a short request with its parts if it has several that each ask for an action: "tag it and tell Ana"."""
    if query.parts or len(query.terms) >= _WHOLE_WORDS_MIN:
        return query
    parts = [*islice(_clauses(query.text, query.terms, _SHORT_PART_END), _PARTS_MAX)]
    # Nouns are joined by the same words: "the name and the address of a customer".
    is_several = len(parts) > 1 and all(_is_significant(part) and _asks(verbs.requested(part.text)) for part in parts)
    return replace(query, parts=parts) if is_several else query


def _asks(requested: RequestedAction) -> bool:
    return bool(requested.actions) and not requested.is_question


def agreement(requested: RequestedAction, performed: Actions) -> float:
    """Return the factor on the relevance of a tool with these actions for this request; 1 if either is unknown.

    The same action gives no bonus either: its words have already counted.
    """
    if not requested.actions or not performed or requested.actions & performed:
        return 1.0
    if requested.is_question:
        effects = {each.effect for each in performed}
        return _ANSWERED if effects == {"write"} else _WORKED if effects == {"none"} else 1.0
    if all(any(each.effect == "look" for each in actions) for actions in (requested.actions, performed)):
        return _KINDRED
    return _CROSSED if {_reads(requested.actions), _reads(performed)} == {True, False} else _OTHER


def _reads(actions: Actions) -> bool | None:
    """Return True if these only read, False if they only write; None if they do neither, or both."""
    if all(each.changes_nothing for each in actions):
        return True
    return False if all(each.effect == "write" for each in actions) else None


def _is_question(word: str, follower: str, *, is_first: bool) -> bool:
    if word == "how":
        return follower in _STATES
    if not is_first or follower in _ASKS_NOTHING:
        return False
    return word in _QUESTIONS or (word == "do" and follower in _SPEAKERS)


def _begins_object(word: str) -> bool:
    """Return whether a word behind a verb that may be a noun makes it a verb: "commit the…", "commit staged…"."""
    is_participle = word.endswith(_PARTICIPLES[0]) and len(word) > _PLURAL_MIN
    return word in _DETERMINERS or is_participle or word.isdigit()


def _object(rest: Sequence[str]) -> list[str]:
    """Return the words behind a verb that say what it is about, up to where something else begins."""
    named = [word for word in islice(rest, _OBJECT_MAX) if word not in _SKIPPED]
    first = named[:1]
    return first + list(takewhile(lambda word: word not in PREPOSITIONS, named[1:]))


def is_plural(word: str) -> bool:
    """Return whether a word looks like a plural, or like a verb in the third person."""
    return len(word) >= _PLURAL_MIN and word.endswith("s") and not word.endswith(_SINGULAR_ENDINGS)


def _is_noun_form(word: str) -> bool:
    return is_plural(word) or word.endswith(_GERUND)


def _is_undone(word: str) -> bool:
    """Return whether a word is a participle such as "uncommitted"."""
    return word.startswith(_UN) and word.endswith(_PARTICIPLES[0])
