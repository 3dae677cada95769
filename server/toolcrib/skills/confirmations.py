"""Skills that require a person's approval before their texts are returned: which they are, and the question."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

import anyio.to_thread

from toolcrib.base.errors import Unavailable
from toolcrib.base.model import Skill
from toolcrib.base.text import one_line, truncate
from toolcrib.policy.asking import Asker
from toolcrib.policy.confirmations import Confirmations, Subject
from toolcrib.policy.sessions import Session
from toolcrib.policy.state import Approval
from toolcrib.skills.catalog import SkillCatalog

if TYPE_CHECKING:
    from toolcrib.skills.text.cleaning import Cleaner

_Given = TypeVar("_Given")

_ATTEMPTS_MAX = 5
_SUMMARY_MAX = 400


class Unconfirmed(Exception):
    """The texts of these skills require a confirmation that has not been given yet."""

    def __init__(self, skills: Sequence[Skill]) -> None:
        super().__init__()
        self.skills = skills


class Confirmed:
    """What one request may return: skills in the version that was confirmed. ``by_owner``: everything."""

    def __init__(self, *, by_owner: bool = False) -> None:
        self._by_owner = by_owner
        self._skills = set[tuple[str, str]]()

    def __contains__(self, skill: Skill) -> bool:
        return self._by_owner or (skill.id, skill.content_hash) in self._skills

    def add(self, skill: Skill) -> None:
        """Record a confirmation, which is valid for this exact text."""
        self._skills.add((skill.id, skill.content_hash))


class WorkedOut(Protocol):
    """Runs work in a worker thread, against the current skills."""

    async def __call__(self, work: Callable[[], _Given], /) -> _Given:
        """Return the result of ``work``."""
        ...


class ConfirmedSkills:
    """Obtains confirmation of the skills that need it under ``skills.permissions``."""

    def __init__(
        self,
        catalog: SkillCatalog,
        confirmations: Confirmations,
        worked_out: WorkedOut,
        cleaner: "Callable[[Session], Cleaner]",
    ) -> None:
        self._catalog, self._confirmations = catalog, confirmations
        self._worked_out, self._cleaner = worked_out, cleaner

    def refuse_unconfirmed(self, skills: Iterable[Skill], confirmed: Confirmed) -> None:
        """Raise if texts of these skills need a confirmation first.

        Raises:
            Unconfirmed: some of them need a confirmation first.

        """
        lacking = [skill for skill in skills if self._catalog.must_confirm(skill) and skill not in confirmed]
        if lacking:
            raise Unconfirmed(lacking)

    def has_changed(self, skill: Skill) -> bool:
        """Return whether a skill that needs confirmation differs from its indexed version; reindexes it if so."""
        return self._catalog.must_confirm(skill) and self._catalog.freshen([skill])

    def unasked(self, session: Session, skills: Iterable[Skill]) -> list[Skill]:
        """Return those of ``skills`` whose texts may be returned without asking. May block."""
        return [
            skill
            for skill in skills
            if not self._catalog.must_confirm(skill)
            or self._confirmations.is_allowed(session, approval_of(session.caller.principal, skill))
        ]

    async def given(self, session: Session, asker: Asker | None, work: Callable[[Confirmed], _Given]) -> _Given:
        """Return the result of ``work``, run in a worker thread, after a confirmation if it raises Unconfirmed.

        ``asker`` reaches the caller of the request; None: the person at this machine, who is not asked.

        Raises:
            NotConfirmed: the person has not confirmed.
            MustAsk: they can be asked, but not while this request is under way.

        """
        confirmed = Confirmed(by_owner=asker is None)
        for _ in range(_ATTEMPTS_MAX):
            try:
                return await self._worked_out(partial(work, confirmed))
            except Unconfirmed as lacking:
                skills = lacking.skills
            for skill in skills:
                if asker is not None:
                    await self._confirmations.require(session, asker, _subject(session, skill, self._cleaner))
                confirmed.add(skill)
        raise Unavailable("", "The skill changes again and again. Nothing was given; try later.")


def approval_of(principal: str, skill: Skill) -> Approval:
    """Return the key of a principal's lasting confirmation of a skill."""
    return Approval(principal, "skill", f"{skill.source}/{skill.folder}", skill.content_hash)


def _subject(session: Session, skill: Skill, cleaner: "Callable[[Session], Cleaner]") -> Subject:
    approval = approval_of(session.caller.principal, skill)

    def question() -> str:
        clean = partial(cleaner(session).about, skill)
        said = truncate(one_line(clean(skill.summary)), _SUMMARY_MAX) or "nothing"
        return f"May the model be given the skill {one_line(clean(approval.name))}?\nIt says of itself: {said}"

    return Subject(approval, "Nothing was given.", lambda: anyio.to_thread.run_sync(question))
