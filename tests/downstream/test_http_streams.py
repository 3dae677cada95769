"""What becomes of a stream of events when its reader stops at an answer: it is read to its end, or let go soon.

One that is no answer, since the request was refused or answers come another way, is not read without a bound.
"""

import json
from collections.abc import AsyncGenerator, Sequence

import anyio
import httpx2
import pytest

from patience import patience_s
from toolcrib.base.model import JsonObject
from toolcrib.downstream.http import BodyBounds, Deliver, HttpClient

pytestmark = pytest.mark.anyio

URL = "https://mcp.example.com/mcp"
CALL: JsonObject = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
ANSWER = b'data: {"jsonrpc":"2.0","id":1,"result":{}}\n\n'


class Stream(httpx2.AsyncByteStream):
    """A body in pieces, which ends, breaks or goes on saying nothing; ``state`` is how far it has been read."""

    def __init__(self, pieces: Sequence[bytes], end: str = "whole") -> None:
        self._pieces, self._end = pieces, end
        self.read, self.is_whole, self.is_closed = 0, False, False

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        for piece in self._pieces:
            self.read += 1
            yield piece
        if self._end == "broken":
            raise httpx2.ReadError("reset")
        if self._end == "silent":
            await anyio.sleep_forever()
        self.is_whole = True

    async def aclose(self) -> None:
        self.is_closed = True


def answering(status: int, stream: Stream, deliver: Deliver | None = None) -> HttpClient:
    """Return a client whose requests get a stream of events."""
    kind = {"content-type": "text/event-stream"}
    transport = httpx2.MockTransport(lambda _request: httpx2.Response(status, headers=kind, stream=stream))
    return HttpClient(URL, BodyBounds(max_bytes=10_000, values=1000), "mark", deliver, transport=transport)


async def stopped_at_the_answer(stream: Stream) -> None:
    """Read one piece of a stream and leave it, as the SDK does."""
    async with answering(200, stream) as client, client.stream("POST", URL, json=CALL) as response:
        async for piece in response.aiter_bytes():
            assert piece == ANSWER
            break
        with anyio.fail_after(patience_s(20)):
            await response.aclose()
    assert stream.is_closed


@pytest.mark.parametrize("rest", [[], [b": the end\n\n"]])
async def test_a_stream_that_is_at_its_end_is_read_to_it(rest, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolcrib.downstream.http._TAIL_S", 20)
    stream = Stream([ANSWER, *rest])
    await stopped_at_the_answer(stream)
    assert stream.is_whole


@pytest.mark.parametrize("end", ["silent", "broken"])
async def test_one_that_does_not_end_in_order_is_let_go(end):
    stream = Stream([ANSWER, b": still here\n\n"], end)
    await stopped_at_the_answer(stream)
    assert (stream.read, stream.is_whole) == (2, False)


async def test_not_much_is_read_of_one_that_goes_on():
    stream = Stream([ANSWER, *[b"x" * 1000] * 1000])
    await stopped_at_the_answer(stream)
    assert stream.read < 10


async def answered(client: HttpClient) -> JsonObject:
    """Read an answer whole, as the SDK does with one that is no stream."""
    async with client.stream("POST", URL, json=CALL) as response:
        return json.loads(await response.aread())


async def test_of_a_refusal_no_more_is_read_than_an_answer_may_have():
    stream = Stream([b"data: " + b"x" * 1000 + b"\n\n"] * 1000)
    async with answering(400, stream) as client:
        told = await answered(client)
    assert told["error"]["message"] == "HTTP 400 Bad Request"
    assert (stream.read, stream.is_closed) == (10, True)


async def test_a_refusal_that_never_ends_is_told_by_its_status(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolcrib.downstream.http._REASON_S", 0.01)
    stream = Stream([b": still here\n\n"], "silent")
    async with answering(400, stream) as client:
        with anyio.fail_after(patience_s(20)):
            told = await answered(client)
    assert told["error"]["message"] == "HTTP 400 Bad Request"
    assert stream.is_closed


async def test_what_a_message_gets_where_answers_come_another_way_is_bounded_too():
    stream = Stream([b"data: " + b"x" * 1000 + b"\n\n"] * 1000)
    async with answering(202, stream, deliver=lambda _message: None) as client:
        with pytest.raises(httpx2.StreamError, match="more than 10000 bytes"):
            await answered(client)
    assert stream.read == 10
