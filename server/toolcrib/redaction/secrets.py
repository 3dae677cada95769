"""Removes secrets and personal data from text before it is written or sent: an event, a log line, an error.

Knows the shapes of well-known ones; never knows where a text comes from or goes to. Such a text is short and written
by a program: in doubt a value is removed, and a URL loses its user and its query.
"""

import re

from toolcrib.redaction.rules import (
    BEARER,
    CLOSERS,
    EMAIL,
    KEY,
    KEY_SIGNS,
    PHONES,
    RESERVED,
    TOKEN,
    Rule,
    has_digit,
    is_reserved,
    rewritten,
)

_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----[^-]*(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----)?"
)
_URL = re.compile(
    r"""(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{0,15}://)
        (?P<userinfo>[^\s/?\#"'<>]*@)?(?P<host>[^\s/?\#"'<>]*)
        (?P<path>[^\s?\#"'<>]*)(?P<query>\?[^\s\#"'<>]*)?""",
    re.VERBOSE,
)
_EMAIL = re.compile(r"(?<![\w.%+-])(?P<local>[\w.%+-]{1,64})@(?P<domain>(?:[\w-]{1,63}\.){1,8}[A-Za-z]{2,24})(?![\w-])")


def redact_text(text: str) -> str:
    """Return ``text`` with mail addresses, phone numbers and keys replaced, and URLs without user and query (R147).

    Only unambiguous forms are replaced; domains reserved for examples stay (R148). Idempotent.
    """
    return rewritten(text, TEXT_RULES)


def _private_key(_match: re.Match[str]) -> str:
    return TOKEN


def _key(match: re.Match[str]) -> str:
    return TOKEN if has_digit(match[0]) else match[0]


def _bearer(match: re.Match[str]) -> str:
    return match[1] + TOKEN if has_digit(match[2]) else match[0]


def _url(match: re.Match[str]) -> str:
    host, query = match["host"], match["query"] or ""
    if is_reserved(host):
        return match[0]
    # Punctuation at the end of a sentence is not part of the query.
    after = query[len(query.rstrip(CLOSERS)) :]
    return match["scheme"] + host + match["path"] + after


def _email(match: re.Match[str]) -> str:
    is_public = match["local"] == "git" or RESERVED.search(match["domain"])
    return match[0] if is_public else EMAIL


KEY_RULES = (
    Rule(_PRIVATE_KEY, _private_key, ("-----begin",)),
    Rule(KEY, _key, KEY_SIGNS),
    Rule(BEARER, _bearer, ("bearer",)),
)
"""Secrets in any context: the only redaction where URLs must stay readable."""

TEXT_RULES = (
    *KEY_RULES,
    Rule(_URL, _url, ("://",)),
    Rule(_EMAIL, _email, ("@",)),
    PHONES,
)
"""The redaction of a text, in this order."""
