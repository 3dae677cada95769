"""What surrounds a result in either era, and what of a request goes on to a server.

Knows the members that belong to one hop or to one era; never knows what a result is about.
"""

from typing import Any

import mcp_types as types
from mcp import MCPError

from toolcrib.base.json_values import as_object
from toolcrib.model import JsonObject

LIST_TTL_MS = 10_000
"""How long a client that does not listen for changes may take a list for the current one (2026-07-28)."""

MODERN_ONLY = ("resultType", "ttlMs", "cacheScope", "requestState", "inputRequests")
"""Members of results that only 2026-07-28 has."""

_RESERVED_META = "io.modelcontextprotocol/"


def meta_for_next_hop(meta: Any) -> JsonObject:
    """Return ``_meta`` without what belongs to one hop: the protocol's own keys and the progress token."""
    return {
        key: value
        for key, value in as_object(meta).items()
        if not key.startswith(_RESERVED_META) and key != "progressToken"
    }


def params_for_next_hop(params: JsonObject) -> JsonObject:
    """Return the params of a request without what belongs to one hop."""
    kept = {key: value for key, value in params.items() if key != "_meta"}
    meta = meta_for_next_hop(params.get("_meta"))
    return {**kept, "_meta": meta} if meta else kept


def cacheable(result: JsonObject, ttl_ms: int = 0) -> JsonObject:
    """Return a result that says how long, and for whom, it holds (2026-07-28), unless it says so itself."""
    if result.get("resultType", "complete") != "complete":
        return result
    return {"ttlMs": ttl_ms, "cacheScope": "private", **result}


def enveloped(result: JsonObject, server_info: JsonObject | None) -> JsonObject:
    """Return a result as the era can carry it; ``server_info`` is given in the sessionless era only.

    Raises:
        MCPError: it asks for input, which the sessionful era cannot carry.

    """
    meta = meta_for_next_hop(result.get("_meta"))
    if server_info is not None:
        return {"resultType": "complete", **result, "_meta": {**meta, types.SERVER_INFO_META_KEY: server_info}}
    if result.get("resultType", "complete") != "complete":
        raise MCPError(
            code=types.INVALID_REQUEST,
            message="The server asks for input in the middle of it, which this client's protocol cannot carry.",
        )
    plain = {key: value for key, value in result.items() if key not in MODERN_ONLY and key != "_meta"}
    return {**plain, "_meta": meta} if meta else plain
