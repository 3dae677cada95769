"""From a server's raw tool list to the catalog that everybody reads: ingest, store, reload, swap.

Knows when rows are trusted, stale or missing; never knows callers, sessions or how a server is reached.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.to_thread

from toolcrib.access.policy import Policy
from toolcrib.config.settings import ServerSettings, Settings
from toolcrib.model import Ingest, Refused
from toolcrib.tools.definitions.ingest import Shaping, ingest
from toolcrib.tools.index.catalog import Catalog
from toolcrib.tools.index.rows import rows_fingerprint
from toolcrib.tools.index.tool_index import Changes, ToolIndex


@dataclass(frozen=True, slots=True)
class CatalogChange:
    """One step of the catalog: what it was, what it is, and which server's list made the difference."""

    server: str
    before: Catalog
    after: Catalog
    rows: Changes


class Indexer:
    """Keeps the index and the catalog in memory in step with what the servers list.

    ``catalog`` is the current snapshot. ``now`` returns wall-clock seconds.
    """

    def __init__(self, settings: Settings, policy: Policy, index: ToolIndex, now: Callable[[], float]) -> None:
        self._settings, self._policy, self._index, self._now = settings, policy, index, now
        self._shaping = Shaping.of(settings)
        self._fingerprints = {key: rows_fingerprint(server.fingerprint) for key, server in settings.servers.items()}
        self._swap = anyio.Lock()
        self._version = 0
        self._on_change: list[Callable[[CatalogChange], None]] = []
        self.refused: dict[str, tuple[Refused, ...]] = {}
        self.catalog = Catalog(())

    def open(self) -> None:
        """Load the last known catalog; rows of servers that are no longer configured are dropped."""
        if self._settings.toolcrib.tool_search.rebuild_cache_on_init:
            self._index.clear()
        self._index.retain(self._fingerprints)
        self.catalog = self._loaded()

    def subscribe(self, on_change: Callable[[CatalogChange], None]) -> None:
        """Have ``on_change`` called on the event loop after each swap of the catalog."""
        self._on_change.append(on_change)

    def unlisted(self) -> list[str]:
        """Return the servers of which nothing trustworthy is indexed: new, changed in the config, or tampered with."""
        rows = self._index.server_rows()
        return [
            key for key, mark in self._fingerprints.items() if key not in rows or rows[key].config_fingerprint != mark
        ]

    def stale(self) -> list[str]:
        """Return the indexed servers whose list is older than ``limits.catalog_max_age_s``."""
        oldest = self._now() - self._settings.toolcrib.limits.catalog_max_age_s
        fresh_enough = set(self.unlisted())
        return [
            key
            for key, row in self._index.server_rows().items()
            if key in self._fingerprints and key not in fresh_enough and row.listed_at < oldest
        ]

    def current(self) -> Catalog:
        """Return the catalog, reloaded first if another process has written to the index meanwhile."""
        if self._index.data_version() != self._version and not self._swap.locked():
            self.catalog = self._loaded()
        return self.catalog

    async def listed(self, server: ServerSettings, raw_tools: list[Any], era: str) -> dict[str, str]:
        """Take in a server's whole list. Return its tools' names with the fingerprints of their records."""
        taken = await anyio.to_thread.run_sync(ingest, server, raw_tools, self._shaping)
        async with self._swap:
            before = self.catalog
            rows, after = await anyio.to_thread.run_sync(self._store, taken, era)
            self.catalog = after
            self._version = self._index.data_version()
            self.refused[server.key] = taken.refused
        for on_change in self._on_change:
            on_change(CatalogChange(server.key, before, after, rows))
        return {record.name: record.fingerprint for record in taken.records}

    def _store(self, taken: Ingest, era: str) -> tuple[Changes, Catalog]:
        fingerprint = self._fingerprints[taken.server]
        changes = self._index.replace(taken, config_fingerprint=fingerprint, now=self._now(), era=era)
        catalog = self._snapshot()
        catalog.prepare()
        return changes, catalog

    def _loaded(self) -> Catalog:
        self._version = self._index.data_version()
        return self._snapshot()

    def _snapshot(self) -> Catalog:
        """Build the catalog, and what every kind of caller seen so far may use of it: ready before it is swapped in."""
        catalog = Catalog(self._index.load(self._fingerprints), self.catalog.generation + 1)
        for view in self._policy.views():
            catalog.permitted(view)
        return catalog
