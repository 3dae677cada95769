"""What stays of a Markdown text when there is not room for all of it, and in what shape."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.formats.markdown import outline
from toolcrib.skills.text.compression import GAP, beginning, closed, compress

FILLER = "Some words about nothing in particular that fill a line. "


def compressed(body: str, room: int) -> str:
    return compress(outline(body), room, len)


def test_a_text_that_fits_stays_as_it_is():
    body = "# Title\n\nIntro.\n\n## Steps\n\n1. One\n2. Two\n\n```sh\nls\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |"
    assert compressed(body, 1000) == body


def test_steps_come_before_everything_else():
    body = f"{FILLER * 3}\n\n{FILLER * 3}\n\n## Steps\n\n1. Open the file.\n2. Fill the form."
    assert compressed(body, 80) == f"{GAP}\n\n## Steps\n\n1. Open the file.\n2. Fill the form."


def test_a_long_step_is_shortened_to_its_first_sentence_before_one_is_left_out():
    steps = [f"{number}. Do thing {number}. {FILLER * 5}" for number in range(1, 6)]
    text = compressed("\n".join(steps), 300)
    assert [f"{number}. Do thing {number}. {GAP}" for number in range(1, 6)] == text.split("\n")


def test_with_less_room_a_step_is_its_bold_words():
    steps = [f"{number}. **Thing {number}**: {'word ' * 60}" for number in range(1, 9)]
    text = compressed("\n".join(steps), 230)
    assert text.split("\n")[0] == f"1. Thing 1 {GAP}"
    assert "8. Thing 8" in text


def test_a_step_that_has_code_in_it_is_shown_with_its_code_or_by_its_title():
    step = "1. Run it.\n\n   ```sh\n   make everything\n   ```\n\n2. Look."
    assert compressed(step, 200) == step
    assert compressed(step + "\n\n" + FILLER * 9, 45).split("\n")[:3] == [f"1. Run it. {GAP}", "", "2. Look."]


def test_a_text_says_so_when_there_is_not_room_for_all_its_steps():
    text = compressed("\n".join(f"{number}. Do thing number {number}" for number in range(1, 100)), 400)
    assert text.endswith("[… not all of the 99 steps: for the others there is no room]")
    assert "1. Do thing number 1\n" in text
    assert len(text) <= 400


def test_headings_are_the_steps_of_a_text_without_numbers():
    body = "\n\n".join(f"## Part {number}\n\n{FILLER * 8}" for number in range(1, 6))
    assert re.findall(r"## Part \d", compressed(body, 200)) == [f"## Part {number}" for number in range(1, 6)]
    assert f"## Part 1 {GAP}" in compressed(body, 200)


@pytest.mark.parametrize(
    ("before", "wanted"),
    [
        ("## Notes", "You MUST keep the original file."),
        ("## Notes", "Never write to the original file."),
        ("## Common pitfalls", "The fields have no names."),
        ("## Prerequisites", "The program pdftk is there."),
        ("## Commands", "```bash\npdftk form.pdf dump_data_fields\n```"),
    ],
)
def test_warnings_needs_and_commands_come_before_other_text(before: str, wanted: str):
    rest = "\n\n".join([FILLER * 4] * 5)
    body = f"## Steps\n\n1. Open\n2. Fill\n\n{rest}\n\n{before}\n\n{wanted}\n\n{rest}"
    text = compressed(body, 300)
    assert f"{before}\n\n{wanted}" in text
    assert text.index("1. Open") < text.index(wanted)


@pytest.mark.parametrize("heading", ["## Examples", "## Why", "## When to use"])
def test_examples_and_background_are_left_out_first(heading: str):
    body = f"1. Open\n2. Fill\n\n{heading}\n\n{FILLER * 2}\n\n## Fields\n\n{FILLER * 2}"
    text = compressed(body, 200)
    assert f"{heading} {GAP}" in text
    assert f"## Fields\n\n{FILLER * 2}".strip() in text


def test_long_code_is_left_out_before_text():
    code = "```python\n" + "call()\n" * 200 + "```"
    text = compressed(f"1. Open\n2. Fill\n\n## Code\n\n{code}\n\n## Fields\n\n{FILLER}", 1300)
    assert "call()" not in text
    assert FILLER.strip() in text


def test_what_is_shown_stands_under_its_heading_and_the_line_that_introduces_it():
    body = (
        f"1. Open\n2. Fill\n\n{FILLER * 9}\n\n## Data\n\n### Fields\n\nEach of these:\n\n- NEVER empty\n\n{FILLER * 9}"
    )
    assert "## Data\n\n### Fields\n\nEach of these:\n\n- NEVER empty" in compressed(body, 150)


def test_a_line_that_introduces_something_is_not_shown_without_it():
    body = f"1. Open\n2. Fill\n\nThis is how:\n\n```text\n{FILLER * 20}\n```"
    assert compressed(body, 200) == f"1. Open\n2. Fill\n{GAP}"


def test_pictures_and_rules_take_no_room():
    assert compressed("![badge](x.svg)\n\nText.\n\n---\n\nMore.", 100) == "Text.\n\nMore."


def test_a_beginning_is_whole_blocks():
    body = "# Title\n\nOne line.\n\n```\nls\n\npwd\n```\n\nMore."
    assert beginning(outline(body), 1000, len) == body
    assert beginning(outline(body), 30, len) == "# Title\n\nOne line."
    assert beginning(outline(body), 3, len) == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("```\nls", "```\nls\n```"),
        ("````\nls\n```", "````\nls\n```\n````"),
        ("~~~\nls\n```", "~~~\nls\n```\n~~~"),
        ("1. ```sh\n   ls", "1. ```sh\n   ls\n```"),
        ("```sh\nls\n```", "```sh\nls\n```"),
        ("say ``` here", "say ``` here"),
        ("```one line```", "```one line```"),
        ("```sh\n```python\n```", "```sh\n```python\n```"),
    ],
)
def test_an_open_fence_is_closed(text: str, expected: str):
    assert closed(text) == expected


PIECES = {
    "step": "1. Step {id}. And then:\n   - nested {id}\n\n   ```sh\n   run {id}\n   ```",
    "item": "- item {id}\n  goes on {id}\n\n  and on {id}",
    "check": "- [ ] check {id}\n  goes on {id}",
    "fence": "```python\nstart {id}\n\n# Heading {id}\n- item {id}\n```",
    "table": "| a {id} | b |\n|---|---|\n| c {id} | d |",
    "paragraph": "Words {id}, NEVER cut {id}.\nA second line {id}.",
    "heading": "## Part {id}",
    "lead": "These are {id}:",
}


@settings(max_examples=60)
@given(
    pieces=st.lists(st.sampled_from(sorted(PIECES)), min_size=1, max_size=25),
    room=st.integers(min_value=150, max_value=2000),
)
def test_blocks_are_whole_or_absent_and_in_order(pieces: list[str], room: int):
    made = [(kind, PIECES[kind].format(id=f"x{number}x")) for number, kind in enumerate(pieces)]
    text = compressed("\n\n".join(each for _, each in made), room)
    assert len(text) <= room
    at = 0
    for number, (kind, piece) in enumerate(made):
        if f"x{number}x" not in text:
            continue
        is_short = kind in ("step", "check", "item") and piece not in text  # an item may be a step
        shown = next(line for line in text.split("\n") if f"x{number}x" in line) if is_short else piece
        assert not is_short or shown.endswith((GAP, "…"))
        assert text.count(f"x{number}x") == shown.count(f"x{number}x")
        assert text.index(shown) >= at
        at = text.index(shown)
