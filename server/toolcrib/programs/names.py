"""What the names in a program stand for, and what it reckons with."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

TOOLS: Final = "tools"
"""The module that a program imports tools from."""

CALL, PARALLEL, SEARCH, RESULT, ERROR = "call", "parallel", "search", "result", "ToolError"
GIVEN: Final = (CALL, PARALLEL, SEARCH, RESULT, ERROR)
"""The names that a program has without an import, besides Python's own."""

FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_BINDING: Mapping[type[ast.AST], str] = {
    ast.arg: "arg",
    ast.FunctionDef: "name",
    ast.AsyncFunctionDef: "name",
    ast.ClassDef: "name",
    ast.ExceptHandler: "name",
    ast.MatchAs: "name",
    ast.MatchStar: "name",
    ast.MatchMapping: "rest",
}
"""The fields of nodes that bind a name, besides names that are set."""
_ASKS = frozenset(("hasattr", "getattr"))
_ERRORS = frozenset(("AttributeError", "ImportError", "ModuleNotFoundError"))
_PARTS_MAX = 4
"""Attributes of attributes that are followed; no path that is asked for has as many."""


@dataclass(frozen=True, slots=True)
class Names:
    """What the names in a program stand for.

    ``bound`` are those that it sets itself; ``imported`` are the paths in the library, such as ``os.path``, by the
    names that only imports bind; ``functions`` are those that stand for functions, and ``errors`` those that stand for
    nothing but caught errors. ``members`` are the attributes that it gives values itself, and ``asked`` those that it
    asks for by name before it uses them. ``reckoned`` are the lines in which it catches just the errors of something
    that is lacking, and ``annotations`` the nodes by which nothing runs.
    """

    bound: frozenset[str]
    imported: Mapping[str, str]
    functions: frozenset[str]
    errors: frozenset[str]
    members: frozenset[str]
    asked: frozenset[str]
    reckoned: frozenset[int]
    annotations: frozenset[ast.AST]
    has_classes: bool
    has_paths: bool

    def is_builtin(self, name: str) -> bool:
        """Return whether a name is the interpreter's own."""
        return name not in self.bound and name not in self.imported

    def builtin(self, node: ast.expr) -> str:
        """Return the builtin that an expression names; empty: none."""
        return node.id if isinstance(node, ast.Name) and self.is_builtin(node.id) else ""

    def path(self, node: ast.AST) -> str:
        """Return the path in the library that an expression stands for; empty: none that is known."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute) and len(parts) < _PARTS_MAX:
            parts.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name) and (root := self.imported.get(node.id)):
            return ".".join([root, *reversed(parts)])
        return ""


def names_of(nodes: Sequence[ast.AST]) -> Names:
    """Return what the names in a program stand for, by all nodes of its tree."""
    bound: set[str] = set()
    imported: dict[str, str] = {}
    functions: set[str] = set()
    errors: set[str] = set()
    members: set[str] = set()
    asked: set[str] = set()
    reckoned: set[int] = set()
    annotations: set[ast.AST] = set()
    for node in nodes:
        (errors if isinstance(node, ast.ExceptHandler) else bound).update(bound_by(node))
        members.update(_members_of(node))
        annotations.update(each for root in _annotations(node) for each in ast.walk(root))
        match node:
            case ast.Import() | ast.ImportFrom():
                for name, path in _imports(node):
                    if not path or imported.setdefault(name, path) != path:
                        bound.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                functions.add(name)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda()):
                functions.add(name)
            case ast.Call(func=ast.Name(id=name), args=[_, ast.Constant(value=str(attribute)), *_]) if name in _ASKS:
                asked.add(attribute)
            case ast.Try(handlers=handlers) if any(_names_lack(each) for each in handlers):
                reckoned.update(lines_of(*node.body))
            case _:
                pass
    return Names(
        frozenset(bound | errors),
        {name: path for name, path in imported.items() if name not in bound | errors},
        frozenset(functions),
        frozenset(errors - bound),
        frozenset(members),
        frozenset(asked),
        frozenset(reckoned),
        frozenset(annotations),
        has_classes=any(isinstance(node, ast.ClassDef) for node in nodes),
        has_paths=any(path.startswith("pathlib") for path in imported.values()),
    )


def lines_of(*nodes: ast.expr | ast.stmt) -> range:
    """Return the lines from the first node to the last."""
    return range(nodes[0].lineno, (nodes[-1].end_lineno or nodes[-1].lineno) + 1)


def set_by(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield what a node sets, each with the value."""
    match node:
        case ast.Assign(targets=targets, value=value):
            yield from ((target, value) for target in targets)
        case ast.NamedExpr(target=target, value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
            yield target, value
        case _:
            pass


def bound_by(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node binds, but for imports."""
    field = _BINDING.get(type(node))
    if field is not None:
        name: Any = getattr(node, field)
        if name:
            yield name
    elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id


def _members_of(node: ast.AST) -> Iterator[str]:
    """Yield the attributes that a node gives to values: of a class, of a named tuple, or one that is set."""
    match node:
        case ast.Attribute(attr=attribute, ctx=ast.Store()):
            yield attribute
        case ast.ClassDef(body=body):
            for each in body:
                names = [each] if isinstance(each, FUNCTIONS) else ast.iter_child_nodes(each)
                yield from (name for part in names for name in bound_by(part))
        case ast.Call(func=ast.Attribute(attr="namedtuple") | ast.Name(id="namedtuple" | "setattr")):
            for each in (each for argument in node.args[1:] for each in ast.walk(argument)):
                if isinstance(each, ast.Constant) and isinstance(each.value, str):
                    yield from each.value.replace(",", " ").split()
        case _:
            pass


def _annotations(node: ast.AST) -> Iterator[ast.expr]:
    """Yield what is written as the types of a function, which nothing reads when it runs."""
    match node:
        case ast.arg(annotation=ast.expr() as annotation):
            yield annotation
        case ast.FunctionDef(returns=ast.expr() as returns) | ast.AsyncFunctionDef(returns=ast.expr() as returns):
            yield returns
        case ast.AnnAssign(annotation=annotation):
            yield annotation
        case _:
            pass


def _imports(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """Yield the names that an import binds, with their paths; a tool has none."""
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            is_ours = node.level or node.module == TOOLS
            yield alias.asname or alias.name, "" if is_ours else f"{node.module}.{alias.name}"
        else:
            top = alias.name.partition(".")[0]
            yield (alias.asname, alias.name) if alias.asname else (top, top)


def _names_lack(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler names an error of something that is lacking."""
    named = ast.walk(handler.type) if handler.type else ()
    return any(isinstance(each, ast.Name) and each.id in _ERRORS for each in named)
