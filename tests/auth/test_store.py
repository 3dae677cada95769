"""What is kept of logins: private, whole, shared by processes, and renewed by one at a time."""

import json
import logging
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from fakes.keyring import MemoryKeyring
from toolcrib.auth.keyring import NoKeyring
from toolcrib.auth.records import Record
from toolcrib.auth.store import LoginEntry, TokenStore
from toolcrib.base.errors import StoreError
from toolcrib.jsonrpc.sdk_oauth import OAuthClientInformationFull, OAuthToken
from waiting import DEADLINE_S, passing, settled

pytestmark = pytest.mark.anyio

URL = "https://user:pass-canary@host.example/mcp?key=query-canary"
TOKENS = OAuthToken(access_token="access-canary", refresh_token="refresh-canary", expires_in=3600, scope="a b")
CLIENT = OAuthClientInformationFull(
    client_id="client", client_secret="secret-canary", issuer="https://issuer.example", redirect_uris=None
)
CANARIES = ("access-canary", "refresh-canary", "secret-canary", "pass-canary", "query-canary")


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state" / "tokens"


async def _records(store: TokenStore) -> list[Record]:
    return await anyio.to_thread.run_sync(lambda: [*store.records()])


def _store(folder: Path, clock: Clock | None = None, keyring: MemoryKeyring | None = None) -> TokenStore:
    return TokenStore(folder, keyring or NoKeyring(), clock=clock or Clock())


def _entry(folder: Path, clock: Clock | None = None, keyring: MemoryKeyring | None = None) -> LoginEntry:
    return _store(folder, clock, keyring).entry(URL, "wiki")


def _file(folder: Path) -> Path:
    (file,) = folder.glob("*.json")
    return file


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("[!.]*")}


def _modes(*paths: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in paths}


async def test_nothing_is_kept_and_nothing_made_before_a_login(folder: Path):
    entry = _entry(folder)
    assert await entry.get_tokens() is None
    assert await entry.get_client_info() is None
    assert not await entry.has_changed()
    assert _files(folder) == {}
    assert _files(folder.parent) == {}


async def test_what_is_set_is_read_by_another_process_and_after_a_restart(folder: Path, clock: Clock):
    entry = _entry(folder, clock)
    await entry.set_client_info(CLIENT)
    await entry.set_tokens(TOKENS)
    await entry.note(account="jane@host.example")
    login = await _entry(folder, clock).read()
    assert login.tokens == TOKENS
    assert login.client == CLIENT
    assert login.record.expires_at == clock.now + 3600
    assert (login.record.issuer, login.record.account, login.record.scope) == (
        "https://issuer.example",
        "jane@host.example",
        "a b",
    )


async def test_files_and_folders_are_for_their_owner_only(folder: Path):
    await _entry(folder).set_tokens(TOKENS)
    assert _modes(folder, folder.parent) == {0o700}
    assert _modes(*(folder / name for name in _files(folder))) == {0o600}


async def test_a_folder_and_a_file_that_others_could_read_are_closed_to_them(folder: Path):
    await _entry(folder).set_tokens(TOKENS)
    file = _file(folder)
    os.chmod(folder, 0o755)  # noqa: PTH101 - nobody waits for this loop
    os.chmod(file, 0o644)  # noqa: PTH101
    assert await _entry(folder).get_tokens() is not None
    await _entry(folder).note(account="jane")
    assert (_modes(folder), _modes(file)) == ({0o700}, {0o600})


async def test_the_time_that_is_left_is_by_the_wall_clock(folder: Path, clock: Clock):
    await _entry(folder, clock).set_tokens(TOKENS)
    clock.now += 3000
    tokens = await _entry(folder, clock).get_tokens()
    assert tokens
    assert tokens.expires_in == 600
    clock.now += 3000
    tokens = await _entry(folder, clock).get_tokens()
    assert tokens
    assert tokens.expires_in == 0


@pytest.mark.parametrize("lasts", [-5, 10**30])
async def test_a_time_that_cannot_be_is_bounded(folder: Path, clock: Clock, lasts: int):
    entry = _entry(folder, clock)
    await entry.set_tokens(TOKENS.model_copy(update={"expires_in": lasts}))
    expires_at = (await entry.read()).record.expires_at
    assert expires_at is not None
    assert clock.now <= expires_at <= clock.now + 10 * 366 * 86_400


async def test_another_url_or_another_entry_is_another_login(folder: Path):
    store = _store(folder)
    await store.entry(URL, "wiki").set_tokens(TOKENS)
    assert await store.entry(URL, "wiki-2").get_tokens() is None
    assert await store.entry("https://host.example/other", "wiki").get_tokens() is None
    assert [record.entry for record in await _records(store)] == ["wiki"]


async def test_tokens_of_another_client_or_issuer_go_with_it(folder: Path):
    entry = _entry(folder)
    await entry.set_client_info(CLIENT)
    await entry.set_tokens(TOKENS)
    await entry.set_client_info(CLIENT)
    assert await entry.get_tokens() is not None
    await entry.set_client_info(CLIENT.model_copy(update={"issuer": "https://other.example"}))
    assert await entry.get_tokens() is None
    login = await entry.read()
    assert login.client
    assert login.client.issuer == login.record.issuer == "https://other.example"


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]", b'{"version": 2}', b"[" * 100_000, b"x" * 300_000])
async def test_a_damaged_file_is_told_once_counts_as_none_and_is_replaced(
    folder: Path, caplog: pytest.LogCaptureFixture, content: bytes
):
    await _entry(folder).set_tokens(TOKENS)
    _file(folder).write_bytes(content)
    entry = _entry(folder)
    with caplog.at_level(logging.WARNING):
        assert await entry.get_tokens() is None
        assert str(_file(folder)) in (await entry.read()).record.problem
    assert len(caplog.records) == 1
    await entry.set_tokens(TOKENS)
    assert await _entry(folder).get_tokens() is not None
    assert not (await entry.read()).record.problem


@pytest.mark.parametrize(
    "change",
    [
        {"tokens": {"refresh_token": "no access token"}},
        {"tokens": [1]},
        {"expires_at": "soon"},
        {"expires_at": float("nan")},
        {"entry": "other"},
        {"has_tokens": 1},
    ],
)
async def test_a_file_of_another_shape_is_damaged(folder: Path, change: dict[str, object]):
    await _entry(folder).set_tokens(TOKENS)
    content = json.loads(_file(folder).read_text())
    _file(folder).write_text(json.dumps({**content, **change}))
    login = await _entry(folder).read()
    assert login.tokens is None
    assert login.record.problem


@pytest.mark.skipif(sys.platform == "win32", reason="no links there without rights")
async def test_a_link_in_the_place_of_the_file_is_not_followed(folder: Path, tmp_path: Path):
    await _entry(folder).set_tokens(TOKENS)
    elsewhere = tmp_path / "elsewhere"
    _file(folder).rename(elsewhere)
    folder.joinpath(_name(folder)).symlink_to(elsewhere)
    login = await _entry(folder).read()
    assert login.tokens is None
    assert "cannot be read" in login.record.problem


def _name(folder: Path) -> str:
    (lock,) = folder.glob("*.lock")
    return lock.with_suffix(".json").name


async def test_what_another_process_writes_is_noticed_and_its_own_writing_is_not(folder: Path):
    running, terminal = _entry(folder), _entry(folder)
    assert await running.get_tokens() is None
    await terminal.set_tokens(TOKENS)
    assert await running.has_changed()
    assert not await terminal.has_changed()
    assert await running.get_tokens() is not None
    assert not await running.has_changed()
    await terminal.forget()
    assert await running.has_changed()


async def test_forgetting_leaves_nothing_of_a_login(folder: Path):
    entry = _entry(folder)
    assert not await entry.forget()
    await entry.set_client_info(CLIENT)
    await entry.set_tokens(TOKENS)
    assert entry.secrets
    assert await entry.forget()
    assert entry.secrets == ()
    kept = b"".join(_files(folder).values())
    assert not any(canary.encode() in kept for canary in CANARIES)


async def test_tokens_can_be_forgotten_and_the_registration_kept(folder: Path):
    entry = _entry(folder)
    await entry.set_client_info(CLIENT)
    await entry.set_tokens(TOKENS)
    await entry.forget_tokens()
    login = await entry.read()
    assert login.tokens is None
    assert login.client == CLIENT
    assert not login.record.has_tokens


async def test_nothing_secret_is_shown(folder: Path, caplog: pytest.LogCaptureFixture):
    entry = _entry(folder)
    with caplog.at_level(logging.DEBUG):
        await entry.set_client_info(CLIENT)
        await entry.set_tokens(TOKENS)
        login = await entry.read()
    told = f"{entry!r} {login!r} {login.record!r} {await _records(_store(folder))!r} {caplog.text}"
    assert not any(canary in told for canary in CANARIES)
    assert set(entry.secrets) == {"access-canary", "refresh-canary", "secret-canary"}


async def test_the_file_holds_no_part_of_the_url_that_may_be_secret(folder: Path):
    await _entry(folder).set_tokens(TOKENS)
    kept = _file(folder).read_text() + _file(folder).name
    assert "pass-canary" not in kept
    assert "query-canary" not in kept


# -- one at a time ---------------------------------------------------------------------------------


async def test_two_renewals_take_turns_and_the_second_sees_what_the_first_received(folder: Path):
    one, other = _entry(folder), _entry(folder)
    await one.set_tokens(TOKENS)
    seen: list[str] = []

    async def renew(entry: LoginEntry, name: str) -> None:
        async with entry.refreshing() as login:
            assert login.tokens
            seen.append(login.tokens.access_token)
            await settled()  # so that the other one waits for its turn
            await entry.set_tokens(TOKENS.model_copy(update={"access_token": name}))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(renew, one, "first")
        tasks.start_soon(renew, other, "second")
    assert min(seen) == "access-canary"
    assert len(set(seen)) == 2
    assert not [name for name in _files(folder) if name.endswith(".new")]


async def test_waiting_for_another_renewal_is_bounded_and_says_so(folder: Path):
    async with _entry(folder).refreshing(), passing(DEADLINE_S):
        with pytest.raises(StoreError, match=r"another toolcrib has been refreshing the login to wiki for 6 s"):
            async with _entry(folder).refreshing(DEADLINE_S):
                pass
    async with _entry(folder).refreshing(DEADLINE_S) as login:
        assert login.tokens is None


async def test_a_login_that_is_given_up_while_it_is_received_is_kept_all_the_same(folder: Path):
    entry = _entry(folder)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await entry.set_tokens(TOKENS)
    assert await _entry(folder).get_tokens() is not None


async def test_a_renewal_that_fails_lets_go_of_the_lock(folder: Path):
    with pytest.raises(ValueError, match="provider"):
        async with _entry(folder).refreshing():
            raise ValueError("provider")
    async with _entry(folder).refreshing(DEADLINE_S):
        pass


async def test_a_full_disk_is_known_of_before_anything_is_asked_for(folder: Path, monkeypatch: pytest.MonkeyPatch):
    entry = _entry(folder)
    await entry.set_tokens(TOKENS)

    def no_room(_descriptor: int, _data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", no_room)
    asked = False
    with pytest.raises(StoreError, match="No space left"):
        async with entry.refreshing():
            asked = True
    monkeypatch.undo()
    assert not asked
    assert await _entry(folder).get_tokens() is not None
    async with entry.refreshing(1):
        pass


HOLD = """
import sys, anyio
from pathlib import Path
from toolcrib.auth.keyring import NoKeyring
from toolcrib.auth.store import TokenStore
async def main():
    entry = TokenStore(Path(sys.argv[1]), NoKeyring()).entry(sys.argv[2], "wiki")
    async with entry.refreshing():
        print("held", flush=True)
        await anyio.to_thread.run_sync(sys.stdin.read)
anyio.run(main)
"""


@pytest.mark.slow
async def test_a_process_that_is_killed_lets_go_of_the_lock(folder: Path):
    def held() -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(folder), URL], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdout
        assert process.stdout.readline().strip() == b"held"
        return process

    process = await anyio.to_thread.run_sync(held)
    try:
        with pytest.raises(StoreError, match="another toolcrib"):
            async with _entry(folder).refreshing(0.05):
                pass
        process.send_signal(signal.SIGKILL)
        async with _entry(folder).refreshing(30):
            pass
    finally:
        process.kill()
        process.communicate()


# -- in the keyring --------------------------------------------------------------------------------


async def test_with_a_keyring_the_file_holds_no_secret(folder: Path, clock: Clock):
    keyring = MemoryKeyring()
    entry = _entry(folder, clock, keyring)
    await entry.set_client_info(CLIENT)
    await entry.set_tokens(TOKENS)
    assert not any(canary in _file(folder).read_text() for canary in CANARIES)
    login = await _entry(folder, clock, keyring).read()
    assert (login.tokens, login.client) == (TOKENS, CLIENT)
    assert login.record.is_in_keyring
    assert await entry.forget()
    assert keyring.secrets == {}


async def test_a_login_in_a_file_moves_into_the_keyring_at_the_next_change(folder: Path):
    await _entry(folder).set_tokens(TOKENS)
    entry = _entry(folder, keyring=MemoryKeyring())
    assert await entry.get_tokens() is not None
    await entry.note(account="jane")
    assert "access-canary" not in _file(folder).read_text()
    assert await entry.get_tokens() is not None


async def test_without_the_keyring_that_has_it_a_login_counts_as_none(folder: Path):
    keyring = MemoryKeyring()
    await _entry(folder, keyring=keyring).set_tokens(TOKENS)
    login = await _entry(folder).read()
    assert login.tokens is None
    assert "in the system's keyring" in login.record.problem
    keyring.is_locked = True
    login = await _entry(folder, keyring=keyring).read()
    assert login.tokens is None
    assert "refuses" in login.record.problem


async def test_a_keyring_that_refuses_loses_nothing(folder: Path, caplog: pytest.LogCaptureFixture):
    keyring = MemoryKeyring()
    keyring.is_locked = True
    await _entry(folder, keyring=keyring).set_tokens(TOKENS)
    assert "private file" in caplog.text
    assert (await _entry(folder, keyring=keyring).read()).tokens is not None


async def test_a_keyring_that_does_not_open_loses_nothing(folder: Path, caplog: pytest.LogCaptureFixture):
    keyring = MemoryKeyring()
    await _entry(folder, keyring=keyring).set_tokens(TOKENS)
    keyring.opens = False
    login = await _entry(folder, keyring=keyring).read()
    assert login.tokens is None
    assert "refuses" in login.record.problem
    await _entry(folder, keyring=keyring).set_tokens(TOKENS)
    assert "private file" in caplog.text
    assert (await _entry(folder, keyring=keyring).read()).tokens == TOKENS


async def test_the_keyring_is_newer_than_the_file_after_a_crash_between_the_two(folder: Path, clock: Clock):
    keyring = MemoryKeyring()
    entry = _entry(folder, clock, keyring)
    await entry.set_tokens(TOKENS)
    before = _file(folder).read_bytes()
    await entry.set_tokens(TOKENS.model_copy(update={"access_token": "newer", "expires_in": 7200}))
    _file(folder).write_bytes(before)
    login = await _entry(folder, clock, keyring).read()
    assert login.tokens
    assert login.tokens.access_token == "newer"
    assert login.record.expires_at == clock.now + 7200
