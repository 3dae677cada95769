"""Words what a person is asked to approve: what is shown is what is sent (ADR 88)."""

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from toolcrib.base.json_values import compact
from toolcrib.base.model import JsonObject
from toolcrib.base.redaction import TOKEN, TOKEN_RULES, rewritten
from toolcrib.base.text import escaped_characters, one_line, truncate

_ARGUMENTS_MAX = 2000
_SHARE_MIN = 80
"""What is shorter is not cut: no sense would be left of it."""
_NOTE_MAX = len(" … (12345678 more characters, not shown)")
_MEMBERS_MAX = 100
"""Arguments of which each can be seen; more may make a question no longer."""
_READ_MAX, _OPENED_MAX = 400, 8
_EFFORT_MAX, _EFFORT_MIN, _EFFORT_OF_A_PART = 50_000, 200, 10
"""Characters that are looked at, of all arguments and of each; and what each text, and what is between two, adds."""

_TEXT_OR_REST = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[^"]+')
_AS_JSON = {'"': r"\"", "\\": r"\\", r"\u000a": r"\n", r"\u000d": r"\r", r"\u0009": r"\t"}

# In JSON, where a line end is written out and a key may be a list of lines. Unlike in a log, what only follows the
# header of a key has to be seen: each of its lines is one long word.
_PRIVATE_KEY = re.compile(
    r"""-----BEGIN\ [A-Z0-9 ]{0,40}PRIVATE\ KEY-----
        (?:(?:(?:\s|\\+[nr]|[",>])*+(?:Proc-Type|DEK-Info):\ [A-Z0-9,-]{1,80})*+
           (?:(?:\s|\\+[nr]|[",>])*+[A-Za-z0-9+/=]{40,}+)++
           (?:(?:\s|\\+[nr]|[",>])*+[A-Za-z0-9+/=]{0,39}
              (?:\s|\\+[nr]|[",>])*+-----END\ [A-Z0-9 ]{0,40}PRIVATE\ KEY-----)?)?""",
    re.VERBOSE,
)


def shown_text(text: str, limit: int) -> str:
    """Return what something says of itself as one line of about ``limit`` characters; "nothing" if it is blank.

    Such a text is not what is sent: hidden characters are left out, as they are for models.
    """
    line = one_line(text)
    if len(line) <= limit:
        return line or "nothing"
    shown = truncate(line, limit)
    return f"{shown} {_left_out(len(line) - len(shown.removesuffix('…')))}"


def shown_arguments(arguments: JsonObject, clean: Callable[[str], str]) -> str:
    """Return arguments as JSON on one line of about 2,000 characters, or 80 for each of 100, without secrets.

    ``clean`` replaces the secrets of the config in a text. Each character that may deceive is shown as an escape of
    JSON. The longest texts are cut first, then the longest arguments, so that a long one hides no other. How much is
    left out stands outside of all quotation marks, where no argument can write.
    """
    names, members = _opened(arguments)
    opening = "".join(f"{_Json.read(compact(name), clean).cut(_SHARE_MIN)}:{{" for name in names)
    room = max(_ARGUMENTS_MAX - len(opening) - len(names), (_SHARE_MIN + 1) * min(len(members), _MEMBERS_MAX) + 1)
    if len(members) <= _READ_MAX and (shown := _fitted(members, room, clean)) is not None:
        return f"{{{opening}{','.join(shown)}{'}' * len(names)}}}"
    return _Json.read(compact(arguments), clean).cut(room)


def _opened(arguments: JsonObject) -> tuple[list[str], JsonObject]:
    """Return the arguments of a tool that takes all of them in one object, and the names on the way there."""
    names, members = list[str](), arguments
    while len(members) == 1 and len(names) < _OPENED_MAX:
        [(name, inner)] = members.items()
        if not isinstance(inner, dict) or not inner:
            break
        names.append(name)
        members = cast("JsonObject", inner)
    return names, members


@dataclass(frozen=True, slots=True)
class _Part:
    """A text of JSON, or what is between two: the characters as they are shown, and how many ``more`` it has."""

    is_text: bool
    shown: Sequence[str]
    more: int

    @property
    def size(self) -> float:
        """How many characters it takes."""
        return math.inf if self.more else sum(map(len, self.shown)) + 2 * self.is_text

    @property
    def effort(self) -> int:
        """What looking at it has cost."""
        return len(self.shown) + _EFFORT_OF_A_PART

    @property
    def count(self) -> int:
        """How many characters it has, an escape being one."""
        return len(self.shown) + self.more + 2 * self.is_text

    def cut(self, most: float) -> tuple[str, int]:
        """Return at most ``most`` characters of it, and how many it has besides."""
        room, kept = most - 2 * self.is_text, list[str]()
        if room < 0:
            return "", self.count
        for char in self.shown:
            room -= len(char)
            if room < 0:
                break
            kept.append(char)
        head = "".join(kept)
        return f'"{head}"' if self.is_text else head, len(self.shown) + self.more - len(kept)

    def within(self, most: float) -> str:
        """Return it whole, or with how much is left out, if it is longer than ``most`` characters."""
        if self.size <= most:
            return self.cut(most)[0]
        head, left = self.cut(most - _NOTE_MAX)
        return f"{head} … {_left_out(left)}"


@dataclass(frozen=True, slots=True)
class _Json:
    """JSON in parts, and how many characters there are ``behind`` them."""

    parts: Sequence[_Part]
    behind: int

    @classmethod
    def read(cls, text: str, clean: Callable[[str], str], effort: int = _EFFORT_MAX) -> "_Json":
        """Return what a text of JSON consists of; of a long one the parts that ``effort`` characters have."""
        text = _PRIVATE_KEY.sub(TOKEN, text)
        parts = list[_Part]()
        for token in _TEXT_OR_REST.finditer(text):
            if effort <= 0:
                return cls(parts, len(text) - token.start())
            parts.append(_read(token[0], clean, min(effort, _ARGUMENTS_MAX)))
            effort -= parts[-1].effort
        return cls(parts, 0)

    @property
    def size(self) -> float:
        return math.inf if self.behind else sum(part.size for part in self.parts)

    def cut(self, most: float) -> str:
        """Return it whole, or its beginning with how much is left out, if it is longer than ``most`` characters."""
        if self.size <= most:
            return "".join(part.within(most) for part in self.parts)
        room, shown = most - _NOTE_MAX, list[str]()
        for number, part in enumerate(self.parts):
            head, left = part.cut(room)
            shown.append(head)
            room -= len(head)
            if left:
                left += sum(each.count for each in self.parts[number + 1 :])
                return f"{''.join(shown)} … {_left_out(left + self.behind)}"
        return f"{''.join(shown)} … {_left_out(self.behind)}"


def _read(token: str, clean: Callable[[str], str], most: int) -> _Part:
    if not token.startswith('"'):
        plain = clean(token)  # a secret may be a number
        return _Part(is_text=False, shown=plain[:most], more=max(len(plain) - most, 0))
    # Each text by itself and as it is sent: its neighbours are not part of a secret.
    plain = rewritten(clean(json.loads(token)), TOKEN_RULES)
    shown = [_AS_JSON.get(char, char) for char in escaped_characters(plain[:most])]
    return _Part(is_text=True, shown=shown, more=max(len(plain) - most, 0))


def _fitted(arguments: JsonObject, room: int, clean: Callable[[str], str]) -> list[str] | None:
    """Return the arguments, cut where they are longest; None if there are too many."""
    left, members = _EFFORT_MAX, list[_Json]()
    for name, value in arguments.items():
        members.append(_Json.read(compact({name: value})[1:-1], clean, max(left, _EFFORT_MIN)))
        left -= sum(part.effort for part in members[-1].parts)
    room -= 1 + len(members)  # braces and commas
    if not any(member.behind for member in members):
        parts = [part for member in members for part in member.parts]
        rest = sum(part.size for part in parts if not part.is_text)
        most = _share([part.size for part in parts if part.is_text], room - rest)
        if most is not None:
            return ["".join(part.within(most if part.is_text else math.inf) for part in each.parts) for each in members]
    most = _share([member.size for member in members], room)
    return None if most is None else [member.cut(most) for member in members]


def _share(sizes: Iterable[float], room: float) -> float | None:
    """Return the size to which the largest have to be cut for all to fit into ``room``; None if it is too small."""
    if room < 0:
        return None
    ordered = sorted(sizes)
    for number, size in enumerate(ordered):
        share = room // (len(ordered) - number)
        if size > share:
            return share if share >= _SHARE_MIN else None
        room -= size
    return math.inf


def _left_out(number: int) -> str:
    return f"({number} more characters, not shown)"
