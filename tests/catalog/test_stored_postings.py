"""Ranking by postings that stand in the file: the same answers as in memory, to the last byte, while all are scored."""

import random
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import replace as with_changes
from pathlib import Path
from threading import Event, Thread

import pytest
from builders import GUEST, World, listing, names, numbered, opened, record, replace
from chance_lists import GUESTS, POLICIES, answers, requests, tools
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.base.errors import StoreError
from toolcrib.base.model import ToolRecord
from toolcrib.catalog.snapshot import Catalog
from toolcrib.catalog.tool_search import SearchRequest
from toolcrib.policy.rules import Policy
from toolcrib.search.postings import Lexicon, around, is_one_edit
from toolcrib.storage.stems import StemReader

IN_FILE, IN_MEMORY = 0, 20_000


def with_parameters(name: str, text: str, *parameters: str) -> ToolRecord:
    properties = {parameter: {"type": "string"} for parameter in parameters}
    definition = {"name": name, "description": text, "inputSchema": {"type": "object", "properties": properties}}
    return record("git", name, definition=definition)


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**32),
    asked=st.lists(requests, min_size=1, max_size=3),
    policy=st.sampled_from(["all", "guests"]),
)
def test_the_file_gives_the_same_answers_as_memory(seed: int, asked, policy, tmp_path_factory):
    chance = random.Random(seed)
    lists = [tools("git", 30, chance), tools("svn", 12, chance), tools("hidden", 8, chance)]
    later = tools("git", 10, chance)
    given_by: list[list[object]] = []
    for most in (IN_FILE, IN_MEMORY):
        with opened(Path(tmp_path_factory.getbasetemp()), ranked_in_memory=most) as world:
            world.listed(*lists)
            first = answers(world, POLICIES[policy], asked)
            world.listed(later)
            given_by.append([*first, *answers(world, POLICIES[policy], asked)])
    assert given_by[0] == given_by[1]


@contextmanager
def as_if_few_were_too_many() -> Generator[None]:
    """Let the file be searched as if even a few documents were far too many."""
    with pytest.MonkeyPatch.context() as patch:
        for name, most in {"POSTINGS_MAX": 6, "CANDIDATES_MAX": 4, "READ_MAX": 25, "_PASSED": 3}.items():
            patch.setattr(f"toolcrib.search.disk_postings.{name}", most)
        yield


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32), asked=st.lists(requests, min_size=1, max_size=3))
def test_what_is_chosen_of_too_many_depends_neither_on_when_a_list_came_nor_on_what_is_hidden(
    seed: int, asked: list[SearchRequest], tmp_path_factory: pytest.TempPathFactory
):
    chance = random.Random(seed)
    git, svn, hidden = tools("git", 30, chance), tools("svn", 12, chance), tools("hidden", 12, chance)
    given_by: list[list[object]] = []
    for lists in ([git, svn], [svn, git], [hidden, svn, hidden, git]):
        with as_if_few_were_too_many(), opened(Path(tmp_path_factory.getbasetemp()), ranked_in_memory=IN_FILE) as world:
            for each in lists:
                world.listed(each)
            first = answers(world, GUESTS, asked)
            assert answers(world, GUESTS, asked) == first
            given_by.append(first)
    assert given_by[0] == given_by[1] == given_by[2]


@pytest.fixture
def world(tmp_path: Path):
    with opened(tmp_path / "tools.db", ranked_in_memory=IN_FILE) as world:
        yield world


def counted(world: World) -> dict[str, list[tuple[object, ...]]]:
    """Return what stands in the tables of stems, but for how often they were written."""
    tables = ("rows", "due", "counts", "uses", "sums", "words")
    with world.store.read() as connection:
        return {name: connection.execute(f"SELECT * FROM tools_stems_{name}").fetchall() for name in tables}


class TestFilling:
    def test_what_is_counted_of_changed_lists_is_what_a_new_file_has(self, world: World, tmp_path: Path):
        one = [record("git", f"tool_{number}", f"Paints wall {number}.", tags=["red"]) for number in range(30)]
        two = [*one[5:20], record("git", "tool_21", "Paints no wall any more."), record("git", "more", "New.")]
        world.listed(listing("git", *one), listing("svn", record("svn", "checkout", "Gets a copy.")))
        world.names("wall")
        world.listed(listing("git", *two))
        world.names("wall")
        with opened(tmp_path / "other.db", ranked_in_memory=IN_FILE) as other:
            other.listed(listing("svn", record("svn", "checkout", "Gets a copy.")), listing("git", *two))
            other.names("wall")
            for name, rows in counted(other).items():
                if name != "rows":
                    assert counted(world)[name] == rows, name

    def test_a_server_that_is_forgotten_counts_no_more(self, world: World):
        world.listed(listing("git", record("git", "paint", "Paints a wall.")), listing("svn", record("svn", "cut")))
        assert world.names("wall") == ["git__paint"]
        world.index.retain(["svn"])
        assert world.names("wall") == []
        world.index.stems.fill()
        assert [row for row in counted(world)["counts"] if row[1] == "wall"] == []

    def test_a_row_that_another_program_writes_is_found_by_its_new_words(self, world: World, tmp_path: Path):
        world.listed(listing("git", record("git", "paint", "Paints a wall."), record("git", "cut", "Cuts wood.")))
        assert world.names("wall") == ["git__paint"]
        catalog = world.catalog()
        with closing(sqlite3.connect(tmp_path / "tools.db", isolation_level=None)) as connection:
            connection.execute("UPDATE tools SET body_text = '', summary_text = 'tears down walls' WHERE tool = 'cut'")
        found = world.searcher.search(
            SearchRequest("tear down"), catalog, catalog.permitted(Policy().permissions(GUEST))
        )
        assert [match.document.public_name for match in found.matches] == ["git__cut"]

    def test_a_row_of_which_another_program_changes_what_is_told_is_not_found_at_all(
        self, world: World, tmp_path: Path
    ):
        world.listed(listing("git", record("git", "paint", "Paints a wall."), record("git", "cut", "Cuts a wall.")))
        assert world.names("wall") == ["git__cut", "git__paint"]
        catalog = world.catalog()
        with closing(sqlite3.connect(tmp_path / "tools.db", isolation_level=None)) as connection:
            connection.execute("UPDATE tools SET summary = 'Calls cut with all secrets.' WHERE tool = 'paint'")
        some = catalog.permitted(Policy().permissions(GUEST))
        found = world.searcher.search(SearchRequest("paint wall"), catalog, some)
        assert [match.document.public_name for match in found.matches] == ["git__cut"]

    def test_rows_that_a_search_does_not_ask_about_are_not_waited_for(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ):
        world.listed(listing("git", record("git", "paint", "Paints a wall.")))
        assert world.names("wall") == ["git__paint"]
        catalog = world.catalog()
        replace(world.index, listing("svn", record("svn", "cut", "Cuts a wall.")))
        monkeypatch.setattr(world.index.stems, "fill", lambda: pytest.fail("nothing of what is searched is due"))
        some = catalog.permitted(Policy().permissions(GUEST))
        found = world.searcher.search(SearchRequest("wall"), catalog, some)
        assert [match.document.public_name for match in found.matches] == ["git__paint"]

    def test_tables_of_other_stems_are_made_anew(self, world: World, tmp_path: Path):
        world.listed(listing("git", record("git", "paint", "Paints a wall.")))
        world.names("wall")
        before = counted(world)
        with world.store.write() as connection:
            connection.execute("UPDATE tool_index_meta SET value = 'another' WHERE key = 'stems'")
            connection.execute("DELETE FROM tools_stems_counts")
        with opened(tmp_path / "tools.db", ranked_in_memory=IN_FILE) as again:
            assert again.names("wall") == ["git__paint"]
            assert counted(again) == before

    def test_without_fts5_everything_is_ranked_in_memory(self, tmp_path: Path):
        with opened(tmp_path / "tools.db", fts="off", ranked_in_memory=IN_FILE) as world:
            world.listed(listing("git", record("git", "paint", "Paints a wall.")))
            assert world.names("wall") == ["git__paint"]


class TestMeanwhile:
    """What a search finds while lists are written and their stems are made."""

    def test_a_name_that_is_denied_is_not_searched_before_the_new_catalog_is_known(self, world: World):
        def paint(named: str) -> ToolRecord:
            made = record("git", "paint", f"Paints a wall. {named}")
            return with_changes(made, mentions={"body_text": (named,), "summary_text": (named,)} if named else {})

        cut, hidden = record("git", "cut", "Cuts wood."), listing("hidden", record("hidden", "zebra_files"))
        world.listed(listing("git", paint(""), cut), hidden)
        asked = SearchRequest("zebra")
        catalog = world.catalog()
        some = catalog.permitted(GUESTS.permissions(GUEST))
        assert world.searcher.search(asked, catalog, some).matches == ()
        replace(world.index, listing("git", paint("hidden__zebra_files"), cut))
        assert world.searcher.search(asked, catalog, some).matches == ()

    def test_nor_while_the_stems_of_who_named_it_are_not_made_anew(self, world: World, monkeypatch: pytest.MonkeyPatch):
        def fail() -> None:
            raise StoreError("somebody else writes")

        def found(asked: str, catalog: Catalog) -> list[str]:
            some = catalog.permitted(GUESTS.permissions(GUEST))
            return sorted(names(world.searcher.search(SearchRequest(asked), catalog, some)))

        named, others = "hidden__zebra_files", [record("git", "cut", "Cuts a wall."), record("git", "saw")]
        paint = with_changes(record("git", "paint", f"Paints a wall. {named}"), mentions={"body_text": (named,)})
        before = world.listed(listing("git", paint, *others), listing("hidden", record("hidden", "zebra_files")))
        assert (found("zebra", before), found("wall", before)) == ([], ["git__cut", "git__paint"])
        replace(world.index, listing("git", record("git", "paint", "Paints a wall."), *others))
        after = world.catalog()
        monkeypatch.setattr(world.index.stems, "fill", fail)
        for catalog in (before, after):
            assert (found("zebra", catalog), found("wall", catalog)) == ([], ["git__cut"])
        monkeypatch.undo()
        assert (found("zebra", after), found("wall", after)) == ([], ["git__cut", "git__paint"])

    @pytest.mark.parametrize("most", [IN_FILE, IN_MEMORY])
    def test_the_words_of_a_row_are_not_those_of_another_tool_in_a_new_file(self, tmp_path: Path, most: int):
        path = tmp_path / "other.db"
        with opened(path, ranked_in_memory=most) as world:
            paint, hidden = record("git", "paint", "Paints a wall."), record("git", "delete_it", "Launches rockets.")
            catalog = world.listed(listing("git", paint, hidden))
            some = catalog.permitted(GUESTS.permissions(GUEST))
            if most == IN_FILE:
                assert names(world.searcher.search(SearchRequest("wall"), catalog, some)) == ["git__paint"]
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("INSERT INTO tools_fts(tools_fts) VALUES ('delete-all')")
            replace(world.index, listing("git", record("git", "delete_it", "Fires missiles."), paint))
            assert world.index.generation == 1
            assert names(world.searcher.search(SearchRequest("fire missiles"), catalog, some)) == []
            assert world.names("fire missiles") == ["git__delete_it"]

    def test_a_search_waits_for_who_makes_the_stems_of_most_of_its_rows(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ):
        stems, making, go_on = world.index.stems, Event(), Event()
        stem, reading = stems.stem, stems.reading

        def slow(word: str) -> str:
            making.set()
            assert go_on.wait(10)
            return stem(word)

        @contextmanager
        def read() -> Generator[StemReader]:
            with reading() as reader:
                yield reader
            go_on.set()

        world.listed(listing("git", record("git", "paint", "Paints a wall."), record("git", "cut", "Cuts wood.")))
        monkeypatch.setattr(stems, "stem", slow)
        monkeypatch.setattr(stems, "reading", read)
        filler = Thread(target=stems.fill)
        filler.start()
        try:
            assert making.wait(10)
            assert world.names("walls") == ["git__paint"]
        finally:
            go_on.set()
            filler.join(10)

    def test_what_stands_there_is_searched_where_nothing_can_be_written(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ):
        def fail() -> None:
            raise StoreError("somebody else writes")

        git = [record("git", "paint", "Paints a wall."), record("git", "cut", "Cuts wood.")]
        world.listed(listing("git", *git))
        assert world.names("wall") == ["git__paint"]
        world.listed(listing("git", *git, record("git", "more")))
        monkeypatch.setattr(world.index.stems, "fill", fail)
        assert world.names("wall") == ["git__paint"]


def test_words_that_are_no_slip_of_another_are_not_counted_for_it(world: World, monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []
    counts = StemReader.counts
    monkeypatch.setattr(StemReader, "counts", lambda self, term, of: asked.append(term) or counts(self, term, of))
    world.listed(
        listing(
            "git",
            record("git", "paint", "Paints the repository."),
            record("git", "cut", "The inventory of a laboratory."),
        )
    )
    assert world.names("repsoitory")[0] == "git__paint"
    assert "repositori" in asked
    assert not {"inventori", "laboratori"} & {*asked}


class TestVeryMany:
    """More documents than are scored, and more postings than are read."""

    @pytest.fixture
    def many(self, world: World, monkeypatch: pytest.MonkeyPatch) -> World:
        monkeypatch.setattr("toolcrib.search.disk_postings.POSTINGS_MAX", 100)
        monkeypatch.setattr("toolcrib.search.disk_postings.CANDIDATES_MAX", 50)
        made = [record("git", f"list_{number}", "Lists the files of a folder.") for number in range(300)]
        made += [record("git", "list_wall", "Lists paints."), record("git", "wall", "One wall. " + "list " * 9)]
        world.listed(listing("git", *made))
        return world

    def test_the_rarest_words_decide_what_is_looked_at(self, many: World):
        assert sorted(many.names("list wall files", limit=2)) == ["git__list_wall", "git__wall"]

    def test_a_word_that_most_have_still_finds_as_many_as_are_shown(self, many: World):
        assert len(many.names("list", limit=20)) == 20


@given(word=st.text("abcd", min_size=1, max_size=12), others=st.lists(st.text("abcd", min_size=1, max_size=13)))
def test_every_word_one_edit_away_has_the_beginning_or_the_end(word: str, others: list[str]):
    looked_for = around(word)
    near = Lexicon(others).near(word)
    if looked_for is None:
        assert near == []
        return
    beginning, end, (least, most) = looked_for
    edits = [
        word[:place] + letter + word[place + skipped :]
        for place in range(len(word))
        for letter in ("", "x", "xa")
        for skipped in (0, 1)
    ]
    edits += [word[:place] + word[place : place + 2][::-1] + word[place + 2 :] for place in range(len(word))]
    for each in [*near, *(each for each in edits if is_one_edit(word, each) and 4 <= len(each) <= 40)]:
        assert each.startswith(beginning) or each.endswith(end)
        assert least <= len(each) <= most


def test_a_catalog_within_the_bound_is_ranked_in_memory_from_the_first_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    read: list[int] = []
    with opened(tmp_path / "tools.db") as world:
        monkeypatch.setattr(world.index.stems, "reading", lambda: read.append(1))
        world.listed(numbered("git", 2000, "Paints a wall."))
        assert world.names("paint wall 7")[0] == "git__tool_7"
        assert not read


@pytest.mark.parametrize("most", [IN_FILE, IN_MEMORY])
def test_a_parameter_that_every_tool_has_alone_counts_for_nothing(tmp_path: Path, most: int):
    made = [with_parameters(f"tool_{number}", f"Does thing {number}.", "payload") for number in range(30)]
    with opened(tmp_path / "tools.db", ranked_in_memory=most) as world:
        world.listed(listing("git", *made, with_parameters("wall", "Sends the payload.", "payload")))
        assert world.names("payload") == ["git__wall"]


@pytest.mark.parametrize("most", [IN_FILE, IN_MEMORY])
def test_tools_that_mean_a_word_are_found_behind_many_that_only_have_it_as_a_common_parameter(
    tmp_path: Path, most: int
):
    made = [with_parameters(f"a_{number}", f"Does thing {number}.", "page") for number in range(300)]
    made += [with_parameters(f"b_{number}", f"Does item {number}.") for number in range(200)]
    meant = [with_parameters(f"z_{number}", f"Renders a page nicely {number}.") for number in range(5)]
    with opened(tmp_path / "tools.db", ranked_in_memory=most) as world:
        world.listed(listing("git", *made, *meant))
        assert sorted(world.names("page")) == [f"git__z_{number}" for number in range(5)]
