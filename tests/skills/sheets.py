"""Skills to render: made up ones, and the ones of the corpus."""

from collections.abc import Sequence
from dataclasses import fields, replace
from hashlib import sha256
from pathlib import Path

from toolcrib.base.model import SkillText, TaskType
from toolcrib.skills.formats.agent_skill import read_agent_skill
from toolcrib.skills.text.rendering import Estimate, Page, RawPage, Rendered, Sheet, rendered

CORPUS = (Path(__file__).resolve().parents[2] / "../shared/skills-dev/corpus").resolve()
"""Real skills of strangers, beside the repository where there are any."""

PLAIN = Sheet(
    SkillText(
        name="fill-form",
        title="",
        description="Fills in PDF forms.",
        trigger="A PDF form is to be filled in.",
        task_type=TaskType.UNKNOWN,
        tags=(),
        steps=(),
        preconditions=(),
        failure_modes=(),
        tools=(),
        requires=(),
        body="# Fill a form\n\n1. Open it.\n2. Fill it.",
        frontmatter={},
        extra={},
        is_hidden=False,
        content_hash="",
    ),
    uri="skill://repo/fill-form/SKILL.md",
    digest="0123456789ab",
)
_OF_TEXTS = frozenset(each.name for each in fields(SkillText))


def injection(sheets: Sequence[Sheet], max_tokens: int, estimate: Estimate) -> Rendered:
    """Render skills to work by."""
    return rendered([Page(sheet, estimate) for sheet in sheets], max_tokens, estimate)


def raw(sheets: Sequence[Sheet], max_tokens: int, estimate: Estimate) -> Rendered:
    """Render skills as their authors wrote them."""
    return rendered([RawPage(sheet, estimate) for sheet in sheets], max_tokens, estimate)


def changed(sheet: Sheet, **changes: object) -> Sheet:
    """Return a sheet with other values, of the text too."""
    of_text = {name: changes.pop(name) for name in _OF_TEXTS & changes.keys()}
    return replace(sheet, text=replace(sheet.text, **of_text), **changes)


def sheet(body: str = PLAIN.text.body, **changes: object) -> Sheet:
    return changed(PLAIN, body=body, **changes)


def named(name: str, body: str = PLAIN.text.body) -> Sheet:
    return sheet(body, name=name, uri=f"skill://repo/{name}/SKILL.md")


def corpus_sheets() -> list[Sheet]:
    """Return the skills of the corpus that load, none where there is no corpus."""
    sheets: list[Sheet] = []
    for path in sorted(CORPUS.rglob("SKILL.md")):
        content = path.read_bytes()
        text, _ = read_agent_skill(content, folder_name=path.parent.name, path=path.name)
        if text is not None:
            uri = named(path.parent.name).uri
            sheets.append(Sheet.from_text(text, uri=uri, digest=sha256(content).hexdigest()[:12]))
    return sheets
