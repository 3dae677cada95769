"""Each benchmark runs by itself and prints what it measured; how much that is, a test cannot say."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
TINY = {
    "surface": ["--queries", "8"],
    "startup": ["--repeat", "1"],
    "search": ["--repeat", "1", "--sizes", "30", "--queries", "4"],
    "call": ["--repeat", "1", "--calls", "4", "--callers", "2"],
    "ingest": ["--repeat", "1", "--sizes", "1"],
    "skills": ["--repeat", "1"],
    "skill_search": ["--repeat", "1", "--sizes", "5"],
    "skill_budget": ["--repeat", "1"],
}
TARGETS_AT_FULL_SIZE = ("search", "ingest")


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
def inputs(catalog: Path, corpus: Path, tmp_path: Path) -> dict[str, list[str]]:
    """Return the options by which each benchmark finds what it measures."""
    queries = tmp_path / "queries.jsonl"
    queries.write_text('{"query": "fill a form", "gold": ["pdf-forms"]}\n{"query": "fly", "gold": []}\n')
    skills = ["--corpus", str(corpus)]
    known = {"call": [], "skills": skills, "skill_budget": skills, "skill_search": [*skills, "--queries", str(queries)]}
    return {name: known.get(name, ["--catalog", str(catalog)]) for name in TINY}


def run(name: str, *options: str) -> dict:
    command = [sys.executable, str(BENCHMARKS / f"{name}.py"), "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_each_benchmark_is_known_here():
    scripts = {path.stem for path in BENCHMARKS.glob("*.py") if "def main(" in path.read_text()}
    assert scripts == set(TINY)


@pytest.mark.parametrize("name", TINY)
def test_a_benchmark_prints_toolcribs_figures(name: str, inputs: dict[str, list[str]]):
    findings = run(name, *TINY[name], *inputs[name])["findings"]
    assert any(one["toolcrib"] > 0 for one in findings)
    assert all(one["toolcrib"] >= 0 for one in findings)
    assert any(one["baseline"] for one in findings)
    assert any(one["target"] for one in findings) or name in TARGETS_AT_FULL_SIZE


def test_skills_that_do_not_load_are_told_with_the_reason(corpus: Path):
    printed = run("skills", *TINY["skills"], "--corpus", str(corpus))
    assert printed["findings"][0]["toolcrib"] == pytest.approx(1 / 3)
    assert printed["notes"][:2] == ["3 files", "1 left out: description-missing"]
    assert "wrote nothing" in " ".join(printed["notes"])


def test_tools_are_made_up_where_there_are_no_captured_ones(tmp_path: Path):
    printed = run("search", *TINY["search"], "--catalog", str(tmp_path / "nowhere"))
    assert "made-up tools" in printed["notes"][0]


def test_the_surface_is_measured_on_captured_tools_only(tmp_path: Path):
    printed = run("surface", "--catalog", str(tmp_path / "nowhere"))
    assert printed["findings"] == []
    assert "skipped" in printed["notes"][0]
