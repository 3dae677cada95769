"""Public names are total, injective, stable and in the protocol's alphabet."""

import random
import re
import string

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from toolcrib.base.model import BUILTIN_NAMES
from toolcrib.base.names import bare_name, may_belong_to, public_name, qualified_spellings

ALPHABET = re.compile(r"[A-Za-z0-9_-]+\Z")
ANY_NAME = st.text(st.characters(exclude_characters="\0"), min_size=1, max_size=80)
PLAIN_NAME = st.text(string.ascii_letters + string.digits + "_-", min_size=1, max_size=40)
NAMES = ANY_NAME | PLAIN_NAME


@pytest.mark.parametrize(
    ("server", "tool", "public"),
    [
        ("github", "create_issue", "github__create_issue"),
        ("my-server", "do__it", "my-server__do__it"),
        ("A1", "x" * 60, "A1__" + "x" * 60),
        ("_x", "-y_", "_x__-y_"),
    ],
)
def test_plain_names_stay_as_they_are(server: str, tool: str, public: str):
    assert public_name(server, tool) == public


@pytest.mark.parametrize(
    ("server", "tool", "begins"),
    [
        ("github", "create issue", "github__create-issue-"),
        ("git.hub", "x", "git-hub__x-"),
        ("a__b", "c", "a__b__c-"),
        ("a_", "b", "a___b-"),
        ("a", "x" * 62, "a__" + "x" * 52 + "-"),
        ("s", "tool-0123abcd", "s__tool-0123abcd-"),
        ("", "x", "__x-"),
        ("s", "", "s__-"),
        ("ü", "é\n", "-__---"),
        ("s", "x\n", "s__x--"),
    ],
)
def test_other_names_are_cleaned_and_end_in_a_hash(server: str, tool: str, begins: str):
    public = public_name(server, tool)
    assert public.startswith(begins)
    assert re.fullmatch(r"-[0-9a-f]{8}", public[-9:])


def test_a_name_is_the_same_on_every_machine_and_in_every_release():
    assert public_name("my server", "do it!") == "my-server__do-it--ce09b029"
    assert public_name("s", "t" * 100, 24) == "s__" + "t" * 12 + "-" + public_name("s", "t" * 100)[-8:]


@given(NAMES, NAMES, st.integers(24, 128))
@example("\ud800", "\udfff", 64)
@example("", "", 24)
def test_every_pair_has_a_name_in_the_alphabet_and_within_the_length(server: str, tool: str, name_max: int):
    public = public_name(server, tool, name_max)
    assert ALPHABET.match(public)
    assert len(public) <= name_max
    assert public == public_name(server, tool, name_max)
    assert public not in BUILTIN_NAMES


@settings(max_examples=3 * settings.default.max_examples)
@given(st.tuples(NAMES, NAMES), st.tuples(NAMES, NAMES))
@example(("a__b", "c"), ("a", "b__c"))
@example(("a_", "b"), ("a", "_b"))
@example(("a", "_b"), ("a_", "_b"))
@example(("s", "a b"), ("s", "a-b"))
@example(("s", "a b"), ("s", public_name("s", "a b").removeprefix("s__")))
@example(("s", "x" * 100 + "1"), ("s", "x" * 100 + "2"))
@example(("\u0430", "x"), ("a", "x"))
def test_two_pairs_never_share_a_name(one: tuple[str, str], two: tuple[str, str]):
    assert (public_name(*one) == public_name(*two)) is (one == two)


def test_twenty_thousand_pairs_that_look_alike_have_as_many_names():
    chance = random.Random(20_000)
    letters = "aA_-. b/\u0430\u00e9"
    pairs: set[tuple[str, str]] = set()
    while len(pairs) < 20_000:
        server, tool = ("".join(chance.choices(letters, k=chance.randint(1, 6))) for _ in range(2))
        pairs.add((server, tool))
    for name_max in (24, 64):
        assert len({public_name(server, tool, name_max) for server, tool in pairs}) == 20_000


@given(PLAIN_NAME, PLAIN_NAME)
def test_the_spellings_of_a_name_all_name_the_server(server: str, tool: str):
    public = public_name(server, tool)
    spellings = qualified_spellings(server, tool, public)
    assert spellings[0] == public
    assert tool not in spellings
    assert {spelling.replace(server, "S", 1) for spelling in spellings[1:]} == {
        f"S{mark}{tool}" for mark in ("__", ".", "/", ":")
    }
    assert all(bare_name(spelling, server) == tool for spelling in spellings[1:])


@given(NAMES, NAMES)
def test_every_spelling_of_a_tool_may_belong_to_its_server(server: str, tool: str):
    public = public_name(server, tool, 128)
    spellings = qualified_spellings(server, tool, public)
    assert all(may_belong_to(spelling, server) for spelling in spellings[1:])
    if len(server) < 100:
        assert may_belong_to(public, server)


@pytest.mark.parametrize("name", ["x", "db", "dbx", "d__x", "x__db", "xdb__y", ""])
def test_other_names_do_not_belong_to_a_server(name: str):
    assert not may_belong_to(name, "db")
    assert bare_name(name, "db") is None
