"""From a server's raw lists to the offers that everybody reads: ingest, store, reload, swap.

Knows which lists are known, old or missing; never knows callers, sessions or how a server is reached.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Never

import anyio
import anyio.to_thread

from toolcrib.base.errors import StoreError
from toolcrib.base.model import OfferKind, Refused
from toolcrib.config.settings import ServerSettings, Settings
from toolcrib.downstream.states import Offered, RawList
from toolcrib.offers.catalog import KINDS, OfferCatalog
from toolcrib.offers.index import Known, OfferIndex, OfferRow
from toolcrib.offers.ingest import ingest
from toolcrib.offers.records import Offer, OfferList, offer_of
from toolcrib.policy.rules import Policy

_FORMAT = 1
"""Increased when the row of an unchanged offer would differ."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OffersChange:
    """One step: the previous and the current offers."""

    before: OfferCatalog
    after: OfferCatalog


def kinds_exposed(settings: Settings) -> frozenset[OfferKind]:
    """Return the kinds that clients can get; none if there is no server."""
    if not settings.servers:
        return frozenset()
    expose = settings.toolcrib.gate.expose
    resources: tuple[OfferKind, ...] = () if expose.resources == "off" else ("resource", "template")
    prompts: tuple[OfferKind, ...] = () if expose.prompts == "off" else ("prompt",)
    return frozenset(resources + prompts)


class OfferIndexer:
    """Keeps the index and the in-memory offers up to date with servers' lists and other processes' changes.

    ``catalog`` and ``known`` are the current snapshot; both are immutable. ``now`` returns wall-clock seconds.
    """

    def __init__(self, settings: Settings, policy: Policy, index: OfferIndex, now: Callable[[], float]) -> None:
        self._index, self._now = index, now
        self._anyone = policy.anyone
        self._limits = settings.toolcrib.limits
        self.kinds = kinds_exposed(settings)
        self._fingerprints = {key: self._fingerprint(server) for key, server in settings.servers.items()}
        self._swap = anyio.Lock()
        self._look_wanted = anyio.Event()
        self._on_change: list[Callable[[OffersChange], None]] = []
        self.known, self.catalog = Known(), OfferCatalog()

    def _fingerprint(self, server: ServerSettings) -> str:
        limits = self._limits
        return f"{_FORMAT}.{limits.offers_per_server}.{limits.offers_max_bytes}.{server.fingerprint}"

    def load(self) -> None:
        """Load the index. Blocks."""
        if self.kinds:
            self.known, self.catalog = self._snapshot()

    def subscribe(self, on_change: Callable[[OffersChange], None]) -> None:
        """Call ``on_change`` on the event loop after each swap."""
        self._on_change.append(on_change)

    def unsubscribe(self) -> None:
        """Notify nobody any more: another config is in use."""
        self._on_change.clear()

    def unlisted(self) -> list[str]:
        """Return the servers with an unknown list."""
        return [key for key in self._fingerprints if any((key, kind) not in self.known.lists for kind in self.kinds)]

    def knows_resources(self, server: str) -> bool:
        """Return whether the lists needed to decide about a URI of the server are known."""
        return (server, "resource") in self.known.lists and (server, "template") in self.known.lists

    def refused(self, server: str) -> tuple[Refused, ...]:
        """Return the offers of a server that were refused, and why."""
        lists = self.known.lists
        return tuple(each for kind in KINDS if (server, kind) in lists for each in lists[server, kind].refused)

    async def listed(self, server: ServerSettings, offered: Offered) -> None:
        """Store a server's lists."""
        async with self._swap:
            before = self.catalog
            self.known, self.catalog = await anyio.to_thread.run_sync(self._store, server, offered)
        self._tell(OffersChange(before, self.catalog))

    def look(self) -> None:
        """Schedule a reload: another process has written to the index. Never waits; on the event loop."""
        self._look_wanted.set()

    async def follow(self) -> Never:
        """Reload the offers on request."""
        while True:
            await self._look_wanted.wait()
            self._look_wanted = anyio.Event()
            try:
                async with self._swap:
                    before = self.catalog
                    self.known, self.catalog = await anyio.to_thread.run_sync(self._snapshot)
                self._tell(OffersChange(before, self.catalog))
            except StoreError as error:  # the known offers are served, and the next check tries again
                _log.warning("resources and prompts could not be reloaded: %s %s", error, error.detail)

    def _tell(self, change: OffersChange) -> None:
        for on_change in self._on_change:
            on_change(change)

    def _store(self, server: ServerSettings, offered: Offered) -> tuple[Known, OfferCatalog]:
        lists = [self._taken(server.key, kind, raw) for kind, raw in offered.lists.items()]
        flags = offered.subscribes, offered.completes
        fingerprint = self._fingerprints[server.key]
        self._index.replace(server.key, lists, flags, config_fingerprint=fingerprint, now=self._now())
        return self._snapshot()

    def _taken(self, server: str, kind: OfferKind, raw: RawList) -> OfferList:
        taken = ingest(server, kind, raw.items, self._anyone, self._limits)
        if not raw.cut:
            return taken
        return OfferList(kind, taken.records, (*taken.refused, Refused(f"more {kind}s", raw.cut)), taken.denied)

    def _snapshot(self) -> tuple[Known, OfferCatalog]:
        known = self._index.load(self._fingerprints)
        offers = (self._offer(row) for row in known.rows if row.kind in self.kinds)
        return known, OfferCatalog(offers, self.catalog.generation + 1, _denied(known))

    def _offer(self, row: OfferRow) -> Offer:
        offer = offer_of(row.server, row.kind, row, self._limits.name_max)
        return Offer(offer.server, offer.kind, offer.name, offer.address, offer.public, row.id, row.size, row.hash)


def _denied(known: Known) -> Mapping[str, tuple[Iterable[str], Iterable[str]]]:
    """Return, by server, the digests of denied URIs, and denied templates."""
    found: defaultdict[str, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for (server, kind), each in known.lists.items():
        if kind != "prompt":
            found[server][kind == "template"].extend(each.denied)
    return dict(found)
