"""The faults that the tests of a package are tried on, and the trial of them."""

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from mutants import mutants
from mutate import ROOT, Module, drawn, modules

MODULES = modules(ROOT)


def faulty(source: str) -> set[str]:
    """Return the source with each of its faults."""
    return {mutant.applied(source.encode()).decode() for mutant in mutants(source.encode())}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a < b", {"(a <= b)", "(a >= b)"}),
        ("a == b", {"(a != b)"}),
        ("a is not b", {"(a is b)"}),
        ("a not in b", {"(a in b)"}),
        ("a + b", {"(a - b)", "(a)", "(b)"}),
        ("a | b", {"(a)", "(b)"}),
        ("a and b or c", {"((a and b) and c)", "(c)", "(a and b)", "(a or b) or c", "(b) or c", "(a) or c"}),
        ("not a", {"(a)"}),
        ("-a", {"(a)"}),
        ("x = True", {"x = False"}),
        ("x = 3", {"x = 4", "x = 2"}),
        ("x = 4000", {"x = 8000", "x = 2000"}),
        ("x = 0.5", {"x = 1.0", "x = 0.25"}),
        ("x = 0.0", {"x = 1.0"}),
        ("x = 'ab'", {'x = ""'}),
        ("a if b else c", {"(a)", "(c)"}),
        ("x = min(a, key=f)", {"x = max(a, key=f)", "x = (min(a))"}),
        ("x[a:b]", {"x[(a) + 1:b]", "x[(a) - 1:b]", "x[a:(b) + 1]", "x[a:(b) - 1]"}),
        ("[x for x in a if b]", {"[x for x in a if True]"}),
        ("[a, b]", {"([b])", "([a])"}),
        ("{a: b, c: d}", {"({c: d})", "({a: b})"}),
        ("if a: pass", {"if True: pass", "if False: pass"}),
        ("while a: break", {"while False: break", "while a: continue"}),
        ("def f():\n  return a", {"def f():\n  return None"}),
        ("a.b = c", {"pass"}),
        ("f(a)", {"pass"}),
        ("raise f(1)", {"pass"}),
    ],
)
def test_each_kind_of_fault_is_made(source: str, expected: set[str]):
    assert faulty(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring."""',
        "import a",
        "__all__ = ['a', 'b']",
        "Kind = Literal['a', 'b']",
        "_Item = TypeVar('_Item', bound='Other')",
        "def f(a: 'int | None', *b: list[1]) -> 'str': ...",
        "@d(1)\ndef f(): ...",
        "class A(Protocol):\n    def f(self): return 1 + 1",
        "@dataclass(frozen=True)\nclass A:\n    a: int",
        "if TYPE_CHECKING:\n    a = 1",
        "x = zip(a, b, strict=True)",
        "x = Recent[str, int | None]()",
        "x = f'text {a + 1:>3}'",
        "def f():\n    return None",
        "def f():\n    return ''",
    ],
)
def test_what_no_behaviour_can_show_is_left_alone(source: str):
    assert faulty(source) == set()


def test_a_fault_is_told_with_its_line_and_leaves_the_rest_as_it_is():
    source = "# größer\nx = ('ä' *\n     a)  # ü\ny = 1\n"
    [first, *_] = [each for each in mutants(source.encode()) if each.before == "1"]
    assert (first.line, first.applied(source.encode()).decode()) == (4, source.replace("y = 1", "y = 0"))
    assert {each.applied(source.encode()).decode() for each in mutants(source.encode()) if each.line == 2} == {
        source.replace("'ä' *\n     a", text) for text in ("('ä' / a)", "('ä')", "(a)")
    } | {source.replace("'ä'", '""')}


def test_a_fault_is_known_by_what_it_is_in_and_by_its_texts_wherever_its_lines_are():
    source = "x, y = 1, 2\nclass A:\n    z: int = 3\n    def f(self):\n        return [self.g(4), self.g(4)]\n"
    found = {each.identity for each in mutants(source.encode())}
    assert found >= {("(x, y)", "1", "2", 1), ("A.z", "3", "4", 1), ("A.f", "4", "5", 1), ("A.f", "4", "5", 2)}
    moved = f"import a\n\n\n{source}".replace("return [self", "return [\n            self")
    assert {each.identity for each in mutants(moved.encode())} == found


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES.values(), ids=list(MODULES))
def test_every_fault_of_a_module_is_python(module: Module):
    faults = module.faults(ROOT)
    assert faults
    for file, mutant in faults[::7]:
        source = (ROOT / "server" / "toolcrib" / file).read_bytes()
        compile(mutant.applied(source), file, "exec")


@pytest.mark.sampled
@pytest.mark.parametrize("module", MODULES.values(), ids=list(MODULES))
def test_every_fault_that_is_listed_as_equivalent_can_be_made_and_has_a_reason(module: Module):
    assert all((ROOT / test).exists() for test in module.tests)
    made = Counter(mutant.identity for _, mutant in module.faults(ROOT))
    assert {fault: made[fault] for fault in module.equivalents} == dict.fromkeys(module.equivalents, 1)
    assert all(module.equivalents.values())


def test_the_same_seed_draws_the_same_faults_from_all_of_a_module():
    faults = MODULES["search"].faults(ROOT)
    assert drawn(faults, 20, 1) == drawn(faults, 20, 1) != drawn(faults, 20, 2)
    places = [faults.index(each) for each in drawn(faults, 20, 1)]
    assert all(len(faults) * n // 20 <= place < len(faults) * (n + 1) // 20 for n, place in enumerate(places))
    assert drawn(faults[:3], 20, 1) == faults[:3]
    assert drawn([], 20, 1) == []


@pytest.mark.slow
def test_a_fault_dies_by_the_test_that_notices_it_and_the_tree_stays_as_it_is(tmp_path: Path):
    source = "def f(n):\n    while n > 7:\n        n -= 1\n    return n\n"
    tree = {
        "server/toolcrib/__init__.py": "",
        "server/toolcrib/server/serving.py": "from toolcrib.part import f",
        "server/toolcrib/part.py": source,
        "tests/test_part.py": "from toolcrib.part import f\n\ndef test_it_ends():\n    assert f(8) == 7\n",
        "tests/test_whole.py": "def test_all_is_well():\n    pass\n",
        "pyproject.toml": "[tool.pytest.ini_options]\n",
        "scripts/mutation.toml": 'part = { files = ["part.py"], tests = ["tests"] }\n',
    }
    for name, text in tree.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    shutil.copy(ROOT / "scripts" / "mutate.py", tmp_path / "scripts")
    shutil.copy(ROOT / "scripts" / "mutants.py", tmp_path / "scripts")

    def told(*options: str) -> tuple[int, list[str]]:
        environ = {**os.environ, "PYTHONPATH": str(tmp_path / "server"), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, str(tmp_path / "scripts" / "mutate.py"), "--sample", "0", "--limit", "5", *options]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.splitlines()

    noticed = "killed by tests/test_part.py::test_it_ends"
    faults = {
        "2  f  n > 7  ->  (n >= 7)": noticed,
        "2  f  n > 7  ->  (n <= 7)": noticed,
        "2  f  n > 7  ->  False": noticed,
        "2  f  7  ->  6": noticed,
        "2  f  7  ->  8": noticed,
        "3  f  n -= 1  ->  pass": f"{noticed}, which did not end (-9)",
        "3  f  1  ->  2": noticed,
        "3  f  1  ->  0": f"{noticed}, which did not end (-9)",
        "4  f  n  ->  None": noticed,
    }
    code, lines = told("--verbose", "--jobs", "3")
    assert sorted(lines) == sorted(
        [
            *(f"part: part.py:{fault}  {fate}" for fault, fate in faults.items()),
            "part: of 9 9 killed, 0 survived, 0 equivalent: 100.0 % (at least 90 %)",
        ]
    )
    assert code == 0

    table = tmp_path / "scripts" / "mutation.toml"
    text = """
        [part]
        files = ["part.py"]
        tests = ["tests/test_whole.py"]
        [[part.equivalent]]
        where = "f"
        before = "n -= 1"
        after = "pass"
        reason = "it is not"
    """
    table.write_text(text)
    code, lines = told("--least", "1")
    assert lines[-1] == "part: of 9 0 killed, 8 survived, 1 equivalent: 0.0 % (at least 1 %)"
    assert "part: part.py:4  f  n  ->  None  SURVIVED" in lines
    assert code == 1

    table.write_text(text.replace("test_whole", "test_part"))
    code, lines = told("--listed")
    [misjudged] = [line for line in lines if "listed as equivalent, but killed by" in line]
    assert "n -= 1  ->  pass" in misjudged
    assert code == 1
    assert {name: (tmp_path / name).read_text() for name in tree if "scripts" not in name} == {
        name: text for name, text in tree.items() if "scripts" not in name
    }


@pytest.mark.full(group="mutants")
@pytest.mark.timeout(1800)
def test_the_quick_tests_notice_a_sample_of_faults_in_what_guards_most():
    """Every fault that is not noticed is named: write the test that notices it, or list it as equivalent."""
    command = [sys.executable, "scripts/mutate.py", "--sample", "4", "--seed", "1", "--least", "100", "--limit", "120"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "server")}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
