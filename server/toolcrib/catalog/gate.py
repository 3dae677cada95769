"""Decides what a session may use of the catalog: for list, search, call, counts, and the tools of its skills."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Protocol

from toolcrib.base.cache import RecentBy
from toolcrib.base.model import BUILTIN_NAMES, JsonObject, LoadingMode, Tool
from toolcrib.base.names import SEPARATOR, host_spellings, public_name, tool_matcher
from toolcrib.base.text import enumerated, one_line, truncate
from toolcrib.catalog.denied_names import NameMasker
from toolcrib.catalog.snapshot import Catalog, Permitted
from toolcrib.config.schema import SkillToolsConfig, ToolcribSection
from toolcrib.config.settings import ServerSettings, Settings, has_scoped_tools
from toolcrib.events.kinds import RefusalReason
from toolcrib.policy.rules import Permissions, Policy
from toolcrib.policy.sessions import Active, Session

_GLOB = re.compile(r"[*?\[]")
_OF_A_HOST = re.compile(r"[A-Z][A-Za-z]*\Z")
"""How hosts spell their own tools: ``Read``, ``WebFetch``."""
_GLOB_MAX = 100
"""Maximum number of tools that one glob may match."""
_OPENED_MAX, _MEANT_MAX = 256, 10_000
"""Maximum number of cached sets of active skills, and of cached spellings."""
_NOTHING = SkillToolsConfig()
NO_PRICES: Mapping[str, int] = MappingProxyType({})


class NamesSkill(Protocol):
    """The names of a skill, also in the config."""

    @property
    def id(self) -> str:
        """Its id."""
        ...

    @property
    def name(self) -> str:
        """Its name, which need not be unique."""
        ...

    @property
    def source(self) -> str:
        """The label of its root."""
        ...


@dataclass(frozen=True, slots=True)
class ResolvedTools:
    """The tools that a list of spellings refers to for a caller: ``by_spelling`` has those of each that matches.

    ``missing`` are those that match none: denied and nonexistent tools are indistinguishable.
    """

    by_spelling: Mapping[str, tuple[Tool, ...]]
    missing: tuple[str, ...]

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Return the distinct tools."""
        return tuple({tool.row: tool for tools in self.by_spelling.values() for tool in tools}.values())


class Bindings:
    """The config's settings for the tools of skills, and the tools that active skills make available by them."""

    def __init__(self, section: ToolcribSection) -> None:
        self._entries = section.skill_tools
        self._meant = RecentBy[Catalog, tuple[tuple[int, ...], str], tuple[Tool, ...]](_MEANT_MAX)
        self._opened = RecentBy[Catalog, tuple[tuple[int, ...], Active], Mapping[int, str]](_OPENED_MAX)
        deferred = {LoadingMode.DEFERRED} if section.skills.tool_activation == "auto" else set[LoadingMode]()
        self._opens = frozenset({LoadingMode.SKILL, *deferred})

    def settings_of(self, skill: NamesSkill) -> SkillToolsConfig:
        """Return the config's settings for one skill, by its most specific spelling."""
        spellings = (skill.id, f"{skill.source}/{skill.name}", skill.name)
        return next((self._entries[each] for each in spellings if each in self._entries), _NOTHING)

    def resolve(self, catalog: Catalog, permitted: Permitted, spellings: Iterable[str]) -> ResolvedTools:
        """Return the tools among those ``permitted`` that spellings in skills refer to.

        A public name, ``S.T`` and the like, ``mcp__S__T``, an unambiguous bare name, or a glob of these. Our own tools
        and those of hosts belong to no server: they are neither found nor missing.
        """
        found: dict[str, tuple[Tool, ...]] = {}
        missing: list[str] = []
        known, key = self._meant[catalog], permitted.permissions.key
        for spelling in dict.fromkeys(spellings):
            tools = known.get((key, spelling), partial(_meant, catalog, permitted, spelling))
            if tools:
                found[spelling] = tools
            elif not is_of_others(spelling):
                missing.append(spelling)
        return ResolvedTools(found, tuple(missing))

    def opened(self, catalog: Catalog, permitted: Permitted, active: Active) -> Mapping[int, str]:
        """Return the rows of the tools that active skills make available, each with the first skill that names it.

        ``permitted`` is what the caller's policy permits, scoped to skills or not.
        """
        if not active:
            return {}
        key = permitted.permissions.key, active
        return self._opened[catalog].get(key, lambda: self._worked_out(catalog, permitted, active))

    def _worked_out(self, catalog: Catalog, permitted: Permitted, active: Active) -> dict[int, str]:
        found: dict[int, str] = {}
        for skill in active:
            for tool in self.resolve(catalog, permitted, (*self.settings_of(skill).tools, *skill.tools)).tools:
                if tool.loading_mode in self._opens:
                    found.setdefault(tool.row, skill.label)
        return found


def is_of_others(spelling: str) -> bool:
    """Return whether a spelling refers to one of our tools or a host's, not a server's."""
    # A host's Bash(git:*) is parsed as the tool Bash with a note, but may also occur unparsed.
    own = SEPARATOR.split(spelling)[-1]
    return own in BUILTIN_NAMES or bool(_OF_A_HOST.match(spelling.partition("(")[0]))


def is_glob(spelling: str) -> bool:
    """Return whether a spelling has wildcards."""
    return _GLOB.search(spelling) is not None


def _meant(catalog: Catalog, permitted: Permitted, spelling: str) -> tuple[Tool, ...]:
    if not is_glob(spelling):
        tools = (catalog.find(each, permitted) for each in host_spellings(spelling))
        return tuple(next(([tool] for tool in tools if tool), ()))
    matches = tool_matcher([spelling])
    meant = (tool for tool in permitted.tools if matches(tool.server, tool.name, tool.public_name))
    return tuple(tool for tool, _ in zip(meant, range(_GLOB_MAX), strict=False))


class NameMaskers:
    """The :class:`NameMasker` of each kind of caller, for the catalog requested last.

    ``servers`` are their keys, ``own`` the names of our own tools, which no policy applies to.
    """

    def __init__(self, servers: Sequence[str], own: Collection[str]) -> None:
        self._servers, self._own = tuple(servers), frozenset(own)
        self._by_permissions: dict[tuple[int, ...], NameMasker] = {}

    def masker(self, catalog: Catalog, permissions: Permissions) -> NameMasker:
        """Return the reader of texts for callers with these permissions."""
        known = self._by_permissions.get(permissions.key)
        if known is None or known.catalog is not catalog:
            known = NameMasker(permissions, catalog, self._servers, self._own)
            self._by_permissions[permissions.key] = known
        return known


class Gate:
    """Decides for a session what it may use of the catalog; the only place that does."""

    def __init__(self, settings: Settings, policy: Policy, prices: Mapping[str, int] = NO_PRICES) -> None:
        """``prices`` are the tokens of tools by fingerprint, as far as they are known by now."""
        self._policy, self._servers, self._prices = policy, tuple(settings.servers), prices
        self._settings = settings
        self._whole_list_max = settings.toolcrib.gate.pass_through_tokens
        self.maskers = NameMaskers(self._servers, BUILTIN_NAMES)
        self._lists_all = not settings.toolcrib.tool_search.enabled
        self._has_scoped = has_scoped_tools(settings.toolcrib)
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
        # Without scoped tools all sessions with these permissions share one result, and its caches.
        if not catalog.permitted(permissions).scoped:
            return catalog.permitted(permissions)
        return catalog.open_to(permissions, frozenset(self.opened(session, catalog)))

    def still_permits(self, session: Session, tool: Tool) -> bool:
        """Return whether the caller may use a tool, in the catalog or not: for what an earlier call of it has left.

        It may have got another public name meanwhile, which is the one that globs are about.
        """
        server = self._settings.servers.get(tool.server)
        words = server and server.options.tools.get(tool.name)
        if server is None or (words and words.hide):
            return False
        shown = (words and words.name) or tool.name
        public = public_name(tool.server, shown, self._settings.toolcrib.limits.name_max)
        return self.permissions(session).permits(tool.server, tool.name, public)

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
        # A plain proxy, or so few tools that a search costs the model more than the list.
        if self._lists_all or self._passes_through(session, permitted.tools):
            scoped = {tool.row for tool in permitted.scoped}
            return [tool for tool in permitted.tools if tool.row not in scoped or tool.row in opened]
        if session.whole_list:
            scoped = {tool.row for tool in permitted.scoped} - opened.keys()
            return self._whole([tool for tool in permitted.tools if tool.row not in scoped], session.whole_list.names)
        used = [catalog.get(name) for name in session.activations.names] if session.growing else []
        by_skills = [tool for tool in permitted.tools if tool.row in opened] if opened else []
        shown = (*permitted.always, *used, *by_skills)
        by_row = {tool.row: tool for tool in shown if tool and tool.row in permitted.rows}
        return sorted(by_row.values(), key=lambda tool: tool.public_name)

    def _whole(self, tools: Sequence[Tool], names: AbstractSet[str]) -> list[Tool]:
        """Return those with these names, and as many of the others as fit within the limit.

        The rest came by a reload or a changed list, and is found by search until the next start.
        """
        kept = [self._prices.get(tool.fingerprint) for tool in tools if tool.public_name in names]
        left = self._whole_list_max - sum(price for price in kept if price is not None)
        listed: list[Tool] = []
        for tool in tools:
            price = self._prices.get(tool.fingerprint)
            if tool.public_name in names:
                listed.append(tool)
            # What is not priced yet is not listed yet: its price is being read.
            elif price is not None and price <= left:
                left -= price
                listed.append(tool)
        return listed

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
        is_used = is_used or (session.whole_list is not None and tool.public_name in session.whole_list.names)
        return tool.loading_mode is LoadingMode.ALWAYS or self._lists_all or bool(session.pass_through) or is_used

    def shows_opened(self, session: Session) -> bool:
        """Return whether the session's list includes tools opened by skills; a plain proxy's does for any session."""
        return session.growing or (session.lasting and self._lists_all)

    def differs(self, session: Session, before: Catalog, after: Catalog) -> bool:
        """Return whether a change of the catalog changes what the session's ``tools/list`` shows."""
        return self.marks(session, before) != self.marks(session, after)

    def hides_nothing(self, session: Session) -> bool:
        """Return whether the session's caller may use every tool there is, without a skill that opens it."""
        return not self._has_scoped and self.permissions(session).unrestricted

    def marks(self, session: Session, catalog: Catalog) -> list[tuple[str, str]]:
        """Return what distinguishes lists of the session: names and fingerprints."""
        return [(tool.public_name, tool.fingerprint) for tool in self.listed(session, catalog)]

    def decide_pass_through(self, session: Session, catalog: Catalog) -> None:
        """Decide once, at a session's first list, whether so few tools are permitted that all are listed."""
        session.pass_through = self._passes_through(session, self.permitted(session, catalog).tools)

    def _passes_through(self, session: Session, permitted: Sequence[Tool]) -> bool:
        """Return whether all tools are listed; for a session that has not listed yet, as if it did so now."""
        # Decided once per session: a list that crosses the bound later must not change its kind.
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

    def extensions(self, session: Session, catalog: Catalog) -> JsonObject:
        """Return the extensions of the servers of which the caller may use something, with the first one's settings."""
        known = (catalog.extensions.get(key, {}) for key in reversed(self.servers(session)))
        return {name: settings for declared in known for name, settings in declared.items()}

    def grows_by(self, session: Session, tool: Tool, catalog: Catalog) -> bool:
        """Return whether the session's list grows when it first uses a tool."""
        if not session.growing or session.whole_list or tool.loading_mode is not LoadingMode.DEFERRED:
            return False
        return not (self._lists_all or session.pass_through or tool.row in self.opened(session, catalog))

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
        # No step is skipped once the answer is known: its duration would tell which it is.
        by_policy = self._policy.refuses_everyone(name, self._servers)
        return "visibility" if hidden else "skill" if closed else "policy" if by_policy else "unknown"

    def without_denied_names(self, session: Session, text: str, catalog: Catalog) -> str:
        """Return ``text`` with ``[denied]`` for each name of a tool that the session may not use."""
        # Nothing is denied, so no name in the text has to be looked up.
        if self.permissions(session).unrestricted:
            return text
        return self.masker(session, catalog).denied.mask(text)

    def masker(self, session: Session, catalog: Catalog) -> NameMasker:
        """Return the reader of documents for the session's caller: it hides denied names and finds mentioned tools."""
        return self.maskers.masker(catalog, self.permissions(session))


SkillTools = Mapping[str, Mapping[str, str]]
"""Active skills by label, each with the public names and states of the tools that it names."""


class SkillToolStates:
    """Determines the states of tools. ``has_failed`` returns whether a server has failed."""

    def __init__(self, gate: Gate, has_failed: Callable[[str], bool]) -> None:
        self._gate, self._has_failed = gate, has_failed

    def state(self, session: Session, tool: Tool, opened: AbstractSet[int]) -> str:
        """Return the state of a tool, given the rows that active skills have opened."""
        if self._has_failed(tool.server):
            return "its server failed"
        is_used = tool.public_name in session.activations.names
        is_ready = is_used or tool.loading_mode is LoadingMode.ALWAYS or tool.row in opened
        return "ready" if is_ready else "deferred"

    def active_skills(self, session: Session, catalog: Catalog) -> SkillTools:
        """Return a session's active skills with those of their tools that its caller may use."""
        if not session.skills.skills:
            return {}
        bindings, allowed = self._gate.bindings, self._gate.allowed(session, catalog)
        opened = self._gate.opened(session, catalog).keys()
        return {
            skill.label: {
                tool.public_name: self.state(session, tool, opened)
                for tool in bindings.resolve(catalog, allowed, (*bindings.settings_of(skill).tools, *skill.tools)).tools
            }
            for skill in session.skills.skills
        }


_PURPOSE_MAX = 40
"""Maximum length of the purpose of one server."""


class ServerPurposes:
    """Describes the available servers. Never in a downstream's words: these could instruct a model."""

    def __init__(self, servers: Mapping[str, ServerSettings], gate: Gate) -> None:
        self._servers, self._gate = servers, gate

    def describe(self, servers: Sequence[str], session: Session, catalog: Catalog, room: int) -> str:
        """Return servers with their purposes if they fit into ``room`` characters; else as many names as fit."""
        described = [self._with_purpose(key, session, catalog) for key in servers]
        return enumerated(described if len(", ".join(described)) <= room else servers, room)

    def _with_purpose(self, server: str, session: Session, catalog: Catalog) -> str:
        """Return a server with its purpose from the config, unless that names a tool that the caller may not use."""
        purpose = one_line(self._servers[server].options.description)
        if not purpose or self._gate.without_denied_names(session, purpose, catalog) != purpose:
            return server
        return f"{server} ({truncate(purpose, _PURPOSE_MAX)})"
