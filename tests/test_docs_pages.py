"""Pages that name what the program says or what was measured name what is there."""

import ast
import re
from functools import cache
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from check_docs import ROOT

DOCS = ROOT / "docs"
MESSAGES = re.findall(r"^\| `([^`]+)` \|", (DOCS / "troubleshooting.md").read_text(encoding="utf-8"), re.MULTILINE)
FIGURES = re.findall(
    r"^\| .+ \| (.+) \| (.+) \| `(python .+)` \|$",
    (DOCS / "comparison.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)


@cache
def said() -> str:
    """Return every text in the program, each on a line of its own; what is filled in is a ``…``."""
    texts: list[str] = []
    for module in (ROOT / "server" / "toolcrib").rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                texts.append(
                    "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return "\n".join(texts)


@pytest.mark.sampled
@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_on_the_page_is_one_that_the_program_gives(message: str):
    pattern = "[^\n]*".join(map(re.escape, message.split("…")))
    assert re.search(pattern, said()), f"nothing says {message}"


def test_there_are_messages():
    assert len(MESSAGES) > 30


@pytest.mark.parametrize(("ours", "others", "command"), FIGURES, ids=[" ".join(figure) for figure in FIGURES])
def test_a_figure_of_the_comparison_is_one_of_the_benchmarks(ours: str, others: str, command: str):
    page = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    figures = [figure[0] for cell in (ours, others) for figure in re.finditer(r"\.?\d[\d,.]*", cell)]
    rows = [line for line in page.splitlines() if line.startswith("|")]
    # Rows that go on (…) belong to the one above.
    near = [" ".join(pair) for pair in pairwise(rows)]
    assert any(all(figure in row for figure in figures) for row in near), f"not in benchmarks/README.md: {figures}"
    assert (ROOT / command.split()[1]).is_file()
    assert command.partition(" --")[0] in page


def test_the_picture_of_the_soak_has_axes_units_and_marks():
    picture = ET.fromstring((ROOT / "docs" / "soak.svg").read_text(encoding="utf-8"))
    texts = ["".join(each.itertext()) for each in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"memory (RSS), MB", "p99 of healthy calls, ms", "10 min", "30 min"} <= {*texts}
    assert len([text for text in texts if text.isdigit()]) >= 8, "values at both axes"
    assert [text.partition(":")[0] for text in texts if text.startswith(("reloads", "kills"))] == ["reloads", "kills"]
