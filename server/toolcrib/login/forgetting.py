"""Removes the keyring entries that toolcrib's files refer to.

Knows which files refer to the keyring; never knows why the entries are removed.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from toolcrib.config.paths import SECRETS, TOKENS
from toolcrib.login.keeping import kept_in_keyring
from toolcrib.login.keyring import Keyring
from toolcrib.login.secret_store import IN_KEYRING


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
        elif file.parent.name == TOKENS and (name := kept_in_keyring(file)):
            yield name
