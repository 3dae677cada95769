"""Who shares a connection to a server, and which client capabilities are declared to the server.

A server may ask only if it is certain whom (ADR 28): capabilities without such a client are not declared.
"""

import json
from dataclasses import dataclass
from typing import Literal

from toolcrib.base.json_values import as_object, compact
from toolcrib.base.model import JsonObject
from toolcrib.config.settings import HttpTarget, ServerSettings, StdioTarget
from toolcrib.policy.sessions import Session

TASKS = "io.modelcontextprotocol/tasks"
"""The extension for tasks, which toolcrib declares by itself, for each request that may become one (ADR 70)."""
RELATED_TASK = "io.modelcontextprotocol/related-task"
"""What ``_meta`` of a message says of the task that it belongs to (MCP 2025-11-25, Tasks, Related Task Metadata)."""


_EVERYTHING: JsonObject = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}, "context": {}},
    "roots": {"listChanged": True},
}


def relayable(capabilities: JsonObject, *, questions: bool, roots: bool) -> JsonObject:
    """Return the capabilities of a client that toolcrib can declare to a server and fulfil.

    ``questions``: the client can be asked through toolcrib. ``roots``: also for its roots, which belong to one client.
    """
    declared = {key: capabilities[key] for key in ("elicitation", "sampling") if questions and key in capabilities}
    if roots and "roots" in capabilities:
        declared["roots"] = capabilities["roots"]
    if extensions := {key: each for key, each in as_object(capabilities.get("extensions")).items() if key != TASKS}:
        declared["extensions"] = extensions
    return declared


@dataclass(frozen=True, slots=True)
class Scope:
    """Who uses a connection: one session, else one principal, else everybody.

    ``capabilities`` are those declared to the server at the handshake, as JSON. ``prefers`` is the era in which a
    server that speaks both is connected.
    """

    tenant: str = ""
    principal: str = ""
    session: str = ""
    capabilities: str = ""
    prefers: Literal["legacy", "modern"] = "modern"

    @property
    def declared(self) -> JsonObject:
        """The capabilities declared to the server at the handshake."""
        return json.loads(self.capabilities) if self.capabilities else {}


SHARED = Scope()
"""The connection that lists a server, used by all who share the server and cannot be asked anything."""


@dataclass(frozen=True, slots=True)
class Isolation:
    """Who can reach the transport that toolcrib serves on.

    ``one_client``: only the one client of this process, as on stdio. ``one_principal``: only the person at this
    machine, or the holders of tokens of one subject. ``owner``, by tenant and principal, shares the connections that
    list servers, and no other principal does where it would have one of its own.
    """

    one_client: bool = True
    one_principal: bool = True
    owner: tuple[str, str] | None = None

    def scope(
        self, server: ServerSettings, era: Literal["legacy", "modern"] | None, session: Session, *, alone: bool = False
    ) -> Scope:
        """Return the scope of the connection by which a session uses a server, and its era if the server speaks both.

        ``era`` is that of the connection by which the server is listed. In the modern era nothing is declared at a
        handshake: each request says what its client can do. A client of the handshake era can be asked only in that
        era, so one that can be asked has a connection for its capabilities (ADR 28). ``alone``: and for itself alone.
        """
        whose = self._whose(server, session, alone=alone)
        has_handshake = bool(session.capabilities) and (not session.is_modern or era == "legacy")
        if has_handshake and (declared := self._declared(server, whose, session.capabilities)):
            return Scope(*whose, compact(declared), "legacy")
        return Scope(*whose) if any(whose) else SHARED

    def _declared(self, server: ServerSettings, whose: tuple[str, str, str], capabilities: JsonObject) -> JsonObject:
        """Return the capabilities of a client that are declared to a server of the handshake era."""
        # Of a server that principals do not share, a connection of no principal is the owner's.
        is_owners = self.owner is not None and self._of(server) == "principal"
        is_one_caller = self.one_principal or bool(whose[1]) or is_owners
        # Such a question arrives on the stream of the request that caused it, which tells whose it is.
        comes_with_request = isinstance(server.target, HttpTarget) and not server.target.sse
        is_one_client = self.one_client or bool(whose[2])
        return relayable(capabilities, questions=is_one_caller or comes_with_request, roots=is_one_client)

    def of_any_client(self, server: ServerSettings) -> JsonObject:
        """Return what is declared for a client that can be asked everything, where a server is listed for several.

        Empty for a process, which would be started once more for that. Without extensions: tools that they change have
        the same names.
        """
        if self.one_client or not isinstance(server.target, HttpTarget):
            return {}
        isolation = self._of(server)
        whose = "", "" if isolation == "shared" else "one", "one" if isolation == "session" else ""
        return self._declared(server, whose, _EVERYTHING)

    def withheld(
        self, server: ServerSettings, era: Literal["legacy", "modern"] | None, session: Session, *, alone: bool = False
    ) -> list[str]:
        """Return the capabilities not declared to a server, because it would be unknown which client it asks.

        ``era`` and ``alone`` are as for :meth:`scope`.
        """
        whole = relayable(session.capabilities, questions=True, roots=True)
        whose = self._whose(server, session, alone=alone)
        declared = whole if era == "modern" else self._declared(server, whose, session.capabilities)
        return sorted(whole.keys() - declared.keys())

    def is_exclusive(self, scope: Scope) -> bool:
        """Return whether only one client ever uses a connection."""
        return self.one_client or bool(scope.session)

    def identity(self, server: ServerSettings, session: Session) -> str:
        """Return as whom a server sees a session's caller: empty where all callers are one to it."""
        tenant, principal, _ = self._whose(server, session, alone=False)
        return compact([tenant, principal]) if tenant or principal else ""

    def _whose(self, server: ServerSettings, session: Session, *, alone: bool) -> tuple[str, str, str]:
        if alone:
            return session.caller.tenant_id or "", session.caller.principal, session.label
        if self.one_client or (isolation := self._of(server)) == "shared":
            return "", "", ""
        caller = session.caller
        if isolation == "principal" and (caller.tenant_id or "", caller.principal) == self.owner:
            return "", "", ""
        # A request without a session has nothing that its next one could be recognized by.
        label = session.label if isolation == "session" and session.lasting else ""
        return session.caller.tenant_id or "", session.caller.principal, label

    def _of(self, server: ServerSettings) -> str:
        """Return the isolation of a server; if the config leaves it open, principals share no process and its state."""
        if server.options.isolation:
            return server.options.isolation
        is_process = isinstance(server.target, StdioTarget)
        return "principal" if is_process and not self.one_principal else "shared"
