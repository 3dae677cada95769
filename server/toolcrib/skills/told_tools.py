"""The lines about a skill's tools beside its text, within a bound: needs, names, states, how to call them.

Knows words and lines; never knows which tools a skill names, or what a session may use.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from toolcrib.base.text import truncate
from toolcrib.skills.text.rendering import inert_line

_TOLD_MAX = 100
"""Maximum number of tools of one skill that are named."""
_NOTE_MAX, _NAME_MAX = 80, 80
"""Maximum lengths of an author's note about a tool, and of a skill's name."""

Fits = Callable[[str], bool]
"""Returns whether a text fits into the available room."""


@dataclass(frozen=True, slots=True)
class ToldTool:
    """One tool of a skill: public name, state, signature if no list shows it, and its author's note."""

    name: str
    state: str
    signature: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class ToldSkill:
    """One skill: its tools, how many of those it names are missing, and how many of these it requires."""

    name: str
    tools: tuple[ToldTool, ...]
    missing: int
    lacking: int


@dataclass(frozen=True, slots=True)
class _Detail:
    """The level of detail: how many tools of a skill, how many signatures, with their authors' notes or not."""

    tools: int
    signed: int
    notes: bool


def told_text(skills: Sequence[ToldSkill], call: str, fits: Fits) -> str:
    """Return as much text about the tools of skills as fits: first what a skill lacks, last how to call them."""
    if not skills:
        return ""
    needs = [need for skill in skills if (need := _need(skill))]
    for detail in _details(min(max(len(skill.tools) for skill in skills), _TOLD_MAX)):
        lines = [line for skill in skills for line in _section(skill, detail)]
        text = "\n".join([*needs, *lines, *([call] if detail.tools else [])])
        if fits(text):
            return text
    text = "\n".join(needs)
    return text if fits(text) else ""


def _details(most: int) -> Iterator[_Detail]:
    """Yield levels of decreasing detail."""
    yield _Detail(most, most, notes=True)
    signed = most
    while signed:
        yield _Detail(most, signed, notes=False)
        signed //= 2
    tools = most
    while tools:
        yield _Detail(tools, 0, notes=False)
        tools -= 1 + tools // 8
    yield _Detail(0, 0, notes=False)


def _need(skill: ToldSkill) -> str:
    if not skill.lacking:
        return ""
    what = "a tool that is" if skill.lacking == 1 else f"{skill.lacking} tools that are"
    return f"{_name(skill)} needs {what} not available now: its steps may not work."


def _section(skill: ToldSkill, detail: _Detail) -> Iterator[str]:
    yield f"SKILL TOOLS: {_name(skill)}"
    for number, tool in enumerate(skill.tools[: detail.tools]):
        named = tool.signature if tool.signature and number < detail.signed else tool.name
        note = f": {truncate(inert_line(tool.note), _NOTE_MAX)}" if tool.note and detail.notes else ""
        yield f"- {named} [{tool.state}]{note}"
    if len(skill.tools) > detail.tools:
        yield f"- and {len(skill.tools) - detail.tools} more"
    if skill.missing:
        yield f"{skill.missing} {'tool' if skill.missing == 1 else 'tools'} that it names: not available now."


def _name(skill: ToldSkill) -> str:
    return truncate(inert_line(skill.name), _NAME_MAX)
