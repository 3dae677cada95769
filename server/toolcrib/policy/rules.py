"""What a caller may use: one pure decision for list, search, call, counts and errors."""

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from toolcrib.base.model import Caller, JsonObject, SideEffects, Skill, Tool
from toolcrib.base.names import SEPARATOR, bare_name, beginnings, joined_key, qualified_spellings
from toolcrib.base.text import glob_matcher, glob_may_begin
from toolcrib.config.schema import ConfirmSection, Effect, PolicySection, SkillPermission, SkillsSection

_HARMLESS = (SideEffects.PURE, SideEffects.READ)


class ConfirmRules:
    """The section ``policy.confirm``. A glob in any spelling is enough, as for a deny."""

    def __init__(self, section: ConfirmSection) -> None:
        self._is_named = glob_matcher(section.tools)
        self._effects = frozenset[Effect](section.effects)

    def names(self, tool: Tool) -> bool:
        """Return whether the rules name the tool."""
        spellings = (tool.name, *qualified_spellings(tool.server, tool.name, tool.public_name))
        return any(map(self._is_named, spellings))

    def may_concern_effects(self, tool: Tool) -> bool:
        """Return whether the annotations of the tool may decide: it is not known to be harmless."""
        return bool(self._effects) and tool.side_effects not in _HARMLESS

    def concern_effects(self, tool: Tool, annotations: JsonObject) -> bool:
        """Return whether the rules are about an effect of the tool; ``annotations`` are those of its definition."""
        return not self._effects.isdisjoint(effects_of(tool.side_effects, annotations))


def effects_of(side_effects: SideEffects | None, annotations: JsonObject) -> frozenset[Effect]:
    """Return what a tool may do: what is declared of it, and the worst of what is not.

    So the protocol has it: a tool is destructive and open to the world unless it is said that it is not (2025-11-25,
    ToolAnnotations).
    """
    if side_effects in _HARMLESS:
        return frozenset()
    effects: set[Effect] = {"write"}
    is_open = side_effects is None and annotations.get("openWorldHint") is not False
    if is_open or side_effects is SideEffects.EXTERNAL:
        effects.add("external")
    if annotations.get("destructiveHint") is not False:
        effects.add("destructive")
    return frozenset(effects)


_TOOLS = ("skill_get", "skill_load", "*")
"""The tools of a permission rule that mean loading a skill, here and in the program that rules are pasted from."""


class Visibility:
    """Decides for one skill at a time, with the reason for a person (R181, R199, R243)."""

    def __init__(self, section: SkillsSection, variables: Iterable[str]) -> None:
        self._disabled = frozenset(section.disabled_skills)
        self._rules = [rule for rule in section.permissions if rule.tool in _TOOLS]
        self._variables = frozenset(variables)
        self.may_confirm = any(rule.action == "confirm" for rule in self._rules)
        """Whether a person has to approve any text: without such a rule no skill is looked at for it."""

    def reason(self, skill: Skill, switched_off: Container[str], *, by_person: bool = False) -> str | None:
        """Return why nobody is shown the skill, or None where nothing hides it. ``switched_off`` are ids of skills.

        What its author keeps from models is there for a person who asks for it by name (``by_person``).
        """
        if skill.id in switched_off:
            return "disabled"
        if self._disabled & {skill.name, skill.id, f"{skill.source}/{skill.name}"}:
            return "in skills.disabled_skills"
        if self._action(skill) == "deny":
            return "skills.permissions: deny"
        if skill.is_hidden and not by_person:
            return "its author hides it from models (disable-model-invocation)"
        missing = self.missing(skill)
        return f"needs the environment variable {', '.join(missing)}" if missing else None

    def must_confirm(self, skill: Skill) -> bool:
        """Return whether a person has to approve before the text of the skill is returned."""
        return self._action(skill) == "confirm"

    def missing(self, skill: Skill) -> list[str]:
        """Return the environment variables that the skill needs and that are not set (R199)."""
        return [name for name in skill.requires if name not in self._variables]

    def _action(self, skill: Skill) -> str | None:
        """Return the strictest applicable rule: a deny beats an allow, an allow beats a confirmation (R248)."""
        actions = {rule.action for rule in self._rules if _is_about(rule, skill)}
        # Not the order of the rules: whoever adds a rule need not know those before it.
        if "deny" in actions:
            return "deny"
        return "confirm" if "confirm" in actions and "allow" not in actions else None


def _is_about(rule: SkillPermission, skill: Skill) -> bool:
    return rule.skill_name is None or rule.skill_name in (skill.name, f"{skill.source}/{skill.name}")


CONTEXT_KEYS = ("tenant_id", "project_id", "profile")
"""The caller's facts that a visibility rule may ask for."""

_WILDCARDS = re.compile(r"[*?\[]")
_ANYTHING = "*?_./:"
"""Characters of a glob that by themselves leave every name open."""

_ANY_TOOL = "\ue000" * 300
"""A name that no policy is about, unless it is about every tool of a server: no glob holds such characters.

It is longer than a name may be, so that a glob of question marks is not about it.
"""


@dataclass(frozen=True, slots=True)
class VisibilityRule:
    """Globs that hold for callers whose facts all equal one of the given values (R25)."""

    when: Mapping[str, tuple[str, ...]]
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()

    def matches(self, caller: Caller) -> bool:
        """Return whether the rule speaks about ``caller``. A fact that the caller lacks never matches."""
        return all(getattr(caller, key) in values for key, values in self.when.items())


class Permissions:
    """The policy as it stands for one kind of caller. Two callers with equal ``key`` see the same tools.

    ``sees_all``: no indexed tool is ever kept from it. Does not depend on which tools there are.
    """

    def __init__(self, key: tuple[int, ...], allow: Sequence[str], deny: Sequence[str], *, only: bool = False) -> None:
        self.key = key
        self.unrestricted = "*" in allow and not deny
        self.sees_all = only or self.unrestricted
        self._allow = tuple(allow)
        self._allowed = glob_matcher(allow)
        self._begun = tuple(filter(None, (_WILDCARDS.split(glob, maxsplit=1)[0] for glob in allow)))
        self._denied = glob_matcher(deny)
        ends = [end for end in map(_bare_end, deny) if end]
        self._denied_ends = glob_matcher(ends)
        # A glob such as * or *__* denies every tool, but must not make every word of a document a name.
        by_name = dict.fromkeys([glob for glob in deny if glob.strip(_ANYTHING)] + ends)
        self._denied_names = frozenset(glob for glob in by_name if not _WILDCARDS.search(glob))
        self._denied_by_name = glob_matcher(by_name)
        self._denied_joined = frozenset(
            filter(None, (joined_key(SEPARATOR.sub("_", name)) for name in self._denied_names))
        )

    def permits(self, server: str, tool: str, public: str) -> bool:
        """Return whether this kind of caller may use the tool. A deny in any spelling wins."""
        return self.permits_by(server, ((tool, public),))

    def permits_by(self, server: str, names: Iterable[tuple[str, str]]) -> bool:
        """Return the same of what has several names, each with its public form: a deny of one wins, one is allowed."""
        if self.unrestricted:
            return True
        names = tuple(names)
        # A deny in any spelling wins, so it is tried before any allow.
        if self.denies(server, names):
            return False
        return any(self._allowed(each) for name, public in names for each in qualified_spellings(server, name, public))

    def denies(self, server: str, names: Iterable[tuple[str, str]]) -> bool:
        """Return whether a deny is about one of these names, in any spelling.

        A deny may give the name alone. An allow has to name the server too, or a tool of any other server that has the
        same name would be allowed.
        """
        return any(
            self._denied(each) for name, public in names for each in (name, *qualified_spellings(server, name, public))
        )

    def names_server(self, server: str) -> bool:
        """Return whether an allow is about this server by name, not about all servers."""
        starts = beginnings(server)
        return any(
            start.startswith(literal) or literal.startswith(start) for literal in self._begun for start in starts
        )

    def permits_some_of(self, server: str) -> bool:
        """Return whether the policy may leave this kind of caller a tool of the server, whatever it may be called."""
        if self.unrestricted:
            return True
        starts = beginnings(server)
        # A deny that matches a name without any letters of ours matches every name.
        if any(map(self._denied, (_ANY_TOOL, *(f"{start}{_ANY_TOOL}" for start in starts)))):
            return False
        return any(glob_may_begin(glob, start) for glob in self._allow for start in starts)

    def refuses(self, server: str, tool: str, public: str) -> bool:
        """Return whether this kind of caller may not use the tool: every glob is tried, whatever the answer is.

        For the reason of a refusal, which the time that it takes must not tell.
        """
        spellings = (tool, *qualified_spellings(server, tool, public))
        is_denied = any([self._denied(each) for each in spellings])  # noqa: C419 - any of a list stops at none of them
        is_allowed = any([self._allowed(each) for each in spellings[1:]])  # noqa: C419
        return is_denied or not is_allowed

    def denies_name(self, name: str) -> bool:
        """Return whether a denied tool may be called ``name``, with or without its server: no name for an event."""
        return self._denied(name) or self._denied_ends(name)

    def names_denied(self, name: str) -> bool:
        """Return whether a deny that is about some tools, not simply about all, is about ``name``.

        As it is written; :meth:`names_denied_exactly` knows other ways to join words. A glob such as ``*create*`` is
        about names with ``_`` only: ``createdAt`` and ``re-created`` are mostly words.
        """
        return name in self._denied_names or ("_" in name and self._denied_by_name(name))

    def names_denied_exactly(self, name: str) -> bool:
        """Return whether a deny without wildcards is about ``name``, or about its words joined in another way."""
        return name in self._denied_names or (bool(self._denied_joined) and joined_key(name) in self._denied_joined)


def _bare_end(glob: str) -> str:
    """Return what a glob says of the tool's own name; empty where that is any name at all."""
    end = SEPARATOR.split(glob)[-1]
    return end if end.strip("*?") else ""


class Policy:
    """All of the policy in a config; hands out the :class:`Permissions` of a caller.

    ``anyone`` is what any caller at all may use: nothing else is even indexed.
    """

    def __init__(
        self, allow: Sequence[str] = ("*",), deny: Sequence[str] = (), rules: Sequence[VisibilityRule] = ()
    ) -> None:
        self._allow, self._deny, self._rules = tuple(allow), tuple(deny), tuple(rules)
        self._permissions: dict[tuple[int, ...], Permissions] = {}
        # The union of all allows: only what no caller can ever use is left out of the index.
        anyone = [*self._allow, *(glob for rule in self._rules for glob in rule.allow or ())]
        self.anyone = Permissions((-1,), anyone, self._deny)

    def permissions(self, caller: Caller) -> Permissions:
        """Return the permissions of ``caller``: allows of matching rules replace the general ones, denies add up."""
        key = tuple(number for number, rule in enumerate(self._rules) if rule.matches(caller))
        if key not in self._permissions:
            matching = [self._rules[number] for number in key]
            # A matching rule may widen what a caller may use, but no rule takes back a general deny.
            allows = [rule.allow for rule in matching if rule.allow is not None]
            allow = [glob for globs in allows for glob in globs] if allows else self._allow
            deny = [*self._deny, *(glob for rule in matching for glob in rule.deny)]
            # Without rules all callers are alike, and what they may not use is not indexed.
            self._permissions[key] = Permissions(key, allow, deny, only=not self._rules)
        return self._permissions[key]

    def matching_rules(self, caller: Caller) -> tuple[VisibilityRule, ...]:
        """Return the rules that match ``caller``: callers with the same ones may use the same tools."""
        return tuple(rule for rule in self._rules if rule.matches(caller))

    def known_permissions(self) -> tuple[Permissions, ...]:
        """Return the permissions that were asked for so far."""
        return tuple(self._permissions.values())

    def refuses_everyone(self, name: str, servers: Iterable[str]) -> bool:
        """Return whether nobody may use the tool of one of these servers that is called ``name``, if there is one.

        For the reason of a refusal: every step is done for every name of a server.
        """
        of_servers = [(server, bare_name(name, server)) for server in servers]
        is_named = self.anyone.names_denied(name)
        refused = [self.anyone.refuses(server, tool, name) for server, tool in of_servers if tool is not None]
        return any(refused) or is_named


def policy_of(section: PolicySection) -> Policy:
    """Return the policy that a config's globs make."""
    rules = [
        VisibilityRule(
            when={key: tuple(value) for key in CONTEXT_KEYS if (value := getattr(rule.when, key)) is not None},
            allow=rule.allow,
            deny=rule.deny,
        )
        for rule in section.visibility
    ]
    return Policy(section.allow, section.deny, rules)
