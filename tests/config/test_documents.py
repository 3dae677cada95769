"""JSON, JSON with comments and YAML become the same objects, and their dangers become errors."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.base import yaml as yaml_documents
from toolcrib.base.errors import ConfigError
from toolcrib.base.yaml import parse_yaml
from toolcrib.config import documents
from toolcrib.config.documents import read


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "crib.json"


def read_text(file: Path, text: str) -> Any:
    file.write_text(text, encoding="utf-8")
    return read(file)


def error_of(file: Path, text: str | bytes) -> str:
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as caught:
        read(file)
    [problem] = caught.value.problems
    assert problem.path == "file"
    return problem.reason


# JSON


def test_comments_and_trailing_commas_are_understood(file: Path):
    text = "{// one\n \"a\": [1, 2,], /* two */ b: 'c',}"
    assert read_text(file, text) == ({"a": [1, 2], "b": "c"}, [])


def test_a_byte_order_mark_is_not_part_of_the_text(file: Path):
    assert read_text(file, "\ufeff{}") == ({}, [])


@pytest.mark.parametrize("name", ["crib.json", "crib.json5", "crib.yaml"])
def test_a_key_given_twice_is_a_problem_with_its_path(name: str, tmp_path: Path):
    comment = "# x\n" if name.endswith("yaml") else "// x\n" if name.endswith("5") else ""
    text = comment + '{"a": [{"b": 1, "b": 2, "b": 3}], "c": {}, "c": {}}'
    _, problems = read_text(tmp_path / name, text)
    assert sorted((problem.path, problem.reason) for problem in problems) == [
        ("a[0].b", "is given twice"),
        ("c", "is given twice"),
    ]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('{"a":\n "secret" 1}', "line 2"),
        ('// x\n{"a": "secret', "line 2"),
        ('{"a" "secret"}', "line 1, column 6: expected a colon before a text"),
        ('{"a": [1 secret]}', "line 1, column 10: expected a comma or ] before a word"),
        ('{"a": [1, 2}', "line 1, column 12: expected ], which closes the [ in line 1, column 7"),
        ('{"a": 1}}', "line 1, column 9: } closes nothing"),
        ('{"a": {"b": ["c"', "cut off in line 1: expected ]}} at the end, to close the [ in line 1, column 13"),
        ('{"a": 1 /* } */', "cut off in line 1: expected } at the end"),
        ("", "is empty"),
        ('{"secret": ' + "9" * 5000 + "}", "5000 digits"),
    ],
)
def test_what_is_not_json_is_refused_with_the_place_and_not_the_text(text: str, where: str, file: Path):
    reason = error_of(file, text)
    assert where in reason
    assert "secret" not in reason


def test_text_that_is_not_utf_8_is_refused(file: Path):
    assert error_of(file, b'{"a": "\xff"}') == "is not UTF-8 text: byte 8"


@pytest.mark.parametrize("text", ["[]", "3", '"x"', "null", "// x\n[]"])
def test_a_file_that_is_no_object_is_refused(text: str, file: Path):
    assert error_of(file, text).startswith("must be an object")


def test_numbers_and_text_that_no_program_accepts_are_problems(file: Path):
    text = r'{"a": NaN, "b": [1e999], "c": "\u0000", "d": "\ud800", "e\u0000": -Infinity}'
    _, problems = read_text(file, text)
    assert [(problem.path, problem.reason.split()[0]) for problem in problems] == [
        ("e", "has"), ("a", "is"), ("b[0]", "is"), ("c", "holds"), ("d", "holds"), ("e", "is"),
    ]  # fmt: skip


@pytest.mark.parametrize("depth", [documents.DEPTH_MAX + 2, 100_000])
@pytest.mark.parametrize("name", ["crib.json", "crib.yaml"])
def test_deep_nesting_is_refused(depth: int, name: str, tmp_path: Path):
    text = '{"a": ' + "[" * depth + "]" * depth + "}"
    assert error_of(tmp_path / name, text) == "is nested too deeply"


def test_deep_nesting_behind_a_comment_is_refused(file: Path):
    assert error_of(file, "// x\n" + "[" * 5000) == "is nested too deeply"


def test_the_size_of_a_file_is_bounded(file: Path):
    assert "larger than 4,194,304 bytes" in error_of(file, b" " * (documents.FILE_MAX_BYTES + 1))


def test_only_plain_json_may_be_long(tmp_path: Path):
    long = json.dumps({"a": "x" * documents.SLOW_MAX_CHARACTERS})
    assert read_text(tmp_path / "a.json", long)[1] == []
    assert "is not JSON: Expecting" in error_of(tmp_path / "a.json", "// comment\n" + long)
    assert "the most for YAML" in error_of(tmp_path / "a.yaml", long)


# YAML


def test_an_empty_yaml_file_is_an_empty_object(tmp_path: Path):
    assert read_text(tmp_path / "a.yml", "# nothing yet\n") == ({}, [])


def test_yaml_has_the_values_of_json_and_everything_else_is_text():
    text = """
    text: [no, on, 2026-11-20, 0123, 0x1F, 1:30, 1_000, .5, .inf, '1', =, "true", !!str 5, <<]
    numbers: [0, -12, 1.5, -2e3]
    others: [true, False, null, ~, ]
    empty:
    1: key
    no: key
    """
    assert parse_yaml(text) == {
        "text": "no on 2026-11-20 0123 0x1F 1:30 1_000 .5 .inf 1 = true 5 <<".split(),
        "numbers": [0, -12, 1.5, -2000.0],
        "others": [True, False, None, None],
        "empty": None,
        "1": "key",
        "no": "key",
    }


def test_aliases_and_merges_work_and_own_keys_win():
    text = """
    base: &base {a: 1, b: 2}
    more: &more {c: 3}
    one: {<<: *base, b: 5}
    two:
      <<: [*more, *base, {a: 7, d: 8}]
    same: *base
    """
    got = parse_yaml(text)
    assert got["one"] == {"b": 5, "a": 1}
    assert got["two"] == {"c": 3, "a": 1, "b": 2, "d": 8}
    assert got["same"] == got["base"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: [1, 2", "line 1, column 9"),
        ("a: *nowhere", "undefined alias"),
        ("a: &x [*x]", "once aliases are followed"),
        ("a: !!binary c2VjcmV0", "a tag that JSON has no value for"),
        ("a: !!python/object/apply:os.system [id]", "a tag that JSON has no value for"),
        ("a: !!set {b}", "a tag that JSON has no value for"),
        ("a: !!int secret", "not a value of its tag"),
        ("a: !!bool yes", "not a value of its tag"),
        ("a: " + "9" * 5000, "not a value of its tag"),
        ("? [a]\n: b", "a key must be text"),
        ("<<: 3", "<< takes an object"),
        ("<<: [{a: 1}, 3]", "<< takes an object"),
        ("a: 1\n---\nb: 2", "another document"),
        ("a: \x07", "character 4 is not allowed"),
        ("key: value: secret", "line 1, column 11"),
        ("a: b\n\tc: d", "line 2, column 1"),
    ],
)
def test_what_is_not_plain_yaml_is_refused_with_the_place_and_not_the_text(text: str, reason: str, tmp_path: Path):
    got = error_of(tmp_path / "a.yaml", text)
    assert got.startswith("is not YAML")
    assert reason in got
    assert "secret" not in got


@pytest.mark.parametrize("link", ["[{}]", "{{<<: [{}]}}"])
def test_an_alias_bomb_is_refused_before_it_is_built(link: str, tmp_path: Path):
    lines = ["a0: &a0 {k: v}"]
    for level in range(1, 12):
        many = ", ".join([f"*a{level - 1}"] * 9)
        lines.append(f"a{level}: &a{level} " + link.format(many))
    assert "more than 100,000 values" in error_of(tmp_path / "a.yaml", "\n".join(lines))
    assert yaml_documents.NODES_MAX == 100_000


# YAML lets a key have 1,024 characters, counted with its escapes.
_text = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"], exclude_characters="\x7f"), max_size=80)
_scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _text


@given(
    st.recursive(
        _scalars,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_text, inner, max_size=4),
        max_leaves=8,
    )
)
def test_json_is_yaml(value: Any):
    assert parse_yaml(json.dumps(value)) == value
