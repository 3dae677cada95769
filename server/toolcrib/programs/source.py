"""The source of a program: the tools that it names, and the text that a worker runs."""

import ast
import keyword
import re
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from toolcrib.base.errors import BadRequest
from toolcrib.programs.dialect import FUTURE, Finding, lacking
from toolcrib.programs.names import CALL, GIVEN, SEARCH, TOOLS, lines_of, names_of
from toolcrib.programs.rewriting import Edit, Text, rewritten
from toolcrib.programs.uses import Use, uses_of_results

AST: Final = "toolcrib_ast"
"""The variable that holds what a program has of the module ``ast``: results of many servers are literals of Python."""

_PARSER = threading.Lock()
"""Held while a tree is built. CPython before 3.11.8 and 3.12.2 counts its depth for the whole interpreter, so that two
threads, one of which pauses for the garbage collector, end in SystemError (python/cpython#106905).
"""

_FINDINGS_MAX = 8
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_]")

_READ = (ast.stmt, ast.expr, ast.comprehension, ast.arg, ast.excepthandler, ast.pattern)
"""The nodes that are looked at; others are only parts of these."""
_AST_MODULE, _LITERAL_EVAL = "ast", "literal_eval"


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
    ``uses``: where it uses results as if they were dicts, lists or objects.
    """

    code: str
    imported: Mapping[str, tuple[int, ...]]
    called: Mapping[str, tuple[int, ...]]
    finds_names: bool
    spread: frozenset[int]
    uses: tuple[Use, ...] = ()


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
        reader.uses,
    )


def _parsed(code: str) -> ast.Module:
    try:
        with _PARSER, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd escapes in strings, which go to nobody here
            return ast.parse(code)
    except SyntaxError as error:
        hint = "; use other quotes inside of it" if "f-string" in error.msg else ""
        raise NotRunnable([Finding(error.lineno or 0, f"this is not Python: {error.msg}{hint}")]) from None
    except (ValueError, RecursionError, MemoryError):
        raise NotRunnable([Finding(0, "this is not Python, or nested too deeply")]) from None


class _Reader:
    """Reads one parsed program; what it finds is in its attributes afterwards."""

    def __init__(self, code: str, tree: ast.Module) -> None:
        self._tree = tree
        self._text = Text(code)
        self._edits: list[Edit] = []
        self.findings: list[Finding] = []
        self.imported: dict[str, list[int]] = {}
        self.called: dict[str, list[int]] = {}
        self.spread: set[int] = set()
        self.uses: tuple[Use, ...] = ()
        self._tools: dict[str, str] = {}
        self._dynamic: list[int] = []
        self._searches = False

    @property
    def finds_names(self) -> bool:
        """Whether it calls tools by names that are not written in it."""
        return bool(self._dynamic)

    def read(self) -> None:
        """Read all of it."""
        nodes = [node for node in ast.walk(self._tree) if isinstance(node, _READ)]
        names = names_of(nodes)
        self.findings.extend(lacking(self._tree, nodes, names))
        for node in nodes:
            if isinstance(node, ast.Import):
                self._import(node)
            elif isinstance(node, ast.ImportFrom):
                self._import_from(node)
            elif isinstance(node, ast.Call):
                self._call(node)
        if self._dynamic and not self._searches:
            for line in self._dynamic:
                self.findings.append(
                    Finding(line, f'{CALL}() takes a name that is written here: {CALL}("server__tool", {{}})')
                )
        self.uses = tuple(uses_of_results(nodes, names, self._tools))
        self._edits.extend(rewritten(nodes, names, self._text))
        self._keep_value()

    def edited(self) -> str:
        """Return the text with all edits."""
        return self._text.edited(self._edits)

    def _import(self, node: ast.Import) -> None:
        if any(alias.name == _AST_MODULE for alias in node.names):
            self._replace(node, [_imported(alias) for alias in node.names])

    def _import_from(self, node: ast.ImportFrom) -> None:
        if node.level:
            return
        if node.module == _AST_MODULE:
            self._replace(node, [f"{alias.asname or alias.name} = {AST}.{_LITERAL_EVAL}" for alias in node.names])
        elif node.module == FUTURE:
            self._replace(node, ["()"])
        elif node.module == TOOLS:
            self._import_tools(node)

    def _import_tools(self, node: ast.ImportFrom) -> None:
        bound: list[tuple[str, str]] = []
        for alias in node.names:
            if alias.name not in GIVEN:
                self.imported.setdefault(alias.name, []).append(alias.lineno)
                self._tools[alias.asname or alias.name] = alias.name
                bound.append((alias.asname or alias.name, bound_name(alias.name)))
            elif alias.asname:
                bound.append((alias.asname, alias.name))
        left, right = (", ".join(names) for names in zip(*bound, strict=True)) if bound else ("", "")
        self._replace(node, [f"({left},) = ({right},)" if bound else "()"])

    def _replace(self, node: ast.stmt, statements: Sequence[str]) -> None:
        """Write other statements in the place of one."""
        start, end = self._text.span(node)
        # As many lines as before, so that every error names the line that was written.
        more = (node.end_lineno or node.lineno) - node.lineno
        self._edits.append(Edit(start, end, "; ".join(statements) + (f"; ({chr(10) * more})" if more else "")))

    def _call(self, node: ast.Call) -> None:
        if any(each.arg is None for each in node.keywords):
            self.spread.update(lines_of(node))
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

    def _keep_value(self) -> None:
        """Have the last statement be an expression; what an interpreter would take is the last expression it meets."""
        last = self._tree.body[-1] if self._tree.body else None
        if isinstance(last, ast.Return) and last.value is not None:
            start, end = self._text.span(last)
            self._edits += [Edit(start, start + len("return"), "("), Edit(end, end, ")")]
        elif not isinstance(last, ast.Expr):
            end = len(self._text.data)
            self._edits.append(Edit(end, end, "\nNone"))


def _imported(alias: ast.alias) -> str:
    """Return the import of one module, as a worker has it."""
    if alias.name == _AST_MODULE:
        return f"{alias.asname or alias.name} = {AST}"
    return f"import {alias.name} as {alias.asname}" if alias.asname else f"import {alias.name}"
