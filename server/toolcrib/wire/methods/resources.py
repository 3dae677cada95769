"""``resources/*``: lists and reads contributed resources, and those of servers.

Knows the methods, their pages, and the owner of a URI; never knows what a resource holds or who may see it.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import mcp_types as types

from toolcrib.base.errors import BadRequest
from toolcrib.base.model import JsonObject
from toolcrib.base.paging import cursor_of, place_of
from toolcrib.jsonrpc.sdk import Context, ProtocolServer
from toolcrib.policy.sessions import Session
from toolcrib.wire.envelopes import LIST_TTL_MS, cacheable
from toolcrib.wire.sessions import Sessions


@dataclass(frozen=True, slots=True)
class FixedResource:
    """One resource of our own, with the same URI for everybody; ``read`` returns its text for a session."""

    uri: str
    name: str
    description: str
    mime_type: str
    read: Callable[[Session], Awaitable[str]]

    @property
    def as_listed(self) -> JsonObject:
        """Return its entry in ``resources/list``."""
        return as_json(
            types.Resource(uri=self.uri, name=self.name, description=self.description, mime_type=self.mime_type)
        )


class ResourceProvider(Protocol):
    """Contributes all resources whose URI begins with ``prefix``."""

    @property
    def prefix(self) -> str:
        """The prefix of its URIs."""
        ...

    async def page(self, session: Session, after: str) -> tuple[list[JsonObject], str | None]:
        """Return the next page of resources by URI, after the URI ``after``, and the last URI if there are more."""
        ...

    async def read(self, context: Context, /, session: Session, uri: str) -> JsonObject:
        """Return the result of ``resources/read``.

        Raises:
            UnknownResource: there is no such resource for this caller.

        """
        ...


class TemplateProvider(Protocol):
    """Contributes resource templates, and all resources that no other provider has."""

    async def templates(self, session: Session, after: str) -> tuple[list[JsonObject], str | None]:
        """Return the next page of templates, those after the template ``after``, and the last one if there are more."""
        ...

    async def read(self, context: Context, /, session: Session, uri: str) -> JsonObject:
        """Return the result of ``resources/read``; raises like :meth:`ResourceProvider.read`."""
        ...


class ResourceMethods:
    """Answers ``resources/*`` with our own resources first, then those of each provider.

    ``rest`` handles any other URI.
    """

    def __init__(
        self,
        sessions: Sessions,
        fixed: Sequence[FixedResource],
        providers: Sequence[ResourceProvider],
        rest: TemplateProvider,
    ) -> None:
        self._sessions, self._providers, self._rest = sessions, providers, rest
        self._fixed = {resource.uri: resource for resource in fixed}

    def register(self, server: ProtocolServer) -> None:
        """Register the handlers of these methods."""
        server.answer_verbatim("resources/list", self._list)
        server.answer_verbatim("resources/templates/list", self._list_templates)
        server.answer_verbatim("resources/read", self._read)

    async def _list(self, context: Context, params: JsonObject) -> JsonObject:
        session, cursor = await self._sessions.of(context), params.get("cursor")
        after = "" if cursor is None else place_of(cursor, 1)[0]
        listed = [resource.as_listed for resource in self._fixed.values()] if cursor is None else []
        for provider in self._from(after):
            page, last = await provider.page(session, after)
            listed += page
            if last is not None:
                return _page("resources", listed, last)
            after = ""
        return _page("resources", listed, None)

    def _from(self, after: str) -> Sequence[ResourceProvider]:
        """Return the provider that has the URI ``after``, and those that follow it; all for the empty string."""
        for place, provider in enumerate(self._providers):
            if not after or after.startswith(provider.prefix):
                return self._providers[place:]
        if after:
            raise BadRequest("'cursor' is not one that was given here. Leave it out to begin with the first page.")
        return ()

    async def _list_templates(self, context: Context, params: JsonObject) -> JsonObject:
        session, cursor = await self._sessions.of(context), params.get("cursor")
        after = "" if cursor is None else place_of(cursor, 1)[0]
        return _page("resourceTemplates", *await self._rest.templates(session, after))

    async def _read(self, context: Context, params: JsonObject) -> JsonObject:
        session, uri = await self._sessions.of(context), params["uri"]
        if fixed := self._fixed.get(uri):
            return cacheable(text_contents(uri, fixed.mime_type, await fixed.read(session)))
        for provider in self._providers:
            if uri.startswith(provider.prefix):
                return cacheable(await provider.read(context, session, uri))
        return cacheable(await self._rest.read(context, session, uri))


def as_json(model: types.Resource | types.Prompt | types.GetPromptResult) -> JsonObject:
    """Return an SDK value as JSON."""
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


def text_contents(uri: str, mime_type: str, text: str) -> JsonObject:
    """Return the result of ``resources/read`` for a text."""
    return {"contents": [{"uri": uri, "mimeType": mime_type, "text": text}]}


def _page(key: str, items: list[JsonObject], last: str | None) -> JsonObject:
    more = {} if last is None else {"nextCursor": cursor_of((last,))}
    return cacheable({key: items, **more}, LIST_TTL_MS)
