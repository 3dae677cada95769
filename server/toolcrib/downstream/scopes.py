"""Who shares a connection to a server: everybody, the sessions of one principal, or one session alone.

Knows what ``isolation`` means for each kind of server and front; never knows a request, a tool or a process.
"""

from dataclasses import dataclass
from typing import Protocol

from toolcrib.config.settings import ServerSettings, StdioTarget
from toolcrib.model import Caller


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


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose connection it is: of one session where there is one, else of one principal, else everybody's."""

    tenant: str = ""
    principal: str = ""
    session: str = ""


SHARED = Scope()
"""The one connection that a server is listed by, and that all use who share."""


@dataclass(frozen=True, slots=True)
class Front:
    """Who can come by the transport that toolcrib serves on.

    ``one_client``: nobody but the one client of this process, as on stdio. ``one_principal``: nobody but the person
    at this machine, or the holders of tokens of one subject.
    """

    one_client: bool = True
    one_principal: bool = True

    def scope(self, server: ServerSettings, party: Party) -> Scope:
        """Return whose connection to a server a party uses."""
        isolation = server.options.isolation or self._isolation(server)
        if self.one_client or isolation == "shared":
            return SHARED
        caller = party.caller
        session = party.label if isolation == "session" and party.lasting else ""
        return Scope(caller.tenant_id or "", caller.principal, session)

    def _isolation(self, server: ServerSettings) -> str:
        """Return what holds where the config leaves it open: principals that share a process could share its state."""
        is_process = isinstance(server.target, StdioTarget)
        return "principal" if is_process and not self.one_principal else "shared"
