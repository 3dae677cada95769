"""``prompts/*``: lists and gets contributed prompts.

Knows the methods and their pages; never knows what a prompt says.
"""

from collections.abc import Sequence
from typing import Protocol

from toolcrib.base.errors import UnknownPrompt
from toolcrib.base.model import JsonObject
from toolcrib.base.paging import cursor_of, place_of
from toolcrib.jsonrpc.sdk import Context, ProtocolServer
from toolcrib.policy.sessions import Session
from toolcrib.wire.envelopes import LIST_TTL_MS, cacheable
from toolcrib.wire.sessions import Sessions


class PromptProvider(Protocol):
    """Contributes prompts."""

    async def page(self, session: Session, after: str, /) -> tuple[list[JsonObject], str | None]:
        """Return the next page of prompts by name, after the name ``after``, and the last name if there are more."""
        ...

    async def get(self, context: Context, /, session: Session, params: JsonObject) -> JsonObject | None:
        """Return the result of a prompt for the params of the request; None if there is no such prompt.

        Raises:
            BadRequest: an argument is missing or wrong.

        """
        ...


class PromptMethods:
    """Answers ``prompts/*`` with the prompts of each provider in turn; only the last one may have several pages."""

    def __init__(self, sessions: Sessions, providers: Sequence[PromptProvider]) -> None:
        self._sessions, self._providers = sessions, providers

    def register(self, server: ProtocolServer) -> None:
        """Register the handlers of these methods."""
        server.answer_verbatim("prompts/list", self._list)
        server.answer_verbatim("prompts/get", self._get)

    async def _list(self, context: Context, params: JsonObject) -> JsonObject:
        session, cursor = await self._sessions.of(context), params.get("cursor")
        providers, after = (self._providers, "") if cursor is None else (self._providers[-1:], place_of(cursor, 1)[0])
        prompts: list[JsonObject] = []
        last = None
        for provider in providers:
            page, last = await provider.page(session, after)
            prompts += page
        more = {} if last is None else {"nextCursor": cursor_of((last,))}
        return cacheable({"prompts": prompts, **more}, LIST_TTL_MS)

    async def _get(self, context: Context, params: JsonObject) -> JsonObject:
        session = await self._sessions.of(context)
        for provider in self._providers:
            if (found := await provider.get(context, session, params)) is not None:
                return found
        raise UnknownPrompt(params["name"])
