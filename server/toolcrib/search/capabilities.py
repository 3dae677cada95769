"""Finds which capabilities a tool shows, and in which other words people ask for them (ADR 62)."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from hashlib import sha256
from heapq import heapify, heappop
from importlib.resources import files
from itertools import chain, takewhile
from math import sqrt
from typing import NamedTuple

from toolcrib.base.text import STOP_WORDS, words
from toolcrib.search.english import APART, stem
from toolcrib.search.postings import rarity
from toolcrib.search.query import Verbs, is_plural, read_verbs

_PACKAGE, _FILE = "toolcrib.search", "capabilities.txt"
_COMMENT, _HEADING, _INDENT = "#", "[", (" ", "\t")
_END, _OR, _JOINED, _WITHOUT = ";", "|", "-", "-"
_CONTEXT = re.compile(r"\([^()]*\)")
_NO_PARENTHESES = str.maketrans("()", "  ")
_DIGEST = 12

_CONNECTIVES = frozenset("as for from in into of on to".split())
"""Words behind which a name or a summary says what the object belongs to or goes to."""

_CONJUNCTIONS = frozenset(("and", "or"))
_MEANS = frozenset(
    "about across after against also and any are at based be before between but by can e each either every g "
    "given if including is it matching only optionally or over per such than that then through under up using via was "
    "what when where which while whose will with within without you your".split()
)
"""Words that end what a summary says of its object: what follows says how, or something else."""

_PASSED = frozenset("a all an any every her his its more multiple my new one or our several some the your".split())
_CONTAINERS = frozenset(
    "all any batch collection content contents detail details info information kind list lists metadata object objects "
    "one properties relationships resource resources series set".split()
)
"""Nouns of which something follows behind "of" that is meant itself: "a list of issues"."""

_PREAMBLE = frozenset(
    "a action allow allows an api be can endpoint function helper it lets operation perform performs the this to tool "
    "use used user users will you".split()
)
"""Words with which a summary begins before it says what the tool does."""

_TAIL = frozenset(
    "all async batch bulk collection data detail details get id ids info information json list new object objects "
    "resource resources tool url v".split()
)
"""Words at the end of a name that are seldom its object."""

_WEAK_VERBS = frozenset("do handl make manag perform provid work".split())
_LISTING = frozenset("all browse enumerate every find list lists listing many multiple query search several".split())
_LISTED = frozenset("count fetch get list read retrieve search show".split())
"""Verbs before which "list" at the end of a name is no object: what updates a task list updates no task."""

_LIST, _SINGLE = "list ", re.compile(r"get an? ")
_APART = (
    "animation authorization building conversion customer doc documentation experiment filing finding holding listing "
    "mapping marketing reading recording saving setting training transition"
)
_OWN_STEMS = {form: word for word in _APART.split() for form in (word, f"{word}s")}
"""Words that the stemmer takes for others: no collection of documents has documentation, and no list is a listing."""

_REVERSING = "un"
_OWNERS = frozenset("account drive group item member organ region share site team tenant user workspac".split())
"""Stems of what has or holds nearly anything: the channels of a team are channels."""

_AS_ONE = {
    f" {phrase} ": f" {word} "
    for word, phrases in {
        "login": ("log in",),
        "logout": ("log out",),
        "oncall": ("on call",),
        "signin": ("sign in",),
        "signout": ("sign out",),
        "turn": ("turn on", "turn off"),
    }.items()
    for phrase in phrases
}
"""Words that are one although they contain a preposition."""

_NOUNS_FIRST = frozenset(
    "backup book build change commit document export import link order query record release report request search test "
    "transfer upload".split()
)
"""Verbs that are nouns where a name has another verb at its end: "order create"."""

_MAIN_MAX, _COMPLEMENT_MAX = 8, 6
"""Maximum number of words of a summary that are read as verb and object, and of those behind a connective."""


class CapabilityError(ValueError):
    """A line of a dictionary cannot be read: the number ``line``, from 1, of the file ``source``."""

    def __init__(self, source: str, line: int, reason: str) -> None:
        super().__init__(f"{source}, line {line}: {reason}")
        self.source, self.line, self.reason = source, line, reason


@dataclass(frozen=True, slots=True)
class Capability:
    """Something that tools do. ``name`` says it in English, ``ways`` are those in which people ask for it."""

    name: str
    ways: Sequence[str]


@dataclass(frozen=True, slots=True)
class Shown:
    """A capability that a tool shows. ``by`` are the stems by which it does."""

    capability: Capability
    by: AbstractSet[str]


class Asked(NamedTuple):
    """A capability that a request asks for. ``mark`` is a stem that tools have which show it.

    ``score`` compares it with others; ``share`` is the share of the request that its ways of asking have, each word by
    its rarity among capabilities.
    """

    mark: str
    score: float
    share: float


class Capabilities:
    """A dictionary of capabilities. Safe to use from several threads; read when it is first asked.

    ``texts`` are pairs of a name for errors and the text of a file. ``digest`` identifies them; it is empty if there
    are none.
    """

    def __init__(self, texts: Sequence[tuple[str, str]] = ()) -> None:
        self._texts = texts
        digest = sha256("\0".join(chain.from_iterable(texts)).encode()).hexdigest()
        self.digest = digest[:_DIGEST] if texts else ""

    def ways(self, name: str, summary: str, server: str, others: Sequence[str]) -> str:
        """Return the distinct words in which people ask for what a tool does; empty if it shows no capability.

        With them are the marks of its capabilities, which are no words (:meth:`asked`).

        All texts of the tool are split into words; ``others`` are those besides its name, summary and server's name.
        """
        if not self._texts:
            return ""
        found = self._index.found(name, summary, server, others)
        said = chain.from_iterable(self._asking.words[number] for number in found)
        return " ".join(dict.fromkeys(chain(said, map(_mark, found))))

    def asked(self, stems: Mapping[str, float]) -> Iterator[Asked]:
        """Yield the capabilities that a request asks for, best first.

        ``stems`` are those of the request, with their weights.
        """
        if not self._texts:
            return
        asking = self._asking
        total = 0.0
        met: dict[int, float] = {}
        for each, weight in stems.items():
            value = weight * asking.rarities.get(each, asking.rarity_max)
            total += value
            for number in asking.having.get(each, ()):
                met[number] = met.get(number, 0.0) + value
        # The best few are looked at, so a heap is cheaper than sorting all.
        scored = [(-value / asking.norms[number], number) for number, value in met.items()]
        heapify(scored)
        while scored:
            value, number = heappop(scored)
            yield Asked(_mark(number), -value, met[number] / total)

    def shown(self, name: str, summary: str, server: str, others: Sequence[str]) -> list[Shown]:
        """Return the capabilities that a tool shows, with what shows them."""
        every, index = self._index.every, self._index
        return [Shown(every[number], by) for number, by in index.found(name, summary, server, others).items()]

    def marked(self) -> Iterator[tuple[str, Capability]]:
        """Yield every capability with its mark."""
        return ((_mark(number), each) for number, each in enumerate(self.every))

    @property
    def every(self) -> Sequence[Capability]:
        """All capabilities, in the order of the files.

        Raises:
            CapabilityError: a line cannot be read.

        """
        return self._index.every

    @cached_property
    def _index(self) -> "_Index":
        return _Index.build(
            chain.from_iterable(_entries(text, source) for source, text in self._texts), read_verbs(stem)
        )

    @cached_property
    def _asking(self) -> "_Asking":
        said = (chain.from_iterable(map(words, (each.name, *each.ways))) for each in self._index.every)
        return _Asking([tuple(dict.fromkeys(word for word in each if word not in STOP_WORDS)) for each in said])


class _Asking:
    """The distinct words of the ways of asking for each capability, by its number, and the capabilities by stem.

    Of two that have the same words of a request, the one with fewer others is meant: ``norms`` grow with the words.
    ``rarities`` are those of the stems among capabilities; a stem that none has is of ``rarity_max``.
    """

    def __init__(self, words: Sequence[Sequence[str]]) -> None:
        self.words = words
        stems = [frozenset(map(stem, each)) for each in words]
        self.having: dict[str, list[int]] = {}
        for number, each in enumerate(stems):
            for one in each:
                self.having.setdefault(one, []).append(number)
        self.rarities = {each: rarity(len(numbers), len(words)) for each, numbers in self.having.items()}
        self.rarity_max = rarity(0, len(words))
        average = sum(map(len, stems)) / max(len(stems), 1)
        self.norms = [sqrt((1 + len(each) / average) / 2) for each in stems]


def _mark(number: int) -> str:
    return f"{APART}{APART}{number}"


NO_CAPABILITIES = Capabilities()
_DICTIONARIES_KEPT = 2


@lru_cache(_DICTIONARIES_KEPT)
def shipped(more: tuple[tuple[str, str], ...] = ()) -> Capabilities:
    """Return the dictionary that ships with the package, and ``more`` files of a person's own. Reads a file.

    Every config and every crib of a process that has the same ones shares what is made of them: it takes longer to make
    than anything else that a search needs.
    """
    text = files(_PACKAGE).joinpath(_FILE).read_text(encoding="utf-8")
    return Capabilities(((_FILE, text), *more))


# -- what a tool says ------------------------------------------------------------------------------


class _Phrase(NamedTuple):
    """What a name or a summary says, as stems.

    ``heads`` are those that may be the object. ``leading`` is the verb that says what is done, if any; ``has_verb``:
    one is there. ``of_many``: the object is a plural, or listed, or looked for. ``telling`` are those by which it may
    be about something else.
    """

    stems: Sequence[str]
    heads: AbstractSet[str]
    leading: str | None
    has_verb: bool
    of_many: bool
    telling: AbstractSet[str]


def _of_name(name: str, verbs: Verbs) -> _Phrase | None:
    said = [word for word in _as_one(name).split() if word not in _CONJUNCTIONS]
    end = next((place for place, word in enumerate(said) if place and word in _CONNECTIVES | _MEANS), len(said))
    main = said[:end]
    if not main:
        return None
    # "by", "with" and the like introduce a means, which says nothing of the object.
    rest = said[end + 1 :] if end < len(said) and said[end] in _CONNECTIVES else ()
    is_verb = [verbs.is_verb(word) for word in main]
    is_verb[0] = is_verb[0] and not (len(main) > 1 and is_verb[-1] and main[0] in _NOUNS_FIRST)
    phrase = _phrase(main, [word for word in rest if word not in _CONNECTIVES], is_verb)
    first = phrase.stems[0]
    if is_verb[0] or (main[0].startswith(_REVERSING) and verbs.is_verb(main[0].removeprefix(_REVERSING))):
        leading = first
    elif is_verb[-1]:
        leading = phrase.stems[len(main) - 1]
    else:
        place = next((place for place, verb in enumerate(is_verb) if verb), None)
        leading = None if place is None else phrase.stems[place]
        if place is not None:
            # What precedes the verb is a product or a part of it.
            phrase = phrase._replace(telling=phrase.telling & {*phrase.stems[place:]})
    return phrase._replace(leading=None if leading in _WEAK_VERBS else leading)


def _of_summary(summary: str, verbs: Verbs) -> _Phrase | None:
    said = _as_one(summary).split()
    start = sum(1 for _ in takewhile(_PREAMBLE.__contains__, said[:_MAIN_MAX]))
    main: list[str] = []
    rest: list[str] = []
    for place, word in enumerate(said[start:], start):
        # "the properties and relationships of an event" are an event.
        if word in _PASSED or (word in {"of", "and"} and main and main[-1] in _CONTAINERS):
            continue
        if word in _CONNECTIVES:
            behind = takewhile(lambda each: each not in _MEANS, said[place + 1 : place + 1 + _COMPLEMENT_MAX])
            rest = [each for each in behind if each not in _PASSED and each not in _CONNECTIVES]
            break
        if word in _MEANS:
            break
        if len(main) == _MAIN_MAX:
            return None
        main.append(word)
    if not main:
        return None
    # "Lists the issues": what looks like a plural is a verb where a summary begins.
    is_verb = [verbs.is_verb(word, is_first=not place) for place, word in enumerate(main)]
    phrase = _phrase(main, rest, is_verb)
    # What a summary does not say is not meant.
    return None if phrase.leading in _WEAK_VERBS else phrase._replace(has_verb=True)


def _phrase(main: Sequence[str], rest: Sequence[str], is_verb: Sequence[bool]) -> _Phrase:
    stems = [*map(_stem, main)]
    # What follows the verb at once is the object, whatever it is: "delete collection".
    first, end = is_verb.index(True) + 2 if any(is_verb) else 1, len(main)
    while end > first and (main[end - 1] in _TAIL or main[end - 1].isdigit()):
        if main[end - 1] == _LIST.strip() and is_verb[0] and main[0] not in _LISTED:
            break
        end -= 1
    heads = {stems[end - 1], stems[-1]}
    if not is_verb[0] and (is_verb[end - 1] or end < len(main)):
        # "message send": the object precedes the verb.
        heads.update(next(([stems[place]] for place in range(end - 1, -1, -1) if not is_verb[place]), ()))
    listing = main[:1] if is_verb[0] else main
    of_many = not _LISTING.isdisjoint(listing) or is_plural(main[end - 1])
    every = [*stems, *map(_stem, rest)]
    return _Phrase(every, heads, stems[0], any(is_verb), of_many, frozenset(every) - _OWNERS)


def _as_one(text: str) -> str:
    if " on " not in text and " in " not in text and " o" not in text:
        return text
    padded = f" {text} "
    for phrase, word in _AS_ONE.items():
        padded = padded.replace(phrase, word)
    return padded.strip()


def _stem(word: str) -> str:
    return _OWN_STEMS.get(word) or stem(word)


# -- what shows a capability -----------------------------------------------------------------------


class _Group(NamedTuple):
    """Alternatives of which a sign needs one: stems, and compounds of several as texts between spaces.

    ``is_look``: they are verbs that only look, which a name without a verb may leave out.
    """

    stems: AbstractSet[str]
    compounds: Sequence[str]
    is_look: bool = False

    def met(self, said: AbstractSet[str], padded: str) -> AbstractSet[str]:
        """Return the stems of a phrase by which it is met; none if it is not."""
        met = self.stems & said
        for compound in self.compounds:
            if compound in padded:
                met |= {*compound.split()}
        return met

    @property
    def parts(self) -> Iterator[str]:
        """The stems of all alternatives."""
        return chain(self.stems, chain.from_iterable(compound.split() for compound in self.compounds))


@dataclass(frozen=True, slots=True)
class _Sign:
    """What shows a capability: a word of each group, the last of ``groups`` being the object, ``beyond`` behind it.

    ``of_many``: the object must be several (True) or one (False); None: either. One of the stems ``near`` and none of
    ``nowhere`` must be in any text of the tool, none of ``without`` in its name or summary.
    """

    capability: int
    section: str
    groups: Sequence[_Group]
    beyond: Sequence[_Group]
    near: AbstractSet[str]
    nowhere: AbstractSet[str]
    without: AbstractSet[str]
    of_many: bool | None


@dataclass(slots=True)
class _Index:
    """Signs by the stem of their object. ``objects`` are the stems that signs use other than as verbs, by section."""

    verbs: Verbs
    every: list[Capability] = field(default_factory=list[Capability])
    by_head: dict[str, list[_Sign]] = field(default_factory=dict[str, list[_Sign]])
    objects: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    foreign: Mapping[str, AbstractSet[str]] = field(default_factory=dict[str, AbstractSet[str]])

    @classmethod
    def build(cls, entries: Iterable["_Entry"], verbs: Verbs) -> "_Index":
        index = cls(verbs)
        for entry in entries:
            index._add(entry)
        every = set(chain.from_iterable(index.objects.values()))
        index.foreign = {section: every - own for section, own in index.objects.items()}
        return index

    def _add(self, entry: "_Entry") -> None:
        own = self.objects.setdefault(entry.section, set())
        for text in filter(None, map(str.strip, entry.signs.split(_END))):
            sign = _sign(text, entry, len(self.every), self.verbs)
            for part in {*sign.groups[-1].parts}:
                self.by_head.setdefault(part, []).append(sign)
            for group in (*(sign.groups[1:] or sign.groups), *sign.beyond):
                own.update(group.parts)
        self.every.append(entry.capability)

    def found(self, name: str, summary: str, server: str, others: Sequence[str]) -> Mapping[int, AbstractSet[str]]:
        """Return the numbers of the capabilities that a tool shows, each with the stems that show it.

        A sign says less than another one that has all of its words and more, and then shows nothing.
        """
        owned = frozenset(map(_stem, server.split()))
        met: dict[int, AbstractSet[str]] = {}
        texts = _Texts(name, summary, (server, *others))
        for phrase in (_of_name(name, self.verbs), _of_summary(summary, self.verbs)):
            if phrase is None:
                continue
            said, padded = frozenset(phrase.stems), f" {' '.join(phrase.stems)} "
            for sign in chain.from_iterable(self.by_head.get(head, ()) for head in phrase.heads):
                by = self._met(sign, phrase, said, padded, owned)
                if by is not None and texts.allow(sign, by & phrase.heads):
                    met[sign.capability] = met.get(sign.capability, frozenset()) | by
        return {number: by for number, by in sorted(met.items()) if not any(by < other for other in met.values())}

    def _met(
        self, sign: _Sign, phrase: _Phrase, said: frozenset[str], padded: str, owned: frozenset[str]
    ) -> AbstractSet[str] | None:
        """Return the stems by which a phrase meets a sign, None if it does not."""
        covered: AbstractSet[str] = frozenset()
        for group in (*sign.groups, *sign.beyond):
            met = group.met(said, padded)
            if not met and (phrase.has_verb or not group.is_look):
                return None
            covered |= met
        if phrase.leading is not None and phrase.leading not in covered:
            return None
        if sign.of_many is not None and sign.of_many != phrase.of_many:
            return None
        if sign.groups[-1].met(said, padded).isdisjoint(phrase.heads):
            return None
        # An object of another domain makes it another thing: a file of a pull request.
        return None if (phrase.telling & self.foreign[sign.section]) - covered - owned else covered


class _Texts:
    """The texts of one tool; they are only stemmed if a sign asks for words anywhere in them."""

    def __init__(self, name: str, summary: str, others: Sequence[str]) -> None:
        self._name, self._summary, self._others = name, summary, others

    def allow(self, sign: _Sign, named: AbstractSet[str]) -> bool:
        """Return whether what a sign says of other words holds; the object itself, which is ``named``, is none."""
        if sign.without and sign.without & self._titled:
            return False
        if sign.nowhere and sign.nowhere & self._said:
            return False
        return not sign.near or not (sign.near - named).isdisjoint(self._said)

    @cached_property
    def _titled(self) -> AbstractSet[str]:
        return frozenset(map(_stem, f"{self._name} {self._summary}".split()))

    @cached_property
    def _said(self) -> AbstractSet[str]:
        return self._titled | {*map(_stem, chain.from_iterable(map(str.split, self._others)))}


# -- what is written -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry of a dictionary, as written: ``signs`` unparsed, and the named groups above it, each as its text."""

    capability: Capability
    section: str
    signs: str
    groups: Mapping[str, str]
    source: str
    line: int

    def error(self, reason: str) -> CapabilityError:
        return CapabilityError(self.source, self.line, reason)


def _entries(text: str, source: str) -> Iterator[_Entry]:
    """Yield the entries of a dictionary; ``source`` names it in errors.

    Raises:
        CapabilityError: a line cannot be read.

    """
    section, groups = source, dict[str, str]()
    entry: _Entry | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith(_COMMENT):
            continue
        if line.startswith(_INDENT):
            if entry is None:
                raise CapabilityError(source, number, "ways of asking are indented below the entry that they are of")
            ways = filter(None, map(str.strip, line.split(_END)))
            known = entry.capability
            entry = replace(entry, capability=Capability(known.name, (*known.ways, *ways)))
            continue
        if entry is not None:
            yield _complete(entry)
            entry = None
        if line.startswith(_HEADING):
            section = line.strip("[] \t")
            continue
        name, parted, rest = map(str.strip, line.partition("=" if _names_group(line) else ":"))
        if not parted or not name or not rest:
            raise CapabilityError(source, number, 'an entry begins with "name: sign; sign", a group is "NAME = a|b"')
        if _names_group(line):
            groups = {**groups, name: rest}
        else:
            entry = _Entry(Capability(name, ()), section, rest, groups, source, number)
    if entry is not None:
        yield _complete(entry)


def _names_group(line: str) -> bool:
    name, parted, _ = line.partition("=")
    return bool(parted) and name.strip().isupper()


def _complete(entry: _Entry) -> _Entry:
    if not entry.capability.ways:
        raise entry.error(f'"{entry.capability.name}" has no ways of asking; indent them below it')
    return entry


def _sign(text: str, entry: _Entry, number: int, verbs: Verbs) -> _Sign:
    context = " ".join(_CONTEXT.findall(text))
    main = _CONTEXT.sub(" ", text)
    groups: list[_Group] = []
    beyond: list[_Group] = []
    without: set[str] = set()
    into = groups
    for token in main.split():
        if token.startswith(_WITHOUT):
            without.update(_group(token.removeprefix(_WITHOUT), entry, verbs).parts)
        elif token in _CONNECTIVES:
            into = beyond
        else:
            into.append(_group(token, entry, verbs))
    if not groups:
        raise entry.error(f'the sign "{text}" names no object')
    near, nowhere = set[str](), set[str]()
    for token in context.translate(_NO_PARENTHESES).split():
        stems = _group(token.removeprefix(_WITHOUT), entry, verbs).parts
        (nowhere if token.startswith(_WITHOUT) else near).update(stems)
    name = entry.capability.name
    of_many = True if name.startswith(_LIST) else False if _SINGLE.match(name) else None
    return _Sign(
        number, entry.section, groups, beyond, frozenset(near), frozenset(nowhere), frozenset(without), of_many
    )


def _group(token: str, entry: _Entry, verbs: Verbs) -> _Group:
    stems: set[str] = set()
    compounds: list[str] = []
    are_looks: list[bool] = []
    for alternative in token.split(_OR):
        if alternative.isupper():
            named = _named(alternative, entry, verbs)
        else:
            said = words(_as_one(alternative.replace(_JOINED, " ")))
            # "text to speech" is read without its preposition.
            parts = [_stem(word) for word in said if word not in _CONNECTIVES | _CONJUNCTIONS] or [*map(_stem, said)]
            if not parts:
                raise entry.error(f'"{token}" has an alternative without a word')
            if len(parts) == 1:
                named = _Group({*parts}, (), is_look=verbs.is_look(parts[0]))
            else:
                named = _Group(frozenset(), (f" {' '.join(parts)} ",))
        stems |= named.stems
        compounds += named.compounds
        are_looks.append(named.is_look)
    return _Group(frozenset(stems), tuple(compounds), all(are_looks))


def _named(name: str, entry: _Entry, verbs: Verbs) -> _Group:
    if name in entry.groups:
        return _group(entry.groups[name], entry, verbs)
    actions = verbs.actions(name.lower())
    if not actions:
        raise entry.error(f'"{name}" is neither a group defined above nor an action')
    return _Group(verbs.stems_of(actions), (), all(each.effect == "look" for each in actions))
