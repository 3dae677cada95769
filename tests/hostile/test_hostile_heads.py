"""Heads of HTTP requests that are too large, and tokens and session ids that are none."""

import anyio
import pytest
from mcp_types import INVALID_PARAMS
from pydantic import ValidationError

from fakes.menu import tool
from online import ENVELOPE, Online, events, online, request
from toolcrib.config.schema import HttpSection, TokenSection

pytestmark = [pytest.mark.anyio, pytest.mark.hostile]

KIB = 1024
START = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
END = b"Content-Length: 2\r\n\r\n{}"
ANN = {"http": {"tokens": [{"token": "token-ann", "subject": "ann"}]}}


def padded(size: int) -> bytes:
    return b"X-Pad: " + b"x" * size + b"\r\n"


def many(size: int) -> bytes:
    return b"".join(b"X-%d: 0\r\n" % number for number in range(size // 8))


def repeated(size: int) -> bytes:
    return b"Authorization: Bearer nobody\r\n" * (size // 30)


async def answer_to(it: Online, data: bytes, pieces: int = 1) -> bytes:
    """Send bytes in so many pieces; return all that comes before the connection ends, or the first of it."""
    port = int(it.url.rpartition(":")[2].partition("/")[0])
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        size = -(-len(data) // pieces)
        try:
            for start in range(0, len(data), size):
                await stream.send(data[start : start + size])
            with anyio.fail_after(20):
                return await stream.receive()
        except (anyio.BrokenResourceError, anyio.EndOfStream):
            return b""  # closed while we were still sending


@pytest.mark.parametrize("kind", [padded, many, repeated])
@pytest.mark.parametrize("size", [40 * KIB, 60 * KIB, 200 * KIB, 2000 * KIB])
@pytest.mark.parametrize("pieces", [1, 7])
async def test_a_head_that_is_too_large_is_refused_before_anybody_reads_it(tmp_path, kind, size, pieces):
    async with online(tmp_path, {}) as it:
        answer = await answer_to(it, START + kind(size) + END, pieces)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ")
        assert (await it.http.get(it.url.removesuffix("/mcp") + "/healthz")).text == "ok\n"


async def test_so_is_a_long_target(tmp_path):
    async with online(tmp_path, {}) as it:
        answer = await answer_to(it, b"GET /healthz?" + b"x" * 60 * KIB + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ")


async def test_a_small_head_with_a_large_body_in_one_piece_is_read_whole(tmp_path):
    async with online(tmp_path, {"zoo": [tool("feed")]}, listing="auto") as it:
        text = "x" * 200 * KIB
        params = {"_meta": ENVELOPE, "name": "zoo__feed", "arguments": {"text": text}}
        answer = await it.modern("tools/call", params)
        assert "result" in events(answer)[-1]
        assert it.world["zoo"].calls()[0]["arguments"] == {"text": text}


async def test_a_session_id_is_bounded(tmp_path):
    config = {**ANN, "tool_search": {"activation_scope": "session"}}
    async with online(tmp_path, {"zoo": [tool("feed")]}, config) as it:
        longest = await it.session("token-ann", x_toolcrib_session="x" * 256)
        await longest.call("zoo__feed")
        assert "zoo__feed" in await longest.names()
        for size in (257, 8000):
            longest.headers["x-toolcrib-session"] = "x" * size
            [said] = await longest.ask("tools/list")
            assert "more than 256 characters" in said["error"]["message"]


async def test_a_handshake_that_is_not_in_order_is_not_said_to_be_done(tmp_path):
    async with online(tmp_path, {}) as it:
        asked = request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}})
        assert events(await it.post(asked))[-1]["error"]["code"] == INVALID_PARAMS


@pytest.mark.parametrize(
    "token",
    ["", " " * 8, "\t" * 8, "\u00a0" * 8, "\u200b" * 8, "short", "with a space", "line\nbreak", "tökens-here"],
)
def test_a_blank_token_is_refused(token):
    with pytest.raises(ValidationError):
        TokenSection(token=token, subject="ann")


@pytest.mark.parametrize("subject", ["", " ", "\t\n"])
def test_a_blank_subject_is_refused(subject):
    with pytest.raises(ValidationError):
        HttpSection(tokens=(TokenSection(token="token-ann", subject=subject),))
