"""What is denied to a caller stands in no word of what the caller may read or search; and no other word is lost."""

import random
import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from builders import GUEST, REAL_CATALOG
from denials import HOWS, LISTS, How, Lists, check, denial, indexed, policy_of, real_lists, some, store

from fakes.menu import tool
from toolcrib.catalog.gate import NameMaskers
from toolcrib.catalog.index import TEXT_COLUMNS, ToolIndex
from toolcrib.catalog.snapshot import Catalog
from toolcrib.catalog.views import FIELDS, CatalogView, CatalogViews
from toolcrib.policy.rules import Policy, VisibilityRule

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


@pytest.mark.slow
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
        monkeypatch.delattr(index.__class__, "versions")
        assert everything.reading.described(rows) == {
            row: (definition, index.cards([row])[row]) for row, definition in index.definitions(rows).items()
        }
        assert everything.reading.cards(rows) == index.cards(rows)
        words = {row: (each.version, each.texts) for row, each in everything.reading.words(rows).items()}
        assert words == {row: (version, (*texts, "", "")) for row, (version, texts) in index.words(rows).items()}
        assert everything.reading.texts() == index.texts(rows)


def test_what_a_tool_is_changed_to_is_worked_out_once(tmp_path, monkeypatch):
    denied = frozenset({("db", "drop_table")})
    policy = policy_of(denied, LISTS, "hidden")
    with indexed(tmp_path, LISTS, policy) as (index, catalog):
        it = denial(index, catalog, policy, denied, LISTS)
        first = it.reading.described(it.rows), it.reading.cards(it.rows)
        monkeypatch.setattr("toolcrib.catalog.views.texts_in", None)
        monkeypatch.setattr(it.reading.masker, "without", None)
        assert (it.reading.described(it.rows), it.reading.cards(it.rows)) == first
        assert not any("drop_table" in card.description for card in first[1].values())


def test_rows_that_are_gone_are_left_out(tmp_path):
    denied = frozenset({("db", "drop_table")})
    policy = policy_of(denied, LISTS, "hidden")
    with indexed(tmp_path, LISTS, policy) as (index, catalog):
        reading = denial(index, catalog, policy, denied, LISTS).reading
        assert reading.described([999]) == reading.cards([999]) == reading.texts_to_embed({}) == {}


# -- while rows are newer than the catalog -------------------------------------------------------

BEFORE: Lists = {
    "db": [
        tool("list_rows", "Lists rows. Safer than drop_table.", {"of": {"description": "What."}}),
        tool("drop_table"),
    ]
}
ONLY_LIST_ROWS = Policy(rules=[VisibilityRule({"profile": ("guest",)}, allow=("db.list_rows",))])
LATER: dict[str, Lists] = {
    "a name in another text": {
        "db": [
            tool("list_rows", "Safer than drop_table.", {"of": {"description": "No drop_table."}}),
            tool("drop_table"),
        ]
    },
    "a name that nobody knew": {"db": [tool("list_rows", "Safer than purge_all."), tool("purge_all")]},
    "no name": {"db": [tool("list_rows", "Lists."), tool("drop_table")]},
}
READS: dict[str, Callable[[CatalogView, int], Any]] = {
    "described": lambda reading, row: reading.described([row]),
    "cards": lambda reading, row: reading.cards([row]),
    "words": lambda reading, row: reading.words([row]),
    "texts": lambda reading, _: reading.texts(),
    "meanings": lambda reading, row: reading.texts_to_embed({row: "Safer than purge_all."}),
}
NO_WORDS = ("",) * len(FIELDS)


def only_list_rows(index: ToolIndex, catalog: Catalog) -> tuple[CatalogView, int]:
    """Return what a guest reads, who may use ``list_rows`` only, and its row."""
    permitted = catalog.permitted(ONLY_LIST_ROWS.permissions(GUEST))
    [row] = [each.row for each in permitted.tools if each.name == "list_rows"]
    return CatalogViews(index, NameMaskers(("db",), ())).view(catalog, permitted), row


@pytest.mark.parametrize("later", LATER.values(), ids=LATER)
def test_a_tool_whose_new_definition_is_in_no_catalog_yet_is_left_out(tmp_path, later: Lists):
    with indexed(tmp_path, BEFORE, ONLY_LIST_ROWS) as (index, catalog):
        reading, row = only_list_rows(index, catalog)
        assert reading.described([row])
        assert reading.cards([row])
        store(index, later, ONLY_LIST_ROWS)
        assert [read(reading, row) for read in READS.values()] == [{}] * len(READS)
        assert (reading.versions(), reading.edited()) == ([None], {row: NO_WORDS})


def test_a_row_of_a_new_file_is_not_taken_for_that_of_another_tool(tmp_path):
    (tmp_path / "new").mkdir()
    lists: Lists = {"db": [tool("drop_table", "Launches."), tool("list_rows")]}
    with (
        indexed(tmp_path, BEFORE, ONLY_LIST_ROWS) as (index, catalog),
        indexed(tmp_path / "new", lists, ONLY_LIST_ROWS) as (new, others),
    ):
        reading, row = only_list_rows(index, catalog)
        assert [each.name for each in others.tools if each.row == row] == ["drop_table"]
        reading._index = new
        assert [read(reading, row) for read in READS.values()] == [{}] * len(READS)
        assert (reading.versions(), reading.edited()) == ([None], {row: NO_WORDS})


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_list_that_is_stored_between_two_reads_leaves_no_name(tmp_path, monkeypatch: pytest.MonkeyPatch, read):
    with indexed(tmp_path, BEFORE, ONLY_LIST_ROWS) as (index, catalog):
        reading, row = only_list_rows(index, catalog)
        versions = index.versions

        def before(rows: Iterable[int]):
            store(index, LATER["no name"], ONLY_LIST_ROWS)
            return versions(rows)

        def after(rows: Iterable[int]):
            found = versions(rows)
            store(index, LATER["a name in another text"], ONLY_LIST_ROWS)
            return found

        for stored in (before, after):
            monkeypatch.setattr(index, "versions", stored)
            assert not re.search("(drop|purge).", str(read(reading, row)))


def test_to_whom_nothing_is_denied_it_is_shown_as_it_is_now(tmp_path):
    with indexed(tmp_path, BEFORE) as (index, catalog):
        permitted = catalog.permitted(Policy().permissions(GUEST))
        reading = CatalogViews(index, NameMaskers(("db",), ())).view(catalog, permitted)
        store(index, LATER["a name that nobody knew"], Policy())
        [row] = [each.row for each in permitted.tools if each.name == "list_rows"]
        assert reading.cards([row])[row].description == "Safer than purge_all."


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
        columns = zip(TEXT_COLUMNS, it.reading.words([row])[row].texts, strict=False)
        found = {column: sorted(text.split()) for column, text in columns if isinstance(text, str)}
        assert found["summary_text"] == sorted("drop a table with".split())
        assert found["body_text"] == sorted("then drop it the drop is s".split())
        assert found["params_description_text"] == ["as", "table"]
        assert found["tags_text"] == ["table"]
        assert it.reading.texts()[row][1:] == ("table",)
