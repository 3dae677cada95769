"""The shape of the source: files, lines of code, packages and the imports between them, comments, riddles.

Lines of code are those without blank lines, comments and docstrings. A function only passes on where its body is one
``return`` of a call that it hands plain names to. With ``--against DIR`` another checkout is counted beside this one.
"""

import ast
import io
import re
import tokenize
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from measuring import Finding, Target, options, show

ROOT = Path(__file__).resolve().parents[1]
FORMULA = re.compile(r"never\s+knows")
_NOT_CODE = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.COMMENT)
_SWITCHES = ("# noqa", "# type:", "# pyright:")
"""Comments that speak to tools, not to readers."""


@dataclass(frozen=True, slots=True)
class Source:
    """One parsed file. ``name`` is its dotted path, ``package`` the part of it right below the root."""

    name: str
    text: str
    tree: ast.Module

    @property
    def package(self) -> str:
        """Return the first part of its name."""
        return self.name.partition(".")[0]

    @property
    def code(self) -> int:
        """Count the lines of code."""
        lines: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type not in _NOT_CODE:
                lines.update(range(token.start[0], token.end[0] + 1))
        for node in ast.walk(self.tree):
            body = getattr(node, "body", None)
            for each in body if isinstance(body, list) else ():
                if (
                    isinstance(each, ast.Expr)
                    and isinstance(each.value, ast.Constant)
                    and isinstance(each.value.value, str)
                ):
                    lines.difference_update(range(each.lineno, (each.end_lineno or each.lineno) + 1))
        return len(lines)

    @property
    def comments(self) -> int:
        """Count the comments for readers."""
        return sum(
            token.type == tokenize.COMMENT and not token.string.startswith(_SWITCHES)
            for token in tokenize.generate_tokens(io.StringIO(self.text).readline)
        )

    @property
    def passing_on(self) -> int:
        """Count the functions that only pass on."""
        functions = (node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
        return sum(_passes_on(function) for function in functions)

    def imported(self) -> Iterator[str]:
        """Yield the dotted names that the file imports from its own root package."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("toolcrib."):
                yield (node.module or "").removeprefix("toolcrib.")


def _passes_on(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    body = [each for each in function.body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]
    if len(body) != 1 or not isinstance(body[0], ast.Return):
        return False
    value = body[0].value
    call = value.value if isinstance(value, ast.Await) else value
    if not isinstance(call, ast.Call):
        return False
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return all(isinstance(each, ast.Name | ast.Attribute | ast.Constant | ast.Starred) for each in given)


def sources(root: Path) -> list[Source]:
    """Parse all files of the package in a checkout."""
    package = root / "server" / "toolcrib"
    found: list[Source] = []
    for path in sorted(package.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        found.append(Source(".".join(path.relative_to(package).with_suffix("").parts), text, ast.parse(text)))
    return found


def figures(root: Path) -> dict[str, float]:
    """Count a checkout."""
    files = sources(root)
    packages = {file.package for file in files if "." in file.name}
    arrows = {
        (file.package, name.partition(".")[0])
        for file in files
        for name in file.imported()
        if file.package != name.partition(".")[0]
    }
    code = sum(file.code for file in files)
    return {
        "files": len(files),
        "lines": sum(file.text.count("\n") for file in files),
        "lines of code": code,
        "packages": len(packages),
        "imports between packages": len(arrows),
        "functions that only pass on": sum(file.passing_on for file in files),
        "comments in 100 lines of code": round(100 * sum(file.comments for file in files) / code, 1),
        "docstrings with the formula": sum(bool(FORMULA.search(ast.get_docstring(file.tree) or "")) for file in files),
    }


TARGETS = {
    "files": Target(230),
    "lines of code": Target(33_000),
    "comments in 100 lines of code": Target(3, is_least=True),
    "docstrings with the formula": Target(0),
}


def measure(given: Namespace) -> None:
    own = figures(ROOT)
    base = None if given.against is None else figures(given.against)
    findings = [
        Finding(name, "", figure, None if base is None else base[name], "there", TARGETS.get(name))
        for name, figure in own.items()
    ]
    if given.packages:
        for package in sorted({file.package for file in sources(ROOT)}):
            files = [file for file in sources(ROOT) if file.package == package]
            code, comments = sum(file.code for file in files), sum(file.comments for file in files)
            findings.append(
                Finding(f"{package}: {len(files)} files, {100 * comments / max(code, 1):.1f} comments", "code", code)
            )
    show(findings, *([f"there: {given.against}"] if given.against else []), as_json=given.json)


def main() -> None:
    parser = options(__doc__, repeat=1)
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout, counted beside this one")
    parser.add_argument("--packages", action="store_true", help="count each package too")
    measure(parser.parse_args())


if __name__ == "__main__":
    main()
