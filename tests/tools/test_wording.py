"""What is denied to a caller stands in no word of what the caller may read or search; and no other word is lost."""

import random

import pytest
from builders import REAL_CATALOG
from denials import HOWS, LISTS, How, check, denial, indexed, policy_of, real_lists, some

from fakes.menu import tool
from toolcrib.access.policy import Policy
from toolcrib.tools.index.tables import TEXT_COLUMNS

needs_catalog = pytest.mark.skipif(
    not REAL_CATALOG.is_dir(), reason=f"the lists of real servers are not at {REAL_CATALOG}"
)


# -- any denials ---------------------------------------------------------------------------------


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("seed", range(12))
def test_no_name_of_a_denied_tool_is_left_and_no_other_word_is_lost(tmp_path, how: How, seed: int):
    denied = some(LISTS, random.Random(seed))
    policy = policy_of(denied, LISTS, how)
    with indexed(tmp_path, LISTS, policy) as (index, catalog):
        check(denial(index, catalog, policy, denied, LISTS))


@needs_catalog
@pytest.mark.parametrize("how", HOWS)
def test_nor_in_the_lists_of_real_servers(tmp_path, how: How):
    dice = random.Random(HOWS.index(how))
    lists = dict(dice.sample(sorted(real_lists().items()), 12))
    denied = some(lists, dice)
    policy = policy_of(denied, lists, how)
    with indexed(tmp_path, lists, policy) as (index, catalog):
        check(denial(index, catalog, policy, denied, lists))


# -- what it takes -------------------------------------------------------------------------------


def test_where_nothing_is_denied_the_index_is_read_as_it_is(tmp_path, monkeypatch):
    with indexed(tmp_path, LISTS) as (index, catalog):
        everything = denial(index, catalog, Policy(), frozenset(), LISTS)
        rows = everything.rows
        monkeypatch.delattr(index.__class__, "mentions")
        assert everything.reading.described(rows) == {
            row: (definition, index.cards([row])[row]) for row, definition in index.definitions(rows).items()
        }
        assert everything.reading.cards(rows) == index.cards(rows)
        words = {row: (each.version, each.texts) for row, each in everything.reading.words(rows).items()}
        assert words == index.words(rows)
        assert everything.reading.texts() == index.texts(rows)


def test_what_a_tool_is_changed_to_is_worked_out_once(tmp_path, monkeypatch):
    denied = frozenset({("db", "drop_table")})
    policy = policy_of(denied, LISTS, "hidden")
    with indexed(tmp_path, LISTS, policy) as (index, catalog):
        it = denial(index, catalog, policy, denied, LISTS)
        first = it.reading.described(it.rows), it.reading.cards(it.rows)
        monkeypatch.setattr("toolcrib.tools.wording.texts_in", None)
        monkeypatch.setattr(it.reading.mentions, "without", None)
        assert (it.reading.described(it.rows), it.reading.cards(it.rows)) == first
        assert not any("drop_table" in card.description for card in first[1].values())


def test_a_tool_that_has_changed_meanwhile_is_read_anew(tmp_path):
    denied = frozenset({("db", "drop_table")})
    policy = policy_of(denied, LISTS, "hidden")
    with indexed(tmp_path, LISTS, policy) as (index, catalog):
        it = denial(index, catalog, policy, denied, LISTS)
        [row] = [each.row for each in it.tools if each.name == "read_row"]
        before = it.reading.described([row]), it.reading.cards([row])
        assert all("drop_table" not in str(said) for said in before)
    changed = {**LISTS, "db": [tool("read_row", "Now drop_table, and that is all."), *LISTS["db"][1:]]}
    with indexed(tmp_path, changed, policy) as (index, _):
        it.reading._index = index
        assert it.reading.described([row])[row][0]["description"] == "Now another tool, and that is all."
        assert it.reading.cards([row])[row].description == "Now another tool, and that is all."


def test_rows_that_are_gone_are_left_out(tmp_path):
    denied = frozenset({("db", "drop_table")})
    policy = policy_of(denied, LISTS, "hidden")
    with indexed(tmp_path, LISTS, policy) as (index, catalog):
        reading = denial(index, catalog, policy, denied, LISTS).reading
        assert reading.described([999]) == reading.cards([999]) == reading.meanings({}) == {}


# -- what is searched ----------------------------------------------------------------------------


def test_words_that_only_a_denied_name_has_brought_are_not_searched(tmp_path):
    said = "Drop a table with drop_table. Then `drop` it: the drop is db.drop_table's."
    parameters = {"of": {"description": "As drop_table", "enum": ["drop_table", "table"]}}
    lists = {"db": [tool("read_row", said, parameters, _meta={"tags": ["drop_table", "table"]}), tool("drop_table")]}
    denied = frozenset({("db", "drop_table")})
    policy = policy_of(denied, lists, "hidden")
    with indexed(tmp_path, lists, policy) as (index, catalog):
        it = denial(index, catalog, policy, denied, lists)
        [row] = it.rows
        columns = zip(TEXT_COLUMNS, it.reading.words([row])[row].texts, strict=True)
        found = {column: sorted(text.split()) for column, text in columns if isinstance(text, str)}
        assert found["summary_text"] == sorted("drop a table with".split())
        assert found["body_text"] == sorted("then drop it the drop is s".split())
        assert found["params_description_text"] == ["as", "table"]
        assert found["tags_text"] == ["table"]
        assert it.reading.texts()[row][1:] == ("table",)
