"""The house rules that a program can check: layers, doors, budgets, names. The tables come first; extend them there."""

import ast
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import quantiles

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "server" / "toolcrib"
MAP = ROOT / "docs" / "architecture.md"

LAYERS = {
    "": """
        toolcrib errors model redaction streams
        base store
        formats search events
        config
        access early login
        downstream
        tools
        offers skills
        known running
        status
        wire
        app
        serving
        cli __main__
    """,
    "access": """
        active_skills confirm_rules hosts policy skill_rules trails
        activations state
        sessions
        skill_scopes
    """,
    "access.state": """
        approvals earlier kept_sessions skill_decisions skill_outcomes tables vocabularies
        opening
    """,
    "base": """
        clocks json_values names paging patterns recent remembered text
        addresses spellings
    """,
    "config": """
        bridges client_rules findings nesting paths private_values values
        auth_schema child_environment client_shapes documents http_schema policy_schema references skills_schema
        tool_search_schema
        expansion
        schema
        scoping
        fingerprints settings without_effect
        programs reloading servers
        editing
        clients loading
        advice inspection server_edits
    """,
    "config.clients": """
        descriptions
        denials variables
        entries secrets
        reading
        bridged drafting
        connecting taking
        records
    """,
    "config.editing": """
        files refused
        json_text toml_text yaml_text
        changes
    """,
    "downstream": """
        askers backoff circuit descendants http last_words launchers offered patience start_queue states tap
        parking process progress relays rounds scopes
        announcements failures parked_work transport
        connection
        live_list live_offers
        calls surroundings
        subscriptions
        lifecycle
        fleet
    """,
    "events": """
        batches kinds recorded telling
        log
        server_logs
    """,
    "formats": """
        markdown objects
        yaml
        yaml_nodes
    """,
    "login": """
        addresses kept_file keyring records
        challenges keeping secret_store
        forgetting store
        fetching providers
        driving
        answers renewing revocation telling
        bearers listener
        flow
        logins
    """,
    "offers": """
        records
        catalog index ingest
        indexing search wording
        gate
        use_cases
    """,
    "redaction": """
        forms
        learned
        rules
        documents secrets
    """,
    "running": """
        folder pulse records
        reporting
    """,
    "search": """
        actions dictionary encoding lexicon number_sets pattern_search query static_model stemming synonyms
        postings vocabulary
        inverted meaning
        bm25
        relevance translations
        lifting matches statistics
        documents
        stored
        semantic
        engine
    """,
    "store": """
        faults files soundness upsert values
        opening
        store
        full_text stem_tables vectors
        stems
    """,
    "streams": """
        half_characters json_steps pipes sdk sdk_oauth sdk_sessions values
        incoming messages pace
        outgoing
        dispatcher
    """,
    "tools": """
        calling confirming evaluation index kept_pages missing_servers places results
        definitions long_results mentions
        wording
        answers bindings learning search
        arguments asked_logins config_names confirmed_calls failures finding gate indexing lint subjects
        reports search_notes skill_tools
        use_cases
    """,
    "tools.arguments": """
        bounded_validator
        schema_check
        checks
    """,
    "tools.definitions": """
        examples listable parameters texts
        listed signature
        ingest
    """,
    "tools.index": """
        named rows
        catalog changes failures tables
        tool_index
    """,
    "skills": """
        directory identity index
        formats hooks own_files standing tool_calls wording
        search
        preflight requests sources
        answers catalog checking text
        parts publishing reports told_tools
        binding
        confirming loading
        use_cases
        activation outcomes overviews resources
        doctor
    """,
    "skills.formats": """
        fields frontmatter
        stated
        agent_skill
        pack pack_markdown
    """,
    "skills.index": """
        rows tables visible
        changes
        skill_index
    """,
    "skills.sources": """
        files roots
        walking
        reading
        scanning
    """,
    "skills.text": """
        cleaning pieces signals
        procedure selection
        compression
        rendering
        briefs sharing
    """,
    "wire": """
        builtin envelopes http_connections pending presence replay sessions stdio
        asking http_limits
        carrying
        instructions listing methods updates
        changes
        greeting
        server
        gateway
        http
    """,
    "wire.builtin": """
        handles schemas tool
        read_more skill_activate skill_get skill_list skill_report_outcome skill_search tool_search
        tool_call
        registry
    """,
    "wire.methods": """
        prompts resources servers skills_extension
        skills
        registry
    """,
    "cli": """
        client_command demo footprint log_rate options output reloads terminal waiting
        config in_process running serve
        completion
        importing vocabulary
        allow connecting doctor evaluation events index lint secret servers skills tokens tools
        login
        uninstall
        app
    """,
}
"""By package (``""`` is ``toolcrib`` itself), its modules and packages in layers, lowest first.

A module imports what stands in its own layer or below, and nothing in a circle. A package without a row has modules
that know nothing of each other. ``toolcrib`` in the top row stands for its own ``__init__``.
"""

SDK_ADAPTERS = ("streams.sdk", "streams.sdk_oauth", "streams.sdk_sessions")
"""What may touch what the SDK keeps private or calls provisional."""

DOORS = {
    "sqlite3": ("store", "access.state", "tools.index", "skills.index", "offers.index", "early", "wire.greeting"),
    **dict.fromkeys(
        ("mcp.client", "mcp.Client", "mcp.ClientSession", "mcp.ClientSessionGroup", "mcp.stdio_client"),
        ("downstream", "login", "streams.sdk", "cli.demo"),
    ),
    "mcp.client.auth": ("login",),
    "webbrowser": ("cli.login",),
    **dict.fromkeys(("mcp.server", "mcp.ServerSession", "mcp.stdio_server"), ("wire", *SDK_ADAPTERS)),
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
    "toolcrib.wire": ("wire", "serving", "cli.serve"),
    "yaml": ("formats.yaml", "formats.yaml_nodes"),
    "re2": ("base.patterns",),
    "keyring": ("login.keyring",),
    **dict.fromkeys(
        ("numpy", "model2vec", "tokenizers", "huggingface_hub"),
        ("search.encoding", "search.semantic", "search.static_model"),
    ),
    "importlib.import_module": ("search.encoding", "search.semantic", "search.static_model", "cli.app"),
    "asyncio": ("streams.dispatcher", "streams.outgoing", "streams.pipes"),
    "print": ("cli",),
    **dict.fromkeys(("os.environ", "os.environb", "os.getenv", "os.putenv", "os.path.expandvars"), ("cli",)),
    **dict.fromkeys(
        (
            "subprocess",
            "multiprocessing",
            "pty",
            "anyio.open_process",
            "anyio.run_process",
            "anyio.to_process",
            "os.fork",
            "os.forkpty",
            "os.popen",
            "os.posix_spawn",
            "os.posix_spawnp",
            "os.startfile",
            "os.system",
            *(
                f"os.{verb}{how}"
                for verb in ("exec", "spawn")
                for how in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")
            ),
        ),
        ("downstream", "cli.demo", "cli.client_command"),
    ),
}
"""What only some units or modules may use."""

PRIVATE_ACCESS = re.compile(r"SLF001|reportPrivateUsage")
"""What allows a line to reach for an attribute that another object keeps to itself."""

REGEX_FUNCTIONS = tuple(
    f"re.{name}" for name in ("compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer")
)
MADE_REGEXES = {
    "base.text": "globs of the config, translated by fnmatch; ranges of characters that two patterns share",
    "redaction.learned": "secrets, escaped",
    "redaction.rules": "secrets, escaped",
}
"""The modules that may hand ``re`` a pattern that is not a literal, and what they make it of."""

TOP_FILES = 8
FILE_LINES = 400
FUNCTION_LINES = 60
FUNCTION_LINES_P95 = 40
PARAMETERS = 5
MORE_PARAMETERS: dict[str, str] = {
    "cli.tools:search": "one for each option of the command",
    "cli.skills:search": "one for each option of the command",
    "cli.events:events": "one for each option of the command",
    "cli.servers:add": "one for each option of the command",
    "cli.connecting:connect": "one for each option of the command",
    "cli.skills:relevant": "one for each option of the command",
    "cli.login:login": "one for each option of the command",
    "cli.vocabulary:vocabulary": "one for each option of the command",
    "cli.importing:init": "one for each option of the command",
    "cli.importing:import_file": "one for each option of the command",
}
"""Functions that may have more, as ``module:function``, each with its reason."""
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
MADE_BY_TOOLS = re.compile(r"\.(?!ci\b).*|node_modules|__pycache__|build|dist|.*\.egg-info")
"""Folders and files to leave out where git is not there to ask."""


@dataclass(frozen=True, eq=False)
class Module:
    """One parsed source file, that there is once. ``name`` is its dotted path below ``toolcrib``."""

    path: Path
    name: str
    source: str
    tree: ast.Module
    nodes: tuple[ast.AST, ...]

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

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
            yield from ((f"{_origin(module, node)}.{alias.name}", node.lineno) for alias in node.names)
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
                bound[alias.asname or alias.name] = f"{_origin(module, node)}.{alias.name}"
    return bound


def _origin(module: Module, node: ast.ImportFrom) -> str:
    """Return the absolute name of what ``from … import`` imports from."""
    if not node.level:
        return node.module or ""
    parts = ["toolcrib", *filter(None, module.name.split("."))]
    base = parts[: len(parts) - node.level + module.is_package]
    return ".".join([*base, *filter(None, [node.module])])


def _dotted(node: ast.expr, bound: dict[str, str]) -> str | None:
    if isinstance(node, ast.Name):
        return bound.get(node.id)
    if isinstance(node, ast.Attribute) and (owner := _dotted(node.value, bound)):
        return f"{owner}.{node.attr}"
    return None


def functions(module: Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in module.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def packages() -> list[str]:
    """Return the dotted names of all packages below ``toolcrib``, and ``""`` for itself."""
    return sorted(module.name for module in modules() if module.is_package)


@cache
def graph_of(package: str) -> dict[str, dict[str, str]]:
    """Return what each module or package directly in ``package`` imports of its siblings, with one place for each."""
    graph: dict[str, dict[str, str]] = {}
    for module in modules():
        unit = _unit_in(package, module.name)
        if unit is None:
            continue
        used = graph.setdefault(unit, {})
        for dotted, line in uses(module):
            root, _, inner = dotted.partition(".")
            other = _unit_in(package, inner) if root == "toolcrib" else None
            if other is not None and other != unit:
                used.setdefault(other, module.at(line))
    return {unit: {name: at for name, at in used.items() if name in graph} for unit, used in graph.items()}


def _unit_in(package: str, name: str) -> str | None:
    """Return the first part of ``name`` below ``package``; None where it does not lie below."""
    start = f"{package}." if package else ""
    if name == package:
        return "toolcrib" if not package else None
    return name.removeprefix(start).partition(".")[0] if name.startswith(start) else None


def levels_of(package: str) -> dict[str, int]:
    """Return the layer of each unit of ``package`` as the table has it, 0 for all where it has no row."""
    rows = LAYERS.get(package, "").strip().splitlines()
    return {unit: level for level, row in enumerate(rows) for unit in row.split()}


def report(offenders: list[str]) -> str:
    return "\n" + "\n".join(sorted(set(offenders)))


def test_the_table_of_layers_names_every_module_and_nothing_else():
    wrong = [
        f"{package or 'toolcrib'}: {unit}"
        for package in packages()
        if package in LAYERS
        for unit in graph_of(package).keys() ^ levels_of(package).keys()
    ]
    assert not wrong, "not in LAYERS, or only there:" + report(wrong)
    assert LAYERS.keys() <= set(packages())


def test_imports_point_down():
    upwards = [
        f"{at}: {unit} imports {other}, which lies higher in {package or 'toolcrib'}"
        for package in packages()
        for levels in [levels_of(package)]
        for unit, used in graph_of(package).items()
        for other, at in used.items()
        if package not in LAYERS or levels.get(other, 0) > levels.get(unit, len(levels))
    ]
    assert not upwards, report(upwards)


@pytest.mark.parametrize("package", LAYERS, ids=lambda name: name or "toolcrib")
def test_no_unit_imports_itself_in_a_circle(package: str):
    graph = {unit: set(used) - {"toolcrib"} for unit, used in graph_of(package).items()}
    while leaves := {unit for unit, below in graph.items() if not below & graph.keys()}:
        graph = {unit: below for unit, below in graph.items() if unit not in leaves}
    assert not graph, f"in a circle or above one: {sorted(graph)}"


def test_few_files_lie_loose_at_the_top():
    loose = [path.name for path in PACKAGE.glob("*.py")]
    assert len(loose) <= TOP_FILES, f"more than {TOP_FILES} files:" + report(loose)


def test_the_map_in_the_docs_is_the_tree():
    rows = re.findall(r"^\| `(\S+)` \| ((?:`\w+` ?)+)\|", MAP.read_text(encoding="utf-8"), re.MULTILINE)
    mapped = {room.strip("./").replace("/", "."): set(re.findall(r"\w+", names)) for room, names in rows}
    tree = {package: set[str]() for package in packages()}
    for module in modules():
        if not module.is_package:
            package, _, name = module.name.rpartition(".")
            tree[package].add(name)
    assert mapped == {package: names for package, names in tree.items() if names}


def test_every_file_that_the_map_speaks_of_is_there():
    named = re.findall(r"`([\w/]+\.py)`", MAP.read_text(encoding="utf-8"))
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


def test_files_are_short():
    long = [
        f"{module.at(1)}: {lines} lines"
        for module in modules()
        if (lines := len(module.source.splitlines())) > FILE_LINES
    ]
    assert not long, f"more than {FILE_LINES} lines:" + report(long)


def test_functions_are_short():
    sizes = {
        f"{module.at(function.lineno)} {function.name}": (function.end_lineno or 0) - function.lineno + 1
        for module in modules()
        for function in functions(module)
    }
    p95 = round(quantiles(sizes.values(), n=20)[-1])
    long = [f"{where}: {lines} lines" for where, lines in sizes.items() if lines > FUNCTION_LINES]
    assert not long, f"more than {FUNCTION_LINES} lines (p95 is {p95}):" + report(long)
    longest = sorted(sizes, key=lambda where: -sizes[where])[:10]
    assert p95 <= FUNCTION_LINES_P95, f"p95 is {p95} lines, more than {FUNCTION_LINES_P95}; the longest:" + report(
        longest
    )


def test_functions_take_few_parameters():
    many = [
        f"{module.at(function.lineno)} {function.name}: {count} parameters"
        for module in modules()
        for function in functions(module)
        if (count := _parameters(function)) > PARAMETERS and f"{module.name}:{function.name}" not in MORE_PARAMETERS
    ]
    assert not many, f"more than {PARAMETERS} parameters:" + report(many)


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    return len([one for one in every if one.arg not in ("self", "cls")])


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


def test_each_module_says_what_it_knows_and_never_knows():
    silent = [
        module.at(1)
        for module in modules()
        if not module.is_package and "never knows" not in " ".join((ast.get_docstring(module.tree) or "").split())
    ]
    assert not silent, "the docstring lacks 'never knows':" + report(silent)


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
