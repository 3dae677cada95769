"""Servers and authorization servers that send back every secret they were sent, through failures, at DEBUG.

None of the secrets, as it is, in base64 or encoded for a URL, comes to a log, an event, the client or a database.
"""

import base64
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import pytest
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from fakes.http_server import serving
from serve.served import command, started
from toolcrib.auth.keyring import NoKeyring
from toolcrib.auth.store import TokenStore

pytestmark = [pytest.mark.anyio, pytest.mark.hostile]

OLD = ("access", "refresh", "client-secret")
KINDS = (*OLD, "new-access", "new-refresh")
MODES = (
    "failed result", "error", "result", "refused", "down", "garbage", "renewed", "redirected", "other issuer",
)  # fmt: skip
"""What each server does: the first three take the first token, the others refuse it."""


class Echoes:
    """Servers by number, each with canaries of its own and one thing that it does."""

    def __init__(self) -> None:
        self.base = ""
        self.canaries = [
            {kind: f"canary-{kind}-{number}-{secrets.token_hex(8)}+/=" for kind in KINDS}
            for number in range(len(MODES))
        ]
        self.asked: list[str] = []
        self.renewed: set[int] = set()

    def told(self, number: int) -> str:
        """Return all canaries that a server was told, or told itself, in all forms."""
        sent = {kind: canary for kind, canary in self.canaries[number].items() if number in self.renewed or kind in OLD}
        return " ".join(form for canary in sent.values() for form in forms(canary))

    async def resource(self, request: Request) -> Response:
        number = request.path_params["number"]
        return JSONResponse({"resource": self._url(number), "authorization_servers": [f"{self.base}/{number}"]})

    async def metadata(self, request: Request) -> Response:
        number = request.path_params["number"]
        issuer, canaries = f"{self.base}/{number}", self.canaries[number]
        is_other = MODES[number] == "other issuer"
        return JSONResponse(
            {
                "issuer": f"{issuer}?{canaries['refresh']}" if is_other else issuer,
                "authorization_endpoint": f"{issuer}/authorize",
                "token_endpoint": f"{issuer}/token",
                "response_types_supported": ["code"],
                "token_endpoint_auth_methods_supported": ["client_secret_post"],
            }
        )

    async def token(self, request: Request) -> Response:
        number = request.path_params["number"]
        self.asked.append(f"token {MODES[number]}")
        canaries = self.canaries[number]
        match MODES[number]:
            case "refused":
                return JSONResponse({"error": "invalid_grant", "error_description": self.told(number)}, 400)
            case "down":
                return PlainTextResponse(self.told(number), 500)
            case "garbage":
                return PlainTextResponse("{" + self.told(number), media_type="application/json")
            case "redirected":
                return RedirectResponse(f"{self.base}/elsewhere?leak={quote(canaries['refresh'])}", 307)
            case _:
                self.renewed.add(number)
                tokens = {"access_token": canaries["new-access"], "refresh_token": canaries["new-refresh"]}
                return JSONResponse({**tokens, "token_type": "Bearer", "expires_in": 3600, "scope": self.told(number)})

    async def mcp(self, request: Request) -> Response:
        number = request.path_params["number"]
        mode, canaries = MODES[number], self.canaries[number]
        wanted = canaries["new-access" if mode == "renewed" else "access"]
        if mode in MODES[3:] and (mode != "renewed" or request.headers.get("authorization") != f"Bearer {wanted}"):
            metadata = f"{self.base}/.well-known/oauth-protected-resource/{number}/mcp"
            challenge = f'Bearer error_description="{self.told(number)}", scope="{canaries["access"]}"'
            headers = {"www-authenticate": f'{challenge}, resource_metadata="{metadata}"', "x-echo": self.told(number)}
            return PlainTextResponse(self.told(number), 401, headers)
        asked = json.loads(await request.body())
        if "id" not in asked:
            return Response(status_code=202)
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": asked["id"]}
        return JSONResponse({**answer, **self._answer(number, asked)}, headers={"x-echo": self.told(number)})

    def _answer(self, number: int, asked: dict[str, Any]) -> dict[str, Any]:
        told = {"content": [{"type": "text", "text": self.told(number)}]}
        match asked["method"]:
            case "initialize":
                about = {"serverInfo": {"name": "echo", "version": self.told(number)}, "capabilities": {"tools": {}}}
                version = asked["params"]["protocolVersion"]
                return {"result": {**about, "protocolVersion": version, "instructions": self.told(number)}}
            case "tools/list":
                tool = {"name": "echo", "description": f"Echo. {self.told(number)}", "inputSchema": {"type": "object"}}
                return {"result": {"tools": [tool]}}
            case "tools/call" if MODES[number] in ("failed result", "renewed"):
                return {"result": {**told, "isError": True}}
            case "tools/call" if MODES[number] == "result":
                return {"result": told}
            case "tools/call":
                return {"error": {"code": -32000, "message": self.told(number), "data": {"token": self.told(number)}}}
            case _:
                return {"error": {"code": -32601, "message": self.told(number)}}

    def _url(self, number: int) -> str:
        return f"{self.base}/{number}/mcp"


def forms(canary: str) -> list[str]:
    raw = canary.encode()
    encoded = [base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode()]
    return [canary, quote(canary, safe=""), *(each.rstrip("=") for each in encoded)]


@contextmanager
def echoing() -> Iterator[Echoes]:
    echoes = Echoes()
    routes = [
        Route("/{number:int}/mcp", echoes.mcp, methods=["POST"]),
        Route("/{number:int}/token", echoes.token, methods=["POST"]),
        Route("/.well-known/oauth-protected-resource/{number:int}/mcp", echoes.resource),
        Route("/.well-known/oauth-authorization-server/{number:int}", echoes.metadata),
    ]
    with serving(Starlette(routes=routes)) as echoes.base:
        yield echoes


async def test_no_secret_of_a_login_is_told_anywhere(tmp_path: Path):
    with echoing() as echoes:
        servers = {f"s{number}": f"{echoes.base}/{number}/mcp" for number in range(len(MODES))}
        section = {"cache_dir": "cache", "state_dir": "state", "policy": {"allow": ["*"]}}
        file = tmp_path / "toolcrib.json"
        config = {"mcpServers": {name: {"url": url} for name, url in servers.items()}, "toolcrib": section}
        await anyio.Path(file).write_text(json.dumps(config))
        store = TokenStore(tmp_path / "state" / "tokens", NoKeyring())
        for number, (name, url) in enumerate(servers.items()):
            canaries, entry = echoes.canaries[number], store.entry(url, name)
            client = OAuthClientInformationFull(
                client_id="client",
                client_secret=canaries["client-secret"],
                redirect_uris=None,
                token_endpoint_auth_method="client_secret_post",
                issuer=f"{echoes.base}/{number}",
            )
            await entry.set_client_info(client)
            await entry.set_tokens(
                OAuthToken(access_token=canaries["access"], refresh_token=canaries["refresh"], expires_in=3600)
            )
        async with started(command(file, "--log-level", "debug"), tmp_path) as crib:
            await crib.initialize()
            for name in servers:
                for _ in range(2):
                    await crib.tool("tool_call", name=f"{name}__echo", arguments={})
            await crib.tool("tool_search", query="echo")
            await crib.request("resources/read", {"uri": "toolcrib://status"})
            crib.close_stdin()
            assert await crib.ended() == 0
            said, wire = crib.said, b"".join(crib.lines).decode()
    assert {"token refused", "token down", "token garbage", "token renewed", "token redirected"} <= set(echoes.asked)
    assert "***" in wire
    assert [line for line in said.splitlines() if "401" in line]
    places = {"the log": said, "the wire": wire, **_files(tmp_path)}
    assert any(name.endswith("events.jsonl") for name in places)
    assert any(name.endswith("tool_cache.db") for name in places)
    canaries = [canary for each in echoes.canaries for canary in each.values()]
    assert len(canaries) >= 40
    found = {
        f"{canary[:24]} in {place}"
        for place, text in places.items()
        for canary in canaries
        for form in forms(canary)
        if form in text
    }
    assert not found, "\n".join(sorted(found))


def _files(folder: Path) -> dict[str, str]:
    """Return what all files hold but those that logins are kept in."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.parent.name != "tokens")
    return {str(path.relative_to(folder)): path.read_bytes().decode("latin-1") for path in files}
