"""Fields that are shown as their author wrote them: from the top level, or from metadata, as the format requires."""

import re
from collections.abc import Iterator
from typing import Any, cast

from toolcrib.base.json_values import as_list, as_object
from toolcrib.base.model import JsonObject, SkillText, ToolNote
from toolcrib.base.text import one_line

REQUIRED_TOOLS = ("required_tools", "required-tools")
"""The names of a pack's field for required tools."""

LISTS_OF_TOOLS = frozenset(("tools", *REQUIRED_TOOLS, "allowed-tools", "allowed_tools"))
"""The fields that list tools, as :func:`tool_notes` parses them."""

# Inside the parentheses of a pattern, as in Bash(git:*), commas and spaces do not separate.
TOOL = re.compile(r"([^\s,()]+)(?:\(([^()]*)\))?")


def line_of(value: Any) -> str:
    """Return a scalar, or a list of them, as one line."""
    if isinstance(value, list):
        return ", ".join(lines_of(value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return one_line(str(value)) if isinstance(value, str | int | float) else ""


def lines_of(value: Any) -> tuple[str, ...]:
    """Return each scalar of a list as one line; a single text is a list of one."""
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    return tuple(filter(None, (line_of(item) for item in items if not isinstance(item, list))))


def working_tools(text: SkillText) -> tuple[ToolNote, ...]:
    """Return the tools that a skill works with. ``allowed-tools``, what a host may run unasked, does not count.

    A skill without frontmatter, of another program, works with what it lists.
    """
    if not text.frontmatter:
        return text.tools
    return tuple(dict.fromkeys(note for field in ("tools", *REQUIRED_TOOLS) for note in _notes_in(text, field)))


def required_tools(text: SkillText) -> tuple[str, ...]:
    """Return the tools that a pack's skill requires."""
    return tuple(dict.fromkeys(note.tool for field in REQUIRED_TOOLS for note in _notes_in(text, field)))


def _notes_in(text: SkillText, field: str) -> Iterator[ToolNote]:
    value = text.frontmatter.get(field)
    # An empty field counts as absent, so that metadata, where the format has custom fields, can provide the value.
    return tool_notes(as_object(text.frontmatter.get("metadata")).get(field) if value in (None, "", []) else value)


def tool_notes(value: Any) -> Iterator[ToolNote]:
    """Yield the tools in a text such as ``Read Bash(git:*)``, or in a list of texts or of ``{tool, note}``."""
    if isinstance(value, str):
        yield from (ToolNote(*found) for found in TOOL.findall(one_line(value)))
        return
    for item in as_list(value):
        if isinstance(item, dict):
            said = as_object(item)
            name, note = (
                line_of(said.get("tool") or said.get("name")),
                line_of(said.get("note") or said.get("description")),
            )
        else:
            name, _, note = (part.strip() for part in line_of(item).removesuffix(")").partition("("))
        if name:
            yield ToolNote(name, note)


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
