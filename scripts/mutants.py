"""Small faults in a Python source, one at a time: what a test suite that guards the source should notice.

Knows Python's syntax and which faults are worth making; never knows tests or where a source lies.
"""

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

_COMPARED: Mapping[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_CALCULATED: Mapping[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
}
_UNITED = (ast.BitOr, ast.BitAnd)
_EXCHANGED = {"min": "max", "max": "min", "any": "all", "all": "any"}
_LACKED = {"key", "reverse", "default"}
_TYPE_MAKERS = {"TypeVar", "ParamSpec", "NewType", "cast"}
_TYPE_NAME = re.compile("_?[A-Z]+[a-z]")
"""The name of a type, which may stand for others."""

_BUDGET = 1000


_Fault = tuple[ast.expr | ast.stmt, ast.AST | str]
"""What can be faulty, and what stands there then."""


@dataclass(frozen=True, slots=True, order=True)
class Mutant:
    """A fault: ``source[start:end]``, in bytes, which is ``before``, becomes ``after``. ``line`` counts from 1.

    ``where`` is the function that it is in, with its class (``Relevance.rank``), or the name that is assigned outside
    of any; ``reads`` is ``before`` in a layout of its own; ``nth`` tells it from others there that read the same.
    """

    line: int
    start: int
    end: int
    before: str
    after: str
    where: str
    reads: str
    nth: int = 1

    @property
    def identity(self) -> tuple[str, str, str, int]:
        """What stays the same when lines above it, its file, or its layout change."""
        return self.where, self.reads, self.after, self.nth

    def applied(self, source: bytes) -> bytes:
        """Return the source with the fault."""
        return source[: self.start] + self.after.encode() + source[self.end :]


def mutants(source: bytes) -> list[Mutant]:
    """Return every fault that can be made in a source, in its order.

    Left alone is what no behaviour can show: docstrings, annotations, types, ``__all__``, protocols, decorators, what
    only a type checker runs, the texts of errors and of f-strings, and ``strict=``, which only speaks of a fault that
    is elsewhere. Numbers from 1,000 on are budgets: they are halved and doubled, since one more or less is nothing.

    Raises:
        SyntaxError: the source is no Python.

    """
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: set[Mutant] = set()
    tree = ast.parse(source)
    named = _names(tree)
    for node, faulty in _faults(tree):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        before = source[start:end].decode()
        after = faulty if isinstance(faulty, str) else f"({ast.unparse(faulty)})"
        if after != before:
            found.add(Mutant(node.lineno, start, end, before, after, named[id(node)], ast.unparse(node)))
    return list(_numbered(sorted(found)))


def _numbered(found: list[Mutant]) -> Iterator[Mutant]:
    alike: Counter[tuple[str, str, str, int]] = Counter()
    for mutant in found:
        alike[mutant.identity] += 1
        yield replace(mutant, nth=alike[mutant.identity])


def _names(tree: ast.Module) -> dict[int, str]:
    """Return by node's id what each node is in: a function with its class, else the name that is assigned."""
    named: dict[int, str] = {}

    def name(node: ast.AST, place: str, *, in_function: bool) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                place = f"{place}.{node.name}".lstrip(".")
                in_function = in_function or not isinstance(node, ast.ClassDef)
            case ast.Assign(targets=[target]) | ast.AnnAssign(target=target) if not in_function:
                place = f"{place}.{ast.unparse(target)}".lstrip(".")
            case _:
                pass
        named[id(node)] = place
        for child in ast.iter_child_nodes(node):
            name(child, place, in_function=in_function)

    name(tree, "", in_function=False)
    return named


def _faults(tree: ast.Module) -> Iterator[_Fault]:
    for node in _visited(tree):
        if isinstance(node, ast.stmt):
            yield from _of_statement(node)
        elif isinstance(node, ast.comprehension):
            yield from ((condition, "True") for condition in node.ifs)
        elif type(node) in _OF_EXPRESSIONS:
            yield from _OF_EXPRESSIONS[type(node)](node)


# -- where to look -------------------------------------------------------------------------------


def _visited(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all nodes in it whose behaviour can show."""
    yield node
    for child in _children(node):
        if not _is_silent(child):
            yield from _visited(child)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a node that run: no annotations, decorators, bases, docstrings and texts of errors."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from (default for default in (*node.args.defaults, *node.args.kw_defaults) if default is not None)
            yield from node.body
        case ast.ClassDef():
            yield from node.body
        case ast.AnnAssign():
            yield from filter(None, (node.value,))
        case ast.Raise() | ast.JoinedStr() | ast.MatchSingleton():
            return
        case ast.Call(func=ast.Name(id=name)) if name in _TYPE_MAKERS:
            return
        case ast.Call(func=ast.Subscript(value=value)):  # Recent[str, int](…): what is in the brackets are types
            yield from (value, *node.args, *node.keywords)
        case _:
            yield from ast.iter_child_nodes(node)


def _is_silent(node: ast.AST) -> bool:
    """Return whether nothing that runs depends on a node."""
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Import() | ast.ImportFrom() | ast.expr_context():
            return True
        case ast.ClassDef(bases=bases):
            return any(ast.unparse(base).startswith("Protocol") for base in bases)
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.keyword(arg="strict"):
            return True
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name == "__all__" or _TYPE_NAME.match(name) is not None
        case _:
            return False


# -- what can be wrong ---------------------------------------------------------------------------


def _of_comparison(node: ast.Compare) -> Iterator[_Fault]:
    """Yield it with each of its signs turned, or its boundary moved."""
    for place, sign in enumerate(node.ops):
        for other in _COMPARED.get(type(sign), ()):
            yield node, ast.Compare(node.left, [*node.ops[:place], other(), *node.ops[place + 1 :]], node.comparators)


def _of_calculation(node: ast.BinOp) -> Iterator[_Fault]:
    """Yield the opposite calculation, and each of its terms alone."""
    other = _CALCULATED.get(type(node.op))
    if other is not None:
        yield node, ast.BinOp(node.left, other(), node.right)
    if other is not None or isinstance(node.op, _UNITED):
        yield node, node.left
        yield node, node.right


def _of_condition(node: ast.BoolOp) -> Iterator[_Fault]:
    """Yield ``or`` for ``and``, and the condition without each of its terms."""
    yield node, ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    for place in range(len(node.values)):
        rest = node.values[:place] + node.values[place + 1 :]
        yield node, rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)


def _of_sign(node: ast.UnaryOp) -> Iterator[_Fault]:
    if isinstance(node.op, ast.Not | ast.USub):
        yield node, node.operand


def _of_constant(node: ast.Constant) -> Iterator[_Fault]:
    match node.value:
        case bool(value):
            yield node, repr(not value)
        case int(value) if abs(value) >= _BUDGET:
            yield from ((node, repr(other)) for other in (value * 2, value // 2))
        case int(value):
            yield from ((node, repr(other)) for other in (value + 1, value - 1))
        case float(value):
            yield from ((node, repr(other)) for other in ((value * 2, value / 2) if value else (1.0,)))
        case str(value) if value:
            yield node, '""'
        case _:
            pass


def _of_choice(node: ast.IfExp) -> Iterator[_Fault]:
    yield from ((node, each) for each in (node.body, node.orelse))


def _of_call(node: ast.Call) -> Iterator[_Fault]:
    """Yield the opposite function, and one that lacks an order or what it gives for nothing."""
    if isinstance(node.func, ast.Name) and node.func.id in _EXCHANGED:
        yield node.func, _EXCHANGED[node.func.id]
    for keyword in node.keywords:
        if keyword.arg in _LACKED:
            yield node, ast.Call(node.func, node.args, [each for each in node.keywords if each is not keyword])


def _of_slice(node: ast.Slice) -> Iterator[_Fault]:
    """Yield each bound moved by one; those that are numbers are moved as such."""
    for bound in filter(None, (node.lower, node.upper)):
        if not isinstance(bound, ast.Constant):
            yield bound, f"({ast.unparse(bound)}) + 1"
            yield bound, f"({ast.unparse(bound)}) - 1"


def _of_list(node: ast.List | ast.Set) -> Iterator[_Fault]:
    """Yield it without its first and without its last."""
    if len(node.elts) > 1:
        yield from ((node, type(node)(rest)) for rest in (node.elts[1:], node.elts[:-1]))


def _of_dict(node: ast.Dict) -> Iterator[_Fault]:
    """Yield it without its first and without its last."""
    if len(node.keys) > 1:
        yield node, ast.Dict(node.keys[1:], node.values[1:])
        yield node, ast.Dict(node.keys[:-1], node.values[:-1])


_OF_EXPRESSIONS: Mapping[type[ast.AST], Callable[[Any], Iterator[_Fault]]] = {
    ast.Compare: _of_comparison,
    ast.BinOp: _of_calculation,
    ast.BoolOp: _of_condition,
    ast.UnaryOp: _of_sign,
    ast.Constant: _of_constant,
    ast.IfExp: _of_choice,
    ast.Call: _of_call,
    ast.Slice: _of_slice,
    ast.List: _of_list,
    ast.Set: _of_list,
    ast.Dict: _of_dict,
}


def _of_statement(node: ast.stmt) -> Iterator[_Fault]:
    """Yield it left out, or with its branch always or never taken."""
    match node:
        case ast.If(test=test) | ast.While(test=test):
            yield test, "False"
            if isinstance(node, ast.If):
                yield test, "True"
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield value, "None"
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Delete():
            yield node, "pass"
        case ast.Assign(targets=[ast.Subscript() | ast.Attribute()]):
            yield node, "pass"
        case ast.Break():
            yield node, "continue"
        case _:
            pass
