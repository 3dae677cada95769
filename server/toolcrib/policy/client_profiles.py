"""Decides how each client is served: which kind of tool list it gets, and in which form results."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.resources import files
from typing import Any, Literal, cast

from toolcrib.base.cache import Recent
from toolcrib.base.model import JsonObject
from toolcrib.config.schema import HostSection, Listing
from toolcrib.config.settings import Settings

_PACKAGE, _FILE = "toolcrib.policy", "client_profiles.json"
_CLIENTS_MAX = 1000
"""Maximum number of clients whose serving mode is cached."""

_SHOWS = {
    "text": "shows its model the text of a result",
    "structured": "shows its model structured content instead of the text",
    "both": "shows its model text and structured content, both",
}
_GROWN_LIST = {
    "head": "changes the head of its model's prompt when the list grows",
    "later": "follows list changes without changing the head of its model's prompt",
    "never": "ignores list changes",
}


@dataclass(frozen=True, slots=True)
class HostBehaviour:
    """A host as observed at one version.

    ``clients`` is a glob of the names that its clients give themselves. ``shows`` is what its model gets of a result
    that has text and structured content, ``shows_text_alone`` whether it gets the text where there is nothing else.
    ``grown_list`` says how the host treats a newly listed tool. ``result_tokens`` is how much of one result its model
    is shown: of more, the host itself shows a beginning, or the name of a file. At most 20,000, a tenth of a context.
    """

    clients: str
    product: str
    version: str
    shows: Literal["text", "structured", "both"]
    shows_text_alone: bool
    grown_list: Literal["head", "later", "never"]
    result_tokens: int

    @property
    def listing(self) -> Listing:
        """The listing mode that suits it."""
        return "dynamic" if self.grown_list == "later" else "stable"

    def told(self, fact: str) -> str:
        """Return a fact about it as a sentence."""
        return f"{self.product} {self.version} {fact}"


@dataclass(frozen=True, slots=True)
class ClientProfile:
    """How a client is served, and why.

    ``structured``: our answers have structured content besides their text. ``follows`` is false where it is known that
    the client ignores list changes. ``result_tokens`` is how much of a server's result its model is given at once, None
    for all; ``shows_structured`` is false where it is known that its model gets text alone. ``needs_text``: that is
    known, or set, so that structured content without a text would not reach its model.
    """

    listing: Listing
    listing_reason: str
    structured: bool
    structured_reason: str
    follows: bool
    result_tokens: int | None = None
    shows_structured: bool = True
    needs_text: bool = False

    @property
    def prefers_session(self) -> bool:
        """Whether it should choose a revision with sessions if it speaks one: only there its list can grow."""
        return self.listing == "dynamic"

    @property
    def as_json(self) -> JsonObject:
        """Return it as a JSON object."""
        return {
            "listing": self.listing,
            "listing_reason": self.listing_reason,
            "structured": self.structured,
            "structured_reason": self.structured_reason,
            "result_tokens": self.result_tokens,
        }


NO_CLIENT = ClientProfile(
    "stable", "no client asks", structured=True, structured_reason="no client asks", follows=False
)
"""How requests without a client are served, as from the command line."""


class ClientProfiles:
    """Decides how clients are served: by the config, else by the table; unknown ones by the revision that they choose.

    What the config says of a client by its name goes before what it says of all. ``table`` has the hosts that are
    known. ``has_one_client``: the transport (``stdio``, ``http``) has one client.
    """

    def __init__(self, settings: Settings, transport: str) -> None:
        section = settings.toolcrib
        self._gate, self._results = section.gate, section.results
        self.has_one_client = transport == "stdio"
        self._searches = section.tool_search.enabled
        self._grows = bool(settings.servers) and self._searches
        self.table = tuple(_table())
        self._served = Recent[str, ClientProfile](_CLIENTS_MAX)

    def profile(self, client: str) -> ClientProfile:
        """Return how a client of this name is served; an absent name is empty."""
        return self._served.get(client, lambda: self._decided(client))

    def profile_of_product(self, product: str) -> ClientProfile:
        """Return how the clients of a host are served; a host not in the table is unknown."""
        return self.profile(next((host.clients.rstrip("*") for host in self.table if host.product == product), ""))

    @property
    def known(self) -> dict[str, ClientProfile]:
        """How the clients known to the table and the config are served, by globs of their names."""
        hosts = self._results.hosts
        by_config = {glob: self._profile_from(glob, said, self._host_of(glob)) for glob, said in hosts.items()}
        return {host.clients: self.profile(host.clients) for host in self.table} | by_config

    def _decided(self, client: str) -> ClientProfile:
        # The first glob that matches wins, in the order of the config.
        by_name = ((glob, said) for glob, said in self._results.hosts.items() if fnmatchcase(client, glob))
        glob, said = next(by_name, ("", HostSection()))
        return self._profile_from(glob, said, self._host_of(client))

    def _host_of(self, client: str) -> HostBehaviour | None:
        return next((host for host in self.table if fnmatchcase(client, host.clients)), None)

    def _profile_from(self, glob: str, said: HostSection, host: HostBehaviour | None) -> ClientProfile:
        """Return how a client is served of which ``said`` is written under ``glob``, and ``host`` known."""
        by_name = f"set by results.hosts[{json.dumps(glob)}]"
        listing, listing_reason = self._listing(said.listing, by_name, host)
        structured, structured_reason = self._structured(said.structured, by_name, host)
        follows = host is None or host.grown_list != "never"
        tokens = said.max_tokens or (host.result_tokens if host and self._searches else None)
        shows_structured = host is None or host.shows != "text"
        needs_text = not shows_structured or (said.structured or self._results.structured) == "never"
        return ClientProfile(
            listing, listing_reason, structured, structured_reason, follows, tokens, shows_structured, needs_text
        )

    def _listing(self, said: Listing | None, by_name: str, host: HostBehaviour | None) -> tuple[Listing, str]:
        # Before what a person has set: a list that cannot grow must not be announced as one that does.
        if not self._grows:
            return "stable", "nothing can be activated: there is no server, or tool_search.enabled is false"
        if said:
            return said, by_name
        # A setting for all clients: more general than one by name, more certain than what is known of a host.
        if self._gate.listing:
            return self._gate.listing, "set by gate.listing or --listing"
        if host:
            return host.listing, host.told(_GROWN_LIST[host.grown_list])
        return "auto", "this client is unknown"

    def _structured(self, said: str | None, by_name: str, host: HostBehaviour | None) -> tuple[bool, str]:
        if said:
            return said == "always", by_name
        if self._results.structured != "auto":
            return self._results.structured == "always", "set by results.structured"
        if host:
            return not host.shows_text_alone, host.told(_SHOWS[host.shows])
        return True, "this client is unknown"


def _table() -> Iterator[HostBehaviour]:
    """Yield the rows of the table that ships with the package. Reads a file."""
    text = files(_PACKAGE).joinpath(_FILE).read_text(encoding="utf-8")
    for row in cast("list[dict[str, Any]]", json.loads(text)["hosts"]):
        yield HostBehaviour(**row)
