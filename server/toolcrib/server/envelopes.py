"""The envelope of a result in either era."""

import mcp_types as types
from mcp import MCPError

from toolcrib.base.model import JsonObject
from toolcrib.policy.requests import meta_for_next_hop

LIST_TTL_MS = 10_000
"""How long a client that does not listen for changes may treat a list as current, in milliseconds (2026-07-28)."""

MODERN_ONLY = ("resultType", "ttlMs", "cacheScope", "requestState", "inputRequests")
"""Members of results that only 2026-07-28 has."""


def cacheable(result: JsonObject, ttl_ms: int = 0) -> JsonObject:
    """Return a result with its cache lifetime and scope (2026-07-28), unless it has these already."""
    if result.get("resultType", "complete") != "complete":
        return result
    # Private, because lists and contents depend on the authorization of the request.
    return {"ttlMs": ttl_ms, "cacheScope": "private", **result}


def enveloped(result: JsonObject, server_info: JsonObject | None, own_meta: str = "") -> JsonObject:
    """Return a result in the form of its era; ``server_info`` is given in the sessionless era only.

    ``own_meta`` is a reserved key of ``_meta`` that is ours here, and no server's.

    Raises:
        MCPError: it requests input, which the sessionful era has no form for.

    """
    meta = meta_for_next_hop(result.get("_meta"))
    if own_meta:
        meta[own_meta] = result["_meta"][own_meta]
    if server_info is not None:
        return {"resultType": "complete", **result, "_meta": {**meta, types.SERVER_INFO_META_KEY: server_info}}
    if result.get("resultType", "complete") != "complete":
        raise MCPError(
            code=types.INVALID_REQUEST,
            message="The server asks for input during the call, which this client's protocol cannot carry.",
        )
    plain = {key: value for key, value in result.items() if key not in MODERN_ONLY and key != "_meta"}
    return {**plain, "_meta": meta} if meta else plain


def list_result(tools: list[JsonObject], server_info: JsonObject | None) -> JsonObject:
    """Return the result of ``tools/list``; ``server_info`` is given in the sessionless era only."""
    if server_info is None:
        return {"tools": [_sessionful_definition(tool) for tool in tools]}
    return {
        "tools": tools,
        "resultType": "complete",
        "ttlMs": LIST_TTL_MS,
        "cacheScope": "private",
        "_meta": {types.SERVER_INFO_META_KEY: server_info},
    }


def _sessionful_definition(tool: JsonObject) -> JsonObject:
    """Omit an output schema that is not of an object: a single one would invalidate the whole list."""
    schema = tool.get("outputSchema")
    if schema is None or schema.get("type") == "object":
        return tool
    return {key: value for key, value in tool.items() if key != "outputSchema"}
