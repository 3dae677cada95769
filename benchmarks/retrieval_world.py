"""toolcrib's own search over a measured catalog: the whole program in this process, with servers in memory.

Knows how to stand toolcrib before a catalog and ask it through its use cases; never knows what is right.
"""

import json
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from retrieval_data import Dataset
from retrieval_metrics import DEPTH, Answer, Search
from toolcrib.base.model import Caller
from toolcrib.catalog.tool_search import SearchRequest
from toolcrib.config.loading import load
from toolcrib.config.schema import LimitsSection
from toolcrib.config.settings import ServerSettings, Settings
from toolcrib.downstream.transport import Streams
from toolcrib.gateway.composition import open_gateway
from toolcrib.gateway.runtime import Runtime
from toolcrib.gateway.tools import ToolUseCases
from toolcrib.jsonrpc.sdk import StreamDispatcher
from toolcrib.policy.sessions import RunActivations, Session
from toolcrib.skills.answers import ListRequest
from toolcrib.skills.search import SkillQuery
from toolcrib.skills.use_cases import SkillUseCases

HANDSHAKE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "in-memory", "version": "1"},
}
NOT_FOUND = {"code": -32601, "message": "Method not found"}
SECTION = {"limits": {"first_index_wait_s": 600, "tools_per_server": 100_000, "parallel_starts": 16}}
WARMING = "anything"
WORDS_ALONE = {"tool_search": {"semantic": {"enabled": False}}}
"""The config of a toolcrib that does not search by meaning, whatever is installed."""

ToolLists = Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Opened:
    """A toolcrib that can be asked. ``index_s``: from the start, without an index, to the first answer.

    ``missing``: how many can never be found, since they were refused or are hidden from models. ``hits`` returns all
    that was found, as (server, name).
    """

    search: Search
    hits: Callable[[str], list[tuple[str, str]]]
    index_s: float
    missing: int = 0


# -- servers in memory ---------------------------------------------------------------------------


def connector(lists: ToolLists) -> Callable[..., AbstractAsyncContextManager[Streams]]:
    """Return what reaches servers that only list these tools."""

    @asynccontextmanager
    async def connect(server: ServerSettings, _limits: LimitsSection) -> AsyncGenerator[Streams]:
        to_server, at_server = anyio.create_memory_object_stream[Any](8)
        to_client, at_client = anyio.create_memory_object_stream[Any](8)
        async with to_server, at_server, to_client, at_client, anyio.create_task_group() as tasks:
            tasks.start_soon(_answer, at_server, to_client, {"tools": list(lists[server.key])})
            yield Streams(StreamDispatcher(at_client, to_server), http=False, explain=_nothing)
            tasks.cancel_scope.cancel()

    return connect


async def _answer(incoming: Any, outgoing: Any, listed: Mapping[str, Any]) -> None:
    results = {"initialize": HANDSHAKE, "tools/list": listed}
    async for item in incoming:
        message = item.message.model_dump(by_alias=True, exclude_unset=True)
        if "id" in message:
            result = results.get(message["method"])
            said = {"error": NOT_FOUND} if result is None else {"result": result}
            answer = {"jsonrpc": "2.0", "id": message["id"], **said}
            await outgoing.send(SessionMessage(jsonrpc_message_adapter.validate_python(answer, by_name=False)))


async def _nothing() -> str:
    return ""


# -- toolcrib before them ------------------------------------------------------------------------


@contextmanager
def opened(dataset: Dataset, section: Mapping[str, Any] | None = None) -> Generator[Opened]:
    """Index the catalog with toolcrib and let it be searched, until left; ``section`` is put over its config."""
    if dataset.folder is not None:
        with opened_skills(dataset.folder, len(dataset.documents), section) as skills:
            yield skills
        return
    ids = {(document.server, document.name): document.id for document in dataset.documents}
    with opened_tools(lists_of(dataset), ids, section) as tools:
        yield tools


def lists_of(dataset: Dataset) -> ToolLists:
    """Return the tools of a set, by server."""
    lists: dict[str, list[Mapping[str, Any]]] = {}
    for document in dataset.documents:
        lists.setdefault(document.server, []).append(document.definition)
    return lists


@contextmanager
def opened_tools(
    lists: ToolLists, ids: Mapping[tuple[str, str], str] | None = None, section: Mapping[str, Any] | None = None
) -> Generator[Opened]:
    """Stand toolcrib before servers with these tools. ``ids`` are theirs by server and name."""
    began = time.perf_counter()
    with opened_use_cases(lists, section) as (portal, crib):
        yield _tools(portal, crib, (lists, ids or {}), began)


@contextmanager
def opened_use_cases(
    lists: ToolLists, section: Mapping[str, Any] | None = None
) -> Generator[tuple[BlockingPortal, ToolUseCases]]:
    """Stand toolcrib's own use cases before servers with these tools; they are asked through the portal."""
    with tempfile.TemporaryDirectory() as folder, start_blocking_portal() as portal:
        settings = configured(Path(folder), list(lists), {**SECTION, "skills": {"enabled": False}, **(section or {})})
        runtime = Runtime(connector=connector(lists))
        with portal.wrap_async_context_manager(open_gateway(settings, runtime)) as gateway:
            yield portal, gateway.tools


def _tools(
    portal: BlockingPortal, crib: ToolUseCases, known: tuple[ToolLists, Mapping[tuple[str, str], str]], began: float
) -> Opened:
    lists, ids = known
    session = Session("benchmark", Caller(), RunActivations(), growing=False)

    async def search(query: str) -> tuple[Any, float]:
        began = time.perf_counter()
        answer = await crib.search_tools(session, SearchRequest(query, limit=DEPTH), "signature")
        return answer, (time.perf_counter() - began) * 1000

    def hits(query: str) -> list[tuple[str, str]]:
        return [(hit.tool.server, hit.tool.name) for hit in portal.call(search, query)[0].hits]

    def answer(query: str) -> Answer:
        given, ms = portal.call(search, query)
        found = ((hit.tool.server, hit.tool.name) for hit in given.hits)
        return answered(tuple(ids.get(one, one[1]) for one in found), given, ms)

    first, _ = portal.call(search, WARMING)
    missing = sum(map(len, lists.values())) - first.total_deferred
    return Opened(answer, hits, time.perf_counter() - began, missing)


@contextmanager
def opened_skills(folder: Path, count: int, section: Mapping[str, Any] | None = None) -> Generator[Opened]:
    """Stand toolcrib before a folder with so many skills; ``section`` is put over its config."""
    skills = {"skills": {"skill_dirs": [str(folder.resolve())], "core_pack": False, "discover": []}}
    with tempfile.TemporaryDirectory() as place, start_blocking_portal() as portal:
        settings = configured(Path(place), [], {**SECTION, **skills, **(section or {})})
        began = time.perf_counter()
        with portal.wrap_async_context_manager(open_gateway(settings, Runtime())) as gateway:
            yield _skills(portal, gateway.skills, count, began)


def _skills(portal: BlockingPortal, library: SkillUseCases, count: int, began: float) -> Opened:
    session = Session("benchmark", Caller(), RunActivations(), growing=False)

    async def search(query: str) -> tuple[Any, float]:
        began = time.perf_counter()
        answer = await library.search(session, SkillQuery(query, limit=DEPTH))
        return answer, (time.perf_counter() - began) * 1000

    def hits(query: str) -> list[tuple[str, str]]:
        return [(hit.skill.source, hit.skill.name) for hit in portal.call(search, query)[0].hits]

    def answer(query: str) -> Answer:
        given, ms = portal.call(search, query)
        return answered(tuple(hit.skill.name for hit in given.hits), given, ms)

    portal.call(search, WARMING)
    index_s = time.perf_counter() - began
    listed = portal.call(library.list_skills, session, ListRequest())
    return Opened(answer, hits, index_s, count - listed.total)


def answered(ids: tuple[str, ...], given: Any, ms: float) -> Answer:
    """Return an answer with the evidence behind its confidence: of an older checkout, a number alone."""
    evidence: Any = given.evidence
    if isinstance(evidence, float):
        return Answer(ids, given.confidence, evidence, ms)
    return Answer(ids, given.confidence, evidence.strength, ms, asdict(evidence))


def configured(folder: Path, servers: Sequence[str], section: Mapping[str, Any]) -> Settings:
    """Write a config with these servers, and load it; the index is kept in ``folder``."""
    file = folder / "mcp.json"
    document = {
        "mcpServers": {key: {"command": "in-memory"} for key in servers},
        "toolcrib": {"cache_dir": str(folder / "cache"), "state_dir": str(folder / "state"), **section},
    }
    file.write_text(json.dumps(document), encoding="utf-8")
    return load(file, {"HOME": str(folder / "home")}, folder)
