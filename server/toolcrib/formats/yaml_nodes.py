"""The positions of values in a YAML text.

Knows places of keys and values; never knows what they mean. Parse and bound a text with ``yaml`` first.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import yaml

from toolcrib.formats.objects import DocumentError
from toolcrib.formats.yaml import LOADER


@dataclass(frozen=True, slots=True)
class YamlNode:
    """A value: where it begins and ends, and of an object its members in order, each with the place of its key.

    ``is_flow``: it is written in braces or brackets. ``members`` None: it is no object. ``end`` is behind the last
    character of the value, without the blank lines and comments that follow it.
    """

    start: int
    end: int
    is_flow: bool
    members: "tuple[YamlMember, ...] | None"


@dataclass(frozen=True, slots=True)
class YamlMember:
    """A member of an object: its key, where the key begins, and its value."""

    key: str
    start: int
    value: YamlNode


def nodes_of(text: str) -> YamlNode | None:
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


def _node(node: Any, text: str) -> YamlNode:
    start, end = int(node.start_mark.index), int(node.end_mark.index)
    if isinstance(node, yaml.ScalarNode):
        # A block of text ends with the line behind it.
        return YamlNode(start, start + len(text[start:end].rstrip()), is_flow=True, members=None)
    is_flow = bool(node.flow_style)
    if isinstance(node, yaml.SequenceNode):
        items = [_node(item, text) for item in cast("list[Any]", node.value)]
        return YamlNode(start, end if is_flow or not items else items[-1].end, is_flow, None)
    pairs = cast("list[tuple[Any, Any]]", node.value)
    members = tuple(
        YamlMember(str(key.value), int(key.start_mark.index), _node(value, text))
        for key, value in pairs
        if isinstance(key, yaml.ScalarNode)
    )
    if is_flow or not members:
        return YamlNode(start, end, is_flow, members)
    return YamlNode(start, max(member.value.end for member in members), is_flow, members)
