"""The frames between a gateway and the process that runs its programs: a header as JSON, and a text beside it."""

import json
import struct
from enum import StrEnum
from typing import Any, Final, cast

HEAD: Final = struct.Struct("!II")
"""What stands before a frame: the bytes of its header, and those of its text."""

HEADER_MAX: Final = 64 * 1024
TEXT_MAX: Final = 8 * 1024 * 1024
"""Bytes that a gateway takes in one frame; no more of it is read."""

NOT_STARTED: Final = "No process could be started to run it."

ARGUMENTS_MAX: Final = 1024 * 1024
"""Characters of the arguments of one call, as JSON."""


class HostFunction(StrEnum):
    """The functions of the host, by the names that a program's own Python has for them."""

    CALL = "toolcrib_call"
    SEARCH = "toolcrib_search"
    RESULT = "toolcrib_result"
    LITERAL = "toolcrib_literal"


def packed(header: dict[str, Any], text: str = "") -> bytes:
    """Return a frame."""
    top, rest = json.dumps(header, separators=(",", ":")).encode(), text.encode("utf-8", "replace")
    return b"".join((HEAD.pack(len(top), len(rest)), top, rest))


def header_of(top: bytes) -> dict[str, Any]:
    """Return the header of a frame.

    Raises:
        ValueError: it is none.

    """
    header: Any = json.loads(top)
    if not isinstance(header, dict):
        raise ValueError("the header of a frame is an object")
    return cast("dict[str, Any]", header)
