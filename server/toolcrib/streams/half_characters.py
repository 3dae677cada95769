r"""Lone surrogates, which JSON can hold as ``\ud83d`` and UTF-8 cannot: half a character, where a text was cut.

Knows how they are encoded and replaced; never knows what a text means. Pipes pass them on unchanged. The SDK's HTTP
transports cannot: there each becomes U+FFFD, or a tool that ran would appear to have failed.
"""

import json
import re
from typing import Any, TypeVar

from pydantic_core import PydanticSerializationError, to_json

T = TypeVar("T")

_REPLACED = rb"\ufffd"
_SIGNS = (rb"\ud", rb"\uD")
_CUTS = (b"\\", rb"\u")

# Matches every escape in sequence, so that an escaped backslash does not start another one. First an escape cut off by
# the end of the bytes, which later bytes may complete to a pair; then pairs, which are kept.
_ESCAPE = re.compile(
    rb"""(?P<cut>\\(?:u(?:[dD](?:[89a-fA-F][0-9a-fA-F]?
            |[89abAB][0-9a-fA-F]{2}(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?)?)?)?\Z)
       | \\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}
       | (?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})
       | \\.""",
    re.DOTALL | re.VERBOSE,
)


def carried(value: T) -> T:
    """Return a JSON value that the SDK can send: unchanged, unless a string or key has a lone surrogate.

    Raises:
        ValueError: it is nested too deeply.

    """
    if _is_sent_as_it_is(value):
        return value
    mended = json.loads(whole(json.dumps(value, ensure_ascii=False)))
    if not _is_sent_as_it_is(mended):
        raise ValueError("it is nested too deeply to be sent over HTTP")
    return mended


def _is_sent_as_it_is(value: Any) -> bool:
    try:
        to_json(value, inf_nan_mode="null")
    except (PydanticSerializationError, UnicodeEncodeError):
        return False
    return True


def whole(text: str) -> str:
    """Return ``text`` with U+FFFD for each lone surrogate."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class WholeCharacters:
    """Filters a body of JSON, or of events with JSON, chunk by chunk. Its length does not change."""

    def __init__(self) -> None:
        self._cut = b""

    def feed(self, chunk: bytes) -> bytes:
        """Return the output that is final so far, with U+FFFD for each escaped lone surrogate."""
        data, self._cut = self._cut + chunk, b""
        if not any(sign in data for sign in _SIGNS) and not data.endswith(_CUTS):
            return data
        return _ESCAPE.sub(self._replaced, data)

    def end(self) -> bytes:
        """Return the rest when the body ends."""
        return self._cut

    def _replaced(self, match: re.Match[bytes]) -> bytes:
        if (cut := match["cut"]) is not None:
            self._cut = cut
            return b""
        return match[0] if match["lone"] is None else _REPLACED
