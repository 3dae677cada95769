"""Who shares a connection to a server, and which client capabilities the server is told.

A server may ask only if it is certain whom (ADR 28): capabilities without such a client are not declared.
"""

import json
from dataclasses import dataclass
from typing import Literal, Protocol

from toolcrib.base.json_values import compact
from toolcrib.base.model import Caller, JsonObject
from toolcrib.config.settings import HttpTarget, ServerSettings, StdioTarget
from toolcrib.policy.asking import relayed


class Party(Protocol):
    """Whoever uses a server: a session, or a caller of the sessionless era, for whom ``lasting`` is false."""

    @property
    def caller(self) -> Caller:
        """Who is asking."""
        ...

    @property
    def label(self) -> str:
        """What no other session is called."""
        ...

    @property
    def lasting(self) -> bool:
        """Whether the next request of its client is of the same session."""
        ...

    @property
    def capabilities(self) -> JsonObject:
        """What its client says that it can do."""
        ...


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose connection it is: of one session where there is one, else of one principal, else everybody's.

    ``capabilities`` are what the server is told at the handshake, as JSON.
    """

    tenant: str = ""
    principal: str = ""
    session: str = ""
    capabilities: str = ""

    @property
    def declared(self) -> JsonObject:
        """What the server is told at the handshake."""
        return json.loads(self.capabilities) if self.capabilities else {}


SHARED = Scope()
"""The one connection that a server is listed by, and that all use who share and can be asked nothing."""


@dataclass(frozen=True, slots=True)
class Front:
    """Who can come by the transport that toolcrib serves on.

    ``one_client``: nobody but the one client of this process, as on stdio. ``one_principal``: nobody but the person
    at this machine, or the holders of tokens of one subject.
    """

    one_client: bool = True
    one_principal: bool = True

    def scope(self, server: ServerSettings, era: Literal["legacy", "modern"] | None, party: Party) -> Scope:
        """Return whose connection to a server a party uses. In 2026-07-28 each request tells what its client can do."""
        whose = self._whose(server, party)
        told = {} if era == "modern" else self.told(server, whose, party)
        return Scope(*whose, compact(told) if told else "") if told or any(whose) else SHARED

    def told(self, server: ServerSettings, whose: tuple[str, str, str], party: Party) -> JsonObject:
        """Return what a server of the handshake era may be told of what a client can do."""
        is_one_caller = self.one_principal or bool(whose[1])
        comes_with_request = isinstance(server.target, HttpTarget) and not server.target.sse
        is_one_client = self.one_client or bool(whose[2])
        return relayed(party.capabilities, questions=is_one_caller or comes_with_request, roots=is_one_client)

    def withheld(self, server: ServerSettings, era: Literal["legacy", "modern"] | None, party: Party) -> list[str]:
        """Return what a client can do and a server is not told, because nobody could tell whom it asks."""
        whole = relayed(party.capabilities, questions=True, roots=True)
        told = whole if era == "modern" else self.told(server, self._whose(server, party), party)
        return sorted(whole.keys() - told.keys())

    def is_exclusive(self, scope: Scope) -> bool:
        """Return whether only one client ever uses a connection."""
        return self.one_client or bool(scope.session)

    def _whose(self, server: ServerSettings, party: Party) -> tuple[str, str, str]:
        isolation = server.options.isolation or self._isolation(server)
        if self.one_client or isolation == "shared":
            return "", "", ""
        session = party.label if isolation == "session" and party.lasting else ""
        return party.caller.tenant_id or "", party.caller.principal, session

    def _isolation(self, server: ServerSettings) -> str:
        """Return what holds where the config leaves it open: principals that share a process could share its state."""
        is_process = isinstance(server.target, StdioTarget)
        return "principal" if is_process and not self.one_principal else "shared"
