"""From a server's raw tool list to the catalog that everybody reads: ingest, store, reload, swap."""

import logging
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, Never

import anyio
import anyio.to_thread

from toolcrib.base.errors import StoreError
from toolcrib.base.model import Ingest, JsonObject, Refused
from toolcrib.base.signals import ChangeSignal
from toolcrib.catalog.index import Changes, ServerRow, ToolIndex, rows_fingerprint
from toolcrib.catalog.snapshot import Catalog
from toolcrib.config.settings import HttpTarget, ServerSettings, Settings
from toolcrib.downstream.programs import Program
from toolcrib.policy.rules import Policy
from toolcrib.policy.sessions import Session

if TYPE_CHECKING:
    from toolcrib.catalog.definitions import Fits
    from toolcrib.catalog.ingest import Shaping

_log = logging.getLogger(__name__)


_LARGE_LIST = 200
"""A list of this size takes so long to be validated that only one such list is processed at a time; small ones need not
wait.
"""

_HOUR_S = 3600.0
"""How long the list of a server that is reached by HTTP counts as its own: nothing tells of an upgrade there."""

Outdated = Literal["program", "hour", "age"]
"""Why a known list is read again, as in the event ``list_outdated``."""

_REST_S = 0.25
"""Minimum interval between two checks for changes by other processes, in seconds."""


@dataclass(frozen=True, slots=True)
class CatalogChange:
    """One step of the catalog: its previous and its current state, and the server whose list made the difference.

    ``server`` and ``rows`` are None unless the change came from a list received by this process. ``uses`` is given if
    the server has said that its list changed: it returns whether a session uses the connection on which it did. Both
    states are then the one after that list was read.
    """

    server: str | None
    before: Catalog
    after: Catalog
    rows: Changes | None
    uses: Callable[[Session], bool] | None = None


@dataclass(frozen=True, slots=True)
class _Stored:
    """A stored list: ``generation`` and ``version`` are those of the index before."""

    generation: int
    version: int
    rows: Changes
    refused: tuple[Refused, ...]


class Indexer:
    """Keeps the index and the in-memory catalog up to date with servers' lists and other processes' changes.

    ``catalog`` is the current snapshot; it is immutable and may be read from any thread. ``now`` returns wall-clock
    seconds; ``fits`` validates examples; ``embed``, if there is a model, encodes the texts of a server's stored tools.
    ``closed`` are servers of which the policy permits nobody anything: there is
    no reason to start them.
    """

    def __init__(
        self,
        settings: Settings,
        policy: Policy,
        index: ToolIndex,
        now: Callable[[], float],
        fits: "Fits",
        embed: Callable[[str], None] | None = None,
    ) -> None:
        self._settings, self._policy, self._index, self._now = settings, policy, index, now
        self._fits, self._embed = fits, embed
        self._fingerprints = {key: rows_fingerprint(server.fingerprint) for key, server in settings.servers.items()}
        self.closed = frozenset(key for key in settings.servers if not policy.anyone.permits_some_of(key))
        # Each is done by one task at a time, without a thread for each waiting list: one update or swap covers all
        # lists that are ready.
        self._storing, self._filling, self._swap = anyio.Lock(), anyio.Lock(), anyio.Lock()
        self._unfilled: set[str] = set()
        self._ready: dict[str, _Stored] = {}
        # Compute-bound threads take turns, so further ones slow down concurrent searches, and speed up no list.
        self._turns = {is_large: anyio.CapacityLimiter(1) for is_large in (False, True)}
        self._version = self._generation = 0
        self._look_wanted = ChangeSignal()
        self._on_change: list[Callable[[CatalogChange], None]] = []
        self._prepared_by: list[Callable[[Catalog], None]] = []
        self.refused: dict[str, tuple[Refused, ...]] = {}
        self.catalog = Catalog(())

    @cached_property
    def _shaping(self) -> "Shaping":
        from toolcrib.catalog.ingest import Shaping  # noqa: PLC0415 - a start whose catalog is known ingests no list

        return Shaping.from_settings(self._settings, self._fits)

    def open(self) -> None:
        """Load the last known catalog; rows of servers that are no longer configured are deleted."""
        if self._settings.toolcrib.tool_search.rebuild_cache_on_init:
            self._index.clear()
        self._index.retain(self._fingerprints)
        self.load()

    def load(self) -> None:
        """Load the last known catalog, read-only."""
        self._version, self._generation = self._index.data_version(), self._index.generation
        self.catalog = self._snapshot()

    def subscribe(self, on_change: Callable[[CatalogChange], None]) -> None:
        """Call ``on_change`` on the event loop after each swap of the catalog."""
        self._on_change.append(on_change)

    def prepare_by(self, prepare: Callable[[Catalog], None]) -> None:
        """Call ``prepare`` in a worker thread with each new catalog, before it is published."""
        self._prepared_by.append(prepare)

    def unsubscribe(self) -> None:
        """Notify nobody any more: another config is in use."""
        self._on_change.clear()
        self._prepared_by.clear()

    def unlisted(self) -> list[str]:
        """Return the servers without trustworthy index rows: new, changed in the config, or tampered with.

        Servers closed to everyone are not included.
        """
        rows = self._index.server_rows()
        wanted = [(key, mark) for key, mark in self._fingerprints.items() if key not in self.closed]
        return [key for key, mark in wanted if key not in rows or rows[key].config_fingerprint != mark]

    def outdated(self) -> dict[str, Outdated]:
        """Return the indexed servers whose list may be another by now, and why. Blocks: looks at their files.

        None are if ``limits.catalog_max_age_s`` is infinite.
        """
        if math.isinf(self._settings.toolcrib.limits.catalog_max_age_s):
            return {}
        skipped = {*self.unlisted(), *self.closed}
        found: dict[str, Outdated] = {}
        for key, row in self._index.server_rows().items():
            if key in self._fingerprints and key not in skipped and (reason := self._why_outdated(key, row)):
                found[key] = reason
        return found

    def _why_outdated(self, key: str, row: ServerRow) -> Outdated | None:
        # A time equally far in the future comes from a wrong clock, and counts as old.
        age_s, target = abs(self._now() - row.listed_at), self._settings.servers[key].target
        if age_s > self._settings.toolcrib.limits.catalog_max_age_s:
            return "age"
        if isinstance(target, HttpTarget):
            return "hour" if age_s > _HOUR_S else None
        return "program" if row.program is not None and row.program != Program.find(target).mark() else None

    def current(self) -> Catalog:
        """Return the current catalog. Never waits; from any thread."""
        return self.catalog

    def schedule_reload(self) -> None:
        """Schedule a reload of the catalog if another process has written the index. Never waits; on the event loop."""
        self._look_wanted.event.set()

    async def follow(self, list_again: Callable[[Collection[str]], None]) -> Never:
        """Reload the catalog on request if it has changed on disk; at most a few times a second.

        ``list_again`` is called with the servers whose rows were lost when the index was replaced, or edited by another
        program.
        """
        while True:
            await self._look_wanted.wait()
            try:
                await self._catch_up(list_again)
            except Exception as error:  # barrier: the follower; the known catalog is served, the next check retries
                _log.warning("the catalog could not be reloaded: %s", error, exc_info=error)
            await anyio.sleep(_REST_S)

    async def _catch_up(self, list_again: Callable[[Collection[str]], None]) -> None:
        async with self._swap:
            before, generation = self.catalog, self._generation
            version, after = await anyio.to_thread.run_sync(self._reloaded)
            if after is None:
                return
            self._version, self.catalog = version, after
            self._generation = self._index.generation
        self._notify(CatalogChange(None, before, after, None))
        dropped = {tool.server for tool in before.tools} - {tool.server for tool in after.tools}
        if self._generation != generation or dropped:
            list_again(await anyio.to_thread.run_sync(self.unlisted))

    async def listed(
        self,
        server: ServerSettings,
        raw_tools: list[Any],
        era: str,
        instructions: str = "",
        program: str | None = None,
        extensions: JsonObject | None = None,
        *,
        cut: str = "",
        is_passing: bool = False,
    ) -> dict[str, str]:
        """Store a server's list, and what it tells a model of itself. ``cut`` says why there is more that is not known.

        One that is only cut for the moment, ``is_passing``, takes nothing away: tools do not come and go with a bad
        moment.

        Return its tools' names with the fingerprints of their records. ``program`` is the mark of the program that
        listed them (:class:`Program`), if anything is known of it. ``extensions`` are those that clients are told of.
        """
        taken = await self._shaped(server, raw_tools, instructions)
        taken = replace(taken, cut=cut or taken.cut)
        async with self._storing:
            stored = await anyio.to_thread.run_sync(
                partial(self._store, taken, era, program, extensions or {}, keeps_others=is_passing)
            )
        # What is stored is published too, even if its server is stopped now: nobody would list it again.
        with anyio.CancelScope(shield=True):
            await self._publish(server.key, stored)
        return {record.name: record.fingerprint for record in taken.records}

    async def _publish(self, server: str, stored: _Stored) -> None:
        # Before the list is published: a search waits for what its catalog lacks. Other lists are stored meanwhile.
        # Lists that wait are filled together, so that they share a publication too.
        self._unfilled.add(server)
        async with self._filling:
            if server in self._unfilled:
                servers, self._unfilled = self._unfilled, set()
                await anyio.to_thread.run_sync(self._fill, servers)
        if unpublished := self._ready.get(server):
            stored = replace(stored, rows=stored.rows.after(unpublished.rows))
        self._ready[server] = stored
        async with self._swap:
            if self._ready.get(server) is stored:
                await self._show_ready()
        if self._index.generation != self._generation:
            self.schedule_reload()  # the rows of the other servers were lost with the file

    async def _show_ready(self) -> None:
        """Publish a catalog with every list that is ready. Each publication builds a new one from all tools.

        So lists that arrive meanwhile share the next one. The lock for it must be held.
        """
        lists, before = dict(self._ready), self.catalog
        self._version, self.catalog = await anyio.to_thread.run_sync(self._known_with, lists)
        for server, stored in lists.items():
            if self._ready[server] is stored:
                del self._ready[server]
            self.refused[server] = stored.refused
            self._notify(CatalogChange(server, before, self.catalog, stored.rows))
            before = self.catalog

    def announced(self, server: str, uses: Callable[[Session], bool]) -> None:
        """Report that a server has announced another list, which was read since; ``uses`` as in the change."""
        self._notify(CatalogChange(server, self.catalog, self.catalog, None, uses))

    async def compared(self, server: ServerSettings, raw_tools: list[Any]) -> tuple[dict[str, str], dict[str, str]]:
        """Return the result of :meth:`listed`, and the same of what is indexed; store nothing.

        For a connection that is not shared: its list only determines what is called over it.
        """
        taken = await self._shaped(server, raw_tools)
        tools = {record.name: record.fingerprint for record in taken.records}
        indexed = {tool.name: tool.fingerprint for tool in self.catalog.tools if tool.server == server.key}
        return tools, indexed

    async def _shaped(self, server: ServerSettings, raw_tools: list[Any], instructions: str = "") -> Ingest:
        turn = self._turns[len(raw_tools) >= _LARGE_LIST]
        return await anyio.to_thread.run_sync(self._taken, server, raw_tools, instructions, limiter=turn)

    def _taken(self, server: ServerSettings, raw_tools: list[Any], instructions: str) -> Ingest:
        from toolcrib.catalog.ingest import ingest  # noqa: PLC0415 - as above

        return ingest(server, raw_tools, self._shaping, instructions)

    def _notify(self, change: CatalogChange) -> None:
        for on_change in self._on_change:
            on_change(change)

    def _store(
        self, taken: Ingest, era: str, program: str | None, extensions: JsonObject, *, keeps_others: bool
    ) -> _Stored:
        generation, version = self._index.generation, self._index.data_version()
        fingerprint = self._fingerprints[taken.server]
        rows = self._index.replace(
            taken,
            config_fingerprint=fingerprint,
            now=self._now(),
            era=era,
            program=program,
            extensions=extensions,
            keeps_others=keeps_others,
        )
        return _Stored(generation, version, rows, taken.refused)

    def _known_with(self, lists: Mapping[str, _Stored]) -> tuple[int, Catalog]:
        """Return the catalog with new lists of these servers, and the version of the index it shows."""
        for stored in lists.values():
            if self._index.generation != stored.generation:
                # The next check finds another file, and lists the other servers again.
                return stored.version, self._prepared()
        version = self._index.data_version()  # before the rows are read: concurrent changes are found by the next check
        if version != self._version:
            return version, self._prepared()
        return version, self._with_lists(lists)

    def _fill(self, servers: Iterable[str]) -> None:
        """Build stems and vectors of what was stored. If that fails the list is still published: a search tries again.

        The first list that this process stores waits until the model is loaded.
        """
        try:
            self._index.fill_stems(self._settings.toolcrib.limits.ranked_in_memory)
        except StoreError as error:
            _log.warning("the words of new tools are not all indexed yet; a search does the rest: %s", error)
        if self._embed:
            for server in servers:
                self._embed(server)

    def _with_lists(self, servers: Collection[str]) -> Catalog:
        """Build the catalog with new lists of these servers; nobody has changed the others."""
        tools = self._index.load({server: self._fingerprints[server] for server in servers})
        withheld = self._index.withheld(self._fingerprints, self.closed)
        known = self._fingerprints
        said = self._index.instructions(known), self._index.extensions(known), self._index.incomplete(known)
        catalog = self.catalog.with_lists(servers, tools, withheld, *said)
        catalog.prepare()
        return self._permitted(catalog)

    def _reloaded(self) -> tuple[int, Catalog | None]:
        version = self._index.data_version()
        is_known = version == self._version and self._index.generation == self._generation
        return version, None if is_known else self._prepared()

    def _prepared(self) -> Catalog:
        catalog = self._snapshot()
        catalog.prepare()
        return catalog

    def _snapshot(self) -> Catalog:
        """Build the catalog, and the permitted tools of every kind of caller seen so far, before it is published."""
        tools = self._index.load(self._fingerprints)
        withheld = self._index.withheld(self._fingerprints, self.closed)
        catalog = Catalog(
            tools,
            self.catalog.generation + 1,
            withheld,
            instructions=self._index.instructions(self._fingerprints),
            extensions=self._index.extensions(self._fingerprints),
            incomplete=self._index.incomplete(self._fingerprints),
        )
        return self._permitted(catalog)

    def _permitted(self, catalog: Catalog) -> Catalog:
        for permissions in self._policy.known_permissions():
            catalog.permitted(permissions)
        for prepare in self._prepared_by:
            prepare(catalog)
        return catalog
