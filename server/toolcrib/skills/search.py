"""Selects the skills for a task: those that fit it best, with a small bonus for its frame or kind."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from toolcrib.base.errors import StoreError
from toolcrib.base.model import JsonObject, Skill, TaskType
from toolcrib.catalog.denied_names import ToolMentions
from toolcrib.policy.state import Outcomes, Report, SkillOutcomes, faded
from toolcrib.search.documents import NO_LOSSES, Found, Kind, Match, Reason, Request
from toolcrib.search.engine import Engine, SearchSettings
from toolcrib.search.ranking import NO_LESSONS, Field, Lessons
from toolcrib.skills.index import SkillIndex
from toolcrib.skills.visible import VisibleSkills
from toolcrib.skills.wording import SearchedSkills

SETBACK = 0.1
"""The maximum score reduction of a skill that mostly fails."""
_REPORTS_MIN, _FAILURES_MIN = 5, 0.6
"""Minimum number of reports, and the share of failures above which the score is reduced (R195)."""
_LEAST = 0.005
"""A smaller reduction changes no score, which has two decimals."""

Setbacks = Mapping[tuple[str, str], float]
"""Score reductions of skills, by id and content hash."""

NO_SETBACKS: Setbacks = MappingProxyType({})

_log = logging.getLogger(__name__)


def failure_share(outcomes: Outcomes) -> float:
    """Return the share of failures among all reports, with older ones weighing less."""
    weights = outcomes.successes + outcomes.failures
    return outcomes.failures / weights if weights else 0.0


def setback(outcomes: Outcomes, now: float) -> float:
    """Return the score reduction: it halves with each half-life since the last failure."""
    if outcomes.reports < _REPORTS_MIN or failure_share(outcomes) <= _FAILURES_MIN:
        return 0.0
    lost = SETBACK * faded(now - outcomes.last_failure)
    return lost if lost >= _LEAST else 0.0


@dataclass(frozen=True, slots=True)
class Told:
    """One principal's reports on the current version of a skill, for a person. ``age_s`` is the last report's age."""

    principal: str
    reports: int
    failure_share: float
    setback: float
    age_s: float
    note: str

    @property
    def as_json(self) -> JsonObject:
        """Return it as JSON."""
        return {
            "principal": self.principal,
            "reports": self.reports,
            "failure_share": self.failure_share,
            "setback": self.setback,
            "age_s": round(self.age_s),
            **({"note": self.note} if self.note else {}),
        }


class Standing:
    """Who has reported what about which skill. Reading and writing may block. ``now``: seconds since the epoch."""

    def __init__(self, outcomes: SkillOutcomes, now: Callable[[], float], *, enabled: bool) -> None:
        self._outcomes, self._now, self._enabled = outcomes, now, enabled

    def setbacks(self, principal: str) -> Setbacks:
        """Return the score reductions in searches of a principal, caused by their own reports only."""
        if not self._enabled:
            return NO_SETBACKS
        try:
            reported = self._outcomes.by(principal)
        except StoreError as error:
            _log.warning("outcomes of skills cannot be read: %s", error.detail)
            return NO_SETBACKS
        now = self._now()
        lost = {(skill_id, each.digest): setback(each, now) for skill_id, each in reported.items()}
        return {key: value for key, value in lost.items() if value}

    def record(self, principal: str, report: Report) -> None:
        """Record a report.

        Raises:
            StoreError: it cannot be stored.

        """
        self._outcomes.record(principal, report, self._now())

    def told(self, skill: Skill) -> list[Told]:
        """Return the reports on the current version of a skill, by principal; reports on earlier texts are ignored.

        Raises:
            StoreError: they cannot be read.

        """
        now = self._now()
        return [
            Told(
                principal,
                each.reports,
                round(failure_share(each), 2),
                round(setback(each, now), 2) if self._enabled else 0.0,
                max(now - each.last_report, 0.0),
                each.note,
            )
            for principal, each in self._outcomes.of(skill.id).items()
            if each.digest == skill.content_hash
        ]


FIELDS = (
    Field(2, 0.3),  # name
    Field(1, 0.3),  # title
    Field(2, 0.5),  # trigger and description
    Field(0.5, 0.2),  # tags
    Field(0.4, 0.8),  # body
)
"""Measured: the body finds what no description mentions, and a larger weight would outweigh descriptions. Words of a
long body count less than in other fields: many of them are not what it is about.
"""


@dataclass(frozen=True, slots=True)
class SkillQuery(Request):
    """A search for skills. ``source``: only of this source; ``tags``: with one of these, in lower case.

    ``usable``: only those whose required tools the caller has; it is resolved to ``without``, a set of rows, by code
    that knows the tools.
    """

    task_type: TaskType | None = None
    source: str | None = None
    tags: frozenset[str] = frozenset()
    usable: bool = False
    without: frozenset[int] = frozenset()


class SkillSearcher:
    """Finds skills among those visible to a caller. Safe to use from several threads."""

    def __init__(self, index: SkillIndex, settings: SearchSettings) -> None:
        self._index = index
        self._engine = Engine[Skill](Kind("skill", FIELDS, plain_beginnings=True), settings)

    def search(
        self,
        query: SkillQuery,
        visible: VisibleSkills,
        mentions: ToolMentions | None = None,
        setbacks: Setbacks = NO_SETBACKS,
    ) -> Found[Skill]:
        """Return the best matches among the skills of ``visible``; ``mentions`` tells which names are not searched.

        ``setbacks`` are reductions of scores, within their bounds and except for skills that the query names.

        Raises:
            BadRequest: a pattern cannot be used.
            StoreError: the index cannot be read.

        """
        hidden = None if mentions is None or mentions.hides_nothing else mentions
        return self._engine.search(query, _Scope(query, SearchedSkills(visible, self._index, hidden), setbacks))


class _Scope:
    """The skills that one search may find; a copy that may not be found is represented by its original."""

    def __init__(self, query: SkillQuery, documents: SearchedSkills, setbacks: Setbacks) -> None:
        self.documents, self._visible = documents, documents.visible
        self._skills = _wanted(query, self._visible)
        self.losses = _losses(self._visible, setbacks) if setbacks else NO_LOSSES
        self.numbers = None if self._skills is self._visible.by_number else frozenset(self._skills)

    @property
    def emptiness(self) -> str:
        if not self._visible.skills:
            return "No skills are known."
        return "" if self._skills else "There is no skill of this kind."

    def lessons(self, query: str) -> Lessons:  # noqa: ARG002 - nothing is learnt of these
        return NO_LESSONS

    def document(self, number: int) -> Skill:
        return self._skills[number]

    def named(self, query: str, *, as_written: bool) -> Mapping[int, Reason]:  # noqa: ARG002 - called() does it always
        """Return the skills that the whole query names, locations before names (C16)."""
        called: dict[int, Reason] = dict.fromkeys(self._inside(self._visible.called(query)), "exact_name")
        addressed: dict[int, Reason] = dict.fromkeys(self._inside(self._visible.addressed(query)), "exact_path")
        return called | addressed

    def begun(self, query: str) -> Iterable[int]:
        return self._inside(self._visible.beginning(query))

    def spellings(self, number: int) -> Sequence[str]:
        skill = self._skills[number]
        return skill.name, f"{skill.source}/{skill.name}"

    def tie_break(self, match: Match[int]) -> tuple[int | str, ...]:
        """Return the order of equal matches: the share of the name that the query covers, source, name (R171)."""
        skill = self._skills[match.document]
        rest = len(skill.name) if match.reason == "prefix" else 0
        return rest, self._visible.source_ranks[skill.source], skill.name, skill.folder

    def _inside(self, skills: Iterable[Skill]) -> list[int]:
        """Return the numbers of those of ``skills`` that may be found."""
        numbers = dict.fromkeys(map(self._visible.number, skills))
        return [number for number in numbers if number in self._skills]


def has_tag(skill: Skill, tags: frozenset[str]) -> bool:
    """Return whether a skill has one of these tags, given in lower case."""
    return not tags.isdisjoint(tag.casefold() for tag in skill.tags)


def _losses(visible: VisibleSkills, setbacks: Setbacks) -> Mapping[int, float]:
    """Return the score reduction of each skill, by number; reports about a copy count for the one that is found."""
    losses: dict[int, float] = {}
    for skill in visible.everything:
        lost = setbacks.get((skill.id, skill.content_hash))
        if lost:
            losses[visible.number(skill)] = max(lost, losses.get(visible.number(skill), 0.0))
    return losses


def _wanted(query: SkillQuery, visible: VisibleSkills) -> Mapping[int, Skill]:
    """Return the skills that may be found, by number among the visible ones; of copies the first that qualifies."""
    if query.task_type is None and query.source is None and not query.tags and not query.without:
        return visible.by_number
    skills: dict[int, Skill] = {}
    for skill in visible.everything:
        is_wanted = (not query.tags or has_tag(skill, query.tags)) and skill.row not in query.without
        if is_wanted and query.task_type in (None, skill.task_type) and query.source in (None, skill.source):
            skills.setdefault(visible.number(skill), skill)
    return skills


CANDIDATES = 50
"""How many of the best matches are considered."""

FRAME_BOOST, TYPE_BOOST = 0.2, 0.1
"""What a matching frame, and a matching kind of task, add to a score; no score exceeds 1 (R193)."""


def both(matches: Sequence[Match[Skill]], of_frame: Sequence[Match[Skill]]) -> list[Match[Skill]]:
    """Return the matches for a task, followed by those found only among skills of its frame, with score 0 (R196)."""
    known = {match.document.row for match in matches}
    return [*matches, *(replace(match, score=0.0) for match in of_frame if match.document.row not in known)]


def frame_tags(frame: str, frames: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """Return the tags of skills that belong to a frame: the domains configured for it, else its own name."""
    return frozenset(tag.casefold() for tag in frames.get(frame, (frame,)))


def distance(source: str) -> tuple[int, int]:
    """Return the distance of a source: the repository from the working directory up, then home, folders, packs."""
    place, _, rest = source.partition("-" if source.startswith("repo") else "/")
    order = ("repo", "user", "dir", "pack")
    # repo, repo-2, repo-3 are nested ever deeper; the deepest is the working directory itself.
    depth = int(rest) if place == "repo" and rest.isdigit() else 0
    return (order.index(place) if place in order else len(order), -depth)


def chosen(matches: Sequence[Match[Skill]], tags: frozenset[str], task_type: TaskType | None) -> list[Skill]:
    """Return the skills by relevance: by score, boosted if they belong to the task.

    Of several with the same name only the one from the nearest source is returned.
    """
    best: dict[str, tuple[float, float, int, Skill]] = {}
    for place, match in enumerate(matches):
        skill, boost = match.document, 0.0
        if has_tag(skill, tags):
            boost += FRAME_BOOST
        if task_type not in (None, TaskType.UNKNOWN) and skill.task_type is task_type:
            boost += TYPE_BOOST
        # Where the bound makes scores equal, skills that belong to the task still come first.
        weighed = (-min(match.score + boost, 1.0), -boost, place, skill)
        known = best.get(skill.name)
        if known is None:
            best[skill.name] = weighed
        elif distance(skill.source) < distance(known[3].source):
            best[skill.name] = (*min(known[:3], weighed[:3]), skill)
    return [skill for *_, skill in sorted(best.values(), key=lambda each: each[:3])]
