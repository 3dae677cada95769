"""What an entry of any client says about which of its server's tools may be used.

Clients have no common form for it: ``excludeTools``, ``tools: {exclude}``, ``toolFilter: {mode, list}``. So keys are
read by their words and values by their shape, and what speaks of tools and is not understood is named as such: to
pass over it could allow what a person has forbidden.
"""

import fnmatch
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from toolcrib.base.json_values import as_object
from toolcrib.base.text import exact_glob
from toolcrib.config.rule_words import RuleKey, Sense, may_be_used, truth


@dataclass(frozen=True, slots=True)
class Denials:
    """Globs of tool names; ``allowed`` None: all but the ``denied``. ``unknown``: keys that were not understood."""

    allowed: tuple[str, ...] | None = None
    denied: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def restricts(self) -> bool:
        """Whether any tool is denied, or may be."""
        return self.allowed is not None or bool(self.denied or self.unknown)

    def narrowed(self, other: "Denials") -> "Denials":
        """Return what both of them allow."""
        return combined((self, other))


def combined(rules: Iterable[Denials]) -> Denials:
    """Return what all of the rules allow."""
    rules = tuple(rules)
    allowed: tuple[str, ...] | None = None
    for only in (rule.allowed for rule in rules if rule.allowed is not None):
        # By equality of globs: an intersection of patterns is no pattern, and too little is safer than too much.
        allowed = only if allowed is None else _in_both(allowed, frozenset(only))
    denied, unknown = (glob for rule in rules for glob in rule.denied), (key for rule in rules for key in rule.unknown)
    return Denials(allowed, _unique(denied), _unique(unknown))


def tool_rules(entry: Mapping[str, Any], server: str) -> dict[str, Denials]:
    """Return what an entry says of the tools of ``server``, each rule by the path of its key: ``options.toolFilter``.

    A key that speaks of tools and forbids none of them (``excludeTools: []``) has a rule that does not restrict.
    """
    return dict(_Reading(server).rules(entry))


def rules_of_list(names: Iterable[str], servers: Iterable[str], place: str) -> dict[str, Denials]:
    """Return what a list at ``place`` of tools that no server may offer denies of each of ``servers``.

    A tool that is named with some of them is theirs alone.
    """
    readings = {server: _Reading(server) for server in servers}
    found = {server: list[Denials]() for server in servers}
    for name in names:
        owners = [server for server, reading in readings.items() if reading.is_named_in(name)]
        for server in owners or readings:
            found[server].append(readings[server].denied(name, place))
    return {server: combined(rules) for server, rules in found.items()}


def covering_glob(name: str) -> str:
    """Return the glob that fits ``name`` and, where it is a glob already, all that it fits."""
    return name.replace("[", "[[]")


def globs_after(glob: str, beginning: str) -> Iterator[str]:
    """Yield the globs of what may follow ``beginning`` in a name that fits ``glob``."""
    if "[" in glob:
        yield "*"  # nothing tells how it is meant
        return
    # Each way to split the glob between the beginning and the rest, since "*" may cover both.
    for end in range(len(glob) + 1):
        if fnmatch.fnmatchcase(beginning, glob[:end]):
            yield f"*{glob[end:]}" if glob[:end].endswith("*") else glob[end:]


_LEVELS_MAX = 32
"""Levels of an entry in which keys are looked for: what is deeper counts as a rule that is not understood."""
_NOT_OF_THE_SERVER = frozenset(
    """_meta auth authorization env env_http_headers environment envs headers http_headers manifest metadata oauth
    registry requestOptions user_config""".split()
)
"""Members whose keys are the server's own, or about something else."""
_SCHEMAS = (("example",), ("examples",), ("properties",), ("schema",), ("schemas",))
"""Last words of keys whose members are about settings, and set none."""
_ALL = ("*", "all")
"""A text in the place of a list that stands for all tools."""
_NAME_MAX = 256
_NO_NAME = re.compile(
    r"""[\^$\\|+{}!,;()\s\[\]%<='"`&]|\.\*|\A[~-]|\A/.*/\Z|\A(?:re|regex|glob):|:\*\Z|\A(?i:all|any|everything)\Z"""
)
"""What stands in expressions, in exceptions from a list and between names: as a name it would match nothing."""
_WILDCARD = re.compile(r"[*?]")
_CALL = re.compile(r"([^(\s]+)\s*\(.*\)\Z", re.DOTALL)
_SEPARATOR = re.compile(r"(?:__|::|->|[_/:.#-])+")
_FOREIGN_MARK = re.compile(r"[:@>#/]+|\Amcp_+")
_SURE_SEPARATOR = re.compile(r"__|::?|/")
_AFFIX = re.compile(r"\A(?:(?:mcp|server)[^a-z0-9]+)+|(?:[^a-z0-9]+(?:mcp|server))+\Z")
_NOTHING, _EVERYTHING = Denials(), Denials(denied=("*",))


@dataclass(frozen=True)
class _Reading:
    """Reads the rules about the tools of ``server``. ``unknown`` is what a value is that is not understood."""

    server: str

    def rules(self, entry: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, Denials]]:
        """Yield the paths of the keys of an object that speak of tools, with their rules."""
        for name, value in entry.items():
            key, path = RuleKey(name), ".".join((*above, name))
            sense = key.sense_below(above, value)
            if sense is not None:
                yield path, self._rule(key, sense, value, path)
            elif not key.asks and name not in _NOT_OF_THE_SERVER and key.words[-1:] not in _SCHEMAS:
                yield from self._deeper(value, (*above, name))

    def _deeper(self, value: Any, above: tuple[str, ...]) -> Iterator[tuple[str, Denials]]:
        if isinstance(value, dict | list) and len(above) >= _LEVELS_MAX:
            yield ".".join(above), Denials(unknown=(".".join(above),))
        elif isinstance(value, dict):
            yield from self.rules(cast("dict[str, Any]", value), above)
        elif isinstance(value, list):
            for number, item in enumerate(cast("list[Any]", value)):
                if isinstance(item, dict | list):
                    yield from self._deeper(item, (*above[:-1], f"{above[-1]}[{number}]"))

    def _rule(self, key: RuleKey, sense: Sense, value: Any, path: str) -> Denials:
        unknown = Denials(unknown=(path,))
        if isinstance(value, dict):
            return self._object(sense, cast("dict[str, Any]", value), path)
        if isinstance(value, list):
            return self._list(key, sense, cast("list[Any]", value), unknown)
        may = _of_all(key, sense, value)
        return unknown if may is None else _NOTHING if may else _EVERYTHING

    def _list(self, key: RuleKey, sense: Sense, names: Sequence[Any], unknown: Denials) -> Denials:
        if sense is Sense.FORBIDS:
            return self._names(names, sense, unknown)
        if sense in (Sense.ALLOWS, Sense.TOOLS):
            # Goose: an empty list says nothing.
            if not names and key.text == "available_tools":
                return _NOTHING
            by_name = _by_name(names) if sense is Sense.TOOLS else {}
            return self._only(by_name, unknown) if by_name else self._names(names, Sense.ALLOWS, unknown)
        return unknown if names or key.verb is Sense.ALLOWS else _NOTHING

    def _object(self, sense: Sense, members: Mapping[str, Any], path: str) -> Denials:
        unknown = Denials(unknown=(path,))
        if sense in (Sense.TOOLS, Sense.BY_VALUE):
            return self._inside(members, path)
        if sense is Sense.UNCLEAR:
            return unknown if members else _NOTHING
        lists = _lists_in(members)
        if lists:
            return self._names(lists[0], sense, unknown) if len(members) == 1 else unknown
        return self._only(members, unknown) if sense is Sense.ALLOWS else self._forbidden(members, unknown)

    def _only(self, by_tool: Mapping[str, Any], unknown: Denials) -> Denials:
        """Return the rule of an object that says of tools by name which may be used."""
        verdicts = {name: may_be_used(each) for name, each in by_tool.items()}
        if None in verdicts.values() or not _are_tools(by_tool):
            return unknown
        # A no counts also beside a glob that covers it.
        only = self._names([name for name, may in verdicts.items() if may], Sense.ALLOWS, unknown)
        return only.narrowed(self._names([name for name, may in verdicts.items() if not may], Sense.FORBIDS, unknown))

    def _forbidden(self, by_tool: Mapping[str, Any], unknown: Denials) -> Denials:
        """Return the rule of an object that says of tools by name which may not be used: true forbids."""
        verdicts = {name: _is_forbidden(each) for name, each in by_tool.items()}
        names = [name for name, is_forbidden in verdicts.items() if is_forbidden]
        is_clear = None not in verdicts.values() and _are_tools(by_tool)
        return self._names(names, Sense.FORBIDS, unknown) if is_clear else unknown

    def _inside(self, members: Mapping[str, Any], path: str) -> Denials:
        """Return what an object says: by a mode and a list, by lists with verbs, or of each tool by name."""
        modes = [mode for name, each in members.items() if (mode := RuleKey(name).mode(each))]
        if not modes:
            return combined(self._member(RuleKey(name), each, f"{path}.{name}") for name, each in members.items())
        lists, unknown = _lists_in(members), Denials(unknown=(path,))
        is_plain = len(modes) == len(lists) == len(members) - 1 == 1
        return self._names(lists[0], modes[0], unknown) if is_plain else unknown

    def _member(self, key: RuleKey, value: Any, path: str) -> Denials:
        """Return what one member of an object says: a list of tools by its verb, or of one tool by its name."""
        unknown, sense = Denials(unknown=(path,)), key.sense(value)
        if isinstance(value, list):
            if sense is Sense.ALLOWS or sense is Sense.FORBIDS:
                return self._rule(key, sense, value, path)
            return _NOTHING if key.asks or not value else unknown
        if not key.is_reserved:
            is_number = isinstance(value, int | float) and not isinstance(value, bool) and value > 1
            may = None if key.is_class_in(value) else is_number or may_be_used(value)
            return unknown if may is None else _NOTHING if may else self._names([key.text], Sense.FORBIDS, unknown)
        if isinstance(value, dict) and sense is not None:
            return self._rule(key, sense, value, path)
        # remove: false is a tool that may not be used, disabled: false a switch.
        may_be_tool = value is False and not key.is_state
        return _NOTHING if key.lets_use(value) and not may_be_tool else unknown

    def denied(self, name: str, place: str) -> Denials:
        """Return the rule of a tool that may not be used."""
        return self._names([name], Sense.FORBIDS, Denials(unknown=(place,)))

    def is_named_in(self, name: str) -> bool:
        """Return whether the name of a tool has the server's before it, in a form that can mean nothing else."""
        is_full = name.lower().startswith("mcp")
        forms = self._named_with(name) if is_full else self._without_server(name, _SURE_SEPARATOR)
        return next(forms, None) is not None

    def _names(self, names: Sequence[Any], sense: Sense, unknown: Denials) -> Denials:
        """Return the rule that a list of names is; ``unknown`` where it is no such list."""
        tools = [each.strip() if isinstance(each, str) else "" for each in names]
        if sense is Sense.FORBIDS:
            # Gemini CLI names a tool with arguments too, as in read(path): here the tool is denied as a whole.
            tools = [self._called(tool) for tool in tools]
        if any(not 0 < len(tool) <= _NAME_MAX or _NO_NAME.search(tool) for tool in tools):
            return unknown
        if sense is Sense.FORBIDS:
            return Denials(denied=_unique(each for tool in tools for each in self._denied(tool)))
        # Some clients take them for globs, others for names: with either reading some tool would be lost or gained.
        if sense is not Sense.ALLOWS or any(tool != "*" and _WILDCARD.search(tool) for tool in tools):
            return unknown
        if "*" in tools:
            return _NOTHING
        return Denials(allowed=_unique(exact_glob(each) for tool in tools for each in self._allowed(tool)))

    def _called(self, tool: str) -> str:
        """Return the tool of a text such as ``read(path)``; where a server stands there, the text."""
        found = _CALL.match(tool)
        return found[1] if found and _plain(found[1]) not in (*self._spellings, "mcp") else tool

    def _denied(self, name: str) -> Iterator[str]:
        """Yield a name, and what it is without the server's name before it, with which many clients show tools."""
        yield name
        tools = tuple(self._named_with(name))
        if not tools:
            # These stand between a tool and something else, be it a server in a form that is not known.
            tools = tuple(_FOREIGN_MARK.split(name))
            rest = name[5:] if name.lower().startswith("mcp__") else ""
            tools += (rest.partition("__")[2], rest.rpartition("__")[2])
        yield from filter(None, tools)

    def _named_with(self, name: str) -> Iterator[str]:
        """Yield what a tool is called, where the server's name stands before it; a glob where that is one."""
        yield from self._without_server(name, _SEPARATOR)
        if name.startswith("@") and _plain(name) in self._spellings:
            yield "*"
        if name.lower().startswith("mcp__"):
            if _plain(name[5:]) in self._spellings:
                yield "*"
            if "*" in name:
                yield from globs_after(name, f"mcp__{self.server}__")

    def _allowed(self, name: str) -> Iterator[str]:
        yield name
        # Not by one underscore: git_log of a server git is the tool's own name, and log may be another.
        yield from self._without_server(name, _SURE_SEPARATOR)

    def _without_server(self, name: str, separator: re.Pattern[str]) -> Iterator[str]:
        for found in separator.finditer(name):
            before, tool = _plain(name[: found.start()]), name[found.end() :]
            is_any = name.startswith(("*", "mcp__*")) and before in ("", "mcp")
            if tool and (is_any or before in self._spellings or before.removeprefix("mcp") in self._spellings):
                yield tool

    @cached_property
    def _spellings(self) -> frozenset[str]:
        """The server's name without what clients leave out or replace in names of tools."""
        names = (self.server, _AFFIX.sub("", self.server.lower()), self.server.rpartition("/")[2])
        return frozenset(filter(None, map(_plain, names)))


def _plain(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def _of_all(key: RuleKey, sense: Sense, value: Any) -> bool | None:
    """Return whether a value that is no list and no object lets all tools be used; None where nothing tells."""
    if value is None or (value == "" and sense not in (Sense.ALLOWS, Sense.TOOLS)) or (value is False and key.is_only):
        return True
    if sense is Sense.BY_VALUE:
        return value in _ALL or (None if isinstance(value, bool) else may_be_used(value))
    is_certain = sense is not Sense.UNCLEAR and not key.is_only
    if is_certain and (isinstance(value, bool) or value in _ALL):
        return bool(value) is (sense is not Sense.FORBIDS)
    # Not of all tools, and nobody knows of which: but it may say that they are not switched off.
    if value is False:
        return None if key.verb is Sense.ALLOWS or (key.verb is None and key.offers) else True
    if value is True and key.verb is Sense.ALLOWS:
        return None if key.is_only else True
    is_setting = isinstance(value, int | float) and key.verb is None and not key.narrows
    return True if is_setting else None


def _are_tools(names: Iterable[str]) -> bool:
    """Return whether none of the keys of an object is a word that could be said of all its tools."""
    return not any(RuleKey(name).is_reserved for name in names)


def _is_forbidden(value: Any) -> bool | None:
    if value is None:
        return True  # a set of YAML
    said = truth(value)
    return True if said is None and may_be_used(value) is False else said


def _lists_in(members: Mapping[str, Any]) -> list[list[Any]]:
    return [cast("list[Any]", each) for key, each in members.items() if RuleKey(key).is_list and isinstance(each, list)]


def _by_name(items: Sequence[Any]) -> dict[str, Any]:
    """Return what a list of objects says of each tool that it names; empty where it is no such list."""
    tools = [as_object(item) for item in items]
    names = {str(tool["name"]) for tool in tools if isinstance(tool.get("name"), str)}
    return {tool["name"]: tool for tool in tools} if len(names) == len(items) else {}


def _in_both(globs: tuple[str, ...], others: Container[str]) -> tuple[str, ...]:
    return tuple(glob for glob in globs if glob in others)


def _unique(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))
