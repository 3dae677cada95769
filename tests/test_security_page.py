"""docs/security.md and the table of hostile tests name tests that are there."""

import ast
import re
from pathlib import Path

import pytest
from counts import THREATS, Threat
from hostile_runs import BEGIN, END, HEAD, missing_rows, outcome_of, row, run, with_rows

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "security.md"
ROW = re.compile(r"^\| (?!it cannot|they cannot|-)(.+?) \| (.+) \|$", re.MULTILINE)
NAMED = re.compile(r"`(tests/[\w./]+\.py)(?:::(\w+))?`")
REPORT = """<testsuites><testsuite><testcase name="a" time="1.5"><properties><property name="worst" value="3 ms"/>
</properties></testcase><testcase name="b" time="1"><failure/></testcase>
<testcase name="c" time="0"><skipped/></testcase></testsuite></testsuites>"""

MET = '<properties><property name="goal met" value="True"/></properties>'


def functions_in(path: str) -> dict[str, list[str]]:
    """Return the functions of a file, each with its decorators."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {function.name: list(map(ast.unparse, function.decorator_list)) for function in functions}


def test_each_promise_names_a_test_that_is_there_and_runs_with_all_its_parameters():
    rows = [
        found.groups() for found in ROW.finditer(PAGE.read_text(encoding="utf-8")) if not found[1].startswith("---")
    ]
    assert len(rows) > 20
    for promise, tests in rows:
        named = NAMED.findall(tests)
        assert named, promise
        for path, name in named:
            assert (ROOT / path).is_file(), (promise, path)
            functions = functions_in(path)
            assert not name or name in functions, (promise, path, name)
            assert "pytest.mark.sampled" not in functions.get(name, ()), (promise, path, name)


@pytest.mark.parametrize("name", THREATS)
def test_each_threat_has_files_of_tests(name):
    assert all((ROOT / path).is_file() for path in THREATS[name].tests)
    assert 0 < THREATS[name].few <= THREATS[name].full


@pytest.mark.parametrize("name", [name for name, threat in THREATS.items() if threat.unit])
def test_each_threat_with_counts_has_a_test_that_says_its_own(name):
    files = [(ROOT / path).read_text(encoding="utf-8") for path in THREATS[name].tests]
    assert any('record_property("count", ' in text for text in files)


def test_each_file_of_hostile_tests_belongs_to_a_threat():
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests" / "hostile").glob("test_*.py")}
    assert files - {path for threat in THREATS.values() for path in threat.tests} == set()


def test_a_report_becomes_one_row_that_takes_the_place_of_the_one_before():
    outcome = outcome_of(REPORT)
    assert (outcome.tests, outcome.failures, outcome.worst, outcome.seconds) == (2, 1, ("3 ms",), 2.5)
    page = f"before\n{BEGIN}\n\n{END}\nafter\n"
    one = with_rows(page, {"clocks": row("clocks", outcome, "2 x cpu", "2026-01-01")})
    both = with_rows(one, {"keys": row("keys", outcome, "2 x cpu", "2026-01-02")})
    again = with_rows(both, {"clocks": row("clocks", outcome, "4 x cpu", "2026-01-03")})
    assert [line.split(" | ")[0] for line in again.splitlines() if line.startswith("| ")] == [
        "| name",
        "| keys",
        "| clocks",
    ]
    assert "4 x cpu | 2026-01-03" in again
    assert "2026-01-01" not in again
    assert again.startswith("before\n")
    assert again.endswith("after\n")


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (REPORT, "**no**"),
        (REPORT.replace("<failure/>", ""), "yes"),
        (REPORT.replace("<failure/>", MET), "yes"),
        (REPORT.replace("<failure/>", MET.replace("True", "False")), "**no**"),
        ("<testsuites><testsuite/></testsuites>", "**no**"),
    ],
)
def test_a_goal_that_a_failed_test_or_its_own_word_says_is_missed_is_not_met(report, said):
    assert f" | {said} | " in row("bodies", outcome_of(report), "2 x cpu", "2026-01-01")


def test_each_row_of_the_page_has_a_cell_for_each_column():
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    rows = [line for line in page.partition(BEGIN)[2].partition(END)[0].splitlines() if line.startswith("| ")]
    assert [each.split(" | ")[0].strip("| ") for each in rows] == ["name", *THREATS]
    assert {len(each.replace("\\|", "").split("|")) for each in rows} == {len(HEAD) + 2}


def test_what_was_not_run_in_full_is_said():
    page = with_rows(f"{BEGIN}\n{END}\n", {"clocks": row("clocks", outcome_of(REPORT), "2 x cpu", "2026-01-01")})
    missing = missing_rows(page)
    assert missing.keys() == THREATS.keys() - {"clocks"}
    assert all("not run in full yet" in line for line in missing.values())
    assert missing_rows(with_rows(page, missing)) == {}


def test_the_count_is_what_the_tests_say_and_a_dash_where_they_say_none():
    counted = REPORT.replace('name="worst" value="3 ms"', 'name="count" value="1500"')
    both = counted.replace("<failure/>", '<properties><property name="count" value="20"/></properties>')
    assert " | 1,520 jumps | " in row("clocks", outcome_of(both), "2 x cpu", "2026-01-01")
    assert "jumps" not in row("clocks", outcome_of(REPORT), "2 x cpu", "2026-01-01")


def test_a_name_of_which_no_test_ran_is_a_failure():
    outcome = outcome_of('<testsuites><testsuite><testcase name="c"><skipped/></testcase></testsuite></testsuites>')
    assert (outcome.tests, outcome.failures, outcome.worst) == (0, 1, ("no test ran",))


@pytest.mark.slow
def test_a_test_that_ends_the_process_is_a_failure(tmp_path):
    (tmp_path / "test_it.py").write_text("import os\n\ndef test_it():\n    os._exit(1)\n")
    outcome = run(Threat("T0", "It ends", "it does not", (str(tmp_path / "test_it.py"),)), full=False)
    assert (outcome.tests, outcome.failures, outcome.worst) == (0, 1, ("pytest ended without a report",))
