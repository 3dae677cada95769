"""The offers in memory: an immutable snapshot of all that is indexed, and the part of it that a caller may use.

Knows addresses, and which of them the policy permits to whom; never knows a database, a connection or a definition.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from toolcrib.base.model import OfferKind
from toolcrib.base.uris import literals, may_expand_to, public_uri, resolved
from toolcrib.offers.records import Offer, names_of, uri_digest
from toolcrib.policy.rules import Permissions


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
