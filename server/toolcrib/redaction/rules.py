"""The redaction engine: masks given secrets, rewrites texts by rules, and has the shapes shared by several uses.

Knows how a rule is applied; never knows whose text it is, or what else is removed from it.
Every pattern is tried from few places and runs in linear time, so that no text can make it slow.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, cast

from toolcrib.redaction.forms import MASK, forms_of
from toolcrib.redaction.learned import Learned, longest_first

__all__ = ["MASK"]

EMAIL = "[REDACTED_EMAIL]"
PHONE = "[REDACTED_PHONE]"
TOKEN = "[REDACTED_TOKEN]"  # noqa: S105 - it replaces one

_DEPTH_MAX = 200
"""Maximum depth to which a value is processed; the interpreter's limit is about five times that."""

CLOSERS = ").,;:!]}`"
"""Characters that may end a sentence right after a URL."""

RESERVED = re.compile(r"(?:^|\.)(?:example\.(?:com|org|net)|example|test|invalid|localhost)\Z", re.IGNORECASE)
"""Domains reserved for examples (RFC 2606)."""


class Rule(NamedTuple):
    """Replaces each match of ``pattern`` by the result of ``replace``.

    Texts that contain no sign, in any case, have no match; nor have those in which no hint, a faster pattern, matches.
    """

    pattern: re.Pattern[str]
    replace: Callable[[re.Match[str]], str]
    signs: tuple[str, ...] = ()
    hints: tuple[re.Pattern[str], ...] = ()


def rewritten(text: str, rules: Iterable[Rule]) -> str:
    """Return ``text`` with the rules applied in order."""
    lowered = text.lower()  # once: no rule's output contains the sign of a later one
    for pattern, replace, signs, hints in rules:
        # Searching for a fixed text is much faster than trying a pattern at each position.
        if signs and not any(map(lowered.__contains__, signs)):
            continue
        if not hints or any(hint.search(text) for hint in hints):
            text = pattern.sub(replace, text)
    return text


class Redactor:
    """Masks the given secrets wherever they occur: plain, or encoded for a URL, for JSON or in base64.

    ``rules`` find unknown secrets and personal data by their form. ``learned`` are secrets discovered later.
    """

    def __init__(self, secrets: Iterable[str], rules: Sequence[Rule] = (), learned: Learned | None = None) -> None:
        self._secrets = tuple(filter(None, secrets))
        forms = longest_first(form for secret in self._secrets for form in forms_of(secret))
        self._pattern = re.compile("|".join(map(re.escape, forms))) if forms else None
        self._rules, self._learned = rules, learned or Learned()

    def clean(self, text: str) -> str:
        """Return ``text`` with every secret replaced by ``***``."""
        return self._learned.clean(self._pattern.sub(MASK, text) if self._pattern else text)

    def cleaned(self, value: Any) -> Any:
        """Return a JSON value with every secret, and everything nested more than 200 deep, replaced by ``***``."""
        return self._cleaned(value, _DEPTH_MAX) if self._pattern or self._learned.has_any else value

    def _cleaned(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self.clean(value)
        if isinstance(value, list | dict) and not depth:
            return MASK
        if isinstance(value, list):
            return [self._cleaned(each, depth - 1) for each in cast("list[Any]", value)]
        if isinstance(value, dict):
            members = cast("dict[str, Any]", value)
            return {self.clean(name): self._cleaned(each, depth - 1) for name, each in members.items()}
        return value

    def knows(self, is_meant: Callable[[str], bool]) -> bool:
        """Return whether ``is_meant`` is true of any secret: for comparisons other than in the written form."""
        return any(map(is_meant, (*self._secrets, *self._learned.secrets)))

    def redact(self, text: str) -> str:
        """Return ``text`` without the secrets, and without the matches of the rules."""
        return rewritten(self.clean(text), self._rules)


KEY = re.compile(
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
KEY_SIGNS = ("eyj", "sk-", "k_", "gh", "github_pat_", "xox", "akia", "asia", "aiza", "hf_", "npm_", "pypi-", "glpat-")
"""Prefixes of keys, in lower case."""

BEARER = re.compile(r"((?<![A-Za-z0-9_])[Bb][Ee][Aa][Rr][Ee][Rr]\s{1,8})([A-Za-z0-9._~+/=-]{8,})")

_PHONE_SHAPE = re.compile(
    r"""(?<![A-Za-z0-9_.+-])(?<!_PHONE\])(?:  # what stood right behind a number stays in a second pass too
      (?!\+\d+\.\d+(?![\d.]) | \+\d{4}-\d\d-\d\d)    # no decimal number, no date
      \+[1-9](?:[ .()-]{0,2}\d){7,14}
    | \(\d{3}\)[ ]?\d{3}[ .-]\d{4}
    | \d{3}([-.])\d{3}\1\d{4}
    )(?![A-Za-z0-9_-])""",
    re.VERBOSE,
)


def has_digit(text: str) -> bool:
    """Return whether ``text`` contains a digit: words have none, keys do."""
    return any(char.isdigit() for char in text)


def is_reserved(host: str) -> bool:
    """Return whether a host, with or without a port, is in a domain reserved for examples."""
    return RESERVED.search(host.partition(":")[0]) is not None


def _phone(match: re.Match[str]) -> str:
    digits = "".join(char for char in match[0] if char.isdigit())
    is_fictional = digits[-7:-2] == "55501" and len(digits) in (10, 11)  # 555-01xx is reserved for fiction
    return match[0] if is_fictional else PHONE


# Two patterns: each begins with a literal that the regex engine can search for.
PHONES = Rule(_PHONE_SHAPE, _phone, hints=(re.compile(r"\d{3}[ .-]\d{4}"), re.compile(r"\+[1-9]")))
"""Telephone numbers, except those reserved for fiction."""
