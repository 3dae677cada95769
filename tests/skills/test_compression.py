"""What stays of a Markdown text when there is not room for all of it, and in what shape."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.base.markdown import Block, Kind, Outline, outline
from toolcrib.skills.text.compression import GAP, About, around, beginning, closed, compress, cut

FILLER = "Some words about nothing in particular that fill a line. "
WORDY = f"{FILLER * 4}\n\n" * 8
SMALL, WIDE = 1_000, 2_400
"""Room for a text without its layout, and with it."""


def compressed(body: str, room: int, about: str = "") -> str:
    first = [Block(Kind.PARAGRAPH, about)] if about else []
    return compress(Outline((*first, *outline(body).blocks)), room, len, About(len(first)))


def test_a_text_that_fits_stays_as_it_is():
    body = "# Title\n\nIntro.\n\n## Steps\n\n1. One\n2. Two\n\n```sh\nls\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |"
    assert compressed(body, 1000) == body


@pytest.mark.parametrize("room", [SMALL, WIDE])
@pytest.mark.parametrize(
    "wanted",
    [
        "## Notes\n\nYou MUST keep the original file.",
        "## Notes\n\nNever write to the original file.",
        "## Notes\n\nAsk the user before you send it.",
        "## Fields\n\nThe fields have no names.",
        "## Where to look\n\nSee `references/fields.md` for their names.",
        "## Commands\n\n```bash\npdftk form.pdf dump_data_fields\n```",
    ],
)
def test_gates_leads_routes_and_commands_come_before_detail(wanted: str, room: int):
    text = compressed(f"## Workflow\n\n1. Open\n2. Fill\n\n## Detail\n\n{WORDY}{wanted}\n\n{WORDY}", room)
    assert wanted.split("\n\n")[1].strip("`bash\n") in text
    assert text.index("1. Open") < text.index(wanted.split("\n\n", maxsplit=1)[0])


def test_what_a_text_is_for_comes_first_and_what_its_first_lines_forbid():
    about = f"Fills in forms. {FILLER * 6}Do NOT use it for tables."
    text = compressed(WORDY * 3, SMALL, about)
    assert text.startswith("Fills in forms. ")
    assert "Do NOT use it for tables." in text


@pytest.mark.parametrize("room", [800 * 4, 1500 * 4])
def test_every_heading_is_kept_in_order_from_eight_hundred_tokens_on(room: int):
    body = "\n\n".join(f"## Part {number}\n\n{FILLER * 30}" for number in range(30))
    assert re.findall(r"## Part \d+", compressed(body, room)) == [f"## Part {number}" for number in range(30)]


def test_each_section_is_begun_before_any_is_told_to_its_end():
    body = "\n\n".join(
        f"## Part {part}\n\n" + "\n".join(f"- point {part}.{n} {FILLER}" for n in range(9)) for part in range(6)
    )
    text = compressed(body, WIDE)
    shown = [text.count(f"point {part}.") for part in range(6)]
    assert max(shown) - min(shown) <= 1
    assert min(shown) > 0


ADVICE = [f"- Advice {number}: {FILLER.strip()}" for number in range(12)]


def test_a_list_at_the_end_of_which_some_is_missing_is_shown_by_its_titles():
    long = [f"- **Advice {number}**: {FILLER * 4}" for number in range(6)]
    text = compressed("Intro.\n\n## Advice\n\n" + "\n".join(long), 600)
    assert re.findall(r"Advice \d", text) == [f"Advice {number}" for number in range(6)]
    assert "more]" not in text


@pytest.mark.parametrize("room", range(300, 900, 37))
def test_a_text_that_ends_within_a_list_says_how_much_of_it_is_missing(room: int):
    text = compressed(f"Intro. {FILLER * 3}\n\n## Advice\n\n" + "\n".join(ADVICE), room)
    assert len(text) <= room
    shown = len(re.findall(r"^- Advice", text, re.MULTILINE))
    assert (shown == len(ADVICE)) != text.endswith(f"\n[… {len(ADVICE) - shown} more]")


def test_the_procedure_comes_before_another_numbered_list():
    tips = "".join(f"{n}. Tip {n}. {FILLER * 2}\n" for n in range(1, 15))
    steps = "".join(f"{n}. Do thing {n}. {FILLER * 3}\n" for n in range(1, 7))
    text = compressed(f"## Tips\n\n{tips}\n## Workflow\n\n{steps}\n## Best practices\n\n{tips}", SMALL)
    assert [n for n in range(1, 7) if f"{n}. Do thing {n}." not in text] == []
    assert "Tip 14" not in text


def test_numbered_headings_are_a_procedure_too():
    parts = "".join(f"## Step {n}: Do {n}\n\n{FILLER * 9}\n\n" for n in range(1, 8))
    tips = "".join(f"{n}. Tip {n}. {FILLER * 2}\n" for n in range(1, 30))
    text = compressed(f"{parts}## Tips\n\n{tips}", SMALL)
    assert re.findall(r"## Step \d", text) == [f"## Step {n}" for n in range(1, 8)]


def test_a_long_step_is_shortened_before_one_is_left_out():
    steps = [f"{number}. Do thing {number}. {FILLER * 5}" for number in range(1, 6)]
    text = compressed("## Steps\n\n" + "\n".join(steps), 400)
    assert [number for number in range(1, 6) if f"{number}. Do thing {number}. " not in text] == []


def test_with_less_room_a_step_is_its_bold_words():
    steps = [f"{number}. **Thing {number}**: {'word ' * 60}" for number in range(1, 9)]
    text = compressed("\n".join(steps), 330)
    assert text.startswith(f"1. **Thing 1** {GAP}")
    assert "8. **Thing 8**" in text


def test_a_text_says_so_when_there_is_not_room_for_all_its_steps():
    text = compressed("\n".join(f"{number}. Do thing number {number}" for number in range(1, 100)), 400)
    assert text.endswith("[… not all of the 99 steps: for the others there is no room]")
    assert "1. Do thing number 1\n" in text
    assert len(text) <= 400


def test_the_preferred_option_comes_before_its_fallback():
    options = f"- Fallback: build it by hand. {FILLER * 2}\n- Recommended: run the installer. {FILLER * 2}\n"
    text = compressed("\n".join(f"## Part {n}\n\n{options}" for n in range(5)), 400)
    assert text.count("Recommended: run") > text.count("Fallback: build")


def test_a_list_stands_only_under_the_line_that_introduces_it():
    lists = "".join(
        f"### {kind}\n\nWhat you {kind.lower()}:\n\n- {kind.lower()} this\n- {kind.lower()} that\n\n"
        for kind in ("Do", "Avoid")
    )
    for room in (300, 700, SMALL):
        text = compressed(f"{WORDY}## Rules\n\n{lists}{WORDY}", room)
        for kind in ("do", "avoid"):
            at = text.find(f"- {kind} ")
            assert at < 0 or text.rfind(f"What you {kind}:", 0, at) > text.rfind("### ", 0, at)


@pytest.mark.parametrize("heading", ["## Examples", "## Why", "## When to use"])
def test_examples_and_background_are_left_out_first(heading: str):
    body = f"## Steps\n\n1. Open\n2. Fill\n\n{heading}\n\n{FILLER * 4}\n\n## Fields\n\n{FILLER * 4}"
    text = compressed(body, 300)
    assert text.count(FILLER.strip()) >= 2
    assert text.index(FILLER.strip()) > text.index("## Fields")


def test_long_code_is_left_out_before_text():
    code = "```python\n" + "call()\n" * 300 + "```"
    text = compressed(f"## Code\n\n{code}\n\n## Fields\n\n{WORDY}", WIDE)
    assert "call()" not in text
    assert text.count(FILLER.strip()) > 20


def test_a_line_that_introduces_something_is_not_shown_without_it():
    body = f"## Steps\n\n1. Open\n2. Fill\n\nThis is how:\n\n```text\n{FILLER * 60}\n```"
    assert "This is how" not in compressed(body, SMALL)


def test_pictures_and_rules_take_no_room():
    assert "x.svg" not in compressed(f"![badge](x.svg)\n\nText.\n\n---\n\n{WORDY}", 500)


def test_addresses_of_links_go_before_words_do():
    link = "[the guide](https://example.com/a/long/way/to/the/guide)"
    text = compressed(f"## Notes\n\nAlways follow {link} to the letter.\n\n{WORDY}", SMALL)
    assert "Always follow the guide to the letter." in text


def test_what_is_cut_is_marked_where_it_was():
    text = compressed(f"## One\n\nFirst. {FILLER * 40}\n\n## Two\n\n{WORDY}", WIDE)
    assert re.search(rf"\w\. {re.escape(GAP)}$", text, re.MULTILINE)


def test_a_beginning_is_whole_blocks():
    body = "# Title\n\nOne line.\n\n```\nls\n\npwd\n```\n\nMore."
    assert beginning(outline(body), 1000, len) == body
    assert beginning(outline(body), 30, len) == "# Title\n\nOne line."
    assert beginning(outline(body), 3, len) == ""


def test_what_is_shown_around_a_place_has_that_place():
    text = "Take it from the top, with care; and then, whatever comes, never look back at what was."
    assert around(text, text.index("never"), 40) == "… never look back at what was."
    assert around(text, 0, 40) == "Take it from the top, with care; and…"
    assert cut("word " * 20, 12) == "word word…"


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
    room=st.integers(min_value=150, max_value=4000),
)
def test_code_is_whole_or_absent_and_all_is_in_order(pieces: list[str], room: int):
    made = [PIECES[kind].format(id=f"x{number}x") for number, kind in enumerate(pieces)]
    text = compressed("\n\n".join(made), room)
    assert len(text) <= room
    shown = [int(number) for number in re.findall(r"x(\d+)x", text)]
    assert shown == sorted(shown)
    for number, (kind, piece) in enumerate(zip(pieces, made, strict=True)):
        if kind == "fence":
            assert piece in text or f"x{number}x" not in text
