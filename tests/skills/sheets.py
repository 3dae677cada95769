"""Skills to render: made up ones, and the ones of the corpus."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from toolcrib.skills.formats.agent_skill import read_agent_skill
from toolcrib.skills.text.rendering import Estimate, Page, RawPage, Rendered, Sheet, rendered

CORPUS = (Path(__file__).resolve().parents[2] / "../shared/skills-dev/corpus").resolve()
"""Real skills of strangers, beside the repository where there are any."""

PLAIN = Sheet(
    name="fill-form",
    source="repo",
    uri="skill://repo/fill-form/SKILL.md",
    digest="0123456789ab",
    title="",
    trigger="A PDF form is to be filled in.",
    description="Fills in PDF forms.",
    steps=(),
    preconditions=(),
    failure_modes=(),
    body="# Fill a form\n\n1. Open it.\n2. Fill it.",
)


def injection(sheets: Sequence[Sheet], max_tokens: int, estimate: Estimate) -> Rendered:
    """Render skills to work by."""
    return rendered([Page(sheet, estimate) for sheet in sheets], max_tokens, estimate)


def raw(sheets: Sequence[Sheet], max_tokens: int, estimate: Estimate) -> Rendered:
    """Render skills as their authors wrote them."""
    return rendered([RawPage(sheet, estimate) for sheet in sheets], max_tokens, estimate)


def sheet(body: str = PLAIN.body, **changes: object) -> Sheet:
    return replace(PLAIN, body=body, **changes)


def named(name: str, body: str = PLAIN.body) -> Sheet:
    return sheet(body, name=name, uri=f"skill://repo/{name}/SKILL.md")


def corpus_sheets() -> list[Sheet]:
    """Return the skills of the corpus that load, none where there is no corpus."""
    sheets: list[Sheet] = []
    for path in sorted(CORPUS.rglob("SKILL.md")):
        content = path.read_bytes()
        text, _ = read_agent_skill(content, folder_name=path.parent.name, path=path.name)
        if text is not None:
            uri = named(path.parent.name).uri
            sheets.append(Sheet.of(text, source=PLAIN.source, uri=uri, digest=sha256(content).hexdigest()[:12]))
    return sheets
