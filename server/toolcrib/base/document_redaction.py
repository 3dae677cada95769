"""Removes secrets and personal data from a document, such as a skill; all else stays byte-identical.

A document is meant to be followed, so its line breaks, examples and placeholders stay.
"""

import re

from toolcrib.base.redaction import (
    BEARER,
    CLOSERS,
    EMAIL,
    KEY,
    KEY_SIGNS,
    PHONES,
    TOKEN,
    Rule,
    has_digit,
    is_reserved,
    rewritten,
)

# A truncated key ("cut"), as in an excerpt, extends as far as lines look like key material.
_PRIVATE_KEY = re.compile(
    r"""-----BEGIN[ ][A-Z0-9 ]{0,40}PRIVATE[ ]KEY(?:[ ]BLOCK)?-----(?:
      (?P<whole>[^-]*+(?:-(?!----)[^-]*+)*+)-----END[ ][A-Z0-9 ]{0,40}KEY(?:[ ]BLOCK)?-----
    | (?P<cut>(?:(?:\s|\\[nr]|["'+>|])*+[A-Za-z0-9+/]{32,}+={0,2}+)++)
    )""",
    re.VERBOSE,
)
_KEY_LINE = re.compile(r"[A-Za-z0-9+/]{32,}+")
_NOT_LINE_BREAKS = re.compile(r"[^\r\n]+")

_MORE_KEYS = re.compile(
    r"""(?<![A-Za-z0-9_-])(?:
      SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}                  # SendGrid
    | shp(?:at|ca|pa|ss)_[A-Za-z0-9]{24,} | whsec_[A-Za-z0-9]{24,}  # Shopify, Stripe
    | ya29\.[A-Za-z0-9_-]{24,} | GOCSPX-[A-Za-z0-9_-]{20,}        # Google
    | do[opr]_v1_[A-Za-z0-9]{32,} | nvapi-[A-Za-z0-9_-]{32,}      # DigitalOcean, NVIDIA
    | gsk_[A-Za-z0-9]{32,} | lin_api_[A-Za-z0-9]{24,}             # Groq, Linear
    )""",
    re.VERBOSE,
)
# The value is only looked ahead at, not consumed: it may end in the word that begins the next assignment.
_ASSIGNMENT = re.compile(
    r"""(?<!\[REDACTED_)(?i:key|secret|token|passw(?:or)?d|pwd|credentials?)["'`*)\]]{0,3}
          (?:[ \t]{0,4}(?::=|=>|[:=])[ \t]{0,4}|[ \t]{1,4})["'`*(\[]{0,3}
        (?=(?P<value>[A-Za-z0-9_+/~-]{20,}+={0,2}+)(?!=|\.?[A-Za-z0-9_(\[]))""",
    re.VERBOSE,
)
_USER_INFO = re.compile(r"""://(?P<user_info>[^\s/?#"'<>]*)@(?P<host>[^\s/?#"'<>@]*)""")
_QUERY = re.compile(r"""(?P<before>://(?P<host>[^\s/?#"'<>]*)[^\s?#"'<>]*)(?P<query>\?[^\s#"'<>]*)?""")
_PARAMETER = re.compile(
    r"""([?&;](?:amp;)?(?!(?:next|page|sync)[_.-])(?:[a-z0-9]{1,20}[_.-]){0,3}
          (?P<kind>(?:api|access|account|subscription)?[_-]?key|(?:access|auth|id|refresh|security)?token
            |(?:client)?secret|passw(?:or)?d|pwd|signature|sig|credentials?|auth|jwt|session[_-]?id)=)
        (?P<value>[\w.~%+/:=-]*[\w~%+/=])""",
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_LOOSE_QUERY = re.compile(r"""(?<![\w./:?&=;#%+-])(?:/[\w./-]{0,200}+)?(?P<query>\?[\w.~-]{1,40}=[^\s#"'<>`]*)""")
"""A query without its host, as in ``GET /rows?user=bob&token=…``."""
_PASSWORD = re.compile(
    r"""(?<![A-Za-z])(?i:passw(?:or)?d|pwd)(?:=|:[ ]?|[ ]=[ ])(?P<quote>["']?)
        (?=[^\s"'`,;&<>()\[\]{}$|\\]{0,200}[0-9])(?P<value>[^\s"'`,;&<>()\[\]{}$|\\]{6,200}+)(?P=quote)(?![\w(\[.])""",
    re.VERBOSE,
)
"""A password in an assignment, quoted or not: with a digit, and no call, variable or path of members."""
_NO_PASSWORD = re.compile(r"pass|pwd|secret|token|\A[/~.]|://|\A[A-Za-z_]\w*\.[A-Za-z_]|\A\d+\Z|_", re.IGNORECASE)
"""What values of passwords in examples are: names of variables, paths, numbers."""
_EMAIL = re.compile(
    r"""(?P<local>(?<![A-Za-z0-9_.%+\u00c0-\u04ff-])[A-Za-z0-9_.%+\u00c0-\u04ff-]++
            |(?<![^\W\x00-\u04ff])[^\W\x00-\u04ff]{1,32}+)  # scripts without spaces: no more than the name itself
        @(?P<domain>(?:[A-Za-z0-9_\u00c0-\u1fff\u3040-\ud7ff-]{1,63}\.){1,8}[A-Za-z]{2,24})
        (?!\.*+[A-Za-z0-9_@%+\u00c0-\u04ff-])""",
    re.VERBOSE,
)
_AT_DOMAIN = re.compile(r"@[A-Za-z0-9_\u00c0-\u1fff\u3040-\ud7ff-]{1,63}\.")
# Domains without mailboxes, and what only looks like an address: icon@2x.png, name@odata.type.
_NOT_MAIL = re.compile(
    r"(?:^|\.)(?:example\.(?:com|org|net)|example|test|invalid|localhost|local|internal|gserviceaccount\.com)\Z"
    r"|^(?:your|\d+x?\.|odata\.)",
    re.IGNORECASE,
)
_IN_USER_INFO = re.compile(r"://[^\s/?#]*\Z")
_USER_INFO_MAX = 200

_PLACEHOLDER = re.compile(
    r"[<>{}…\[\]]|\A\$|\$\(|\A\*+\Z|\.\.\.|xxxx|(?<![a-z0-9])(?:your|redacted|placeholder|change_?me)"
    r"|\A(?:pass|password|passwd|pwd|true|false|none|null|value|string|token|key)\Z|\A(?-i:[A-Z_]+)\Z|\A.{0,3}\Z",
    re.IGNORECASE,
)
"""Placeholders for values: a variable, a word like "value", a run of x, three characters or fewer."""
_SHORT = re.compile(r"(?!pwd)[a-z0-9]{2,3}\Z")
"""Too short for a key; but right before the host of a URL it is a password."""
_TURN = re.compile(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[a-z0-9])|(?<=[0-9])(?=[A-Za-z])")
_VALUE = re.compile(r"[A-Za-z0-9_+/~-]{20,}")
_DIGIT = re.compile(r"[0-9]")
_KEY_MIN = 15
"""Length of the shortest key: ``xoxb-`` and ten more."""
_DIGIT_TURN = re.compile(r"(?<=[A-Za-z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])")


def redact_document(text: str) -> str:
    """Return ``text`` with keys, passwords, mail addresses and telephone numbers replaced (R146-R148).

    Only unambiguous forms are replaced; variables, placeholders and reserved example names stay, and so does every line
    break. Idempotent. Takes linear time.
    """
    text = rewritten(text, _BLOCK_RULES)
    # Keys are long words with digits; most texts have few of these, and trying every pattern on a whole text is slow.
    suspects = [word for word in text.split() if len(word) >= _KEY_MIN and _DIGIT.search(word)]
    if any(rewritten(word, _WORD_RULES) != word for word in suspects):
        text = rewritten(text, _WORD_RULES)
    text = rewritten(text, _BEARER_RULES)
    if any(map(_holds_random, suspects)):
        text = _without_assigned(text)
    return rewritten(text, _OTHER_RULES)


def _private_key(match: re.Match[str]) -> str:
    if match["cut"] is None and not any(map(_is_random, _KEY_LINE.findall(match["whole"]))):
        return match[0]
    return TOKEN + _NOT_LINE_BREAKS.sub("", match[0])


def _key(match: re.Match[str]) -> str:
    return _masked(match[0]) if has_digit(match[0]) else match[0]


def _bearer(match: re.Match[str]) -> str:
    return match[1] + (_masked(match[2]) if has_digit(match[2]) else match[2])


def _without_assigned(text: str) -> str:
    """Return ``text`` with assigned secrets masked; a value may end in the name of the next assignment's key."""
    kept: list[str] = []
    at = 0
    for match in _ASSIGNMENT.finditer(text):
        start, end = match.span("value")
        if start >= at and _is_random(match["value"]):
            kept += text[at:start], _masked(match["value"])
            at = end
    return "".join([*kept, text[at:]])


def _holds_random(word: str) -> bool:
    """Return whether a part of ``word`` that may be an assigned value may be :func:`_is_random`."""
    return any(len(_DIGIT_TURN.findall(part)) > 1 for part in _VALUE.findall(word))


def _masked(value: str) -> str:
    """Return the replacement of ``value``: itself if it is a placeholder; trailing punctuation is kept."""
    end = len(value.rstrip("."))
    return value if _PLACEHOLDER.search(value) else TOKEN + value[end:]


def _is_random(value: str) -> bool:
    """Return whether ``value`` mixes letters and digits like keys do, and names and words do not."""
    # Random text changes between upper case, lower case and digits much more often than at every sixth character; names
    # hardly ever do.
    turns = len(_TURN.findall(value))
    return turns * 6 >= len(value) and len(_DIGIT_TURN.findall(value)) > 1


def _user_info(match: re.Match[str]) -> str:
    user, colon, password = match["user_info"].partition(":")
    if _is_example(match["host"]):
        return match[0]
    if len(user) > 15 and _is_random(user):
        user = _masked(user)
    is_placeholder = _PLACEHOLDER.search(password) and not _SHORT.match(password)
    if password and password != user and not is_placeholder:
        password = TOKEN
    return f"://{user}{colon}{password}@{match['host']}"


def _query(match: re.Match[str]) -> str:
    if not match["query"] or _is_example(match["host"].rpartition("@")[2]):
        return match[0]
    return match["before"] + _PARAMETER.sub(_parameter, match["query"])


def _loose_query(match: re.Match[str]) -> str:
    return match[0].replace(match["query"], _PARAMETER.sub(_parameter, match["query"]), 1)


def _password(match: re.Match[str]) -> str:
    value = match["value"]
    if _PLACEHOLDER.search(value) or _NO_PASSWORD.search(value):
        return match[0]
    return match[0].replace(value, _masked(value), 1)


def _is_example(host: str) -> bool:
    return is_reserved(host.partition(":")[0].rstrip(CLOSERS))


def _parameter(match: re.Match[str]) -> str:
    is_general = match["kind"].lower() == "key"
    return match[0] if is_general and not has_digit(match["value"]) else match[1] + _masked(match["value"])


def _email(match: re.Match[str]) -> str:
    # git@HOST:PATH is the address of a repository.
    if match["local"] == "git" or _NOT_MAIL.search(match["domain"]):
        return match[0]
    before = match.string[max(0, match.start() - _USER_INFO_MAX) : match.start()]
    # Inside a URL it is the user before the host, which the URL rule has handled.
    return match[0] if _IN_USER_INFO.search(before) else EMAIL


_BLOCK_RULES = (Rule(_PRIVATE_KEY, _private_key, ("-----begin",)),)
_WORD_RULES = (Rule(KEY, _key, KEY_SIGNS), Rule(_MORE_KEYS, _key))
"""Their matches contain no white space, and a digit."""
_BEARER_RULES = (Rule(BEARER, _bearer, ("bearer",)),)
_OTHER_RULES = (
    Rule(_USER_INFO, _user_info, ("://",)),
    Rule(_QUERY, _query, ("://",)),
    Rule(_LOOSE_QUERY, _loose_query, ("?",)),
    Rule(_PASSWORD, _password, ("passwd", "password", "pwd")),
    Rule(_EMAIL, _email, ("@",), (_AT_DOMAIN,)),
    PHONES,
)
