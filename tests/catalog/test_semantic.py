"""Search by meaning besides words: what it adds, what it never changes, and how it fails."""

import json
import logging
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from builders import ISSUES, World, guests_without, listing, names, numbered, permitted, record, replace, scores
from models import load_model, make_model

from fakes.menu import tool
from toolcrib.base.errors import ModelUnavailable
from toolcrib.base.model import Caller, SearchType, Tool
from toolcrib.catalog.gate import NameMaskers
from toolcrib.catalog.index import TOOL_TEXTS, TOOLS_SCHEMA, ToolIndex
from toolcrib.catalog.indexing import Indexer
from toolcrib.catalog.tool_search import Searcher, SearchRequest
from toolcrib.catalog.views import CatalogViews
from toolcrib.policy.rules import Policy
from toolcrib.search.capabilities import NO_CAPABILITIES, Capabilities, shipped
from toolcrib.search.documents import Found
from toolcrib.search.engine import SearchSettings
from toolcrib.search.semantic import OFF, Semantic, SharedModel, fuse, state_of
from toolcrib.search.static_model import ModelNotInstalled, StaticModel, download_model, files_in, find_model
from toolcrib.search.static_model import load_model as load_files
from toolcrib.storage.store import Store
from toolcrib.storage.vectors import VectorCache
from worlds import MemoryServer, configured

QUERIES = ("bug", "open a ticket", "issue", "unite branches", "merge_pull_request", "zzz", "the", "code in lunch")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return make_model(tmp_path / "model")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tool_cache.db"


class Counting:
    """An encoder that remembers what it was given; ``spoil`` changes what it gives."""

    def __init__(self, inner: StaticModel, spoil: Callable[[Any, list[str]], Any] = lambda rows, _texts: rows) -> None:
        self._inner, self._spoil = inner, spoil
        self.model_id = inner.model_id
        self.encoded: list[str] = []

    def encode(self, texts: list[str]) -> Any:
        self.encoded += texts
        return self._spoil(self._inner.encode(texts), texts)


@contextmanager
def opened(
    path: Path, load: Callable[[], Any] | None, alpha: float = 0.6, capabilities: Capabilities = NO_CAPABILITIES
) -> Iterator[tuple[World, SharedModel | None]]:
    """Open an index whose searches use the encoder that ``load`` gives; None: words alone."""
    with Store(path, TOOLS_SCHEMA) as store:
        index = ToolIndex(store, capabilities)
        shared = None if load is None else SharedModel(load)
        semantic = None if shared is None else Semantic(shared, VectorCache(store, TOOL_TEXTS), alpha, capabilities)
        yield (
            World(store, index, Searcher(CatalogViews(index, NameMaskers((), ())), SearchSettings(semantic=semantic))),
            shared,
        )


def all_results(world: World, *, policy: Policy | None = None) -> list[Found[Tool]]:
    """Search for everything, in one catalog, as a caller under ``policy``."""
    catalog = world.catalog()
    may = permitted(catalog, policy)
    return [world.searcher.search(SearchRequest(query, limit=20), catalog, may) for query in QUERIES]


# -- what it adds --------------------------------------------------------------------------------


def test_a_tool_is_found_by_another_word_for_the_same_thing(path: Path, model: Path):
    with opened(path, None) as (world, _):
        world.listed(ISSUES)
        assert "github__create_issue" not in world.names("gripe")
    with opened(path, lambda: load_model(model)) as (world, shared):
        assert set(world.names("gripe")[:2]) == {"github__create_issue", "github__list_issues"}
        assert state_of(shared).state == "ready"
        found = world.search("gripe")
        assert {match.match_type for match in found.matches} == {SearchType.FTS}
        assert found.confidence == "low", "no word speaks for it"
        assert found.matches[0].score == max(scores(found))


def test_a_name_still_comes_first_whatever_is_near_in_meaning(path: Path, model: Path):
    with opened(path, lambda: load_model(model)) as (world, _):
        world.listed(ISSUES, listing("other", record("other", "bug", "An issue."), record("other", "meal", "Lunch.")))
        found = world.search("meal")
        assert (names(found)[0], found.matches[0].match_type) == ("other__meal", SearchType.EXACT)
        assert found.confidence == "high"


def test_a_filter_by_server_holds_for_meaning_too(path: Path, model: Path):
    with opened(path, lambda: load_model(model)) as (world, _):
        world.listed(ISSUES, listing("desk", record("desk", "file", "Files a ticket."), record("desk", "x", "Lunch.")))
        assert world.names("bug", server="desk") == ["desk__file"]


def test_both_kinds_count_by_their_share_of_the_best():
    assert fuse({1: 10.0, 2: 5.0}, {2: 0.5, 3: 0.25, 4: -1.0}, 0.6) == pytest.approx({1: 4.0, 2: 8.0, 3: 3.0})


def test_words_alone_stay_as_they_are_where_nothing_is_near():
    assert fuse({1: 3.0}, {2: -0.1}, 0.6) == {1: 3.0}
    assert fuse({}, {}, 0.6) == {}
    assert fuse({}, {7: 0.5}, 0.6) == pytest.approx({7: 0.6})


# -- whose tools count ---------------------------------------------------------------------------


@pytest.mark.parametrize("capabilities", [NO_CAPABILITIES, shipped()], ids=["none", "shipped"])
def test_tools_that_a_caller_may_not_use_change_nothing(
    path: Path, model: Path, tmp_path: Path, capabilities: Capabilities
):
    guests = guests_without("secret.*")
    with opened(path, lambda: load_model(model), capabilities=capabilities) as (world, _):
        world.listed(ISSUES)
        alone = [
            [(match.document.public_name, match.score) for match in each.matches]
            for each in guest_results(world, guests)
        ]
    with opened(tmp_path / "more.db", lambda: load_model(model), capabilities=capabilities) as (world, _):
        world.listed(ISSUES, numbered("secret", 300, "A bug, an issue and lunch for all who join."))
        among = [
            [(match.document.public_name, match.score) for match in each.matches]
            for each in guest_results(world, guests)
        ]
        assert json.dumps(among) == json.dumps(alone)
        assert "secret" in str(names(all_results(world)[0])), "everybody else finds them"


def guest_results(world: World, policy: Policy) -> list[Found[Tool]]:
    catalog = world.catalog()
    may = catalog.permitted(policy.permissions(Caller(profile="guest")))
    return [world.searcher.search(SearchRequest(query, limit=20), catalog, may) for query in QUERIES]


# -- vectors are kept ----------------------------------------------------------------------------


@pytest.mark.parametrize("capabilities", [NO_CAPABILITIES, shipped()], ids=["none", "shipped"])
def test_a_second_start_encodes_nothing_but_queries_and_the_dictionary(
    path: Path, model: Path, capabilities: Capabilities
):
    first, second = Counting(load_model(model)), Counting(load_model(model))
    with opened(path, lambda: first, capabilities=capabilities) as (world, _):
        world.listed(ISSUES)
        before = all_results(world)
    with opened(path, lambda: second, capabilities=capabilities) as (world, _):
        assert all_results(world) == before
    ways = sum(1 + len(each.ways) for each in capabilities.every)
    assert len(first.encoded) == 1 + len(ISSUES.records) + ways + len(QUERIES)
    assert len(second.encoded) == 1 + ways + len(QUERIES)


def test_only_a_changed_text_is_encoded_again_and_its_old_vector_goes(path: Path, model: Path):
    encoder = Counting(load_model(model))
    with opened(path, lambda: encoder) as (world, _):
        world.listed(ISSUES)
        world.search("bug")
        encoder.encoded.clear()
        replace(world.index, listing("github", *ISSUES.records[:-1], record("github", "search_code", "Finds lunch.")))
        world.search("bug")
        assert [text for text in encoder.encoded if "lunch" in text] == encoder.encoded[:1]
        assert len(encoder.encoded) == 2
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM vectors").fetchone() == (4,)


def test_vectors_of_another_model_are_not_used(path: Path, model: Path, tmp_path: Path):
    other = make_model(tmp_path / "other", {"ticket": ("bug", "code"), "more": ("issue",)})
    for folder, first in ((model, "github__create_issue"), (other, "github__search_code")):
        with opened(path, lambda folder=folder: load_model(folder)) as (world, shared):
            world.listed(ISSUES)
            assert first in world.names("bug")[:2]
            assert state_of(shared).state == "ready"


def test_a_damaged_vector_is_made_anew(path: Path, model: Path):
    with opened(path, lambda: load_model(model)) as (world, _):
        world.listed(ISSUES)
        before = all_results(world)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE vectors SET vector = x'00' WHERE rowid = 1")
        connection.execute("UPDATE vectors SET vector = 'text' WHERE rowid = 2")
    with opened(path, lambda: load_model(model)) as (world, _):
        assert all_results(world) == before


@pytest.mark.anyio
async def test_vectors_are_made_before_a_list_enters_the_catalog(tmp_path: Path, model: Path):
    encoder = Counting(load_model(model))
    settings = configured(tmp_path, {"desk": MemoryServer()}, {})
    with Store(tmp_path / "tool_cache.db", TOOLS_SCHEMA) as store:
        index = ToolIndex(store)
        semantic = Semantic(SharedModel(lambda: encoder), VectorCache(store, TOOL_TEXTS), 0.6)

        def embed(server: str) -> None:
            known.append(len(indexer.current().tools))
            semantic.fill(server)

        known: list[int] = []
        indexer = Indexer(settings, Policy(), index, lambda: 0.0, lambda *_: True, embed)
        indexer.open()
        tools = [tool("create_issue", "Opens an issue."), tool("list_rooms", "Lists rooms.")]
        for _ in range(2):
            await indexer.listed(settings.servers["desk"], tools, "modern")
        assert known == [0, 2]
        assert len(encoder.encoded) == 1 + len(tools), "a word to try it, and each text once"
        encoder.encoded.clear()
        searcher = Searcher(CatalogViews(index, NameMaskers((), ())), SearchSettings(semantic=semantic))
        catalog = indexer.current()
        found = searcher.search(SearchRequest("bug"), catalog, permitted(catalog))
        assert names(found)[:1] == ["desk__create_issue"]
        assert encoder.encoded == ["bug"]


# -- how it fails --------------------------------------------------------------------------------


def absent() -> Any:
    raise ModelUnavailable("The model is not there.")


def _nan(rows: Any, _texts: list[str]) -> Any:
    return [row * float("nan") for row in rows]


def _too_few(rows: Any, texts: list[str]) -> Any:
    return rows[:-1] if len(texts) > 1 else rows


def _other_length(rows: Any, texts: list[str]) -> Any:
    return [row[:-1] for row in rows] if "tool" not in texts else rows


def _words(_rows: Any, texts: list[str]) -> Any:
    return [["no", "number"] for _ in texts]


def _ragged(rows: Any, texts: list[str]) -> Any:
    return [row[: 1 + number % 2] for number, row in enumerate(rows)] if len(texts) > 1 else rows


def _broken_later(rows: Any, texts: list[str]) -> Any:
    if "bug" in texts:
        raise ModelUnavailable("The model cannot encode texts (RuntimeError).")
    return rows


@pytest.mark.sampled
@pytest.mark.parametrize("spoil", [None, _nan, _too_few, _other_length, _words, _ragged, _broken_later])
def test_without_vectors_results_are_exactly_those_by_words(
    path: Path, model: Path, caplog: pytest.LogCaptureFixture, spoil: Callable[[Any, list[str]], Any] | None
):
    load = absent if spoil is None else lambda: Counting(load_model(model), spoil)
    with opened(path, None) as (world, _):
        world.listed(ISSUES, numbered("many", 120, "A code of one program, issue and lunch."))
        by_words = all_results(world)
    with opened(path, load) as (world, shared), caplog.at_level(logging.WARNING):
        assert all_results(world) == by_words
        assert all_results(world) == by_words
        state = state_of(shared)
        assert state.state == "unavailable"
        assert state.reason is not None
        assert state.reason.startswith("The model")
    assert [each.getMessage() for each in caplog.records] == [f"search goes by words alone: {state.reason}"]


def test_an_index_that_cannot_be_written_costs_no_search(path: Path, model: Path):
    with opened(path, lambda: load_model(model)) as (world, shared):
        world.listed(ISSUES)
        with world.store.write() as connection:
            connection.execute("CREATE TRIGGER full BEFORE INSERT ON vectors BEGIN SELECT RAISE(FAIL, 'full'); END")
        assert "github__create_issue" in world.names("gripe")
        assert state_of(shared).state == "ready"


def test_without_a_table_of_vectors_words_answer(path: Path, model: Path):
    with opened(path, lambda: load_model(model)) as (world, shared):
        world.listed(ISSUES)
        with world.store.write() as connection:
            connection.execute("DROP TABLE vectors")
        assert "github__create_issue" not in world.names("gripe"), "by words alone"
        assert state_of(shared).state == "ready"


def test_it_is_told_once_that_vectors_cannot_be_stored(path: Path, model: Path, caplog: pytest.LogCaptureFixture):
    with opened(path, None) as (world, _):
        world.listed(ISSUES)
        with world.store.write() as connection:
            connection.execute("CREATE TRIGGER full BEFORE INSERT ON vectors BEGIN SELECT RAISE(FAIL, 'full'); END")
        shared = SharedModel(lambda: load_model(model))
        semantic = Semantic(shared, VectorCache(world.store, TOOL_TEXTS), 0.6)
        searcher = Searcher(CatalogViews(world.index, NameMaskers((), ())), SearchSettings(semantic=semantic))
        catalog = world.catalog()
        with caplog.at_level(logging.WARNING):
            for _ in range(2):
                semantic.fill("github")
                assert "github__create_issue" in names(
                    searcher.search(SearchRequest("gripe"), catalog, permitted(catalog))
                )
        (told,) = [record.getMessage() for record in caplog.records]
        assert told.startswith("vectors are not kept: ")


def test_a_model_that_is_not_there_costs_no_list(path: Path, caplog: pytest.LogCaptureFixture):
    with opened(path, None) as (world, _):
        world.listed(ISSUES)
        semantic = Semantic(SharedModel(absent), VectorCache(world.store, TOOL_TEXTS), 0.6)
        with caplog.at_level(logging.WARNING):
            semantic.fill("github")
            semantic.fill("github")
        assert [record.getMessage() for record in caplog.records] == [
            "search goes by words alone: The model is not there."
        ]


def test_that_none_is_installed_is_no_fault_unless_it_was_asked_for(caplog: pytest.LogCaptureFixture):
    def load() -> Any:
        raise ModelNotInstalled("No model is installed.")

    with caplog.at_level(logging.WARNING):
        shared = SharedModel(load, load, optional=True)
        assert shared.state().json() == {"state": "off", "reason": "No model is installed."}
        assert shared.get() is None
        assert shared.state().state == "off"
        assert caplog.records == []
        asked = SharedModel(load, load)
        assert asked.state().state == "unavailable"
        assert asked.get() is None
    assert [record.getMessage() for record in caplog.records] == ["search goes by words alone: No model is installed."]


def test_the_state_loads_nothing():
    found: list[str] = []
    shared = SharedModel(lambda: pytest.fail("it was loaded"), lambda: found.append("found"))
    assert shared.state().state == "ready"
    assert found == ["found"]


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_model_that_lacks_a_file_is_refused(model: Path, missing: str):
    (model / missing).unlink()
    with pytest.raises(ModelUnavailable, match="index semantic --download"):
        load_model(model)


@pytest.mark.parametrize("broken", ["config.json", "model.safetensors", "tokenizer.json"])
@pytest.mark.parametrize("content", [b"", b"{", b"\x00" * 64, b"[1, 2]"])
def test_a_broken_model_is_refused(model: Path, broken: str, content: bytes):
    (model / broken).write_bytes(content)
    with pytest.raises(ModelUnavailable, match=r"^The model is broken; .*\(\w+\)\.$"):
        load_model(model)


def test_without_the_extra_it_says_what_to_install(model: Path, monkeypatch: pytest.MonkeyPatch):
    files = files_in(model)
    monkeypatch.setattr("toolcrib.search.static_model.find_spec", lambda _name: None)
    for use in (lambda: load_files(files), lambda: find_model(None, model), lambda: download_model("a/b", model)):
        with pytest.raises(ModelUnavailable, match=r"pip install 'toolcrib\[semantic\]'"):
            use()


def test_loading_a_folder_reaches_for_no_network(model: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_args: object, **_options: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert len(load_model(model).encode(["a bug", "\ud800 lunch", "", "\x00" * 3000])) == 4


def test_a_model_is_fetched_whole_and_nothing_else_with_it(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    asked: list[tuple[Any, ...]] = []
    hub = type(sys)("huggingface_hub")
    hub.snapshot_download = lambda name, **options: asked.append((name, options))
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    download_model("owner/name", tmp_path / "new")
    files = ["config.json", "model.safetensors", "tokenizer.json"]
    assert asked == [("owner/name", {"allow_patterns": files, "local_dir": tmp_path / "new"})]
    hub.snapshot_download = lambda *_args, **_options: 1 / 0
    with pytest.raises(ModelUnavailable, match=r"owner/name cannot be fetched \(ZeroDivisionError\)"):
        download_model("owner/name", tmp_path / "new")


@pytest.mark.slow
def test_nothing_of_the_extra_is_imported_without_being_configured():
    code = (
        "import sys, toolcrib.gateway.composition, toolcrib.cli.app as a; a.build(); "
        "print({'numpy', 'tokenizers', 'wordllama'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "set()"


def test_search_by_words_is_off_as_configured():
    assert state_of(None) == OFF
    assert OFF.json() == {"state": "off", "reason": "tool_search.semantic.enabled is false"}


def test_the_quick_path_waits_until_there_are_vectors(path: Path, model: Path):
    request = SearchRequest("bug")
    for load, quick_at_last in ((lambda: load_model(model), True), (absent, True)):
        with opened(path, load) as (world, _):
            world.listed(ISSUES)
            catalog = world.catalog()
            may = permitted(catalog)
            assert not world.searcher.is_quick(request, catalog, may)
            world.searcher.search(request, catalog, may)
            assert world.searcher.is_quick(request, catalog, may) is quick_at_last
