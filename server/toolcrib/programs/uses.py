"""Where a program uses what calls return as if it were a dict, a list or an object."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from toolcrib.programs.names import Names, bound_by, lines_of, set_by

_ASKING = frozenset(("type", "isinstance", "hasattr"))
_FOLLOWED_MAX = 16
"""Variables, and values of one, that are followed for each use; of more, nothing is said."""


@dataclass(frozen=True, slots=True)
class Use:
    """A key or an attribute (``member``) of nothing but what ``tools`` return, by their names in imports."""

    lines: range
    tools: frozenset[str]
    member: str
    is_key: bool


def uses_of_results(nodes: Sequence[ast.AST], names: Names, tools: Mapping[str, str]) -> Iterator[Use]:
    """Yield the uses in a program, by all nodes of its tree; ``tools`` are the names in imports by those here.

    What a program asks the type of, or uses where it catches errors, is left out.
    """
    results = _Results(nodes, names, tools)
    tried = {line for node in nodes if isinstance(node, ast.Try) and node.handlers for line in lines_of(*node.body)}
    for node in nodes if tools else ():
        match node:
            case (
                ast.Attribute(value=value, attr=member)
                | ast.Subscript(value=value, slice=ast.Constant(value=str(member)))
            ) if node.lineno not in tried:
                if found := results.tools_of(value):
                    yield Use(lines_of(node), found, member, is_key=isinstance(node, ast.Subscript))
            case _:
                pass


class _Results:
    """The variables that hold nothing but results of calls, or parts of these."""

    def __init__(self, nodes: Sequence[ast.AST], names: Names, tools: Mapping[str, str]) -> None:
        self._tools = tools
        self._values: dict[str, list[ast.expr]] = {}
        self._unknown: set[str] = set()
        values = dict[int, ast.expr]()
        for node in nodes:  # those outside first
            for target, value in _values(node):
                values[id(target)] = value
            for name in bound_by(node):
                if (value := values.get(id(node))) is not None:
                    self._values.setdefault(name, []).append(value)
                else:
                    self._unknown.add(name)
            self._unknown.update(each.id for each in _asked_about(node, names) if isinstance(each, ast.Name))

    def tools_of(self, value: ast.expr) -> frozenset[str]:
        """Return the tools whose results an expression may be, or a part of these; empty: it may be something else."""
        found: set[str] = set()
        seen: set[str] = set()
        waiting = [value]
        while waiting:
            if len(waiting) > _FOLLOWED_MAX or len(seen) > _FOLLOWED_MAX:
                return frozenset()
            match _whole(waiting.pop()):
                case ast.Await(value=ast.Call(func=ast.Name(id=name))) if name in self._tools:
                    found.add(self._tools[name])
                case ast.Name(id=name) if name in self._values and name not in self._unknown:
                    if name not in seen:
                        seen.add(name)
                        waiting += self._values[name]
                case _:
                    return frozenset()
        return frozenset(found)


def _asked_about(node: ast.AST, names: Names) -> list[ast.expr]:
    """Return what a node asks the type, or the members, of."""
    match node:
        case ast.Call(func=function, args=args) if names.builtin(function) in _ASKING:
            return args[:1]
        case ast.Compare(left=ast.Constant(value=str()), ops=[ast.In() | ast.NotIn()], comparators=[value]):
            return [value]
        case _:
            return []


def _values(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield what a node sets, with the value, or with what it is an element of."""
    yield from set_by(node)
    match node:
        case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
            yield target, value
        case _:
            pass


def _whole(value: ast.expr) -> ast.expr:
    """Return what an expression is an element of, by numbers."""
    while isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant | ast.UnaryOp):
        if isinstance(value.slice, ast.Constant) and not isinstance(value.slice.value, int):
            break
        value = value.value
    return value
