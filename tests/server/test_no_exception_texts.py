"""Whatever goes wrong inside, no exception text of ours reaches a client, and the next request is answered."""

import inspect
import json
import logging
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from mcp import MCPError

from fakes.menu import tool
from toolcrib.base.errors import StoreError
from toolcrib.catalog import arguments as schema_check
from toolcrib.catalog import definitions, gate, index, indexing, snapshot, views
from toolcrib.catalog import tool_search as answers
from toolcrib.catalog import tool_search as search
from toolcrib.downstream import connection, fleet, lifecycle
from toolcrib.events.log import EventLog
from toolcrib.gateway import results, tools
from toolcrib.policy import rules
from toolcrib.server import protocol, sessions
from toolcrib.server.builtin import registry
from toolcrib.server.builtin import tools as tool_call
from toolcrib.server.builtin import tools as tool_search
from worlds import ERAS, Client, MemoryServer, World, text, world

pytestmark = pytest.mark.anyio

SECRET = "hunter2-and-a-path-/home/anna"
CLASSES = [
    snapshot.Catalog,
    snapshot.Permitted,
    connection.Connection,
    tools.ToolUseCases,
    fleet.Fleet,
    gate.Gate,
    indexing.Indexer,
    lifecycle.Downstream,
    rules.Policy,
    rules.Permissions,
    search.Searcher,
    schema_check.SchemaChecker,
    sessions.Sessions,
    registry.Builtins,
    tool_call.CallReadOnly,
    tool_call.CallTool,
    tool_search.SearchTools,
    index.ToolIndex,
    views.CatalogView,
    EventLog,
]
MODULES = {
    tools: [
        "unwrap_arguments",
    ],
    results: ["weight"],
    protocol: ["list_result", "_call_result"],
    registry: ["_validated"],
    tool_search: ["answer_text", "search_json"],
    answers: ["split_summary", "truncate"],
    definitions: ["render"],
    views: ["listed_definition"],
    sessions: ["RunActivations", "NoActivations", "local_caller"],
}
IN_A_SERVERS_TASK = (
    connection.Connection,
    fleet.Fleet,
    indexing.Indexer,
    lifecycle.Downstream,
    rules.Policy,
    index.ToolIndex,
)
"""Parts that are also asked while a server is started."""


def parts() -> Iterator[tuple[Any, str]]:
    """Yield every public function that a request may come through, as (where it stands, its name)."""
    for owner in CLASSES:
        yield from ((owner, name) for name, _ in inspect.getmembers(owner, inspect.isfunction) if name[0] != "_")
    for module, names in MODULES.items():
        yield from ((module, name) for name in names)


def raising(error: Exception, asked: list[Any] | None = None) -> Callable[..., None]:
    """Return a function that fails, and notes that it was asked."""

    def fail(*arguments: object, **_options: object) -> None:
        if asked is not None:
            asked.append(arguments)
        raise error.with_traceback(None)  # else each time it is raised it has more to be printed

    return fail


SERVER = [
    tool("get", params={"at": "string"}, required=["at"]),
    tool("put", annotations={"readOnlyHint": True}),
]


@asynccontextmanager
async def running(tmp_path, era: str) -> AsyncGenerator[tuple[World, Client]]:
    """Run a world with everything in it that a request can meet."""
    config = {
        "limits": {"backoff_max_s": 0.001},
        "tool_search": {"activation_scope": "session", "always_loaded_patterns": ["db.put"]},
        "context": {"session_id": "s"},
        "policy": {"visibility": [{"when": {"tenant_id": "t"}, "deny": ["x"]}]},
    }
    async with world(tmp_path, {"db": SERVER}, config, listing="auto") as w, w.client(era) as client:
        yield w, client


async def everything(client: Client) -> None:
    """Ask for everything; errors are fine."""
    for door, arguments in (
        ("tool_search", {"query": "get it"}),
        ("tool_search", {"query": "get", "search_type": "regex", "detail": "schema"}),
        ("tool_search", {"query": "db.get", "search_type": "exact"}),
        ("tool_call", {"name": "get", "arguments": {"at": "x"}}),
        ("tool_call", {"name": "get", "arguments": {"at": 7}}),
        ("tool_call", {"name": "nothing"}),
        ("tool_call_read", {"name": "put"}),
        ("db__get", {"at": "x"}),
        ("db__nothing", {}),
    ):
        with suppress(MCPError):
            await client.call(door, arguments)
    with suppress(MCPError):
        await client.tools()


UNFORESEEN, FORESEEN = KeyError(SECRET), StoreError("The index cannot be read.", detail=SECRET)


@pytest.mark.slow
@pytest.mark.parametrize("error", [UNFORESEEN, FORESEEN], ids=repr)
@pytest.mark.parametrize("era", ERAS)
async def test_no_part_that_fails_tells_a_client_why_and_the_next_request_is_answered(
    tmp_path, monkeypatch, caplog, era, error
):
    caplog.set_level(logging.CRITICAL)
    failed = []
    async with running(tmp_path, era) as (w, client):
        for owner, name in parts():
            asked: list[Any] = []
            with monkeypatch.context() as patch:
                patch.setattr(owner, name, raising(error, asked))
                if owner in IN_A_SERVERS_TASK:
                    await w["db"].hang_up()
                await everything(client)
            if asked:
                failed.append(f"{owner.__name__}.{name}")
        assert (await client.call("db__get", {"at": "x"}))["content"] == text('ran get {"at": "x"}')["content"]
        assert await client.found("get") == ["db__get"]
        said = json.dumps(w.said)
    assert SECRET not in said
    assert "Traceback" not in said
    assert len(failed) > 40, failed


@pytest.mark.parametrize("era", ERAS)
async def test_an_unexpected_error_is_one_fixed_message_with_a_reference_that_the_log_has_too(
    tmp_path, monkeypatch, caplog, era
):
    async with running(tmp_path, era) as (_w, client):
        monkeypatch.setattr(search.Searcher, "search", raising(RuntimeError(SECRET)))
        with caplog.at_level(logging.ERROR), pytest.raises(MCPError) as caught:
            await client.call("tool_search", {"query": "get"})
        message = caught.value.message
        assert caught.value.code == -32603
        assert caught.value.error.data is None
        assert message.startswith("Internal error of toolcrib; its log has the details under reference ")
        reference = message.rpartition("reference ")[2].rstrip(".")
        assert len(reference) == 8
        [record] = [record for record in caplog.records if reference in record.getMessage()]
        assert SECRET in str(record.exc_info[1])


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    "error", [KeyError(SECRET), TypeError(SECRET), ExceptionGroup("g", [KeyError(SECRET)])], ids=repr
)
async def test_a_connector_that_fails_in_an_unexpected_way_tells_no_client_why(tmp_path, era, error):
    protocol = MemoryServer(SERVER)
    async with world(tmp_path, {"db": protocol}, listing="auto") as w, w.client(era) as client:
        protocol.start_error = error
        result = await client.call("db__get", {})
        assert result["isError"]
        assert "The server 'db' could not be started" in result["content"][0]["text"]
        await client.tool_call("db.get", {"at": 7})
        await client.search("get")
        assert SECRET not in json.dumps(w.said)


@pytest.mark.parametrize("era", ERAS)
async def test_a_known_secret_of_a_server_is_masked_wherever_the_server_tells_it(tmp_path, era):
    entry = {"command": "in-memory", "args": ["x"], "env": {"TOKEN": SECRET}}
    protocol = MemoryServer(SERVER, entry=entry, start_error=OSError(f"cannot log in with {SECRET}"))
    async with world(tmp_path, {"db": protocol}, listing="auto") as w, w.client(era) as client:
        await client.search("get")
        protocol.start_error = None
        protocol.answers["get"] = MCPError(-32000, "busy")
        await client.tool_call("db__get", {"at": "x"})
        assert SECRET not in json.dumps([w.said, w.events])
    assert SECRET not in w.settings.events_file.read_text()
    assert SECRET.encode() not in w.catalog_file.read_bytes()
