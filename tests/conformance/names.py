"""A proxy in front of toolcrib by whose clients one server's tools, prompts and resources have their own names.

The suite calls ``test_x`` and reads ``test://x``; behind toolcrib these are ``SERVER__test_x`` and
``toolcrib://servers/SERVER/test://x``. Names and URIs are mapped, in requests one way and in answers the other; every
other byte, header and status passes as it is.
"""

import json
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from fakes.http_server import serving

JsonObject = dict[str, Any]

_OF_ONE_HOP = {"content-length", "transfer-encoding", "connection", "keep-alive"}
_NAMED_LISTS = ("tools", "prompts")
_URI_KEYS = ("uri", "uriTemplate")
_NAMES_TOOL_OR_PROMPT = ("tools/call", "prompts/get")
_NAMES_RESOURCE = ("resources/read", "resources/subscribe", "resources/unsubscribe")


class Names:
    """The two spellings of each name. ``own`` are names of toolcrib's, which are not the server's."""

    def __init__(self, server: str, own: Sequence[str] = ()) -> None:
        self._prefix, self._place, self._own = f"{server}__", f"toolcrib://servers/{server}/", frozenset(own)

    def public(self, name: str) -> str:
        return name if name in self._own else self._prefix + name

    def public_uri(self, uri: str) -> str:
        return uri if uri.startswith(("toolcrib://", "skill://")) else self._place + uri

    def asked(self, message: Any) -> Any:
        """Return a message of the client's as toolcrib is to get it."""
        match message:
            case {"method": str(method), "params": {"name": str(name)} as params} if method in _NAMES_TOOL_OR_PROMPT:
                return {**message, "params": {**params, "name": self.public(name)}}
            case {"method": str(method), "params": {"uri": str(uri)} as params} if method in _NAMES_RESOURCE:
                return {**message, "params": {**params, "uri": self.public_uri(uri)}}
            case {"method": "completion/complete", "params": {"ref": {"name": str(name)} as ref} as params}:
                return {**message, "params": {**params, "ref": {**ref, "name": self.public(name)}}}
            case {"method": "completion/complete", "params": {"ref": {"uri": str(uri)} as ref} as params}:
                return {**message, "params": {**params, "ref": {**ref, "uri": self.public_uri(uri)}}}
            case {"params": {"notifications": {"resourceSubscriptions": list(uris)} as wanted} as params}:
                wanted = {**wanted, "resourceSubscriptions": [self.public_uri(uri) for uri in uris]}
                return {**message, "params": {**params, "notifications": wanted}}
        return message

    def header(self, method: str, value: str) -> str:
        """Return ``Mcp-Name`` as toolcrib is to get it; of a task it is the id, which is toolcrib's own."""
        if method.startswith("tasks/"):
            return value
        return self.public_uri(value) if method in _NAMES_RESOURCE else self.public(value)

    def answered(self, message: Any) -> Any:
        """Return a message of toolcrib's as the client is to get it."""
        if isinstance(message, list):
            return [self.answered(item) for item in message]
        if not isinstance(message, dict):
            return message
        return {key: self._member(key, value) for key, value in message.items()}

    def _member(self, key: str, value: Any) -> Any:
        if key in _URI_KEYS and isinstance(value, str):
            return value.removeprefix(self._place)
        if key in _NAMED_LISTS and isinstance(value, list):
            return [self._listed(item) for item in value]
        if key == "resourceSubscriptions" and isinstance(value, list):
            return [uri.removeprefix(self._place) for uri in value]
        return self.answered(value)

    def _listed(self, item: Any) -> Any:
        match item:
            case {"name": str(name)}:
                return {**item, "name": name.removeprefix(self._prefix)}
        return item


class Proxy:
    """Passes requests on to ``target`` and answers back, with names mapped."""

    def __init__(self, target: str, names: Names, http: httpx2.AsyncClient) -> None:
        self._target, self._names, self._http = target, names, http

    async def __call__(self, request: Request) -> Response:
        body, headers = await request.body(), _passed(request.headers)
        if body:
            asked = _parsed(body)
            body = _changed(body, asked, self._names.asked(asked))
            if "mcp-name" in headers:
                headers["mcp-name"] = self._names.header(headers.get("mcp-method", ""), headers["mcp-name"])
        sent = self._http.build_request(request.method, self._target, headers=headers, content=body)
        answer = await self._http.send(sent, stream=True)
        is_stream = answer.headers.get("content-type", "").startswith("text/event-stream")
        told = self._events(answer) if is_stream else self._whole(answer)
        return StreamingResponse(told, answer.status_code, _passed(answer.headers))

    async def _whole(self, answer: httpx2.Response) -> AsyncGenerator[bytes]:
        async with _ended(answer):
            body = await answer.aread()
            told = _parsed(body)
            yield _changed(body, told, self._names.answered(told))

    async def _events(self, answer: httpx2.Response) -> AsyncGenerator[bytes]:
        async with _ended(answer):
            async for line in answer.aiter_lines():
                yield self._line(line).encode() + b"\n"

    def _line(self, line: str) -> str:
        if not line.startswith("data: {"):
            return line
        told = _parsed(line[6:].encode())
        return "data: " + _changed(line[6:].encode(), told, self._names.answered(told)).decode()


@contextmanager
def renamed(target: str, names: Names) -> Iterator[str]:
    """Run the proxy on loopback until the block ends, and yield its address."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        async with httpx2.AsyncClient(timeout=None) as http:
            app.router.routes.append(
                Route("/mcp", Proxy(target, names, http).__call__, methods=["GET", "POST", "DELETE"])
            )
            yield

    with serving(Starlette(lifespan=lifespan)) as address:
        yield f"{address}/mcp"


def _passed(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _OF_ONE_HOP}


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


def _changed(body: bytes, before: Any, after: Any) -> bytes:
    """Return the bytes of ``after``: those that came, where nothing was mapped."""
    return body if before == after else json.dumps(after, ensure_ascii=False).encode()


@asynccontextmanager
async def _ended(answer: httpx2.Response) -> AsyncGenerator[None]:
    """Let go of an answer, also where the client has gone: toolcrib is to notice that."""
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await answer.aclose()
