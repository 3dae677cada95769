"""Fields that are shown as their author wrote them: from the top level, or from metadata, as the format requires.

Knows how such a field is looked up; never knows what it means.
"""

from typing import Any

from toolcrib.base.json_values import as_object
from toolcrib.base.model import JsonObject
from toolcrib.skills.formats.fields import lines_of

CAPABILITIES = ("capabilities",)
_FACTS = (
    ("Work direction", ("workDirection", "work-direction", "work_direction")),
    ("Capabilities", CAPABILITIES),
)
_VERSION = ("Version", ("version",))
"""Fields that are reported as lines, with the names that authors give them (R256)."""


def stated(frontmatter: JsonObject, *names: str) -> Any:
    """Return the first nonempty field with one of these names; None if there is none."""
    holders = (frontmatter, as_object(frontmatter.get("metadata")))
    found = (holder[name] for holder in holders for name in names if holder.get(name) not in (None, "", [], {}))
    return next(found, None)


def stated_lines(frontmatter: JsonObject, *names: str) -> tuple[str, ...]:
    """Return such a field as lines: a list gives one per item; values other than scalars and lists are ignored."""
    return lines_of(stated(frontmatter, *names))


def facts(frontmatter: JsonObject) -> tuple[str, ...]:
    """Return a skill's declarations in place of a trigger and steps, a line for each field.

    Empty if it only has a version: many skills have one, and it is of no use to a model.
    """
    said = [(label, stated_lines(frontmatter, *names)) for label, names in (*_FACTS, _VERSION)]
    lines = tuple(f"{label}: {', '.join(items)}" for label, items in said if items)
    return lines if any(items for _, items in said[:-1]) else ()
