"""A pack's skill as the ``SKILL.md`` that it is published as (C8).

Knows how the parts of a skill are laid out as Markdown, the same bytes every time; never knows files or callers.
"""

import json
from collections.abc import Iterable
from typing import Protocol

from toolcrib.base.text import one_line, truncate
from toolcrib.formats.markdown import outline, plain_title
from toolcrib.model import SkillText
from toolcrib.skills.formats.agent_skill import DESCRIPTION_MAX
from toolcrib.skills.formats.stated import facts


class SkillParts(Protocol):
    """What a skill says, in parts; :class:`toolcrib.model.SkillText` is one."""

    @property
    def title(self) -> str:
        """Its title, or nothing."""
        ...

    @property
    def body(self) -> str:
        """Its Markdown, or nothing."""
        ...

    @property
    def preconditions(self) -> tuple[str, ...]:
        """What must hold before."""
        ...

    @property
    def steps(self) -> tuple[str, ...]:
        """What to do, in order."""
        ...

    @property
    def failure_modes(self) -> tuple[str, ...]:
        """What goes wrong."""
        ...


def skill_markdown(text: SkillText, slug: str) -> str:
    """Return the whole file, valid by the Agent Skills format in a folder named ``slug``.

    The skill's own name stands under ``metadata``. Tools that it only notes are left out: who reads them decides
    which of them may be named.
    """
    fields = [
        f"name: {_quoted(slug)}",
        f"description: {_quoted(_description(text))}",
        "metadata:",
        f"  toolcrib-name: {_quoted(text.name)}",
    ]
    body = "\n\n".join(filter(None, [skill_body(text), "\n".join(facts(text.frontmatter))]))
    return "\n".join(["---", *fields, "---", "", body, ""])


def skill_body(text: SkillParts) -> str:
    """Return what a skill says as Markdown: its own body, and whatever the body does not say itself."""
    body = text.body.strip()
    parts = [f"# {one_line(text.title)}"] if text.title and not body.startswith("# ") else []
    parts += [body] if body else []
    for heading, items, marker in (
        ("Preconditions", text.preconditions, "-"),
        ("Steps", text.steps, "{}."),
        ("Failure modes", text.failure_modes, "-"),
    ):
        if items and not _says(body, items):
            lines = [f"{marker.format(number)} {one_line(item)}" for number, item in enumerate(items, 1)]
            parts += [f"## {heading}", "\n".join(lines)]
    return "\n\n".join(parts)


def _description(text: SkillText) -> str:
    """Return what the skill is for and when to use it, on one line."""
    # SKILL.md has no field for a trigger: what the skill does and when to use it both go into the description.
    trigger, about = one_line(text.trigger), one_line(text.description or text.title)
    if trigger in about or not about:
        return truncate(about or trigger, DESCRIPTION_MAX)
    return truncate(f"{about}{'' if about[-1] in '.!?:' else '.'} {trigger}", DESCRIPTION_MAX)


def _quoted(text: str) -> str:
    """Return one line of text as a JSON string, which is a YAML scalar that nothing in it can end."""
    return json.dumps(one_line(text), ensure_ascii=False)


def _says(body: str, items: Iterable[str]) -> bool:
    said = {block.title or plain_title(block.text) for block in outline(body).blocks}
    return said.issuperset(map(plain_title, items))
