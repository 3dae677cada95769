"""Secrets and personal data taken out of text before it is written or sent.

Knows the secrets it is given and the shapes of well-known ones; never knows where a text comes from or goes to.
Every pattern is tried from few places and runs in linear time, so that no text can make it slow.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

MASK = "***"
EMAIL = "[REDACTED_EMAIL]"
PHONE = "[REDACTED_PHONE]"
TOKEN = "[REDACTED_TOKEN]"  # noqa: S105 - it takes the place of one


class Redactor:
    """Masks the given secrets wherever they stand: as they are, or encoded for a URL, for JSON or in base64."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets if secret for form in _forms(secret)}
        longest_first = sorted(forms, key=lambda form: (-len(form), form))
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if forms else None

    def clean(self, text: str) -> str:
        """Return ``text`` with every secret replaced by ``***``."""
        return self._pattern.sub(MASK, text) if self._pattern else text

    def redact(self, text: str) -> str:
        """Return ``text`` without the secrets, and without what looks like a secret or like personal data."""
        return redact_text(self.clean(text))


def _forms(secret: str) -> Iterator[str]:
    raw = secret.encode("utf-8", "surrogatepass")
    yield secret
    yield quote(raw, safe="")
    yield quote_plus(raw)
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield base64.b64encode(raw).decode().rstrip("=")
    yield base64.urlsafe_b64encode(raw).decode().rstrip("=")


_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----[^-]*(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----)?"
)
KEY_SHAPE = re.compile(
    r"""(?<![A-Za-z0-9_-])(?:
      eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?  # JWT
    | sk-[A-Za-z0-9_-]{16,}                                         # OpenAI, Anthropic and others
    | [rsp]k_(?:live|test)_[A-Za-z0-9]{10,}                         # Stripe
    | gh[pousr]_[A-Za-z0-9]{16,} | github_pat_[A-Za-z0-9_]{16,}     # GitHub
    | glpat-[A-Za-z0-9_-]{16,}                                      # GitLab
    | xox[a-z]-[A-Za-z0-9-]{10,}                                    # Slack
    | (?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])                      # AWS
    | AIza[A-Za-z0-9_-]{30,}                                        # Google
    | hf_[A-Za-z0-9]{20,} | npm_[A-Za-z0-9]{30,} | pypi-[A-Za-z0-9_-]{30,}
    )""",
    re.VERBOSE,
)
KEY_STARTS = ("eyJ", "sk-", "k_", "gh", "github_pat_", "xox", "AKIA", "ASIA", "AIza", "hf_", "npm_", "pypi-", "glpat-")
BEARER_SHAPE = re.compile(r"((?<![A-Za-z0-9_])[Bb][Ee][Aa][Rr][Ee][Rr]\s{1,8})([A-Za-z0-9._~+/=-]{8,})")
_URL = re.compile(
    r"""(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{0,15}://)
        (?P<userinfo>[^\s/?\#"'<>]*@)?(?P<host>[^\s/?\#"'<>]*)
        (?P<path>[^\s?\#"'<>]*)(?P<query>\?[^\s\#"'<>]*)?""",
    re.VERBOSE,
)
_EMAIL = re.compile(r"(?<![\w.%+-])(?P<local>[\w.%+-]{1,64})@(?P<domain>(?:[\w-]{1,63}\.){1,8}[A-Za-z]{2,24})(?![\w-])")
PHONE_SHAPE = re.compile(
    r"""(?<![A-Za-z0-9_.+-])(?<!_PHONE\])(?:  # what stood right behind a number stays in a second pass too
      (?!\+\d+\.\d+(?![\d.]) | \+\d{4}-\d\d-\d\d)    # no decimal number, no date
      \+[1-9](?:[ .()-]{0,2}\d){7,14}
    | \(\d{3}\)[ ]?\d{3}[ .-]\d{4}
    | \d{3}([-.])\d{3}\1\d{4}
    )(?![A-Za-z0-9_-])""",
    re.VERBOSE,
)
CLOSERS = ").,;:!]}`"
RESERVED = re.compile(r"(?:^|\.)(?:example\.(?:com|org|net)|example|test|invalid|localhost)\Z", re.IGNORECASE)


def redact_text(text: str) -> str:
    """Return ``text`` with mail addresses, phone numbers and keys replaced, and URLs without user and query (R147).

    Only shapes that leave no doubt are replaced; the domains reserved for examples are left alone (R148).
    Doing it twice changes nothing more.
    """
    if "-----BEGIN" in text:
        text = _PRIVATE_KEY.sub(TOKEN, text)
    if any(start in text for start in KEY_STARTS):
        text = KEY_SHAPE.sub(_key, text)
    if "bearer" in text.lower():
        text = BEARER_SHAPE.sub(_bearer, text)
    if "://" in text:
        text = _URL.sub(_url, text)
    if "@" in text:
        text = _EMAIL.sub(_email, text)
    return PHONE_SHAPE.sub(mask_phone, text)


def has_digit(text: str) -> bool:
    """Return whether there is a digit in ``text``: words have none, keys do."""
    return any(char.isdigit() for char in text)


def _key(match: re.Match[str]) -> str:
    return TOKEN if has_digit(match[0]) else match[0]


def _bearer(match: re.Match[str]) -> str:
    return match[1] + TOKEN if has_digit(match[2]) else match[0]


def _url(match: re.Match[str]) -> str:
    host, query = match["host"], match["query"] or ""
    if RESERVED.search(host.partition(":")[0]):
        return match[0]
    after = query[len(query.rstrip(CLOSERS)) :]
    return match["scheme"] + host + match["path"] + after


def _email(match: re.Match[str]) -> str:
    is_public = match["local"] == "git" or RESERVED.search(match["domain"])
    return match[0] if is_public else EMAIL


def mask_phone(match: re.Match[str]) -> str:
    """Return what takes the place of a telephone number: itself where the number is one kept for fiction, 555-01xx."""
    digits = "".join(char for char in match[0] if char.isdigit())
    is_fictional = digits[-7:-2] == "55501" and len(digits) in (10, 11)
    return match[0] if is_fictional else PHONE
