"""Skills as pages of resources: what is published to a session's caller, computed off the event loop."""

from itertools import islice
from typing import TYPE_CHECKING

from toolcrib.base.paging import page_of
from toolcrib.policy.requests import Request
from toolcrib.policy.sessions import Session
from toolcrib.skills.use_cases import ConfirmedTexts, SkillUseCases

if TYPE_CHECKING:
    from toolcrib.skills.publishing import Child, Content, Published

_PAGE = 50


class SkillResources:
    """The published skills."""

    def __init__(self, skill_use_cases: SkillUseCases) -> None:
        self._use_cases, self._catalog = skill_use_cases, skill_use_cases.dependencies.catalog

    async def published(self, session: Session, after: str) -> "tuple[list[Published], bool]":
        """Return the next published skills by URI, those after the URI ``after``, and whether there are more."""

        def page() -> "tuple[list[Published], bool]":
            found = self._use_cases.publisher.skills(*self._use_cases.visible(session), after)
            skills = list(islice(found, _PAGE + 1))
            return skills[:_PAGE], len(skills) > _PAGE

        return await self._use_cases.run(page)

    async def published_skill(self, session: Session, uri: str) -> "Published":
        """Return the published skill at ``uri``.

        Raises:
            UnknownSkill: there is no such skill for this caller.

        """
        return await self._use_cases.run(
            lambda: self._use_cases.publisher.skill(*self._use_cases.visible(session), uri)
        )

    async def read(self, session: Session, uri: str, caller: Request) -> "Content":
        """Return a file of a published skill to the caller of a request, who may have to confirm first.

        Raises:
            UnknownSkill: there is no such file for this caller.
            NotConfirmed, InputRequired: a person has to confirm first.

        """
        use_cases = self._use_cases

        def read(confirmed: ConfirmedTexts) -> "Content":
            content, skill = use_cases.publisher.read(*use_cases.visible(session), uri)
            # A confirmation is for the text that is read now, not for the indexed one.
            if self._catalog.must_confirm(skill) and self._catalog.freshen([skill]):
                content, skill = use_cases.publisher.read(*use_cases.visible(session), uri)
            use_cases.require_confirmed([skill], confirmed)
            return content

        return await use_cases.run_confirmed(session, caller, read)

    async def children(self, session: Session, uri: str, cursor: str | None) -> "tuple[list[Child], str | None]":
        """Return one page of the direct children of a folder of a published skill.

        Raises:
            UnknownSkill: there is no such folder for this caller.
            BadRequest: the cursor is invalid.

        """
        found = await self._use_cases.run(
            lambda: self._use_cases.publisher.children(*self._use_cases.visible(session), uri)
        )
        return page_of(found, lambda child: (child.name,), cursor, _PAGE)
