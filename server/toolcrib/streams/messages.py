"""JSON-RPC messages as plain JSON objects, from a line and to a line, without a model object in between.

Knows the encoding of one message and the shape that JSON-RPC gives it; never knows methods or who speaks.
"""

import json
from collections.abc import Mapping
from typing import Any

from mcp_types import ErrorData
from pydantic_core import PydanticSerializationError, from_json, to_json

from toolcrib.base.model import JsonObject
from toolcrib.streams.sdk import RequestId

_STEPWISE_FROM = 128 * 1024
"""Size in bytes from which a line is decoded in steps; a shorter one does not block the event loop for long."""


def is_long(line: bytearray) -> bool:
    """Return whether a line must be decoded in steps, by ``json_steps``."""
    return len(line) >= _STEPWISE_FROM


def decode(line: bytearray) -> Any:
    """Return the JSON value of a short line.

    Raises:
        ValueError: it is not valid JSON.

    """
    try:
        return from_json(line)
    except ValueError:
        pass
    try:
        # The fast decoder rejects lone surrogates, which JSON allows.
        return json.loads(line.decode())
    except RecursionError:
        raise ValueError("nested too deep") from None


def encode(message: Mapping[str, Any]) -> bytes:
    """Return a message as a line of compact JSON. Lone surrogates, which UTF-8 cannot encode, are written as escapes.

    Raises:
        TypeError: it contains a value that JSON cannot represent.

    """
    try:
        return to_json(message, inf_nan_mode="null") + b"\n"
    except (PydanticSerializationError, UnicodeEncodeError):
        return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def request(key: RequestId, method: str, params: Mapping[str, Any]) -> JsonObject:
    """Return a request. Without params the member is omitted, because JSON-RPC forbids null there."""
    head: JsonObject = {"jsonrpc": "2.0", "id": key, "method": method}
    return {**head, "params": params} if params else head


def notification(method: str, params: Mapping[str, Any] | None) -> JsonObject:
    """Return a notification."""
    head: JsonObject = {"jsonrpc": "2.0", "method": method}
    return head if params is None else {**head, "params": params}


def result(key: RequestId, value: Mapping[str, Any]) -> JsonObject:
    """Return the response to a successful request."""
    return {"jsonrpc": "2.0", "id": key, "result": value}


def refusal(key: RequestId, error: ErrorData) -> JsonObject:
    """Return the error response to a failed request."""
    return {"jsonrpc": "2.0", "id": key, "error": error.model_dump(by_alias=True, exclude_unset=True)}
