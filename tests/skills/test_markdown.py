"""Markdown falls into blocks that lose nothing, and its steps are found where authors write them."""

import re
import time
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import settings as given_settings
from hypothesis import strategies as st

from toolcrib.base.markdown import (
    LINES_MAX,
    STEPS_MAX,
    TITLE_MAX,
    Block,
    Kind,
    fences,
    heading_names,
    outline,
    plain_title,
)

RICH = """\
# Fill a form ##

Opening words
in two lines.

## Steps

1. **Open** the [file](a.md)
   and wait.

   ```bash
2. not a step
   ```
   - nested
2. Fill it
still the second

- [ ] checked
* bullet

````md
```
# not a heading
```
````
| a | b |
|---|---|
| 1 | 2 |
---
### Deeper
Last
## Pitfalls & Common Errors (2026)
+ never guess
"""


def kinds(text: str) -> list[tuple[str, str]]:
    return [(block.kind.value, block.title) for block in outline(text).blocks]


def test_a_text_falls_into_its_blocks():
    assert kinds(RICH) == [
        ("heading", "Fill a form"),
        ("paragraph", ""),
        ("heading", "Steps"),
        ("step", "Open the file and wait."),
        ("step", "Fill it still the second"),
        ("check", "checked"),
        ("bullet", "bullet"),
        ("fence", ""),
        ("table", ""),
        ("rule", ""),
        ("heading", "Deeper"),
        ("paragraph", ""),
        ("heading", "Pitfalls & Common Errors (2026)"),
        ("bullet", "never guess"),
    ]


def join(blocks: Iterable[Block]) -> str:
    """Return the source of the blocks, with at most one blank line between two."""
    made = ""
    for block in blocks:
        made += ("\n\n" if block.is_spaced else "\n") * bool(made) + block.text
    return made


def test_joined_blocks_are_the_source_with_single_blank_lines():
    assert join(outline(RICH).blocks) == RICH.strip("\n")
    assert join(outline("\n\na\n\n\n\nb\n").blocks) == "a\n\nb"
    assert join([]) == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\n```sh\nls\n```\nb", [("```sh\nls\n```", True)]),
        ("- ```\n  x\n  - ```\n  ````\nb", [("- ```\n  x\n  - ```\n  ````", True)]),
        ("> ~~~ `x`\n> y\n> ~~~\n```", [("> ~~~ `x`\n> y\n> ~~~", True), ("```", False)]),
        ("``` `a` ```\n`````\nx\n````\n", [("`````\nx\n````\n", False)]),
        ("no fence: ```", []),
    ],
    ids=["plain", "in a list item", "in a quote", "longer marks", "in a line"],
)
def test_a_fence_ends_at_as_many_marks_of_its_kind(text: str, expected: list[tuple[str, bool]]):
    assert [(text[fence.start : fence.end], fence.is_closed) for fence in fences(text)] == expected


def test_blocks_know_their_place():
    blocks = outline("# T\ntext\n\n```\nx\n```\n").blocks
    assert [(block.line, block.level, block.is_spaced, block.text) for block in blocks] == [
        (1, 1, False, "# T"),
        (2, 0, False, "text"),
        (4, 0, True, "```\nx\n```"),
    ]


def test_a_title_is_the_first_heading_of_level_one_outside_fences():
    assert outline("```\n# no\n```\n## no\n# Yes #\n# No").title == "Yes"
    assert outline("#no\n    # no").title == ""


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("1. a\n2) b", ["a", "b"]),
        ("## Step 1: Look\n1. a\n\n## Step 2: Leap\n", ["Step 1: Look", "a", "Step 2: Leap"]),
        ("## Phase 1\n- x\n### 2. Next\n- y", ["Phase 1", "2. Next"]),
        ("- [ ] a\n- [x] b\n## H\n## I", ["a", "b"]),
        ("1. one alone\n## First\n### Second", ["First", "Second"]),
        ("# T\n## First\n- x\n- y\n## Second", ["First", "Second"]),
        ("- a\n- b", ["a", "b"]),
        ("1. one alone", ["one alone"]),
        ("# T\n\nwords", []),
        ("", []),
        ("- nothing\n  1. nested is no step\n  2. nor this\n- more", ["nothing", "more"]),
        ("```\n1. a\n2. b\n```\n~~~\n1. c\n~~~\n- x\n- y", ["x", "y"]),
        ("1. a\n\n\n   more of a\n\n2. b", ["a", "b"]),
        ("1. a\n```sh\n2. no\n```\n2. b", ["a", "b"]),
        ("1.\n2. b\n3. c", ["b", "c"]),
        ("it was\n2024. then\n1. a\n2. b", ["a", "b"]),
    ],
)
def test_steps_are_what_is_numbered_else_checked_else_headed(text: str, steps: list[str]):
    assert list(outline(text).steps) == steps


def test_a_fence_is_closed_by_as_many_marks_of_its_kind_only():
    assert kinds("````\n```\n~~~~\n````\n# H") == [("fence", ""), ("heading", "H")]
    assert kinds("~~~ `x`\n```\n~~~\n# H") == [("fence", ""), ("heading", "H")]
    assert kinds("``` a`b\n# H") == [("paragraph", ""), ("heading", "H")]
    assert kinds("# H\n```\n# in") == [("heading", "H"), ("fence", "")]


def test_indented_lines_belong_to_their_item_or_paragraph():
    assert kinds("- a\n\t- b\n\n\tc\nd") == [("bullet", "a")]
    assert kinds("words\n    # no\n      - no") == [("paragraph", "")]
    assert kinds("- a\n\nb") == [("bullet", "a"), ("paragraph", "")]


@pytest.mark.parametrize("name", ["pitfalls", "common errors", "pitfalls common errors"])
def test_a_section_is_found_by_any_of_its_names(name: str):
    assert [block.title for block in outline(RICH).section([name])] == ["never guess"]


def test_a_section_has_its_deeper_headings_and_ends_at_the_next_of_its_level():
    text = "# T\n## Steps\na\n### One\nb\n## Other\nc\n## Steps\nd"
    assert join(outline(text).section({"steps"})) == "a\n### One\nb"
    assert outline(text).section({"next steps"}) == ()


def test_names_of_headings_are_plain():
    assert heading_names("3. 🚨 Don'ts and Red Flags — part 2") == {
        "donts",
        "red flags",
        "part",
        "donts and red flags part",
    }
    assert heading_names("***") == frozenset()


def test_titles_are_short_and_without_marks():
    assert plain_title("**Read** ![the](x.png) [docs](http://a.b/c)  twice") == "Read the docs twice"
    assert len(plain_title("word " * 1000)) <= TITLE_MAX


def test_what_is_looked_into_is_bounded():
    steps = outline("\n".join(f"{number}. x" for number in range(1000))).steps
    assert len(steps) == STEPS_MAX
    blocks = outline("# h\n" * (LINES_MAX + 3)).blocks
    assert len(blocks) == LINES_MAX + 1
    assert blocks[-1].kind is Kind.PARAGRAPH
    assert blocks[-1].text == "# h\n# h\n# h"


_pieces = st.sampled_from(
    [
        "# a",
        "## b",
        "1. c",
        "2) d",
        "- e",
        "  - f",
        "- [x] g",
        "```",
        "~~~~",
        "````sh",
        "| h |",
        "---",
        "i",
        "    j",
        "",
        "\t",
    ]
)


@given_settings(max_examples=2 * given_settings.default.max_examples)
@given(st.lists(_pieces | st.text(max_size=20), max_size=25))
def test_no_line_is_lost_whatever_the_text(lines: list[str]):
    text = "\n".join(lines)
    found = outline(text)
    rejoined = join(found.blocks).split("\n")
    assert [line for line in rejoined if line.strip()] == [line for line in text.split("\n") if line.strip()]
    assert all(found.steps)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 300_000,
        "[a](" * 100_000,
        "1. " + "**a" * 100_000,
        "* " * 150_000,
        "- " * 150_000 + "x",
        " " * 300_000,
        "`" * 300_000,
        "- a\n" + "\n" * 300_000,
        "1. a\n   ```\n" * 5_000,
        "".join(" " * depth + "- a\n" for depth in range(700)),
    ],
    ids=lambda text: re.sub(r"\s+", " ", text[:8]),
)
def test_hostile_texts_take_time_in_proportion(text: str):
    began = time.process_time()
    found = outline(text)
    assert (found.title, found.section(["x"])) == ("", ())
    assert len(found.steps) <= STEPS_MAX
    assert time.process_time() - began < 0.5


def test_a_fence_that_opens_beside_the_mark_of_its_item_ends_with_the_item():
    found = outline("1. ```sh\n   make\n   ```\n2. Look at it.\n\n## After\n")
    assert found.steps == ("make", "Look at it.")
    assert [block.kind.value for block in found.blocks] == ["step", "step", "heading"]
