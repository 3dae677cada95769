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
}


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


def run(name: str, *options: str) -> dict:
    command = [sys.executable, str(BENCHMARKS / f"{name}.py"), "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_each_benchmark_is_known_here():
    scripts = {path.stem for path in BENCHMARKS.glob("*.py") if "def main(" in path.read_text()}
    assert scripts == set(TINY)


@pytest.mark.parametrize("name", TINY)
def test_a_benchmark_prints_toolcribs_figures(name: str, catalog: Path):
    given = TINY[name] if name == "call" else [*TINY[name], "--catalog", str(catalog)]
    findings = run(name, *given)["findings"]
    assert findings
    assert all(one["toolcrib"] > 0 for one in findings)
    assert any(one["baseline"] for one in findings)
    assert any(one["target"] for one in findings) or name in ("search", "ingest"), "those are of full sizes"


def test_tools_are_made_up_where_there_are_no_captured_ones(tmp_path: Path):
    printed = run("search", *TINY["search"], "--catalog", str(tmp_path / "nowhere"))
    assert "made-up tools" in printed["notes"][0]


def test_the_surface_is_measured_on_captured_tools_only(tmp_path: Path):
    printed = run("surface", "--catalog", str(tmp_path / "nowhere"))
    assert printed["findings"] == []
    assert "skipped" in printed["notes"][0]
