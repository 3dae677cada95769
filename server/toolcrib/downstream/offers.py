"""Resources and prompts of one server: their lists, and subscriptions, each held once and renewed after a restart."""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Never

import anyio
import anyio.to_thread
import mcp_types as types
from mcp import MCPError

from toolcrib.base.errors import ConnectionLost, DownstreamError, StartFailed, StoreError
from toolcrib.base.json_values import as_object
from toolcrib.base.model import OfferKind
from toolcrib.config.schema import LimitsSection
from toolcrib.config.settings import ServerSettings
from toolcrib.downstream.calls import Calls
from toolcrib.downstream.connection import Connection, Undelivered, capabilities_of, offered_by, rest_s
from toolcrib.downstream.failures import reason_of
from toolcrib.downstream.lists import ListBounds
from toolcrib.downstream.states import Offered, OfferedSkills, RawList

_ELSEWHERE_S = 1.0
"""Between two readings by another connection, which may have to be started for each."""

SKILLS_EXTENSION = "io.modelcontextprotocol/skills"
"""What a server declares that has skills (SEP-2640)."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Method:
    """How a list is requested: the method, and the key of the items in its answer."""

    name: str
    key: str


_METHODS: Mapping[OfferKind, _Method] = {
    "resource": _Method("resources/list", "resources"),
    "template": _Method("resources/templates/list", "resourceTemplates"),
    "prompt": _Method("prompts/list", "prompts"),
}


async def _ignore_offers(_server: ServerSettings, _offered: Offered) -> None:
    """Discard the lists of a server."""


def _ignore_change(_server: str) -> None:
    """Ignore an announced change."""


def _ignore_kinds(_kinds: Collection[OfferKind]) -> None:
    """Ignore announced changes of these lists."""


@dataclass(frozen=True, slots=True)
class OfferSink:
    """Receives what servers offer; only lists of these ``kinds`` are requested.

    ``changed`` gets the key of a server that announces changes on a connection whose lists are not requested.
    ``announced`` gets the kinds of lists whose changes a server has announced, after these were read.
    ``skills`` gets the skills of servers; None: they are not requested.
    """

    kinds: frozenset[OfferKind] = frozenset()
    listed: Callable[[ServerSettings, Offered], Awaitable[None]] = _ignore_offers
    changed: Callable[[str], None] = _ignore_change
    announced: Callable[[Collection[OfferKind]], None] = _ignore_kinds
    skills: Callable[[ServerSettings, OfferedSkills], Awaitable[None]] | None = None


class LiveOffers:
    """The lists of one server. ``first`` is set after the first attempt to read them."""

    def __init__(self, settings: ServerSettings, sink: OfferSink, limits: LimitsSection) -> None:
        self._settings, self._sink, self._limits = settings, sink, limits
        self._clean = settings.redactor.clean
        self.first = anyio.Event()

    def change(self, sink: OfferSink) -> None:
        """Pass what is read from now on to another sink."""
        self._sink = sink

    async def read(self, connection: Connection, kinds: Collection[OfferKind] | None = None) -> None:
        """Read these lists, or all, concurrently, within the time that a start may take, and pass them to the sink."""
        wanted = self._sink.kinds if kinds is None else self._sink.kinds.intersection(kinds)
        lists: dict[OfferKind, RawList] = {}
        try:
            async with anyio.create_task_group() as tasks:
                for kind in wanted:
                    tasks.start_soon(self._read_kind, connection, kind, lists)
            if lists:
                declared = capabilities_of(connection.session)
                resources = declared.resources
                subscribes = bool(resources and (resources.subscribe or connection.era == "modern"))
                await self._sink.listed(self._settings, Offered(lists, subscribes, declared.completions is not None))
            # Whoever waits for the lists does not wait for skills, which take a request for each file.
            self.first.set()
            if kinds is None or "resource" in kinds:
                await self._read_skills(connection, lists)
        except StoreError as error:
            _log.warning("what %s offers could not be stored: %s %s", self._settings.key, error, error.detail)
        except StartFailed:
            pass  # its entry has been changed or removed: nobody is offered it, and calls under way go on
        finally:
            self.first.set()

    async def follow(self, connection: Connection) -> Never:
        """Read all lists, then each again soon after an announced change, for a bounded share of the time."""
        kinds: Collection[OfferKind] | None = None
        while True:
            began = anyio.current_time()
            await self.read(connection, kinds)
            if kinds:
                self._sink.announced(kinds)
            pause_s = rest_s(anyio.current_time() - began)
            await connection.announcements.offers_changed.wait()
            if self._sink.kinds:
                await anyio.sleep(pause_s)
                kinds = connection.announcements.take()
            else:
                # Taken before the pause: what is announced during it is read once more.
                kinds = connection.announcements.take()
                self._sink.changed(self._settings.key)
                await anyio.sleep(_ELSEWHERE_S)

    async def _read_kind(self, connection: Connection, kind: OfferKind, lists: dict[OfferKind, RawList]) -> None:
        if kind not in offered_by(connection.session):
            lists[kind] = RawList()
            return
        method, timeout_s = _METHODS[kind], self._settings.options.connect_timeout_s
        try:
            with anyio.fail_after(timeout_s):
                lists[kind] = await connection.read_list(method.name, method.key, ListBounds.of_offers(self._limits))
        except TimeoutError:
            self._log_unusable(method, f"no answer within {timeout_s:g} s")
        except (MCPError, ValueError) as error:
            if isinstance(error, MCPError) and error.code == types.METHOD_NOT_FOUND:
                lists[kind] = RawList()  # there are servers with resources that do not know of templates
            else:
                self._log_unusable(method, reason_of(error))

    async def _read_skills(self, connection: Connection, lists: dict[OfferKind, RawList]) -> None:
        """Read the skills that are among the resources, or that the server lists, and pass them to the sink."""
        take = self._sink.skills
        if take is None:
            return
        if "resource" not in lists:
            await self._read_kind(connection, "resource", lists)
        resources = lists.get("resource")
        if resources is None:  # it could not be read, which says nothing about skills
            return
        offered = OfferedSkills()
        if _may_have_skills(connection, resources.items):
            read_skills = await anyio.to_thread.run_sync(_skill_reader)
            timeout_s = self._settings.options.connect_timeout_s
            offered = await read_skills(connection, resources.items, self._limits, timeout_s)
        for each in offered.refused:
            reason = self._clean(each.reason)
            _log.warning("a skill of %s is left out: %s: %s", self._settings.key, self._clean(each.name), reason)
        if resources.cut and offered.is_complete:
            offered = replace(offered, is_complete=False)
        await take(self._settings, offered)

    def _log_unusable(self, method: _Method, reason: str) -> None:
        _log.warning("the answer of %s to %s cannot be used: %s", self._settings.key, method.name, self._clean(reason))


def _skill_reader() -> Callable[[Connection, Sequence[Any], LimitsSection, float], Awaitable[OfferedSkills]]:
    from toolcrib.downstream.skills import read_skills  # noqa: PLC0415 - few servers have any

    return read_skills


def _may_have_skills(connection: Connection, resources: Iterable[Any]) -> bool:
    """Return whether a server declares skills, or lists resources of the kind that they have."""
    if SKILLS_EXTENSION in (capabilities_of(connection.session).extensions or {}):
        return True
    uris = (as_object(item).get("uri") for item in resources)
    return any(isinstance(uri, str) and uri.startswith("skill://") for uri in uris)


_AGAIN_S = 5.0
_SHORT_PAUSE_S = 30.0

Listener = Callable[[], None]
"""Called when the subscribed resource may have changed."""


class Subscriptions:
    """The subscriptions to resources of one server. ``connection`` starts a sleeping server, ``live`` does not."""

    def __init__(
        self, calls: Calls, connection: Callable[[], Awaitable[Connection]], live: Callable[[], Connection | None]
    ) -> None:
        self._calls, self._connection, self._live = calls, connection, live
        self._listeners: dict[str, list[Listener]] = {}
        self._changing = anyio.Lock()
        self._is_reviving = False

    @property
    def are_needed(self) -> bool:
        """Whether there are any: such a server is not idle."""
        return bool(self._listeners)

    async def add(self, uri: str, listener: Listener) -> None:
        """Add a listener to a resource; the first one subscribes to it, which starts the server.

        Raises:
            DownstreamError, Unavailable: as for any request; then there is no subscription.

        """
        async with self._changing:
            if uri not in self._listeners:
                # Under the lock, so that concurrent listeners share one subscription.
                await self._calls.deliver("resources/subscribe", lambda connection: connection.subscribe(uri))
            self._listeners.setdefault(uri, []).append(listener)

    async def remove(self, uri: str, listener: Listener) -> None:
        """Remove a listener; the last one ends the subscription."""
        async with self._changing:
            listeners = self._listeners[uri]
            listeners.remove(listener)
            if listeners:
                return
            del self._listeners[uri]
            if (connection := self._live()) is not None:
                with suppress(DownstreamError, ConnectionLost, Undelivered), anyio.move_on_after(_SHORT_PAUSE_S):
                    await connection.unsubscribe(uri)

    def notify_listeners(self, updated: str) -> None:
        """Call the listeners of a changed resource, and of those that it is part of."""
        for uri, listeners in self._listeners.items():
            if updated.startswith(uri):
                for listener in listeners:
                    listener()

    async def renew(self, connection: Connection) -> None:
        """Subscribe again on a new connection, and report each resource as possibly changed."""
        for uri in list(self._listeners):
            with suppress(DownstreamError, ConnectionLost, Undelivered), anyio.move_on_after(_SHORT_PAUSE_S):
                await connection.subscribe(uri)
            # Changes while it was down were not announced.
            self.notify_listeners(uri)

    async def revive(self) -> None:
        """Start a server that has ended again, for as long as there are subscriptions."""
        if self._is_reviving:
            return
        self._is_reviving = True
        try:
            while self._listeners:
                # Its reason is in the status; a later attempt may succeed.
                with suppress(StartFailed):
                    await self._connection()
                    return
                await anyio.sleep(_AGAIN_S)
        finally:
            self._is_reviving = False
