"""What words say about the use of tools, in the keys and the values of any client's entry.

``excludeTools``, ``tools_disabled`` and ``mcpToolDenyList`` are the same rule. A key is split into its words; verbs say
what is done, and every other word has to be known: ``excludeToolGroups`` lists something else than tools.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from typing import Any, cast

from toolcrib.base.json_values import as_object


class Sense(Enum):
    """What a key does to the tools of its server."""

    ALLOWS = auto()
    """It names the only tools that may be used."""
    FORBIDS = auto()
    """It names tools that may not be used."""
    TOOLS = auto()
    """It is ``tools`` alone: a list of those that may be used, or what is said of each."""
    BY_VALUE = auto()
    """It is a filter or permissions: what stands in it tells."""
    UNCLEAR = auto()
    """It speaks of tools, and nothing tells what it does."""


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_TOOL_IN_WORD = re.compile(r"(tools?)")
_WHOLE = frozenset("devtool devtools toolbox toolchain toolkit toolkits tooltip tooltips".split())
_TOOL = frozenset("functions tool tools".split())
_FORBIDDING = frozenset(
    """ban banlist banned bans black blacklist blacklisted block blocked blocklist blocks deactivate deactivated denied
    denies deny denylist disable disabled disables disallow disallowed except exclude excluded excludes excluding
    exclusion exclusions forbid forbidden hidden hide hides ignore ignored ignores inactive omit omitted prohibit
    prohibited reject rejected remove removed restrict restricted skip skipped suppress suppressed unavailable
    without""".split()
)
_ALLOWING = frozenset(
    """activate activated active allow allowed allowlist allows available enable enabled enables exposed greenlist
    include included includes including inclusion inclusions only permit permits permitted safelist select
    selected visible white whitelist whitelisted""".split()
)
_NEGATIONS = frozenset("never no non not".split())
_FILLERS = frozenset("all always are be by for from is list lists mcp name names of s server servers the to".split())
"""Words that change nothing beside a verb: ``mcpToolsToExclude``, ``allow_list``."""
_DIRECTIONS = frozenset("by for from of to".split())
_CONTAINERS = frozenset(
    "access acl control controls filter filters permission permissions policies policy restriction restrictions rule "
    "rules".split()
)
_SETTINGS = frozenset(
    "config configs configuration configurations option options override overrides preferences setting settings".split()
)
_SYNONYMS = frozenset(
    "action actions api apis auto but capabilities capability categories category command commands endpoint endpoints "
    "func function group groups method methods operation operations tag tags".split()
)
"""What tools are grouped by, or called: with a verb it is a rule, but not one over names of tools."""
_QUESTIONS = frozenset(
    """always approval approvals approve approved approves ask asks auto autoaccept autoallow autoapprove autoapproved
    autorun confirm confirmation confirmations consent trust trusted""".split()
)
"""About what runs without a question to the person: it may run all the same."""
_GRANTING = frozenset("allow allowed allows permit permits permitted".split())
_APPROVING = frozenset(
    "accept allow approval approvals approve approved autoapprove confirm confirmation confirmations consent".split()
)
_THINGS = frozenset(
    """alias aliases annotation annotations at budget call calls case category choice color concurrency count defer
    deferred definition definitions delay description descriptions dir directory discovery display error errors
    example examples file format generated hash hint hints hook hooks icon icons id instruction instructions
    interval limit limits load loading log logs map mapping message messages meta metadata millis minute minutes
    model ms notification notifications order output parallel path provider question questions rename response
    result results retries retry schema schemas search sec second seconds secs separator sort stats suffix support
    telemetry time timeout timeouts tip title titles token tokens tracing ttl turn type updated uri url usage
    validation version versions""".split()
)
"""What a key is about by its last word, where that is not the tools: ``toolTimeout``, ``maxToolOutput``."""
_ABOUT = frozenset("cache cached direct namespace parallel prefix prefixes refresh".split())
"""What a key is about wherever it stands among the words: ``cache_tools_list``, ``prefixTools``."""
_NARROWING = frozenset(
    "dangerous destructive limit limited minimal mode mutating read readonly safe set unsafe write writes".split()
)
"""Words of a switch that leaves out some of the tools."""
_PLAIN_NAMES = frozenset("read set write".split())
"""Of these, what a tool may be called."""
_OFFERING = frozenset("call calls choice display expose load loading register show support usage use".split())
"""Without what these name, a tool is not used, or not offered."""
_OF_ONE_TOOL = frozenset(
    "annotations description icon icons input meta name namespace output parameters prefix schema tags timeout "
    "timeouts title version".split()
)
"""What else is said of a tool."""
_USING = frozenset("call calls do dont execute run use".split())
_DENYING = frozenset(
    "blacklist blacklisted block blocked blocklist denied deny denylist disallowed reject rejected".split()
)
_ELSEWHERE = frozenset(
    "container cors docker domains egress env filesystem firewall fs host hosts http https models network paths people "
    "proxy roles sandbox ssl tls urls users".split()
)
"""Of these, what is denied is no tool."""
_MODES = frozenset("action behavior behaviour kind mode policy strategy type".split())
_DECIDING = _MODES | {"access", "default", "permission", "permissions", "state", "status"}
"""Members with which an object says whether its tool may be used."""
_EVERY = frozenset(
    "all any catch catchall default defaults else everything fallback global other others rest unknown unlisted "
    "unspecified".split()
)
_LISTS = _TOOL | _FILLERS | {"entries", "items", "values"}
_STATES = frozenset(
    """activated active allowed available blocked deactivated denied disable disabled enable enabled excluded forbidden
    hidden inactive included selected visible""".split()
)
"""Alone they are a switch, of the server or of all tools of an object, and no name of a tool."""
_SAYING = _FORBIDDING | _ALLOWING | _DECIDING | _EVERY | _TOOL | _QUESTIONS | {"readonly"}
_SAYABLE = _SAYING | _FILLERS | _NEGATIONS | _NARROWING
_CLASSES = _NARROWING | _NEGATIONS | _OFFERING | {"to"}
_TRUE, _FALSE = frozenset(("true", "yes")), frozenset(("false", "no"))
_YES = _TRUE | (_ALLOWING - {"only", "white"}) | frozenset("always approve approved ask auto confirm on prompt".split())
"""What may be used, be it after a question: whether to ask is for the client that calls toolcrib."""
_NO = _FALSE | _FORBIDDING | frozenset("never none off".split())


@dataclass(frozen=True)
class RuleKey:
    """A key of an entry, and what its words say."""

    text: str

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The words in lower case; ``tools`` is one of its own in ``disabledtools`` too."""
        words = (word.lower() for word in _WORD.findall(self.text))
        parts = ([word] if word in _WHOLE else _TOOL_IN_WORD.split(word) for word in words)
        return tuple(part for each in parts for part in each if part)

    @cached_property
    def verb(self) -> Sense | None:
        """What the verbs do: allow or forbid; unclear where they are at odds, None where there are none."""
        forbids = [word for word in self.words if word in _FORBIDDING]
        allows, is_negated = not _ALLOWING.isdisjoint(self.words), not _NEGATIONS.isdisjoint(self.words)
        if forbids:
            return Sense.UNCLEAR if allows or is_negated or len(forbids) > 1 else Sense.FORBIDS
        if not allows:
            return None
        # alwaysEnabledTools may be those that are listed at once.
        is_plain = _QUESTIONS.isdisjoint(self.words)
        return Sense.FORBIDS if is_negated else Sense.ALLOWS if is_plain else Sense.UNCLEAR

    @cached_property
    def rest(self) -> frozenset[str]:
        """The words that are neither verbs nor tools, nor change nothing."""
        return frozenset(self.words) - _TOOL - _FILLERS - _NEGATIONS - _FORBIDDING - _ALLOWING

    def _consists_of(self, known: frozenset[str]) -> bool:
        return bool(self.words) and known.issuperset(self.words)

    @property
    def names_tools(self) -> bool:
        """Whether tools are among the words."""
        return not _TOOL.isdisjoint(self.words)

    @property
    def is_only(self) -> bool:
        """Whether it speaks of the only ones, as in ``readOnlyTools``."""
        return not {"only", "readonly"}.isdisjoint(self.words)

    @property
    def narrows(self) -> bool:
        """Whether as a switch it may leave out some of the tools, nobody knows which."""
        return self.is_only or not (_NARROWING | _NEGATIONS).isdisjoint(self.words)

    @property
    def offers(self) -> bool:
        """Whether without it some tools, or all, would not be used."""
        return not (_OFFERING | (_NARROWING - {"limit", "limited", "minimal", "mode", "set"})).isdisjoint(self.words)

    def is_class_in(self, value: Any) -> bool:
        """Whether it may stand for a class of tools, as in ``write: false``, rather than be the name of one."""
        is_class = self._consists_of(_CLASSES)
        # A key of signs alone may be a catch-all.
        is_sign = not any(map(str.isalnum, self.text)) and "*" not in self.text
        return is_sign or (is_class and not (value is True and self._consists_of(_PLAIN_NAMES | _OFFERING)))

    @property
    def is_list(self) -> bool:
        """Whether it can be the key of a list of names beside a mode: ``list``, ``tool_names``."""
        return self._consists_of(_LISTS)

    @property
    def is_settings(self) -> bool:
        """Whether it is ``options`` or ``settings``: what stands below is meant as if it stood in the entry."""
        return self._consists_of(_SETTINGS)

    @property
    def is_synonym(self) -> bool:
        """Whether it is another word for tools, or for what they are grouped by."""
        return self._consists_of(_SYNONYMS)

    @property
    def is_state(self) -> bool:
        """Whether it is a switch, such as ``enabled``."""
        return not self.rest and not _STATES.isdisjoint(self.words)

    @property
    def asks(self) -> bool:
        """Whether it is about what runs without a question to the person."""
        if self.is_only or _QUESTIONS.isdisjoint(self.words) or not _DENYING.isdisjoint(self.words):
            return False
        # disabledAutoApproveTools and toolsWithoutApproval are about questions; autoDisabledTools is not.
        verbs = (_FORBIDDING | _ALLOWING).intersection(self.words) - _GRANTING
        return not verbs or not (_APPROVING - _ALLOWING).isdisjoint(self.words)

    @property
    def is_harmless(self) -> bool:
        """Whether it is about something else than which tools there are: a time, a prefix, a question to the person."""
        return self.asks or (self._is_thing and self.verb is None)

    @property
    def _is_thing(self) -> bool:
        return not _THINGS.isdisjoint(self.words[-1:]) or not _ABOUT.isdisjoint(self.words)

    @property
    def is_reserved(self) -> bool:
        """Whether it says something of the tools of an object, or of one, and is hardly the name of a tool."""
        is_said = not _SAYING.isdisjoint(self.words) and self._consists_of(_SAYABLE)
        return is_said or self._consists_of(_OF_ONE_TOOL)

    def sense(self, value: Any) -> Sense | None:
        """Return what it does to the tools of its server with this value; None where it does not speak of them."""
        if not self.words or (self.is_harmless and not self._says_no(value)):
            return None
        if not self.names_tools:
            return self._without_tools(value)
        if self.verb is not None:
            # disableToolPrefix: true is about the prefix; with a list, nobody knows.
            return None if isinstance(value, bool) and self._is_thing else Sense.UNCLEAR if self.rest else self.verb
        if not self.rest:
            return Sense.TOOLS if _NEGATIONS.isdisjoint(self.words) else Sense.UNCLEAR
        return Sense.BY_VALUE if self.rest <= _CONTAINERS | _SETTINGS else Sense.UNCLEAR

    def _says_no(self, value: Any) -> bool:
        """Return whether a value under a key that forbids nothing by its words may forbid something all the same."""
        if self.asks:
            return _holds_denial(value)
        if not self.names_tools or not _ABOUT.isdisjoint(self.words):
            return False
        members = [(RuleKey(key), each) for key, each in as_object(value).items()]
        if self.words[-1] in _OFFERING:
            is_off = not members and may_be_used(value) is False
            names_one = is_off or any(key.mode(each) or may_be_used(each) is False for key, each in members)
        else:
            names_one = any(may_be_used(each) is False and not key.is_reserved for key, each in members)
        return names_one or isinstance(value, list)

    def _without_tools(self, value: Any) -> Sense | None:
        """Return the sense of a key that does not name the tools: ``exclude``, ``permissions``, ``include_tags``."""
        is_list, is_object, is_text = (isinstance(value, each) for each in (list, dict, str))
        words = frozenset(self.words)
        if self.asks:
            return Sense.UNCLEAR  # approval: deny
        if self.verb is not None and not self.rest and _DIRECTIONS.isdisjoint(words):
            is_rule = is_list or is_object or (is_text and not self.is_state and truth(value) is None)
            return None if not is_rule else Sense.UNCLEAR if is_object and self.verb is Sense.ALLOWS else self.verb
        if words <= _CONTAINERS:
            is_certain = not {"permission", "permissions"}.isdisjoint(words) and (is_object or is_text)
            return Sense.BY_VALUE if is_certain or _speaks_of_rules(value) else None
        is_unclear = is_list and self.verb is None and self.rest <= _USING and not _NEGATIONS.isdisjoint(words)  # never
        # function_name_filter_list, include_tags
        named = "filter" in words and words <= _CONTAINERS | _SYNONYMS | _FILLERS
        named |= self.verb is not None and bool(self.rest) and self.rest <= _SYNONYMS | _QUESTIONS
        return Sense.UNCLEAR if is_unclear or (named and (is_list or is_object or is_text)) else None

    def sense_below(self, above: Sequence[str], value: Any) -> Sense | None:
        """Return its sense as a member of what stands ``above``, a path of keys: there, keys are about anything."""
        sense = self.sense(value)
        if sense is None or not above or sense is Sense.BY_VALUE or self.names_tools:
            return sense
        parent = RuleKey(above[-1])
        if parent.names_tools or (parent.is_settings and sense is Sense.FORBIDS):
            return sense
        is_structured = isinstance(value, list | dict)
        is_about = parent.is_settings or parent.is_synonym
        denies = not _DENYING.isdisjoint(self.words) and all(_ELSEWHERE.isdisjoint(RuleKey(key).words) for key in above)
        return Sense.UNCLEAR if is_structured and (is_about or denies) else None

    def mode(self, value: Any) -> Sense | None:
        """Return what it says of the names beside it, as ``mode: block`` does; None where it is no such member."""
        if not isinstance(value, str) or not self._consists_of(_MODES):
            return None
        said = RuleKey(value)
        return None if said.rest else said.verb

    def lets_use(self, value: Any) -> bool | None:
        """Return whether this member of what is said of one tool lets it be used; None where nothing tells."""
        if self.asks:
            return None if self._says_no(value) else True
        if value is None:
            return True
        if self._consists_of(_OF_ONE_TOOL):
            return None if value is False or _is_denial(value) else True
        if self.verb is Sense.FORBIDS and not self.rest:
            forbidden = truth(value)
            return None if forbidden is None else not forbidden
        decides = self.verb is Sense.ALLOWS and not self.rest and not self.is_only
        return may_be_used(value) if decides or self._consists_of(_DECIDING) else None


def _speaks_of_rules(value: Any) -> bool:
    """Return whether what stands under a key like ``filter`` or ``rules`` can be about tools."""
    if isinstance(value, dict):
        members = ((RuleKey(key), each) for key, each in cast("dict[str, Any]", value).items())
        return any(key.sense(each) or key.mode(each) or may_be_used(each) is False for key, each in members)
    # Sentences are instructions for a model, and names of files have those.
    return isinstance(value, list) and not any(_is_prose(each) for each in cast("list[Any]", value))


def _is_prose(value: Any) -> bool:
    return isinstance(value, str) and (" " in value.strip() or "." in value)


def _holds_denial(value: Any) -> bool:
    """Return whether what stands under a key about questions denies something too."""
    if isinstance(value, list):
        # Texts are the tools that it is about.
        return any(_holds_denial(each) for each in cast("list[Any]", value) if not isinstance(each, str))
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        return any(RuleKey(key).verb is Sense.FORBIDS or _holds_denial(each) for key, each in members)
    return _is_denial(value)


def _is_denial(value: Any) -> bool:
    """Return whether a text forbids, and does not only say that nothing is asked."""
    is_text = isinstance(value, str) and value not in ("disabled", "never", "none", "off") and truth(value) is None
    return is_text and may_be_used(value) is False


def truth(value: Any) -> bool | None:
    """Return what a value says as true or false; None where it is neither."""
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    return True if word in _TRUE else False if word in _FALSE else None


def may_be_used(value: Any) -> bool | None:
    """Return whether a value lets a tool be used, be it after a question; None where its meaning is unknown."""
    if value is None or isinstance(value, bool):
        return value is not False
    if isinstance(value, str):
        words = frozenset(RuleKey(value).words)
        return None if not words else True if words <= _YES else False if words <= _NO | {"always"} else None
    if not isinstance(value, dict):
        return None
    verdicts = [RuleKey(key).lets_use(each) for key, each in cast("dict[str, Any]", value).items()]
    # What is not understood must not become permission.
    return None if None in verdicts else False not in verdicts
