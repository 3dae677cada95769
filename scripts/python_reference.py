"""Write what ``toolcrib.__all__`` offers a Python program as Markdown, from signatures and docstrings."""

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from typing import Any, get_origin

import toolcrib

Function = ast.FunctionDef | ast.AsyncFunctionDef

_ROLE = re.compile(r":\w+:`~?([^`]+)`")
_CODE = re.compile(r"``([^`]+)``")
_REFERENCE = re.compile(r" \((?:R\d+|ADR \d+)\)")
_SECTION = re.compile(r"^(Raises|Returns|Yields|Args):\n((?:[ ]{4}.*\n?|\n)+)", re.MULTILINE)
_ENTRY = re.compile(r"^(\w[\w.]*): ", re.MULTILINE)
_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


def reference() -> str:
    """Return a section for each public name, and a table of the errors."""
    values = {name: getattr(toolcrib, name) for name in toolcrib.__all__ if not name.startswith("_")}
    errors = [value for value in values.values() if inspect.isclass(value) and issubclass(value, Exception)]
    others = (value for value in values.values() if value not in errors)
    return "\n".join([*map(described, others), _error_table(errors)])


def described(value: Any) -> str:
    """Return the section of one class or function.

    Raises:
        TypeError: it is neither.

    """
    if not inspect.isclass(value) and not inspect.isfunction(value):
        raise TypeError(f"{value!r} is neither a class nor a function; say how to describe it")
    node = ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]
    return "\n".join(_class(node, value) if isinstance(value, type) else _function(node, "##", value))


def _class(node: ast.stmt, value: type) -> Iterator[str]:
    assert isinstance(node, ast.ClassDef)
    yield from (f"## `{node.name}`", "", _text(inspect.getdoc(value) or ""), "")
    fields = [item for item in node.body if isinstance(item, ast.AnnAssign) and _is_public(ast.unparse(item.target))]
    if fields:
        yield from ("| attribute | type | default |", "|---|---|---|")
        for item in fields:
            default = f"`{_default(item.value)}`" if item.value else ""
            yield f"| `{ast.unparse(item.target)}` | `{_type(item.annotation, value)}` | {default} |"
        yield ""
    # Of a dataclass the fields say how it is made; what is made by a function is not made otherwise.
    is_made_here = not fields and not re.search("(?:Made|Got) by ", inspect.getdoc(value) or "")
    for item in node.body:
        if isinstance(item, Function) and (_is_public(item.name) or (item.name == "__init__" and is_made_here)):
            yield from _function(item, "###", value, node.name)


def _function(node: ast.stmt, level: str, owner: Any, shown: str = "toolcrib") -> Iterator[str]:
    assert isinstance(node, Function)
    is_property = any(ast.unparse(each) in ("property", "cached_property") for each in node.decorator_list)
    if node.name != "__init__":
        shown = f"{shown}.{node.name}"
        yield from (f"{level} `{shown}`", "")
    signature = _signature(node, shown, is_method=inspect.isclass(owner), is_property=is_property)
    yield from ("```python", re.sub(r"'(\w+)'(?=$| \|)", r"\1", _spelled_out(signature, owner)), "```", "")
    yield from (_text(inspect.cleandoc(ast.get_docstring(node) or "")), "")


def _signature(node: Function, shown: str, *, is_method: bool, is_property: bool) -> str:
    arguments = node.args
    if is_method and not any(ast.unparse(each) == "staticmethod" for each in node.decorator_list):
        (arguments.posonlyargs or arguments.args).pop(0)
    given = "" if is_property else f"({', '.join(_parameters(arguments))})"
    result = f" -> {ast.unparse(node.returns)}" if node.returns and node.name != "__init__" else ""
    manager = any("contextmanager" in ast.unparse(each) for each in node.decorator_list)
    if manager and isinstance(node.returns, ast.Subscript):
        what = node.returns.slice
        got = ast.unparse(what.elts[0] if isinstance(what, ast.Tuple) else what)
        prefix = "async with " if isinstance(node, ast.AsyncFunctionDef) else "with "
        return f"{prefix}{shown}{given} as {got}"
    return f"{'await ' if isinstance(node, ast.AsyncFunctionDef) else ''}{shown}{given}{result}"


def _parameters(arguments: ast.arguments) -> Iterator[str]:
    """Yield each parameter as one writes it, with spaces around what follows an annotation."""
    places = [*arguments.posonlyargs, *arguments.args]
    defaults = [*[None] * (len(places) - len(arguments.defaults)), *arguments.defaults]
    for number, (place, default) in enumerate(zip(places, defaults, strict=True), 1):
        yield _parameter(place, default)
        if number == len(arguments.posonlyargs):
            yield "/"
    if arguments.vararg or arguments.kwonlyargs:
        yield f"*{ast.unparse(arguments.vararg) if arguments.vararg else ''}"
    for place, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _parameter(place, default)
    if arguments.kwarg:
        yield f"**{ast.unparse(arguments.kwarg)}"


def _parameter(place: ast.arg, default: ast.expr | None) -> str:
    if default is None:
        return ast.unparse(place)
    return f"{ast.unparse(place)}{' = ' if place.annotation else '='}{ast.unparse(default)}"


def _error_table(errors: list[type[Exception]]) -> str:
    said = {error: " ".join(_text(inspect.getdoc(error) or "").partition("\n\n")[0].split()) for error in errors}
    rows = [f"| `{error.__name__}` | `{error.__mro__[1].__name__}` | {said[error]} |" for error in errors]
    return "\n".join(["## Errors", "", "| error | a kind of | when |", "|---|---|---|", *rows, ""])


def _text(docstring: str) -> str:
    """Return a docstring as Markdown: code, examples, and what it raises as a list."""
    plain = _CODE.sub(r"`\1`", _ROLE.sub(r"`\1`", _REFERENCE.sub("", docstring)))
    listed = _SECTION.sub(_list, plain)
    return _EXAMPLE.sub(lambda found: f"```python\n{found[0]}\n```", listed).strip()


def _list(found: re.Match[str]) -> str:
    entries = re.sub(r"\n {4}", " ", textwrap.dedent(found[2]).strip())
    return f"{found[1]}:\n\n" + _ENTRY.sub(r"* `\1`: ", entries) + "\n\n"


def _default(value: ast.expr) -> str:
    written = ast.unparse(value)
    return "()" if "default_factory=tuple" in written else "{}" if "default_factory=dict" in written else written


def _type(annotation: ast.expr, owner: Any) -> str:
    return _spelled_out(ast.unparse(annotation), owner).replace("|", "\\|")


def _spelled_out(written: str, owner: Any) -> str:
    """Return a type in which what only this repository calls by a name is shown as what it is."""
    known = vars(sys.modules[owner.__module__])

    def meaning(found: re.Match[str]) -> str:
        meant = known.get(found[0])
        if meant is None or inspect.isfunction(meant):
            return found[0]
        if inspect.isclass(meant):
            return meant.__name__
        return re.sub(r"\b[a-z_]+\.(?=[A-Za-z])", "", str(meant)) if get_origin(meant) else found[0]

    return re.sub(r"(?<![\w.'])[A-Z]\w*(?![\w'])", meaning, written)


def _is_public(name: str) -> bool:
    return not name.startswith("_")
