"""toolcrib eval: a person's own queries on their own tools, the figures, and the exit codes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fakes.menu import FakeServer, tool
from toolcrib.cli import main

Run = Callable[..., tuple[int, str, str]]

TOOLS = [
    tool("feed_lion", "Gives meat to the lion in the morning."),
    tool("weigh_lion", "Puts the lion on the scales."),
    tool("open_gate", "Opens the gate for visitors."),
]
FEED = {"query": "give the lion meat", "tools": ["zoo__feed_lion"]}
WRONG = {"query": "open the gate", "tools": ["weigh_lion"]}
NOTHING = {"query": "book a flight to Lisbon", "tools": []}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TOOLCRIB_PARENT", raising=False)
    config = tmp_path / "crib.json"
    entry = FakeServer(tmp_path, "zoo", tools=TOOLS).entry()
    config.write_text(json.dumps({"mcpServers": {"zoo": entry}, "toolcrib": {"cache_dir": "cache"}}))

    def run(*lines: Any, options: tuple[str, ...] = (), is_listed: bool = True) -> tuple[int, str, str]:
        if is_listed:
            assert main(["index", "refresh", "--config", str(config)]) == 0
        text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
        (tmp_path / "queries.jsonl").write_text(text)
        capsys.readouterr()
        code = main(["eval", "queries.jsonl", *options, "--config", str(config)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_people_see_what_was_not_found_first_and_how_many_were(run: Run):
    code, out, err = run(FEED, "", WRONG, NOTHING)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["LINE", "PLACE", "QUERY", "FIRST", "HIT", "INSTEAD"]
    assert lines[1].split() == ["3", "none", "open", "the", "gate", "zoo__open_gate"]
    assert lines[3].startswith("2 queries: recall 0.500 at 1, 0.500 at 3, 0.500 at 5, 0.500 at 10; nDCG 0.500 at 10")
    assert "1 query that no tool serves" in out


def test_programs_get_every_case_with_what_was_found(run: Run):
    code, out, _err = run(FEED, NOTHING, options=("--json",))
    report = json.loads(out)
    assert code == 0
    assert report["recall"] == {"1": 1.0, "3": 1.0, "5": 1.0, "10": 1.0}
    assert (report["ndcg"], report["queries"], report["unanswerable"], report["unlisted"]) == (1.0, 2, 1, [])
    feed, nothing = report["cases"]
    assert (feed["line"], feed["tools"], feed["found"][0], feed["rank"]) == (1, ["zoo__feed_lion"], "zoo__feed_lion", 1)
    assert (nothing["rank"], nothing["tools"]) == (None, [])


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("options", "code"),
    [
        ((), 0),
        (("--min-recall", "0.5"), 0),
        (("--min-recall", "0.51"), 1),
        (("--min-ndcg", "0.5"), 0),
        (("--min-ndcg", "0.9"), 1),
        (("--min-recall", "1.5"), 2),
    ],
)
def test_a_threshold_decides_the_exit_code(run: Run, options: tuple[str, ...], code: int):
    assert run(FEED, WRONG, options=options)[0] == code


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ((), "it has no queries"),
        (("{",), "line 1: it is not a JSON object"),
        (({"query": "x"},), "line 1: it is not a JSON object"),
        ((FEED, {"query": " ", "tools": []}), 'line 2: "query" is not text'),
        (({"query": "x", "tools": "zoo__feed_lion"},), 'line 1: "tools" is not a list'),
        (({"query": "x", "tools": ["zoo__feed_tiger"]},), "line 1: there is no tool 'zoo__feed_tiger'"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_by_line(run: Run, lines: tuple[Any, ...], said: str):
    code, out, err = run(*lines)
    assert (code, out) == (1, "")
    assert "queries.jsonl" in err
    assert said in err


def test_a_server_that_was_never_listed_is_told_and_is_no_success(run: Run):
    code, _out, err = run(NOTHING, is_listed=False)
    assert code == 1
    assert "zoo: was never listed" in err


def test_a_line_ends_where_json_lines_says(run: Run):
    line = json.dumps({"query": "feed\u2028the lion", "tools": ["zoo__feed_lion"]}, ensure_ascii=False)
    code, out, err = run(line)
    assert (code, err) == (0, "")
    assert "recall 1.000 at 1" in out


def test_several_right_tools_are_recalled_in_part(run: Run):
    both = {"query": "give the lion meat", "tools": ["zoo.feed_lion", "zoo__open_gate"]}
    report = json.loads(run(both, options=("--json",))[1])
    assert report["recall"]["1"] == 0.5
    assert 0 < report["ndcg"] < 1
