"""Search among offers that are not listed: the weights of their texts, and what is shown of hits."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from toolcrib.base.json_values import as_list, as_object
from toolcrib.base.model import JsonObject, OfferKind
from toolcrib.base.names import Spellings, public_name
from toolcrib.base.text import one_line, search_text, spelling_key, split_summary, truncate
from toolcrib.catalog.definitions import with_text
from toolcrib.catalog.denied_names import NameMasker
from toolcrib.catalog.gate import Gate
from toolcrib.catalog.offers import (
    ADDRESSES,
    Offer,
    OfferCatalog,
    OfferIndex,
    OfferIndexer,
    PermittedOffers,
    permits,
    texts_of,
)
from toolcrib.catalog.snapshot import Catalog
from toolcrib.config.settings import ServerSettings
from toolcrib.policy.rules import Permissions
from toolcrib.policy.sessions import Session
from toolcrib.search.documents import NO_LOSSES, Kind, Match, Reason, Request
from toolcrib.search.engine import Engine, SearchSettings
from toolcrib.search.postings import Worded
from toolcrib.search.ranking import NO_LESSONS, Field, Lessons


class OfferTexts:
    """Reads definitions. Safe to use from several threads; reading blocks."""

    def __init__(self, index: OfferIndex) -> None:
        self._index = index

    def definitions(self, offers: Sequence[Offer], masker: NameMasker) -> list[JsonObject]:
        """Return the definitions of some offers as shown to a client; offers removed meanwhile are omitted.

        Raises:
            StoreError: the index cannot be read.

        """
        return [{**each, ADDRESSES[offer.kind]: offer.public} for offer, each in self.worded(masker, offers)]

    def worded(self, masker: NameMasker, offers: Sequence[Offer]) -> list[tuple[Offer, JsonObject]]:
        """Return the same with the servers' own URIs and names, with the offer of each."""
        found = self._index.definitions(offer.row for offer in offers)
        known = ((offer, found[offer.row]) for offer in offers if offer.row in found)
        return [(offer, _worded(offer.kind, definition, masker)) for offer, definition in known]


def _worded(kind: OfferKind, definition: JsonObject, masker: NameMasker) -> JsonObject:
    """Return a definition without the names of tools that are denied to its reader."""
    if masker.hides_nothing:
        return definition
    for path, text in texts_of(kind, definition):
        if (clean := masker.clean(text)[0]) != text:
            definition = with_text(definition, path, clean)
    return definition


class OfferGate:
    """Decides about offers for a session. ``tools`` returns the current catalog of tools."""

    def __init__(
        self,
        servers: Mapping[str, ServerSettings],
        gate: Gate,
        indexer: OfferIndexer,
        tools: Callable[[], Catalog],
    ) -> None:
        self._servers, self._gate, self._indexer, self._tools = servers, gate, indexer, tools

    def permissions(self, session: Session) -> Permissions:
        """Return the current policy for the session's caller."""
        return self._gate.permissions(session)

    def permitted(self, session: Session, catalog: OfferCatalog | None = None) -> PermittedOffers:
        """Return what the session's caller may use, of the current offers or of ``catalog``."""
        offers = self._indexer.catalog if catalog is None else catalog
        return offers.permitted(self.permissions(session), self._open_servers(session))

    def may_read(self, session: Session, server: str, uri: str) -> bool:
        """Return whether the session's caller may read a URI of a server, listed or not.

        If anything is denied to the caller, the server's lists must be known: a URI may be denied by name.
        """
        permissions = self.permissions(session)
        if permissions.unrestricted:
            return True
        is_open = self._indexer.knows_resources(server) and server in self._open_servers(session)
        return is_open and self._indexer.catalog.may_read(permissions, server, uri)

    def may_use(self, session: Session, server: str, uri: str, name: str) -> bool:
        """Return whether the session's caller may use what a server has under this URI and calls by this name.

        That is a skill: denied by its name, by its URI, or with its server.
        """
        is_denied = self.permissions(session).denies(server, [(name, public_name(server, name))])
        return not is_denied and self.may_read(session, server, uri)

    def listing(self, session: Session, uri: str) -> str | None:
        """Return the one server that lists a URI of its own to the session's caller; None if several do, or none."""
        found = (each for each in self._indexer.catalog.listing(uri) if self._permits(session, each))
        servers = {each.server for each in found}
        return servers.pop() if len(servers) == 1 else None

    def prompt(self, session: Session, public: str) -> Offer | None:
        """Return the prompt with this public name, if the session's caller may get it."""
        prompt = self._indexer.catalog.prompt(public)
        return prompt if prompt and self._permits(session, prompt) else None

    def may_tell(self, session: Session, server: str, uri: str) -> bool:
        """Return whether a server's message about a URI reveals nothing about others: listed, or nothing is denied."""
        return self.permissions(session).unrestricted or self._indexer.catalog.has(server, uri)

    def _permits(self, session: Session, offer: Offer) -> bool:
        return offer.server in self._open_servers(session) and permits(self.permissions(session), offer)

    def _open_servers(self, session: Session) -> Collection[str]:
        """Return the servers of which the session's caller may use a tool, or which the policy allows by name."""
        permissions = self.permissions(session)
        if permissions.unrestricted:
            return self._servers.keys()
        # Their offers are as open as their tools: a server without a permitted tool reveals nothing.
        tools = {tool.server for tool in self._gate.allowed(session, self._tools()).tools}
        by_name = {key for key in self._servers if permissions.names_server(key) and permissions.permits_some_of(key)}
        return tools | by_name


FIELDS = (
    Field(3, 0.4),  # name
    Field(2, 0.4),  # title and first sentence
    Field(0.8, 0.5),  # the rest of the description
    Field(1, 0.5),  # address and arguments
    Field(0.7, 0.3),  # server
)
"""Like those of the tools' fields with the same content."""

_TEXT_MAX = 4000
_SHOWN_MAX = 100
_KINDS: Mapping[OfferKind, str] = {"resource": "resource", "template": "resource_template", "prompt": "prompt"}
"""The name of each kind in an answer."""

Definitions = Callable[[Sequence[Offer]], list[tuple[Offer, JsonObject]]]
"""Reads the definitions of some offers as certain callers may read them."""


@dataclass(frozen=True, slots=True)
class FoundOffer:
    """One hit. ``score`` is in [0, 1], comparable only within one answer."""

    offer: Offer
    description: str
    score: float
    match_type: str

    @property
    def as_json(self) -> JsonObject:
        """Return it as a JSON object; ``address`` is used to read or get it."""
        return {
            "kind": _KINDS[self.offer.kind],
            "address": self.offer.public,
            "description": self.description,
            "server": self.offer.server,
            "score": self.score,
            "match_type": self.match_type,
        }

    @property
    def as_text(self) -> str:
        """Return it as a line for a model."""
        kind = _KINDS[self.offer.kind].replace("_", " ")
        return f"- {kind} {self.offer.public} {self.description}".rstrip()


class OfferDocuments:
    """The searchable offers of certain callers, for one snapshot."""

    def __init__(self, offers: Sequence[Offer], definitions: Definitions) -> None:
        self.offers, self._definitions = tuple(offers), definitions
        self.in_order = tuple(offer.row for offer in offers)
        self.numbers = {offer.row: number for number, offer in enumerate(offers)}

    def versions(self) -> Sequence[None]:
        """Return None for each: they are few, so no counts are shared with other sets."""
        return [None] * len(self.offers)

    def words(self, rows: Iterable[int]) -> Mapping[int, Worded]:
        """Return by row the text of each field."""
        offers = [self.offers[self.numbers[row]] for row in rows]
        return {offer.row: Worded(tuple(map(search_text, _fields(offer, each)))) for offer, each in self._read(offers)}

    def stored(self, does: object) -> None:
        """Return None: offers are ranked in memory."""

    def texts(self) -> Mapping[int, Sequence[str]]:
        """Return by row the texts that a pattern is tried on besides names."""
        return {offer.row: (description_of(each),) for offer, each in self._read(self.offers)}

    def embedded_versions(self) -> Sequence[None]:
        """Return None for each: there is no semantic search among offers."""
        return [None] * len(self.offers)

    def texts_to_embed(self, stored: Mapping[int, str]) -> Mapping[int, str]:
        """Return ``stored``: there is no semantic search among offers."""
        return stored

    def shown(self, offers: Sequence[Offer]) -> Mapping[int, str]:
        """Return by row the first sentence of some descriptions."""
        read = self._definitions(offers)
        return {
            offer.row: truncate(one_line(split_summary(description_of(each))[0]), _SHOWN_MAX) for offer, each in read
        }

    @cached_property
    def spellings(self) -> Spellings[Offer]:
        """The offers by each form of their names."""
        return Spellings((spelling_key(name), offer) for offer in self.offers for name in _names(offer))

    def _read(self, offers: Sequence[Offer]) -> list[tuple[Offer, JsonObject]]:
        return self._definitions(offers)


class OfferSearcher:
    """Finds offers. Safe to use from several threads."""

    def __init__(self, settings: SearchSettings) -> None:
        # Their vectors are not stored anywhere.
        words_only = SearchSettings(settings.regex_ms, settings.clock)
        self._engine = Engine[Offer](Kind("resource or prompt", FIELDS), words_only)

    def search(self, request: Request, documents: OfferDocuments, server: str | None) -> list[FoundOffer]:
        """Return the best matches, of one server if one is named. Blocks.

        Raises:
            BadRequest: a pattern cannot be used.
            StoreError: the index cannot be read.

        """
        found = self._engine.search(request, _Scope(documents, server)).matches
        shown = documents.shown([match.document for match in found])
        return [
            FoundOffer(match.document, shown[match.document.row], match.score, match.match_type.value)
            for match in found
            if match.document.row in shown
        ]


class _Scope:
    """The offers that one search may find."""

    losses = NO_LOSSES
    context = None

    def __init__(self, documents: OfferDocuments, server: str | None) -> None:
        self.documents = documents
        of_server = (number for number, offer in enumerate(documents.offers) if offer.server == server)
        self.numbers = None if server is None else frozenset(of_server)

    @property
    def emptiness(self) -> str:
        return "" if self.documents.offers else "There are none."

    def lessons(self, query: str) -> Lessons:  # noqa: ARG002 - nothing is learnt of these
        return NO_LESSONS

    def document(self, number: int) -> Offer:
        return self.documents.offers[number]

    def named(self, query: str, *, as_written: bool) -> Mapping[int, Reason]:  # noqa: ARG002 - any spelling names one
        return dict.fromkeys(self._inside(self.documents.spellings.get(spelling_key(query), ())), "exact_name")

    def begun(self, query: str) -> Iterable[int]:
        return self._inside(self.documents.spellings.beginning(query))

    def spellings(self, number: int) -> Sequence[str]:
        return _names(self.documents.offers[number])

    def tie_break(self, match: Match[int]) -> tuple[int | str, ...]:
        return (self.documents.offers[match.document].public,)

    def _inside(self, offers: Iterable[Offer]) -> Collection[int]:
        numbers = [self.documents.numbers[offer.row] for offer in offers]
        return [number for number in numbers if self.numbers is None or number in self.numbers]


def description_of(definition: JsonObject) -> str:
    """Return the description in a definition, preceded by its title."""
    said = (definition.get("title"), definition.get("description"))
    return " ".join(text for text in said if isinstance(text, str))[:_TEXT_MAX]


def _names(offer: Offer) -> tuple[str, ...]:
    return tuple(dict.fromkeys((offer.public, offer.address, offer.name)))


def _fields(offer: Offer, definition: JsonObject) -> tuple[str, ...]:
    summary, rest = split_summary(description_of(definition))
    arguments = (as_object(each) for each in as_list(definition.get("arguments")))
    told = (str(each.get(key, "")) for each in arguments for key in ("name", "description"))
    return offer.name, summary, rest, " ".join((offer.address, *told))[:_TEXT_MAX], offer.server
