"""Removes secrets and personal data from text before it is written or sent: an event, a log line, an error.

Such a text is short and written
by a program: in doubt a value is removed, and a URL loses its user and its query.
"""

import base64
import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, cast
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


_KEPT_MAX, _KEPT_OF_A_PART = 100, 6
"""Number of remembered secrets: of a login those of its last renewals; in total these and the latest ones."""
_MASK = MASK.encode()
_TELLING = 4
"""Number of bytes that few other texts begin with."""


class Learned:
    """Secrets discovered at run time. Threads may add to them while others redact texts."""

    def __init__(self, whole: "Learned | None" = None) -> None:
        self._whole, self._most = whole, _KEPT_OF_A_PART if whole else _KEPT_MAX
        self._parts: dict[str, Learned] = {}
        self._adding = threading.Lock()
        self._secrets: dict[str, tuple[str, ...]] = {}
        self._forms: tuple[str, ...] = ()
        self.forms: tuple[bytes, ...] = ()

    def part(self, name: str) -> "Learned":
        """Return the secrets of one origin, which the whole includes; always the same object for a name."""
        return self._parts.setdefault(name, Learned(self))

    def add(self, secrets: Iterable[str]) -> None:
        """Remember secrets, and forget the oldest if there are too many, except those that a part remembers."""
        secrets = [each for each in secrets if len(each) >= SECRET_MIN_CHARACTERS]
        self._remember(secrets)
        if self._whole:
            self._whole.add(secrets)

    def _remember(self, secrets: list[str]) -> None:
        with self._adding:
            known = [*dict.fromkeys([each for each in self._secrets if each not in secrets] + secrets)]
            if len(known) == len(self._secrets):
                # Seen again, they are the latest. Their forms are the same: sorting them anew would take longer.
                self._secrets = {each: self._secrets[each] for each in known}
                return
            latest = {*known[-self._most :], *(each for part in [*self._parts.values()] for each in part.secrets)}
            # A new one each time: the whole reads a part's secrets while other threads may add to it.
            before = self._secrets
            self._secrets = {each: before.get(each) or tuple(forms_of(each)) for each in known if each in latest}
            self._forms = longest_first(chain.from_iterable(self._secrets.values()))
            self.forms = tuple(form.encode("utf-8", "surrogatepass") for form in self._forms)

    @property
    def secrets(self) -> list[str]:
        """Return the remembered secrets, latest last."""
        return [*self._secrets]

    @property
    def has_any(self) -> bool:
        """Return whether there is any."""
        return bool(self._forms)

    def clean(self, text: str) -> str:
        """Return ``text`` with every secret replaced by ``***``."""
        # One after the other: a pattern of hundreds of long alternatives takes a second to compile, and longer to
        # match.
        for form in self._forms:
            if form in text:
                text = text.replace(form, MASK)
        return text


class MaskedBytes:
    """Masks secrets in bytes that arrive in pieces: also those that span two pieces.

    Of each piece, only what may be the beginning of a secret is held back.
    """

    def __init__(self, learned: Learned) -> None:
        self._learned = learned
        self._held = b""

    def feed(self, piece: bytes) -> bytes:
        """Return what can be released after one more piece."""
        data, self._held = self._held + piece, b""
        forms = self._learned.forms
        for form in forms:
            if form in data:
                data = data.replace(form, _MASK)
        if held := max((_begun_at_the_end(data, form) for form in forms), default=0):
            self._held = data[-held:]
            return data[:-held]
        return data

    def end(self) -> bytes:
        """Return what was held back, at the end of the input."""
        held, self._held = self._held, b""
        return held


def _begun_at_the_end(data: bytes, secret: bytes) -> int:
    """Return the length of the longest suffix of ``data`` that is a prefix of a secret; 0 if none."""
    place = data.find(secret[:_TELLING], max(0, len(data) - len(secret) + 1))
    while place >= 0:
        if secret.startswith(data[place:]):
            return len(data) - place
        place = data.find(secret[:_TELLING], place + 1)
    few = range(min(_TELLING, len(secret)) - 1, 0, -1)
    return next((number for number in few if data.endswith(secret[:number])), 0)


def longest_first(forms: Iterable[str]) -> tuple[str, ...]:
    """Return the forms of secrets, longest first, so that no rest is left of one that begins with another."""
    return tuple(sorted(set(forms), key=lambda form: (-len(form), form)))


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

    def without_keys(self, text: str) -> str:
        """Return ``text`` without the secrets, and without what has the form of a key, whatever ``rules`` there are."""
        return rewritten(self.clean(text), KEY_RULES)

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


TOKEN_RULES = (Rule(KEY, _key, KEY_SIGNS), Rule(BEARER, _bearer, ("bearer",)))
"""Secrets of one word."""

KEY_RULES = (Rule(_PRIVATE_KEY, _private_key, ("-----begin",)), *TOKEN_RULES)
"""Secrets in any context: the only redaction where URLs must stay readable."""

TEXT_RULES = (
    *KEY_RULES,
    Rule(_URL, _url, ("://",)),
    Rule(_EMAIL, _email, ("@",)),
    PHONES,
)
"""The redaction of a text, in this order."""
