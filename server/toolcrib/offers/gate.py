"""Which offers a session's caller may use: the same policy as for tools, by every name that an offer has.

Knows sessions, permissions and what is indexed; never knows a connection, a page or a definition.
"""

from collections.abc import Callable, Collection, Mapping

from toolcrib.config.settings import ServerSettings
from toolcrib.offers.catalog import OfferCatalog, PermittedOffers, permits
from toolcrib.offers.indexing import OfferIndexer
from toolcrib.offers.records import Offer
from toolcrib.policy.rules import Permissions
from toolcrib.policy.sessions import Session
from toolcrib.tools.gate import Gate
from toolcrib.tools.index.catalog import Catalog


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
        tools = {tool.server for tool in self._gate.allowed(session, self._tools()).tools}
        by_name = {key for key in self._servers if permissions.names_server(key) and permissions.permits_some_of(key)}
        return tools | by_name
