"""Handles: the names that toolcrib gives to what it keeps for a caller, such as a task or the rest of a result."""

import secrets
from collections.abc import Callable

NewHandle = Callable[[], str]
"""Makes a handle that nobody has and nobody can guess; whose it is, the keeper compares besides."""

_RANDOM_BYTES = 16


def new_handle() -> str:
    """Return a new handle: 128 random bits, in characters that a URL, a header and a model leave as they are."""
    return secrets.token_urlsafe(_RANDOM_BYTES)
