"""A keyring in memory, that can be told to refuse."""

from toolcrib.base.errors import StoreError


class MemoryKeyring:
    def __init__(self) -> None:
        self.secrets: dict[str, str] = {}
        self.is_locked = False
        self.is_there = True
        self.opens = True

    def is_usable(self) -> bool:
        if not self.opens:
            raise StoreError("the system's keyring refuses (RuntimeError)")
        return self.is_there

    def get(self, name: str) -> str | None:
        self._check()
        return self.secrets.get(name)

    def set(self, name: str, text: str) -> None:
        self._check()
        self.secrets[name] = text

    def delete(self, name: str) -> bool:
        self._check()
        return self.secrets.pop(name, None) is not None

    def _check(self) -> None:
        if self.is_locked:
            raise StoreError("the system's keyring refuses (KeyringLocked)")
