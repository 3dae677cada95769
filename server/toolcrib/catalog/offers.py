"""From a server's raw lists to the offers that everybody reads: ingest, store, reload, swap."""

import json
import logging
import sqlite3
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import islice
from typing import Any, Never, cast

import anyio
import anyio.to_thread

from toolcrib.base.errors import StoreError
from toolcrib.base.json_values import as_list, as_object, json_type, levels
from toolcrib.base.model import JsonObject, OfferKind, Refused
from toolcrib.base.names import name_digest, public_name
from toolcrib.base.signals import ChangeSignal
from toolcrib.base.text import one_line, sanitize, truncate, unjoined
from toolcrib.base.uris import literals, may_expand_to, public_uri, resolved
from toolcrib.catalog.definitions import (
    DEPTH_MAX,
    LISTED_AGAIN,
    NAME_MAX,
    DefinitionError,
    Path,
    encodable,
    refuse_unseen,
    sharing,
    texts_in_value,
    valid_icons,
    valid_meta,
    valid_text,
    with_text,
)
from toolcrib.config.schema import LimitsSection
from toolcrib.config.settings import ServerSettings, Settings
from toolcrib.downstream.states import Offered, RawList
from toolcrib.policy.rules import Permissions, Policy
from toolcrib.storage.rows import TEXTS, objects
from toolcrib.storage.store import Store, damaged_rows, to_json, upsert


@dataclass(frozen=True, slots=True)
class Offer:
    """A resource, a resource template or a prompt of a server, without its definition.

    ``address`` is the server's own URI, URI template or prompt name, ``public`` the published one. ``row`` is its row
    in the index. ``size`` is that of the definition as JSON, in bytes; ``fingerprint`` its hash.
    """

    server: str
    kind: OfferKind
    name: str
    address: str
    public: str
    row: int = 0
    size: int = 0
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class OfferRecord:
    """All that the index stores of one offer. ``definition`` is the server's own, repaired and cleaned if necessary."""

    name: str
    address: str
    definition: JsonObject


@dataclass(frozen=True, slots=True)
class OfferList:
    """One list of a server, ready for the index.

    ``denied`` identifies what nobody may use, so that it cannot be read by its URI: digests of URIs or names, or
    templates. ``keeps_others``: what it lacks stays as it was listed under the same config.
    """

    kind: OfferKind
    records: tuple[OfferRecord, ...]
    refused: tuple[Refused, ...]
    denied: tuple[str, ...]
    keeps_others: bool = False


def offer_of(
    server: str,
    kind: OfferKind,
    name_max: int,
    name: str,
    address: str,
    row: int = 0,
    size: int = 0,
    fingerprint: str = "",
) -> Offer:
    """Return an offer with its public name, of at most ``name_max`` characters, or its public URI."""
    public = public_name(server, address, name_max) if kind == "prompt" else public_uri(server, address)
    return Offer(server, kind, name, address, public, row, size, fingerprint)


def names_of(offer: Offer) -> list[tuple[str, str]]:
    """Return every name by which a policy may refer to an offer, each with its public form; its own name first."""
    server, name, address = offer.server, offer.name, offer.address
    if offer.kind == "prompt":
        return [(name, offer.public)]
    uris = dict.fromkeys((address, resolved(address)))
    return [(name, public_name(server, name)), *((uri, public_uri(server, uri)) for uri in uris)]


def uri_digest(uri: str) -> str:
    """Return the digest by which a denied URI is recognized in any spelling."""
    return name_digest(resolved(uri))


@dataclass(frozen=True, slots=True)
class Template:
    """A resource template with its literal parts. ``offer`` is None for one that nobody may use."""

    parts: tuple[str, ...]
    offer: Offer | None


@dataclass(frozen=True, slots=True, eq=False)
class PermittedOffers:
    """What callers with the same permissions may use, by kind, sorted by public URI or name."""

    by_kind: Mapping[OfferKind, tuple[Offer, ...]]

    @property
    def by_server(self) -> Mapping[tuple[str, OfferKind], int]:
        """How many there are, by server and kind."""
        return Counter((offer.server, offer.kind) for offers in self.by_kind.values() for offer in offers)

    def after(self, kind: OfferKind, public: str) -> Sequence[Offer]:
        """Return those after a public URI or name; the empty string precedes all."""
        offers = self.by_kind[kind]
        return offers[bisect_right(offers, public, key=_public) :] if public else offers


class OfferCatalog:
    """All offers at one moment. ``generation`` distinguishes snapshots; it is larger for a later one.

    ``denied`` are, by server, digests of the URIs, and the templates, that nobody may use.
    """

    def __init__(
        self,
        offers: Iterable[Offer] = (),
        generation: int = 0,
        denied: Mapping[str, tuple[Iterable[str], Iterable[str]]] | None = None,
    ) -> None:
        self.generation = generation
        self.offers = tuple(sorted(offers, key=_public))
        self._permitted: dict[tuple[tuple[int, ...], frozenset[str]], PermittedOffers] = {}
        self._prompts = {offer.public: offer for offer in self.offers if offer.kind == "prompt"}
        self._listed = {(offer.server, offer.address) for offer in self.offers if offer.kind != "prompt"}
        self._resolved: defaultdict[tuple[str, str], list[Offer]] = defaultdict(list)
        self._by_uri: defaultdict[str, list[Offer]] = defaultdict(list)
        self._templates: defaultdict[str, list[Template]] = defaultdict(list)
        self._denied_uris = {server: frozenset(uris) for server, (uris, _) in (denied or {}).items()}
        for offer in self.offers:
            self._add(offer)
        for server, (_, templates) in (denied or {}).items():
            self._templates[server] += [Template(literals(each), None) for each in templates]

    def _add(self, offer: Offer) -> None:
        if offer.kind == "resource":
            self._resolved[offer.server, resolved(offer.address)].append(offer)
            self._by_uri[offer.address].append(offer)
        elif offer.kind == "template":
            self._templates[offer.server].append(Template(literals(offer.address), offer))

    def prompt(self, public: str) -> Offer | None:
        """Return the prompt with exactly this public name."""
        return self._prompts.get(public)

    def has(self, server: str, uri: str) -> bool:
        """Return whether a server lists a resource, or a template, with exactly this URI of its own."""
        return (server, uri) in self._listed

    def templates(self, server: str, uri: str) -> list[Template]:
        """Return the templates of a server that may expand to this URI."""
        spellings = {uri, resolved(uri)}
        found = self._templates.get(server, ())
        return [each for each in found if any(may_expand_to(each.parts, spelled) for spelled in spellings)]

    def listing(self, uri: str) -> list[Offer]:
        """Return the resources with this URI, of any server."""
        return list(self._by_uri.get(uri, ()))

    def permitted(self, permissions: Permissions, open_servers: Collection[str]) -> PermittedOffers:
        """Return what callers with these permissions may use of these servers; cached.

        Permissions are compared by key, so all of them must belong to the same policy.
        """
        key = permissions.key, frozenset(open_servers)
        permitted = self._permitted.get(key)
        if permitted is None:
            of_them = [each for each in self.offers if each.server in key[1] and permits(permissions, each)]
            by_kind: dict[OfferKind, tuple[Offer, ...]] = {
                kind: tuple(each for each in of_them if each.kind == kind) for kind in KINDS
            }
            permitted = self._permitted[key] = PermittedOffers(by_kind)
        return permitted

    def may_read(self, permissions: Permissions, server: str, uri: str) -> bool:
        """Return whether callers with these permissions may read a URI of an open server, listed or not.

        A listed resource is decided by its name and its URI. Any other URI must be permitted in every way a server
        might interpret it, must not be denied by name, and must not match a denied template.
        """
        if permissions.unrestricted:
            return True
        # Decided by URI, because a server may read one that it does not list.
        plain = resolved(uri)
        listed = self._resolved.get((server, plain), ())
        if uri_digest(uri) in self._denied_uris.get(server, ()) or not all(
            permits(permissions, each) for each in listed
        ):
            return False
        return bool(listed and self.has(server, uri)) or self._may_read_unlisted(permissions, server, uri, plain)

    def _may_read_unlisted(self, permissions: Permissions, server: str, uri: str, plain: str) -> bool:
        templates = [each.offer for each in self.templates(server, uri)]
        if any(each is None or not permits(permissions, each) for each in templates):
            return False
        spelled = [(each, public_uri(server, each)) for each in (uri, plain)]
        if all(permissions.permits_by(server, [each]) for each in spelled):
            return True
        # A template that is allowed by name allows every URI it expands to, unless the URI itself is denied.
        names = [names_of(each)[0] for each in templates if each]
        return bool(names) and not permissions.denies(server, spelled) and permissions.permits_by(server, names)


KINDS: tuple[OfferKind, ...] = ("resource", "template", "prompt")


def permits(permissions: Permissions, offer: Offer) -> bool:
    """Return whether a policy permits an offer: it must not be denied by name or URI, and be allowed by either."""
    return permissions.permits_by(offer.server, names_of(offer))


def _public(offer: Offer) -> str:
    return offer.public


_REFUSED = objects(Refused)


@dataclass(frozen=True, slots=True)
class KnownList:
    """The state of one list of a server besides its items."""

    listed_at: float
    refused: tuple[Refused, ...]
    denied: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Known:
    """The trustworthy index contents of some servers.

    ``lists`` has every list that was read under the current config. ``subscribes`` and ``completes`` are the servers
    that declare resource subscriptions, and completions.
    """

    offers: tuple[Offer, ...] = ()
    lists: Mapping[tuple[str, OfferKind], KnownList] = field(default_factory=dict[tuple[str, OfferKind], KnownList])
    subscribes: frozenset[str] = frozenset()
    completes: frozenset[str] = frozenset()


class OfferIndex:
    """The offers of all servers as of their last listing. Safe to use from several threads.

    Every method raises StoreError if the file cannot be read or written.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def data_version(self) -> int:
        """Return a number that changes when another process has written to the file; never waits."""
        return self._store.data_version()

    def replace(
        self, server: str, lists: Sequence[OfferList], flags: tuple[bool, bool], *, config_fingerprint: str, now: float
    ) -> None:
        """Replace the rows of these lists of a server, in one transaction; unchanged rows stay untouched.

        ``flags`` are whether it declares subscriptions and completions. ``now`` is in seconds since the epoch.
        """

        def replace(connection: sqlite3.Connection) -> None:
            for new in lists:
                each = _joined(connection, server, new, config_fingerprint) if new.keeps_others else new
                _replace(connection, server, each)
                _note(connection, server, each, config_fingerprint, now)
            stored = connection.execute(
                "SELECT subscribes, completes FROM offer_servers WHERE server = ?", (server,)
            ).fetchone()
            if stored != flags:
                connection.execute("INSERT OR REPLACE INTO offer_servers VALUES (?, ?, ?)", (server, *flags))

        self._store.change(replace, owed=f"offers of {server}")

    def load(self, servers: Mapping[str, str], name_max: int) -> Known:
        """Return the index contents of these servers (key -> config fingerprint).

        A list is omitted if it was read under another config, or if its rows are not those that were written. Public
        names have at most ``name_max`` characters.
        """
        with self._store.read() as connection, damaged_rows():
            found: defaultdict[tuple[str, str], list[tuple[Any, ...]]] = defaultdict(list)
            query = "SELECT server, kind, name, address, id, size, hash, key FROM offers ORDER BY key"
            for row in connection.execute(query):
                found[row[:2]].append(row[2:])
            known: dict[tuple[str, OfferKind], KnownList] = {}
            trusted: list[Offer] = []
            query = "SELECT server, kind, config_fingerprint, fingerprint, listed_at, refused, denied FROM offer_lists"
            for server, kind, config, fingerprint, listed_at, refused, denied in connection.execute(query):
                rows = found[server, kind]
                # Only rows that are as written become offers: the others may have any values.
                if servers.get(server) == config and fingerprint == _fingerprint([(row[-1], row[-2]) for row in rows]):
                    trusted += [offer_of(server, kind, name_max, *row[:-1]) for row in rows]
                    known[server, kind] = KnownList(listed_at, _REFUSED.decode(refused), TEXTS.decode(denied))
            flags = connection.execute("SELECT server, subscribes, completes FROM offer_servers").fetchall()
        return Known(
            offers=tuple(trusted),
            lists=known,
            subscribes=frozenset(server for server, subscribes, _ in flags if subscribes),
            completes=frozenset(server for server, _, completes in flags if completes),
        )

    def definitions(self, ids: Iterable[int]) -> dict[int, JsonObject]:
        """Return whole definitions by row; deleted rows are omitted."""
        query = "SELECT id, definition FROM offers WHERE id IN (SELECT value FROM json_each(?))"
        with self._store.read() as connection, damaged_rows():
            return {row: json.loads(text) for row, text in connection.execute(query, (json.dumps(list(ids)),))}


def _joined(connection: sqlite3.Connection, server: str, listed: OfferList, config_fingerprint: str) -> OfferList:
    """Return a list with what is stored besides, if that was listed under this config."""
    of_list = "WHERE server = ? AND kind = ?"
    query = f"SELECT denied FROM offer_lists {of_list} AND config_fingerprint = ?"  # noqa: S608 - no text of others
    known = connection.execute(query, (server, listed.kind, config_fingerprint)).fetchone()
    if known is None:
        return listed
    new = {record.address for record in listed.records}
    query = f"SELECT name, address, definition FROM offers {of_list} ORDER BY key"  # noqa: S608 - as above
    stored = connection.execute(query, (server, listed.kind)).fetchall()
    others = [OfferRecord(name, address, json.loads(text)) for name, address, text in stored if address not in new]
    denied = dict.fromkeys((*listed.denied, *TEXTS.decode(known[0])))
    return replace(listed, records=(*listed.records, *others), denied=tuple(denied))


def _replace(connection: sqlite3.Connection, server: str, wanted: OfferList) -> None:
    of_list = "FROM offers WHERE server = ? AND kind = ?"
    stored: dict[str, str] = dict(connection.execute(f"SELECT key, hash {of_list}", (server, wanted.kind)))
    rows = {_key(server, wanted.kind, each): _columns(server, wanted.kind, each) for each in wanted.records}
    gone = sorted(stored.keys() - rows.keys())
    connection.execute("DELETE FROM offers WHERE key IN (SELECT value FROM json_each(?))", (to_json(gone),))
    upsert(connection, "offers", "key", [row for key, row in rows.items() if stored.get(key) != row["hash"]])


def _note(connection: sqlite3.Connection, server: str, listed: OfferList, config_fingerprint: str, now: float) -> None:
    """Write the row of a list if a column differs: a second start writes nothing."""
    query = "SELECT key, hash FROM offers WHERE server = ? AND kind = ? ORDER BY key"
    facts = (
        config_fingerprint,
        _fingerprint(connection.execute(query, (server, listed.kind)).fetchall()),
        _REFUSED.encode(listed.refused),
        to_json(listed.denied),
    )
    query = "SELECT config_fingerprint, fingerprint, refused, denied FROM offer_lists WHERE server = ? AND kind = ?"
    if connection.execute(query, (server, listed.kind)).fetchone() != facts:
        config, fingerprint, refused, denied = facts
        row = (server, listed.kind, config, fingerprint, now, refused, denied)
        connection.execute("INSERT OR REPLACE INTO offer_lists VALUES (?, ?, ?, ?, ?, ?, ?)", row)


def _columns(server: str, kind: OfferKind, record: OfferRecord) -> dict[str, str | int]:
    definition = to_json(record.definition)
    return {
        "key": _key(server, kind, record),
        "server": server,
        "kind": kind,
        "name": record.name,
        "address": record.address,
        "hash": sha256(definition.encode()).hexdigest(),
        "size": len(definition),
        "definition": definition,
    }


def _key(server: str, kind: OfferKind, record: OfferRecord) -> str:
    return to_json([server, kind, record.address])


def _fingerprint(rows: Sequence[tuple[str, str]]) -> str:
    return sha256(json.dumps(rows).encode()).hexdigest()


ADDRESS_MAX = 8192
"""Maximum length of a URI or a URI template."""

_SHOWN_NAME_MAX = 80
_ROLES = ("user", "assistant")
ADDRESSES: Mapping[OfferKind, str] = {"resource": "uri", "template": "uriTemplate", "prompt": "name"}
_DATA = frozenset(("uri", "uriTemplate", "mimeType", "icons", "annotations"))
"""Fields that are interpreted by programs, and must not be changed."""


def ingest(server: str, kind: OfferKind, items: Iterable[Any], anyone: Permissions, limits: LimitsSection) -> OfferList:
    """Return the records of a list, and the items that cannot be offered. Never raises, whatever JSON the items are.

    What the policy ``anyone`` denies to everyone is in neither.
    """
    records: dict[str, OfferRecord] = {}
    refused: list[Refused] = []
    denied: dict[str, None] = {}
    public: dict[str, str] = {}
    for position, item in enumerate(items, 1):
        try:
            record = _record(kind, item, limits.definition_max_bytes)
        except DefinitionError as error:
            refused.append(Refused(_shown_name(item, position), str(error)))
            continue
        offer = offer_of(server, kind, limits.name_max, record.name, record.address)
        if not anyone.permits_by(server, names_of(offer)):
            denied[record.address if kind == "template" else uri_digest(record.address)] = None
        elif records.setdefault(record.address, record) != record:
            refused.append(Refused(_shown_name(item, position), LISTED_AGAIN))
        else:
            public[record.address] = offer.public
    times = Counter(public.values())
    for address, name in public.items():
        if times[name] > 1:
            refused.append(Refused(_shown(records.pop(address).name), sharing(name)))
    return OfferList(kind, tuple(records.values()), tuple(refused), tuple(denied))


def _record(kind: OfferKind, item: Any, max_bytes: int) -> OfferRecord:
    if not isinstance(item, dict):
        raise DefinitionError(f"is of type {json_type(item)}, not object")
    raw = cast("JsonObject", item)
    # Checked first: every later step walks the value recursively.
    if any(islice(levels(raw), DEPTH_MAX, None)):
        raise DefinitionError(f"is nested deeper than {DEPTH_MAX} levels")
    key = ADDRESSES[kind]
    address = _address(raw.get(key), key, NAME_MAX if kind == "prompt" else ADDRESS_MAX)
    name = raw.get("name")
    definition: JsonObject = {key: address, "name": name if isinstance(name, str) and name else address}
    for member, value in raw.items():
        if member not in definition:
            kept = _REPAIRS[member](value) if member in _REPAIRS else value
            if kept is not None:
                definition[member] = kept
    definition, _ = encodable(definition, max_bytes)
    return OfferRecord(definition["name"], address, _cleaned(kind, definition))


def _address(value: Any, key: str, most: int) -> str:
    if not isinstance(value, str) or not value:
        raise DefinitionError(f"has no {key}")
    if len(value) > most:
        raise DefinitionError(f"has a {key} of {len(value)} characters; at most {most} are allowed")
    if value.encode("utf-8", "replace").decode() != value:
        raise DefinitionError(f"has a {key} that is not valid Unicode")
    seen = unjoined(sanitize(value) if key == "name" else one_line(value))
    if seen != value:
        raise DefinitionError(f"has a {key} with characters that a reader would not see")
    return value


def _cleaned(kind: OfferKind, definition: JsonObject) -> JsonObject:
    """Return a definition whose texts have no characters that a person cannot see.

    Raises:
        DefinitionError: others are left, in names or values that programs interpret.

    """
    for path, text in texts_of(kind, definition):
        if (clean := sanitize(text)) != text:
            definition = with_text(definition, path, clean)
    refuse_unseen(definition)
    return definition


def texts_of(kind: OfferKind, definition: JsonObject) -> list[tuple[Path, str]]:
    """Return every human-readable text of a definition, with its path."""
    return [(path, text) for path, text in texts_in_value(definition) if not _is_data(kind, path)]


def _is_data(kind: OfferKind, path: Path) -> bool:
    names_something = path[-1] == "name" and (path == ("name",) or path[0] == "arguments")
    return path[0] in _DATA or (kind == "prompt" and names_something)


def _shown_name(item: Any, position: int) -> str:
    name = as_object(item).get("name")
    return _shown(name) if isinstance(name, str) else f"#{position}"


def _shown(name: str) -> str:
    return truncate(one_line(name[: 2 * _SHOWN_NAME_MAX]), _SHOWN_NAME_MAX)


def _arguments(value: Any) -> list[JsonObject] | None:
    named = [each for each in map(as_object, as_list(value)) if isinstance(each.get("name"), str)]
    return [_repaired(each, _OF_AN_ARGUMENT) for each in named] if isinstance(value, list) else None


def _annotations(value: Any) -> JsonObject | None:
    return _repaired(as_object(value), _OF_ANNOTATIONS) or None


def _repaired(value: JsonObject, repairs: Mapping[str, Callable[[Any], Any]]) -> JsonObject:
    kept = ((key, repairs[key](held) if key in repairs else held) for key, held in value.items())
    return {key: held for key, held in kept if held is not None}


def _audience(value: Any) -> list[Any] | None:
    return [role for role in as_list(value) if role in _ROLES] or None


def _priority(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and 0 <= value <= 1 else None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _size(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


_OF_AN_ARGUMENT: Mapping[str, Callable[[Any], Any]] = {
    "title": valid_text,
    "description": valid_text,
    "required": _flag,
}
_OF_ANNOTATIONS: Mapping[str, Callable[[Any], Any]] = {
    "audience": _audience,
    "priority": _priority,
    "lastModified": valid_text,
}
_REPAIRS: Mapping[str, Callable[[Any], Any]] = {
    "title": valid_text,
    "description": valid_text,
    "mimeType": valid_text,
    "size": _size,
    "arguments": _arguments,
    "annotations": _annotations,
    "icons": valid_icons,
    "_meta": valid_meta,
}
"""Functions that make each known field valid; None drops it."""


_FORMAT = 3
"""Increased when the row of an unchanged offer would differ."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OffersChange:
    """One step: the previous and the current offers.

    ``announced`` are the kinds of lists of which a server has said that they changed; both states are then the one
    after these lists were read.
    """

    before: OfferCatalog
    after: OfferCatalog
    announced: frozenset[OfferKind] = frozenset()


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
        # Skills are read with these lists: who wants them anew has the lists read anew.
        self._reads_skills = settings.toolcrib.skills.enabled and settings.toolcrib.skills.from_servers
        self._fingerprints = {key: self._fingerprint(server) for key, server in settings.servers.items()}
        self._swap = anyio.Lock()
        self._look_wanted = ChangeSignal()
        self._on_change: list[Callable[[OffersChange], None]] = []
        self.known, self.catalog = Known(), OfferCatalog()

    def _fingerprint(self, server: ServerSettings) -> str:
        limits = self._limits
        read = (_FORMAT, limits.offers_per_server, limits.offers_max_bytes, *(["skills"] if self._reads_skills else []))
        return f"{'.'.join(map(str, read))}.{server.fingerprint}"

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
        self._notify(OffersChange(before, self.catalog))

    def announced(self, kinds: Iterable[OfferKind]) -> None:
        """Report that a server has announced other lists of these kinds, which were read since."""
        self._notify(OffersChange(self.catalog, self.catalog, frozenset(kinds)))

    def schedule_reload(self) -> None:
        """Schedule a reload: another process has written to the index. Never waits; on the event loop."""
        self._look_wanted.event.set()

    async def follow(self) -> Never:
        """Reload the offers on request."""
        while True:
            await self._look_wanted.wait()
            try:
                async with self._swap:
                    before = self.catalog
                    self.known, self.catalog = await anyio.to_thread.run_sync(self._snapshot)
                self._notify(OffersChange(before, self.catalog))
            except StoreError as error:  # the known offers are served, and the next check tries again
                _log.warning("resources and prompts could not be reloaded: %s %s", error, error.detail)

    def _notify(self, change: OffersChange) -> None:
        for on_change in self._on_change:
            on_change(change)

    def _store(self, server: ServerSettings, offered: Offered) -> tuple[Known, OfferCatalog]:
        lists = [self._ingested(server.key, kind, raw) for kind, raw in offered.lists.items()]
        flags = offered.subscribes, offered.completes
        fingerprint = self._fingerprints[server.key]
        self._index.replace(server.key, lists, flags, config_fingerprint=fingerprint, now=self._now())
        return self._snapshot()

    def _ingested(self, server: str, kind: OfferKind, raw: RawList) -> OfferList:
        taken = ingest(server, kind, raw.items, self._anyone, self._limits)
        if not raw.cut:
            return taken
        return replace(taken, refused=(*taken.refused, Refused(f"more {kind}s", raw.cut)), keeps_others=raw.is_passing)

    def _snapshot(self) -> tuple[Known, OfferCatalog]:
        known = self._index.load(self._fingerprints, self._limits.name_max)
        offers = (offer for offer in known.offers if offer.kind in self.kinds)
        return known, OfferCatalog(offers, self.catalog.generation + 1, _denied(known))


def _denied(known: Known) -> Mapping[str, tuple[Iterable[str], Iterable[str]]]:
    """Return, by server, the digests of denied URIs, and denied templates."""
    found: defaultdict[str, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for (server, kind), each in known.lists.items():
        if kind != "prompt":
            found[server][kind == "template"].extend(each.denied)
    return dict(found)
