"""The faults that the tests of a package are tried on, and the trial of them."""

from pathlib import Path

import pytest
from mutants import mutants
from mutate import Copy, drawn

PACKAGE = Path(__file__).resolve().parents[2] / "server" / "toolcrib" / "search"


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


def test_every_fault_of_the_package_is_python():
    for path in sorted(PACKAGE.glob("*.py")):
        source = path.read_bytes()
        for mutant in mutants(source)[::7]:
            compile(mutant.applied(source), str(path), "exec")


def test_the_same_seed_draws_the_same_faults():
    assert drawn(PACKAGE, 20, 1) == drawn(PACKAGE, 20, 1) != drawn(PACKAGE, 20, 2)
    assert len(drawn(PACKAGE, 20, 1)) == 20
    assert {module for module, _ in drawn(PACKAGE, 20, 1, ["ranking"])} == {"ranking.py"}


@pytest.mark.slow
def test_a_fault_dies_by_the_test_that_notices_it_and_the_tree_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    root, folder = tmp_path / "root", tmp_path / "copy"
    source = "def f(n):\n    while n > 7:\n        n -= 1\n    return n\n"
    for name, text in {
        "server/tried/part.py": source,
        "tests/conftest.py": "",
        "tests/test_part.py": "from tried.part import f\n\ndef test_it_ends():\n    assert f(8) == 7\n",
        "pyproject.toml": "[tool.pytest.ini_options]\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    folder.mkdir()
    copy = Copy(root, folder, ["tests"])
    assert copy.verdict() is None
    copy.limit_s = 10
    package = Path("server", "tried")
    noticed = "tests/test_part.py::test_it_ends"
    for (before, after), by in {
        ("n > 7", "(n >= 7)"): noticed,
        ("n", "None"): noticed,
        ("n -= 1", "pass"): "timeout",
        ("1", "2"): noticed,
    }.items():
        [mutant] = [each for each in mutants(source.encode()) if (each.before, each.after) == (before, after)]
        assert copy.fate(package, "part.py", mutant, len(after)).by == by, after
    assert (folder / package / "part.py").read_text() == (root / package / "part.py").read_text() == source
