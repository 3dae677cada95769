"""What servers contribute to resources, prompts and completions.

Knows which use case answers which method; never knows policies, servers or how a result looks on the wire.
"""

from toolcrib.base.errors import UnknownPrompt
from toolcrib.base.json_values import as_object
from toolcrib.base.model import JsonObject
from toolcrib.gateway.offers import Ask, OfferUseCases
from toolcrib.jsonrpc.sdk import Context, ProtocolServer
from toolcrib.policy.sessions import Session
from toolcrib.wire.asking import asker_of
from toolcrib.wire.envelopes import params_for_next_hop
from toolcrib.wire.sessions import Sessions


class ServerResources:
    """The resources of servers, as a :class:`ResourceProvider`, and their templates."""

    prefix = "toolcrib://servers/"

    def __init__(self, offers: OfferUseCases) -> None:
        self._offers = offers

    async def page(self, session: Session, after: str) -> tuple[list[JsonObject], str | None]:
        """Return the next resources by public URI."""
        return await self._offers.page(session, "resource", after)

    async def templates(self, session: Session, after: str) -> tuple[list[JsonObject], str | None]:
        """Return the next templates by public URI template."""
        return await self._offers.page(session, "template", after)

    async def read(self, context: Context, session: Session, uri: str) -> JsonObject:
        """Return the contents of a resource as its server gives them.

        Raises:
            UnknownResource: there is no such resource for this caller.

        """
        return await self._offers.read(session, uri, _ask(context, session))


class ServerPrompts:
    """The prompts of servers, as a :class:`PromptProvider`."""

    def __init__(self, offers: OfferUseCases) -> None:
        self._offers = offers

    async def page(self, session: Session, after: str) -> tuple[list[JsonObject], str | None]:
        """Return the next prompts by public name."""
        return await self._offers.page(session, "prompt", after)

    async def get(self, context: Context, session: Session, params: JsonObject) -> JsonObject | None:
        """Return the result of a prompt as its server gives it."""
        try:
            return await self._offers.get(session, params["name"], _ask(context, session))
        except UnknownPrompt:
            return None


class CompletionMethods:
    """Answers ``completion/complete`` for arguments of servers' prompts and templates."""

    def __init__(self, sessions: Sessions, offers: OfferUseCases) -> None:
        self._sessions, self._offers = sessions, offers

    def register(self, server: ProtocolServer) -> None:
        """Register the handler of the method."""
        server.answer_verbatim("completion/complete", self._complete)

    async def _complete(self, context: Context, params: JsonObject) -> JsonObject:
        session = await self._sessions.of(context)
        return await self._offers.complete(session, as_object(params.get("ref")), _ask(context, session))


def _ask(context: Context, session: Session) -> Ask:
    params = params_for_next_hop(as_object(context.params))
    return Ask(params, context.session.report_progress, asker_of(context, session))
