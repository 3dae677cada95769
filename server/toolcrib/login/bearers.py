"""The tokens that go with requests while serving: put on them, and renewed once, quietly, when a server refuses one.

Knows what is kept of a login and when it is of no more use; never knows how a person is asked, and opens nothing
(R270).
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio
import anyio.to_thread
import httpx2

from toolcrib.config.settings import HttpTarget, ServerSettings
from toolcrib.errors import LoginFailed, LoginRefused, StoreError
from toolcrib.login.addresses import origin_of
from toolcrib.login.challenges import Challenge
from toolcrib.login.store import Login, LoginEntry


class Bearer:
    """The token of one server, for all connections to it. ``challenge`` is what the server has asked for last.

    ``is_machine``: no person logs in to it.
    """

    def __init__(self, server: ServerSettings, entry: LoginEntry) -> None:
        assert isinstance(server.target, HttpTarget)
        self.server, self.entry = server, entry
        self.challenge: Challenge | None = None
        auth = server.options.auth
        self.is_machine = auth is not None and auth.type == "client_credentials"
        self._origin = origin_of(httpx2.URL(server.target.url))
        self._header = ""
        self._turn = anyio.Lock()

    @property
    def is_expected(self) -> bool:
        """Whether the config says that a login is needed, so that a refusal without a word of it means that too."""
        return self.server.options.auth is not None

    async def load(self) -> None:
        """Take what is kept."""
        with suppress(StoreError):  # then the server says that it wants a login
            self._take(await self.entry.read())

    def authorize(self, request: httpx2.Request) -> str:
        """Put the token on a request to the server, and return what was put there; empty if there is none."""
        if not self._header or origin_of(request.url) != self._origin:
            return ""
        request.headers["authorization"] = self._header
        return self._header

    async def renew(self, sent: str, challenge: Challenge) -> bool:
        """Have another token than ``sent``, which the server has refused; return whether there is one.

        Whoever asks meanwhile waits for it, in this process or another one.

        Raises:
            LoginFailed: it cannot be told whether there is one: the authorization server gave no answer, for one.

        """
        async with self._turn:
            if self._header and self._header != sent:
                return True
            self.challenge = challenge
            try:
                login = await self.entry.read()
                if login.tokens is None and not self.is_machine:
                    self._take(login)
                    return False
                async with self.entry.refreshing() as login:
                    self._take(login)
                    if self._header and self._header != sent:
                        return True
                    return self._may_renew(login, challenge) and await self._renewed(challenge)
            except StoreError as error:
                raise LoginFailed(str(error)) from None

    def _take(self, login: Login) -> None:
        self._header = f"Bearer {login.tokens.access_token}" if login.tokens else ""

    def _may_renew(self, login: Login, challenge: Challenge) -> bool:
        if self.is_machine:
            return True
        return bool(login.tokens and login.tokens.refresh_token and not challenge.wants_more)

    async def _renewed(self, challenge: Challenge) -> bool:
        renewed = await anyio.to_thread.run_sync(_imported)
        try:
            token = await renewed(self.server, self.entry, challenge)
        except LoginRefused as error:
            if self.is_machine:
                raise LoginFailed(str(error)) from None
            if error.is_final:
                await self.entry.forget_tokens()
                self._header = ""
            return False
        self._header = f"Bearer {token}"
        return True


Renewed = Callable[[ServerSettings, LoginEntry, Challenge], Awaitable[str]]


def _imported() -> Renewed:
    """Return what renews logins. Blocks: a server that takes its token needs none of it."""
    from toolcrib.login.renewing import renewed  # noqa: PLC0415 - see above

    return renewed
