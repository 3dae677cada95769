"""The steps of a login that a person makes: each ends, whoever does not."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.abc
import pytest

from downstream.fleets import http_settings
from fakes.oauth_server import Guarded, guarded_server
from patience import patience_s
from toolcrib.auth import flow
from toolcrib.auth.flow import LoginPrompt, log_in, request_challenge
from toolcrib.auth.keyring import NoKeyring
from toolcrib.auth.store import TokenStore
from toolcrib.base.errors import LoginFailed
from waiting import DEADLINE_S, time_passes

pytestmark = pytest.mark.anyio

BOUND_S = patience_s(20)
"""What a busy machine may take for something that ends at once."""


@pytest.fixture
def guarded() -> Iterator[Guarded]:
    with guarded_server() as server:
        yield server


async def pasted_never(_address: str) -> flow.AuthorizationCodeResult:
    await anyio.sleep_forever()
    raise AssertionError


@pytest.mark.parametrize("never", ["answer", "browser", "paste"])
async def test_a_person_is_not_waited_for_without_end(
    never: str, tmp_path: Path, guarded: Guarded, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(flow, "PERSON_S", DEADLINE_S)
    asked = anyio.Event()

    async def shown(_address: str, _redirect_uri: str) -> None:
        asked.set()
        if never == "browser":
            await anyio.sleep_forever()

    async def answer_not() -> None:
        await asked.wait()
        await time_passes(DEADLINE_S)

    prompt = LoginPrompt(shown, pasted_never) if never == "paste" else LoginPrompt(shown)
    server, entry = http_settings(guarded.url), TokenStore(tmp_path, NoKeyring()).entry(guarded.url, "web")
    with anyio.fail_after(BOUND_S):
        challenge, is_wanted = await request_challenge(server)
        assert is_wanted
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer_not)
            with pytest.raises(LoginFailed, match="no answer came within"):
                await log_in(server, entry, challenge, prompt)


async def test_a_server_that_answers_byte_by_byte_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(flow, "FETCH_S", DEADLINE_S)

    async def drip(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.send(b"HTTP/1.1 401 Unauthorized\r\nx-long: ")
            with suppress(anyio.BrokenResourceError):
                while True:
                    await stream.send(b"x")
                    await anyio.sleep(1)

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        tasks.start_soon(listener.serve, drip)
        tasks.start_soon(time_passes, DEADLINE_S)
        with anyio.fail_after(BOUND_S), pytest.raises(LoginFailed, match="did not answer within 6 s"):
            await request_challenge(http_settings(f"http://127.0.0.1:{port}/mcp"))
        tasks.cancel_scope.cancel()
