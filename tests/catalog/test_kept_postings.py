"""What is kept of one set of tools for the next: of a list that comes nothing is read and counted but what differs."""

import random
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

import pytest
from builders import GUEST, World, guests_without, listing, names, numbered, opened, record
from chance_lists import GUESTS, POLICIES, answers, requests, tools
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.base.model import Caller
from toolcrib.catalog.index import ToolIndex, Versions
from toolcrib.catalog.tool_search import SearchRequest
from toolcrib.policy.rules import Policy, VisibilityRule
from toolcrib.search.documents import CACHED_MAX


@pytest.fixture
def world(tmp_path: Path):
    with opened(tmp_path / "tools.db") as world:
        yield world


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the rows whose words were read, each as often as that was done."""
    rows: list[int] = []
    words = ToolIndex.words

    def noted(index: ToolIndex, ids: Iterable[int], versions: Versions):
        rows.extend(ids := tuple(ids))
        return words(index, ids, versions)

    monkeypatch.setattr(ToolIndex, "words", noted)
    return rows


def search(world: World, policy: Policy | None = None) -> list[str]:
    catalog = world.catalog()
    some = catalog.permitted((policy or Policy()).permissions(GUEST))
    found = world.searcher.search(SearchRequest("thing number 3"), catalog, some)
    return [match.document.public_name for match in found.matches]


class TestWhatIsRead:
    def test_of_a_list_that_comes_only_that_list(self, world: World, read: list[int]):
        world.listed(numbered("git", 30), numbered("svn", 20))
        search(world)
        assert len(read) == 50
        world.listed(numbered("hg", 7))
        assert "hg__tool_3" in search(world)
        assert len(read) == 57

    def test_nothing_again_while_the_next_catalog_is_prepared(self, world: World, read: list[int]):
        kinds = range(CACHED_MAX)
        own = [VisibilityRule({"profile": (f"p{n}",)}, allow=(f"own{n}__*", "new__*")) for n in kinds]
        permissions = [Policy(rules=own).permissions(Caller(profile=f"p{n}")) for n in kinds]
        before = world.listed(*(numbered(f"own{n}", 150) for n in kinds))
        for each in permissions:
            world.searcher.search(SearchRequest("thing"), before, before.permitted(each))
        after = world.listed(numbered("new", 150))
        world.searcher.prepare(after)
        read.clear()
        for catalog in (before, after):
            for each in permissions:
                world.searcher.search(SearchRequest("thing"), catalog, catalog.permitted(each))
        assert read == []

    def test_of_a_list_that_has_changed_only_the_tools_that_have(self, world: World, read: list[int]):
        world.listed(numbered("git", 30), numbered("svn", 20))
        search(world)
        read.clear()
        changed = [record("git", "tool_5", "Another thing."), record("git", "tool_30", "Does thing number 3.")]
        same = [each for each in numbered("git", 30).records if each.name != "tool_5"]
        world.listed(listing("git", *changed, *same))
        assert "git__tool_30" in search(world)
        assert len(read) == 2

    def test_nothing_of_what_has_gone(self, world: World, read: list[int]):
        world.listed(numbered("git", 30), numbered("svn", 20))
        search(world)
        read.clear()
        world.index.retain(["git"])
        assert {name.split("__")[0] for name in search(world)} == {"git"}
        assert read == []

    def test_for_others_what_they_read_otherwise_only(self, world: World, read: list[int]):
        world.listed(numbered("git", 30), numbered("svn", 20))
        search(world)
        read.clear()
        assert "git__tool_3" not in search(world, guests_without("git__tool_3"))
        assert read == []

    def test_everything_of_a_small_part_since_to_take_out_the_rest_takes_longer(self, world: World, read: list[int]):
        world.listed(numbered("git", 10), numbered("svn", 20))
        search(world)
        read.clear()
        search(world, guests_without("svn__*"))
        assert len(read) == 10
        read.clear()
        search(world)
        assert read == []


class TestWhatIsReadBefore:
    """What a search would have to wait for is read before anybody knows of the new catalog."""

    def test_a_large_list(self, world: World, read: list[int]):
        world.listed(numbered("git", 30))
        search(world)
        search(world, GUESTS)
        catalog = world.listed(numbered("svn", 101))
        read.clear()
        world.searcher.prepare(catalog)
        assert len(read) == 101
        for policy in (Policy(), GUESTS):
            asked = SearchRequest("thing number 3", limit=20)
            found = world.searcher.search(asked, catalog, catalog.permitted(policy.permissions(GUEST)))
            assert "svn__tool_3" in names(found)
        assert len(read) == 101

    def test_a_small_one_is_left_to_the_search(self, world: World, read: list[int]):
        world.listed(numbered("git", 30))
        search(world)
        catalog = world.listed(numbered("svn", 100))
        read.clear()
        world.searcher.prepare(catalog)
        assert read == []

    def test_nothing_where_nobody_has_searched(self, world: World, read: list[int]):
        world.searcher.prepare(world.listed(numbered("git", 300)))
        assert read == []

    def test_nothing_of_what_is_ranked_by_the_file(self, tmp_path: Path, read: list[int]):
        with opened(tmp_path / "other.db", ranked_in_memory=200) as world:
            world.listed(numbered("git", 30))
            search(world)
            read.clear()
            world.searcher.prepare(world.listed(numbered("svn", 300)))
            assert read == []


def test_a_slip_is_no_word_of_hidden_tools_that_others_have_searched(world: World):
    paint, hidden = record("git", "paint", "Paints a window."), record("hidden", "cut", "Cuts a bindo.")
    world.listed(listing("git", paint), numbered("svn", 3), listing("hidden", hidden))
    assert world.names("bindow") == ["hidden__cut"]  # a word with the same first letter is likelier to be meant
    catalog = world.catalog()
    found = world.searcher.search(SearchRequest("bindow"), catalog, catalog.permitted(GUESTS.permissions(GUEST)))
    assert names(found) == ["git__paint"]


def test_a_row_that_is_written_while_an_older_catalog_is_searched_is_known_by_what_it_says(
    world: World, read: list[int]
):
    world.listed(listing("git", record("git", "paint", "Paints a wall.")), numbered("svn", 3))
    catalog = world.catalog()
    world.listed(listing("git", record("git", "paint", "Cuts wood.")))
    everything = Policy().permissions(GUEST)
    assert world.searcher.search(SearchRequest("wood"), catalog, catalog.permitted(everything)).matches
    assert world.names("wood") == ["git__paint"]
    assert len(read) == 4
    world.listed(listing("git", record("git", "paint", "Paints a wall.")))
    assert (world.names("wood"), world.names("wall")) == ([], ["git__paint"])


@contextmanager
def as_if_few_empty_slots_were_many() -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("toolcrib.search.postings._SPARSE_MIN", 0)
        yield


steps = st.tuples(st.sampled_from(["git", "svn", "hg", "hidden"]), st.sampled_from(["all", "guests", ""]))


@pytest.mark.slow
@settings(deadline=None)
@given(
    seed=st.integers(0, 2**32),
    steps=st.lists(steps, min_size=1, max_size=12),
    asked=st.lists(requests, min_size=1, max_size=3),
)
def test_the_answers_are_those_of_what_is_made_at_once(seed: int, steps, asked, tmp_path_factory):
    chance, last = random.Random(seed), {}
    with as_if_few_empty_slots_were_many(), opened(Path(tmp_path_factory.getbasetemp())) as world:
        for server, policy in steps:
            last[server] = tools(server, 25, chance)
            world.listed(last[server])
            if policy:
                answers(world, POLICIES[policy], asked)
        given_by = {name: answers(world, policy, asked) for name, policy in POLICIES.items()}
    for name, policy in POLICIES.items():
        with opened(Path(tmp_path_factory.getbasetemp())) as world:
            world.listed(*(last[server] for server in sorted(last)))
            assert answers(world, policy, asked) == given_by[name]
