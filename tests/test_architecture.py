"""The rules of the house that a program can check."""

import ast
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "server" / "toolcrib"

REGEX_FUNCTIONS = tuple(
    f"re.{name}" for name in ("compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer")
)
BARRIERS = 11
BARRIER = re.compile(r"# barrier: \w+")
BANNED_WORDS = {"util", "utils", "helper", "helpers", "manager", "managers", "service", "services"}
BANNED_TEXTS = (
    re.compile("pypi" + r"\.org|files\.python" + "hosted"),
    re.compile("registry" + r"\.npm"),
    re.compile(r"(?<![\w.-])/" + "work/"),
    re.compile("/tmp" + r"/w\d?\b"),
)
"""Hosts of package indexes and paths of one machine."""
MADE_BY_TOOLS = re.compile(r"\.(?!ci\b|github\b).*|node_modules|__pycache__|build|dist|.*\.egg-info")
"""Folders and files to leave out where git is not there to ask."""


@dataclass(frozen=True, eq=False)
class Module:
    """One parsed source file. ``name`` is its dotted path below ``toolcrib``."""

    path: Path
    name: str
    source: str
    tree: ast.Module
    nodes: tuple[ast.AST, ...]

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def package(self) -> str:
        return self.name.partition(".")[0]

    def at(self, line: int) -> str:
        return f"{self.path.relative_to(ROOT)}:{line}"

    def is_one_of(self, places: tuple[str, ...]) -> bool:
        return any(self.name == place or self.name.startswith(f"{place}.") for place in places)


@cache
def modules() -> tuple[Module, ...]:
    return tuple(_parse(path) for path in sorted(PACKAGE.rglob("*.py")))


def _parse(path: Path) -> Module:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source, str(path))
    return Module(path, name, source, tree, tuple(ast.walk(tree)))


@cache
def uses(module: Module) -> tuple[tuple[str, int], ...]:
    """Return every dotted name that ``module`` imports or reaches through an import, and its line."""
    return tuple(_uses(module))


def _uses(module: Module) -> Iterator[tuple[str, int]]:
    for node in module.nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)
    bound = bindings(module)
    for node in module.nodes:
        if isinstance(node, ast.Name | ast.Attribute) and (dotted := _dotted(node, bound)):
            yield dotted, node.lineno


@cache
def bindings(module: Module) -> dict[str, str]:
    """Return what each imported name stands for, as a dotted name."""
    bound = {"print": "print"}
    for node in module.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                bound[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                bound[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return bound


def _dotted(node: ast.expr, bound: dict[str, str]) -> str | None:
    if isinstance(node, ast.Name):
        return bound.get(node.id)
    if isinstance(node, ast.Attribute) and (owner := _dotted(node.value, bound)):
        return f"{owner}.{node.attr}"
    return None


def report(offenders: list[str]) -> str:
    return "\n" + "\n".join(sorted(set(offenders)))


def test_no_module_keeps_mutable_state():
    state = [
        f"{module.at(node.lineno)}: {name}"
        for module in modules()
        for node in _module_level(module.tree.body)
        for name in _mutable_names(node)
    ]
    assert not state, "a module-level dict, list or set is a constant, in capitals, or lives in an object:" + report(
        state
    )


def _module_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run at import, those under ``if``, ``try`` and ``with`` too; every ``global`` also."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With | ast.For | ast.While):
            for block in ("body", "orelse", "finalbody"):
                yield from _module_level(getattr(node, block, []))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from (inner for inner in ast.walk(node) if isinstance(inner, ast.Global))


def _mutable_names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Global):
        return [f"global {name}" for name in node.names]
    if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None or not _is_mutable(node.value):
        return []
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return [name for name in names if name != "__all__" and not re.fullmatch(r"_?[A-Z][A-Z0-9_]*", name)]


def _is_mutable(value: ast.expr) -> bool:
    made_by = {"dict", "list", "set", "bytearray", "defaultdict", "deque", "Counter", "OrderedDict"}
    if isinstance(value, ast.Call):
        return _last_name(value.func) in made_by
    return isinstance(value, ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp | ast.SetComp)


def test_everything_is_caught_at_marked_barriers_only():
    blankets = [(module, line) for module in modules() for line in _blankets(module)]
    unmarked = [
        module.at(line) for module, line in blankets if not BARRIER.search(module.source.splitlines()[line - 1])
    ]
    assert not unmarked, "a blanket except needs '# barrier: reason' on its line:" + report(unmarked)
    assert len(blankets) <= BARRIERS, f"more than {BARRIERS} barriers:" + report(
        [module.at(line) for module, line in blankets]
    )


def _blankets(module: Module) -> Iterator[int]:
    for node in module.nodes:
        if isinstance(node, ast.ExceptHandler):
            caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        elif isinstance(node, ast.Call) and _last_name(node.func) == "suppress":
            caught = node.args
        else:
            continue
        if any(one is None or _last_name(one) in ("Exception", "BaseException") for one in caught):
            yield node.lineno


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def test_modules_are_named_for_what_they_are():
    vague = [module.at(1) for module in modules() if BANNED_WORDS & set(re.split(r"[._]", module.name))]
    assert not vague, "a name that says nothing:" + report(vague)


def test_server_is_a_source_root_and_no_package():
    assert not (ROOT / "server" / "__init__.py").exists()


def test_no_file_names_an_index_host_or_a_path_of_one_machine():
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
        for path in project_files()
        for number, line in enumerate(_text(path).splitlines(), 1)
        if any(banned.search(line) for banned in BANNED_TEXTS)
    ]
    assert not found, report(found)


def project_files() -> list[Path]:
    """Return the files of the repository; in a copy without git, all that are not plainly made by tools."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        check=False,
    )
    if listed.returncode == 0 and (ROOT / ".git").exists():
        candidates = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    else:
        candidates = [
            path
            for path in ROOT.rglob("*")
            if not any(MADE_BY_TOOLS.fullmatch(part) for part in path.relative_to(ROOT).parts)
        ]
    return [path for path in candidates if path.is_file()]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""
