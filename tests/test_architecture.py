"""The rules of the house that a program can check: layers, fronts, doors, state, names."""

import ast
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "server" / "toolcrib"
MAP = ROOT / "docs" / "architecture.md"
WORKS = ROOT / "docs" / "how-it-works.md"

LAYERS = (
    *("cli", "library", "server", "gateway", "programs", "skills", "catalog", "downstream", "policy", "auth"),
    *("clients", "config", "events", "search", "storage", "jsonrpc", "base"),
)
"""The packages, from the top down: each may import those after it."""

SDK_ADAPTERS = ("jsonrpc.sdk", "jsonrpc.sdk_oauth", "jsonrpc.sdk_http")
"""What may touch what the SDK keeps private or calls provisional."""

DOORS = {
    "sqlite3": (
        "storage",
        "policy.state",
        "catalog.index",
        "catalog.failures",
        "catalog.offers",
        "skills.index",
        "server",
    ),
    **dict.fromkeys(
        ("mcp.client", "mcp.ClientSession", "mcp.ClientSessionGroup", "mcp.stdio_client"),
        ("downstream", "auth", "jsonrpc.sdk", "cli.demo"),
    ),
    "mcp.Client": ("downstream", "auth", "jsonrpc.sdk", "cli.demo", "library.crib"),
    "mcp.client.auth": ("auth",),
    "webbrowser": ("cli.login",),
    **dict.fromkeys(("mcp.server", "mcp.ServerSession", "mcp.stdio_server"), ("server", *SDK_ADAPTERS)),
    **dict.fromkeys(
        (
            "mcp.client.session",
            "mcp.client.subscriptions",
            *(
                f"mcp.server.{part}"
                for part in ("connection", "context", "lowlevel", "runner", "session", "subscriptions")
            ),
        ),
        SDK_ADAPTERS,
    ),
    "mcp.shared": SDK_ADAPTERS,
    "yaml": ("base.yaml",),
    "pydantic_monty": ("programs.runner",),
    "re2": ("base.patterns",),
    "keyring": ("auth.keyring",),
    "numpy": ("search.semantic", "search.static_model"),
    **dict.fromkeys(("tokenizers", "huggingface_hub", "wordllama"), ("search.static_model",)),
    "importlib.import_module": ("search.semantic", "search.static_model", "cli.app", ""),  # "": toolcrib itself
    "asyncio": ("jsonrpc.dispatcher", "jsonrpc.pipes", "jsonrpc.sdk_http"),
    "print": ("cli",),
    **dict.fromkeys(
        ("os.environ", "os.environb", "os.getenv", "os.putenv", "os.path.expandvars"), ("cli", "library.crib")
    ),
    **dict.fromkeys(
        (
            *("subprocess", "multiprocessing", "pty", "anyio.open_process", "anyio.run_process", "anyio.to_process"),
            *("os.fork", "os.forkpty", "os.popen", "os.posix_spawn", "os.posix_spawnp", "os.startfile", "os.system"),
            *(f"os.{verb}{how}" for verb in ("exec", "spawn") for how in "l le lp lpe v ve vp vpe".split()),
        ),
        (
            *("downstream.process", "downstream.transport", "programs.workers"),
            *("cli.demo", "cli.enriching", "cli.extras", "clients.connecting"),
        ),
    ),
}
"""Dangerous things, and the packages or modules that alone may use them."""

PRIVATE_ACCESS = re.compile(r"SLF001|reportPrivateUsage")
"""What allows a line to reach for an attribute that another object keeps to itself."""

REGEX_FUNCTIONS = tuple(
    f"re.{name}" for name in ("compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer")
)
MADE_REGEXES = {
    "base.text": "globs of the config, translated by fnmatch; ranges of characters that two patterns share",
    "base.redaction": "secrets, escaped",
}
"""The modules that may hand ``re`` a pattern that is not a literal, and what they make it of."""

BARRIERS = 14
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


@cache
def imports() -> tuple[tuple[Module, str, int], ...]:
    """Return each import of a module of ours by another: who imports, what, in which line."""
    names = {module.name for module in modules() if module.name}

    def target(dotted: str) -> str | None:
        inner = dotted.removeprefix("toolcrib.")
        while inner and inner not in names:
            inner = inner.rpartition(".")[0]
        return inner if dotted.startswith("toolcrib.") else None

    found = (
        (module, target(f"{node.module}.{alias.name}"), node.lineno)
        for module in modules()
        for node in module.nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    )
    return tuple((module, name, line) for module, name, line in found if name and name != module.name)


def report(offenders: list[str]) -> str:
    return "\n" + "\n".join(sorted(set(offenders)))


def test_every_package_has_a_layer_and_imports_point_down():
    assert {module.package for module in modules() if "." in module.name} == set(LAYERS)
    level = {package: number for number, package in enumerate(LAYERS)}
    upwards = [
        f"{module.at(line)}: {module.package} imports {name}, which lies above it"
        for module, name, line in imports()
        if module.package in level and level[name.partition(".")[0]] < level[module.package]
    ]
    assert not upwards, report(upwards)


def test_no_module_imports_itself_in_a_circle():
    lazy = {(module, node.lineno) for module in modules() for node in _inside_functions(module)}
    graph: dict[str, set[str]] = {}
    for module, name, line in imports():
        if (module, line) not in lazy:
            graph.setdefault(module.name, set()).add(name)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(f"a circle: {' -> '.join(error.args[1])}") from None


def _inside_functions(module: Module) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in module.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.If):
            yield from (inner for inner in ast.walk(node) if isinstance(inner, ast.Import | ast.ImportFrom))


def test_other_packages_import_only_what_a_package_shows_them():
    fronts = {module.name: _listed(module) for module in modules() if module.is_package and module.name in LAYERS}
    behind = [
        f"{module.at(line)}: {name} is not in PUBLIC of {package}"
        for module, name, line in imports()
        for package, _, inner in [name.partition(".")]
        if module.package != package and inner and inner not in fronts[package]
    ]
    assert not behind, report(behind)
    unused = [
        f"{package}: {inner}"
        for package, shown in fronts.items()
        for inner in shown
        if not any(name == f"{package}.{inner}" and module.package != package for module, name, _ in imports())
    ]
    assert not unused, "in PUBLIC, but no other package imports it:" + report(unused)


def _listed(package: Module) -> tuple[str, ...]:
    """Return what a package says that others may import of it."""
    values = (
        node.value
        for node in package.tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "PUBLIC"
    )
    return next((ast.literal_eval(value) for value in values), ())


def test_the_map_in_the_docs_names_every_package_and_only_files_that_are_there():
    text = MAP.read_text(encoding="utf-8")
    rooms = re.findall(r"^\| `(\w+)/` \|", text, re.MULTILINE)
    assert tuple(rooms) == LAYERS
    named = [name for page in (MAP, WORKS) for name in re.findall(r"`([\w/]+\.py)`", page.read_text(encoding="utf-8"))]
    missing = [name for name in named if not (PACKAGE / name).exists() and not (ROOT / name).exists()]
    assert named
    assert not missing, report(missing)


def test_each_dangerous_thing_has_one_door():
    breaches = [
        f"{module.at(line)}: {dotted} belongs to {', '.join(places) or 'nobody'}"
        for module in modules()
        for dotted, line in uses(module)
        for door, places in DOORS.items()
        if (dotted == door or dotted.startswith(f"{door}.")) and not module.is_one_of(places)
    ]
    assert not breaches, report(breaches)


def test_what_the_sdk_keeps_private_is_touched_in_its_adapters_only():
    private = [
        f"{module.at(line)}: {dotted}"
        for module in modules()
        for dotted, line in uses(module)
        if module.name not in SDK_ADAPTERS and re.match(r"mcp\.(\w+\.)*_", dotted)
    ]
    excused = [
        f"{module.at(number)}: {line.strip()}"
        for module in modules()
        for number, line in enumerate(module.source.splitlines(), 1)
        if PRIVATE_ACCESS.search(line)
    ]
    assert not private + excused, f"belongs to {SDK_ADAPTERS}:" + report(private + excused)


def test_regular_expressions_are_literals_but_for_a_few_modules():
    made = [
        module.at(call.lineno)
        for module in modules()
        if module.name not in MADE_REGEXES
        for bound in [bindings(module)]
        for call in module.nodes
        if isinstance(call, ast.Call) and call.args and _dotted(call.func, bound) in REGEX_FUNCTIONS
        if not isinstance(call.args[0], ast.Constant)
    ]
    assert not made, "patterns of re must be literals here:" + report(made)


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
