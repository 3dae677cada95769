"""Whether an entry of any client's says that its server is switched off.

Clients have no common word for it: ``disabled``, ``enabled: false``, ``isActive``, ``status: disabled``. So keys are
read by their words, and values as true and false or as a word for a state. A switch that is not understood is named as
such: to pass over it could start what a person has switched off.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from toolcrib.base.json_values import as_list, as_object
from toolcrib.base.model import JsonObject
from toolcrib.base.text import one_line
from toolcrib.config.rule_words import RuleKey

_ON = frozenset("activate activated active allowed available enable enabled include included selected".split())
_OFF = frozenset(
    """archived banned blocked deactivate deactivated deleted denied disable disabled excluded forbidden ignored
    inactive off paused quarantine quarantined rejected removed skipped stopped suspended unavailable""".split()
)
_DONE = frozenset("block exclude ignore skip".split())
"""What is done to a server, as a key; as a value it may be done to anything: ``mode: skip``."""
_ABOUT_USE = _OFF | {"activate", "activated", "active", "enable", "enabled"}
"""Words of a state that say something about the use of the server, with whichever others."""
_OFTEN_ELSE = frozenset("allowed available include included selected".split())
"""With a value that is no true or false, these are about something else: ``available: 2026-01-01``."""
_STATE = frozenset(("mode", "state", "status"))
"""Keys whose value is the word for a state: any other word says nothing about this."""
_FILLERS = frozenset("are be currently entry is mcp now server the this was".split())
_BY_WHOM = frozenset("admin by policy user".split())
_NEGATIONS = frozenset(("no", "not"))
_TRUE, _FALSE = frozenset("1 always on true y yes".split()), frozenset("0 false n never no off".split())


class _Kind(Enum):
    """What true means under a key."""

    ON = auto()
    OFF = auto()
    STATE = auto()


_VALUES = {
    _Kind.ON: (_ON | _TRUE | {"all", "auto"}, _OFF | _FALSE | {"none"}),
    _Kind.OFF: (_FALSE | {"none"}, _TRUE | _OFF),
    _Kind.STATE: (_ON | {"on", "true"}, _OFF | {"false"}),
}
"""Words of values with which a server is in use, and with which it is not."""
_LISTED = frozenset(("json", "list", "mcpjson", "names", "servers"))
"""Words beside those of a switch in the key of a list of servers."""
_PLAIN = re.compile(r"[A-Za-z0-9 _-]{1,64}\Z")
"""A key or a value that consists of words: with any other sign, such as those of a variable, it is not understood."""


@dataclass(frozen=True, slots=True)
class Switch:
    """What a member of an entry, at ``path`` in it, says about the use of its server.

    ``is_on`` None: that is not understood. ``value`` is what it is set to, in words that are understood, else empty.
    """

    path: tuple[str, ...]
    is_on: bool | None
    value: str = ""

    @property
    def name(self) -> str:
        """Its path, for a person."""
        return ".".join(map(one_line, self.path))

    def __str__(self) -> str:
        """Say what it is: ``isActive is false``."""
        return f"{self.name} is {self.value}"


@dataclass(frozen=True, slots=True)
class Switches:
    """All that an entry says about the use of its server: one that is off is enough."""

    found: tuple[Switch, ...]

    @property
    def off(self) -> Switch | None:
        """The first that switches the server off."""
        return next((each for each in self.found if each.is_on is False), None)

    @property
    def not_understood(self) -> str:
        """Why the server must not run though nothing switches it off, as the end of a sentence; empty if it may."""
        unclear = next((each.name for each in self.found if each.is_on is None), "")
        return f"has a switch, {unclear}, that is not understood" if unclear and not self.off else ""

    @property
    def keys(self) -> frozenset[str]:
        """The keys of the entry that are switches themselves."""
        return frozenset(each.path[0] for each in self.found if len(each.path) == 1)


def switches(entry: Mapping[str, Any]) -> Switches:
    """Return the switches of an entry, and of the settings in it (``options: {enabled: false}``)."""
    return Switches(tuple(_found(entry)))


def switched_on(entry: JsonObject) -> JsonObject:
    """Return an entry without what switches its server off, or may."""
    off = {each.path for each in switches(entry).found if not each.is_on}
    return {
        key: {inner: each for inner, each in as_object(value).items() if (key, inner) not in off}
        if isinstance(value, dict)
        else value
        for key, value in entry.items()
        if (key,) not in off
    }


def lists_off(document: Mapping[str, Any]) -> dict[str, tuple[str, ...] | None]:
    """Return the servers that a file switches off beside them, by key: ``disabledMcpServers: [git]``.

    None where nothing of a value is understood: it is no list of names, and no object that says it of each.
    """
    words = {key: _words(key) for key in document}
    return {
        key: _listed(document[key])
        for key, said in words.items()
        if "servers" in said and _kind(said - _LISTED) is _Kind.OFF
    }


def name_listed(item: Any) -> str | None:
    """Return the server that an item of such a list is about; None where that is not understood."""
    # Claude Code's deniedMcpServers has objects.
    about = as_object(item)
    name = item if isinstance(item, str) else about.get("serverName") or about.get("name")
    return name if isinstance(name, str) else None


def flag(value: Any) -> Any:
    """Return what a text such as ``no`` or a number such as 0 says as true or false; another value as it is."""
    is_on = _is_on(_Kind.ON, value)
    return value if is_on is None else is_on


def _found(entry: Mapping[str, Any]) -> Iterator[Switch]:
    for key, value in entry.items():
        kind = _kind(_words(key))
        if kind is not None and (switch := _switch(key, kind, value)) is not None:
            yield switch
        if kind is _Kind.STATE or RuleKey(key).is_settings:
            yield from _below(key, as_object(value), is_state=kind is _Kind.STATE)


def _below(above: str, settings: JsonObject, *, is_state: bool) -> Iterator[Switch]:
    """Yield the switches among settings: only what is certain, because they may be the server's own."""
    for key, value in settings.items():
        words = _words(key)
        kind = _kind(words)
        if kind is None or (not is_state and _ABOUT_USE.isdisjoint(words)):
            continue
        is_on = _is_on(kind, value)
        # status: {active: 3, stopped: 0} counts something.
        is_count = is_state and isinstance(value, int | float) and not isinstance(value, bool)
        if _is_open(value) or (is_on is not None and not is_count):
            yield Switch((above, key), is_on, "" if is_on is None else _shown(value))


def _switch(key: str, kind: _Kind, value: Any) -> Switch | None:
    """Return the switch that a member is; None where it is none."""
    if value in (None, [], {}):
        return None if kind is _Kind.STATE else Switch((key,), is_on=True)
    is_on = _is_on(kind, value)
    if is_on is not None:
        return Switch((key,), is_on, _shown(value))
    if kind is _Kind.STATE:
        # Of other words nothing follows, but with these among them it may be off.
        words = RuleKey(value).words if isinstance(value, str) else ()
        is_none = _ABOUT_USE.isdisjoint(words) and not _is_open(value)
    else:
        # Some of these are rules about tools: disabled: ["drop"].
        is_none = RuleKey(key).sense(value) is not None or not _OFTEN_ELSE.isdisjoint(_words(key))
    return None if is_none else Switch((key,), is_on=None)


def _words(key: str) -> frozenset[str]:
    """Return the words of a key; none where it can be no switch, such as ``//disabled``, which is a comment."""
    words = RuleKey(key).words if _PLAIN.match(key) else ()
    # isactive is one word for a reader of words.
    return frozenset(word.removeprefix("is") if word.removeprefix("is") in _ABOUT_USE else word for word in words)


def _kind(words: frozenset[str]) -> _Kind | None:
    said = words - _FILLERS
    if not said.isdisjoint(_STATE) and said <= _STATE | {"active", "enabled"}:
        return _Kind.STATE
    is_negated, said = not _NEGATIONS.isdisjoint(said), said - _NEGATIONS
    if len(said) == 1 and said <= _ON:
        return _Kind.OFF if is_negated else _Kind.ON
    # disabledByUser says it, disabledBy who it was.
    if "by" in said and len(said & _BY_WHOM) > 1:
        said -= _BY_WHOM
    if len(said) == 1 and said <= _OFF | _DONE:
        return _Kind.ON if is_negated else _Kind.OFF
    return None


def _is_on(kind: _Kind, value: Any) -> bool | None:
    """Return whether the server is in use, as a value says under a key of a kind; None where nothing tells."""
    words = _words_of(value) - _FILLERS
    if "not" in words:
        return False if words - {"not"} and words - {"not"} <= _ON else None
    on, off = _VALUES[kind]
    said = words - _BY_WHOM
    return None if not said else True if said <= on else False if said <= off else None


def _listed(value: Any) -> tuple[str, ...] | None:
    """Return the names of a list of servers; None where it is no such list."""
    if value in (None, [], {}):
        return ()
    if isinstance(value, dict):
        # A name alone is one of a set of YAML; under an object stands a server that was put away there.
        flags = {name: each for name, each in as_object(value).items() if not isinstance(each, dict | list)}
        return tuple(name for name, each in flags.items() if _is_on(_Kind.OFF, each) is not True) if flags else None
    names = map(name_listed, [value] if isinstance(value, str) else as_list(value))
    return tuple(name for name in names if name is not None) or None


def _is_open(value: Any) -> bool:
    """Return whether a value is a variable, which may stand for anything."""
    return isinstance(value, str) and "$" in value


def _words_of(value: Any) -> frozenset[str]:
    """Return the words of a value; none where it cannot be that of a switch."""
    if isinstance(value, bool):
        return frozenset((str(value).lower(),))
    if isinstance(value, int | float):
        return frozenset(("0",)) if value == 0 else frozenset(("1",)) if value == 1 else frozenset()
    is_plain = isinstance(value, str) and _PLAIN.match(value)
    return frozenset(RuleKey(value).words) if is_plain else frozenset()


def _shown(value: Any) -> str:
    """Return a value that is understood, by its words: nothing else of it may be shown."""
    return json.dumps(" ".join(RuleKey(value).words)) if isinstance(value, str) else " ".join(_words_of(value))
