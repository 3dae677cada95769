"""The source of a program: the tools that it names, what it cannot say, and the text that a worker runs."""

import ast
import keyword
import re
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from toolcrib.base.errors import BadRequest
from toolcrib.base.text import one_line, truncate

MODULE: Final = "tools"
"""The module that a program imports tools from."""

CALL, PARALLEL, SEARCH, RESULT, ERROR = "call", "parallel", "search", "result", "ToolError"
GIVEN: Final = (CALL, PARALLEL, SEARCH, RESULT, ERROR)
"""The names that a program has without an import, besides Python's own."""

AST: Final = "toolcrib_ast"
"""The variable that holds what a program has of the module ``ast``: results of many servers are literals of Python."""

_PARSER = threading.Lock()
"""Held while a tree is built. CPython before 3.11.8 and 3.12.2 counts its depth for the whole interpreter, so that two
threads, one of which pauses for the garbage collector, end in SystemError (python/cpython#106905).
"""

_FINDINGS_MAX = 8
_MESSAGE_MAX = 200
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_]")

_MODULES = frozenset(
    "__future__ asyncio base64 binascii bisect collections copy csv dataclasses datetime decimal functools hashlib "
    "itertools json math os pathlib random re sys time tomllib typing unicodedata".split()
)
"""The modules that a worker has."""

_INSTEAD = {
    "concurrent": "await parallel([...])",
    "contextlib": "try and finally",
    "enum": "constants, or a dict",
    "heapq": "sorted(...)[:n]",
    "html": "str.replace",
    "httpx": "a tool that fetches",
    "io": "a str, and str.splitlines",
    "logging": "print",
    "operator": "a lambda",
    "requests": "a tool that fetches",
    "shutil": "a tool for files",
    "statistics": "sum(xs) / len(xs), sorted(xs)[len(xs) // 2]",
    "string": "the characters written out",
    "subprocess": "a tool",
    "textwrap": "str.splitlines and slices",
    "threading": "await parallel([...])",
    "traceback": "str(error)",
    "urllib": "a tool that fetches; str.split for an address",
    "uuid": "hashlib or random",
    "zoneinfo": "datetime.timedelta and datetime.timezone",
}
"""What to write in the place of modules that a worker lacks."""

_NODES = {
    "Yield": "there is no yield here: build a list and return it",
    "YieldFrom": "there is no yield here: build a list and return it",
    "AsyncWith": "there is no async with here: await the calls themselves",
    "AsyncFor": "there is no async for here: await the list, then use for",
    "Delete": "there is no del here: use d.pop(key), xs.pop(i), or leave it",
    "TryStar": "there is no except* here: use except",
    "TypeAlias": "there are no type aliases here: leave it out",
}
"""What a worker's Python lacks, by the kind of node; some are of a newer Python than the one that reads it here."""

_NOT_GIVEN = frozenset(("eval", "exec", "compile", "__import__"))
_AST_MODULE, _LITERAL_EVAL = "ast", "literal_eval"
_OF_ASYNCIO = frozenset(("gather", "sleep", "run"))
_METHOD_KINDS = frozenset(("property", "staticmethod", "classmethod"))


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a program: its line, from 1 on (0: the whole), and what to change."""

    line: int
    text: str

    def __str__(self) -> str:
        """One line of an error."""
        return f"line {self.line}: {self.text}" if self.line else self.text


class NotRunnable(BadRequest):
    """A program that cannot run; nothing of it has. The text has every finding."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        shown = sorted(dict.fromkeys(findings), key=lambda each: each.line)
        more = len(shown) - _FINDINGS_MAX
        lines = [f"- {each}" for each in shown[:_FINDINGS_MAX]] + ([f"- and {more} more"] if more > 0 else [])
        super().__init__("\n".join(["Nothing ran; the program has to be changed:", *lines]))
        self.findings = tuple(shown)


@dataclass(frozen=True, slots=True)
class Source:
    """A program that was read.

    ``code`` is what a worker runs: the written text, line by line, with imports of tools turned into assignments from
    :func:`bound_name`; its value is that of its last statement. ``imported`` has the lines of each imported
    name, ``called`` those of each literal name in ``call(…)``. ``finds_names``: it also calls what it finds by search.
    ``spread``: the lines with a call whose arguments are a dict (``f(**d)``), of which nothing is known before the run.
    """

    code: str
    imported: Mapping[str, tuple[int, ...]]
    called: Mapping[str, tuple[int, ...]]
    finds_names: bool
    spread: frozenset[int]


def bound_name(name: str) -> str:
    """Return the variable that holds a tool in a worker, by its name in imports."""
    return f"tool_{name}"


def import_name(public_name: str) -> str:
    """Return how a program imports a tool, before numbers tell equal names apart."""
    name = _NOT_IN_A_NAME.sub("_", public_name)
    return f"_{name}" if name[:1].isdigit() or keyword.iskeyword(name) else name


def import_names(public_names: Sequence[str]) -> dict[str, str]:
    """Return the public names of tools by the names that programs import; equal ones get a number.

    A tool that needs no change keeps its name, whatever else there is.
    """
    named = {name: name for name in public_names if import_name(name) == name}
    for public in sorted(name for name in public_names if name not in named):
        name = base = import_name(public)
        number = 1
        while name in named:
            number += 1
            name = f"{base}_{number}"
        named[name] = public
    return named


def read(code: str, most: int) -> Source:
    """Return a program as it can be run; ``most`` is the number of bytes that it may have.

    Raises:
        NotRunnable: it is no Python, too long, or uses what a worker does not have.

    """
    code = code.replace("\r\n", "\n").replace("\r", "\n")
    size = len(code.encode("utf-8", "surrogatepass"))
    if size > most:
        raise NotRunnable([Finding(0, f"it has {size} bytes, and at most {most} can run (programs.code_bytes)")])
    tree = _parsed(code)
    reader = _Reader(code, tree)
    reader.read()
    if reader.findings:
        raise NotRunnable(reader.findings)
    return Source(
        reader.edited(),
        {name: tuple(lines) for name, lines in reader.imported.items()},
        {name: tuple(lines) for name, lines in reader.called.items()},
        reader.finds_names,
        frozenset(reader.spread),
    )


def _parsed(code: str) -> ast.Module:
    try:
        with _PARSER, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd escapes in strings, which go to nobody here
            return ast.parse(code)
    except SyntaxError as error:
        raise NotRunnable([Finding(error.lineno or 0, f"this is not Python: {error.msg}")]) from None
    except (ValueError, RecursionError, MemoryError):
        raise NotRunnable([Finding(0, "this is not Python, or nested too deeply")]) from None


class _Reader:
    """Reads one parsed program; what it finds is in its attributes afterwards."""

    def __init__(self, code: str, tree: ast.Module) -> None:
        self._tree = tree
        self._bytes = code.encode("utf-8", "surrogatepass")
        self._starts = [0]
        for line in self._bytes.split(b"\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._edits: list[tuple[int, int, str]] = []
        self.findings: list[Finding] = []
        self.imported: dict[str, list[int]] = {}
        self.called: dict[str, list[int]] = {}
        self.spread: set[int] = set()
        self._dynamic: list[int] = []
        self._ast_names: set[str] = set()
        self._searches = False

    @property
    def finds_names(self) -> bool:
        """Whether it calls tools by names that are not written in it."""
        return bool(self._dynamic)

    def read(self) -> None:
        """Read all of it."""
        for node in ast.walk(self._tree):
            for text in _lacking(node):
                self._find(node, text)
            if isinstance(node, ast.Import):
                self._import(node)
            elif isinstance(node, ast.ImportFrom):
                self._import_from(node)
            elif isinstance(node, ast.Call):
                self._call(node)
        self._check_ast()
        if self._dynamic and not self._searches:
            for line in self._dynamic:
                self.findings.append(
                    Finding(line, f'{CALL}() takes a name that is written here: {CALL}("server__tool", {{}})')
                )
        self._keep_value()

    def edited(self) -> str:
        """Return the text with all edits."""
        text = self._bytes
        for start, end, new in sorted(self._edits, reverse=True):
            text = text[:start] + new.encode() + text[end:]
        return text.decode("utf-8", "replace")

    def _find(self, node: ast.AST, text: str) -> None:
        self.findings.append(Finding(getattr(node, "lineno", 0), text))

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            module = alias.name.partition(".")[0]
            if module == MODULE:
                self._find(node, f"import tools by name: from {MODULE} import server__tool")
            elif alias.name not in _MODULES and alias.name != _AST_MODULE:
                self._find(node, _no_module(alias.name))
        if names := {alias.asname or alias.name for alias in node.names if alias.name == _AST_MODULE}:
            self._ast_names |= names
            self._replace(node, [_imported(alias) for alias in node.names])

    def _import_from(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if module == _AST_MODULE and not node.level:
            self._import_ast(node)
        elif module != MODULE or node.level:
            if node.level or module not in _MODULES:
                self._find(node, _no_module("." * node.level + module))
        else:
            self._import_tools(node)

    def _import_ast(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name != _LITERAL_EVAL:
                self._find(node, _no_ast(alias.name))
        self._replace(node, [f"{alias.asname or alias.name} = {AST}.{_LITERAL_EVAL}" for alias in node.names])

    def _check_ast(self) -> None:
        # By the name alone: hardly a program has another variable of this name besides the import.
        for node in ast.walk(self._tree) if self._ast_names else ():
            if not isinstance(node, ast.Attribute) or node.attr == _LITERAL_EVAL:
                continue
            if _plain_name(node.value) in self._ast_names:
                self._find(node, _no_ast(node.attr))

    def _import_tools(self, node: ast.ImportFrom) -> None:
        bound: list[tuple[str, str]] = []
        for alias in node.names:
            if alias.name == "*":
                self._find(node, f"import tools by name: from {MODULE} import server__tool")
            elif alias.name not in GIVEN:
                self.imported.setdefault(alias.name, []).append(alias.lineno)
                bound.append((alias.asname or alias.name, bound_name(alias.name)))
            elif alias.asname:
                bound.append((alias.asname, alias.name))
        left, right = (", ".join(names) for names in zip(*bound, strict=True)) if bound else ("", "")
        self._replace(node, [f"({left},) = ({right},)" if bound else "()"])

    def _replace(self, node: ast.stmt, statements: Sequence[str]) -> None:
        """Write other statements in the place of one."""
        start, end = self._span(node)
        # As many lines as before, so that every error names the line that was written.
        more = (node.end_lineno or node.lineno) - node.lineno
        self._edits.append((start, end, "; ".join(statements) + (f"; ({chr(10) * more})" if more else "")))

    def _call(self, node: ast.Call) -> None:
        if any(each.arg is None for each in node.keywords):
            self.spread.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        if not isinstance(node.func, ast.Name):
            return
        if node.func.id == SEARCH:
            self._searches = True
        elif node.func.id == CALL:
            name = node.args[0] if node.args else None
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                self.called.setdefault(name.value, []).append(node.lineno)
            else:
                self._dynamic.append(node.lineno)
        elif node.func.id == "next" and node.args and isinstance(node.args[0], ast.GeneratorExp):
            self._iterate(node, node.args[0])

    def _iterate(self, call: ast.Call, generator: ast.GeneratorExp) -> None:
        """Wrap a generator expression, which is a list in a worker, for ``next``."""
        start, end = self._span(generator)
        # Without brackets of its own, it is written with those of the call.
        shares = end == self._span(call)[1]
        self._edits += [(start, start, "(iter" if shares else "iter("), (end, end, ")")]

    def _keep_value(self) -> None:
        """Have the last statement be an expression; what an interpreter would take is the last expression it meets."""
        last = self._tree.body[-1] if self._tree.body else None
        if isinstance(last, ast.Return) and last.value is not None:
            start, end = self._span(last)
            self._edits += [(start, start + len("return"), "("), (end, end, ")")]
        elif not isinstance(last, ast.Expr):
            self._edits.append((len(self._bytes), len(self._bytes), "\nNone"))


def _no_module(name: str) -> str:
    instead = _INSTEAD.get(name.partition(".")[0])
    return f"there is no module {truncate(one_line(name), _MESSAGE_MAX)!r} here" + (
        f": use {instead}" if instead else ""
    )


def _imported(alias: ast.alias) -> str:
    """Return the import of one module, as a worker has it."""
    if alias.name == _AST_MODULE:
        return f"{alias.asname or alias.name} = {AST}"
    return f"import {alias.name} as {alias.asname}" if alias.asname else f"import {alias.name}"


def _no_ast(name: str) -> str:
    return f"{_AST_MODULE} has no {name} here: it has {_LITERAL_EVAL}"


def _lacking(node: ast.AST) -> Iterator[str]:
    """Say what a worker's Python lacks of what a node is, and what to write instead."""
    if text := _NODES.get(type(node).__name__):
        yield text
    elif isinstance(node, ast.ClassDef):
        yield from _lacking_in_class(node)
    elif isinstance(node, ast.Name) and node.id in _NOT_GIVEN:
        yield f"there is no {node.id} here: write the code itself"
    elif isinstance(node, ast.ImportFrom) and node.module == "asyncio":
        yield from (_no_asyncio(alias.name) for alias in node.names if alias.name not in _OF_ASYNCIO)
    elif isinstance(node, ast.Attribute) and _is_asyncio(node) and node.attr not in _OF_ASYNCIO:
        yield _no_asyncio(node.attr)
    elif isinstance(node, ast.Call) and node.keywords and _is_asyncio(node.func, "gather"):
        yield f'asyncio.gather takes no options here: use await {PARALLEL}([...], errors="return")'


def _lacking_in_class(node: ast.ClassDef) -> Iterator[str]:
    if node.bases or node.keywords:
        yield "classes cannot inherit here: use functions, a @dataclass, or a dict"
    for method in node.body:
        decorators = method.decorator_list if isinstance(method, ast.FunctionDef) else []
        if _METHOD_KINDS.intersection(map(_plain_name, decorators)):
            yield "methods have no decorators here: write a plain method or a function"


def _is_asyncio(node: ast.expr, name: str = "") -> bool:
    return isinstance(node, ast.Attribute) and _plain_name(node.value) == "asyncio" and name in ("", node.attr)


def _no_asyncio(name: str) -> str:
    return f"asyncio has no {name} here: use await {PARALLEL}([...]), asyncio.gather or asyncio.sleep"


def _plain_name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""
