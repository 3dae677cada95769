r"""Lone surrogates, which JSON can hold as ``\ud83d`` and UTF-8 cannot: half a character, where a text was cut.

Knows how they are written and what stands for them; never knows what is said with them. Pipes pass them on as they
came. The SDK's HTTP transports cannot: there each becomes U+FFFD, or a tool that ran would look failed.
"""

import json
import re
from typing import Any, TypeVar

from pydantic_core import PydanticSerializationError, to_json

T = TypeVar("T")

_REPLACED = rb"\ufffd"
_SIGNS = (rb"\ud", rb"\uD")
_CUTS = (b"\\", rb"\u")

# Every escape, one after the other, so that a backslash which is itself escaped begins none. First what the end of the
# bytes cuts off and what follows may still make a pair, then pairs, which stay.
_ESCAPE = re.compile(
    rb"""(?P<cut>\\(?:u(?:[dD](?:[89a-fA-F][0-9a-fA-F]?
            |[89abAB][0-9a-fA-F]{2}(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?)?)?)?\Z)
       | \\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}
       | (?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})
       | \\.""",
    re.DOTALL | re.VERBOSE,
)


def carried(value: T) -> T:
    """Return a JSON value as the SDK can send it: itself, unless a text or a key in it has a lone surrogate.

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
    """Takes a body of JSON, or of events that hold some, chunk by chunk. Its length stays the same."""

    def __init__(self) -> None:
        self._cut = b""

    def feed(self, chunk: bytes) -> bytes:
        """Return what is certain by now, with U+FFFD for each lone surrogate that is escaped in it."""
        data, self._cut = self._cut + chunk, b""
        if not any(sign in data for sign in _SIGNS) and not data.endswith(_CUTS):
            return data
        return _ESCAPE.sub(self._replaced, data)

    def end(self) -> bytes:
        """Return what is left when the body ends."""
        return self._cut

    def _replaced(self, match: re.Match[bytes]) -> bytes:
        if (cut := match["cut"]) is not None:
            self._cut = cut
            return b""
        return match[0] if match["lone"] is None else _REPLACED
