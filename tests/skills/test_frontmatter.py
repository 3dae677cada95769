"""Frontmatter is YAML 1.2 where it can be, and mended with a word about it where it cannot."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.base import yaml as yaml_documents
from toolcrib.base.yaml import YamlError, parse_yaml
from toolcrib.skills.formats.frontmatter import (
    FRONTMATTER_MAX,
    Fields,
    UnreadableText,
    decode,
    read_frontmatter,
    split,
)


def read(text: str) -> Fields:
    return read_frontmatter(text, path="a/SKILL.md")


def codes(fields: Fields) -> list[tuple[str, str, int]]:
    assert {problem.path for problem in fields.problems} <= {"a/SKILL.md"}
    return [(problem.level, problem.code, problem.line) for problem in fields.problems]


def only(values: str) -> dict[str, Any]:
    """Return the fields of a frontmatter that had to be mended in one way."""
    fields = read(f"---\n{values}\n---\nbody")
    [problem] = fields.problems
    assert (problem.level, problem.code) == ("warning", "yaml-quoted"), problem
    assert fields.body == "body"
    assert fields.values is not None
    return fields.values


# bytes


@pytest.mark.parametrize(
    ("raw", "code", "line"),
    [
        (b"x" * 11, "file-too-large", 0),
        (b"ok\nn\xff", "file-not-utf8", 2),
        (b"a\n\nb\0c", "file-with-nul", 3),
        (b"", "file-empty", 0),
        (b"\xef\xbb\xbf \r\n", "file-empty", 0),
    ],
)
def test_what_is_no_text_is_refused_with_the_reason(raw: bytes, code: str, line: int):
    with pytest.raises(UnreadableText) as caught:
        decode(raw, 10)
    assert (caught.value.code, caught.value.line) == (code, line)
    assert str(caught.value)


# the two parts


def test_a_file_is_cut_into_frontmatter_and_body():
    front = split("---\nname: a\n---\n\n# Body\n---\nmore", path="p")
    assert (front.yaml, front.yaml_line, front.body, front.body_line) == ("name: a\n", 2, "\n# Body\n---\nmore", 4)
    assert front.problems == ()


@pytest.mark.parametrize("text", ["# Title\n", "--\nname: a\n--\n", "x\n---\nname: a\n---\n", "----\na: b\n----"])
def test_a_file_without_frontmatter_is_one_error(text: str):
    fields = read(text)
    assert fields.values is None
    assert codes(fields) == [("error", "frontmatter-missing", 1)]


def test_marks_of_other_editors_are_told_and_do_no_harm():
    fields = read("\ufeff\r\n \r\n---\r\nname: a\r\n--- \r\nbody\r\nmore\rend")
    assert fields.values == {"name": "a"}
    assert (fields.body, fields.body_line) == ("body\nmore\nend", 6)
    assert codes(fields) == [
        ("info", "file-with-bom", 1),
        ("info", "file-with-crlf", 1),
        ("warning", "frontmatter-late", 1),
    ]


def test_fields_without_a_closing_fence_are_taken():
    fields = read("---\nname: a\ndescription: b\n  goes on\ntags:\n- x\n\n# Title\ntext: no")
    assert fields.values == {"name": "a", "description": "b goes on", "tags": ["x"]}
    assert (fields.body, fields.body_line) == ("\n# Title\ntext: no", 7)
    assert codes(fields) == [("warning", "frontmatter-unclosed", 1)]


@pytest.mark.parametrize("text", ["---", "---\n", "---\n---", "---\n# only a comment\n---\n"])
def test_an_empty_frontmatter_has_no_fields(text: str):
    assert read(text).values == {}


def test_a_rule_in_the_body_does_not_swallow_the_body():
    fields = read("---\nname: a\ndescription: b\n\nProse: with `marks`\nand more.\n\n---\nend")
    assert fields.values == {"name": "a", "description": "b"}
    assert fields.body == "\nProse: with `marks`\nand more.\n\n---\nend"
    assert [code for _, code, _ in codes(fields)] == ["frontmatter-unclosed"]


@pytest.mark.parametrize("yaml", ["just words", "- a\n- b", "~", "[a, b]"])
def test_a_frontmatter_without_fields_is_one_error(yaml: str):
    fields = read(f"---\n{yaml}\n---\n")
    assert fields.values is None
    assert codes(fields) == [("error", "frontmatter-not-fields", 2)]


def test_the_size_of_a_frontmatter_is_bounded():
    fields = read("---\na: " + "x" * FRONTMATTER_MAX + "\n---\n")
    assert codes(fields) == [("error", "frontmatter-too-large", 2)]


def test_a_field_given_twice_is_told_and_the_last_one_counts():
    fields = read("---\nname: a\nname: b\nmetadata: {c: 1, c: 2}\n---\n")
    assert fields.values == {"name": "b", "metadata": {"c": 2}}
    assert codes(fields) == [("warning", "field-repeated", 2)]
    assert "name, c;" in fields.problems[0].message


# the core schema


def test_scalars_are_those_of_the_core_schema():
    text = """
    text: [no, on, 2026-11-20, 0b1, 1:30, 1_000, '1', =, <<, -, "true", !!str 5, +, 0o8, 1e, .e1]
    numbers: [0, -12, +1, 012, 0o17, 0x1F, 1.5, -2e3, .5, 1., +.5e-1]
    others: [true, False, null, ~, ]
    1: key
    no: key
    <<: {a: b}
    own: !thing {a: !!binary c2Vj, b: !set [1]}
    int: !!int five
    """
    assert parse_yaml(text, core=True) == {
        "text": [
            "no",
            "on",
            "2026-11-20",
            "0b1",
            "1:30",
            "1_000",
            "1",
            "=",
            "<<",
            "-",
            "true",
            "5",
            "+",
            "0o8",
            "1e",
            ".e1",
        ],
        "numbers": [0, -12, 1, 12, 15, 31, 1.5, -2000.0, 0.5, 1.0, 0.05],
        "others": [True, False, None, None],
        "1": "key",
        "no": "key",
        "<<": {"a": "b"},
        "own": {"a": "c2Vj", "b": [1]},
        "int": "five",
    }


def test_infinities_are_numbers_and_numbers_of_thousands_of_digits_are_text():
    got = parse_yaml("a: [.inf, -.INF, .NaN]\nb: " + "9" * 5000 + "\nc: 0x" + "f" * 5000, core=True)
    assert [str(value) for value in got["a"]] == ["inf", "-inf", "nan"]
    assert (got["b"], got["c"]) == ("9" * 5000, "0x" + "f" * 5000)


@pytest.fixture(params=["fast", "slow"])
def _parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    if request.param == "slow":
        monkeypatch.setattr(yaml_documents, "LOADER", yaml_documents.yaml.SafeLoader)


@pytest.mark.usefixtures("_parser")
@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        ("a: [1, 2", "line 1, column 9", 1),
        ("a: b\n\nc: *nowhere", "undefined alias", 3),
        ("a: \ufeffb", "character 4 is not allowed", 0),
        ("\ud800", "character 1 is not allowed", 0),
        ('a: "\\ud800"', "escape code", 1),
        ("? [a]\n: b", "a key must be text", 1),
        ("a: b\n---\nc: d\n", "another document", 2),
        ("[" * 100_000, "nested too deeply", 0),
        ("- " * 5000, "nested too deeply", 0),
        ("a: &x [*x]", "once aliases are followed", 1),
        ("a: &x {b: &x [*x]}", "once aliases are followed", 1),
        ("a: &a " + "x" * 50_000 + "\nb: [" + "*a, " * 200 + "]", "once aliases are followed", 2),
    ],
)
def test_what_is_no_yaml_is_refused_at_once_by_either_parser(text: str, reason: str, line: int):
    with pytest.raises(YamlError, match=reason) as caught:
        parse_yaml(text, core=True)
    assert caught.value.line == line


@pytest.mark.usefixtures("_parser")
def test_anchors_may_be_given_again_and_aliases_may_be_keys():
    assert parse_yaml("a: &x 1\nb: &x [2]\nc: *x\nd: &k e\n*k : f", core=True) == {
        "a": 1, "b": [2], "c": [2], "d": "e", "e": "f",
    }  # fmt: skip


# mending


@pytest.mark.parametrize(
    ("yaml", "values"),
    [
        ("name: a\ndescription: Use when: asked", {"name": "a", "description": "Use when: asked"}),
        ("description: `code` first", {"description": "`code` first"}),
        ("description: @handle", {"description": "@handle"}),
        ("description: %d of *them", {"description": "%d of *them"}),
        ("description: *.md files", {"description": "*.md files"}),
        ("hint: [a] [b]", {"hint": "[a] [b]"}),
        ("hint: [a, b", {"hint": "[a, b"}),
        ('description: "quoted" and more', {"description": '"quoted" and more'}),
        ("description: 'it''s' fine\nb: c: d", {"description": "'it''s' fine", "b": "c: d"}),
        ('a: "kept: so" # note\nb: c: d', {"a": "kept: so", "b": "c: d"}),
        ("a:\tb\n\tc\nd: 1", {"a": "b c", "d": 1}),
        ("a: b: c\n  goes: on\nd: [1]", {"a": "b: c goes: on", "d": [1]}),
        ("tags:\n  - a: b: c\n  - plain\nx: true", {"tags": [{"a": "b: c"}, "plain"], "x": True}),
        ("a: |\n  kept: as: is\n\n  so\nb: c: d", {"a": "kept: as: is\n\nso\n", "b": "c: d"}),
        ("a: > folded wrongly\nb: - dash", {"a": "> folded wrongly", "b": "- dash"}),
        ("metadata:\n  key: a: b\n  other: 2", {"metadata": {"key": "a: b", "other": 2}}),
        ("a: ends with:", {"a": "ends with:"}),
        ("a: b\x07\u200bc", {"a": "bc"}),
    ],
)
def test_values_that_need_quotes_are_read_as_if_they_had_them(yaml: str, values: dict[str, Any]):
    assert only(yaml) == values


def test_a_mended_frontmatter_is_told_with_its_place_and_reason():
    fields = read("---\nname: a\ndescription: b: c\n---\n")
    [problem] = fields.problems
    assert problem.line == 3
    assert problem.message.startswith("the frontmatter is not YAML: line 3, column 15: mapping values are not allowed")


def test_what_quotes_do_not_mend_is_read_line_by_line():
    fields = read(
        "---\nname: 'a\ndescription: >\n  first: {\n  second\ntags:\n  - x\n  - 'y'\n"
        "flag: true\nopen: {a\n} stray\n\n---\nbody"
    )
    assert fields.values == {
        "name": "a",
        "description": "first: { second",
        "tags": ["x", "y"],
        "flag": True,
        "open": "{a } stray",
    }
    assert [code for _, code, _ in codes(fields)] == ["yaml-scanned"]
    assert fields.body == "body"


def test_what_cannot_be_mended_is_one_error_with_the_reason():
    fields = read("---\n[[[\n---\n")
    assert fields.values is None
    [problem] = fields.problems
    assert (problem.level, problem.code) == ("error", "frontmatter-unreadable")
    assert "is not YAML: line" in problem.message


_lines = st.sampled_from(
    [
        "---",
        "name: a",
        "description: b: c",
        "- x",
        "  y: [",
        "}",
        '"',
        "'a",
        "",
        "# t",
        "|",
        "a: |",
        "\t- z",
        "a: &x",
        "*x",
        "k: *x",
    ]
)


@given(st.lists(_lines | st.text(max_size=12), max_size=14))
def test_whatever_stands_there_has_fields_or_exactly_one_error(lines: list[str]):
    fields = read("---\n" + "\n".join(lines))
    errors = [problem for problem in fields.problems if problem.level == "error"]
    assert len(errors) == (fields.values is None)
