"""Lists of all skills: the directory in the instructions, the full catalog, the status, and a person's list.

Knows what each of them shows of a skill; never knows how one is found or returned.
"""

import re
from collections import Counter
from functools import partial
from typing import Literal

from toolcrib.base.errors import BadRequest, Problem
from toolcrib.base.model import Skill
from toolcrib.catalog.gate import SkillToolStates
from toolcrib.config.schema import SkillsDirectoryConfig
from toolcrib.events.kinds import SkillDirectoryRendered
from toolcrib.policy.sessions import Session
from toolcrib.skills.directory import CatalogEntry, DirectoryEntry, catalog_block, skill_directory
from toolcrib.skills.identity import of_repository, skill_uri
from toolcrib.skills.reports import ERRORS_MAX, told_to_agents, told_to_person
from toolcrib.skills.requests import LoadError, Overview, SkillsStatus, did_you_mean
from toolcrib.skills.use_cases import SkillUseCases

CATALOG_PAGES = "toolcrib://skills/"
"""The prefix of the URIs of further catalog pages; the number of skills before the page follows."""

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:-]{0,63}")
"""A harmless label of a repository's skill in instructions, including its location: a name, not a sentence."""

_PATIENCE_S = 1.5
"""How long a connecting client may have to wait for the directory of skills, in seconds."""


class Overviews:
    """Four overviews of the available skills."""

    def __init__(self, skill_use_cases: SkillUseCases) -> None:
        self._skill_use_cases, self._parts = skill_use_cases, skill_use_cases.parts
        self._catalog, self._section = self._parts.catalog, self._parts.settings.toolcrib.skills

    async def directory(self, session: Session, max_bytes: int, *, is_rehearsal: bool = False) -> str:
        """Return the ``<skill_directory>`` for the instructions, at most ``max_bytes`` of UTF-8 (R122).

        A client waits for it before it does anything else, so it is empty rather than late. ``is_rehearsal``: the
        result is not shown, so there is no event.
        """
        section = self._section.directory
        if not section.enabled or max_bytes < 1:
            return ""
        bounded = section.model_copy(update={"max_bytes": min(section.max_bytes, max_bytes)})
        made = await self._skill_use_cases.soon(partial(self._directory, session, bounded), _PATIENCE_S)
        if made is None:
            return ""
        text, count = made
        if not is_rehearsal:
            self._parts.events.emit(SkillDirectoryRendered(count=count), session=session.label)
        return text

    def _directory(self, session: Session, section: SkillsDirectoryConfig) -> tuple[str, int]:
        # Instructions speak with the authority of whoever configured toolcrib. People who clone a repository have not
        # read its skills: these are named only, and their descriptions are returned as data, by skill_search.
        visible, cleaner = self._skill_use_cases.visible(session)
        uses = self._catalog.uses()
        spelled = ((skill, visible.spelling(skill)) for skill in visible.skills)
        entries = [
            DirectoryEntry(
                name=spelling,
                title="" if of_repository(skill) else skill.title,
                trigger="" if of_repository(skill) else skill.summary,
                task_type=skill.task_type,
                is_pinned=skill.is_pinned,
                use_count=use.count if (use := uses.get(skill.id)) else 0,
                last_used=use.last if use else None,
                source=skill.source,
                clean=partial(cleaner.about, skill),
            )
            for skill, spelling in spelled
            if not of_repository(skill) or _PLAIN_NAME.fullmatch(spelling)
        ]
        return skill_directory(entries, section)

    async def full_catalog(self, session: Session, form: Literal["xml", "json"], start: int = 0) -> str:
        """Return visible skills with their descriptions, within ``skills.initial``, after the first ``start`` of them.

        The rest is on further pages (R173, R174). Empty if there are not more than ``start`` skills.
        """
        bounds = self._section.initial

        def rendered() -> str:
            visible, cleaner = self._skill_use_cases.visible(session)
            rest = visible.skills[start:]
            entries = [
                CatalogEntry(
                    name=visible.name_for(skill, cleaner.about),
                    description=cleaner.about(skill, skill.description or skill.trigger),
                    uri=cleaner.about(skill, skill_uri(skill.source, skill.folder)),
                    source=skill.source,
                )
                for skill in rest[: bounds.max_entries]
            ]
            next_uri = partial(_page_uri, form, start)
            return catalog_block(entries, len(rest), bounds.max_bytes, form, next_uri)[0]

        return await self._skill_use_cases.worked_out(rendered)

    async def status(self, session: Session) -> SkillsStatus:
        """Return how many skills there are, which of them this session has, and which files could not be loaded."""
        states = SkillToolStates(self._parts.gate, self._parts.around.has_failed)

        def status() -> SkillsStatus:
            visible, cleaner = self._skill_use_cases.visible(session)
            errors = told_to_agents(self._catalog, session.caller, cleaner)
            loaded = {skill_id: digest for skill_id, digest, _ in session.sent_skills}
            sources = Counter[str]()
            for source, count in Counter(skill.source for skill in visible.skills).items():
                sources[cleaner.text(source)] += count
            return SkillsStatus(
                count=len(visible.skills),
                loaded=tuple(
                    (visible.name_for(skill, cleaner.about), loaded[skill.id])
                    for skill in visible.skills
                    if skill.id in loaded
                ),
                errors_count=len(errors),
                errors=tuple(errors[:ERRORS_MAX]),
                sources=sources,
                active=states.of(session, self._parts.indexer.current()),
            )

        return await self._skill_use_cases.worked_out(status)

    async def overview(self, session: Session) -> Overview:
        """Return all skills in the caller's scope, and why some of them are hidden."""

        def overview() -> Overview:
            visible, cleaner = self._skill_use_cases.visible(session)
            return Overview(
                skills=tuple(self._skill_use_cases.shown(cleaner, visible, skill) for skill in visible.skills),
                withheld=tuple((each.skill, each.reason) for each in self._catalog.withheld(session.caller)),
                changed=sum(load.changes.added + load.changes.updated for load in self._skill_use_cases.loads),
                untrusted=self._catalog.untrusted_count(),
                errors=(
                    *(LoadError("", problem.path, _without_path(problem)) for problem in self._catalog.problems),
                    *told_to_person(self._catalog, session.caller, cleaner),
                ),
            )

        return await self._skill_use_cases.worked_out(overview)

    async def switch(self, session: Session, name: str, *, enabled: bool) -> Skill:
        """Enable or disable the one skill of this name permanently, and return it.

        Raises:
            BadRequest: there is none in the caller's scope, or several.

        """

        def switch() -> Skill:
            visible = self._catalog.everything(session.caller)
            found = visible.find(name)
            if not found:
                near = did_you_mean(visible.near(name))
                raise BadRequest(f"Not found: {name}.{near} `toolcrib skills list --hidden` shows all skills.")
            if len(found) > 1:
                raise BadRequest(f"Several skills are called {name}: {', '.join(map(visible.spelling, found))}")
            self._catalog.switch(found[0], enabled=enabled)
            return found[0]

        return await self._skill_use_cases.worked_out(switch)


def _page_uri(form: Literal["xml", "json"], start: int, count: int) -> str:
    return f"{CATALOG_PAGES}{start + count}" + (".xml" if form == "xml" else "")


def _without_path(problem: Problem) -> str:
    return f"{problem.reason} ({problem.hint})" if problem.hint else problem.reason
