"""Foreign patterns are RE2's, bounded, and never raise anything but a PatternError."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.base.patterns import PatternError, compile_pattern


def test_a_pattern_matches_in_re2_syntax():
    pattern = compile_pattern(r"(list|search)_\w+")
    assert pattern.fullmatch("list_files")
    assert not pattern.fullmatch("list_files!")
    assert pattern.match("list_files!")
    assert not pattern.match("x list_files")
    found = pattern.search("x list_files!")
    assert found
    assert (found.start(), found.end()) == (2, 12)
    assert pattern.search("nothing") is None


def test_case_counts_unless_it_is_to_be_ignored():
    assert compile_pattern("LIST").search("list") is None
    assert compile_pattern("LIST", ignore_case=True).search("list")
    assert compile_pattern("É", ignore_case=True).search("é")


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("[", "missing ]"),
        ("(", r"missing \)"),
        ("*", "no argument for repetition operator"),
        ("(?=x)", "invalid perl operator"),
        ("(?<!x)y", "invalid"),
        (r"(a)\1", "invalid escape sequence"),
        ("a{2000}", "invalid repetition size"),
        (r"(\pL{30}|\pN{30}){30}", "too large"),
        ("\ud800", "lone surrogate"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_reason(pattern: str, reason: str):
    with pytest.raises(PatternError, match=reason):
        compile_pattern(pattern)


@given(st.text(max_size=100), st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
def test_any_text_compiles_and_matches_or_is_refused(pattern: str, subject: str):
    with suppress(PatternError):
        compiled = compile_pattern(pattern)
        for match in (compiled.search, compiled.match, compiled.fullmatch):
            match(subject)


def test_no_pattern_can_hang_the_program():
    for pattern in ("(a+)+$", "(a|aa)+$", "(.*)*x", "^(([a-z])+.)+[A-Z]([a-z])+$"):
        compile_pattern(pattern).search("a" * 1000 + "!")
