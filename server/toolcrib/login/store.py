"""The logins that are kept, as the SDK's OAuth client asks for them: shared by processes, renewed by one at a time.

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

from toolcrib.errors import StoreError
from toolcrib.login.keeping import Keeper, blank_record
from toolcrib.login.kept_file import Stamp
from toolcrib.login.keyring import Keyring
from toolcrib.login.records import Record
from toolcrib.redaction.learned import Learned
from toolcrib.streams.sdk_oauth import OAuthClientInformationFull, OAuthToken

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

PATIENCE_S = 60.0
"""Seconds to wait while another process renews a login: longer than that may take (``renewing.PREPARING_S``, one
request for a token, and its writing)."""
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.005, 0.1
_LASTS_MAX_S = 10 * 365 * 86_400
"""What a provider may say of how long a token lasts, at most."""


@dataclass(frozen=True, slots=True)
class Login:
    """What is kept of one login, for the SDK's client. ``expires_at`` is in seconds of the wall clock; None: unknown.

    ``record`` has what may be told: issuer, account, scope. ``problem`` in it says what is wrong with what is kept.
    """

    record: Record
    tokens: OAuthToken | None = field(default=None, repr=False)
    client: OAuthClientInformationFull | None = field(default=None, repr=False)

    @property
    def expires_at(self) -> float | None:
        """Return when the access token ends; None where nobody said."""
        return self.record.expires_at


class TokenStore:
    """What is kept of the logins of one config, in ``folder``; the secrets in the ``keyring``, where it can be used."""

    def __init__(self, folder: Path, keyring: Keyring, *, clock: Callable[[], float] = time.time) -> None:
        self._keeper, self._clock = Keeper(folder, keyring), clock

    def entry(self, server_url: str, entry_name: str, learned: Learned | None = None) -> "LoginEntry":
        """Return the login of one entry of ``mcpServers``. Nothing is read yet.

        Its secrets are ``learned`` before anybody can use them, so that nothing tells them.
        """
        return LoginEntry(self._keeper, server_url, entry_name, self._clock, learned or Learned())

    async def facts(self) -> list[Record]:
        """Return what is known of all logins that are kept, without their secrets."""
        found = await anyio.to_thread.run_sync(lambda: list(self._keeper.facts()))
        return [replace(record, tokens=None, client=None) for record in found]


class LoginEntry:
    """The login of one entry: the SDK's ``TokenStorage``, and what has to be known of it besides.

    Whatever is set is on the disk when the call returns, and it is not given up half way where the caller is. Other
    processes may change it at any time: each read is of what is kept now.
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
        """Name the entry; never what is kept of it."""
        return f"LoginEntry({self._blank.entry!r})"

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return what must not be told of what was last read or set."""
        return self._secrets

    async def read(self) -> Login:
        """Return what is kept now. What is damaged counts as nothing, and is told in the log once."""
        return _login(await self._off_the_loop(self._read))

    async def has_changed(self) -> bool:
        """Return whether another process, or another entry here, has changed what is kept since it was last read."""
        return await self._off_the_loop(self._file.stamp) != self._seen

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens; ``expires_in`` is what is left of their time."""
        login = await self.read()
        if login.tokens is None or login.expires_at is None:
            return login.tokens
        left = max(0, int(login.expires_at - self._clock()))
        return login.tokens.model_copy(update={"expires_in": left})

    async def set_tokens(self, tokens: OAuthToken, client: OAuthClientInformationFull | None = None) -> None:
        """Keep tokens that were just received, and in the same change the registration that they were given to.

        Without ``client`` that is the one which is kept already, or the config's.

        Raises:
            StoreError: they cannot be kept.

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
        """Keep a registration. Tokens that were given to another client, or by another issuer, go with that one.

        Raises:
            StoreError: it cannot be kept.

        """
        await self._change(lambda before: self._registered(before, client_info))

    async def note(self, *, account: str | None = None, issuer: str | None = None) -> None:
        """Keep what was learned of a login: as whom, or from whom. None leaves it as it was.

        Raises:
            StoreError: it cannot be kept.

        """
        told = {name: text for name, text in (("account", account), ("issuer", issuer)) if text is not None}
        await self._change(lambda before: replace(before, **told))

    async def forget_tokens(self) -> None:
        """Forget the tokens, which nobody takes any more; the registration stays.

        Raises:
            StoreError: they cannot be removed.

        """
        none = {"tokens": None, "scope": "", "expires_at": None, "has_tokens": False, "can_renew": False}
        await self._change(lambda before: replace(before, **none))

    async def forget(self) -> bool:
        """Forget everything, and return whether there was something.

        Raises:
            StoreError: it cannot be removed.

        """
        return await self._alone(self._forget)

    @asynccontextmanager
    async def refreshing(self, patience_s: float = PATIENCE_S) -> AsyncGenerator[Login]:
        """Renew the login while no other process does; gives what is kept, as it may just have been renewed.

        The room for what will be received is taken up on the disk first. The lock ends with this block, or with the
        process.

        Raises:
            StoreError: another one holds it for longer than ``patience_s``, or nothing could be kept here.

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
        """Do what only one may do at a time, here and in other processes. It is not given up half way."""
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
        raise StoreError(f"another toolcrib has been renewing the login to {self._blank.entry} for {patience_s:g} s")

    async def _off_the_loop(self, work: Callable[[], _T]) -> _T:
        try:
            return await anyio.to_thread.run_sync(work)
        except OSError as error:
            reason = error.strerror or str(error)
            raise StoreError(f"the login to {self._blank.entry} cannot be kept: {reason}") from error

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
        """Return a record whose facts, which a provider has named, are not its secrets."""
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
    """Go on where the caller is given up: what was received must be kept, and a lock be let go of."""
    with anyio.CancelScope(shield=True):
        yield


def _login(record: Record) -> Login:
    """Return a record in the SDK's types; what does not fit them counts as nothing."""
    try:
        tokens = None if record.tokens is None else OAuthToken.model_validate(record.tokens)
        client = None if record.client is None else OAuthClientInformationFull.model_validate(record.client)
    except ValidationError:
        return Login(replace(record, problem="what is kept of the login is damaged, so log in again"))
    return Login(record, tokens, client)
