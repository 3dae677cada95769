"""The activation gate: what a session has activated, what it is shown, and what may be called through it.

Knows sessions, loading modes and activation; never knows protocols, connections or search.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from toolcrib.base.model import LoadingMode, Tool
from toolcrib.config.settings import Settings
from toolcrib.events.kinds import RefusalReason
from toolcrib.policy.activations import Active
from toolcrib.policy.rules import Permissions, Policy
from toolcrib.policy.sessions import Session
from toolcrib.tools.bindings import Bindings
from toolcrib.tools.index.catalog import Catalog, Permitted
from toolcrib.tools.mentions import Mentions, ToolMentions


class Gate:
    """Decides for a session what it may use of the catalog; the only place that does."""

    def __init__(self, settings: Settings, policy: Policy, mentions: Mentions) -> None:
        self._policy, self._mentions = policy, mentions
        self._servers = tuple(settings.servers)
        self._lists_all = not settings.toolcrib.tool_search.enabled
        self._pass_through_below = settings.toolcrib.gate.pass_through_below
        self._servers_of: dict[tuple[int, ...], tuple[str, ...]] = {}
        self.bindings = Bindings(settings.toolcrib)
        self.splits_calls = settings.toolcrib.gate.call_tools == "split"
        self.scope = settings.toolcrib.tool_search.activation_scope

    def permissions(self, session: Session) -> Permissions:
        """Return the policy for the session's caller."""
        # After a reload, requests that began before it are still decided by their original policy.
        if session.permissions is None or session.permissions[0] is not self._policy:
            session.permissions = self._policy, self._policy.permissions(session.caller)
        return session.permissions[1]

    def is_closed(self, server: str) -> bool:
        """Return whether the policy denies a server's tools to everyone: then it is never started automatically."""
        return not self._policy.anyone.permits_some_of(server)

    def allowed(self, session: Session, catalog: Catalog) -> Permitted:
        """Return what policy permits to the session's caller, whichever skills are active."""
        return catalog.permitted(self.permissions(session))

    def permitted(self, session: Session, catalog: Catalog) -> Permitted:
        """Return what the session may use now: the one decision behind list, search, call and counts.

        It lacks tools scoped to skills, but for those that an active skill names.
        """
        permissions = self.permissions(session)
        if not catalog.permitted(permissions).scoped:
            return catalog.permitted(permissions)
        return catalog.open_to(permissions, frozenset(self.opened(session, catalog)))

    def opened(self, session: Session, catalog: Catalog, active: Active | None = None) -> Mapping[int, str]:
        """Return the rows that active skills make available, each with a skill; ``active`` None: the session's own."""
        skills = session.skills.skills if active is None else active
        return self.bindings.opened(catalog, self.allowed(session, catalog), skills)

    def activated(self, session: Session, catalog: Catalog) -> AbstractSet[str]:
        """Return the public names of tools that the session has used, or that its active skills make available."""
        rows = self.opened(session, catalog)
        if not rows:
            return session.activations.names
        tools = self.allowed(session, catalog).tools
        return {*session.activations.names, *(tool.public_name for tool in tools if tool.row in rows)}

    def listed(self, session: Session, catalog: Catalog) -> list[Tool]:
        """Return the tools that ``tools/list`` shows to the session, by public name."""
        permitted = self.permitted(session, catalog)
        opened = self.opened(session, catalog) if self.shows_opened(session) else dict[int, str]()
        if self._lists_all or self._passes_through(session, permitted.tools):
            scoped = {tool.row for tool in permitted.scoped}
            return [tool for tool in permitted.tools if tool.row not in scoped or tool.row in opened]
        used = [catalog.get(name) for name in session.activations.names] if session.growing else []
        by_skills = [tool for tool in permitted.tools if tool.row in opened] if opened else []
        shown = (*permitted.always, *used, *by_skills)
        by_row = {tool.row: tool for tool in shown if tool and tool.row in permitted.rows}
        return sorted(by_row.values(), key=lambda tool: tool.public_name)

    def shows_otherwise(self, session: Session, catalog: Catalog, before: Active) -> bool:
        """Return whether the session's list differs from that with ``before`` as its active skills."""
        if before == session.skills.skills or not self.shows_opened(session):
            return False
        differing = self.opened(session, catalog).keys() ^ self.opened(session, catalog, before).keys()
        tools = (tool for tool in self.allowed(session, catalog).tools if tool.row in differing)
        return not all(self._lists_without_skills(session, tool) for tool in tools)

    def owners(self, session: Session, catalog: Catalog) -> Mapping[int, str]:
        """Return the skill that makes each scoped tool available to the session, by row."""
        scoped = self.permitted(session, catalog).scoped
        return {tool.row: self.opened(session, catalog)[tool.row] for tool in scoped}

    def _lists_without_skills(self, session: Session, tool: Tool) -> bool:
        if tool.loading_mode is LoadingMode.SKILL:
            return False
        is_used = session.growing and tool.public_name in session.activations.names
        return tool.loading_mode is LoadingMode.ALWAYS or self._lists_all or bool(session.pass_through) or is_used

    def shows_opened(self, session: Session) -> bool:
        """Return whether the session's list includes tools opened by skills; a plain proxy's does for any session."""
        return session.growing or (session.lasting and self._lists_all)

    def differs(self, session: Session, before: Catalog, after: Catalog) -> bool:
        """Return whether a change of the catalog changes what the session's ``tools/list`` shows."""
        return self.marks(session, before) != self.marks(session, after)

    def marks(self, session: Session, catalog: Catalog) -> list[tuple[str, str]]:
        """Return what distinguishes lists of the session: names and fingerprints."""
        return [(tool.public_name, tool.fingerprint) for tool in self.listed(session, catalog)]

    def settle_pass_through(self, session: Session, catalog: Catalog) -> None:
        """Decide once, at a session's first list, whether so few tools are permitted that all are listed."""
        session.pass_through = self._passes_through(session, self.permitted(session, catalog).tools)

    def _passes_through(self, session: Session, permitted: Sequence[Tool]) -> bool:
        """Return whether all tools are listed; for a session that has not listed yet, as if it did so now."""
        if session.pass_through is None:
            return len(permitted) < self._pass_through_below
        return session.pass_through

    def servers(self, session: Session) -> tuple[str, ...]:
        """Return the keys of the servers of which the policy may permit the session's caller anything."""
        permissions = self.permissions(session)
        found = self._servers_of.get(permissions.key)
        if found is None:
            found = self._servers_of[permissions.key] = tuple(filter(permissions.permits_some_of, self._servers))
        return found

    def grows_by(self, session: Session, tool: Tool, catalog: Catalog) -> bool:
        """Return whether the session's list grows when it first uses a tool."""
        is_listed = self._lists_all or session.pass_through or tool.row in self.opened(session, catalog)
        return session.growing and tool.loading_mode is LoadingMode.DEFERRED and not is_listed

    @property
    def lists_everything(self) -> bool:
        """Whether every permitted tool is listed from the start: a plain proxy."""
        return self._lists_all

    def why_refused(self, session: Session, name: str, catalog: Catalog) -> RefusalReason:
        """Return why the session cannot use what it called ``name``: for an event, never for its answer.

        ``policy``: nobody may. ``visibility``: others may. ``skill``: no active skill names it. Every step is executed
        for every name, so that timing does not reveal what the text hides.
        """
        allowed, rows = self.allowed(session, catalog).rows, self.permitted(session, catalog).rows
        spelled = catalog.spelled(name)
        hidden = [tool for tool in spelled if tool.row not in allowed]
        closed = [tool for tool in spelled if tool.row not in rows]
        by_policy = self._policy.refuses_everyone(name, self._servers)
        return "visibility" if hidden else "skill" if closed else "policy" if by_policy else "unknown"

    def without_denied_names(self, session: Session, text: str, catalog: Catalog) -> str:
        """Return ``text`` with ``[denied]`` for each name of a tool that the session may not use."""
        if self.permissions(session).unrestricted:
            return text
        return self.mentions(session, catalog).denied.mask(text)

    def mentions(self, session: Session, catalog: Catalog) -> ToolMentions:
        """Return the reader of documents for the session's caller: it hides denied names and finds mentioned tools."""
        return self._mentions.of(catalog, self.permissions(session))
