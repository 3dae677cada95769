"""The redirect from the authorization server through a person's browser: one answer, to the request that was sent.

Knows the redirect of OAuth (RFC 6749, section 4.1.2; RFC 9207); never knows who is asked, nor what is done with a code.
"""

import secrets
from urllib.parse import parse_qs, urlsplit

from toolcrib.base.errors import LoginFailed
from toolcrib.base.text import one_line, sanitize, truncate
from toolcrib.jsonrpc.sdk_oauth import AuthorizationCodeResult

_TEXT_MAX = 200


def state_of(address: str) -> str:
    """Return the ``state`` in the authorization URL ``address``; empty if it has none."""
    return _first(urlsplit(address).query, "state")


def answer_in(query: str, state: str) -> AuthorizationCodeResult | None:
    """Return the authorization response in a redirect's query; None if it is invalid or has another ``state``.

    Raises:
        LoginFailed: the authorization was denied.

    """
    if not state or not secrets.compare_digest(_first(query, "state").encode(), state.encode()):
        return None
    if error := _first(query, "error"):
        said = truncate(one_line(sanitize(_first(query, "error_description"))), _TEXT_MAX)
        word = truncate(one_line(sanitize(error)), _TEXT_MAX)
        raise LoginFailed(f"the login was denied: {word}{f' ({said})' if said else ''}")
    code = _first(query, "code")
    return AuthorizationCodeResult(code=code, state=state, iss=_first(query, "iss") or None) if code else None


def _first(query: str, name: str) -> str:
    try:
        return parse_qs(query, max_num_fields=50).get(name, [""])[0]
    except ValueError:
        return ""
