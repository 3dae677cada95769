"""Outcomes of skills as they are reported by a caller, and told to a person.

Knows which skills a session may report on, and what is said of a report; never knows what a report does to a search.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from toolcrib.access.sessions import Session
from toolcrib.access.state.skill_outcomes import HALF_LIFE_S, Report
from toolcrib.base.text import one_line, truncate
from toolcrib.errors import BadRequest, StoreError
from toolcrib.events.kinds import SkillOutcome
from toolcrib.events.log import elapsed_ms
from toolcrib.model import JsonObject, Skill
from toolcrib.skills.index.visible import VisibleSkills
from toolcrib.skills.preflight import FRAME_BOOST, frame_tags
from toolcrib.skills.search import has_tag
from toolcrib.skills.standing import Told
from toolcrib.skills.use_cases import SkillUseCases

_NAME_MAX, _NOTE_MAX = 200, 300
_DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class OutcomeRequest:
    """Whether a skill, by any of its names, did what it was for; ``note`` may say more."""

    name: str
    success: bool
    note: str = ""


@dataclass(frozen=True, slots=True)
class Explained:
    """What else than words decides where a skill is found: the frames that it is of, and what was reported of it."""

    frames: tuple[str, ...]
    outcomes: tuple[Told, ...]

    @property
    def as_json(self) -> JsonObject:
        """Return it as JSON."""
        return {
            "frames": list(self.frames),
            "outcomes": [
                {
                    "principal": each.principal,
                    "reports": each.reports,
                    "failure_share": each.failure_share,
                    "setback": each.setback,
                    "age_s": round(each.age_s),
                    **({"note": each.note} if each.note else {}),
                }
                for each in self.outcomes
            ],
        }

    @property
    def sentences(self) -> list[str]:
        """Return it as lines for a person."""
        frames = [f"before a task of the frame {frame}: {FRAME_BOOST:+}" for frame in self.frames]
        return [*frames, *map(_sentence, self.outcomes)]


def _sentence(told: Told) -> str:
    count = "1 report" if told.reports == 1 else f"{told.reports} reports"
    said = f"{count} by {told.principal}, {told.failure_share:.0%} of them failures, the last {_ago(told.age_s)}"
    lost = f"no change to its score in searches by {told.principal}"
    if told.setback:
        lost = (
            f"{-told.setback:+.2f} in searches by {told.principal}, half of that every {HALF_LIFE_S / _DAY_S:.0f} days"
        )
    return f"{said}: {lost}" + (f' ("{told.note}")' if told.note else "")


def _ago(age_s: float) -> str:
    days = int(age_s // _DAY_S)
    return f"{days} day{'' if days == 1 else 's'} ago" if days else "today"


class OutcomeReports:
    """Takes reports of what came of skills, and explains what follows from them."""

    def __init__(self, skill_use_cases: SkillUseCases) -> None:
        self._skill_use_cases, self._parts = skill_use_cases, skill_use_cases.parts

    async def report(self, session: Session, request: OutcomeRequest) -> Skill:
        """Count what came of a skill that this session was given, once for each time, and return the skill (R255).

        Raises:
            BadRequest: the session was not given it, or has reported on it already; or the report cannot be kept.

        """
        began = time.perf_counter()
        skill, note = await self._skill_use_cases.worked_out(partial(self._report, session, request))
        self._parts.events.emit(
            SkillOutcome(skill_name=skill.name, success=request.success, note=note),
            session=session.label,
            duration_ms=elapsed_ms(began),
        )
        return skill

    def _report(self, session: Session, request: OutcomeRequest) -> tuple[Skill, str]:
        skill = _taken(session, request.name)
        _, cleaner = self._skill_use_cases.visible(session)
        note = truncate(self._parts.settings.redactor.redact(cleaner.text(one_line(request.note))), _NOTE_MAX)
        try:
            report = Report(skill.id, skill.content_hash, request.success, note)
            self._parts.standing.record(session.caller.principal, report)
        except StoreError as error:
            session.sent_skills.unreported[skill.id] = skill
            raise BadRequest(
                f"The outcome could not be kept ({error.detail}). Go on; it may be reported later."
            ) from None
        return skill, note

    async def explained(self, skills: Sequence[Skill]) -> list[Explained]:
        """Return for each of these skills what else than words decides where it is found.

        Raises:
            StoreError: what was reported cannot be read.

        """
        frames = self._parts.settings.toolcrib.skills.frames

        def explained() -> list[Explained]:
            return [
                Explained(
                    tuple(frame for frame in frames if has_tag(skill, frame_tags(frame, frames))),
                    tuple(self._parts.standing.told(skill)),
                )
                for skill in skills
            ]

        return await self._skill_use_cases.worked_out(explained)


def _taken(session: Session, name: str) -> Skill:
    """Return the one skill of this name whose outcome the session may report, and have it reported."""
    unreported = session.sent_skills.unreported
    meant = VisibleSkills(unreported.values()).find(name)
    shown = truncate(one_line(name), _NAME_MAX)
    if len(meant) > 1:
        named = ", ".join(f"{skill.source}/{skill.name}" for skill in meant)
        raise BadRequest(f"Several skills of this session are called {shown}; name one of: {named}")
    skill = unreported.pop(meant[0].id) if meant else None
    if skill is None:
        raise BadRequest(
            f"There is no outcome to report for {shown}: skill_get has not given its text in this session, or the "
            "outcome was reported already. One report counts for each time that the text is given."
        )
    return skill
