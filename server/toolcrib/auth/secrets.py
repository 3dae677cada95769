"""Stores secrets for configs to refer to, in the keyring or in private files, and deletes them."""

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from os import close
from pathlib import Path

from toolcrib.auth.keyring import Keyring
from toolcrib.auth.store import LockedFile, name_in_keyring
from toolcrib.base.errors import BadRequest, StoreError
from toolcrib.config.paths import SECRETS, TOKENS
from toolcrib.config.variables import FILE_MAX_BYTES, SECRET_NAME

IN_KEYRING, _IN_FILE = ".keyring", ".secret"
"""The suffixes of the files: of an empty one that names a secret in the keyring, and of one that contains a secret."""


@dataclass(frozen=True, slots=True)
class GivenSecret:
    """The name of a secret, and the reference to it in a config."""

    name: str
    reference: str
    is_in_keyring: bool


class SecretStore:
    """The secrets of one person, in ``folder`` and the ``keyring``. All of it blocks.

    A keyring cannot list its contents, so each secret in it has an empty file that names it.
    """

    def __init__(self, folder: Path, keyring: Keyring, environ: Mapping[str, str]) -> None:
        self._folder, self._keyring, self._environ = folder, keyring, environ

    def save(self, name: str, text: str) -> GivenSecret:
        """Store a secret, replacing any of that name, and return its reference.

        Raises:
            BadRequest: the name, or the text of the secret, is invalid.
            StoreError: it cannot be stored.

        """
        if not SECRET_NAME.fullmatch(name):
            raise BadRequest(f"{name!r} is not a name for a secret: use letters, digits, - and _.")
        if not text or "\0" in text or len(text.encode()) > FILE_MAX_BYTES:
            raise BadRequest(f"A secret is text of at most {FILE_MAX_BYTES} bytes; nothing was stored.")
        is_in_keyring = self._keyring.is_usable()
        ending, other = (IN_KEYRING, _IN_FILE) if is_in_keyring else (_IN_FILE, IN_KEYRING)
        with _alone(self._file(name, ending)) as file:
            # The keyring first: a file that names a secret which is not there would be an error at the next start.
            if is_in_keyring:
                self._keyring.set(name, text)
            file.write(b"" if is_in_keyring else text.encode())
            self._file(name, other).remove()
        return self._given(name, ending)

    def names(self) -> list[GivenSecret]:
        """Return the stored secrets, by name."""
        files = (path for ending in (IN_KEYRING, _IN_FILE) for path in self._folder.glob(f"*{ending}"))
        return sorted((self._given(path.stem, path.suffix) for path in files), key=lambda each: each.name)

    def remove(self, name: str) -> bool:
        """Delete a secret, and return whether there was one.

        Raises:
            StoreError: it cannot be deleted.

        """
        found = [each for each in self.names() if each.name == name]
        for each in found:
            with _alone(self._file(name, IN_KEYRING if each.is_in_keyring else _IN_FILE)) as file:
                if each.is_in_keyring:
                    self._keyring.delete(name)
                file.remove()
        return bool(found)

    def _file(self, name: str, ending: str) -> LockedFile:
        return LockedFile(self._folder / f"{name}{ending}")

    def _given(self, name: str, ending: str) -> GivenSecret:
        if ending == IN_KEYRING:
            return GivenSecret(name, f"${{keyring:{name}}}", is_in_keyring=True)
        path, home = str(self._folder / f"{name}{ending}"), self._environ.get("HOME")
        if home and path.startswith(f"{home}/"):
            path = f"~{path[len(home) :]}"
        return GivenSecret(name, f"${{file:{path}}}", is_in_keyring=False)


@contextmanager
def _alone(file: LockedFile) -> Generator[LockedFile]:
    try:
        lock = file.lock()
        if lock is None:
            raise StoreError(f"another toolcrib is changing {file.path}; run this again")
        try:
            yield file
        finally:
            close(lock)
    except OSError as error:
        raise StoreError(f"{file.path} cannot be changed: {error.strerror or error}") from error


def forget_in_keyring(files: Iterable[Path], keyring: Keyring) -> None:
    """Delete these files' secrets from the keyring. Blocks; uses no keyring if none of the files refers to it.

    Raises:
        StoreError: the keyring is unavailable, or fails.

    """
    for name in _names(files):
        keyring.delete(name)


def _names(files: Iterable[Path]) -> Iterator[str]:
    for file in files:
        if file.parent.name == SECRETS and file.suffix == IN_KEYRING:
            yield file.stem
        elif file.parent.name == TOKENS and (name := name_in_keyring(file)):
            yield name
