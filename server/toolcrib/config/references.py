"""Resolves secrets that a config refers to: ``${file:PATH}`` and ``${keyring:NAME}``.

Knows where they are looked up and the remedy if one is missing; never knows what a secret is for.
"""

import os
import re
import stat
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from toolcrib.base.errors import StoreError
from toolcrib.config.paths import absolute

FILE_MAX_BYTES = 64 * 1024
"""Most that a file may hold whose content takes the place of a reference."""

SECRET_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")
"""What a secret may be called."""

_NO_WAIT = getattr(os, "O_NONBLOCK", 0)

Keyring = Callable[[str], str | None]
"""Gives the secret of a name in the system's keyring, None where there is none; raises StoreError where it cannot."""


class MissingSecret(Exception):
    """There is no such secret, or it cannot be had: ``reason`` says why, ``hint`` what to do."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.reason, self.hint = reason, hint


def no_keyring(_name: str) -> str | None:
    """Refuse: nobody has given a keyring."""
    raise StoreError("there is no keyring here")


class References:
    """What references of one config stand for. Each file and each name is asked for once.

    Relative paths start from ``base``. ``open_to_others`` are the files that other people of this machine can read.
    """

    def __init__(self, environ: Mapping[str, str], base: Path, keyring: Keyring = no_keyring) -> None:
        self.open_to_others: list[Path] = []
        self._environ, self._base, self._keyring = environ, base, keyring
        self._known: dict[tuple[str, str], str | MissingSecret] = {}

    def value(self, kind: str, name: str) -> str:
        """Return what ``${kind:name}`` stands for; ``kind`` is ``file`` or ``keyring``. Blocks.

        Raises:
            MissingSecret: it stands for nothing.

        """
        key = kind, name
        if key not in self._known:
            try:
                self._known[key] = self._in_file(name) if kind == "file" else self._in_keyring(name)
            except MissingSecret as missing:
                self._known[key] = missing
        known = self._known[key]
        if isinstance(known, MissingSecret):
            raise known
        return known

    def _in_keyring(self, name: str) -> str:
        if not SECRET_NAME.fullmatch(name):
            raise MissingSecret(f"{name} is not a name for a secret", "use letters, digits, - and _")
        try:
            value = self._keyring(name)
        except StoreError as error:
            raise MissingSecret(f"the secret {name} is not available: {error}", "or write ${file:PATH}") from error
        if value is None:
            raise MissingSecret(f"the keyring has no secret {name}", f"run `toolcrib secret set {name}`")
        return value

    def _in_file(self, text: str) -> str:
        path = absolute(text, self._base, self._environ)
        try:
            descriptor = os.open(path, os.O_RDONLY | _NO_WAIT)
            with os.fdopen(descriptor, "rb") as file:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    raise MissingSecret(f"{path} is not a file", "name a file that holds the secret alone")
                content = file.read(FILE_MAX_BYTES + 1)
        except OSError as error:
            reason = f"the file {path} cannot be read: {error.strerror}"
            raise MissingSecret(reason, "write the secret into it, readable by you alone") from error
        if sys.platform != "win32" and status.st_mode & stat.S_IROTH:
            self.open_to_others.append(path)
        return _text(content, path)


def _text(content: bytes, path: Path) -> str:
    hint = "name a file that holds the secret alone"
    if len(content) > FILE_MAX_BYTES:
        raise MissingSecret(f"the file {path} is larger than {FILE_MAX_BYTES} bytes", hint)
    try:
        text = content.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise MissingSecret(f"the file {path} is not UTF-8 text", hint) from error
    if "\0" in text or not text:
        raise MissingSecret(f"the file {path} is empty" if not text else f"the file {path} is not text", hint)
    return text
