"""Where a text may name a tool: by the form of a word anywhere, a plain word only in code or where it is called one."""

import re
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from toolcrib.catalog.name_detection import (
    Candidates,
    by_code_marks,
    candidates,
    counted_candidates,
    instead_of,
    places,
    several_words,
)

SEVERAL_WORDS_START = re.compile(
    r"""(?<![A-Za-z0-9_\u00c0-\u1fff-])(?=
        [A-Za-z0-9\u00c0-\u1fff]*+(?:\\?[_-]|[.:/](?:[A-Za-z0-9_\u00c0-\u1fff-]|\\[_-])|[+A-Za-z0-9.-]{0,15}+://)
        | [A-Za-z0-9\u00c0-\u1fff]*?[a-z0-9][A-Z])""",
    re.VERBOSE,
)
"""Where a name of several words, or a URL, begins: what is found out faster, in one pattern."""


def found(text: str) -> list[str]:
    """Return what stands at the places of a text, plain words in code and so-called tools with a backtick."""
    return [name for _, name in candidates(text)]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Call create_issue, listRuns or list-runs.", ["create_issue", "listRuns", "list-runs"]),
        ("Not db.drop, db/drop or db:drop: it is gone.", ["db.drop", "db/drop", "db:drop"]),
        ("A list; then search, e.g. for an ID.", ["e.g"]),
        ("drop\\_table 请用drop_it删除", ["drop\\_table", "drop_it"]),
        ("See https://drop.io/a-b/db.drop?x=list_runs.", ["/a-b/db.drop", "list_runs."]),
        ("Mail drop_x@list-runs.com, or ask list-runs.dev.", ["drop_x"]),
        ("`drop` and ``list all`` or `create_issue`", ["`drop", "`list all", "`list", "`all", "`create_issue"]),
        ("```sh\ndrop all\n```\ndrop all", ["`sh", "`drop", "`all"]),
        ("", []),
    ],
)
def test_a_name_of_several_words_is_one_anywhere_and_a_plain_word_in_code(text: str, names: list[str]):
    assert found(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "Use the drop tool.",
        "The drop tool is slow.",
        "Call drop tool first.",
        "Use the 'drop' tool, the *drop* tool or the “drop” tool.",
        "Then the drop MCP tool.",
        'A "drop" tool.',
        "The tool 'drop' is slow.",
        "A tool called drop, or a tool named *drop*.",
        "First call the tool drop.",
        "Run tool drop.",
        "Use the drop, drop and drop tools.",
    ],
)
def test_a_plain_word_is_a_name_where_the_text_calls_it_a_tool(text: str):
    assert set(found(text)) == {"`drop"}
    assert len(found(text)) == text.count("drop")


@pytest.mark.parametrize(
    "text",
    [
        "A drop tool. Any web drop tool.",
        "Choose any of the corresponding drop tools.",
        "Choose a corresponding drop tool.",
        "The drop tools of the set, and all drop tools.",
        "This tool drop rows. Use this tool to drop.",
        "A tool to drop. The tool list. The toolbox drop.",
        "The drop and the tool.",
        "Drop! Toolless drop tooling.",
    ],
)
def test_what_a_tool_does_is_not_its_name(text: str):
    assert found(text) == []


def test_several_tools_may_be_called_so_together():
    assert found("Use the get, set, and drop tools, or the list/find tools.") == ["`get", "`set", "`drop", "`list/find"]


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("Call x_y.", "Call another tool."),
        ("Call `x_y` now.", "Call `another tool` now."),
        ("Use the x_y tool.", "Use the other tool."),
        ("Use the `x_y` tool.", "Use the `other` tool."),
        ("Use x_y tool.", "Use another tool."),
        ("Use `x_y` tool.", "Use `another` tool."),
        ("Use x_y tools.", "Use other tools."),
        ("Use an 'x_y' tool.", "Use an 'other' tool."),
    ],
)
def test_plain_words_stand_for_a_name(text: str, after: str):
    [place] = places(text)
    assert text[: place.start] + instead_of(text, place) + text[place.end :] == after
    assert [name for name in found(after) if name != "`another"] in ([], ["`other"])


TEXTS = st.text(alphabet="aB1_-./:\\` ~\n'\"tol中é", max_size=40) | st.lists(
    st.sampled_from(["the", "tool", "tools", "call", "a_b", "`", "```", "\n", "x", ",", "and", "http://", ".", "'"]),
    max_size=12,
).map(" ".join)


@given(TEXTS)
def test_places_are_in_order_and_apart_and_a_word_of_several_parts_is_at_one(text: str):
    at = 0
    found_places = list(places(text))
    for place in found_places:
        assert at <= place.start < place.end <= len(text)
        at = place.end
    inside = {number for place in found_places for number in range(place.start, place.end)}
    urls = {number for url in re.finditer(r"[A-Za-z][A-Za-z0-9+.-]*://\S*", text) for number in range(*url.span())}
    for word in re.finditer(r"[A-Za-z]+_[A-Za-z]+", text):
        assert word.start() in inside | urls


# -- code marks ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a `b` c ``d ` e`` f", ["`b`", "``d ` e``"]),
        ("a `b\n\nc` d", []),
        ("a `b\nc` d `", ["`b\nc`"]),
        ("```py\na\n``\n```` \nb", ["```py\na\n``\n```` "]),
        ("> ~~~\n> ```\n> ~~~\nb", ["> ~~~\n> ```\n> ~~~"]),
        ("a\n  ```\nb `c`", ["  ```\nb `c`"]),
        ("```a``` b", ["```a```"]),
        ("no code", []),
    ],
)
def test_code_is_what_markdown_says_it_is(text: str, code: list[str]):
    pieces = list(by_code_marks(text))
    assert "".join(piece for piece, _ in pieces) == text
    assert [piece for piece, is_code in pieces if is_code] == code


@given(TEXTS)
def test_no_character_is_lost_between_code_and_prose(text: str):
    assert "".join(piece for piece, _ in by_code_marks(text)) == text


@given(TEXTS | st.text("aB tooL`~_-.:/\\\u0301é9", max_size=20))
def test_what_may_be_a_name_is_all_that_stands_at_places(text: str):
    assert [start for start, _ in candidates(text)] == [place.start for place in places(text)]


PARTS = ("Use the", "search", "tool", "a_b.", "x:", "`", "``c_d``", "```\n", "~~~", "\n\n", "\n- ", "end.", "no!")
MORE_PARTS = ("\u1680", ",", "http://a.io/b_c.", "e.g.", "another tool", "'", "/", "\t")
SENTENCES = st.lists(st.sampled_from(PARTS + MORE_PARTS), max_size=14).map(" ".join)


@settings(max_examples=300)
@given(st.lists(SENTENCES | TEXTS, max_size=3))
def test_what_is_found_in_many_texts_is_what_is_found_in_each(texts: list[str]):
    assert Candidates().among(texts) == [name for text in texts for name in found(text)]


@settings(max_examples=300)
@given(SENTENCES | TEXTS)
@example("`a://b.c_d` and `e` f_g\n```\nanother tool h.com x.y\n```\nthe search tool")
def test_what_is_counted_in_a_text_is_what_is_found_there(text: str):
    assert counted_candidates(text) == Counter(found(text))


@settings(max_examples=300)
@given(SENTENCES | TEXTS, st.data())
def test_what_is_found_in_parts_of_a_text_is_what_begins_there(text: str, data: st.DataObject):
    ends = sorted(data.draw(st.lists(st.integers(0, len(text)), min_size=2, max_size=2)))
    parts = [
        [name for at, name in candidates(text) if start <= at < end] for start, end in pairwise((0, *ends, len(text)))
    ]
    assert [list(part) for part in Candidates().parted(text, *ends)] == parts


@settings(max_examples=300)
@given(st.text("aB7é_-\\.:/+ ", max_size=40) | TEXTS)
@example("a.+b://c d+e://f Ab_Cd aBcDe-x \\_a")
def test_names_of_several_words_begin_where_the_pattern_has_them(text: str):
    assert several_words(text) == [each.start() for each in SEVERAL_WORDS_START.finditer(text)]
