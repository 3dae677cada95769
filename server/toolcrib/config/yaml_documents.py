"""YAML read as JSON would be: the same kinds of values, keys as written, aliases bounded.

Knows YAML; never knows what a key means. Imported only where there is YAML.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, cast

import yaml

from toolcrib.config.documents import DocumentError, object_of
from toolcrib.model import JsonObject

NODES_MAX = 100_000
"""Values in one file, each alias counted as what it stands for."""

_NULL, _BOOL, _INT, _FLOAT, _MERGE, _STR, _SEQ, _MAP = (
    f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "merge", "str", "seq", "map")
)
_PATTERNS = {
    _NULL: r"~|null|Null|NULL|",
    _BOOL: r"true|True|TRUE|false|False|FALSE",
    _INT: r"-?(?:0|[1-9][0-9]*)",
    _FLOAT: r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?",
    _MERGE: r"<<",
}
"""The scalars that are no text: those of YAML 1.2 that JSON has too. ``no``, dates and ``0123`` are text."""


def _null(_text: str) -> None:
    return None


def _bool(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


_SCALARS: dict[str, Callable[[str], Any]] = {
    _NULL: _null, _BOOL: _bool, _INT: int, _FLOAT: float, _MERGE: str, _STR: str,
}  # fmt: skip


def parse_yaml(text: str) -> Any:
    """Return the value of a YAML text; an empty text is an empty object.

    Raises:
        DocumentError: not YAML, more than one document, or too large once its aliases are followed.

    """
    try:
        node = _Composer(text).get_single_node()
    except yaml.reader.ReaderError as error:
        raise DocumentError(f"is not YAML: character {error.position + 1:,} is not allowed") from None
    except yaml.MarkedYAMLError as error:
        raise _error(error.problem_mark, str(error.problem)) from None
    return {} if node is None else _value(node)


def to_yaml(value: Any) -> str:
    """Return plain values as YAML for people, in their own order."""
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True).rstrip()


class _Composer(yaml.SafeLoader):
    """Reads nodes only, with the scalars of JSON, and counts what its aliases amount to."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own attribute
        None: [(tag, re.compile(rf"(?:{pattern})\Z")) for tag, pattern in _PATTERNS.items()]
    }

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._composed = 0
        self._sizes: dict[str, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose one node. An alias counts as much as its anchor; inside its own anchor it has no end."""
        event = cast("Any", self.peek_event())  # pyright: ignore[reportUnknownMemberType] - not typed
        before, is_alias = self._composed, isinstance(event, yaml.AliasEvent)
        if is_alias and event.anchor in self.anchors:
            self._composed += self._sizes.get(event.anchor, NODES_MAX)
        self._composed += 1
        if self._composed > NODES_MAX:
            raise _error(event.start_mark, f"more than {NODES_MAX:,} values once aliases are followed")
        node = super().compose_node(parent, index)
        if event.anchor is not None and not is_alias:
            self._sizes[event.anchor] = self._composed - before
        return node


def _error(mark: Any, reason: str) -> DocumentError:
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return DocumentError(f"is not YAML: {where}{reason}")


def _value(node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode) and node.tag == _MAP:
        return _mapping(node)
    if isinstance(node, yaml.SequenceNode) and node.tag == _SEQ:
        return [_value(item) for item in node.value]
    if isinstance(node, yaml.ScalarNode) and node.tag in _SCALARS:
        try:
            return _SCALARS[node.tag](node.value)
        except (ValueError, KeyError):
            raise _error(node.start_mark, "not a value of its tag") from None
    raise _error(node.start_mark, "a tag that JSON has no value for")


def _mapping(node: yaml.MappingNode) -> JsonObject:
    """Return the object; what it merges in with ``<<`` gives way to its own keys."""
    own = object_of([(_key(key), _value(value)) for key, value in node.value if key.tag != _MERGE])
    for key, value in node.value:
        if key.tag == _MERGE:
            for merged in _merged(value):
                for name, member in merged.items():
                    own.setdefault(name, member)
    return own


def _merged(node: yaml.Node) -> Iterator[JsonObject]:
    for source in node.value if isinstance(node, yaml.SequenceNode) else [node]:
        if not isinstance(source, yaml.MappingNode):
            raise _error(source.start_mark, "<< takes an object or a list of objects")
        yield _mapping(source)


def _key(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise _error(node.start_mark, "a key must be text")
    return str(node.value)
