"""Which skills a caller may see: not those that are disabled, denied, without a variable, or not for models (R227).

Knows the rules of the config and the names of set variables; never knows a scope, which SQL enforces, or a text.
"""

from collections.abc import Container, Iterable

from toolcrib.base.model import Skill
from toolcrib.config.schema import SkillPermission, SkillsSection

_TOOLS = ("skill_get", "skill_load", "*")
"""The tools of a permission rule that mean loading a skill, here and in the program that rules are pasted from."""


class Visibility:
    """Decides for one skill at a time, with the reason for a person (R181, R199, R243)."""

    def __init__(self, section: SkillsSection, variables: Iterable[str]) -> None:
        self._disabled = frozenset(section.disabled_skills)
        self._rules = [rule for rule in section.permissions if rule.tool in _TOOLS]
        self._variables = frozenset(variables)

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
        if "deny" in actions:
            return "deny"
        return "confirm" if "confirm" in actions and "allow" not in actions else None


def _is_about(rule: SkillPermission, skill: Skill) -> bool:
    return rule.skill_name is None or rule.skill_name in (skill.name, f"{skill.source}/{skill.name}")
