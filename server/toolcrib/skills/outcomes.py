"""Outcomes of skills: reported by a caller, shown to a person."""

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from toolcrib.base.errors import BadRequest, StoreError
from toolcrib.base.model import JsonObject, Skill
from toolcrib.base.text import one_line, truncate
from toolcrib.events.kinds import SkillOutcome
from toolcrib.events.log import elapsed_ms
from toolcrib.events.reading import recorded
from toolcrib.policy.sessions import Session
from toolcrib.policy.state import Report
from toolcrib.skills.penalties import PrincipalReports
from toolcrib.skills.relevance import frame_tags
from toolcrib.skills.search import has_tag
from toolcrib.skills.text.cleaning import Cleaner
from toolcrib.skills.use_cases import SkillUseCases
from toolcrib.skills.visible import VisibleSkills


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """How often one tool, by its public name, was called while a skill was active."""

    tool: str
    calls: int
    failed: int

    @property
    def as_json(self) -> JsonObject:
        """Return it as JSON."""
        return {"tool": self.tool, "calls": self.calls, "failed": self.failed}


@dataclass(frozen=True, slots=True)
class CallsWhile:
    """How often one tool was called while exactly these skills, by their names in events, were active in a session."""

    skills: frozenset[str]
    tool: str
    calls: int
    failed: int


def calls_while_active(events: Iterable[JsonObject]) -> list[CallsWhile]:
    """Return all calls in sessions while skills were active.

    A skill that was only inspected (a file of it, or its requirements before a confirmation) was never active.
    """
    active: defaultdict[str, frozenset[str]] = defaultdict(frozenset)
    calls, failed = Counter[tuple[frozenset[str], str]](), Counter[tuple[frozenset[str], str]]()
    for event in events:
        kind, session, tool = event.get("event"), str(event.get("session")), event.get("tool_name")
        if kind == "skill_activated":
            active[session] |= {str(event.get("skill_name"))}
        elif kind == "skill_deactivated":
            active[session] -= {str(event.get("skill_name"))}
        elif kind == "tool_call" and active[session] and isinstance(tool, str):
            calls[active[session], tool] += 1
            failed[active[session], tool] += event.get("ok") is False
    return [CallsWhile(skills, tool, count, failed[skills, tool]) for (skills, tool), count in calls.items()]


def calls_of(called: Iterable[CallsWhile], skill_name: str, tools: Container[str]) -> tuple[ToolCalls, ...]:
    """Return the calls of these tools while a skill was active. The tool that failed most often comes first."""
    return summed(each for each in called if skill_name in each.skills and each.tool in tools)


def summed(called: Iterable[CallsWhile]) -> tuple[ToolCalls, ...]:
    """Return calls by tool, whichever skills were active. The tool that failed most often comes first."""
    calls, failed = Counter[str](), Counter[str]()
    for each in called:
        calls[each.tool] += each.calls
        failed[each.tool] += each.failed
    ranked = sorted(calls, key=lambda name: (-failed[name], -calls[name], name))
    return tuple(ToolCalls(name, calls[name], failed[name]) for name in ranked)


_NAME_MAX, _NOTE_MAX = 200, 300
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OutcomeRequest:
    """Whether a skill, by any of its names, achieved its purpose; ``note`` may give details."""

    name: str
    success: bool
    note: str = ""


@dataclass(frozen=True, slots=True)
class Explained:
    """What besides its words is known about a skill.

    Its frames and reported outcomes affect its rank in searches; ``calls`` of its tools do not.
    """

    frames: tuple[str, ...]
    outcomes: tuple[PrincipalReports, ...]
    calls: tuple[ToolCalls, ...] = ()

    @property
    def as_json(self) -> JsonObject:
        """Return it as JSON."""
        return {
            "frames": list(self.frames),
            "outcomes": [each.as_json for each in self.outcomes],
            "calls": [each.as_json for each in self.calls],
        }


class OutcomeReports:
    """Accepts reports of skills' outcomes, and explains their effects."""

    def __init__(self, skill_use_cases: SkillUseCases) -> None:
        self._use_cases, self._dependencies = skill_use_cases, skill_use_cases.dependencies

    async def report(self, session: Session, request: OutcomeRequest) -> Skill:
        """Record the outcome of a skill that this session received, once each time, and return the skill (R255).

        Raises:
            BadRequest: the session did not receive it, or has already reported on it; or the report cannot be stored.

        """
        began = time.perf_counter()
        skill, note = await self._use_cases.run(partial(self._report, session, request))
        self._dependencies.events.emit(
            SkillOutcome(skill_name=skill.name, success=request.success, note=note),
            session=session.label,
            duration_ms=elapsed_ms(began),
        )
        return skill

    def _report(self, session: Session, request: OutcomeRequest) -> tuple[Skill, str]:
        _, cleaner = self._use_cases.visible(session)
        skill = _taken(session, request.name, cleaner)
        note = truncate(self._dependencies.settings.redactor.redact(cleaner.text(one_line(request.note))), _NOTE_MAX)
        try:
            report = Report(skill.id, skill.content_hash, request.success, note)
            self._dependencies.outcomes.record(session.caller.principal, report)
        except StoreError as error:
            session.sent_skills.unreported[skill.id] = skill
            raise BadRequest(
                f"The outcome could not be kept ({error.detail}). Go on; it may be reported later."
            ) from None
        return skill, note

    async def explained(self, session: Session, skills: Sequence[Skill]) -> list[Explained]:
        """Return for each of these skills what is known about it besides its words.

        Raises:
            StoreError: the reports cannot be read.

        """
        return await self._use_cases.run(partial(self._explained, session, skills))

    def _explained(self, session: Session, skills: Sequence[Skill]) -> list[Explained]:
        frames, called = (
            self._dependencies.settings.toolcrib.skills.frames,
            recorded_calls(self._dependencies.settings.events_file),
        )
        texts = self._dependencies.catalog.texts(skills)
        explained: list[Explained] = []
        for skill in skills:
            text = texts.get(skill.row)
            named = self._use_cases.tools.named_by(session, skill, text).tools if text else ()
            explained.append(
                Explained(
                    tuple(frame for frame in frames if has_tag(skill, frame_tags(frame, frames))),
                    tuple(self._dependencies.outcomes.reports(skill)),
                    calls_of(called, skill.name, {tool.public_name for tool in named}),
                )
            )
        return explained


def recorded_calls(file: Path) -> list[CallsWhile]:
    """Return the calls while skills were active, as far as events are stored; none if these cannot be read."""
    try:
        return calls_while_active(recorded(file))
    except OSError as error:
        _log.warning("the events cannot be read: %s", error)
        return []


def _taken(session: Session, name: str, cleaner: Cleaner) -> Skill:
    """Return the one skill of this name whose outcome the session may report, and mark it as reported."""
    unreported = session.sent_skills.unreported
    given = VisibleSkills(unreported.values())
    meant = given.find(name)
    shown = truncate(one_line(name), _NAME_MAX)
    if len(meant) > 1:
        named = ", ".join(given.name_for(skill, cleaner.about) for skill in meant)
        raise BadRequest(f"Several skills of this session are called {shown}; name one of: {named}")
    skill = unreported.pop(meant[0].id) if meant else None
    if skill is None:
        raise BadRequest(
            f"There is no outcome to report for {shown}: skill_get has not given its text in this session, or the "
            "outcome was reported already. One report counts for each time that the text is given."
        )
    return skill
