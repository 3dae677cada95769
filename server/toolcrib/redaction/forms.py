"""The forms in which a secret may stand in a text: as it is, encoded for a URL, for JSON, or in base64.

Knows encodings; never knows where a secret comes from or what is done about it.
"""

import base64
import json
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

MASK = "***"


def forms_of(secret: str) -> Iterator[str]:
    """Yield the forms of a secret, itself first."""
    raw = secret.encode("utf-8", "surrogatepass")
    yield secret
    yield quote(raw, safe="")
    yield quote_plus(raw)
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    # Without the padding, which may be left out and may stay behind.
    yield base64.b64encode(raw).decode().rstrip("=")
    yield base64.urlsafe_b64encode(raw).decode().rstrip("=")
