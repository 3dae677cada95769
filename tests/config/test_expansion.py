"""Variables in texts."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.config.variables import Variables

ENVIRON = {"A": "apple", "EMPTY": "", "CURLY": "${A}", "_x1": "under"}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("${A}", "apple"),
        ("${env:A}", "apple"),
        ("<${A}|${_x1}>", "<apple|under>"),
        ("${A:-b}", "apple"),
        ("${UNSET:-}", ""),
        ("${UNSET:-a $b :-c}", "a $b :-c"),
        ("${env:UNSET:-d}", "d"),
        ("${EMPTY}", ""),
        ("${EMPTY:-d}", "d"),
        ("${CURLY}", "${A}"),
        ("$A $$ {A} ${} ${1} ${a b} ${", "$A $$ {A} ${} ${1} ${a b} ${"),
    ],
)
def test_variables_are_filled_in(text: str, filled: str):
    variables = Variables(ENVIRON)
    assert variables.fill(text, "here") == filled
    assert variables.missing == []


def test_every_string_is_filled_and_nothing_else_is_touched():
    value = {"${A}": ["${A}", 1, None, True, 1.5, {"b": "${A}"}]}
    assert Variables(ENVIRON).fill(value, "") == {"${A}": ["apple", 1, None, True, 1.5, {"b": "apple"}]}


def test_a_variable_that_is_not_set_is_named_with_its_place_and_a_way_out():
    variables = Variables(ENVIRON)
    variables.fill({"list": ["x", "${TOKEN} ${OTHER}"]}, "it")
    assert [str(problem) for problem in variables.missing] == [
        "it.list[1]: the variable TOKEN is not set (set it, or write ${TOKEN:-default})",
        "it.list[1]: the variable OTHER is not set (set it, or write ${OTHER:-default})",
    ]


@pytest.mark.parametrize("text", ["${input:token}", "${workspace:folder}", "${A:=b}", "${A:-${B}}"])
def test_spellings_of_other_programs_count_as_missing(text: str):
    variables = Variables(ENVIRON)
    variables.fill(text, "it")
    [problem] = variables.missing
    assert "is not a variable that toolcrib knows" in problem.reason


def test_the_values_that_were_filled_in_are_remembered_but_not_the_defaults():
    variables = Variables(ENVIRON)
    variables.fill(["${A}", "${UNSET:-default}"], "it")
    assert variables.values == ["apple"]


@given(st.recursive(st.text("${}:-AB"), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_text_without_a_variable_stays_as_it_is(value: Any):
    variables = Variables({})
    filled = variables.fill(value, "it")
    if "${" not in str(value):
        assert filled == value
        assert variables.missing == []
