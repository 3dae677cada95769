"""docs/requirements.md has a row for every requirement that is spoken of, and each row names tests that exist."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "requirements.md"
SPEAKERS = ("server", "tests", "benchmarks", "scripts", "docs", "packs")
ID = r"(?<![\w.%])(?:R\d{1,3}|C\d{1,2}b?)(?!\w)"  # three digits after C are a rule of the linter
RANGE = re.compile(rf"({ID})(?:-| to )[RC](\d{{1,3}})\b")
ROW = re.compile(rf"^\| ({ID}) \| (.+) \| (.+) \|$", re.MULTILINE)
WORD_ROW = re.compile(r"^\| [^|]+ \| (?:all|both RFCs|[\w ]+) \| ([^|]+) \|$", re.MULTILINE)


def ids_in(text: str) -> set[str]:
    """Return the ids that a text names, those inside a range too."""
    found = set(re.findall(rf"{ID}\b", text))
    for first, last in RANGE.findall(text):
        found |= {f"{first[0]}{number}" for number in range(int(first[1:]), int(last) + 1)}
    return found


@cache
def spoken_of() -> dict[str, list[str]]:
    """Return the files that speak of each id; not this one, nor the page itself."""
    files: dict[str, list[str]] = {}
    for path in sorted(path for folder in SPEAKERS for path in (ROOT / folder).rglob("*")):
        if path.suffix in (".py", ".md", ".yaml") and path not in (PAGE, Path(__file__)):
            for one in ids_in(path.read_text(encoding="utf-8")):
                files.setdefault(one, []).append(str(path.relative_to(ROOT)))
    return files


@cache
def rows() -> dict[str, list[str]]:
    """Return the tests of each row, as written."""
    return {one: re.findall(r"`([^`]+)`", tests) for one, _, tests in ROW.findall(PAGE.read_text(encoding="utf-8"))}


@cache
def functions_in(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    places = (tree, *(node for node in tree.body if isinstance(node, ast.ClassDef)))
    nodes = (node for place in places for node in place.body)
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_ids_are_found_one_by_one_and_in_ranges():
    assert ids_in("as told (R7), C5b; R1-R3 and C10 to C12") == {"R7", "C5b", "R1", "R2", "R3", "C10", "C11", "C12"}
    assert ids_in("%C3%A9 A.B.C1 R1234 C RC3 utf8R5") == set()


def test_every_id_that_is_spoken_of_has_one_row():
    page = PAGE.read_text(encoding="utf-8")
    missing = {one: files for one, files in spoken_of().items() if one not in rows()}
    assert not missing, f"without a row in docs/requirements.md: {missing}"
    listed = [one for one, _, _ in ROW.findall(page)]
    assert len(listed) == len(set(listed)), "two rows of one id"
    assert len(listed) == len(re.findall(r"^\| [RC]\d", page, re.MULTILINE)), "a row that is not one"


def test_every_row_is_proven_by_tests_that_exist():
    unproven = [one for one, tests in rows().items() if not tests]
    assert not unproven, f"rows without a test: {unproven}"
    lost = [
        f"{one}: {test}"
        for one, tests in rows().items()
        for test in tests
        for path, _, name in [test.partition("::")]
        if not (ROOT / path).is_file() or (name and name not in functions_in(path))
    ]
    assert not lost, "no such test:\n" + "\n".join(lost)


def test_every_word_of_another_document_has_one_of_ours():
    page = PAGE.read_text(encoding="utf-8").partition("## Words of other documents")[2]
    ours = WORD_ROW.findall(page)
    assert len(ours) == len(re.findall(r"^\| ", page, re.MULTILINE))
    known = "\n".join(
        path.read_text(encoding="utf-8")
        for path in [*(ROOT / "server").rglob("*.py"), *(ROOT / "docs").rglob("*.md")]
        if path != PAGE
    )
    lost = [term for cell in ours for term in re.findall(r"`([^`]+)`", cell) if term not in known]
    assert not lost, f"neither in the code nor in the documents: {lost}"
