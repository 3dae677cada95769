"""The use cases of skills: search, get, list, what is relevant to a task, and the directory."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.to_thread

from toolcrib.base.errors import BadRequest, ToolcribError, UnknownSkill
from toolcrib.base.model import Skill
from toolcrib.base.paging import page_of
from toolcrib.base.text import QUERY_MAX, one_line, truncate
from toolcrib.events.kinds import SkillGet, SkillList, SkillPackLoaded, SkillSearchQuery, SkillsRetrieved
from toolcrib.events.log import elapsed_ms
from toolcrib.policy.asking import NOBODY, Asker
from toolcrib.policy.sessions import Session
from toolcrib.search.documents import Found
from toolcrib.skills.catalog import Footing, RootLoad, Scope
from toolcrib.skills.confirmations import Confirmed, ConfirmedSkills
from toolcrib.skills.requests import (
    ERRORS_MAX,
    FoundSkill,
    GetAnswer,
    GetRequest,
    ListAnswer,
    ListRequest,
    RelevantAnswer,
    RelevantRequest,
    SearchAnswer,
    SkillUseCaseParts,
    by_name,
    told_to_agents,
)
from toolcrib.skills.search import CANDIDATES, SkillQuery, both, chosen, frame_tags
from toolcrib.skills.visible import VisibleSkills, Wanted

if TYPE_CHECKING:
    from toolcrib.skills.binding import SkillBinding
    from toolcrib.skills.loading import SkillLoader
    from toolcrib.skills.publishing import Publisher
    from toolcrib.skills.text.cleaning import Cleaner

_Answer = TypeVar("_Answer")
_TRIGGER_MAX = 160
_WHOLE_TOKENS = 6000
_UNASKED_S = 0.5
"""Delay, in seconds, after which the skills are scanned even if nobody has requested them."""

_log = logging.getLogger(__name__)


class SkillUseCases:
    """The use cases of one set of dependencies. Blocking work is done in worker threads."""

    def __init__(self, parts: SkillUseCaseParts) -> None:
        self.parts = parts
        self._section = parts.settings.toolcrib.skills
        self._catalog, self._events = parts.catalog, parts.events
        self._cleaners: dict[tuple[int, ...], Cleaner] = {}
        self.loads: list[RootLoad] = []
        self.confirmed = ConfirmedSkills(parts.catalog, parts.confirmations, self.worked_out, self.cleaner)
        self._is_wanted, self._is_loaded = anyio.Event(), anyio.Event()
        self._stopped = threading.Event()

    @cached_property
    def publisher(self) -> "Publisher":
        """Publishes skills as resources; created lazily, like the loader, so that no start waits for its modules."""
        from toolcrib.skills.publishing import Publisher  # noqa: PLC0415

        return Publisher(self.parts.settings, self.parts.catalog)

    @cached_property
    def loader(self) -> "SkillLoader":
        """Renders texts of skills within a budget."""
        from toolcrib.skills.loading import SkillLoader  # noqa: PLC0415

        return SkillLoader(self.parts.settings, self.parts.catalog, self.binding, is_local=self.parts.around.is_local)

    @cached_property
    def binding(self) -> "SkillBinding":
        """Describes the tools that skills name, and activates skills."""
        from toolcrib.skills.binding import SkillBinding  # noqa: PLC0415

        return SkillBinding(self.parts)

    # -- loading ---------------------------------------------------------------------------------

    async def load(self) -> None:
        """Scan every root and update the index. On any failure, what was indexed before is served.

        Begins when somebody requests skills, and soon in any case: a client that first requests its tools gets those
        first.
        """
        with anyio.move_on_after(_UNASKED_S):
            await self._is_wanted.wait()
        if self._stopped.is_set():
            return
        try:
            await self._scan()
            lacking = await anyio.to_thread.run_sync(self._catalog.lacking)
            for problem in (*self._catalog.problems, *lacking):
                _log.warning("%s", problem)
        except ToolcribError as error:
            _log.warning("skills could not be scanned: %s %s", error, error.detail)

    async def _scan(self) -> None:
        try:
            self.loads = await anyio.to_thread.run_sync(self._catalog.refresh, self._stopped)
        finally:
            self._is_loaded.set()
        for load in self.loads:
            if load.root.is_pack:
                self._events.emit(
                    SkillPackLoaded(
                        pack_name=load.root.origin_ref,
                        skill_count=load.skill_count,
                        updated_count=load.changes.added + load.changes.updated,
                    )
                )

    @property
    def is_loaded(self) -> bool:
        """Whether the first scan is over."""
        return self._is_loaded.is_set()

    async def footing(self, session: Session) -> Footing | None:
        """Return what the caller's visible skills depend on besides rows; None if that is not known for certain."""
        return await anyio.to_thread.run_sync(self._catalog.footing, session.caller) if self.is_loaded else None

    def stop(self) -> None:
        """Stop the current scan soon, and start no other."""
        self._stopped.set()
        self._is_wanted.set()

    async def worked_out(self, work: Callable[[], _Answer]) -> _Answer:
        """Return the result of ``work``, run in a worker thread after the first scan, or once that takes too long."""
        self._is_wanted.set()
        with anyio.move_on_after(self.parts.around.deadline - anyio.current_time()):
            await self._is_loaded.wait()
        answer, changed = await anyio.to_thread.run_sync(partial(self._looked, work))
        self._catalog.tell_changed(changed)
        return answer

    def _looked(self, work: Callable[[], _Answer]) -> tuple[_Answer, frozenset[Scope]]:
        """Return the result of ``work`` after checking for changed skills, and the scopes whose skills changed."""
        if self.is_loaded:
            try:
                self._catalog.look(self._stopped)
            except ToolcribError as error:
                _log.warning("skills could not be looked at: %s %s", error, error.detail)
        return work(), self._catalog.changed_scopes()

    async def soon(self, work: Callable[[], _Answer], within_s: float) -> _Answer | None:
        """Return the result of ``work``, run in a worker thread, or None if it is not done in time.

        The first scan is awaited for half of the time; after that, what was indexed before it is used.
        """
        self._is_wanted.set()
        with anyio.move_on_after(within_s):
            with anyio.move_on_after(within_s / 2):
                await self._is_loaded.wait()
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
        return None

    def visible(self, session: Session) -> tuple[VisibleSkills, "Cleaner"]:
        """Return the skills visible to the session's caller, and the cleaner that redacts their texts for that caller.

        The single decision behind every answer here. May block.
        """
        mentions = self.parts.gate.mentions(session, self.parts.indexer.current())
        cleaner = self._cleaners.get(mentions.permissions.key)
        if cleaner is None or not cleaner.is_for(mentions):
            from toolcrib.skills.text.cleaning import Cleaner  # noqa: PLC0415 - as above

            cleaner = self._cleaners[mentions.permissions.key] = Cleaner(mentions, redact=self._section.redact_pii)
        return self._catalog.visible(session.caller), cleaner

    def cleaner(self, session: Session) -> "Cleaner":
        """Return the cleaner that redacts texts for the session's caller. May block."""
        return self.visible(session)[1]

    # -- search ----------------------------------------------------------------------------------

    async def search(self, session: Session, query: SkillQuery) -> SearchAnswer:
        """Find skills visible to the session's caller.

        Raises:
            BadRequest: a blank query, or a pattern that cannot be used.

        """
        if not query.query.strip():
            raise BadRequest("'query' is blank. Say in a few words what you want to do, e.g. 'fill a pdf form'.")
        began = time.perf_counter()
        answer = await self.worked_out(partial(self._search, session, query))
        self._events.emit(
            SkillSearchQuery(
                query=self._for_events(session, answer.query),
                requested_search_type=query.search_type.value,
                effective_search_type=query.search_type.value,
                results_count=len(answer.hits),
            ),
            session=session.label,
            duration_ms=elapsed_ms(began),
        )
        return answer

    def _search(self, session: Session, query: SkillQuery) -> SearchAnswer:
        visible, cleaner = self.visible(session)
        named = visible.find(query.query) if "://" in query.query else ()
        query_here = replace(query, query=named[0].id) if named else query
        if query.usable:
            query_here = replace(query_here, without=self.binding.lacking(session, visible))
        found = self._found(session, query_here, visible, cleaner)
        return SearchAnswer(
            hits=tuple(
                replace(self.shown(cleaner, visible, match.document), score=match.score, reason=match.reason)
                for match in found.matches
            ),
            query=query.query[:QUERY_MAX],
            effective=query.search_type,
            count=found.count,
            truncated=found.truncated,
            confidence=found.confidence,
            note=found.note,
            evidence=found.strength,
        )

    def _found(self, session: Session, query: SkillQuery, visible: VisibleSkills, cleaner: "Cleaner") -> Found[Skill]:
        setbacks = self.parts.standing.setbacks(session.caller.principal)
        return self.parts.searcher.search(query, visible, cleaner.mentions, setbacks)

    # -- get -------------------------------------------------------------------------------------

    async def get(self, session: Session, request: GetRequest, asker: Asker | None = NOBODY) -> GetAnswer:
        """Return skills by name, rendered within the budget; unknown and ambiguous names are reported (R135).

        ``asker`` reaches the caller, who may have to confirm first; None: the person at this machine.

        Raises:
            NotConfirmed, MustAsk: a person has to confirm first.
            BadRequest: ``file`` with several skills, or one that cannot be shown as text.
            UnknownSkill: the skill has no such ``file``.

        """
        began = time.perf_counter()
        answer = await self.confirmed.given(session, asker, partial(self._get, session, request))
        self.loader.remember(session, answer, request)
        await self.binding.activate(session, answer.skills)
        names = [given.text.name for given in answer.skills]
        session.trail.given(names)
        self._events.emit(
            SkillGet(
                names=names,
                returned_count=len(answer.skills),
                max_tokens=request.max_tokens,
                final_tokens_est=self.loader.estimate(answer.formatted),
            ),
            session=session.label,
            duration_ms=elapsed_ms(began),
        )
        return answer

    def _get(self, session: Session, request: GetRequest, confirmed: Confirmed) -> GetAnswer:
        wanted, cleaner = self.wanted(session, request)
        if self._catalog.freshen(wanted.skills):
            wanted, cleaner = self.wanted(session, request)
        if not wanted.skills:
            return self.loader.missing(wanted, request.max_tokens)
        self.confirmed.refuse_unconfirmed(wanted.skills, confirmed)
        if request.file is None:
            answer = self.loader.load(wanted, request, cleaner, session)
        elif len(request.names) > 1:
            raise BadRequest("'file' takes exactly one name in 'names'.")
        else:
            answer = self._file(wanted, request.file, cleaner)
        self._catalog.record_use(wanted.skills)
        return answer

    def wanted(self, session: Session, request: GetRequest) -> tuple[Wanted, "Cleaner"]:
        """Return the skills that the names of a request refer to, and the caller's cleaner. May block."""
        visible, cleaner = self.visible(session)
        if request.by_person:
            visible = self._catalog.for_person(session.caller)
        return visible.resolve(request.names, cleaner.about), cleaner

    def _file(self, wanted: Wanted, written: str, cleaner: "Cleaner") -> GetAnswer:
        [skill] = wanted.skills
        path = self.loader.file_of(skill, written, cleaner)
        try:
            content = self.publisher.text_of_file(skill, path, cleaner)
        except UnknownSkill:
            raise self.loader.without_file(skill, written, cleaner) from None
        return self.loader.load_file(wanted, path, content, cleaner)

    # -- list ------------------------------------------------------------------------------------

    async def list_skills(self, session: Session, request: ListRequest) -> ListAnswer:
        """Return one page of all skills visible to the session's caller, by name (R137).

        Raises:
            BadRequest: the cursor is invalid.

        """
        began = time.perf_counter()
        answer = await self.worked_out(partial(self._list, session, request))
        source = request.source and self._for_events(session, request.source)
        filters = {"task_type": request.task_type, "origin": request.origin, "scope": request.scope, "source": source}
        self._events.emit(
            SkillList(
                filters={name: value for name, value in filters.items() if value}, returned_count=len(answer.skills)
            ),
            session=session.label,
            duration_ms=elapsed_ms(began),
        )
        return answer

    def _list(self, session: Session, request: ListRequest) -> ListAnswer:
        visible, cleaner = self.visible(session)
        lacking = self.binding.lacking(session, visible) if request.usable else ()
        fitting = (skill for skill in visible.skills if request.passes(skill) and skill.row not in lacking)
        wanted = sorted(fitting, key=by_name)
        page, next_cursor = page_of(wanted, by_name, request.cursor, request.page_size)
        errors = told_to_agents(self._catalog, session.caller, cleaner)
        return ListAnswer(
            skills=tuple(self.shown(cleaner, visible, skill) for skill in page),
            total=len(wanted),
            next_cursor=next_cursor,
            errors_count=len(errors),
            errors=tuple(errors[:ERRORS_MAX]),
        )

    # -- before a task ---------------------------------------------------------------------------

    async def relevant(self, session: Session, request: RelevantRequest) -> RelevantAnswer:
        """Return the skills that fit a task, within the budget, for a host to add to its prompt (R141).

        Skills that need confirmation are included only if confirmed: nobody is asked about skills that nobody named.
        """
        began = time.perf_counter()
        answer, raw_tokens = await self.worked_out(partial(self._relevant, session, request))
        self._events.emit(
            SkillsRetrieved(
                skill_count=len(answer.names),
                top_k_used=request.top_k or self._section.top_k,
                raw_tokens_est=raw_tokens,
                final_tokens_est=self.loader.estimate(answer.formatted) if answer.names else 0,
                was_summarized=False,
            ),
            session=session.label,
            duration_ms=elapsed_ms(began),
        )
        return answer

    def _relevant(self, session: Session, request: RelevantRequest) -> tuple[RelevantAnswer, int]:
        top_k = request.top_k or self._section.top_k
        tags = frame_tags(request.frame, self._section.frames) if request.frame else frozenset[str]()
        if request.frame and not tags:
            return RelevantAnswer("", ()), 0
        visible, cleaner = self.visible(session)
        query = SkillQuery(request.task, limit=CANDIDATES)
        matches = self._found(session, query, visible, cleaner).matches
        if tags and len(matches) >= CANDIDATES:
            of_frame = self._found(session, replace(query, tags=tags), visible, cleaner)
            matches = both(matches, of_frame.matches)
        skills = self.confirmed.unasked(session, chosen(matches, tags, request.task_type))[:top_k]
        text, raw_tokens = self.loader.render(skills, cleaner, session, request.max_tokens or self._section.max_tokens)
        return RelevantAnswer(text, tuple(skill.name for skill in skills)), raw_tokens

    async def whole(self, session: Session, name: str, asker: Asker) -> str:
        """Return one skill as requested by a person: as much of it as the largest budget allows.

        Raises:
            NotConfirmed, MustAsk: a person has to confirm first.
            BadRequest: no visible skill has this name, or several have.

        """
        request = GetRequest((name,), format="raw", max_tokens=_WHOLE_TOKENS, force=True, by_person=True)
        answer = await self.get(session, request, asker)
        if not answer.skills:
            raise BadRequest(answer.formatted)
        return answer.formatted

    # -- what overviews tell too -----------------------------------------------------------------

    def shown(self, cleaner: "Cleaner", visible: VisibleSkills, skill: Skill) -> FoundSkill:
        """Return a skill's entry in a list: its shortest unambiguous spelling, its title, its truncated trigger."""
        title, summary = (one_line(cleaner.about(skill, text)) for text in (skill.title, skill.summary))
        return FoundSkill(skill, visible.name_for(skill, cleaner.about), title, truncate(summary, _TRIGGER_MAX))

    def _for_events(self, session: Session, query: str) -> str:
        return self.parts.gate.without_denied_names(session, query, self.parts.indexer.current())


class SkillActivation:
    """Activates and deactivates skills, using the skill use cases."""

    def __init__(self, skill_use_cases: SkillUseCases) -> None:
        self._cases = skill_use_cases

    async def activate(self, session: Session, request: GetRequest, asker: Asker) -> GetAnswer:
        """Activate skills without returning their texts, and return information about their tools.

        Raises:
            NotConfirmed, MustAsk: a person has to confirm first, as for the text.

        """
        answer = await self._cases.confirmed.given(session, asker, partial(self._activated, session, request))
        await self._cases.binding.activate(session, answer.skills)
        return answer

    def _activated(self, session: Session, request: GetRequest, confirmed: Confirmed) -> GetAnswer:
        wanted, cleaner = self._cases.wanted(session, request)
        self._cases.confirmed.refuse_unconfirmed(wanted.skills, confirmed)
        return self._cases.loader.without_texts(wanted, request.max_tokens, cleaner, session)

    async def deactivate(self, session: Session, names: tuple[str, ...]) -> list[str]:
        """Deactivate skills; return those of ``names`` that match no active skill."""
        # The first caller waits until the modules are loaded, in a thread.
        binding = await anyio.to_thread.run_sync(lambda: self._cases.binding)
        return await binding.let_go(session, names)
