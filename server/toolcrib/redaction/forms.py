"""The encodings in which a secret may appear in a text: plain, URL-encoded, JSON-escaped, or base64.

Knows encodings; never knows where a secret comes from or what is done about it.
"""

import base64
import json
from collections.abc import Iterator, Mapping
from urllib.parse import quote, quote_plus

MASK = "***"

SECRET_MIN_CHARACTERS = 6
"""Shorter values are not treated as secrets: masking them would mask ordinary words."""

_JSON_ESCAPES: tuple[Mapping[int, str], ...] = (
    str.maketrans({"/": r"\/"}),
    str.maketrans({sign: f"\\u{ord(sign):04x}" for sign in "<>&"}),
    str.maketrans({sign: f"\\u{ord(sign):04x}" for sign in "<>&='"}),
    str.maketrans({sign: f"\\u{ord(sign):04X}" for sign in "<>&'+`"}),
)
"""Characters that JSON writers escape without need: PHP, Go, Java (Gson) and .NET with default settings."""


def forms_of(secret: str) -> Iterator[str]:
    """Yield the forms of a secret, itself first."""
    raw = secret.encode("utf-8", "surrogatepass")
    yield secret
    yield quote(raw, safe="")
    yield quote_plus(raw)
    for written in (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
        yield written
        yield from (written.translate(escapes) for escapes in _JSON_ESCAPES)
    # Without the padding, which may be omitted, or remain.
    yield base64.b64encode(raw).decode().rstrip("=")
    yield base64.urlsafe_b64encode(raw).decode().rstrip("=")
