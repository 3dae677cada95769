"""The engine alone, in a program: what goes in, what comes out, and that it is the engine of the server."""

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from builders import World
from builders import permitted as permitted_of
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import Tool as SdkTool
from models import MEANINGS, make_model

import toolcrib
from retrieval_data import load
from retrieval_groups import SETS
from retrieval_world import lists_of
from toolcrib.base.model import SearchType
from toolcrib.catalog.gate import NameMaskers
from toolcrib.catalog.in_memory import ToolsInMemory
from toolcrib.catalog.index import TOOL_TEXTS, TOOLS_SCHEMA, ToolIndex
from toolcrib.catalog.ingest import Shaping, ingest
from toolcrib.catalog.tool_search import Searcher, SearchRequest
from toolcrib.catalog.views import CatalogViews
from toolcrib.config.schema import ServerSection, ToolcribSection
from toolcrib.config.settings import ServerSettings, StdioTarget
from toolcrib.policy.rules import policy_of
from toolcrib.search import semantic
from toolcrib.search.capabilities import shipped
from toolcrib.search.engine import SearchSettings
from toolcrib.search.semantic import Semantic, SharedModel
from toolcrib.storage.store import Store
from toolcrib.storage.vectors import VectorCache

DATA = load(SETS["tools"])
LISTS = lists_of(DATA)
TEXTS = [query.text for query in DATA.queries]
FEW = TEXTS[::9]


def everything(**options: Any) -> toolcrib.ToolSearch:
    index = toolcrib.ToolSearch(**options)
    for server, tools in LISTS.items():
        index.add(tools, server=server)
    return index


def shown(index: toolcrib.ToolSearch, texts: Sequence[str] = FEW, **options: Any) -> list[list[tuple[object, ...]]]:
    """Return what searches find; not what definitions were made of."""
    found = [index.search(text, **options) for text in texts]
    return [[(hit.name, hit.score, hit.confidence, hit.why, hit.definition) for hit in hits] for hits in found]


@pytest.fixture(scope="module")
def index() -> toolcrib.ToolSearch:
    return everything()


# -- what goes in --------------------------------------------------------------------------------

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def forecast(city: str) -> str:
    """Tell the weather of the next days."""
    return city


FORMS = {
    "function": forecast,
    "mcp": {"name": "forecast", "description": "Tell the weather of the next days.", "inputSchema": PARAMETERS},
    "anthropic": {"name": "forecast", "description": "Tell the weather of the next days.", "input_schema": PARAMETERS},
    "openai": {
        "type": "function",
        "name": "forecast",
        "description": "Tell the weather of the next days.",
        "parameters": PARAMETERS,
    },
    "openai chat": {
        "type": "function",
        "function": {
            "name": "forecast",
            "description": "Tell the weather of the next days.",
            "parameters": PARAMETERS,
        },
    },
    "sdk": SdkTool(name="forecast", description="Tell the weather of the next days.", input_schema=PARAMETERS),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_tool_is_found_in_whatever_form_it_is_given(form: str):
    given = FORMS[form]
    before = json.dumps(given, default=str)
    (hit,) = toolcrib.ToolSearch([given]).search("will it rain? the weather please")
    assert (hit.name, hit.server, hit.description) == ("forecast", "", "Tell the weather of the next days.")
    assert hit.signature == "forecast(city: string)"
    assert hit.why == "description: weather"
    assert hit.tool is given
    assert hit.definition["inputSchema"]["properties"] == {"city": {"type": "string"}}
    assert not {"type", "parameters", "input_schema"} & hit.definition.keys()
    assert json.dumps(given, default=str) == before


def test_a_tool_of_fastmcp_is_one_too():
    class FastTool:
        """FastMCP's, as far as it matters: it is a model itself, of other fields."""

        def to_mcp_tool(self) -> SdkTool:
            return SdkTool(name="clap", input_schema={"type": "object"})

        def model_dump(self, **_options: object) -> dict[str, object]:
            raise AssertionError

    assert toolcrib.ToolSearch([FastTool()]).names == ("clap",)


def test_tools_of_a_server_have_its_name():
    index = toolcrib.ToolSearch([{"name": "create_issue"}], server="tracker")
    index.add([{"name": "create_issue"}], server="forge")
    assert index.names == ("tracker__create_issue", "forge__create_issue")
    assert [hit.name for hit in index.search("create an issue in the forge", limit=1)] == ["forge__create_issue"]
    assert [(hit.name, hit.server) for hit in index.search("create issue", server="tracker")] == [
        ("tracker__create_issue", "tracker")
    ]
    assert index.search("create issue", server="tracker")[0].definition["name"] == "tracker__create_issue"
    assert len(index.search("create issue", server="elsewhere")) == 0


def test_names_without_a_server_stay_as_they_are():
    names = ("a__b", "x" * 90, "admin.tools.list", "größe", "create-issue-0a1b2c3d")
    index = toolcrib.ToolSearch({"name": name} for name in names)
    assert index.names == names
    for name in names:
        assert index.search(name, search_type="exact")[0].name == name
        assert index.search(name)[0].name == name


def test_a_tool_with_the_name_of_another_takes_its_place():
    index = toolcrib.ToolSearch([{"name": "note", "description": "Paint a wall."}, {"name": "other"}])
    assert index.search("paint")
    index.add([{"name": "note", "description": "Write a memo."}])
    assert len(index) == 2
    assert index.names == ("note", "other")
    assert not index.search("paint")
    assert index.search("memo")[0].description == "Write a memo."


def test_two_tools_that_would_have_one_name_are_refused():
    index = toolcrib.ToolSearch([{"name": "a__b"}])
    with pytest.raises(
        toolcrib.BadRequest, match=r"Two tools would be called a__b: b of the server a, and a__b of \(no"
    ):
        index.add([{"name": "b"}], server="a")
    assert index.names == ("a__b",)


def test_tools_are_removed_by_name_all_or_none():
    index = toolcrib.ToolSearch([{"name": name} for name in ("one", "two", "three")])
    with pytest.raises(toolcrib.UnknownTool, match="Unknown tool: four"):
        index.remove("one", "four")
    assert len(index) == 3
    index.remove("one", "three")
    assert (index.names, "two" in index, "one" in index) == (("two",), True, False)
    assert repr(index) == "ToolSearch(1 tools)"
    assert [hit.name for hit in index.search("one two three")] == ["two"]


@pytest.mark.parametrize(
    ("tools", "says"),
    [
        ([7], "int is no tool: give a function, an SDK Tool"),
        ([{"description": "x"}], "1 of 1 tools cannot be used: #1: has no name"),
        ([{"name": "a"}, {"name": "b"}, {"name": "a"}], "Several of these tools are called a: within one call"),
        (
            [{"name": "a"}, {"name": "b", "inputSchema": []}],
            "1 of 2 tools cannot be used: b: has an inputSchema of type",
        ),
        ([{"name": f"n{i}", "inputSchema": 1} for i in range(9)], r"9 of 9 tools cannot be used: .*, and 4 more\."),
        ([lambda x: x], "has no name of its own"),
    ],
)
def test_what_cannot_be_used_is_named_and_nothing_is_added(tools: list[Any], says: str):
    index = toolcrib.ToolSearch([{"name": "first"}])
    with pytest.raises(toolcrib.BadRequest, match=says):
        index.add(tools)
    assert index.names == ("first",)


# -- what comes out ------------------------------------------------------------------------------


def test_the_first_hit_is_sure_or_not_and_the_others_are_not(index: toolcrib.ToolSearch):
    answers = [index.search(text) for text in TEXTS]
    assert {answer[0].confidence for answer in answers if answer} == {"high", "low", "none"}
    for answer in answers:
        assert {hit.confidence for hit in answer[1:]} <= ({"none"} if answer[0].confidence == "none" else {"low"})
        assert [hit.score for hit in answer] == sorted((hit.score for hit in answer), reverse=True)


def test_why_names_the_part_of_a_tool_that_has_a_word_first():
    index = toolcrib.ToolSearch(
        [
            {
                "name": "publish_note",
                "title": "Publish",
                "description": "Show a memo. It stays on the wall.",
                "inputSchema": {
                    "type": "object",
                    "properties": {"colour": {"type": "string", "description": "As a shade, e.g. teal."}},
                },
                "_meta": {"tags": ["paper"]},
            },
            {"name": "list_events", "description": "List the events of a calendar."},
        ],
        server="kiosk",
    )
    (hit, *_) = index.search("publish a memo on the wall in a teal shade of colour at the kiosk on paper")
    assert hit.why == (
        "name: publish; description: memo, wall; parameters: teal, shade, colour; server: kiosk; tags: paper"
    )
    assert index.search("appointments in the calendar")[0].why == "asked as: appointments; description: calendar"


def test_what_is_done_to_the_definition_of_a_hit_changes_no_index():
    index = toolcrib.ToolSearch([{"name": "forecast", "inputSchema": PARAMETERS}])
    before = json.dumps(index.search("forecast")[0].definition)
    definition = index.search("forecast")[0].definition
    definition["inputSchema"]["properties"].clear()
    definition["inputSchema"]["required"].clear()
    assert json.dumps(index.search("forecast")[0].definition) == before


def test_patterns_and_names_are_searched_as_the_server_does(index: toolcrib.ToolSearch):
    found = index.search("^create_", search_type="regex", limit=50)
    assert len(found) > 3
    assert all("__create_" in hit.name and hit.why == "the pattern matches" for hit in found)
    (named,) = index.search(index.names[5], search_type="exact")
    assert (named.name, named.confidence, named.why) == (index.names[5], "high", "the query is its name")


@pytest.mark.parametrize(
    ("query", "options", "says"),
    [
        ("  ", {}, "'query' is blank"),
        ("x", {"limit": 0}, "'limit' is 0; it has to be from 1 to 50"),
        ("x", {"limit": 51}, "from 1 to 50"),
        ("(", {"search_type": "regex"}, "Not a usable RE2 pattern"),
    ],
)
def test_a_search_that_cannot_be_made_says_what_to_change(query: str, options: dict[str, Any], says: str):
    with pytest.raises(toolcrib.BadRequest, match=says):
        toolcrib.ToolSearch([{"name": "x"}]).search(query, **options)


def test_an_empty_index_finds_nothing():
    assert len(toolcrib.ToolSearch().search("anything")) == 0


# -- the engine of the server --------------------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path) -> Iterator[World]:
    """The same lists as the server indexes and searches them, in a file."""
    with Store(tmp_path / "tool_cache.db", TOOLS_SCHEMA) as store:
        index = ToolIndex(store, shipped())
        section = ToolcribSection()
        shaping = _shaping(section)
        for key, tools in LISTS.items():
            taken = ingest(ServerSettings(key, StdioTarget("", (), {}, None), ServerSection(), ""), tools, shaping)
            index.replace(taken, config_fingerprint="c", now=1000.0, era=None)
        yield World(store, index, Searcher(CatalogViews(index, NameMaskers((), ())), SearchSettings()))


def _shaping(section: ToolcribSection) -> Shaping:
    policy = policy_of(section.policy)
    return Shaping(policy, section.limits, section.tool_search, section.tool_examples, lambda _schema, _args: True)


def found_by(world: World, searcher: Searcher, texts: Sequence[str], **options: Any) -> list[list[tuple[str, float]]]:
    catalog = world.catalog()
    requests = [SearchRequest(text, limit=8, include_always=True, **options) for text in texts]
    found = [searcher.search(request, catalog, permitted_of(catalog)) for request in requests]
    return [[(match.document.public_name, match.score) for match in each.matches] for each in found]


@pytest.mark.slow
@pytest.mark.parametrize("search_type", SearchType)
def test_it_ranks_as_the_server_does(index: toolcrib.ToolSearch, server: World, search_type: SearchType):
    texts = [text.split()[0] for text in TEXTS] if search_type is SearchType.REGEX else TEXTS
    by_server = found_by(server, server.searcher, texts, search_type=search_type)
    alone = [[(hit.name, hit.score) for hit in index.search(text, search_type=search_type.value)] for text in texts]
    assert alone == by_server


def test_what_views_read_of_records_is_what_they_read_of_rows(server: World):
    tools = server.catalog().tools
    shaping, records = _shaping(ToolcribSection()), {}
    by_name = {tool.public_name: tool.row for tool in tools}
    for key, raw in LISTS.items():
        taken = ingest(ServerSettings(key, StdioTarget("", (), {}, None), ServerSection(), ""), raw, shaping)
        records |= {by_name[record.public_name]: record for record in taken.records}
    memory, rows = ToolsInMemory(records, server.index.reading, shaping.search_texts), [*records, 10**6]
    versions = {row: record.fingerprint for row, record in [*records.items()][::2]}
    for read in ("definitions", "cards", "shown", "texts", "words"):
        for wanted in (None, versions):
            assert getattr(memory, read)(rows, wanted) == getattr(server.index, read)(rows, wanted), read
    mentions = {row: (version, json.loads(told)) for row, (version, told) in memory.versions(rows).items()}
    stored = {row: (version, json.loads(told)) for row, (version, told) in server.index.versions(rows).items()}
    assert {
        row: (version, {key: [*names] for key, names in told.items()}) for row, (version, told) in mentions.items()
    } == stored
    assert memory.texts_to_embed(rows) == VectorCache(server.store, TOOL_TEXTS).texts(rows)


def with_model(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """Have this model be the installed one."""
    make_model(folder, {**MEANINGS, "rain": ("weather", "umbrella", "wet"), "mail": ("mail", "letter", "message")})
    from toolcrib.search.static_model import files_in

    monkeypatch.setattr(semantic, "find_model", lambda _own, _downloaded: files_in(folder))
    return folder


@pytest.mark.slow
def test_with_a_model_it_compares_by_meaning_as_the_server_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: World
):
    from toolcrib.search.static_model import files_in, load_model

    folder = with_model(monkeypatch, tmp_path / "model")
    shared = SharedModel(lambda: load_model(files_in(folder)))
    by_meaning = Semantic(shared, VectorCache(server.store, TOOL_TEXTS), 0.8, server.index.reading.capabilities)
    views = CatalogViews(server.index, NameMaskers((), ()))
    texts = ["a wet letter", "gripe", "unite the lunch", *FEW]
    by_server = found_by(server, Searcher(views, SearchSettings(semantic=by_meaning)), texts)
    index, words = everything(), everything(semantic=False)
    assert [[(hit.name, hit.score) for hit in index.search(text)] for text in texts] == by_server
    assert by_server != [[(hit.name, hit.score) for hit in words.search(text)] for text in texts]


def test_a_tool_that_only_its_meaning_finds_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    with_model(monkeypatch, tmp_path / "model")
    tools = [{"name": "report_bug"}, {"name": "cook_lunch"}]
    (hit,) = toolcrib.ToolSearch(tools).search("gripe")
    assert (hit.name, hit.why) == ("report_bug", "other words for the same thing")
    assert not toolcrib.ToolSearch(tools, semantic=False).search("gripe")


# -- changes ---------------------------------------------------------------------------------------

POOL = [(server, tool) for server, tools in LISTS.items() for tool in tools[:3]][:24]
NAMES = [f"{server}__{tool['name']}" for server, tool in POOL]
REWORDED = [{**tool, "description": f"{tool.get('description', '')} Once more."} for _, tool in POOL]
ASKED = TEXTS[::25]

steps = st.lists(
    st.tuples(st.sampled_from(["add", "reword", "remove", "search"]), st.integers(0, len(POOL) - 1)), max_size=40
)


def after(changes: Sequence[tuple[str, int]]) -> tuple[toolcrib.ToolSearch, dict[int, bool]]:
    """Return an index after these changes, and which tools it then has; True: reworded."""
    index, has = toolcrib.ToolSearch(), dict[int, bool]()
    for what, number in changes:
        if what == "remove":
            if number in has:
                index.remove(NAMES[number])
                del has[number]
        elif what == "search":
            index.search(TEXTS[number])
        else:
            has[number] = what == "reword"
            index.add([REWORDED[number] if has[number] else POOL[number][1]], server=POOL[number][0])
    return index, has


@pytest.mark.slow
@given(steps)
def test_changes_in_any_order_give_the_index_of_what_is_left(changes: list[tuple[str, int]]):
    index, has = after(changes)
    fresh = toolcrib.ToolSearch()
    for number, is_reworded in sorted(has.items()):
        fresh.add([REWORDED[number] if is_reworded else POOL[number][1]], server=POOL[number][0])
    assert {*index.names} == {*fresh.names}
    assert shown(index, ASKED) == shown(fresh, ASKED)


@pytest.mark.slow
@given(steps)
def test_what_was_saved_is_loaded_equal(tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, int]]):
    index, _ = after(changes)
    path = tmp_path_factory.mktemp("saved") / "tools.index"
    index.save(path)
    loaded = toolcrib.ToolSearch.load(path)
    assert loaded.names == index.names
    assert shown(loaded, ASKED) == shown(index, ASKED)
    loaded.save(again := path.with_name("again"))
    assert again.read_bytes() == path.read_bytes()


def test_searches_beside_changes_see_the_tools_before_or_after_each(index: toolcrib.ToolSearch):
    pairs = [
        [{"name": f"left_{n}", "description": "Juggle."}, {"name": f"right_{n}", "description": "Juggle."}]
        for n in range(30)
    ]
    changing, problems = everything(), list[object]()
    done = threading.Event()

    def search() -> int:
        count = 0
        while not done.is_set() or not count:
            names = {hit.name for hit in changing.search("juggle", limit=50)}
            sides = [{name.partition("_")[2] for name in names if name.startswith(side)} for side in ("left", "right")]
            if sides[0] != sides[1]:
                problems.append(names)
            count += 1
        return count

    with ThreadPoolExecutor(4) as threads:
        searching = [threads.submit(search) for _ in range(3)]
        try:
            for pair in pairs:
                changing.add(pair)
            for pair in pairs[::2]:
                changing.remove(*(tool["name"] for tool in pair))
        finally:
            done.set()
        assert all(each.result() for each in searching)
    assert not problems
    changing.remove(*(tool["name"] for pair in pairs[1::2] for tool in pair))
    assert shown(changing) == shown(index)


def test_several_instances_do_not_know_of_each_other():
    one, other = toolcrib.ToolSearch([{"name": "paint_wall"}]), toolcrib.ToolSearch([{"name": "paint_door"}])
    assert [hit.name for hit in one.search("paint")] == ["paint_wall"]
    assert [hit.name for hit in other.search("paint")] == ["paint_door"]


# -- files -----------------------------------------------------------------------------------------


def test_a_saved_index_is_one_file_and_its_hits_have_no_function(tmp_path: Path):
    index = toolcrib.ToolSearch([forecast])
    index.save(tmp_path / "tools.index")
    index.add([{"name": "more"}])
    index.save(str(tmp_path / "tools.index"))
    assert [path.name for path in tmp_path.iterdir()] == ["tools.index"]
    loaded = toolcrib.ToolSearch.load(str(tmp_path / "tools.index"))
    assert loaded.names == ("forecast", "more")
    assert loaded.search("weather")[0].tool is None


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "tools.index"
    toolcrib.ToolSearch([forecast, {"name": "more"}]).save(path)
    return path


@pytest.mark.parametrize("place", [0, 5, 30, 120, 200, -2])
def test_a_damaged_file_is_an_error_that_says_what_to_do(saved: Path, place: int):
    data = bytearray(saved.read_bytes())
    data[place] ^= 0x55
    saved.write_bytes(data)
    with pytest.raises(
        toolcrib.StoreError, match=r"is damaged: .*Make it from the tools again|is no index of toolcrib"
    ):
        toolcrib.ToolSearch.load(saved)


def test_a_shortened_file_is_damaged(saved: Path):
    whole = saved.read_bytes()
    for length in range(0, len(whole), 7):
        saved.write_bytes(whole[:length])
        with pytest.raises(toolcrib.StoreError, match=r"is damaged|is no index of toolcrib"):
            toolcrib.ToolSearch.load(saved)


def rewritten(path: Path, lines: list[object], **head: object) -> None:
    """Write a file as a program that knows the format could."""
    body = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
    first = {"toolcrib_index": 1, "tools": len(lines), "sha256": sha256(body).hexdigest(), **head}
    path.write_bytes(json.dumps(first).encode() + b"\n" + body)


@pytest.mark.parametrize(
    "lines", [[7], [{"server": "", "tool": 7}], [{"tool": {"name": "x"}}], [{"server": 3, "tool": {"name": "x"}}]]
)
def test_a_file_with_something_else_than_tools_is_damaged(saved: Path, lines: list[object]):
    rewritten(saved, lines)
    with pytest.raises(toolcrib.StoreError, match="is damaged"):
        toolcrib.ToolSearch.load(saved)


@pytest.mark.parametrize("version", [True, False, 1.0, "1", None])
def test_a_format_that_is_no_number_is_none_of_ours(saved: Path, version: object):
    rewritten(saved, [], toolcrib_index=version)
    with pytest.raises(toolcrib.StoreError, match="is no index of toolcrib"):
        toolcrib.ToolSearch.load(saved)


def test_a_newer_file_says_to_upgrade(saved: Path):
    rewritten(saved, [], toolcrib_index=2)
    with pytest.raises(
        toolcrib.StoreError, match=r"by a newer toolcrib \(format 2, this one reads 1\): upgrade toolcrib"
    ):
        toolcrib.ToolSearch.load(saved)


def test_other_files_and_missing_ones_are_named(tmp_path: Path):
    other = tmp_path / "mcp.json"
    other.write_text("{}")
    with pytest.raises(toolcrib.StoreError, match=r"mcp\.json is no index of toolcrib"):
        toolcrib.ToolSearch.load(other)
    with pytest.raises(
        toolcrib.StoreError, match=r"There is no index in .*gone: ToolSearch\(…\)\.save\(path\) makes one"
    ):
        toolcrib.ToolSearch.load(tmp_path / "gone")
    with pytest.raises(toolcrib.StoreError, match="cannot be read"):
        toolcrib.ToolSearch.load(tmp_path)
    with pytest.raises(toolcrib.StoreError, match=r"cannot be saved in .*: No such file"):
        toolcrib.ToolSearch().save(tmp_path / "no" / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["mcp.json"]


# -- manners ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_it_starts_no_thread_writes_nothing_and_sets_up_no_logging(tmp_path: Path):
    code = """
import os, sys, threading, logging, warnings
warnings.simplefilter("error")
written = []
def look(event, args):
    is_write = event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+")
    if is_write or event in ("sqlite3.connect", "os.mkdir", "subprocess.Popen", "socket.connect"):
        written.append((event, *map(str, args)))
sys.addaudithook(look)
import toolcrib
index = toolcrib.ToolSearch([{"name": f"tool_{n}", "description": f"Does {n}."} for n in range(50)], semantic=False)
index.search("does 7")
index.remove("tool_3")
index.search("does 8")
print(threading.active_count(), written, logging.getLogger().handlers, logging.getLogger("toolcrib").handlers,
      sorted({"mcp", "asyncio", "numpy", "jsonschema", "yaml", "re2"} & {*sys.modules}), os.listdir("."))
del index
import gc; gc.collect()
"""
    environ = {
        "HOME": str(tmp_path),
        "PYTHONPATH": str(Path(toolcrib.__file__).parents[1]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path, env=environ
    )
    assert (done.stdout.strip(), done.stderr) == ("1 [] [] [] [] []", "")


def test_nothing_is_logged_by_an_ordinary_search(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.DEBUG):
        toolcrib.ToolSearch([forecast]).search("weather")
    assert not caplog.records
