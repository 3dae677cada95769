"""scripts/full knows every group of long tests, and what each is about."""

import re
from pathlib import Path

import pytest
from full_runs import COUNTS, GROUPS, groups_about, main

ROOT = Path(__file__).resolve().parents[2]
MARK = re.compile(r"mark\.full\(group=\"(\w+)\"\)")


def test_every_group_has_tests_and_every_marker_a_group():
    tests = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    assert {name for text in tests for name in MARK.findall(text)} == GROUPS.keys() - {COUNTS}


@pytest.mark.sampled
@pytest.mark.parametrize("pattern", [pattern for group in GROUPS.values() for pattern in group.about])
def test_group_is_about_files_that_exist(pattern: str):
    assert any(ROOT.glob(pattern))


def test_groups_are_chosen_by_what_has_changed():
    assert groups_about(["docs/python.md", "tests/hosts/cases.py"]) == ["hosts", "frameworks"]
    assert groups_about(["tests/hostile/test_hostile_decisions.py"]) == [COUNTS]
    assert groups_about(["README.md"]) == []


def test_groups_are_listed(capsys: pytest.CaptureFixture[str]):
    assert main(["--list"]) == 0
    assert capsys.readouterr().out.split() == list(GROUPS)
    assert main(["--list", "--about", "server.json"]) == 0
    assert capsys.readouterr().out.split() == ["release"]


def test_unknown_group_is_refused_with_those_that_exist(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["hots"])
    assert "no such group: hots; there are: hosts" in capsys.readouterr().err
