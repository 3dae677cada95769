"""The index of tools: kept in step with a server's list, and given back as it came."""

import dataclasses
import json
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from builders import REAL_CATALOG, listing, numbered, opened, real_listing, record, replace, watched
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolcrib.base.errors import StoreError
from toolcrib.base.model import Example, LoadingMode, Refused, SideEffects
from toolcrib.catalog.index import Card, Changes

HOUR = 3600.0


def outside(path: Path, sql: str, *parameters: object) -> list[tuple]:
    """Do what another program with the same file open would do."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(sql, parameters).fetchall()
        connection.commit()
    return rows


def test_a_list_comes_back_as_light_tools(path: Path):
    with opened(path) as world:
        ingest = listing(
            "git",
            record("git", "log", "Shows commits.", mode=LoadingMode.ALWAYS, side_effects=SideEffects.READ),
            record("git", "push", "Sends commits."),
        )
        assert replace(world.index, ingest) == Changes(2, 0, 0)
        log, push = world.index.load({"git": "c1"})
        assert (log.server, log.name, log.public_name) == ("git", "log", "git__log")
        assert (log.loading_mode, log.side_effects, log.read_only) == (
            LoadingMode.ALWAYS,
            SideEffects.READ,
            True,
        )
        assert (push.loading_mode, push.side_effects, push.read_only) == (LoadingMode.DEFERRED, None, False)
        assert log.fingerprint == ingest.records[0].fingerprint
        assert log.row != push.row


def test_only_what_changed_is_written(path: Path):
    with opened(path) as world:
        replace(world.index, listing("s", record("s", "a", "A."), record("s", "b", "B."), record("s", "c", "C.")))
        before = {tool.name: tool.row for tool in world.index.load({"s": "c1"})}
        changed = listing("s", record("s", "a", "A."), record("s", "b", "Better."), record("s", "d", "D."))
        assert replace(world.index, changed, now=2000.0) == Changes(added=1, updated=1, removed=1)
        after = {tool.name: tool.row for tool in world.index.load({"s": "c1"})}
        assert after.keys() == {"a", "b", "d"}
        assert (after["a"], after["b"]) == (before["a"], before["b"])
        assert after["d"] not in before.values()
    rows = outside(path, "SELECT tool, created_at, updated_at FROM tools ORDER BY tool")
    assert rows == [("a", 1000.0, 1000.0), ("b", 1000.0, 2000.0), ("d", 2000.0, 2000.0)]


def test_a_changed_example_is_one_update(path: Path):
    with opened(path) as world:
        replace(world.index, listing("s", record("s", "a", "A."), record("s", "b", "B.")))
        example = Example({"x": 1}, "One.", ("minimal",))
        with_example = listing("s", record("s", "a", "A.", examples=[example]), record("s", "b", "B."))
        assert replace(world.index, with_example, config="c2") == Changes(0, 1, 0)
        (row, _) = (tool.row for tool in world.index.load({"s": "c2"}))
        assert world.index.cards([row])[row].examples == (example,)


def test_the_same_list_again_writes_nothing(path: Path):
    with opened(path) as world:
        replace(world.index, numbered("s", 50), era="legacy")
    content = path.read_bytes()
    with opened(path) as world, watched(path) as written:
        assert replace(world.index, numbered("s", 50), now=1000.0 + HOUR - 1, era="legacy") == Changes(0, 0, 0)
        world.index.retain(["s"])
        world.index.load({"s": "c1"})
        assert not written()
    assert path.read_bytes() == content


@pytest.mark.parametrize("now", [1000.0 + HOUR, 10.0])
def test_an_old_or_future_time_of_listing_is_moved(path: Path, now: float):
    with opened(path) as world:
        replace(world.index, numbered("s", 2))
        replace(world.index, numbered("s", 2), now=now)
        assert world.index.server_rows()["s"].listed_at == now


def test_what_is_known_of_servers_is_kept(path: Path):
    refused = (Refused("bad\ud800", "listed twice"),)
    with opened(path) as world:
        replace(world.index, listing("a", record("a", "x"), refused=refused), config="fa", era="modern")
        replace(world.index, listing("b"), config="fb")
    with opened(path) as world:
        rows = world.index.server_rows()
        assert [*rows] == ["a", "b"]
        a, b = rows.values()
        assert (a.config_fingerprint, a.listed_at, a.era, a.tool_count, a.refused) == (
            "fa",
            1000.0,
            "modern",
            1,
            refused,
        )
        assert (b.config_fingerprint, b.era, b.tool_count, b.refused) == ("fb", None, 0, ())
        assert len(a.catalog_fingerprint) == 64


def test_an_era_is_remembered_until_another_is_seen(path: Path):
    with opened(path) as world:
        replace(world.index, numbered("s", 1), era="legacy")
        replace(world.index, numbered("s", 2), era=None)
        assert world.index.server_rows()["s"].era == "legacy"
        replace(world.index, numbered("s", 2), era="modern")
        assert {key: row.era for key, row in world.index.server_rows().items()} == {"s": "modern"}


def test_only_the_servers_asked_for_are_loaded_and_only_under_their_config(path: Path):
    with opened(path) as world:
        replace(world.index, numbered("a", 2), config="fa")
        replace(world.index, numbered("b", 3), config="fb")
        replace(world.index, listing("empty"), config="fe")
        asked = {"b": "fb", "a": "changed", "empty": "fe", "new": "fn"}
        assert {tool.server for tool in world.index.load(asked)} == {"b"}
        assert world.index.server_rows()["a"].tool_count == 2  # for the differences of the next listing


def test_an_inserted_row_makes_its_server_unknown_and_is_gone(path: Path):
    with opened(path) as world:
        replace(world.index, numbered("s", 2))
        replace(world.index, numbered("t", 2))
    outside(
        path,
        "INSERT INTO tools(name, namespace, tool, description) VALUES ('s__evil', 's', 'evil', 'Run it.')",
    )
    with opened(path) as world:
        assert {tool.server for tool in world.index.load({"s": "c1", "t": "c1"})} == {"t"}
        assert [*world.index.server_rows()] == ["t"]
        assert replace(world.index, numbered("s", 2)) == Changes(2, 0, 0)
        assert "evil" not in {tool.name for tool in world.index.load({"s": "c1", "t": "c1"})}
        assert world.index.check() == []


@pytest.mark.parametrize(
    "tampering",
    [
        "UPDATE tools SET hash = 'x' WHERE tool = 'tool_0'",
        "UPDATE tools SET read_only = 1 WHERE tool = 'tool_0'",
        "UPDATE tools SET loading_mode = 'nonsense' WHERE tool = 'tool_0'",
        "UPDATE tools SET namespace = 'other' WHERE tool = 'tool_0'",
        "DELETE FROM tools WHERE tool = 'tool_0'",
        "DELETE FROM servers",
    ],
)
def test_rows_that_others_changed_are_not_used(path: Path, tampering: str):
    with opened(path) as world:
        replace(world.index, numbered("s", 3))
    outside(path, tampering)
    with opened(path) as world:
        assert world.index.load({"s": "c1"}) == []
        assert world.index.server_rows() == {}


def test_a_row_for_a_server_never_listed_is_dropped(path: Path):
    with opened(path):
        pass
    outside(path, "INSERT INTO tools(name, namespace, description) VALUES ('s__x', 's', '')")
    with opened(path) as world:
        assert world.index.load({"s": "c1"}) == []
        assert outside(path, "SELECT count(*) FROM tools") == [(0,)]


def test_a_name_that_a_row_of_another_server_holds_goes_to_its_owner(path: Path):
    with opened(path) as world:
        replace(world.index, numbered("thief", 1))
    outside(path, "UPDATE tools SET name = 's__tool_0'")
    with opened(path) as world:
        assert replace(world.index, numbered("s", 1)) == Changes(1, 0, 0)
        assert [tool.server for tool in world.index.load({"s": "c1", "thief": "c1"})] == ["s"]


def test_servers_that_are_not_configured_any_more_are_dropped(path: Path):
    with opened(path) as world:
        for server in ("a", "b", "c"):
            replace(world.index, numbered(server, 2))
        world.index.retain(["b"])
        assert [*world.index.server_rows()] == ["b"]
        assert outside(path, "SELECT DISTINCT namespace FROM tools") == [("b",)]
        assert world.index.check() == []


def test_clearing_forgets_every_tool_and_server(path: Path):
    with opened(path) as world:
        replace(world.index, numbered("s", 5))
        world.index.clear()
        assert world.index.server_rows() == {}
        assert world.index.load({"s": "c1"}) == []
        assert world.index.check() == []


def test_the_tables_have_the_promised_columns_and_indexes(path: Path):
    with opened(path):
        pass
    columns = {row[1]: (row[2], row[3], row[4]) for row in outside(path, "PRAGMA table_info(tools)")}
    assert columns.keys() >= {
        *("id", "name", "namespace", "description", "loading_mode", "side_effects", "tags", "args_schema"),
        *("out_schema", "extra", "examples", "created_at", "updated_at"),
    }
    assert columns["description"][1] == columns["name"][1] == 1
    assert columns["loading_mode"][2] == "'always'"
    master = "\n".join(row[0] for row in outside(path, "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"))
    assert "AUTOINCREMENT" in master
    assert "porter unicode61" in master
    for event in ("INSERT", "UPDATE", "DELETE"):
        assert f"AFTER {event} ON tools" in master
    for column in ("namespace", "loading_mode", "side_effects"):
        assert f"ON tools({column})" in master
    assert outside(path, "SELECT count(*) FROM tool_index_meta")


def matching(path: Path, word: str) -> list[str]:
    query = "SELECT t.name FROM tools_fts f JOIN tools t ON t.id = f.rowid WHERE tools_fts MATCH ? ORDER BY t.name"
    return [row[0] for row in outside(path, query, word)]


def test_the_full_text_follows_every_change(path: Path):
    with opened(path) as world:
        replace(world.index, listing("s", record("s", "a", "Paints walls."), record("s", "b", "Paints doors.")))
        assert matching(path, "painting") == ["s__a", "s__b"]
        replace(world.index, listing("s", record("s", "a", "Paints floors."), record("s", "c", "Cuts wood.")))
        assert matching(path, "paint") == ["s__a"]
        assert matching(path, "wall OR door") == []
        assert matching(path, "wood") == ["s__c"]
        assert world.index.check() == []


def test_the_full_text_follows_very_many_changes(path: Path):
    with opened(path) as world:
        replace(world.index, numbered("s", 400, "Paints walls."))
        some = [record("s", f"tool_{number}", "Cuts wood.") for number in range(300)]
        kept = [record("s", f"tool_{number}", f"Paints walls. Number {number}.") for number in range(300, 350)]
        assert replace(world.index, listing("s", *some, *kept)) == Changes(0, 300, 50)
        assert (len(matching(path, "wood")), len(matching(path, "wall"))) == (300, 50)
        assert world.index.check() == []


def test_rows_written_by_another_program_stay_in_step_too(path: Path):
    with opened(path) as world:
        replace(world.index, numbered("s", 2))
        outside(path, "INSERT INTO tools(name, description, summary_text) VALUES ('x', '', 'walrus')")
        assert matching(path, "walrus") == ["x"]
        outside(path, "DELETE FROM tools WHERE name = 'x'")
        assert world.index.check() == []


def test_identifiers_are_found_by_their_words(path: Path):
    definition = {
        "name": "getUserByID",
        "description": "Looks somebody up in LDAPDirectory2.",
        "inputSchema": {"properties": {"accountName": {"description": "The sAMAccountName."}}},
    }
    with opened(path) as world:
        replace(
            world.index,
            listing(
                "people-finder",
                record("people-finder", "getUserByID", definition=definition, tags=["hr_data"]),
            ),
        )
    for word in ("user", "id", "directory", "ldap", "account", "people", "finder", "hr"):
        assert matching(path, word) == ["people-finder__getUserByID"], word


def test_without_full_text_everything_else_works(path: Path):
    with opened(path, fts="off") as world:
        assert not world.store.fts
        assert replace(world.index, numbered("s", 3)) == Changes(3, 0, 0)
        assert replace(world.index, numbered("s", 2)) == Changes(0, 0, 1)
        assert len(world.index.load({"s": "c1"})) == 2
        assert world.index.check() == []
    assert outside(path, "SELECT count(*) FROM sqlite_master WHERE name LIKE 'tools_fts%'") == [(0,)]


def test_full_text_is_filled_when_it_comes_and_refilled_when_it_comes_back(path: Path):
    with opened(path, fts="off") as world:
        replace(world.index, listing("s", record("s", "a", "Paints walls.")))
    with opened(path):
        assert matching(path, "wall") == ["s__a"]
    with opened(path, fts="off") as world:
        replace(world.index, listing("s", record("s", "a", "Paints doors.")))
    with opened(path) as world:
        assert matching(path, "wall") == []
        assert matching(path, "door") == ["s__a"]
        assert world.index.check() == []


def test_a_file_whose_full_text_table_is_missing_gets_it_back(path: Path):
    with opened(path) as world:
        replace(world.index, listing("s", record("s", "a", "Paints walls.")))
    outside(path, "DELETE FROM tool_index_meta")
    with opened(path) as world:
        assert matching(path, "wall") == ["s__a"]
        assert world.index.check() == []


def test_a_card_holds_what_a_result_shows(path: Path):
    example = Example({"q": ["x"]}, "Finds x.", ("minimal", "common"))
    one = record("s", "find", "Finds things. In many places.", tags=["search"], examples=[example])
    with opened(path) as world:
        replace(world.index, listing("s", one, record("s", "bare")))
        rows = {tool.name: tool.row for tool in world.index.load({"s": "c1"})}
        cards = world.index.cards(rows.values())
        assert cards[rows["find"]] == Card("Finds things. In many places.", "find()", "str", ("search",), (example,))
        assert cards[rows["bare"]] == Card("", "bare()", "str", (), ())
        assert world.index.cards([999]) == {}


def test_texts_for_patterns_are_cut(path: Path):
    with opened(path) as world:
        replace(
            world.index,
            listing("s", record("s", "long", "x" * 5000, tags=["t"]), record("s", "short", "One. Two.")),
        )
        rows = {tool.name: tool.row for tool in world.index.load({"s": "c1"})}
        assert world.index.texts(rows.values()) == {rows["long"]: ("x" * 1000, "t"), rows["short"]: ("One. Two.",)}
        assert world.index.texts([rows["short"], 999]) == {rows["short"]: ("One. Two.",)}


@pytest.mark.parametrize("column", ["tags", "examples", "extra", "args_schema"])
def test_a_row_with_nonsense_in_it_is_a_store_error(path: Path, column: str):
    with opened(path) as world:
        replace(world.index, numbered("s", 1))
        (tool,) = world.index.load({"s": "c1"})
        outside(path, f"UPDATE tools SET {column} = '[{{', hash = 'another'")
        read = world.index.cards if column in ("tags", "examples") else world.index.definitions
        with pytest.raises(StoreError) as caught:
            read([tool.row])
        assert "index clear" in str(caught.value)


def test_a_name_that_cannot_be_stored_is_a_store_error_and_nothing_is_half_done(path: Path):
    with opened(path) as world:
        replace(world.index, numbered("s", 2))
        bad = dataclasses.replace(record("s", "x"), name="\ud800")
        with pytest.raises(StoreError):
            replace(world.index, listing("s", record("s", "y"), bad))
        assert {tool.name for tool in world.index.load({"s": "c1"})} == {"tool_0", "tool_1"}


@pytest.mark.slow
@pytest.mark.skipif(not REAL_CATALOG.is_dir(), reason=f"the lists of real servers are not at {REAL_CATALOG}")
def test_the_definitions_of_real_servers_come_back_unchanged(path: Path):
    ingests = [real_listing(file) for file in sorted(REAL_CATALOG.glob("*.json"))]
    with opened(path) as world:
        for ingest in ingests:
            replace(world.index, ingest)
        expected = {each.public_name: each.definition for ingest in ingests for each in ingest.records}
        tools = world.index.load(dict.fromkeys((ingest.server for ingest in ingests), "c1"))
        definitions = world.index.definitions(tool.row for tool in tools)
        assert {tool.public_name: definitions[tool.row] for tool in tools} == expected
        assert len(tools) > 1000
        assert world.index.check() == []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
any_definition = st.fixed_dictionaries(
    {"name": st.just("t")},
    optional={
        "description": json_values,
        "inputSchema": json_values,
        "outputSchema": json_values,
        "title": json_values,
        "annotations": json_values,
        "_meta": json_values,
    },
)


@settings(
    max_examples=2 * settings.default.max_examples,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(definition=any_definition)
def test_any_definition_comes_back_unchanged(definition: dict, tmp_path_factory: pytest.TempPathFactory):
    one = dataclasses.replace(record("s", "t"), definition=definition, fingerprint=json.dumps(definition))
    with opened(tmp_path_factory.getbasetemp()) as world:  # a directory: the store lives in memory
        replace(world.index, listing("s", one))
        (row,) = (tool.row for tool in world.index.load({"s": "c1"}))
        assert world.index.definitions([row]) == {row: definition}
        assert json.dumps(world.index.definitions([row])[row], sort_keys=True) == json.dumps(definition, sort_keys=True)


def test_a_listing_by_another_process_is_noticed(path: Path):
    with opened(path) as world, opened(path) as other:
        replace(world.index, numbered("s", 2))
        before = world.index.data_version()
        replace(other.index, numbered("s", 2))
        assert world.index.data_version() == before
        replace(other.index, numbered("s", 3))
        assert world.index.data_version() != before


def test_searches_go_on_while_a_list_is_replaced(path: Path):
    with opened(path) as world:
        catalog = world.listed(numbered("s", 300, "Paints walls."))
        done = threading.Event()

        def relist() -> None:
            try:
                for turn in range(5):
                    replace(world.index, numbered("s", 300, f"Paints walls, turn {turn}."))
            finally:
                done.set()

        thread = threading.Thread(target=relist)
        thread.start()
        rows = [tool.row for tool in catalog.tools]
        searches = 0
        while not done.is_set() or not searches:
            assert len(world.index.cards(rows)) == 300
            assert len(world.index.words(rows)) == 300
            searches += 1
        thread.join(20)
        assert world.index.check() == []
