"""``resources/*``: lists and reads what others contribute.

Knows the methods, their pages, and whose a URI is; never knows what a resource holds or who may see it.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import mcp_types as types
from mcp.server import Server

from toolcrib.access.sessions import Session
from toolcrib.base.paging import cursor_of, place_of
from toolcrib.errors import BadRequest, UnknownResource
from toolcrib.streams.sdk import Context
from toolcrib.wire.sessions import Sessions

Contents = types.TextResourceContents | types.BlobResourceContents


@dataclass(frozen=True, slots=True)
class FixedResource:
    """One resource of our own, with the same URI for everybody; ``read`` gives its text for a session."""

    uri: str
    name: str
    description: str
    mime_type: str
    read: Callable[[Session], Awaitable[str]]

    @property
    def as_listed(self) -> types.Resource:
        """Return it as ``resources/list`` tells it."""
        return types.Resource(uri=self.uri, name=self.name, description=self.description, mime_type=self.mime_type)


class ResourceProvider(Protocol):
    """Contributes all resources whose URI begins with ``prefix``."""

    @property
    def prefix(self) -> str:
        """How its URIs begin."""
        ...

    async def page(self, session: Session, after: str) -> tuple[list[types.Resource], bool]:
        """Return its next resources by URI, those after the URI ``after``, and whether there are more."""
        ...

    async def read(self, session: Session, uri: str) -> Contents:
        """Return what a resource holds.

        Raises:
            UnknownResource: there is none for this caller.

        """
        ...


class ResourceMethods:
    """Answers ``resources/*`` with resources of our own first, then those of each provider."""

    def __init__(
        self, sessions: Sessions, fixed: Sequence[FixedResource], providers: Sequence[ResourceProvider]
    ) -> None:
        self._sessions, self._providers = sessions, providers
        self._fixed = {resource.uri: resource for resource in fixed}

    def register(self, server: Server[Any]) -> None:
        """Have ``server`` answer these methods."""
        server.add_request_handler("resources/list", types.PaginatedRequestParams, self._list)
        server.add_request_handler("resources/templates/list", types.PaginatedRequestParams, self._list_templates)
        server.add_request_handler("resources/read", types.ReadResourceRequestParams, self._read)

    async def _list(self, context: Context, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        session, cursor = await self._sessions.of(context), params.cursor if params else None
        after = "" if cursor is None else place_of(cursor, 1)[0]
        listed = [resource.as_listed for resource in self._fixed.values()] if cursor is None else []
        for provider in self._from(after):
            page, has_more = await provider.page(session, after)
            listed += page
            if has_more:
                return types.ListResourcesResult(resources=listed, next_cursor=cursor_of((str(page[-1].uri),)))
            after = ""
        return types.ListResourcesResult(resources=listed)

    def _from(self, after: str) -> Sequence[ResourceProvider]:
        """Return the provider that has the URI ``after``, and those that follow it; all for the empty one."""
        for place, provider in enumerate(self._providers):
            if not after or after.startswith(provider.prefix):
                return self._providers[place:]
        if after:
            raise BadRequest("'cursor' is not one that was given here. Leave it out to begin with the first page.")
        return ()

    async def _list_templates(
        self, _context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=[])

    async def _read(self, context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        session, uri = await self._sessions.of(context), str(params.uri)
        if fixed := self._fixed.get(uri):
            text = await fixed.read(session)
            contents = types.TextResourceContents(uri=uri, mime_type=fixed.mime_type, text=text)
            return types.ReadResourceResult(contents=[contents])
        for provider in self._providers:
            if uri.startswith(provider.prefix):
                return types.ReadResourceResult(contents=[await provider.read(session, uri)])
        raise UnknownResource(uri)
