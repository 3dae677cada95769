"""Stored logins as the SDK's OAuth client requests them: shared by processes, refreshed by one at a time.

Knows the SDK's types and who holds the lock; never knows how a login is made, and touches no file on the event loop.
See ADR 41.
"""

import logging
import os
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread
from pydantic import ValidationError

from toolcrib.base.errors import StoreError
from toolcrib.base.redaction import Learned
from toolcrib.jsonrpc.sdk_oauth import OAuthClientInformationFull, OAuthToken
from toolcrib.login.keeping import Keeper, blank_record
from toolcrib.login.kept_file import Stamp
from toolcrib.login.keyring import Keyring
from toolcrib.login.records import Record

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

PATIENCE_S = 60.0
"""How long to wait while another process renews a login, in seconds: longer than that may take
(``renewing.PREPARING_S``, one token request, and storing its response).
"""
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.005, 0.1
_LASTS_MAX_S = 10 * 365 * 86_400
"""Maximum accepted lifetime of a token, in seconds."""


@dataclass(frozen=True, slots=True)
class Login:
    """One stored login, for the SDK's client. ``expires_at`` is in wall-clock seconds; None: unknown.

    ``record`` has the public facts: issuer, account, scope. Its ``problem`` says what is wrong with the stored login.
    """

    record: Record
    tokens: OAuthToken | None = field(default=None, repr=False)
    client: OAuthClientInformationFull | None = field(default=None, repr=False)

    @property
    def expires_at(self) -> float | None:
        """Return when the access token expires; None if unknown."""
        return self.record.expires_at


class TokenStore:
    """The stored logins of one config, in ``folder``; the secrets in the ``keyring``, if that can be used."""

    def __init__(self, folder: Path, keyring: Keyring, *, clock: Callable[[], float] = time.time) -> None:
        self._keeper, self._clock = Keeper(folder, keyring), clock

    def entry(self, server_url: str, entry_name: str, learned: Learned | None = None) -> "LoginEntry":
        """Return the login of one entry of ``mcpServers``. Nothing is read yet.

        Its secrets are added to ``learned`` before anybody can use them, so that they are redacted everywhere.
        """
        return LoginEntry(self._keeper, server_url, entry_name, self._clock, learned or Learned())

    async def facts(self) -> list[Record]:
        """Return the public facts of all stored logins."""
        found = await anyio.to_thread.run_sync(lambda: list(self._keeper.facts()))
        return [replace(record, tokens=None, client=None) for record in found]


class LoginEntry:
    """The login of one entry: the SDK's ``TokenStorage``, and further data.

    Changes are on disk when a call returns, and are completed even if the caller is cancelled. Other processes may
    change the login at any time: each read returns the current state.
    """

    def __init__(
        self, keeper: Keeper, server_url: str, name: str, clock: Callable[[], float], learned: Learned
    ) -> None:
        self._keeper, self._clock, self._learned = keeper, clock, learned
        self._file, self._blank = keeper.file(server_url, name), blank_record(server_url, name)
        self._seen: Stamp | None = None
        self._secrets: tuple[str, ...] = ()
        self._writing = anyio.Lock()
        self._is_held = False

    def __repr__(self) -> str:
        """Name the entry; never its contents."""
        return f"LoginEntry({self._blank.entry!r})"

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the secrets of what was last read or set."""
        return self._secrets

    async def read(self) -> Login:
        """Return the stored login. A damaged one counts as none, and is logged once."""
        return _login(await self._off_the_loop(self._read))

    async def has_changed(self) -> bool:
        """Return whether another process, or another entry here, has changed the login since it was last read."""
        return await self._off_the_loop(self._file.stamp) != self._seen

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens; ``expires_in`` is their remaining lifetime."""
        login = await self.read()
        if login.tokens is None or login.expires_at is None:
            return login.tokens
        left = max(0, int(login.expires_at - self._clock()))
        return login.tokens.model_copy(update={"expires_in": left})

    async def set_tokens(self, tokens: OAuthToken, client: OAuthClientInformationFull | None = None) -> None:
        """Store tokens just received, together with the registration that they were issued to.

        Without ``client`` that is the stored one, or the config's.

        Raises:
            StoreError: they cannot be stored.

        """
        now, lasts = self._clock(), tokens.expires_in
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
        told = {name: text for name, text in (("account", account), ("issuer", issuer)) if text is not None}
        await self._change(lambda before: replace(before, **told))

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
        return await self._alone(self._forget)

    @asynccontextmanager
    async def refreshing(self, patience_s: float = PATIENCE_S) -> AsyncGenerator[Login]:
        """Renew the login while no other process does; yields the stored login, which may just have been renewed.

        Disk space for the response is reserved first. The lock ends with this block, or with the process.

        Raises:
            StoreError: another process holds the lock for longer than ``patience_s``, or nothing can be stored here.

        """
        descriptor = await self._locked(patience_s)
        try:
            await self._off_the_loop(self._file.take_room)
            self._is_held = True
            yield await self.read()
        finally:
            with _to_the_end():
                async with self._writing:
                    self._is_held = False
                    await anyio.to_thread.run_sync(self._released, descriptor)

    async def _change(self, change: Callable[[Record], Record]) -> None:
        await self._alone(lambda: self._rewrite(change))

    async def _alone(self, work: Callable[[], _T]) -> _T:
        """Run ``work`` under the lock against other tasks and processes. It is completed even on cancellation."""
        with _to_the_end():
            return await self._in_turn(work)

    async def _in_turn(self, work: Callable[[], _T]) -> _T:
        async with self._writing:
            if self._is_held:
                return await self._off_the_loop(work)
            descriptor = await self._locked(PATIENCE_S)
            try:
                return await self._off_the_loop(work)
            finally:
                await anyio.to_thread.run_sync(self._released, descriptor)

    async def _locked(self, patience_s: float) -> int:
        pause = _FIRST_PAUSE_S
        with anyio.move_on_after(patience_s):
            while (descriptor := await self._off_the_loop(self._file.lock)) is None:
                await anyio.sleep(pause)
                pause = min(pause * 2, _LAST_PAUSE_S)
            return descriptor
        raise StoreError(f"another toolcrib has been refreshing the login to {self._blank.entry} for {patience_s:g} s")

    async def _off_the_loop(self, work: Callable[[], _T]) -> _T:
        try:
            return await anyio.to_thread.run_sync(work)
        except OSError as error:
            reason = error.strerror or str(error)
            raise StoreError(f"the login to {self._blank.entry} cannot be stored: {reason}") from error

    def _registered(self, before: Record, client: OAuthClientInformationFull) -> Record:
        if (before.client or {}).get("client_id") != client.client_id or before.issuer != (client.issuer or ""):
            before = self._blank
        return replace(before, client=client.model_dump(mode="json", exclude_none=True), issuer=client.issuer or "")

    def _rewrite(self, change: Callable[[Record], Record]) -> None:
        record = replace(change(self._read()), saved_at=self._clock(), problem="")
        self._learned.add(record.secrets)
        record = self._fit_to_be_told(record)
        self._seen = self._keeper.write(self._file, record)
        self._secrets = record.secrets

    def _fit_to_be_told(self, record: Record) -> Record:
        """Return a record whose provider-supplied facts do not contain its secrets."""
        clean = self._learned.clean
        told = {"scope": clean(record.scope), "account": clean(record.account), "issuer": clean(record.issuer)}
        return replace(record, **told)

    def _read(self) -> Record:
        record, stamp = self._keeper.read(self._file, self._blank)
        if record.problem and stamp != self._seen:
            _log.warning("%s: %s", record.entry, record.problem)
        self._learned.add(record.secrets)
        self._seen, self._secrets = stamp, record.secrets
        return record

    def _forget(self) -> bool:
        self._seen, self._secrets = None, ()
        return self._keeper.remove(self._file)

    def _released(self, descriptor: int) -> None:
        self._file.discard_draft()
        os.close(descriptor)


@contextmanager
def _to_the_end() -> Generator[None]:
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
