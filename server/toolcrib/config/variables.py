"""Variables in the strings of a config: ``${VAR}``, ``${VAR:-default}``, ``${file:PATH}``, ``${keyring:NAME}``.

``${VAR}`` is a variable of the environment, else one of the config's own file of variables.
"""

import os
import re
import stat
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from toolcrib.base.errors import Problem, StoreError
from toolcrib.config.findings import join
from toolcrib.config.paths import absolute

FILE_MAX_BYTES = 64 * 1024
"""Most that a file may hold whose content takes the place of a reference."""

SECRET_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")
"""What a secret may be called."""

_NO_WAIT = getattr(os, "O_NONBLOCK", 0)

Keyring = Callable[[str], str | None]
"""Gives the secret of a name in the system's keyring, None if there is none; raises StoreError if it fails."""


class MissingSecret(Exception):
    """There is no such secret, or it cannot be had: ``reason`` says why, ``hint`` what to do."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.reason, self.hint = reason, hint


def no_keyring(_name: str) -> str | None:
    """Refuse: no keyring was given."""
    raise StoreError("there is no keyring here")


@dataclass(frozen=True, slots=True)
class EnvFile:
    """A file of variables that a config names, and what it holds; empty where it cannot be read."""

    path: Path
    variables: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


class References:
    """What references of one config stand for. Each file and each name is asked for once.

    Relative paths start from ``base``. ``env_file`` is the config's file of variables, if it names one.
    ``open_to_others`` are the files that other people of this machine can read.
    """

    def __init__(self, environ: Mapping[str, str], base: Path, keyring: Keyring = no_keyring) -> None:
        self.env_file: EnvFile | None = None
        self.open_to_others: list[Path] = []
        self._environ, self._base, self._keyring = environ, base, keyring
        self._known: dict[tuple[str, str], str | MissingSecret] = {}

    def read_env_file(self, name: str) -> None:
        """Take in a file of variables. Blocks.

        Raises:
            MissingSecret: it cannot be read; it is remembered as empty.

        """
        from toolcrib.config.env_file import ENV_FILE_MAX_BYTES, parse_variables  # noqa: PLC0415 - most configs have none

        path = absolute(name, self._base, self._environ)
        self.env_file = EnvFile(path)
        content = self._content(path, ENV_FILE_MAX_BYTES, "create it, or remove the key")
        self.env_file = EnvFile(path, parse_variables(_decoded(content, path, ENV_FILE_MAX_BYTES)))

    def variable(self, name: str) -> str | None:
        """Return what the config's file of variables says; None where it says nothing."""
        return None if self.env_file is None else self.env_file.variables.get(name)

    def value(self, kind: str, name: str) -> str:
        """Return what ``${kind:name}`` stands for; ``kind`` is ``file`` or ``keyring``. Blocks.

        Raises:
            MissingSecret: it stands for nothing.

        """
        key = kind, name
        # Failures are remembered too: a locked keyring asks the person once.
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
        content = self._content(path, FILE_MAX_BYTES, "write the secret into it, readable by you alone")
        secret = _decoded(content, path, FILE_MAX_BYTES).rstrip("\r\n")
        if not secret:
            raise MissingSecret(f"the file {path} is empty", _ALONE)
        return secret

    def _content(self, path: Path, most: int, hint: str) -> bytes:
        """Return the content of a file, cut off one byte behind ``most``."""
        try:
            # Without waiting: opening a named pipe would block the start.
            descriptor = os.open(path, os.O_RDONLY | _NO_WAIT)
            with os.fdopen(descriptor, "rb") as file:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    raise MissingSecret(f"{path} is not a file", hint)
                content = file.read(most + 1)
        except OSError as error:
            raise MissingSecret(f"the file {path} cannot be read: {error.strerror}", hint) from error
        if sys.platform != "win32" and status.st_mode & stat.S_IROTH:
            self.open_to_others.append(path)
        return content


_ALONE = "name a file that holds the secret alone"


def _decoded(content: bytes, path: Path, most: int) -> str:
    if len(content) > most:
        raise MissingSecret(f"the file {path} is larger than {most} bytes", _ALONE)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MissingSecret(f"the file {path} is not UTF-8 text", _ALONE) from error
    if "\0" in text:
        raise MissingSecret(f"the file {path} is not text", _ALONE)
    return text


VARIABLE = re.compile(r"\$\{([^}]*)\}")
"""What looks like a variable, with what stands inside."""
DOLLAR = "${TOOLCRIB_DOLLAR:-$}"
"""How ``$`` is written where ``${`` would begin a variable of toolcrib's."""
_KNOWN = re.compile(r"(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>(?:(?!\$\{).)*))?", re.DOTALL)
_REFERENCE = re.compile(
    r"(?P<kind>file|keyring):(?P<name>(?:(?!:-|\$\{).)+)(?::-(?P<default>(?:(?!\$\{).)*))?", re.DOTALL
)
_FOREIGN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*:")
_NOT_IN_NAME = re.compile(r"\W+")


def variable_name(key: str) -> str:
    """Return a name for an environment variable, made of any key: ``github-token`` is ``GITHUB_TOKEN``."""
    name = _NOT_IN_NAME.sub("_", key).strip("_").upper()
    if not name.isascii() or not name:
        name = "".join(char if char.isascii() else "_" for char in name).strip("_") or "VALUE"
    return f"_{name}" if name[0].isdigit() else name


class Variables:
    """Fills in the variables of one part of a config file.

    ``missing`` holds a problem for each variable that is not set, ``values`` the values that were filled in, and
    ``secrets`` those among them that a reference stood for.
    A value is never looked at again: text that comes from a variable is not expanded. ``keep_missing``: a variable
    that is not set stays as it is written.
    """

    def __init__(
        self, environ: Mapping[str, str], references: References | None = None, *, keep_missing: bool = False
    ) -> None:
        self.missing: list[Problem] = []
        self.values: list[str] = []
        self.secrets: list[str] = []
        self._environ = environ
        self._references = references or References(environ, Path())
        self._keep_missing = keep_missing

    def fill(self, value: Any, path: str) -> Any:
        """Return a copy of ``value`` with the variables in all its strings filled in; ``path`` says where it stands."""
        if isinstance(value, str):
            return VARIABLE.sub(lambda match: self._value(match, path), value) if "${" in value else value
        if isinstance(value, Mapping):
            members = cast("Mapping[str, Any]", value)
            return {key: self.fill(member, join(path, key)) for key, member in members.items()}
        if isinstance(value, list):
            items = cast("list[Any]", value)
            return [self.fill(item, join(path, number)) for number, item in enumerate(items)]
        return value

    def _value(self, match: re.Match[str], path: str) -> str:
        if reference := _REFERENCE.fullmatch(match[1]):
            return self._referred(reference, path)
        # All in braces that is not ours stays, except what is plainly meant for another client.
        known = _KNOWN.fullmatch(match[1])
        if known is None:
            # Only what looks like another client's variable, such as ${input:token}, is a mistake; all else in braces
            # may be meant as it stands.
            if _FOREIGN.match(match[1]):
                hint = "write ${NAME}, ${NAME:-default}, ${file:PATH} or ${keyring:NAME}"
                self.missing.append(Problem(path, f"{match[0]} is not a variable that toolcrib knows", hint))
            return match[0]
        name, default = known["name"], known["default"]
        value = self._environ.get(name)
        if value is None and (value := self._references.variable(name)) is not None:
            self.secrets.append(value)
        # As in a shell, an empty value counts as none where there is a default.
        if default is not None and not value:
            return default
        if value is None:
            file = self._references.env_file
            where = "set it" if file is None else f"write {name}=… into {file.path}"
            self.missing.append(
                Problem(path, f"the variable {name} is not set", f"{where}, or write ${{{name}:-default}}")
            )
            return match[0] if self._keep_missing else ""
        self.values.append(value)
        return value

    def _referred(self, reference: re.Match[str], path: str) -> str:
        kind, name, default = reference["kind"], reference["name"], reference["default"]
        try:
            value = self._references.value(kind, name)
        except MissingSecret as missing:
            if default is not None:
                return default
            self.missing.append(Problem(path, missing.reason, missing.hint))
            return f"${{{reference[0]}}}" if self._keep_missing else ""
        self.secrets.append(value)
        self.values.append(value)
        return value
