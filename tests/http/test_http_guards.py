"""Who gets through to HTTP at all: hosts, origins, tokens, sizes; and what is not served because it is not safe."""

import socket
import statistics
import subprocess
import sys
import time
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from fakes.menu import tool
from online import ACCEPT, ENVELOPE, events, modern_headers, online, request
from toolcrib.base.errors import StartRefused
from toolcrib.config.schema import HttpSection, TokenSection
from toolcrib.server import http as wire_http
from toolcrib.server.http import TokenTable, bind, host_notice, is_loopback, refuse_unsafe, url_of

pytestmark = pytest.mark.anyio

TOKENS = {"http": {"tokens": [{"token": "token-ann", "subject": "ann"}]}}
CALL = request("tools/call", {"_meta": ENVELOPE, "name": "zoo__feed", "arguments": {}})
CALLING = modern_headers("tools/call", "zoo__feed")
HELLO = request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}})
BOTH = pytest.mark.parametrize("config", [{}, TOKENS], ids=["open", "with tokens"])


def calling(config, **headers: str) -> dict[str, str]:
    token = {"authorization": "Bearer token-ann"} if config else {}
    return {**CALLING, **token, **headers}


# -- hosts and origins ---------------------------------------------------------------------------


FOREIGN_HOSTS = (
    "evil.example",
    "evil.example:8765",
    "127.0.0.1.evil.example",
    "localhost.evil.example:80",
    "127.0.0.2",
    "[::2]:80",
    "0.0.0.0:8765",
)
FOREIGN_ORIGINS = ("http://evil.example", "null", "https://127.0.0.1.evil.example", "file://", "http://localhost.evil")
NO_JSON = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "")


@BOTH
async def test_a_request_for_another_host_reaches_nobody(tmp_path, config):
    async with online(tmp_path, {"zoo": [tool("feed")]}, config, listing="auto") as it:
        token = {"authorization": "Bearer token-ann"} if config else {}
        for host in FOREIGN_HOSTS:
            assert (await it.post(CALL, **calling(config, host=host))).status_code == 421, host
            assert (await it.post(HELLO, **token, host=host)).status_code == 421, host
        assert it.world["zoo"].calls() == []


@BOTH
async def test_a_page_from_elsewhere_reaches_nobody(tmp_path, config):
    async with online(tmp_path, {"zoo": [tool("feed")]}, config, listing="auto") as it:
        for origin in FOREIGN_ORIGINS:
            answer = await it.post(CALL, **calling(config, origin=origin))
            assert answer.status_code == 403, origin
            assert "access-control-allow-origin" not in answer.headers
        assert it.world["zoo"].calls() == []


@BOTH
async def test_a_body_that_is_not_declared_as_json_is_refused(tmp_path, config):
    async with online(tmp_path, {"zoo": [tool("feed")]}, config, listing="auto") as it:
        for kind in NO_JSON:
            assert (await it.post(CALL, **calling(config, content_type=kind))).status_code == 400, kind
        assert it.world["zoo"].calls() == []


@BOTH
async def test_this_machine_and_what_the_config_names_get_through(tmp_path, config):
    more = {"allowed_hosts": ["crib.example"], "allowed_origins": ["https://page.example"]}
    section = {"http": {**config.get("http", {}), **more}}
    async with online(tmp_path, {"zoo": [tool("feed")]}, section, listing="auto") as it:
        for host in ("localhost:1", "127.0.0.1", "[::1]:8765", "crib.example"):
            assert (await it.post(CALL, **calling(config, host=host))).status_code == 200, host
        for origin in ("http://localhost:6274", "http://127.0.0.1:1", "https://page.example"):
            assert (await it.post(CALL, **calling(config, origin=origin))).status_code == 200, origin


async def test_another_path_is_not_found_and_never_redirected(tmp_path):
    async with online(tmp_path) as it:
        for path in ("/mcp/", "/", "/mcp/../mcp/x", "/sse", "/.well-known/oauth-protected-resource"):
            answer = await it.http.get(it.url.removesuffix("/mcp") + path, headers={"host": "evil.example"})
            assert (answer.status_code, answer.headers.get("location")) == (404, None), path


@BOTH
async def test_a_body_over_the_limit_is_refused_declared_or_not(tmp_path, config):
    async def chunks():
        for _ in range(70):
            yield b" " * 1000

    async with online(
        tmp_path, {"zoo": [tool("feed")]}, {**config, "limits": {"request_max_bytes": 65_536}}, listing="auto"
    ) as it:
        headers = {**ACCEPT, **calling(config)}
        for body in (b" " * 70_000, chunks()):
            assert (await it.http.post(it.url, content=body, headers=headers)).status_code == 413
        fits = {**CALL, "params": {**CALL["params"], "arguments": {"text": "x" * 60_000}}}
        assert (await it.post(fits, **calling(config))).status_code == 200


async def test_answers_are_not_held_back_on_their_way(tmp_path):
    async with online(tmp_path, {"zoo": [tool("feed")]}) as it:
        session = await it.session()
        medians = []
        while len(medians) < 20 and min(medians, default=1) >= 0.03:  # a busy machine has quiet moments
            took = []
            for _ in range(20):
                began = time.perf_counter()
                await session.names()
                took.append(time.perf_counter() - began)
            medians.append(statistics.median(took))
        assert min(medians) < 0.03, "small writes wait for acknowledgements (TCP_NODELAY)"


# -- tokens --------------------------------------------------------------------------------------

NOT_A_TOKEN = ["", "Bearer", "Bearer token-anna", "Bearer token-an", "Basic token-ann", "token-ann", "Bearer é"]


async def test_without_a_known_token_nothing_is_served_in_either_era(tmp_path):
    async with online(tmp_path, {"zoo": [tool("feed")]}, TOKENS) as it:
        for credentials in (None, *NOT_A_TOKEN):
            mine: dict[Any, Any] = {} if credentials is None else {"authorization": credentials.encode()}
            answers = [
                await it.http.post(it.url, json=CALL, headers={**ACCEPT, **CALLING, **mine}),
                await it.http.post(it.url, json=HELLO, headers={**ACCEPT, **mine}),
                await it.http.get(it.url, headers=mine),
                await it.http.delete(it.url, headers=mine),
            ]
            for answer in answers:
                assert answer.status_code == 401, credentials
                assert answer.headers["www-authenticate"].startswith("Bearer ")
                assert "token-ann" not in answer.text
        assert it.world["zoo"].calls() == []


async def test_a_token_in_the_address_or_the_arguments_is_none(tmp_path):
    async with online(tmp_path, {"zoo": [tool("feed")]}, TOKENS) as it:
        for url in (f"{it.url}?token=token-ann", f"{it.url}?access_token=token-ann"):
            assert (await it.http.post(url, json=CALL, headers={**ACCEPT, **CALLING})).status_code == 401


def _table(*tokens: str) -> TokenTable:
    return TokenTable(tuple(TokenSection(token=token, subject=f"of {token}") for token in tokens))


THREE = ("token-one", "token-two", "token-three")


@pytest.mark.parametrize("given", [*THREE, "token-of-nobody", "t", "t" * 10_000])
async def test_every_token_is_compared_whole_whatever_is_given(monkeypatch, given):
    compared = []
    real = wire_http.hmac.compare_digest
    monkeypatch.setattr(wire_http.hmac, "compare_digest", lambda a, b: compared.append((len(a), len(b))) or real(a, b))
    found = await _table(*THREE).verify_token(given)
    assert compared == [(32, 32)] * 3
    assert (found.subject if found else None) == (f"of {given}" if given in THREE else None)


@hypothesis.given(st.text())
def test_no_text_but_the_token_itself_stands_for_somebody(text):
    table = _table("token-one")
    coroutine = table.verify_token(text)
    with pytest.raises(StopIteration) as returned:
        coroutine.send(None)
    assert (returned.value.value is not None) == (text == "token-one")


# -- what is not served --------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "crib.example", "10.0.0.1"])
def test_other_machines_are_not_served_without_tokens(host):
    with pytest.raises(StartRefused, match=r"http\.tokens"):
        refuse_unsafe(HttpSection(host=host), activation_scope="run")
    refuse_unsafe(
        HttpSection(host=host, tokens=(TokenSection(token="x" * 8, subject="ann"),)), activation_scope="session"
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "localhost", "::1", "[::1]"])
def test_this_machine_is_served_without_tokens_but_keeps_no_sessions(host):
    assert is_loopback(host)
    refuse_unsafe(HttpSection(host=host), activation_scope="run")
    with pytest.raises(StartRefused, match="activation_scope"):
        refuse_unsafe(HttpSection(host=host), activation_scope="session")


@pytest.mark.slow
def test_serve_says_why_it_does_not_start_and_exits_with_3(tmp_path):
    command = [sys.executable, "-m", "toolcrib", "serve", "--transport", "http", "--host", "0.0.0.0"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30, cwd=tmp_path, check=False)
    assert ended.returncode == 3
    assert ended.stdout == ""
    assert "not started" in ended.stderr
    assert "Set http.tokens, or bind to 127.0.0.1" in ended.stderr


def test_a_port_that_is_taken_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StartRefused, match=rf"127\.0\.0\.1:{port}.*--port"):
            bind(HttpSection(port=port))


@pytest.mark.parametrize("host", ["::1", "[::1]"])
def test_the_address_shown_for_ipv6_is_one_that_clients_can_use(host):
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    http = HttpSection(host=host, port=0)
    with bind(http) as listener:
        assert url_of(listener, http) == f"http://[::1]:{listener.getsockname()[1]}/mcp"


def test_serving_on_every_address_says_which_names_get_through():
    assert "http.allowed_hosts" in (host_notice(HttpSection(host="0.0.0.0")) or "")
    assert host_notice(HttpSection(host="0.0.0.0", allowed_hosts=("crib.example",))) is None
    assert host_notice(HttpSection()) is None


async def test_an_unexpected_failure_is_told_by_a_reference_only(tmp_path, monkeypatch):
    async with online(tmp_path, {"zoo": [tool("feed")]}, listing="auto") as it:
        monkeypatch.setattr(it.world.gateway.tools, "list_tools", None)
        session = await it.session()
        for answer in (await it.modern("tools/list")).json(), (await session.ask("tools/list"))[-1]:
            assert answer["error"]["code"] == -32603
            assert "under reference" in answer["error"]["message"]
            assert "NoneType" not in str(answer)
        assert events(await it.modern("tools/nothing"))[0]["error"]["code"] == -32601
