"""The action that a request asks for, the action in a tool's name, and how well they agree.

Knows verbs of software work and what they do to things; never knows which tools there are or how they are ranked.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import islice, pairwise, takewhile

from toolcrib.base.text import words
from toolcrib.search.query import PREPOSITIONS

_PACKAGE, _FILE = "toolcrib.search", "actions.txt"
_COMMENT, _BAR = "#", "|"

_KINDRED, _OTHER, _CROSSED, _ANSWERED = 0.9, 0.92, 0.78, 0.8
"""Factors on the relevance of a tool whose action differs from the requested one: both list or search; both only read,
or both write; one reads and the other writes; the tool writes and the request is a question.

Measured on the tuned halves of four catalogs, where quality is flat around these values.
"""

_WORDS_MAX, _OBJECT_MAX = 40, 8
"""Maximum number of words of a request examined for its action, and for the object of its verb."""

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
_SEEKING = frozenset(("look", "looking", "search", "searching"))
_ALL = frozenset(("all", "every", "each"))
_DETERMINERS = _ALL | frozenset(
    "a an any her his it its me my new our some that the their them these this those us what your".split()
)
_SKIPPED = frozenset(("me", "us"))
_PLURAL_MIN = 4
_PARTICIPLE = "ed"
_SINGULAR_ENDINGS = ("ss", "us", "is")


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
class Asked:
    """What a request asks for. ``is_question``: it only asks for information, which any reading tool may give."""

    actions: Actions = NO_ACTIONS
    is_question: bool = False


NOTHING_ASKED = Asked()


class Verbs:
    """Verbs with their actions, as stems. ``nouns`` are those that are used as nouns just as often."""

    def __init__(self, plain: Mapping[str, Actions], nouns: Mapping[str, Actions], stem: Callable[[str], str]) -> None:
        self._plain, self._nouns, self._stem = plain, nouns, stem
        every = frozenset[Action]().union(*plain.values())
        self._looking = frozenset(each for each in every if each.effect == "look")
        self._questions = Asked(frozenset(each for each in every if each.changes_nothing), is_question=True)
        self._listing, self._getting, self._seeking = (
            frozenset(each for each in every if each.name == name) for name in ("list", "get", "search")
        )

    def asked(self, request: str) -> Asked:
        """Return the action that a request asks for: by its first verb after polite words, or by being a question."""
        said = words(request)[:_WORDS_MAX]
        for place, (word, follower) in enumerate(pairwise([*said, ""])):
            if word == "how" and follower in _AMOUNTS:
                return Asked(self._looking)
            if _is_question(word, follower, is_first=place == 0):
                return self._questions
            if word in _SEEKING and follower == "for":
                return Asked(self._seeking)
            if actions := self._verb(said, place):
                return Asked(actions)
            if word not in _POLITE:
                break
        return NOTHING_ASKED

    def done(self, name: str, summary: str, server: str) -> Actions:
        """Return what a tool does, by the words of its name, or else by the first word of its summary.

        Words of its server's name say nothing about what the tool does.
        """
        owned = set(server.split())
        said = [word for word in name.split() if word not in owned or word == name]
        # A plural is not a verb: "commit changes".
        verbs = (word for word in (*said[-1:], *said) if not _is_plural(word))
        for word in (*said[:1], *verbs):
            stem = self._stem(word)
            if stem in self._plain:
                return self._plain[stem]
        led = self._led(summary)
        return led or (self._nouns.get(self._stem(said[0]), NO_ACTIONS) if len(said) > 1 else NO_ACTIONS)

    def _led(self, summary: str) -> Actions:
        """Return the action of a summary's first word: "Lists…", or "Records…", never a noun there."""
        first = next(iter(summary.split(maxsplit=1)), "")
        stem = self._stem(first)
        return self._plain.get(stem) or (self._nouns.get(stem, NO_ACTIONS) if _is_plural(first) else NO_ACTIONS)

    def _verb(self, said: Sequence[str], place: int) -> Actions:
        """Return the actions of the word at a position, read as a verb; none if it is not a verb."""
        stem = self._stem(said[place])
        if stem not in self._plain:
            has_object = any(map(_begins_object, said[place + 1 : place + 2]))
            return self._nouns.get(stem, NO_ACTIONS) if has_object else NO_ACTIONS
        actions = self._plain[stem]
        return self._looked_for(actions, said[place + 1 :]) if actions & self._looking else actions

    def _looked_for(self, actions: Actions, rest: Sequence[str]) -> Actions:
        """Return what a verb of looking asks for: details of one thing, or a list of things of a kind."""
        about = _object(rest)
        if _ALL.intersection(about):
            return actions | self._listing
        if any(self._getting & self._nouns.get(self._stem(word), NO_ACTIONS) for word in about):
            return self._getting
        return actions | self._listing if any(map(_is_plural, about)) else actions


def read_verbs(stem: Callable[[str], str]) -> Verbs:
    """Return the table that ships with the package. Reads a file."""
    text = files(_PACKAGE).joinpath(_FILE).read_text(encoding="utf-8")
    return verbs((line for line in text.splitlines() if line and not line.startswith(_COMMENT)), stem)


def verbs(lines: Iterable[str], stem: Callable[[str], str]) -> Verbs:
    """Return verbs from lines such as ``write create: create add | file``."""
    plain: defaultdict[str, Actions] = defaultdict(frozenset)
    nouns: defaultdict[str, Actions] = defaultdict(frozenset)
    for line in lines:
        head, _, rest = line.partition(":")
        action = frozenset((Action(*head.split()),))
        for table, part in zip((plain, nouns), rest.split(_BAR), strict=False):
            for word in part.split():
                table[stem(word)] |= action
    return Verbs(dict(plain), dict(nouns), stem)


def agreement(asked: Asked, done: Actions) -> float:
    """Return the factor on the relevance of a tool with these actions for this request; 1 if either is unknown.

    The same action gives no bonus either: its words have already counted.
    """
    if not asked.actions or not done or asked.actions & done:
        return 1.0
    if asked.is_question:
        return 1.0 if any(each.effect != "write" for each in done) else _ANSWERED
    if all(any(each.effect == "look" for each in actions) for actions in (asked.actions, done)):
        return _KINDRED
    return _CROSSED if {_reads(asked.actions), _reads(done)} == {True, False} else _OTHER


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
    return word in _DETERMINERS or (word.endswith(_PARTICIPLE) and len(word) > _PLURAL_MIN)


def _object(rest: Sequence[str]) -> Collection[str]:
    """Return the words behind a verb that say what it is about, up to where something else begins."""
    named = [word for word in islice(rest, _OBJECT_MAX) if word not in _SKIPPED]
    first = named[:1]
    return first + list(takewhile(lambda word: word not in PREPOSITIONS, named[1:]))


def _is_plural(word: str) -> bool:
    return len(word) >= _PLURAL_MIN and word.endswith("s") and not word.endswith(_SINGULAR_ENDINGS)
