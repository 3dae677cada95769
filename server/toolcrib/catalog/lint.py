"""Checks whether each tool of a catalog is found by its own words, and suggests what to add if not."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import chain

from toolcrib.base.model import JsonObject, Tool
from toolcrib.base.text import STOP_WORDS, one_line, spelling_key, split_summary, truncate, words
from toolcrib.catalog.parameters import parameters
from toolcrib.search.english import stem

TOOLS_LOOKED_AT = 20
"""Number of hits of a search that are examined."""

_SHARED_BY = 10
"""A word in this many other tools hardly discriminates."""

_SHORT_WORDS = 3
"""A description with fewer significant words is short."""

_NAME_MAX = 64
"""Maximum length of a name that clients allow."""

_PLAIN_NAME_MAX = 49
"""Maximum length if a client prefixes names with ``mcp__toolcrib__``."""

_REQUEST_WORDS = 8
"""Number of words of a description that form a request."""

_HELPING_TRIED_MAX = 5
"""Maximum number of words tried to find one that ranks a tool first."""

_NAMED_MAX = 3
_QUOTED_MAX = 80
_SUGGESTED_LENGTH_MIN = 4

_REQUEST = "request"
"""The source of a search composed of a description's words without the tool's name."""

Search = Callable[[str], Sequence[str]]
"""Returns the public names of a query's first hits, best first, at most :data:`TOOLS_LOOKED_AT`."""


class Level(StrEnum):
    """The severity of a finding, worst first."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Rule:
    """A kind of finding. ``code`` is stable; ``advice`` says what to add."""

    code: str
    level: Level
    advice: str


NOT_FOUND_BY_NAME = Rule(
    "not-found-by-name",
    Level.ERROR,
    "Give it a name that fewer than twenty other tools share, or deny tools with the same name (policy.deny).",
)
HIDDEN = Rule(
    "hidden-by-near-duplicate",
    Level.WARNING,
    "Say in the first sentence what only this tool does, or add distinctive words (servers.{server}.tags); an unneeded "
    "duplicate can be denied (policy.deny).",
)
HARD_TO_ASK_FOR = Rule(
    "hard-to-ask-for",
    Level.INFO,
    "Requests without its name find those first: begin the description with the word that distinguishes it, or add "
    "words that people use for it (servers.{server}.tags).",
)
NO_DESCRIPTION = Rule(
    "no-description",
    Level.WARNING,
    "Describe it in its server, with what it does in the first sentence; until then servers.{server}.tags adds words.",
)
SHARED_WORDS = Rule(
    "words-shared-with-many",
    Level.WARNING,
    "Say in the first sentence what makes it different, or add distinctive words (servers.{server}.tags).",
)
SAME_DESCRIPTION = Rule(
    "same-description",
    Level.WARNING,
    "Say in the description of each what the others do not do; until then servers.{server}.tags distinguishes them.",
)
SHORT_DESCRIPTION = Rule(
    "short-description",
    Level.INFO,
    "Say in a sentence what it does, to what, and when to use it; servers.{server}.tags adds words that people use "
    "for it, servers.{server}.tool_examples shows a call.",
)
LONG_NAME = Rule(
    "long-name",
    Level.INFO,
    "Give the server a shorter key in mcpServers; limits.name_max: 49 shortens names for clients that add the prefix "
    "mcp__toolcrib__.",
)
NO_PARAMETER_DESCRIPTIONS = Rule(
    "no-parameter-descriptions",
    Level.INFO,
    "Describe the parameters in its input schema; servers.{server}.tool_examples shows how it is called.",
)


_BY_DESCRIPTION = frozenset(
    (HIDDEN, HARD_TO_ASK_FOR, NO_DESCRIPTION, SHARED_WORDS, SAME_DESCRIPTION, SHORT_DESCRIPTION),
)
"""What another description would mend."""


@dataclass(frozen=True, slots=True)
class Described:
    """A tool with its known data. ``examples`` are the descriptions of its examples."""

    tool: Tool
    definition: JsonObject
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The public name."""
        return self.tool.public_name

    @property
    def title(self) -> str:
        """The title, on one line; empty if there is none."""
        return _line(self.definition.get("title"))

    @property
    def description(self) -> str:
        """The downstream's own description, on one line."""
        return _line(self.definition.get("description"))

    @property
    def first_sentence(self) -> str:
        """The first sentence of the description, on one line."""
        return _line(split_summary(str(self.definition.get("description") or ""))[0])


@dataclass(frozen=True, slots=True)
class Probe:
    """A search with a tool's own words. ``rank`` counts from 1; None: not among the first hits.

    ``before`` are the tools ranked above it; all hits if it was not found.
    """

    source: str
    query: str
    rank: int | None
    before: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem of one tool. ``others`` are the public names of related tools, if any, ``word`` one that would help."""

    rule: Rule
    described: Described
    what: str
    others: tuple[str, ...] = ()
    word: str = ""

    @property
    def advice(self) -> str:
        """What to add, with the keys of the config that help."""
        return self.rule.advice.format(server=self.described.tool.server)


def proposed(findings: Iterable[Finding]) -> dict[str, JsonObject]:
    """Return entries for ``servers`` in the config that meet findings: ``tools``, by the server's own names.

    A description begins with what distinguishes the tool: the words of its name, and one that would rank it first; a
    name that is too long keeps its first words. They are proposals: a person knows better what a tool does.
    """
    entries: defaultdict[str, dict[str, JsonObject]] = defaultdict(dict)
    for finding in findings:
        tool, entry = finding.described.tool, entries[finding.described.tool.server]
        if finding.rule is LONG_NAME:
            entry.setdefault(tool.name, {})["name"] = _shorter(tool)
        elif finding.rule in _BY_DESCRIPTION:
            known = entry.setdefault(tool.name, {})
            if "description" not in known or finding.word:
                known["description"] = _better_description(finding)
    return {server: {"tools": tools} for server, tools in entries.items() if tools}


def _better_description(finding: Finding) -> str:
    each = finding.described
    named = " ".join(words(each.tool.name)).capitalize() or each.tool.name
    start = f"{named} ({finding.word})." if finding.word else f"{named} of {each.tool.server}."
    if each.description:
        return f"{start} {each.definition['description']}"
    schema = each.definition["inputSchema"]
    taken = _enumerated([one_line(parameter.name) for parameter in parameters(schema, schema)])
    return f"{start} Takes {taken}." if taken else start


def _shorter(tool: Tool) -> str:
    """Return the first words of a name, as many as every client takes with the server's in front."""
    room = max(1, _PLAIN_NAME_MAX - len(f"{tool.server}__"))
    short = ""
    for word in words(tool.name):
        longer = f"{short}_{word}" if short else word
        if len(longer) > room:
            break
        short = longer
    return short or tool.name[:room]


@dataclass(frozen=True, slots=True)
class Report:
    """The findings in one catalog. ``probes`` are by tool, in the order of ``tools``.

    ``by_name``, ``by_first_sentence`` and ``by_request`` are the shares of tools ranked first, from 0 to 1; None: no
    tool has such a text. Of several tools with one name any may rank first.
    """

    tools: tuple[Described, ...]
    probes: tuple[tuple[Probe, ...], ...]
    findings: tuple[Finding, ...]
    by_name: float | None
    by_first_sentence: float | None
    by_request: float | None


def find_faults(catalog: Sequence[Described], search: Search, server: str | None = None) -> Report:
    """Return the problems of the tools of ``catalog``, or of one ``server`` among them.

    Each tool's name, title, first sentence and examples are searched with ``search``, as well as a request composed of
    its description's words.
    """
    linter = _Linter(catalog, search)
    tools = tuple(each for each in catalog if server in (None, each.tool.server))
    probes = tuple(tuple(linter.probes(each)) for each in tools)
    findings = [finding for each, tried in zip(tools, probes, strict=True) for finding in linter.findings(each, tried)]
    every = list(chain.from_iterable(probes))
    shares = (_share_first(every, source) for source in ("name", "first sentence", _REQUEST))
    return Report(tools, probes, tuple(findings), *shares)


class _Linter:
    """Compares each tool with all the others."""

    def __init__(self, catalog: Sequence[Described], search: Search) -> None:
        # Tools with the same title or first sentence share a query.
        self._search = cache(search)
        self._by_name: defaultdict[str, list[str]] = defaultdict(list)
        self._by_description: defaultdict[str, list[str]] = defaultdict(list)
        for each in catalog:
            self._by_name[spelling_key(each.tool.name)].append(each.name)
            self._by_description[each.description.casefold()].append(each.name)
        self._words = _Words(catalog)

    def probes(self, each: Described) -> Iterable[Probe]:
        """Yield a search for each of the tool's own texts. Tools with the same name do not count as ranked above it."""
        name = " ".join(words(each.tool.name)) or each.tool.name
        yield self._probe("name", name, each, same=self._by_name[spelling_key(each.tool.name)])
        texts = [("title", each.title), ("first sentence", each.first_sentence)]
        texts += [("example", text) for text in each.examples]
        texts += [(_REQUEST, self._words.request(each))]
        for source, text in texts:
            if words(text):
                yield self._probe(source, text, each)

    def _probe(self, source: str, query: str, each: Described, same: Sequence[str] = ()) -> Probe:
        hits = self._search(query)
        rank = hits.index(each.name) + 1 if each.name in hits else None
        above = hits if rank is None else hits[: rank - 1]
        return Probe(source, query, rank, tuple(name for name in above if name not in same))

    def findings(self, each: Described, probes: Sequence[Probe]) -> Iterable[Finding]:
        """Yield all problems of one tool, worst first."""
        passed = self._passed(each, [probe for probe in probes if probe.source not in ("name", _REQUEST)])
        asked = self._passed(each, [probe for probe in probes if probe.source == _REQUEST])
        same = tuple(name for name in self._alike(each) if name != each.name)
        # Worst first, as a person reads them.
        found = (
            Finding(NOT_FOUND_BY_NAME, each, _not_found(probes)),
            self._hidden(HIDDEN, each, passed) if passed else None,
            self._hidden(HARD_TO_ASK_FOR, each, asked) if asked else None,
            Finding(NO_DESCRIPTION, each, "" if each.description else "has no description"),
            Finding(SHARED_WORDS, each, self._words.shared(each)),
            Finding(SAME_DESCRIPTION, each, f"has the same description as {_enumerated(same)}", same) if same else None,
            Finding(SHORT_DESCRIPTION, each, _short(each)),
            Finding(LONG_NAME, each, _long_name(each)),
            Finding(NO_PARAMETER_DESCRIPTIONS, each, _silent_parameters(each)),
        )
        return (finding for finding in found if finding and finding.what)

    def _passed(self, each: Described, probes: Sequence[Probe]) -> Probe | None:
        """Return the search in which most other tools rank above it.

        Tools with the same description do not count: these have a finding of their own.
        """
        alike = self._alike(each)
        passed = [probe for probe in probes if set(probe.before) - set(alike)]
        return max(passed, key=lambda probe: len(probe.before), default=None)

    def _hidden(self, rule: Rule, each: Described, probe: Probe) -> Finding:
        word = self._helping_word(each, probe)
        told = _hidden(probe) + (f'; with the word "{word}" it is first' if word else "")
        return Finding(rule, each, told, probe.before, word)

    def _helping_word(self, each: Described, probe: Probe) -> str:
        """Return a word of a tool that ranks it first if added to the search; empty if none of a few does."""
        tried = self._words.telling(each, probe.query, probe.before)[:_HELPING_TRIED_MAX]
        return next((word for word in tried if self._search(f"{probe.query} {word}")[:1] == [each.name]), "")

    def _alike(self, each: Described) -> Sequence[str]:
        """Return the tools with the same description; none if it has none."""
        return self._by_description[each.description.casefold()] if each.description else ()


class _Words:
    """The words of tools, compared by stem."""

    def __init__(self, catalog: Sequence[Described]) -> None:
        self._having: defaultdict[str, set[str]] = defaultdict(set)
        for each in catalog:
            for own in self._stems(each.tool.name, each.title, each.description, *each.tags):
                self._having[own].add(each.name)

    def shared(self, each: Described) -> str:
        """Return words that do not discriminate: each is in many other tools, and many have the tool's whole name."""
        own = self._stems(each.tool.name, each.title, each.first_sentence, *each.tags)
        if not each.description or not own or any(not self._is_common(stem) for stem in own):
            return ""
        named = [self._having[stem] for stem in self._stems(each.tool.name)]
        # If few tools contain all words of its name, the name discriminates.
        if named and len(named[0].intersection(*named[1:])) <= _SHARED_BY:
            return ""
        told = f"each of its words ({_enumerated(own.values())}) is in {_SHARED_BY} other tools or more"
        rare = ", ".join(self._rare(each))
        return f"{told}; the rest of its description has words that few others have: {rare}" if rare else told

    def request(self, each: Described) -> str:
        """Return a request for a tool without its name: the first significant words of its description.

        Words of its name and of its server's are omitted. Empty if fewer than three words are left.
        """
        named = self._stems(each.tool.name, each.tool.server)
        left = [word for stem, word in self._stems(each.description).items() if stem not in named]
        return " ".join(left[:_REQUEST_WORDS]) if len(left) >= _SHORT_WORDS else ""

    def telling(self, each: Described, query: str, others: Iterable[str]) -> list[str]:
        """Return words of a tool's texts that are not in its name, ``query`` or ``others``; rarest first."""
        asked, names = self._stems(query, each.tool.name), frozenset(others)
        own = self._stems(each.title, each.description, *each.tags)
        told = {stem: word for stem, word in own.items() if stem not in asked and not self._having[stem] & names}
        return [told[stem] for stem in sorted(told, key=lambda stem: len(self._having[stem]))]

    def _rare(self, each: Described) -> list[str]:
        """Return up to three words of a description that few tools contain, rarest first."""
        rare = {
            stem: word
            for stem, word in self._stems(each.description).items()
            if len(word) >= _SUGGESTED_LENGTH_MIN and not self._is_common(stem)
        }
        return [rare[stem] for stem in sorted(rare, key=lambda stem: len(self._having[stem]))[:_NAMED_MAX]]

    def _is_common(self, stem: str) -> bool:
        return len(self._having[stem]) > _SHARED_BY

    def _stems(self, *texts: str) -> dict[str, str]:
        """Return the stem of each significant word, with the word."""
        telling = (word for text in texts for word in words(text) if word not in STOP_WORDS)
        return {stem(word): word for word in telling}


def _not_found(probes: Sequence[Probe]) -> str:
    lost = [probe for probe in probes if probe.source == "name" and probe.rank is None]
    return f'is not among the first {TOOLS_LOOKED_AT} for "{truncate(lost[0].query, _QUOTED_MAX)}"' if lost else ""


def _hidden(probe: Probe) -> str:
    place = f"not among the first {TOOLS_LOOKED_AT}" if probe.rank is None else f"number {probe.rank}"
    quoted = f' "{truncate(probe.query, _QUOTED_MAX)}"' if probe.source in ("example", _REQUEST) else ""
    how = "asked for as" if probe.source == _REQUEST else f"by its {probe.source}"
    return f"{how}{quoted} it is {place}, after {_enumerated(probe.before)}"


def _short(each: Described) -> str:
    telling = {word for word in words(each.description) if word not in STOP_WORDS}
    is_short = each.description and len(telling) < _SHORT_WORDS
    return f'says no more than "{truncate(each.description, _QUOTED_MAX)}"' if is_short else ""


def _long_name(each: Described) -> str:
    length = len(f"{each.tool.server}__{each.tool.name}")
    if length > _NAME_MAX:
        return f"the name with its server has {length} characters, so clients see a shortened one"
    if len(each.name) > _PLAIN_NAME_MAX:
        return f"the name has {len(each.name)} characters; some clients take {_PLAIN_NAME_MAX} only"
    return ""


def _silent_parameters(each: Described) -> str:
    schema = each.definition["inputSchema"]
    found = list(parameters(schema, schema))
    if not found or any(_line(parameter.schema.get("description")) for parameter in found):
        return ""
    return f"none of its parameters ({_enumerated([one_line(each.name) for each in found])}) is described"


def _share_first(probes: Sequence[Probe], source: str) -> float | None:
    tried = [probe for probe in probes if probe.source == source]
    first = sum(probe.rank is not None and not probe.before for probe in tried)
    return first / len(tried) if tried else None


def _enumerated(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - _NAMED_MAX} more" if len(every) > _NAMED_MAX else ""
    return ", ".join(every[:_NAMED_MAX]) + more


def _line(text: object) -> str:
    return one_line(text) if isinstance(text, str) else ""
