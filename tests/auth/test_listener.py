"""The listener for the answer of a login takes one answer, to what was asked, and nothing else that is sent to it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest

from toolcrib.auth.flow import Listener, listening

pytestmark = pytest.mark.anyio

STATE = "s" * 43
ASKED = f"https://auth.example/authorize?client_id=c&state={STATE}"
ANSWER = {"code": "the-code", "state": STATE}


@asynccontextmanager
async def waiting() -> AsyncGenerator[tuple[Listener, httpx2.AsyncClient]]:
    async with listening(0) as listener, httpx2.AsyncClient(trust_env=False, timeout=20) as client:
        listener.expect(ASKED)
        yield listener, client


async def test_an_answer_that_comes_again_or_is_followed_by_another_changes_nothing():
    async with waiting() as (listener, client):
        assert (await client.get(listener.redirect_uri, params=ANSWER)).status_code == 200
        for later in (ANSWER, {**ANSWER, "code": "another"}, {"error": "access_denied", "state": STATE}):
            again = await client.get(listener.redirect_uri, params=later)
            assert again.status_code == 409
            assert "The answer was already received." in again.text
            assert "the-code" not in again.text
        with anyio.fail_after(20):
            assert (await listener.answer()).code == "the-code"


@pytest.mark.parametrize(
    "forged",
    [
        {"code": "forged"},
        {"code": "forged", "state": ""},
        {"code": "forged", "state": STATE[:-1]},
        {"code": "forged", "state": STATE + "s"},
        {"code": "forged", "state": STATE.upper()},
        {"error": "access_denied", "state": "guessed"},
    ],
)
async def test_an_answer_to_something_else_is_none(forged: dict[str, str]):
    async with waiting() as (listener, client):
        assert (await client.get(listener.redirect_uri, params=forged)).status_code == 400
        assert (await client.get(listener.redirect_uri, params=ANSWER)).status_code == 200


async def test_nothing_is_taken_before_something_is_asked():
    async with listening(0) as listener, httpx2.AsyncClient(trust_env=False, timeout=20) as client:
        for state in ("", STATE):
            refused = await client.get(listener.redirect_uri, params={"code": "early", "state": state})
            assert refused.status_code == 400


async def test_another_host_path_and_method_find_nothing_there():
    async with waiting() as (listener, client):
        rebound = {"host": "evil.example"}
        answers = [
            await client.get(listener.redirect_uri, params=ANSWER, headers=rebound),
            await client.get(listener.redirect_uri.replace("/callback", "/"), params=ANSWER),
            await client.post(listener.redirect_uri, params=ANSWER),
            await client.get(f"{listener.redirect_uri}/x", params=ANSWER),
        ]
        assert [each.status_code for each in answers] == [404] * 4
