"""The use cases: list what servers offer besides tools, read a resource, get a prompt, complete an argument."""

import time
from collections.abc import Callable, Collection, Coroutine, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import anyio
import anyio.to_thread

from toolcrib.base.errors import DownstreamError, Unavailable, UnknownPrompt, UnknownResource
from toolcrib.base.json_values import as_object, weight
from toolcrib.base.model import JsonObject, OfferKind
from toolcrib.base.names import may_belong_to
from toolcrib.base.uris import own_uri, published_contents, published_prompt
from toolcrib.catalog.denied_names import NameMasker
from toolcrib.catalog.offer_search import FoundOffer, OfferDocuments, OfferSearcher
from toolcrib.catalog.offers import KINDS, Offer, OffersChange, PermittedOffers
from toolcrib.downstream.fleet import Fleet
from toolcrib.downstream.offers import Listener
from toolcrib.events.kinds import ServerRequest, ServerRequestDenied
from toolcrib.events.log import elapsed_ms
from toolcrib.gateway.offline import Offline
from toolcrib.policy.requests import Request
from toolcrib.policy.sessions import Session
from toolcrib.search import documents

PAGE_ITEMS, PAGE_BYTES = 250, 1024 * 1024
"""Maximum items and bytes of one page of a list; it has at least one item."""

_NOT_FOUND = (-32002, -32602)
"""The error codes of servers for a nonexistent resource: those of the older and of the newer revisions."""

_FOUND_MAX = 5
"""Maximum number of hits of one search: they are an addition to tools, the main result."""

_COMPLETE = "completion/complete"

Release = Callable[[], Coroutine[Any, Any, None]]
"""Cancels a subscription."""


@dataclass(frozen=True, slots=True)
class Place:
    """The location of a resource: the server, its own URI, and the URI used by the client."""

    server: str
    uri: str
    asked: str

    @property
    def is_public(self) -> bool:
        """Whether the client used its public URI."""
        return self.asked != self.uri


@dataclass(frozen=True, slots=True)
class _ServerRequest:
    """A request to a server: ``own`` are its own names, in place of the public ``target``."""

    server: str
    method: str
    target: str
    own: Mapping[str, Any]


class OfferUseCases:
    """Resources and prompts of servers: listed, searched, read, completed and subscribed to.

    Until ``first_index_deadline``, on anyio's clock, requests wait for servers whose lists were never read.
    """

    def __init__(self, offline: Offline, fleet: Fleet, first_index_deadline: float) -> None:
        self.indexer, self.expose = offline.offers, offline.settings.toolcrib.gate.expose
        self._settings, self._fleet, self._events = offline.settings, fleet, offline.events
        self._servers = offline.settings.servers
        self._gate, self._tools_gate, self._tools = offline.offer_gate, offline.gate, offline.indexer.current
        self._texts, self._searcher = offline.offer_texts, OfferSearcher(offline.search)
        self._first_index_deadline = first_index_deadline
        self.searchable: tuple[OfferKind, ...] = tuple(
            kind
            for kind in KINDS
            if (self.expose.prompts if kind == "prompt" else self.expose.resources) == "searchable"
        )
        """The kinds that are not listed, and are therefore searched."""
        self._searched: dict[tuple[int, ...], tuple[PermittedOffers, NameMasker, OfferDocuments]] = {}

    # -- list ------------------------------------------------------------------------------------

    async def page(self, session: Session, kind: OfferKind, after: str) -> tuple[list[JsonObject], str | None]:
        """Return the next page of a list, after a public URI or name, and the last one's if there are more."""
        if not self.is_listed(kind):
            return [], None
        # Only the first page waits; what is listed later is announced as a change.
        if not after:
            await self._first_listing(session, self._servers)
        rest = self._gate.permitted(session).after(kind, after)
        page: list[Offer] = []
        size = 0
        for offer in rest[:PAGE_ITEMS]:
            size += offer.size
            if page and size > PAGE_BYTES:
                break
            page.append(offer)
        has_more = len(page) < len(rest)
        return await self._shown(session, page), page[-1].public if has_more else None

    def is_listed(self, kind: OfferKind) -> bool:
        """Return whether clients get a list of this kind at all."""
        exposure = self.expose.prompts if kind == "prompt" else self.expose.resources
        return exposure == "listed" and kind in self.indexer.kinds

    def differs(self, session: Session, change: OffersChange, kinds: Collection[OfferKind]) -> bool:
        """Return whether a change affects a list of these kinds shown to the session."""
        before, after = (self._gate.permitted(session, each).by_kind for each in (change.before, change.after))
        return any(self.is_listed(kind) and _marks(before[kind]) != _marks(after[kind]) for kind in kinds)

    def marks(self, session: Session, kind: OfferKind) -> object:
        """Return a value that distinguishes lists of this kind shown to the session."""
        permitted = self._gate.permitted(session, self.indexer.catalog)
        return _marks(permitted.by_kind[kind]) if self.is_listed(kind) else None

    async def _shown(self, session: Session, offers: list[Offer]) -> list[JsonObject]:
        if not offers:
            return []
        masker = self._tools_gate.masker(session, self._tools())
        return await anyio.to_thread.run_sync(self._texts.definitions, offers, masker)

    # -- search ----------------------------------------------------------------------------------

    async def search(self, session: Session, wanted: documents.Request, server: str | None) -> list[FoundOffer]:
        """Find what the session's caller may use and is not listed.

        Raises:
            BadRequest: a pattern cannot be used.

        """
        await self._first_listing(session, self._servers if server is None else [server])
        few = replace(wanted, limit=min(wanted.limit, _FOUND_MAX))
        return await anyio.to_thread.run_sync(self._searcher.search, few, self._documents(session), server)

    def _documents(self, session: Session) -> OfferDocuments:
        """Return the searchable offers; the same object while neither offers nor denied names change."""
        permitted = self._gate.permitted(session)
        masker = self._tools_gate.masker(session, self._tools())
        known = self._searched.get(self._gate.permissions(session).key)
        if known is None or known[:2] != (permitted, masker):
            offers = [each for kind in self.searchable for each in permitted.by_kind[kind]]
            known = permitted, masker, OfferDocuments(offers, partial(self._texts.worded, masker))
            self._searched[self._gate.permissions(session).key] = known
        return known[2]

    # -- ask -------------------------------------------------------------------------------------

    async def read(self, request: Request, uri: str) -> JsonObject:
        """Return the contents of a resource as its server gives them.

        Raises:
            UnknownResource: denied, hidden from this caller or nonexistent: indistinguishable.
            DownstreamError: the server's own error.
            Unavailable: the server did not answer.

        """
        session = request.session
        place = await self.place(session, uri)
        asked = _ServerRequest(place.server, "resources/read", uri, {"uri": place.uri})
        try:
            result = await self._forward(request, asked)
        except DownstreamError as error:
            # A server's own text would tell whether it has what this caller may not know of.
            if error.code in _NOT_FOUND and not self._gate.may_tell(session, place.server, place.uri):
                raise UnknownResource(uri) from None
            raise
        return published_contents(result, place.server) if place.is_public else result

    async def get(self, request: Request, name: str) -> JsonObject:
        """Return the result of a prompt as its server gives it.

        Raises:
            UnknownPrompt: denied, hidden from this caller or nonexistent: indistinguishable.
            DownstreamError, Unavailable: as for :meth:`read`.

        """
        prompt = await self._prompt(request.session, name)
        result = await self._forward(
            request, _ServerRequest(prompt.server, "prompts/get", name, {"name": prompt.address})
        )
        return published_prompt(result, prompt.server) if self.expose.resources != "off" else result

    async def complete(self, request: Request) -> JsonObject:
        """Return the completions of an argument of a prompt or of a resource template.

        Raises:
            UnknownPrompt, UnknownResource, DownstreamError, Unavailable: as for :meth:`get` and :meth:`read`.

        """
        session, ref = request.session, as_object(request.params.get("ref"))
        if ref.get("type") == "ref/prompt":
            name = str(ref.get("name"))
            prompt = await self._prompt(session, name)
            asked = _ServerRequest(prompt.server, _COMPLETE, name, {"ref": {**ref, "name": prompt.address}})
        else:
            uri = str(ref.get("uri"))
            place = await self.place(session, uri)
            if not self._gate.may_tell(session, place.server, place.uri):
                raise UnknownResource(uri)
            asked = _ServerRequest(place.server, _COMPLETE, uri, {"ref": {**ref, "uri": place.uri}})
        if asked.server not in self.indexer.known.completes:
            return {"completion": {"values": []}}
        return await self._forward(request, asked)

    @property
    def may_subscribe(self) -> bool:
        """Whether subscriptions are possible; whether a server grants one is known when it is asked."""
        return "resource" in self.indexer.kinds

    async def subscribe(self, session: Session, uri: str, listener: Listener) -> Release:
        """Call ``listener`` whenever a resource may have changed; return a function that cancels this.

        Raises:
            UnknownResource, DownstreamError, Unavailable: as for :meth:`read`.

        """
        place = await self.place(session, uri)
        with self._reported(session, _ServerRequest(place.server, "resources/subscribe", uri, {})) as sizes:
            subscriptions = self._fleet.resolve(place.server, session).subscriptions
            await subscriptions.add(place.uri, listener)
            sizes.append(0)
        return partial(subscriptions.remove, place.uri, listener)

    async def _forward(self, request: Request, asked: _ServerRequest) -> JsonObject:
        """Forward a request, once."""
        with self._reported(request.session, asked) as sizes:
            server = self._fleet.resolve(asked.server, request.session)
            with server.open_call(request, asked.method, {**request.params, **asked.own}) as call:
                result = await server.calls.run(call)
            sizes.append(weight(result, self._settings.toolcrib.limits.result_max_bytes))
            return result

    @contextmanager
    def _reported(self, session: Session, asked: _ServerRequest) -> Generator[list[int]]:
        """Emit the events of one request; the block sets the size of its answer. Errors name no denied tool."""
        began = time.perf_counter()
        sizes: list[int] = []
        try:
            yield sizes
        except Unavailable as error:
            text = self._tools_gate.without_denied_names(session, str(error), self._tools())
            raise Unavailable(asked.server, text, detail=error.detail) from None
        finally:
            self._events.emit(
                ServerRequest(
                    server=asked.server, method=asked.method, target=asked.target, ok=bool(sizes), bytes=sum(sizes)
                ),
                session=session.label,
                duration_ms=elapsed_ms(began),
            )

    # -- decide ----------------------------------------------------------------------------------

    async def place(self, session: Session, uri: str) -> Place:
        """Return the location of a resource that the session's caller may read, listed or not.

        By its public URI, or by the server's own if exactly one permitted server lists it.

        Raises:
            UnknownResource: there is no such resource for this caller.

        """
        named = own_uri(uri)
        if self.expose.resources != "off":
            if named is not None:
                server, own = named
                if server in self._servers:
                    await self._first_listing(session, [server])
                    if self._gate.may_read(session, server, own):
                        return Place(server, own, uri)
            else:
                await self._first_listing(session, self._servers)
                if (found := self._gate.listing(session, uri)) is not None:
                    return Place(found, uri, uri)
        self._events.emit(ServerRequestDenied(method="resources/read", target=uri), session=session.label)
        raise UnknownResource(uri)

    async def _prompt(self, session: Session, name: str) -> Offer:
        prompt = self._gate.prompt(session, name)
        if prompt is None:
            await self._first_listing(session, [key for key in self._servers if may_belong_to(name, key)])
            prompt = self._gate.prompt(session, name)
        if prompt is None:
            self._events.emit(ServerRequestDenied(method="prompts/get", target=name), session=session.label)
            raise UnknownPrompt(name)
        return prompt

    async def _first_listing(self, session: Session, keys: Collection[str]) -> None:
        """Wait for servers whose lists were never read, until the deadline that began with the process.

        Servers that did not answer at an earlier start, and those that could be permitted nothing, are skipped.
        """
        fleet, permissions = self._fleet, self._gate.permissions(session)
        unlisted = set(self.indexer.unlisted())
        wanted = [key for key in fleet.offering_first if key in unlisted and key in keys]
        wanted = [key for key in wanted if permissions.permits_some_of(key)]
        with anyio.move_on_after(self._first_index_deadline - anyio.current_time()):
            for key in wanted:
                await fleet[key].offers.first.wait()


def _marks(offers: Collection[Offer]) -> list[tuple[str, str]]:
    return [(offer.public, offer.fingerprint) for offer in offers]
