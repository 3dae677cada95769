"""A pack's skill as the ``SKILL.md`` that it is published as (C8).

Knows how the parts of a skill are laid out as Markdown, the same bytes every time; never knows files or callers.
"""

import json
from collections.abc import Iterable
from typing import Protocol

from toolcrib.base.markdown import outline, plain_title
from toolcrib.base.model import SkillText
from toolcrib.base.text import one_line, truncate
from toolcrib.skills.formats.agent_skill import DESCRIPTION_MAX
from toolcrib.skills.formats.stated import facts


class SkillParts(Protocol):
    """The parts of a skill's content; :class:`toolcrib.base.model.SkillText` has them."""

    @property
    def title(self) -> str:
        """The title; may be empty."""
        ...

    @property
    def body(self) -> str:
        """The Markdown body; may be empty."""
        ...

    @property
    def preconditions(self) -> tuple[str, ...]:
        """The preconditions."""
        ...

    @property
    def steps(self) -> tuple[str, ...]:
        """The steps, in order."""
        ...

    @property
    def failure_modes(self) -> tuple[str, ...]:
        """The failure modes."""
        ...


def skill_markdown(text: SkillText, slug: str) -> str:
    """Return the whole file, valid in the Agent Skills format in a folder named ``slug``.

    The skill's own name is under ``metadata``. Tools that it merely notes are omitted: which may be named depends on
    the reader.
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
    """Return the content of a skill as Markdown: its own body, and the parts that the body does not contain."""
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
    """Return the purpose of the skill and when to use it, on one line."""
    # SKILL.md has no field for a trigger: the description covers both purpose and trigger.
    trigger, about = one_line(text.trigger), one_line(text.description or text.title)
    if trigger in about or not about:
        return truncate(about or trigger, DESCRIPTION_MAX)
    return truncate(f"{about}{'' if about[-1] in '.!?:' else '.'} {trigger}", DESCRIPTION_MAX)


def _quoted(text: str) -> str:
    """Return one line of text as a JSON string, which is a YAML scalar that its content cannot terminate."""
    return json.dumps(one_line(text), ensure_ascii=False)


def _says(body: str, items: Iterable[str]) -> bool:
    said = {block.title or plain_title(block.text) for block in outline(body).blocks}
    return said.issuperset(map(plain_title, items))
