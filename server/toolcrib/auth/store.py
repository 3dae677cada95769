"""Stores logins in private files or the keyring, for several processes at once; one refreshes one at a time, ADR 41."""

import hashlib
import json
import logging
import os
import re
import stat
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread
from pydantic import ValidationError

from toolcrib.auth.keyring import Keyring
from toolcrib.auth.records import Record, decoded, encoded
from toolcrib.base.errors import StoreError
from toolcrib.base.redaction import Learned
from toolcrib.config.settings import HttpTarget
from toolcrib.jsonrpc.sdk_oauth import OAuthClientInformationFull, OAuthToken
from toolcrib.storage.files import lock_file, private_directory

BYTES_MAX = 256 * 1024
"""Maximum size of one file: many times what any provider issues."""

_ROOM = 64 * 1024
"""Number of bytes reserved on the disk before a request that cannot be repeated."""
_NO_FOLLOW, _NO_WAIT = getattr(os, "O_NOFOLLOW", 0), getattr(os, "O_NONBLOCK", 0)

Stamp = tuple[int, int, int]
"""Identifies the content of a file: inode, time and size."""


class LockedFile:
    """A file with a lock and a draft of its next content beside it. All of it blocks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._draft, self._lock = path.with_suffix(".new"), path.with_suffix(".lock")

    def stamp(self) -> Stamp | None:
        """Return the stamp of the current content; None if there is no file."""
        try:
            status = self.path.lstat()
        except OSError:
            return None
        return _stamp(status)

    def read(self) -> tuple[bytes, Stamp] | None:
        """Return the content and its stamp; None if there is no file. A file readable by others is made private first.

        Raises:
            OSError: it cannot be read, is not a file of this person, or is too large.

        """
        try:
            # Without waiting: if another program put a pipe here, opening it would block.
            descriptor = os.open(self.path, os.O_RDONLY | _NO_FOLLOW | _NO_WAIT)
        except FileNotFoundError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or not _is_ours(status):
                raise OSError(None, "you do not own it")
            if sys.platform != "win32" and status.st_mode & 0o077:
                os.fchmod(descriptor, 0o600)
            data = file.read(BYTES_MAX + 1)
        if len(data) > BYTES_MAX:
            raise OSError(None, "it is too large")
        return data, _stamp(status)

    def write(self, data: bytes) -> Stamp:
        """Replace the content by ``data``. It is durable when this returns; until then the old content remains.

        The caller must hold the lock, because there is a single draft.

        Raises:
            OSError: it cannot be written.

        """
        if len(data) > BYTES_MAX:
            raise OSError(None, "it is too large to store")
        descriptor = self._open_draft()
        try:
            _write_all(descriptor, data)
            os.ftruncate(descriptor, len(data))  # after writing, so that the reserved blocks are used
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._draft.replace(self.path)
        _sync_folder(self.path.parent)  # the renaming is durable only when the folder is
        stamp = self.stamp()
        assert stamp is not None
        return stamp

    def reserve_space(self) -> None:
        """Reserve disk space for the next content, so that a full disk is detected in time.

        Raises:
            OSError: there is no room, or nothing can be written here.

        """
        descriptor = self._open_draft()
        try:
            _write_all(descriptor, bytes(_ROOM))
            os.fsync(descriptor)  # until then, a file system may promise the same block twice
        finally:
            os.close(descriptor)

    def remove(self) -> bool:
        """Delete the file, and return whether there was one. The lock stays: another process may wait for it.

        Raises:
            OSError: it cannot be deleted.

        """
        was_there = self.stamp() is not None
        for path in (self._draft, self.path):
            path.unlink(missing_ok=True)
        if was_there:
            _sync_folder(self.path.parent)
        return was_there

    def discard_draft(self) -> None:
        """Release the reserved space."""
        with suppress(OSError):
            self._draft.unlink(missing_ok=True)

    def lock(self) -> int | None:
        """Return a descriptor that holds the lock until it is closed; None if another process holds it.

        Raises:
            OSError: locking is not possible here.

        """
        self._make_folder()
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | _NO_FOLLOW, 0o600)
        if lock_file(descriptor, exclusive=True):
            return descriptor
        os.close(descriptor)
        return None

    def _make_folder(self) -> None:
        folder = self.path.parent
        private_directory(folder.parent)
        private_directory(folder)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or not _is_ours(status):
            raise OSError(None, f"{folder} is not owned by you")
        if sys.platform != "win32" and status.st_mode & 0o077:
            folder.chmod(0o700)

    def _open_draft(self) -> int:
        return os.open(self._draft, os.O_WRONLY | os.O_CREAT | _NO_FOLLOW, 0o600)


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def _is_ours(status: os.stat_result) -> bool:
    return sys.platform == "win32" or status.st_uid == os.geteuid()


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_ino, status.st_mtime_ns, status.st_size


def _sync_folder(folder: Path) -> None:
    """Sync the folder to disk; systems without this sync on renaming."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_log = logging.getLogger(__name__)

_UNREADABLE = re.compile(r"[^A-Za-z0-9]+")
_FILE = ".json"
_FILES_MAX = 1000
_LOG_IN_AGAIN = "log in again"


class TokenStore:
    """The stored logins of one config, in ``folder``. All of it blocks.

    If there is a ``keyring`` it has the secrets, and files contain none of them.
    """

    def __init__(self, folder: Path, keyring: Keyring, *, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._keyring, self.clock = folder, keyring, clock

    def entry(self, server_url: str, entry_name: str, learned: Learned | None = None) -> "LoginEntry":
        """Return the login of one entry of ``mcpServers``. Nothing is read yet.

        Its secrets are added to ``learned`` before anybody can use them, so that they are redacted everywhere.
        """
        return LoginEntry(self, server_url, entry_name, learned or Learned())

    def file(self, server_url: str, entry: str) -> LockedFile:
        """Return the file of one entry at one server: another URL is another login."""
        readable = _UNREADABLE.sub("-", entry).strip("-")[:40] or "server"
        digest = hashlib.sha256(json.dumps([server_url, entry]).encode()).hexdigest()[:16]
        return LockedFile(self._folder / f"{readable}-{digest}{_FILE}")

    def read(self, file: LockedFile, blank: Record) -> tuple[Record, Stamp | None]:
        """Return the stored record and the stamp of its content; ``blank`` if there is none.

        A damaged file counts as none, and the record says so.
        """
        try:
            content = file.read()
        except OSError as error:
            reason = error.strerror or str(error)
            return replace(blank, problem=f"{file.path} cannot be read: {reason}"), file.stamp()
        if content is None:
            return blank, None
        data, stamp = content
        try:
            record = decoded(data)
        except ValueError:
            return replace(blank, problem=f"{file.path} is damaged, so {_LOG_IN_AGAIN}"), stamp
        if record.entry != blank.entry or record.server != blank.server:
            return replace(blank, problem=f"{file.path} belongs to another server, so {_LOG_IN_AGAIN}"), stamp
        return (self._from_keyring(file, record) if record.is_in_keyring else record), stamp

    def write(self, file: LockedFile, record: Record) -> Stamp:
        """Store a record, replacing the previous one atomically.

        Raises:
            StoreError: it cannot be stored.

        """
        in_keyring = self._is_in_keyring(file, record)
        try:
            return file.write(encoded(record, with_secrets=not in_keyring).encode())
        except OSError as error:
            raise StoreError(f"{file.path} cannot be written: {error.strerror or error}") from error

    def remove(self, file: LockedFile) -> bool:
        """Delete the stored record, and return whether there was one.

        Raises:
            StoreError: it cannot be removed.

        """
        if self._keyring.is_usable():
            self._keyring.delete(_keyring_name(file))
        try:
            return file.remove()
        except OSError as error:
            raise StoreError(f"{file.path} cannot be removed: {error.strerror or error}") from error

    def records(self) -> Iterator[Record]:
        """Yield what the file of each stored login holds, without using the keyring; damaged files are skipped."""
        for path in sorted(self._folder.glob(f"*{_FILE}"))[:_FILES_MAX]:
            with suppress(OSError, ValueError):
                if content := LockedFile(path).read():
                    yield decoded(content[0])

    def _from_keyring(self, file: LockedFile, facts: Record) -> Record:
        """Return the record in the keyring, which is written before the file and may be newer."""
        try:
            if self._keyring.is_usable():
                return replace(decoded(self._keyring.get(_keyring_name(file)) or ""), is_in_keyring=True)
            problem = f"the login is in the system's keyring, and there is none here, so {_LOG_IN_AGAIN}"
        except StoreError as error:
            problem = str(error)
        except ValueError:
            problem = f"the system's keyring does not have the login, so {_LOG_IN_AGAIN}"
        return Record(facts.entry, facts.server, is_in_keyring=True, problem=problem)

    def _is_in_keyring(self, file: LockedFile, record: Record) -> bool:
        """Store the secrets in the keyring, if there is one that accepts them: otherwise they go into the file."""
        try:
            if not self._keyring.is_usable():
                return False
            self._keyring.set(_keyring_name(file), encoded(record, with_secrets=True))
        except StoreError as error:
            # A provider's tokens can often not be issued again, so a failing keyring must not lose them.
            _log.warning("%s; the login to %s is stored in a private file instead", error, record.entry)
            return False
        return True


def _keyring_name(file: LockedFile) -> str:
    # The names of secrets in a config have no slash, so none of them is the name of a login.
    return f"login/{file.path.stem}"


def name_in_keyring(path: Path) -> str | None:
    """Return the name of a file's record in the keyring; None if it is not there, or unknown."""
    file = LockedFile(path)
    with suppress(OSError, ValueError):
        content = file.read()
        if content and decoded(content[0]).is_in_keyring:
            return _keyring_name(file)
    return None


_T = TypeVar("_T")

LOCK_WAIT_S = 60.0
"""How long to wait while another process renews a login, in seconds: longer than that may take
(``oauth.PREPARING_S``, one token request, and storing its response).
"""
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.005, 0.1
_LASTS_MAX_S = 10 * 365 * 86_400
"""Maximum accepted lifetime of a token, in seconds."""


@dataclass(frozen=True, slots=True)
class Login:
    """One stored login, for the SDK's client.

    ``record`` has the public facts, such as issuer and expiry. Its ``problem`` says what is wrong with what is stored.
    """

    record: Record
    tokens: OAuthToken | None = field(default=None, repr=False)
    client: OAuthClientInformationFull | None = field(default=None, repr=False)


class LoginEntry:
    """The login of one entry: the SDK's ``TokenStorage``, and further data.

    Changes are on disk when a call returns, and are completed even if the caller is cancelled. Other processes may
    change the login at any time: each read returns the current state.
    """

    def __init__(self, store: TokenStore, server_url: str, name: str, learned: Learned) -> None:
        self._store, self._learned = store, learned
        self._file = store.file(server_url, name)
        self._blank = Record(name, HttpTarget(server_url, {}).public_url)
        self.secrets: tuple[str, ...] = ()
        """The secrets of what was last read or set."""
        self._seen: Stamp | None = None
        self._writing = anyio.Lock()
        self._is_held = False

    def __repr__(self) -> str:
        """Name the entry; never its contents."""
        return f"LoginEntry({self._blank.entry!r})"

    async def read(self) -> Login:
        """Return the stored login. A damaged one counts as none, and is logged once."""
        return _login(await self._off_the_loop(self._read))

    async def has_changed(self) -> bool:
        """Return whether another process, or another entry here, has changed the login since it was last read."""
        return await self._off_the_loop(self._file.stamp) != self._seen

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens; ``expires_in`` is their remaining lifetime."""
        login = await self.read()
        if login.tokens is None or login.record.expires_at is None:
            return login.tokens
        left = max(0, int(login.record.expires_at - self._store.clock()))
        return login.tokens.model_copy(update={"expires_in": left})

    async def set_tokens(self, tokens: OAuthToken, client: OAuthClientInformationFull | None = None) -> None:
        """Store tokens just received, together with the registration that they were issued to.

        Without ``client`` that is the stored one, or the config's.

        Raises:
            StoreError: they cannot be stored.

        """
        now, lasts = self._store.clock(), tokens.expires_in
        received = tokens.model_dump(mode="json", exclude_none=True)

        def changed(before: Record) -> Record:
            return replace(
                before if client is None else self._registered(before, client),
                tokens=received,
                scope=tokens.scope or "",
                expires_at=None if lasts is None else now + min(max(lasts, 0), _LASTS_MAX_S),
                has_tokens=True,
                can_renew=bool(tokens.refresh_token),
            )

        await self._change(changed)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the registration at the issuer."""
        return (await self.read()).client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store a registration. Tokens issued to another client, or by another issuer, are deleted.

        Raises:
            StoreError: it cannot be stored.

        """
        await self._change(lambda before: self._registered(before, client_info))

    async def note(self, *, account: str | None = None, issuer: str | None = None) -> None:
        """Store the account or the issuer of a login. None leaves it unchanged.

        Raises:
            StoreError: it cannot be stored.

        """
        given = {name: text for name, text in (("account", account), ("issuer", issuer)) if text is not None}
        await self._change(lambda before: replace(before, **given))

    async def forget_tokens(self) -> None:
        """Delete the tokens, which are no longer accepted; the registration stays.

        Raises:
            StoreError: they cannot be deleted.

        """
        none = {"tokens": None, "scope": "", "expires_at": None, "has_tokens": False, "can_renew": False}
        await self._change(lambda before: replace(before, **none))

    async def forget(self) -> bool:
        """Delete everything, and return whether there was anything.

        Raises:
            StoreError: it cannot be deleted.

        """
        return await self._exclusively(self._forget)

    @asynccontextmanager
    async def refreshing(self, timeout_s: float = LOCK_WAIT_S) -> AsyncGenerator[Login]:
        """Renew the login while no other process does; yields the stored login, which may just have been renewed.

        Disk space for the response is reserved first. The lock ends with this block, or with the process.

        Raises:
            StoreError: another process holds the lock for longer than ``timeout_s``, or nothing can be stored here.

        """
        descriptor = await self._lock(timeout_s)
        try:
            await self._off_the_loop(self._file.reserve_space)
            self._is_held = True
            yield await self.read()
        finally:
            with _shielded():
                async with self._writing:
                    self._is_held = False
                    await anyio.to_thread.run_sync(self._release, descriptor)

    async def _change(self, change: Callable[[Record], Record]) -> None:
        await self._exclusively(lambda: self._rewrite(change))

    async def _exclusively(self, work: Callable[[], _T]) -> _T:
        """Run ``work`` under the lock against other tasks and processes. It is completed even on cancellation."""
        with _shielded():
            async with self._writing:
                if self._is_held:  # by `refreshing`, whose block stores what it was given
                    return await self._off_the_loop(work)
                descriptor = await self._lock(LOCK_WAIT_S)
                try:
                    return await self._off_the_loop(work)
                finally:
                    await anyio.to_thread.run_sync(self._release, descriptor)

    async def _lock(self, timeout_s: float) -> int:
        # Polled, because a thread that blocks in flock() cannot be cancelled.
        pause = _FIRST_PAUSE_S
        with anyio.move_on_after(timeout_s):
            while (descriptor := await self._off_the_loop(self._file.lock)) is None:
                await anyio.sleep(pause)
                pause = min(pause * 2, _LAST_PAUSE_S)
            return descriptor
        raise StoreError(f"another toolcrib has been refreshing the login to {self._blank.entry} for {timeout_s:g} s")

    async def _off_the_loop(self, work: Callable[[], _T]) -> _T:
        try:
            return await anyio.to_thread.run_sync(work)
        except OSError as error:
            reason = error.strerror or str(error)
            raise StoreError(f"the login to {self._blank.entry} cannot be stored: {reason}") from error

    def _registered(self, before: Record, client: OAuthClientInformationFull) -> Record:
        # Tokens belong to the client and the issuer that they were issued by: they go with either.
        if (before.client or {}).get("client_id") != client.client_id or before.issuer != (client.issuer or ""):
            before = self._blank
        return replace(before, client=client.model_dump(mode="json", exclude_none=True), issuer=client.issuer or "")

    def _rewrite(self, change: Callable[[Record], Record]) -> None:
        record = replace(change(self._read()), saved_at=self._store.clock(), problem="")
        self._learned.add(record.secrets)
        # The facts are shown to people; a provider may repeat a secret in them.
        clean = self._learned.clean
        record = replace(record, scope=clean(record.scope), account=clean(record.account), issuer=clean(record.issuer))
        self._seen = self._store.write(self._file, record)
        self.secrets = record.secrets

    def _read(self) -> Record:
        record, stamp = self._store.read(self._file, self._blank)
        if record.problem and stamp != self._seen:
            _log.warning("%s: %s", record.entry, record.problem)
        self._learned.add(record.secrets)
        self._seen, self.secrets = stamp, record.secrets
        return record

    def _forget(self) -> bool:
        self._seen, self.secrets = None, ()
        return self._store.remove(self._file)

    def _release(self, descriptor: int) -> None:
        self._file.discard_draft()
        os.close(descriptor)


@contextmanager
def _shielded() -> Generator[None]:
    """Continue if the caller is cancelled: the answer must be stored, and the lock released."""
    with anyio.CancelScope(shield=True):
        yield


def _login(record: Record) -> Login:
    """Return a record in the SDK's types; invalid parts count as missing."""
    try:
        tokens = None if record.tokens is None else OAuthToken.model_validate(record.tokens)
        client = None if record.client is None else OAuthClientInformationFull.model_validate(record.client)
    except ValidationError:
        return Login(replace(record, problem="the stored login is damaged, so log in again"))
    return Login(record, tokens, client)
