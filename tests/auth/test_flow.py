"""The steps of a login that a person makes: each ends, whoever does not."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.abc
import pytest

from downstream.fleets import http_settings
from fakes.oauth_server import Guarded, guarded_server
from toolcrib.auth import flow
from toolcrib.auth.flow import LoginPrompt, log_in, request_challenge
from toolcrib.auth.keyring import NoKeyring
from toolcrib.auth.store import TokenStore
from toolcrib.base.errors import LoginFailed

pytestmark = pytest.mark.anyio

BOUND_S = 20
"""What a busy machine may take for something that ends after a fraction of a second."""


@pytest.fixture
def guarded() -> Iterator[Guarded]:
    with guarded_server() as server:
        yield server


async def shown(_address: str, _redirect_uri: str) -> None:
    """Show nothing, at once."""


async def shown_for_ever(_address: str, _redirect_uri: str) -> None:
    await anyio.sleep_forever()


async def pasted_never(_address: str) -> flow.AuthorizationCodeResult:
    await anyio.sleep_forever()
    raise AssertionError


@pytest.mark.parametrize(
    "prompt",
    [LoginPrompt(shown), LoginPrompt(shown_for_ever), LoginPrompt(shown, pasted_never)],
    ids=["answer", "browser", "paste"],
)
async def test_a_person_is_not_waited_for_without_end(
    prompt: LoginPrompt, tmp_path: Path, guarded: Guarded, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(flow, "PERSON_S", 0.3)
    server, entry = http_settings(guarded.url), TokenStore(tmp_path, NoKeyring()).entry(guarded.url, "web")
    with anyio.fail_after(BOUND_S):
        challenge, is_wanted = await request_challenge(server)
        assert is_wanted
        with pytest.raises(LoginFailed, match="no answer came within"):
            await log_in(server, entry, challenge, prompt)


async def test_a_server_that_answers_byte_by_byte_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(flow, "FETCH_S", 0.5)

    async def drip(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.send(b"HTTP/1.1 401 Unauthorized\r\nx-long: ")
            with suppress(anyio.BrokenResourceError):
                while True:
                    await stream.send(b"x")
                    await anyio.sleep(0.02)

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        tasks.start_soon(listener.serve, drip)
        with anyio.fail_after(BOUND_S), pytest.raises(LoginFailed, match=r"did not answer within 0\.5 s"):
            await request_challenge(http_settings(f"http://127.0.0.1:{port}/mcp"))
        tasks.cancel_scope.cancel()
