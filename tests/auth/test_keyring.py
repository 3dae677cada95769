"""The door to the system's keyring: optional, bounded, and silent about what it keeps."""

import subprocess
import sys
import threading
from types import ModuleType

import pytest

from toolcrib.auth import keyring as door
from toolcrib.auth.keyring import NoKeyring, SystemKeyring
from toolcrib.base.errors import StoreError


class Backend:
    """What the library gives for a system."""

    def __init__(self, priority: float = 5) -> None:
        self.priority = priority
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, name: str) -> str | None:
        return self.kept.get((service, name))

    def set_password(self, service: str, name: str, text: str) -> None:
        self.kept[service, name] = text

    def delete_password(self, service: str, name: str) -> None:
        del self.kept[service, name]


class Refusing(Backend):
    def get_password(self, service: str, name: str) -> str | None:
        raise RuntimeError("the secret is canary")


def _with(monkeypatch: pytest.MonkeyPatch, backend: Backend) -> SystemKeyring:
    library = ModuleType("keyring")
    library.get_keyring = lambda: backend  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keyring", library)
    return SystemKeyring()


def test_secrets_are_kept_under_our_name_and_forgotten(monkeypatch: pytest.MonkeyPatch):
    backend = Backend()
    keyring = _with(monkeypatch, backend)
    assert keyring.is_usable()
    assert keyring.get("a") is None
    keyring.set("a", "one")
    keyring.set("a", "two")
    assert backend.kept == {("toolcrib", "a"): "two"}
    assert keyring.get("a") == "two"
    assert keyring.delete("a")
    assert not keyring.delete("a")


def test_without_the_library_there_is_no_keyring(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "keyring", None)
    keyring = SystemKeyring()
    assert not keyring.is_usable()
    for ask in (lambda: keyring.get("a"), lambda: keyring.set("a", "one"), lambda: keyring.delete("a")):
        with pytest.raises(StoreError, match=r"install toolcrib\[keyring\]"):
            ask()


@pytest.mark.parametrize("priority", [0, 0.5, -1])
def test_a_keyring_that_protects_nothing_is_none(monkeypatch: pytest.MonkeyPatch, priority: float):
    assert not _with(monkeypatch, Backend(priority)).is_usable()


def test_a_keyring_that_cannot_say_what_it_protects_refuses(monkeypatch: pytest.MonkeyPatch):
    class Broken(Backend):
        @property
        def priority(self) -> float:
            raise RuntimeError("no session, canary")

        @priority.setter
        def priority(self, _value: float) -> None:
            """Take what others have."""

    with pytest.raises(StoreError, match=r"refuses \(RuntimeError\)") as failure:
        _with(monkeypatch, Broken()).is_usable()
    assert "canary" not in str(failure.value)


def test_what_the_library_says_of_a_failure_is_not_told(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(StoreError, match=r"refuses \(RuntimeError\)") as failure:
        _with(monkeypatch, Refusing()).get("a")
    assert "canary" not in str(failure.value) + failure.value.detail
    assert failure.value.__cause__ is None


def test_a_keyring_that_waits_for_somebody_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch):
    unlocked = threading.Event()

    class Locked(Backend):
        def get_password(self, service: str, name: str) -> str | None:
            unlocked.wait()
            return None

    monkeypatch.setattr(door, "_WAIT_S", 0.05)
    with pytest.raises(StoreError, match="may have to be unlocked"):
        _with(monkeypatch, Locked()).get("a")
    unlocked.set()


def test_the_library_is_looked_for_when_it_is_needed_and_not_before():
    code = (
        "import sys; from toolcrib.auth.keyring import SystemKeyring; SystemKeyring(); print('keyring' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "False"


def test_whoever_is_to_use_files_only_has_no_keyring():
    keyring = NoKeyring()
    assert not keyring.is_usable()
    assert keyring.get("a") is None
    assert not keyring.delete("a")
    with pytest.raises(StoreError):
        keyring.set("a", "one")
