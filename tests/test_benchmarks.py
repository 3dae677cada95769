"""Each benchmark runs by itself and prints what it measured; how much that is, a test cannot say."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow
MEASURED = pytest.mark.full(group="benchmarks")
"""For a test that runs a benchmark, where another one tests that it starts."""

FIRST_WORDS = "What the tool should do; or a regex"
BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
TINY = {
    "small": ["--sizes", "2", "40", "--hosts", "claude-code", "codex"],
    "surface": ["--queries", "8"],
    "startup": ["--repeat", "1"],
    "search": ["--repeat", "1", "--sizes", "30", "--queries", "4"],
    "first_index": ["--repeat", "3", "--healthy", "2", "--slow", "1", "--slow-s", "0.5", "--hanging", "1"],
    "call": ["--repeat", "1", "--calls", "4", "--callers", "2", "--against", str(BENCHMARKS.parent)],
    "authorised_call": ["--repeat", "1", "--calls", "4"],
    "programs": ["--repeat", "1"],
    "program_attacks": ["--first", "2"],
    "program_load": ["--repeat", "5", "--kills", "3"],
    "index_write": ["--repeat", "1", "--size", "30"],
    "ingest": ["--repeat", "1", "--sizes", "1"],
    "stages": ["--repeat", "1", "--size", "30", "--against", str(BENCHMARKS.parent)],
    "against": ["--repeat", "1", "--requests", "4", "--against", str(BENCHMARKS.parent)],
    "ways": ["--repeat", "1", "--against", str(BENCHMARKS.parent)],
    "house": ["--against", str(BENCHMARKS.parent)],
    "commands": ["--repeat", "1"],
    "proxy": ["--repeat", "1"],
    "survivors": ["--repeat", "1"],
    "flood": ["--repeat", "1", "--mib", "64"],
    "bad_servers": ["--repeat", "1", "--calls", "60"],
    "large": ["--repeat", "1", "--sizes", "40", "--queries", "4"],
    "semantic": ["--repeat", "1", "--sizes", "40", "--queries", "4"],
    "python": ["--repeat", "1", "--sizes", "12", "--queries", "4"],
    "soak": ["--minutes", "0.1", "--clients", "2"],
    "skills": ["--repeat", "1"],
    "skill_search": ["--repeat", "1", "--sizes", "5"],
    "skill_budget": ["--repeat", "1"],
    "skill_get": ["--repeat", "1"],
    "skill_parts": ["--against", str(BENCHMARKS.parent)],
}
TARGETS_AT_FULL_SIZE = ("search", "ingest")
ALONE = ("large",)
"""These compare two ways of toolcrib's own, in rows of their own."""
NOTHING_TO_FIND = (
    *("programs", "program_attacks", "program_load", "call", "authorised_call", "first_index", "ways", "house"),
    *("proxy", "survivors", "flood", "bad_servers", "soak", "large"),
)
"""These bring their own tools."""
QUALITY_BENCHMARKS = {
    "retrieval",
    "capabilities",
    "confidence_fit",
    "retrieval_confidence",
    "retrieval_groups",
    "retrieval_halves",
    "retrieval_languages",
    "retrieval_learning",
    "retrieval_plain",
    "retrieval_pools",
}
"""These say how good an answer is."""
PROGRAM_BENCHMARKS = {"hosts", "conformance", "matrix", "program_tasks"}
"""These run programs from npm; tests/hosts, tests/conformance, tests/matrix and tests/e2e run them too."""
COMPARISONS = {"behaviour"}
"""These compare two checkouts, and fail if they differ."""


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    """Write the tool lists of two servers."""
    folder = tmp_path / "catalog"
    folder.mkdir()
    for server in ("issues", "invoices"):
        tools = [
            {
                "name": f"{verb}_{server}",
                "description": f"{verb.capitalize()} {server} of a project. Answers with all of them.",
                "inputSchema": {"type": "object", "properties": {"project": {"type": "string"}}},
            }
            for verb in ("create", "list", "search", "delete", "update", "archive")
        ]
        (folder / f"mcp-server-{server}.json").write_text(json.dumps({"tools": tools}))
    return folder


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Write three skills that are larger than the smallest budget, one of which does not load."""
    folder = tmp_path / "corpus"
    steps = "\n".join(f"{number}. Do this, then look at what came of it." for number in range(40))
    for name, description in (("pdf-forms", "Fills in forms."), ("invoices", "Sends invoices."), ("broken", "")):
        file = folder / name / "SKILL.md"
        file.parent.mkdir(parents=True)
        file.write_text(f"---\nname: {name}\ndescription: {description}\n---\n# {name}\n\n{steps}\n")
    return folder


@pytest.fixture
def facts(corpus: Path, tmp_path: Path) -> Path:
    """Write down what must not be missed of one of these skills."""
    digest = hashlib.sha256((corpus / "pdf-forms" / "SKILL.md").read_bytes()).hexdigest()
    file = tmp_path / "facts.json"
    file.write_text(json.dumps({"skills": [{"digest": digest, "facts": ["Fills in forms.", "0. Do this"]}]}))
    return file


@pytest.fixture
def inputs(catalog: Path, corpus: Path, facts: Path, tmp_path: Path) -> dict[str, list[str]]:
    """Return the options by which each benchmark finds what it measures."""
    queries = tmp_path / "queries.jsonl"
    queries.write_text('{"query": "fill a form", "gold": ["pdf-forms"]}\n{"query": "fly", "gold": []}\n')
    skills = ["--corpus", str(corpus)]
    known = {
        **{key: [] for key in NOTHING_TO_FIND},
        "skills": skills,
        "skill_budget": skills,
        "skill_get": skills,
        "skill_parts": [*skills, "--facts", str(facts)],
        "skill_search": [*skills, "--queries", str(queries)],
    }
    return {name: known.get(name, ["--catalog", str(catalog)]) for name in TINY}


def run(name: str, *options: str) -> Any:
    command = [sys.executable, str(BENCHMARKS / f"{name}.py"), "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


EVERY_BENCHMARK = set(TINY) | QUALITY_BENCHMARKS | PROGRAM_BENCHMARKS | COMPARISONS


def test_each_benchmark_is_known_here():
    scripts = {path.stem for path in BENCHMARKS.glob("*.py") if "def main(" in path.read_text()}
    assert scripts == EVERY_BENCHMARK


def test_every_benchmark_starts_and_says_what_it_measures():
    for name in sorted(EVERY_BENCHMARK):
        command = [sys.executable, str(BENCHMARKS / f"{name}.py"), "--help"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.split()) > 10


@pytest.fixture
def labelled_tools(tmp_path: Path) -> Path:
    """Write three tools of two servers, with queries whose answers are known."""
    texts = {"pay_bill": "Pays a bill.", "list_bills": "Lists bills that are due.", "book_room": "Reserves a room."}
    tools = [
        {"id": f"t.{name}", "name": name, "description": text, "schema": None, "tags": [], "server": name[:4]}
        for name, text in texts.items()
    ]
    queries = [
        {"text": "book a room for tomorrow", "gold": {"t.book_room": 1.0}},
        {"text": "which bills are due", "gold": {"t.list_bills": 2.0, "t.pay_bill": 1.0}},
    ]
    file = tmp_path / "tiny.json"
    file.write_text(json.dumps({"name": "tiny", "tools": tools, "queries": queries}))
    return file


@pytest.fixture
def labelled_skills(tmp_path: Path) -> Path:
    """Write a skill, with a query that it answers and one that nothing does."""
    folder = tmp_path / "tiny-skills"
    skill = folder / "corpus" / "fill-form" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: fill-form\ndescription: Fills in forms.\n---\nOpen it.\n")
    lines = [{"query": "fill in a form", "gold": ["fill-form"]}, {"query": "paint the wall", "gold": []}]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder


@pytest.fixture
def recorded_servers(tmp_path: Path) -> Path:
    """Write the tool lists of two servers that have a tool of the same name."""
    folder = tmp_path / "recorded"
    folder.mkdir()
    for stem, text in (("mcp-server-disk", "Reads a file."), ("mcp-server-shop", "Waters a plant.")):
        names = ("run", f"{stem[-4:]}_it")
        tools = [{"name": name, "description": text, "inputSchema": {"type": "object"}} for name in names]
        (folder / f"{stem}.json").write_text(json.dumps({"tools": tools}), encoding="utf-8")
    return folder


@MEASURED
def test_plain_requests_are_counted_by_any_right_tool_also_of_another_checkout(recorded_servers: Path, tmp_path: Path):
    requests = tmp_path / "requests.json"
    asked = [
        {"text": "waters a plant", "right": ["mcp-server-shop.run", "mcp-server-shop.shop_it"]},
        {"text": "waters the plant", "right": ["mcp-server-disk.run"]},
    ]
    requests.write_text(json.dumps(asked), encoding="utf-8")
    options = ["--requests", str(requests), "--catalog", str(recorded_servers), "--against", str(BENCHMARKS.parent)]
    ours, theirs, *others = run("retrieval_plain", *options)
    assert (ours["requests"], ours["first"], ours["in five"]) == (2, 1, 1)
    assert {**theirs, "system": "toolcrib"} == ours
    assert "FTS5, OR" in {each["system"] for each in others}


@MEASURED
def test_plain_requests_without_recorded_servers_measure_nothing(tmp_path: Path):
    assert run("retrieval_plain", "--catalog", str(tmp_path / "absent")) == []


@MEASURED
def test_retrieval_is_measured_beside_baselines_on_the_same_queries(labelled_tools: Path, labelled_skills: Path):
    printed = run("retrieval", "--misspell", "1", str(labelled_tools), str(labelled_skills))
    assert printed["notes"] == [], "no tool is refused"
    by_set: dict[str, dict] = {}
    for one in printed["metrics"]:
        by_set.setdefault(one["dataset"], {})[one["system"]] = one
    assert set(by_set) == {"tiny", "tiny, misspelt", "tiny-skills", "tiny-skills, misspelt"}
    assert all({"toolcrib", "FTS5, OR", "FTS5, AND", "regex"} <= set(systems) for systems in by_set.values())
    assert by_set["tiny"]["toolcrib"]["count"] == 2
    assert by_set["tiny"]["toolcrib"]["figures"]["R@3"] == 1
    assert by_set["tiny"]["FTS5, AND"]["empty"] == 1
    assert by_set["tiny-skills"]["toolcrib"]["figures"] == dict.fromkeys(
        ("R@1", "R@3", "R@5", "R@8", "R@10", "nDCG@10", "MRR"), 1
    )
    assert {one["verdict"] for one in printed["comparisons"]} <= {"ahead", "level", "behind"}
    assert printed["confidence"]["tiny"][0]["point"] == "labels"


@MEASURED
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("retrieval_halves", []),
        ("retrieval_confidence", []),
        ("confidence_fit", []),
        ("retrieval_learning", []),
        ("retrieval_pools", ["--foreign", "20"]),
    ],
)
def test_what_a_change_of_the_ranking_gives_is_measured(name: str, options: list[str], labelled_tools: Path):
    assert run(name, *options, str(labelled_tools))


@MEASURED
def test_names_in_every_spelling_and_catalogs_of_any_size_are_measured(catalog: Path):
    printed = run("retrieval", "--names", "--catalog", str(catalog), "--limit", "4", "--scale", "6", "30")
    assert printed["metrics"] == []
    assert printed["names"]["asked"] == printed["names"]["found"] + len(printed["names"]["missed"]) > 100
    assert [one["tools"] for one in printed["scale"]] == [6, 30]
    assert all(one["p50_ms"] > 0 for one in printed["scale"])


@MEASURED
@pytest.mark.parametrize("name", TINY)
def test_a_benchmark_prints_toolcribs_figures(name: str, inputs: dict[str, list[str]]):
    findings = run(name, *TINY[name], *inputs[name])["findings"]
    assert any(one["toolcrib"] > 0 for one in findings)
    assert all(one["toolcrib"] >= 0 for one in findings)
    assert any(one["baseline"] for one in findings) or name in ALONE
    assert any(one["target"] for one in findings) or name in TARGETS_AT_FULL_SIZE


@MEASURED
def test_a_call_is_measured_over_http_too():
    findings = run("call", *TINY["call"], "--transport", "http")["findings"]
    assert {one["what"] for one in findings} >= {"own name, p50", "tool_call, HTTP twice, p95"}
    assert all(one["toolcrib"] > 0 for one in findings)


@pytest.fixture(scope="module")
def ways() -> dict[str, dict]:
    """Return how long the ways of requests are, each figure with its target."""
    return {one["what"]: one for one in run("ways", "--repeat", "10")["findings"]}


@pytest.mark.parametrize(
    "figure",
    [
        "tools/list, modules",
        "tools/call, modules",
        "tools/call, names",
        "tool_search, modules",
        "skill_search, modules",
        "skill_get, modules",
    ],
)
def test_the_way_of_a_request_is_no_longer_than_its_target(ways: dict[str, dict], figure: str):
    assert ways[figure]["holds"], (
        f"{ways[figure]['toolcrib']:g}; benchmarks/ways.py --show REQUEST lists what it passes"
    )


@MEASURED
def test_skills_that_do_not_load_are_told_with_the_reason(corpus: Path):
    printed = run("skills", *TINY["skills"], "--corpus", str(corpus))
    assert printed["findings"][0]["toolcrib"] == pytest.approx(1 / 3)
    assert printed["notes"][:2] == ["3 files", "1 left out: description-missing"]
    assert "wrote nothing" in " ".join(printed["notes"])


@MEASURED
def test_tools_are_made_up_where_there_are_no_captured_ones(tmp_path: Path):
    printed = run("search", *TINY["search"], "--catalog", str(tmp_path / "nowhere"))
    assert "made-up tools" in printed["notes"][0]


@MEASURED
def test_the_surface_is_measured_on_captured_tools_only(tmp_path: Path):
    printed = run("surface", "--catalog", str(tmp_path / "nowhere"))
    assert printed["findings"] == []
    assert "skipped" in printed["notes"][0]


@MEASURED
@pytest.mark.parametrize("is_changed", [False, True], ids=["the same", "another word"])
def test_checkouts_are_compared_by_what_they_say(is_changed: bool, labelled_tools: Path, tmp_path: Path):
    other = tmp_path / "other"
    for name in ("server", "packs"):
        shutil.copytree(BENCHMARKS.parent / name, other / name, ignore=shutil.ignore_patterns("__pycache__"))
    if is_changed:
        [file] = (path for path in other.rglob("*.py") if FIRST_WORDS in path.read_text())
        file.write_text(file.read_text().replace(FIRST_WORDS, FIRST_WORDS.upper()))
    nowhere, sets = str(tmp_path / "nowhere"), str(labelled_tools.parent)
    inputs = ["--catalog", nowhere, "--skills", nowhere, "--requests", sets]
    command = [sys.executable, str(BENCHMARKS / "behaviour.py"), "--json", "--against", str(other), *inputs]
    command += ["--only", "search,http"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    found = {one["what"]: one for one in json.loads(done.stdout)["aspects"]}
    assert found["search"]["compared"] > 2, done.stderr
    assert found["search"]["differing"] == 0
    assert (found["http"]["differing"] > 0) == is_changed
    assert done.returncode == int(is_changed)
