"""What a protocol era asks of a result beyond what a tool gave: added, dropped or turned into text.

Knows the two eras' result members; never knows tools or sessions.
Results pass beside the SDK's own shaping, which would refuse what a downstream said after its tool has run.
"""

from typing import Any

from mcp_types import SERVER_INFO_META_KEY

from toolcrib.base.json_values import as_list, as_object, compact
from toolcrib.model import JsonObject
from toolcrib.tools.results import failure

_RESERVED_META = "io.modelcontextprotocol/"
_MODERN_ONLY = ("resultType", "ttlMs", "cacheScope", "requestState", "inputRequests")


def list_result(tools: list[JsonObject], server_info: JsonObject | None) -> JsonObject:
    """Return the result of ``tools/list``; ``server_info`` is given in the sessionless era only."""
    if server_info is None:
        return {"tools": [_sessionful_definition(tool) for tool in tools]}
    return {
        "tools": tools,
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {SERVER_INFO_META_KEY: server_info},
    }


def meta_for_next_hop(meta: Any) -> JsonObject:
    """Return ``_meta`` without what belongs to one hop: the protocol's own keys and the progress token."""
    return {
        key: value
        for key, value in as_object(meta).items()
        if not key.startswith(_RESERVED_META) and key != "progressToken"
    }


def call_result(result: JsonObject, server_info: JsonObject | None) -> JsonObject:
    """Return the result of ``tools/call`` as the era can carry it."""
    meta = meta_for_next_hop(result.get("_meta"))
    if server_info is not None:
        stamped = {**meta, SERVER_INFO_META_KEY: server_info}
        return {"resultType": "complete", **result, "_meta": stamped}
    if result.get("resultType", "complete") != "complete":
        return failure(
            "The server asks for input in the middle of the call, which this client's protocol cannot carry."
        )
    plain = {key: value for key, value in result.items() if key not in _MODERN_ONLY and key != "_meta"}
    if meta:
        plain["_meta"] = meta
    return _with_object_content(plain)


def _with_object_content(result: JsonObject) -> JsonObject:
    """Turn structured content that is no object into text: the sessionful revisions cannot carry it."""
    structured = result.get("structuredContent")
    if structured is None or isinstance(structured, dict):
        return result
    text = {"type": "text", "text": compact(structured)}
    kept = {key: value for key, value in result.items() if key != "structuredContent"}
    content = as_list(result.get("content"))
    return kept if text in content else {**kept, "content": [*content, text]}


def _sessionful_definition(tool: JsonObject) -> JsonObject:
    """Leave out an output schema that is not of an object: one of them would fail the whole list."""
    schema = tool.get("outputSchema")
    if schema is None or schema.get("type") == "object":
        return tool
    return {key: value for key, value in tool.items() if key != "outputSchema"}
