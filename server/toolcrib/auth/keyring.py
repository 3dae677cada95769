"""The only module that uses the system's keyring, through the optional library ``keyring`` (``toolcrib[keyring]``).

Without the library nothing is imported, and nothing is stored.
"""

import threading
from collections.abc import Callable
from functools import cached_property
from typing import Any, Protocol, cast

from toolcrib.base.errors import StoreError

SERVICE = "toolcrib"
"""The service name of all our secrets."""

_WAIT_S = 30.0
"""How long the system may take, in seconds; it may be asking a person to unlock the keyring."""
_PRIORITY_MIN = 1
"""The minimum priority of the library's own secure backends: those that store nothing, or plain text, have less."""


class Keyring(Protocol):
    """Secrets by name, outside of our files. Each call may block, and raises StoreError on failure."""

    def is_usable(self) -> bool:
        """Return whether there is a keyring here."""
        ...

    def get(self, name: str) -> str | None:
        """Return the secret of that name; None if there is none."""
        ...

    def set(self, name: str, text: str) -> None:
        """Store a secret, replacing any of that name."""
        ...

    def delete(self, name: str) -> bool:
        """Delete a secret, and return whether there was one."""
        ...


class NoKeyring:
    """Stores nothing: for using files only."""

    def is_usable(self) -> bool:
        """Return False."""
        return False

    def get(self, name: str) -> str | None:
        """Return None, for any ``name``."""
        del name

    def set(self, name: str, text: str) -> None:
        """Refuse to store anything."""
        del name, text
        raise StoreError("there is no keyring here")

    def delete(self, name: str) -> bool:
        """Return False, for any ``name``."""
        del name
        return False


class SystemKeyring:
    """The system's keyring of this person. It is looked up on first use."""

    def is_usable(self) -> bool:
        """Return whether the library is installed and has found a secure keyring."""
        return self._backend is not None

    def get(self, name: str) -> str | None:
        """Return the secret of that name; None if there is none."""
        backend = self._there()
        return cast("str | None", _within(lambda: backend.get_password(SERVICE, name)))

    def set(self, name: str, text: str) -> None:
        """Store a secret, replacing any of that name."""
        backend = self._there()
        _within(lambda: backend.set_password(SERVICE, name, text))

    def delete(self, name: str) -> bool:
        """Delete a secret, and return whether there was one."""
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
        """The library's backend for this system; None if it is not installed or has no secure one."""
        try:
            import keyring  # noqa: PLC0415 - optional
        except ImportError:
            return None
        return _within(lambda: _backend_of(keyring))


def _backend_of(library: Any) -> Any:
    backend = library.get_keyring()
    return backend if backend.priority >= _PRIORITY_MIN else None


def _within(work: Callable[[], Any]) -> Any:
    """Return the result of ``work``, run in a thread that is abandoned if it takes too long.

    Raises:
        StoreError: it took too long or failed; without the library's own words, which could hold a secret.

    """
    results: list[Any] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except Exception as error:  # barrier: libraries of a system raise anything
            failures.append(error)

    # A daemon: a keyring that waits for a person must not keep the process from ending.
    thread = threading.Thread(target=run, name="keyring", daemon=True)
    thread.start()
    thread.join(_WAIT_S)
    if failures:
        raise StoreError(f"the system's keyring refuses ({type(failures[0]).__name__})") from None
    if not results:
        raise StoreError(f"the system's keyring has not answered within {_WAIT_S:g} s; it may have to be unlocked")
    return results[0]
