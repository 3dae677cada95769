"""What a client is served of skills as resources, each method asked in one way by all tests."""

import base64
from hashlib import sha256
from typing import Any

import pytest
from mcp import MCPError

READ = "resources/read"
DIRECTORY = "resources/directory/read"
GET = "skills/get"


async def pages(client: Any, method: str, member: str, **params: Any) -> list[list[dict[str, Any]]]:
    """Return all pages of a method that answers with ``member``, each the list of it."""
    found: list[list[dict[str, Any]]] = []
    cursor: dict[str, str] = {}
    while True:
        answer = await client.ask(method, {**params, **cursor})
        found.append(answer[member])
        if "nextCursor" not in answer:
            return found
        cursor = {"cursor": answer["nextCursor"]}


async def everything(client: Any, method: str, member: str, **params: Any) -> list[dict[str, Any]]:
    """Return the items of all pages."""
    return [item for page in await pages(client, method, member, **params) for item in page]


async def entries(client: Any) -> dict[str, dict[str, Any]]:
    """Return all that ``skills/list`` tells, by URI."""
    return {entry["uri"]: entry for entry in await everything(client, "skills/list", "skills")}


async def resources(client: Any) -> list[str]:
    """Return the skills of ``resources/list``."""
    found = await everything(client, "resources/list", "resources")
    return [resource["uri"] for resource in found if resource["uri"].startswith("skill:")]


async def content(client: Any, uri: str) -> dict[str, Any]:
    """Return what ``resources/read`` answers for ``uri``."""
    [found] = (await client.ask(READ, {"uri": uri}))["contents"]
    assert found["uri"] == uri
    return found


async def data(client: Any, uri: str) -> bytes:
    """Return the bytes of a resource."""
    found = await content(client, uri)
    return base64.b64decode(found["blob"]) if "blob" in found else found["text"].encode()


async def refusal(client: Any, method: str, uri: str) -> dict[str, Any]:
    """Return the whole error with which ``uri`` is refused, without the URI, which its text and its data name."""
    with pytest.raises(MCPError) as caught:
        await client.ask(method, {"uri": uri})
    error = caught.value.error.model_dump()
    assert error["message"].count(uri) == 1, error
    assert error["data"] == {"uri": uri}, error
    return {**error, "message": error["message"].replace(uri, ""), "data": None}


async def is_true(client: Any, entry: dict[str, Any]) -> bool:
    """Return whether every digest and size of an entry is that of the bytes that are served."""
    for resource in entry["resources"]:
        found = await data(client, resource["uri"])
        if (resource["size"], resource["digest"]) != (len(found), f"sha256:{sha256(found).hexdigest()}"):
            return False
    return True
