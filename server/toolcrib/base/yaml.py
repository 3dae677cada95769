"""Parses YAML within bounds, and finds the positions of values in its text.

Only a text that was parsed, and thereby found to be within bounds, may be searched for positions.
"""

import re
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, cast

import yaml

from toolcrib.base.json_values import DEPTH_MAX, DocumentError, TextMember, TextNode, number_of, object_of
from toolcrib.base.model import JsonObject

NODES_MAX = 100_000
"""Values in one text, each alias counted as what it stands for; a text counts once more for each 16 characters."""
_CHARACTERS = 16
_DIGITS_MAX = 1000

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""What turns text into events: libyaml where PyYAML was built with it, ten times as fast as the other one."""

_Scalars = tuple[tuple[re.Pattern[str], Callable[[str], Any]], ...]

_UNFIT = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
"""Characters that YAML does not allow; whoever reads a file removes a byte order mark at its start."""
_SURROGATE = re.compile("[\ud800-\udfff]")


def _null(_text: str) -> None:
    return None


def _bool(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _based_int(text: str) -> int:
    if len(text) > _DIGITS_MAX:  # Python reads it, but could not write it in decimal
        raise ValueError
    return int(text, 0)


def _dotted_float(text: str) -> float:
    return float(text.replace(".", ""))


_NULL = (re.compile(r"(?:~|null|Null|NULL|)\Z"), _null)
_BOOL = (re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"), _bool)

_JSON_SCALARS: _Scalars = (
    _NULL,
    _BOOL,
    (re.compile(r"-?(?:0|[1-9][0-9]*)\Z"), int),
    (re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?\Z"), number_of),
)
"""The scalars that are no text: those of YAML 1.2 that JSON has too. ``no``, dates and ``0123`` are text."""

_CORE_SCALARS: _Scalars = (
    _NULL,
    _BOOL,
    (re.compile(r"[-+]?[0-9]+\Z"), int),
    (re.compile(r"0o[0-7]+\Z|0x[0-9a-fA-F]+\Z"), _based_int),
    (re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z"), float),
    (re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z"), _dotted_float),
)
"""The scalars of the core schema of YAML 1.2, the one that other readers of Agent Skills use."""

_TAGGED: dict[str, Callable[[str], Any]] = {
    "tag:yaml.org,2002:null": _null,
    "tag:yaml.org,2002:bool": _bool,
    "tag:yaml.org,2002:int": int,
    "tag:yaml.org,2002:float": number_of,
    "tag:yaml.org,2002:str": str,
}
_OWN_TAGS = (None, "!", "tag:yaml.org,2002:seq", "tag:yaml.org,2002:map")
# A value that begins with anything else is text by every pattern above; that saves trying them on most values.
_MAY_BE_NO_TEXT = frozenset("~nNtTfF+-.0123456789")


class YamlError(DocumentError):
    """The text is not YAML, or not YAML that JSON could say; ``line`` counts from 1, 0 is none."""

    line: int = 0


def parse_yaml(text: str, *, core: bool = False) -> Any:
    """Return the value of a YAML text; an empty text is an empty object.

    ``core`` reads texts that other programs read too: scalars by the core schema of YAML 1.2, values with a tag of
    their own as if they had none, ``<<`` as a key like any other.

    Raises:
        YamlError: not YAML, more than one document, nested too deeply, or too large once its aliases are followed.

    """
    unfit = _UNFIT.search(text)
    if unfit:
        raise _error(text, None, f"character {unfit.start() + 1:,} is not allowed")
    builder = _Builder(text, core=core)
    parse = cast("Callable[..., Generator[Any]]", yaml.parse)  # pyright: ignore[reportUnknownMemberType] - not typed
    try:
        # Events instead of safe_load: an alias bomb or deep nesting is refused before it is in memory.
        with closing(parse(text, Loader=LOADER)) as events:
            for event in events:
                builder.take(event)
    except yaml.MarkedYAMLError as error:
        raise _error(text, error.problem_mark, str(error.problem)) from None
    return builder.value


def to_yaml(value: Any) -> str:
    """Return plain values as YAML for people, in their own order."""
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True).rstrip()


def _error(text: str, mark: Any, reason: str) -> YamlError:
    if mark is None:
        return YamlError(f"is not YAML: {reason}")
    line, column = mark.line, mark.column
    # Otherwise an error at the end would name a line that the file does not have.
    if line > (last := text.count("\n")):  # libyaml ends every text with a newline
        line, column = last, len(text) - text.rfind("\n") - 1
    error = YamlError(f"is not YAML: line {line + 1}, column {column + 1}: {reason}")
    error.line = line + 1
    return error


@dataclass(slots=True)
class _Open:
    """A list or an object whose end has not come yet. ``members`` are pairs once it is an object."""

    is_object: bool
    anchor: str | None
    first: int
    members: list[Any] = field(default_factory=list[Any])
    merges: list[tuple[Any, Any]] = field(default_factory=list[tuple[Any, Any]])
    key: Any = None


@dataclass(frozen=True, slots=True)
class _Anchored:
    """What an alias stands for, how many values that is, and the text it is as a key."""

    value: Any
    size: int
    text: str | None


class _MergeKey(str):
    """The key ``<<``, of which an object may have several."""

    __slots__ = ()


class _Builder:
    """Makes the value out of events, one at a time, and refuses as soon as there are too many or too deep ones."""

    def __init__(self, text: str, *, core: bool) -> None:
        self._text = text
        self._core = core
        self._scalars = _CORE_SCALARS if core else _JSON_SCALARS
        self._open: list[_Open] = []
        self._anchors: dict[str, _Anchored] = {}
        self._count = 0
        self._documents = 0
        self.value: Any = {}

    def take(self, event: Any) -> None:
        """Take the next event of the text.

        Raises:
            YamlError: this is where the text goes wrong.

        """
        if isinstance(event, yaml.ScalarEvent):
            self._count_one(event, len(event.value) // _CHARACTERS)
            self._add(event, self._scalar(event), event.value)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._begin(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._end(event)
        elif isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise self._fault(event, "but found another document")

    def _fault(self, event: Any, reason: str) -> YamlError:
        return _error(self._text, event.start_mark, reason)

    def _count_one(self, event: Any, more: int = 0) -> None:
        self._count += 1 + more
        if self._count > NODES_MAX:
            raise self._fault(event, f"more than {NODES_MAX:,} values once aliases are followed")

    def _alias(self, event: Any) -> None:
        """Add what the alias stands for. Inside its own anchor it has no end."""
        anchored = self._anchors.get(event.anchor)
        if anchored is None and any(each.anchor == event.anchor for each in self._open):
            # Counted as more values than are allowed, so that it is refused like any other text that grows too large.
            anchored = _Anchored(None, NODES_MAX, None)
        if anchored is None:
            raise self._fault(event, f"found undefined alias {event.anchor!r}")
        self._count_one(event, anchored.size)
        self._add(event, anchored.value, anchored.text)

    def _begin(self, event: Any) -> None:
        self._count_one(event)
        if event.tag not in _OWN_TAGS and not self._core:
            raise self._fault(event, "a tag that JSON has no value for")
        if len(self._open) > DEPTH_MAX:
            raise YamlError("is nested too deeply")
        if event.anchor is not None:
            # From here on the name stands for this value, which has no end yet.
            self._anchors.pop(event.anchor, None)
        self._open.append(_Open(isinstance(event, yaml.MappingStartEvent), event.anchor, self._count - 1))

    def _end(self, event: Any) -> None:
        done = self._open.pop()
        value = self._object(done) if done.is_object else done.members
        if done.anchor is not None:
            self._anchors[done.anchor] = _Anchored(value, self._count - done.first, None)
        self._place(event, value, None)

    def _add(self, event: Any, value: Any, text: str | None) -> None:
        if event.anchor is not None and not isinstance(event, yaml.AliasEvent):
            self._anchors[event.anchor] = _Anchored(value, 1 + len(event.value) // _CHARACTERS, text)
        self._place(event, value, text)

    def _place(self, event: Any, value: Any, text: str | None) -> None:
        """Put a finished value where it belongs: the whole text, a list, or a key or value of an object."""
        holder = self._open[-1] if self._open else None
        if holder is None:
            self.value = value
        elif not holder.is_object:
            holder.members.append(value)
        elif holder.key is None:
            if text is None:
                raise self._fault(event, "a key must be text")
            holder.key = _MergeKey(text) if self._is_merge(event) else text
        else:
            key, holder.key = holder.key, None
            if isinstance(key, _MergeKey):
                holder.merges.append((event, value))
            else:
                holder.members.append((key, value))

    def _is_merge(self, event: Any) -> bool:
        # The first of implicit: written without quotes and without a tag. YAML 1.2 core has no merge keys.
        is_plain = isinstance(event, yaml.ScalarEvent) and event.value == "<<" and event.implicit[0]
        return is_plain and not self._core

    def _object(self, done: _Open) -> JsonObject:
        """Return the object; what it merges in with ``<<`` gives way to its own keys."""
        own = object_of(done.members)
        for event, value in done.merges:
            for merged in self._merged(event, value):
                for name, member in merged.items():
                    own.setdefault(name, member)
        return own

    def _merged(self, event: Any, value: Any) -> Iterator[JsonObject]:
        for source in cast("list[Any]", value) if isinstance(value, list) else [value]:
            if not isinstance(source, dict):
                raise self._fault(event, "<< takes an object or a list of objects")
            yield cast("JsonObject", source)

    def _scalar(self, event: Any) -> Any:
        text: str = event.value
        # An escape in quotes can make what the check of the whole text has refused.
        if _SURROGATE.search(text):
            raise self._fault(event, "found invalid Unicode character escape code")
        if event.tag in (None, "!"):
            return self._plain(event, text) if event.implicit[0] else text
        convert = _TAGGED.get(event.tag)
        try:
            if convert is not None:
                return convert(text)
        except (ValueError, KeyError):
            if not self._core:
                raise self._fault(event, "not a value of its tag") from None
        if not self._core:
            raise self._fault(event, "a tag that JSON has no value for")
        return text

    def _plain(self, event: Any, text: str) -> Any:
        """Return the value of a scalar without quotes. A number of thousands of digits is none, in ``core`` text."""
        if text and text[0] not in _MAY_BE_NO_TEXT:
            return text
        for pattern, convert in self._scalars:
            if pattern.match(text):
                try:
                    return convert(text)
                except ValueError:
                    if self._core:
                        return text
                    raise self._fault(event, "not a value of its tag") from None
        return text


def nodes_of(text: str) -> TextNode | None:
    """Return the places of the values in a text; None for an empty one.

    Raises:
        DocumentError: it is not YAML.

    """
    compose = cast("Callable[..., Any]", yaml.compose)  # pyright: ignore[reportUnknownMemberType] - not typed
    try:
        node = compose(text, Loader=LOADER)
    except yaml.YAMLError as error:
        raise DocumentError(f"is not YAML: {error}") from None
    return None if node is None else _node(node, text)


def _node(node: Any, text: str) -> TextNode:
    start, end = int(node.start_mark.index), int(node.end_mark.index)
    if isinstance(node, yaml.ScalarNode):
        # A block of text ends with the line behind it.
        return TextNode(start, start + len(text[start:end].rstrip()), is_flow=True, members=None)
    is_flow = bool(node.flow_style)
    if isinstance(node, yaml.SequenceNode):
        items = [_node(item, text) for item in cast("list[Any]", node.value)]
        return TextNode(start, end if is_flow or not items else items[-1].end, is_flow, None)
    pairs = cast("list[tuple[Any, Any]]", node.value)
    members = tuple(
        TextMember(str(key.value), int(key.start_mark.index), _node(value, text))
        for key, value in pairs
        if isinstance(key, yaml.ScalarNode)
    )
    if is_flow or not members:
        return TextNode(start, end, is_flow, members)
    return TextNode(start, max(member.value.end for member in members), is_flow, members)
