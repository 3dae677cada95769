"""Ordinary Python that the interpreter of a worker does not run as it stands, written so that it does.

No edit moves a line: errors name the line that was written.
"""

import ast
import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final

from toolcrib.programs.dialect import is_exception
from toolcrib.programs.names import Names, set_by

_TYPES: Final = {kind.__name__: kind for kind in (str, bytes, int, float, list, tuple, dict, set, frozenset)}
_METHODS = frozenset(
    name
    for kind in (*_TYPES.values(), Counter, deque, date, datetime, timedelta, re.Match, re.Pattern)
    for name in dir(kind)
    if not name.startswith("_") and callable(getattr(kind, name))
)
"""Methods of what programs have; an attribute of any other name is not made a function."""
_OF_TYPES = frozenset("fromkeys fromhex from_bytes maketrans".split())
"""Methods of types of Python's own that are called without a value."""
_LAZY = frozenset("map filter zip enumerate reversed".split())
"""What gives an iterator, and a list in a worker."""
_KEYED = frozenset("max min sorted itertools.groupby bisect.bisect bisect.bisect_left bisect.bisect_right".split())
"""Functions that take another one as ``key``, besides ``sort``."""
_WITH_FUNCTION = {
    **dict.fromkeys("map filter functools.partial functools.reduce itertools.dropwhile".split(), 0),
    **dict.fromkeys("itertools.filterfalse itertools.starmap itertools.takewhile".split(), 0),
    **dict.fromkeys("itertools.accumulate itertools.groupby".split(), 1),
}
"""Functions that take another one at a place."""

_DOT = re.compile(rb"(?:[ \t\\\n)]|#[^\n]*+)*+(\.)(?:[ \t\\\n]|#[^\n]*+)*+")
"""What may stand between a value and the name of its attribute."""


@dataclass(frozen=True, slots=True)
class Edit:
    """What stands in a text from one byte to another, and what is written there."""

    start: int
    end: int
    new: str


class Text:
    """The text of a program, by bytes, as a parser counts them."""

    def __init__(self, code: str) -> None:
        self.data = code.encode("utf-8", "surrogatepass")
        self._starts = [0]
        for line in self.data.split(b"\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Return where a node begins and ends."""
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)

    def around(self, node: ast.expr, before: str, after: str) -> Iterator[Edit]:
        """Write something before and after an expression."""
        start, end = self.span(node)
        yield Edit(start, start, before)
        yield Edit(end, end, after)

    def edited(self, edits: Sequence[Edit]) -> str:
        """Return the text with all edits; of those at one place, the first is written first."""
        pieces: list[bytes] = []
        done = 0
        for each in sorted(edits, key=lambda each: (each.start, each.end)):
            pieces += (self.data[done : each.start], each.new.encode())
            done = each.end
        return b"".join([*pieces, self.data[done:]]).decode("utf-8", "replace")


def rewritten(nodes: Sequence[ast.AST], names: Names, text: Text) -> Iterator[Edit]:
    """Yield the edits of a program: of iterators, of methods that are values, and of the texts of errors.

    ``nodes`` are all of its tree, those outside first.
    """
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    called = {node.func.id for node in calls if isinstance(node.func, ast.Name)}
    drawn = {each.id for node in calls if isinstance(each := _drawn_from(node, names), ast.Name)}
    for node in nodes:
        if isinstance(node, ast.Call):
            yield from _call(node, names, text)
        elif isinstance(node, ast.Attribute) and _is_of_type(node, names):
            start, end = text.span(node)
            yield Edit(start, end, f"(lambda toolcrib_of, *a, **k: toolcrib_of.{node.attr}(*a, **k))")
        elif pairs := list(set_by(node)):
            value = pairs[0][1]
            set_ = {target.id for target, _ in pairs if isinstance(target, ast.Name)}
            if set_ & drawn and _is_lazy(value, names):
                yield from text.around(value, "iter(", ")")
            elif set_ & called:
                yield from _method(value, names, text)


def _call(node: ast.Call, names: Names, text: Text) -> Iterator[Edit]:
    drawn = _drawn_from(node, names)
    if drawn is not None and _is_lazy(drawn, names):
        # A generator expression without brackets of its own is written with those of the call.
        shares = isinstance(drawn, ast.GeneratorExp) and text.span(drawn)[1] == text.span(node)[1]
        yield from text.around(drawn, "(iter" if shares else "iter(", ")")
    for each in _functions_of(node, names):
        yield from _method(each, names, text)
    if (said := _text_of_error(node, names)) is not None:
        yield from text.around(said, "str(", ")")


def _text_of_error(node: ast.Call, names: Names) -> ast.expr | None:
    """Return what an error is made of, if that is something else than a text."""
    if not is_exception(names.builtin(node.func)) or len(node.args) != 1 or not names.is_builtin("str"):
        return None
    [said] = node.args
    if isinstance(said, ast.JoinedStr | ast.Starred | ast.GeneratorExp):
        return None
    return None if isinstance(said, ast.Constant) and isinstance(said.value, str) else said


def _drawn_from(node: ast.Call, names: Names) -> ast.expr | None:
    """Return what ``next`` is called with."""
    is_next = names.builtin(node.func) == "next" and names.is_builtin("iter")
    return node.args[0] if is_next and node.args else None


def _is_lazy(node: ast.expr, names: Names) -> bool:
    match node:
        case ast.GeneratorExp() | ast.Call(func=ast.Attribute(attr="finditer")):
            return True
        case ast.Call():
            return _function(node, names) in _LAZY
        case _:
            return False


def _function(node: ast.Call, names: Names) -> str:
    """Return the builtin, or the path in the library, of what is called."""
    return names.builtin(node.func) or names.path(node.func)


def _functions_of(node: ast.Call, names: Names) -> Iterator[ast.expr]:
    """Yield the arguments of a call that are functions."""
    name = _function(node, names)
    if name in _KEYED or (isinstance(node.func, ast.Attribute) and node.func.attr == "sort"):
        yield from (each.value for each in node.keywords if each.arg == "key")
    if name in _WITH_FUNCTION:
        at = _WITH_FUNCTION[name]
        yield from node.args[at : at + 1]


def _is_of_type(node: ast.Attribute, names: Names) -> bool:
    """Return whether this is a method of a type of Python's own, as in ``key=str.lower``."""
    kind = _TYPES.get(names.builtin(node.value))
    is_method = not node.attr.startswith("_") and node.attr not in _OF_TYPES
    return kind is not None and is_method and hasattr(kind, node.attr)


def _method(node: ast.expr, names: Names, text: Text) -> Iterator[Edit]:
    """Write the method of a value that is itself a value, as in ``key=counts.get``, as a function."""
    if not isinstance(node, ast.Attribute) or _is_of_type(node, names) or node.lineno in names.reckoned:
        return
    owner, name = names.path(node.value), node.attr
    is_of_module = owner and ("." not in owner or owner == "os.path")  # then it is a value in a worker, too
    if is_of_module or not names.is_builtin("hasattr") or name not in _METHODS:
        return
    start, end = text.span(node)
    begins, owner_ends = end - len(name.encode()), text.span(node.value)[1]
    between = _DOT.fullmatch(text.data, owner_ends, begins)
    if between is None or text.data[begins:end] != name.encode():
        return
    dot = between.start(1)
    value = f'toolcrib_of.{name} if hasattr(toolcrib_of, "{name}") else lambda *a, **k: toolcrib_of.{name}(*a, **k)'
    yield Edit(start, start, f"(lambda toolcrib_of: {value})(")
    yield Edit(dot, end, "\n" * text.data.count(b"\n", dot, end) + ")")
