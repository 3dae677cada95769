r"""Half a character (``\ud83d``) in what passes to and from a server over HTTP costs neither call nor result."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from downstream.fleets import fleet_of, http_settings
from downstream.scripted_http import Answer, Request, event, healthy, result, scripted
from toolcrib.base.errors import DownstreamError

pytestmark = pytest.mark.anyio

CUT = {"content": [{"type": "text", "text": "cut \ud83d here"}], "structuredContent": {"a\ud83d": ["\udc4d", 1.0]}}
WHOLE = {"content": [{"type": "text", "text": "cut \ufffd here"}], "structuredContent": {"a\ufffd": ["\ufffd", 1.0]}}


async def as_json(request: Request) -> Answer | None:
    return result(request, CUT) if request.method == "tools/call" else await healthy(request)


async def as_events(request: Request) -> Answer | None:
    if request.method != "tools/call":
        return await healthy(request)

    async def events() -> AsyncGenerator[bytes]:
        said = event({"jsonrpc": "2.0", "id": request.message["id"], "result": CUT})
        # In pieces, one of which ends inside of the escape.
        for start, end in ((0, said.index(b"\\ud") + 4), (said.index(b"\\ud") + 4, len(said))):
            yield said[start:end]

    return Answer(200, events=events())


@pytest.mark.parametrize("script", [as_json, as_events])
async def test_a_result_with_half_a_character_comes(script: Any):
    async with scripted(script) as server, fleet_of(http_settings(server.url, protocol="legacy")) as it:
        assert await it.call("web", "echo") == WHOLE


async def test_arguments_with_half_a_character_are_sent():
    async with scripted(healthy) as server, fleet_of(http_settings(server.url, protocol="legacy")) as it:
        said = await it.text("web", "echo", {"a\ud83d": "\ud83d", "b": "👍"})
        assert json.loads(said) == {"a\ufffd": "\ufffd", "b": "👍"}


async def test_arguments_that_are_nested_too_deeply_are_refused_and_the_server_goes_on():
    deep: Any = 1
    for _ in range(400):
        deep = [deep]
    async with scripted(healthy) as server, fleet_of(http_settings(server.url, protocol="legacy")) as it:
        with pytest.raises(DownstreamError, match="Nothing was sent: it is nested too deeply"):
            await it.call("web", "echo", {"a": deep})
        assert await it.text("web", "echo", {"a": 1}) == '{"a": 1}'
        assert it.fleet["web"].status.state.value == "ready"
