"""The values of this room: an offer as it is held in memory, and as ingest makes it for the index.

Knows what a resource, a template and a prompt have in common; never knows a server, a database or a caller.
"""

from dataclasses import dataclass
from typing import Protocol

from toolcrib.base.model import JsonObject, OfferKind, Refused
from toolcrib.base.names import name_digest, public_name
from toolcrib.base.uris import public_uri, resolved


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
    templates.
    """

    kind: OfferKind
    records: tuple[OfferRecord, ...]
    refused: tuple[Refused, ...]
    denied: tuple[str, ...]


class Named(Protocol):
    """The names that a server gives an offer."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def address(self) -> str:
        """Its URI, URI template or prompt name."""
        ...


def offer_of(server: str, kind: OfferKind, named: Named, name_max: int) -> Offer:
    """Return the offer of a record; its public name has at most ``name_max`` characters."""
    address = named.address
    public = public_name(server, address, name_max) if kind == "prompt" else public_uri(server, address)
    return Offer(server, kind, named.name, address, public)


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
