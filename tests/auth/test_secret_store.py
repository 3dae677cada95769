"""Secrets that a person gave: in the keyring, else in private files, and told by name only."""

import stat
from pathlib import Path

import pytest

from fakes.keyring import MemoryKeyring
from toolcrib.auth.secrets import SecretStore, forget_in_keyring
from toolcrib.base.errors import BadRequest, StoreError


@pytest.fixture
def keyring() -> MemoryKeyring:
    return MemoryKeyring()


@pytest.fixture
def store(tmp_path: Path, keyring: MemoryKeyring) -> SecretStore:
    return SecretStore(tmp_path / "data" / "secrets", keyring, {"HOME": str(tmp_path)})


def test_with_a_keyring_no_file_holds_the_secret(store: SecretStore, keyring: MemoryKeyring, tmp_path: Path):
    assert store.save("wiki", "canary").reference == "${keyring:wiki}"
    assert keyring.secrets == {"wiki": "canary"}
    assert not any(b"canary" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert [each.reference for each in store.names()] == ["${keyring:wiki}"]


def test_without_one_it_lies_in_a_private_file(store: SecretStore, keyring: MemoryKeyring, tmp_path: Path):
    keyring.is_there = False
    assert store.save("wiki", "canary").reference == "${file:~/data/secrets/wiki.secret}"
    file = tmp_path / "data" / "secrets" / "wiki.secret"
    assert file.read_text() == "canary"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_a_secret_is_in_one_place(store: SecretStore, keyring: MemoryKeyring):
    keyring.is_there = False
    store.save("wiki", "one")
    keyring.is_there = True
    store.save("wiki", "two")
    assert [each.is_in_keyring for each in store.names()] == [True]


def test_what_is_removed_is_nowhere(store: SecretStore, keyring: MemoryKeyring, tmp_path: Path):
    store.save("wiki", "canary")
    keyring.is_there = False
    store.save("other", "canary")
    keyring.is_there = True
    assert store.remove("wiki")
    assert store.remove("other")
    assert not store.remove("wiki")
    assert keyring.secrets == {}
    assert not any(b"canary" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", ["", "a/b", "../x", "login/x", "a.b", "1", "a" * 101])
def test_a_name_that_could_be_another_thing_is_refused(store: SecretStore, name: str):
    with pytest.raises(BadRequest, match="is not a name for a secret"):
        store.save(name, "text")


@pytest.mark.parametrize("text", ["", "a\0b", "x" * 70_000])
def test_a_text_that_is_no_secret_is_refused(store: SecretStore, text: str):
    with pytest.raises(BadRequest, match="nothing was stored"):
        store.save("a", text)


def test_a_keyring_that_refuses_keeps_what_was(store: SecretStore, keyring: MemoryKeyring):
    store.save("wiki", "one")
    keyring.is_locked = True
    with pytest.raises(StoreError, match="refuses"):
        store.save("wiki", "two")
    with pytest.raises(StoreError, match="refuses"):
        store.remove("wiki")
    assert [each.name for each in store.names()] == ["wiki"]


def test_what_files_stand_for_goes_from_the_keyring_with_them(
    store: SecretStore, keyring: MemoryKeyring, tmp_path: Path
):
    store.save("wiki", "canary")
    keyring.secrets["of-somebody-else"] = "stays"
    forget_in_keyring([path for path in tmp_path.rglob("*") if path.is_file()], keyring)
    assert keyring.secrets == {"of-somebody-else": "stays"}
