"""Everything that a server says comes through toolcrib as it said it: status, result and error, but for the names.

The same requests go to the server directly and through toolcrib as a plain proxy. What may differ is named here.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from conformance.content import ANSWERS, ASKED_ONCE, ASKED_WITH_STATE, PROMPTS, RESOURCES
from conformance.ways import PROXY, SERVER, directly, through
from online import ACCEPT, LEGACY, META, MODERN, events, modern_headers, request

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

JsonObject = dict[str, Any]

MAY_DIFFER = (f"{META}serverInfo", "toolcrib/source", "requestState")
"""What ``_meta`` tells of the next server alone; what is ours; and a state, which is sealed anew each time."""

LISTS = {"tools": "name", "prompts": "name", "resources": "uri", "resourceTemplates": "uriTemplate"}
"""Lists that hold what several servers offer, and by what they are sorted."""

CACHING = ("ttlMs", "cacheScope")
"""What toolcrib says of such a list, because it decides who sees what."""

TOOLS = [*ANSWERS, "test_tool_with_logging", "test_tool_with_progress", "test_missing_capability", "test_logging_tool"]
ASKING = "test_input_required_result_prompt"

REQUESTS: dict[str, tuple[str, JsonObject]] = {
    "tools": ("tools/list", {}),
    **{name: ("tools/call", {"name": name, "arguments": {}}) for name in TOOLS},
    "arguments": ("tools/call", {"name": "test_simple_text", "arguments": {"a": [1, 2.5, None, {"b": "é"}]}}),
    "no arguments": ("tools/call", {"name": "test_simple_text"}),
    "resources": ("resources/list", {}),
    "templates": ("resources/templates/list", {}),
    **{uri: ("resources/read", {"uri": uri}) for uri in [*RESOURCES, "test://template/7/data"]},
    "unknown resource": ("resources/read", {"uri": "test://none"}),
    "prompts": ("prompts/list", {}),
    **{
        name: ("prompts/get", {"name": name, "arguments": {argument: f"as {argument}" for argument in needed}})
        for name, needed in PROMPTS.items()
        if name != ASKING
    },
    "prompt without arguments": ("prompts/get", {"name": "test_prompt_with_arguments"}),
    "completion": (
        "completion/complete",
        {
            "ref": {"type": "ref/prompt", "name": "test_prompt_with_arguments"},
            "argument": {"name": "arg1", "value": "p"},
        },
    ),
    "completion of a template": (
        "completion/complete",
        {"ref": {"type": "ref/resource", "uri": "test://template/{id}/data"}, "argument": {"name": "id", "value": "p"}},
    ),
}

QUESTIONS: dict[str, tuple[str, JsonObject]] = {
    **{name: ("tools/call", {"name": name, "arguments": {}}) for name in [*ASKED_ONCE, *ASKED_WITH_STATE]},
    "capabilities": ("tools/call", {"name": "test_input_required_result_capabilities", "arguments": {}}),
    "prompt": ("prompts/get", {"name": ASKING}),
}
"""What is answered by a question to the client, in the era where that is a result."""

DECLARED = ({}, {"elicitation": {}}, {"sampling": {}}, {"elicitation": {}, "sampling": {}, "roots": {}})


class Asker:
    """One client, by hand: what it is told is compared as it is."""

    def __init__(self, http: httpx2.AsyncClient, url: str, session: dict[str, str] | None) -> None:
        self._http, self._url, self._session = http, url, session

    async def ask(self, method: str, params: JsonObject, capabilities: JsonObject) -> tuple[int, list[JsonObject]]:
        """Return the status of an answer, and all its messages without what belongs to one hop."""
        if self._session is None:
            envelope = {
                f"{META}protocolVersion": MODERN,
                f"{META}clientInfo": {"name": "t", "version": "1"},
                f"{META}clientCapabilities": capabilities,
            }
            params = {**params, "_meta": {**envelope, "progressToken": "p"}}
            headers = modern_headers(method, params.get("name") or params.get("uri"))
        else:
            params = {**params, "_meta": {"progressToken": "p"}}
            headers = self._session
        answer = await self._http.post(self._url, json=request(method, params), headers={**ACCEPT, **headers})
        return answer.status_code, [bare(message) for message in events(answer)]


@asynccontextmanager
async def asker(url: str, era: str) -> AsyncGenerator[Asker]:
    async with httpx2.AsyncClient(timeout=30) as http:
        if era == MODERN:
            yield Asker(http, url, None)
            return
        hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        greeted = await http.post(url, json=request("initialize", hello), headers=ACCEPT)
        session = {"mcp-session-id": greeted.headers["mcp-session-id"], "mcp-protocol-version": LEGACY}
        told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await http.post(url, json=told, headers={**ACCEPT, **session})
        yield Asker(http, url, session)


def bare(value: Any) -> Any:
    """Return a value without what may differ."""
    if isinstance(value, list):
        return [bare(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("method") == "notifications/message":
        value = {**value, "params": of_the_server(value["params"])}
    left_out = [*MAY_DIFFER, *(CACHING if value.keys() & LISTS.keys() else ())]
    kept = {key: listed(key, bare(member)) for key, member in value.items() if key not in left_out}
    return {key: member for key, member in kept.items() if (key, member) != ("_meta", {})}


def of_the_server(log: JsonObject) -> JsonObject:
    """Return a log message with the logger that the server named, before which toolcrib puts the server."""
    name = log.get("logger", SERVER).removeprefix(SERVER).removeprefix("/")
    return {**{key: value for key, value in log.items() if key != "logger"}, **({"logger": name} if name else {})}


def listed(key: str, items: Any) -> Any:
    """Return the items of a list that are the server's, by name, and anything else as it is."""
    if key not in LISTS or not isinstance(items, list):
        return items
    by = LISTS[key]
    return sorted((item for item in items if not item[by].startswith("toolcrib://")), key=lambda item: item[by])


@asynccontextmanager
async def both(folder: Path, era: str) -> AsyncGenerator[tuple[Asker, Asker]]:
    """Yield a client of the server itself, and one of toolcrib, all of one era."""
    protocol = {"protocol": "modern" if era == MODERN else "legacy"}
    way = replace(PROXY, toolcrib={**PROXY.toolcrib, "servers": {SERVER: protocol}})
    async with directly() as url, through(way, folder) as proxied:
        async with asker(url, era) as direct, asker(proxied, era) as behind:
            yield direct, behind


@pytest.mark.parametrize("era", [LEGACY, MODERN])
async def test_every_answer_is_the_one_that_the_server_gave(tmp_path: Path, era: str):
    differing: dict[str, Any] = {}
    async with both(tmp_path, era) as (direct, behind):
        for title, (method, params) in REQUESTS.items():
            wanted, got = await direct.ask(method, params, {}), await behind.ask(method, params, {})
            if got != wanted:
                differing[title] = {"direct": wanted, "through": got}
    assert differing == {}


async def test_every_question_is_the_one_that_the_server_asks_a_client_of_such_capabilities(tmp_path: Path):
    differing: dict[str, Any] = {}
    async with both(tmp_path, MODERN) as (direct, behind):
        for declared in DECLARED:
            for title, (method, params) in QUESTIONS.items():
                wanted, got = await direct.ask(method, params, declared), await behind.ask(method, params, declared)
                if got != wanted:
                    differing[f"{title} of a client with {[*declared]}"] = {"direct": wanted, "through": got}
    assert differing == {}
