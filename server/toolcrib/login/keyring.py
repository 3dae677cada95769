"""The one door to the system's keyring, which the optional library ``keyring`` opens (``toolcrib[keyring]``).

Knows names and texts; never knows what a text is for. Without the library nothing is imported, and nothing is kept.
"""

import threading
from collections.abc import Callable
from functools import cached_property
from typing import Any, Protocol, cast

from toolcrib.errors import StoreError

SERVICE = "toolcrib"
"""What all our secrets are kept under."""

_WAIT_S = 30.0
"""How long the system may take; it may be asking a person to unlock the keyring."""
_PRIORITY_MIN = 1
"""What the library's own backends have that keep secrets: less have those that keep none, or in the clear."""


class Keyring(Protocol):
    """Secrets by name, outside of our files. Each call may block, and raises StoreError where it cannot be done."""

    def is_usable(self) -> bool:
        """Return whether there is a keyring here."""
        ...

    def get(self, name: str) -> str | None:
        """Return the secret of that name; None where there is none."""
        ...

    def set(self, name: str, text: str) -> None:
        """Keep a secret, in the place of another of that name."""
        ...

    def delete(self, name: str) -> bool:
        """Forget a secret, and return whether there was one."""
        ...


class NoKeyring:
    """Keeps nothing: for whoever is to use files only."""

    def is_usable(self) -> bool:
        """Return False."""
        return False

    def get(self, name: str) -> str | None:
        """Return None, for any ``name``."""
        del name

    def set(self, name: str, text: str) -> None:
        """Refuse to keep anything."""
        del name, text
        raise StoreError("there is no keyring here")

    def delete(self, name: str) -> bool:
        """Return False, for any ``name``."""
        del name
        return False


class SystemKeyring:
    """The keyring of this person's system. It is looked for when it is first asked for something."""

    def is_usable(self) -> bool:
        """Return whether the library is installed and has found a keyring that protects what it keeps."""
        return self._backend is not None

    def get(self, name: str) -> str | None:
        """Return the secret of that name; None where there is none."""
        backend = self._there()
        return cast("str | None", _within(lambda: backend.get_password(SERVICE, name)))

    def set(self, name: str, text: str) -> None:
        """Keep a secret, in the place of another of that name."""
        backend = self._there()
        _within(lambda: backend.set_password(SERVICE, name, text))

    def delete(self, name: str) -> bool:
        """Forget a secret, and return whether there was one."""
        if self.get(name) is None:
            return False
        _within(lambda: self._backend.delete_password(SERVICE, name))
        return True

    def _there(self) -> Any:
        if self._backend is None:
            raise StoreError("there is no keyring here (install toolcrib[keyring], on a system that has one)")
        return self._backend

    @cached_property
    def _backend(self) -> Any:
        """The library's backend for this system; None where it is not installed or has none that is safe."""
        try:
            import keyring  # noqa: PLC0415 - optional
        except ImportError:
            return None
        return _within(lambda: _backend_of(keyring))


def _backend_of(library: Any) -> Any:
    backend = library.get_keyring()
    return backend if backend.priority >= _PRIORITY_MIN else None


def _within(work: Callable[[], Any]) -> Any:
    """Return what ``work`` gives, in a thread that is left alone where it takes too long.

    Raises:
        StoreError: it took too long or failed; without the library's own words, which could hold a secret.

    """
    results: list[Any] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except Exception as error:  # barrier: libraries of a system raise what they like
            failures.append(error)

    thread = threading.Thread(target=run, name="keyring", daemon=True)
    thread.start()
    thread.join(_WAIT_S)
    if failures:
        raise StoreError(f"the system's keyring refuses ({type(failures[0]).__name__})") from None
    if not results:
        raise StoreError(f"the system's keyring has not answered within {_WAIT_S:g} s; it may have to be unlocked")
    return results[0]
