"""Tokens for requests while serving: added to each, and refreshed once, transparently, when a server rejects one."""

from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio
import anyio.to_thread
import httpx2

from toolcrib.auth.challenges import Challenge
from toolcrib.auth.fetching import origin_of
from toolcrib.auth.store import Login, LoginEntry
from toolcrib.base.errors import LoginFailed, LoginRefused, StoreError
from toolcrib.config.settings import HttpTarget, ServerSettings


class Bearer:
    """The token of one server, for all connections to it. ``challenge`` is the server's last challenge.

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
        """Whether the config requires a login, so that a refusal without a challenge means that too."""
        return self.server.options.auth is not None

    async def load(self) -> None:
        """Load the stored login."""
        with suppress(StoreError):  # then the server will request a login
            self._take(await self.entry.read())

    def authorize(self, request: httpx2.Request) -> str:
        """Add the token to a request to the server, and return it; empty if there is none."""
        # A server may redirect anywhere; the token is for its own origin only.
        if not self._header or origin_of(request.url) != self._origin:
            return ""
        request.headers["authorization"] = self._header
        return self._header

    async def renew(self, sent: str, challenge: Challenge) -> bool:
        """Replace the token ``sent``, which the server has refused; return whether there is a new one.

        Concurrent callers wait for it, in this process or another one.

        Raises:
            LoginFailed: the outcome is unknown, for example if the authorization server did not answer.

        """
        async with self._turn:
            if self._header and self._header != sent:
                return True
            self.challenge = challenge
            try:
                # Another process may have renewed it since.
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
        # In a thread, for its imports: servers that accept their token do not need them.
        renewed = await anyio.to_thread.run_sync(_import_renewed)
        try:
            token = await renewed(self.server, self.entry, challenge)
        except LoginRefused as error:
            if self.is_machine:
                raise LoginFailed(str(error)) from None
            # Anything else may pass, and the login is still good then.
            if error.is_final:
                await self.entry.forget_tokens()
                self._header = ""
            return False
        self._header = f"Bearer {token}"
        return True


def _import_renewed() -> Callable[[ServerSettings, LoginEntry, Challenge], Awaitable[str]]:
    from toolcrib.auth.oauth import renewed  # noqa: PLC0415 - see above

    return renewed
