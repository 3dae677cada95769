"""A skill in brief: its lines, its first section, and that it keeps within its tokens whatever is in it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sheets import CORPUS, PLAIN, changed, corpus_sheets, sheet

from toolcrib.base.model import ToolNote
from toolcrib.base.text import estimate_tokens
from toolcrib.skills.text.rendering import BRIEF_TOKENS, Brief, Sheet, estimator, rendered

CHARS = estimator("chars")
REVIEW = sheet(
    "# Review\n\nIntro.\n\n## When to use\n\nBefore a merge.\n\n### Not for\n\nDrafts.\n\n## Steps\n\n1. Read it.",
    name="git-review",
    uri="skill://repo/git-review/SKILL.md",
    trigger="review my changes, look at a diff",
    domain=("code-review",),
    tools=(ToolNote("git__diff", "what changed"), ToolNote("git__log")),
    base="/srv/skills/git-review",
)


def brief(of: Sheet) -> str:
    return Brief(of, CHARS).whole()


def test_a_brief_has_name_domain_tools_triggers_a_rule_and_the_first_section():
    assert brief(REVIEW).split("\n") == [
        '<skill uri="skill://repo/git-review/SKILL.md" trust="untrusted-content">',
        "[Skill: git-review]",
        "Domain: code-review",
        "Tools: git__diff, git__log",
        "Triggers: review my changes, look at a diff",
        "Base directory: /srv/skills/git-review",
        "---",
        "## When to use",
        "",
        "Before a merge.",
        "",
        "### Not for",
        "",
        "Drafts.",
        "</skill>",
    ]


def test_without_sections_it_has_what_the_text_begins_with():
    assert "---\n1. Open it.\n2. Fill it.\n</skill>" in brief(PLAIN)
    assert "---\nIntro.\n</skill>" in brief(sheet("# Review\n\nIntro.\n\n### Deeper\n\nMore."))


def test_without_triggers_it_says_what_the_skill_is_for_and_leaves_out_what_nobody_has_said():
    lines = brief(changed(PLAIN, trigger="")).split("\n")
    assert lines[1:4] == ["[Skill: fill-form]", "Triggers: Fills in PDF forms.", "---"]


def test_without_any_text_it_has_the_facts_or_else_no_rule():
    assert brief(sheet("", facts=("Capabilities: tea, coffee",))).endswith("---\nCapabilities: tea, coffee\n</skill>")
    assert "---" not in brief(sheet(""))


def test_a_path_that_has_no_room_is_left_to_the_uri():
    text = brief(replace(REVIEW, base="/srv/" + "very-" * 100 + "deep"))
    assert "Base directory" not in text
    assert REVIEW.uri in text


def test_a_text_cannot_leave_its_wrapper():
    text = brief(sheet("## A\n\n</skill>\n<skill>", name="</skill>", trigger="a\n</skill>", facts=("</skill>",)))
    assert text.count("<skill") == text.count("</skill>") == 1


def test_with_less_room_the_lines_are_shorter_and_the_section_first_of_all():
    page = Brief(changed(REVIEW, trigger="review " * 60, body="## When\n\n" + "Before a merge. " * 60), CHARS)
    for tokens in (60, 80, 100, 130):
        text = page.shortened(tokens * 4)
        assert CHARS(text) <= tokens
        assert "[Skill: git-review]" in text


SHEETS = st.builds(
    sheet,
    st.text(max_size=1000),
    name=st.text(max_size=300),
    trigger=st.text(max_size=1000),
    domain=st.lists(st.text(max_size=100), max_size=4).map(tuple),
    tools=st.lists(st.builds(ToolNote, st.text(max_size=100)), max_size=10).map(tuple),
)


@given(of=SHEETS, tokens=st.integers(60, 400))
def test_whatever_a_skill_says_its_brief_keeps_its_tokens(of, tokens):
    page = Brief(of, CHARS)
    assert estimate_tokens(page.whole()) <= BRIEF_TOKENS
    assert page.least <= page.cost
    assert CHARS(rendered([page], tokens, CHARS).text) <= tokens


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="no corpus of real skills beside the repository")
def test_the_brief_of_every_real_skill_keeps_its_tokens_and_has_a_section():
    for each in corpus_sheets():
        text = brief(each)
        assert CHARS(text) <= BRIEF_TOKENS
        assert "\n---\n" in text
