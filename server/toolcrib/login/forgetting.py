"""What files of ours have put into the system's keyring, taken out of it again.

Knows which files name something there; never knows why all of it is to go.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from toolcrib.config.paths import SECRETS, TOKENS
from toolcrib.login.keeping import kept_in_keyring
from toolcrib.login.keyring import Keyring
from toolcrib.login.secret_store import IN_KEYRING


def forget_in_keyring(files: Iterable[Path], keyring: Keyring) -> None:
    """Have the keyring forget what these files stand for. Blocks; asks no keyring where none of them names it.

    Raises:
        StoreError: the keyring is not there any more, or refuses.

    """
    for name in _names(files):
        keyring.delete(name)


def _names(files: Iterable[Path]) -> Iterator[str]:
    for file in files:
        if file.parent.name == SECRETS and file.suffix == IN_KEYRING:
            yield file.stem
        elif file.parent.name == TOKENS and (name := kept_in_keyring(file)):
            yield name
