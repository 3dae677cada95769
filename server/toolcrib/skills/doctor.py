"""Problems of skills that no single file shows: nonexistent tools, words that do not find them, outdated pages."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from toolcrib.base.errors import BadRequest
from toolcrib.base.model import JsonObject, Skill, SkillFile, SkillOrigin, SkillProblem, SkillScope, TaskType
from toolcrib.base.names import bare_name, host_spellings
from toolcrib.base.text import QUERY_MAX, enumerated, one_line, truncate
from toolcrib.catalog.gate import ResolvedTools
from toolcrib.config.schema import LimitsSection, SkillPackConfig
from toolcrib.policy.sessions import Session
from toolcrib.policy.state import Use
from toolcrib.skills.formats.pack import pack_format
from toolcrib.skills.outcomes import CallsWhile, ToolCalls, calls_of, recorded_calls, summed
from toolcrib.skills.penalties import PrincipalReports
from toolcrib.skills.search import SkillQuery
from toolcrib.skills.sources.reading import read_files
from toolcrib.skills.sources.roots import Root
from toolcrib.skills.sources.scanning import ROOT_ITSELF, FoundFile, is_skill_file, scan
from toolcrib.skills.text.cleaning import Cleaner
from toolcrib.skills.use_cases import SkillUseCases
from toolcrib.skills.visible import VisibleSkills

_LEVELS = ("error", "warning", "info")


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check: paths relative to ``folder``, the skills in them, and all problems."""

    folder: Path
    files: tuple[str, ...]
    skills: tuple[str, ...]
    problems: tuple[SkillProblem, ...]

    @property
    def errors(self) -> int:
        """Return the number of errors, that is broken rules."""
        return sum(problem.level == "error" for problem in self.problems)


def check(path: Path, limits: LimitsSection) -> Checked:
    """Strictly check a SKILL.md, a pack file, or every such file below a folder.

    Raises:
        BadRequest: there is no such file at ``path``.

    """
    real = path.resolve()
    if real.is_dir():
        folder, found = real, scan(_root(real), {}, limits)
        files = [file for file in found.changed if file.path != ROOT_ITSELF]
        about_folder = found.problems
    else:
        folder, about_folder = real.parent, ()
        files = read_files(_root(folder), [_found(real)], limits) if _is_readable(real) else []
    if not files:
        raise BadRequest(_refusal(path, real))
    problems = [*about_folder, *(problem for file in files for problem in _gravest(file))]
    return Checked(
        folder,
        tuple(file.path for file in files),
        tuple(record.text.name for file in files for record in file.records),
        tuple(sorted(problems, key=_place)),
    )


def _root(folder: Path) -> Root:
    """Return the folder as a strict pack root, since a pack may contain every kind of file."""
    pack = SkillPackConfig(name=folder.name or "pack", path=str(folder))
    return Root("pack/check", str(folder), folder, SkillOrigin.PACK, pack.name, SkillScope(), is_strict=True, pack=pack)


def _is_readable(real: Path) -> bool:
    return real.is_file() and (is_skill_file(real.name) or pack_format(real.name) is not None)


def _found(real: Path) -> FoundFile:
    status = real.stat()
    return FoundFile(real.name, str(real), status.st_mtime_ns, status.st_size)


def _refusal(path: Path, real: Path) -> str:
    kinds = "a SKILL.md or a pack's file (*.skill.md, .skill.yaml, .skill.json, .skill.jsonl)"
    if real.is_dir():
        return f"There are no skills in {path}. Name {kinds}, or a folder with such files."
    return f"{path} is not {kinds}." if real.exists() else f"{path} is not there."


def _gravest(file: SkillFile) -> list[SkillProblem]:
    """Return the distinct problems of a file: warnings of the lenient reader are errors here."""
    told: dict[tuple[int, str, str], SkillProblem] = {}
    for problem in sorted(file.problems, key=_gravity):
        told.setdefault((problem.line, problem.code, problem.message), problem)
    return list(told.values())


def _gravity(problem: SkillProblem) -> int:
    return _LEVELS.index(problem.level)


def _place(problem: SkillProblem) -> tuple[str, int, int, str]:
    return problem.path, problem.line, _gravity(problem), problem.code


_HITS = 8
"""A skill counts as found if it is among this many hits, the default of `skill_search`."""
_DAY_S = 86_400
STALE_AFTER_DAYS = 180
"""Age in days after which a skill about web pages may be outdated, because pages change."""
_NAMES_ROOM = 200
"""Maximum length of the list of names in one finding."""


@dataclass(frozen=True, slots=True)
class Health:
    """The condition of one skill, and its problems.

    ``tools`` are calls of tools that it names while it was active, ``unnamed`` calls of tools named by no skill that
    was active then. ``absent`` are tools that it names and nobody has, ``denied`` those that policy hides from the
    caller. ``is_found`` says whether its own words find it. ``stale_days``: the days since its last change, if it is
    about web pages and that is long ago.
    """

    skill: Skill
    name: str
    use: Use | None
    tools: tuple[ToolCalls, ...]
    unnamed: tuple[ToolCalls, ...]
    absent: tuple[str, ...]
    denied: tuple[str, ...]
    is_found: bool
    stale_days: int | None
    outcomes: tuple[PrincipalReports, ...]

    @property
    def findings(self) -> Iterator[tuple[str, str]]:
        """The problems, each with a stable code and its remedy."""
        if self.absent:
            names = enumerated(self.absent, _NAMES_ROOM)
            yield "absent-tools", f"names tools that no server has: {names}. Correct the names, or add the server."
        if self.denied:
            yield "denied-tools", f"names tools that policy keeps from you: {enumerated(self.denied, _NAMES_ROOM)}."
        if self.unnamed:
            names = enumerated([f"{each.tool} ({each.calls})" for each in self.unnamed], _NAMES_ROOM)
            yield "unnamed-tools", f"was worked with by tools that it does not name: {names}. Add them to its tools."
        if not self.is_found:
            yield "not-found", "is not found by its own words. Say in its description what it is for, and when."
        if self.stale_days is not None:
            yield (
                "stale",
                f"is about pages and has not changed for {self.stale_days} days. See whether they are as it says.",
            )

    @property
    def as_json(self) -> JsonObject:
        """Return it as a JSON object."""
        used = self.use
        return {
            "name": self.name,
            "source": self.skill.source,
            "id": self.skill.id,
            "uses": used.count if used else 0,
            "last_used": datetime.fromtimestamp(used.last, UTC).isoformat(timespec="seconds") if used else None,
            "tools": [each.as_json for each in self.tools],
            "unnamed_tools": [each.as_json for each in self.unnamed],
            "outcomes": [each.as_json for each in self.outcomes],
            "findings": [{"code": code, "text": text} for code, text in self.findings],
        }


@dataclass(frozen=True, slots=True)
class Examined:
    """All examined skills. ``unlisted`` are servers whose tools are not known, and so not reported as missing."""

    skills: tuple[Health, ...]
    unlisted: tuple[str, ...]


class SkillDoctor:
    """Examines all skills visible to a caller, using the skill use cases."""

    def __init__(self, skill_use_cases: SkillUseCases) -> None:
        self._use_cases, self._dependencies = skill_use_cases, skill_use_cases.dependencies

    async def examine(self, session: Session, now: float) -> Examined:
        """Examine the skills visible to the session's caller. ``now`` is in seconds since the epoch.

        Raises:
            StoreError: their stored data cannot be read.

        """
        return await self._use_cases.run(partial(self._examine, session, now))

    def _examine(self, session: Session, now: float) -> Examined:
        visible, cleaner = self._use_cases.visible(session)
        unlisted = tuple(self._dependencies.indexer.unlisted())
        called = recorded_calls(self._dependencies.settings.events_file)
        texts, uses = self._dependencies.catalog.texts(visible.skills), self._dependencies.catalog.uses()
        named = {
            skill: self._use_cases.tools.named_by(session, skill, texts[skill.row])
            for skill in visible.skills
            if skill.row in texts
        }
        by_name = _by_name(named)
        found: list[Health] = []
        for skill, each in named.items():
            absent, denied = self._divided(session, each.missing, unlisted)
            found.append(
                Health(
                    skill=skill,
                    name=visible.name_for(skill, cleaner.about),
                    use=uses.get(skill.id),
                    tools=calls_of(called, skill.name, by_name[skill.name]),
                    unnamed=_unnamed(called, skill, by_name),
                    absent=absent,
                    denied=denied,
                    is_found=self._is_found(skill, visible, cleaner),
                    stale_days=self._stale_days(skill, now),
                    outcomes=tuple(self._dependencies.outcomes.reports(skill)),
                )
            )
        return Examined(tuple(sorted(found, key=lambda each: each.name)), unlisted)

    def _divided(
        self, session: Session, missing: Iterable[str], unlisted: Collection[str]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return which of these spellings nobody has, and which policy hides from the caller."""
        catalog, absent, denied = self._dependencies.indexer.current(), list[str](), list[str]()
        for spelling in missing:
            spelled = host_spellings(spelling)
            if any(bare_name(each, key) is not None for each in spelled for key in unlisted):
                continue
            whys = {self._dependencies.gate.why_refused(session, each, catalog) for each in spelled}
            (absent if whys == {"unknown"} and not any(map(catalog.withholds, spelled)) else denied).append(spelling)
        return tuple(absent), tuple(denied)

    def _is_found(self, skill: Skill, visible: VisibleSkills, cleaner: Cleaner) -> bool:
        """Return whether the skill's own description or title finds it or a copy of it."""
        for words in (one_line(skill.summary), one_line(skill.title)):
            if not words.strip():
                continue
            query = SkillQuery(truncate(words, QUERY_MAX), limit=_HITS)
            found = self._dependencies.searcher.search(query, visible, cleaner.masker)
            if any(visible.number(match.document) == visible.number(skill) for match in found.matches):
                return True
        return False

    def _stale_days(self, skill: Skill, now: float) -> int | None:
        modified = self._dependencies.catalog.modified_ms(skill) if skill.task_type is TaskType.BROWSER else None
        days = int((now - modified / 1000) // _DAY_S) if modified is not None else 0
        return days if days >= STALE_AFTER_DAYS else None


def _by_name(named: Mapping[Skill, ResolvedTools]) -> Mapping[str, AbstractSet[str]]:
    """Return the public names of the tools that skills name, by the skills' labels in events."""
    tools: defaultdict[str, set[str]] = defaultdict(set)
    for skill, each in named.items():
        names = [tool.public_name for tool in each.tools]
        tools[skill.name].update(names)
        tools[skill.id].update(names)
    return tools


def _unnamed(
    called: Iterable[CallsWhile], skill: Skill, tools: Mapping[str, AbstractSet[str]]
) -> tuple[ToolCalls, ...]:
    """Return the calls while a skill was active that none of the skills active then accounts for."""
    return summed(
        each
        for each in called
        if skill.name in each.skills and not any(each.tool in tools.get(name, ()) for name in each.skills)
    )
