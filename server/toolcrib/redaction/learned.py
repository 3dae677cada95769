"""Removes secrets that appear at run time, such as tokens of logins, from texts and byte streams.

Knows the latest of them, in all their encodings; never knows what one is for.
"""

import threading
from collections.abc import Iterable
from itertools import chain

from toolcrib.redaction.forms import MASK, SECRET_MIN_CHARACTERS, forms_of

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
            if self._secrets.keys() >= set(secrets):
                return
            known = [*dict.fromkeys([each for each in self._secrets if each not in secrets] + secrets)]
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
