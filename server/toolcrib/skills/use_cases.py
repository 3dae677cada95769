"""The use cases of skills: search, get, list, what is relevant to a task, and which skills are active."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary

import anyio
import anyio.to_thread

from toolcrib.base.cache import Recent, RecentBy
from toolcrib.base.errors import BadRequest, ToolcribError, Unavailable
from toolcrib.base.model import OF_SERVERS, Caller, Skill
from toolcrib.base.paging import page_of
from toolcrib.base.text import QUERY_MAX, escaped, one_line, truncate
from toolcrib.catalog.gate import Gate
from toolcrib.catalog.indexing import Indexer
from toolcrib.catalog.offer_search import OfferGate
from toolcrib.catalog.views import CatalogViews
from toolcrib.config.settings import ServerSettings, Settings
from toolcrib.downstream.states import OfferedSkills
from toolcrib.events.kinds import SkillGet, SkillList, SkillPackLoaded, SkillSearchQuery, SkillsRetrieved
from toolcrib.events.log import EventLog, elapsed_ms
from toolcrib.policy.confirmations import Confirmations, Subject
from toolcrib.policy.questions import shown_text
from toolcrib.policy.requests import OWN_REQUEST, Request
from toolcrib.policy.sessions import Session
from toolcrib.policy.state import Approval
from toolcrib.search.documents import Found
from toolcrib.skills.answers import (
    FoundSkill,
    GetAnswer,
    GetRequest,
    ListAnswer,
    ListRequest,
    LoadError,
    RelevantAnswer,
    RelevantRequest,
    SearchAnswer,
)
from toolcrib.skills.catalog import ChangedScopes, RootLoad, SkillCatalog, SkillInputs
from toolcrib.skills.identity import server_uri
from toolcrib.skills.index import LEARNED_KEPT
from toolcrib.skills.penalties import NO_PENALTIES, ReportedOutcomes
from toolcrib.skills.relevance import CANDIDATES, frame_tags, select_skills, with_frame_matches
from toolcrib.skills.search import SkillQuery, SkillSearcher
from toolcrib.skills.sources.roots import CORE_SOURCE
from toolcrib.skills.sources.scanning import LIMITS_MET
from toolcrib.skills.visible import Resolved, VisibleSkills

if TYPE_CHECKING:
    from toolcrib.skills.loading import SkillLoader
    from toolcrib.skills.publishing import Publisher
    from toolcrib.skills.text.cleaning import Cleaner
    from toolcrib.skills.tools import SkillTools

ERRORS_MAX = 20
"""Maximum number of files that could not be loaded, named in one answer."""

_Answer = TypeVar("_Answer")
_TRIGGER_MAX = 160
_SHOWN_MAX = 4000
"""Maximum number of cached entries of lists, for each kind of caller."""
_WHOLE_TOKENS = 6000
_PARTS_MAX = 32
"""Maximum number of cached subsets of the visible skills, without skills of different servers."""
_SHARE_OF_SERVERS = 4
"""Skills of servers are at most this fraction (1/n) of those that are added to a prompt unasked, but may be one."""
_UNREQUESTED_S = 0.5
"""Delay, in seconds, after which the skills are scanned even if no client has requested them."""
_CONFIRMATIONS_MAX = 5
_SUMMARY_MAX = 400

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SkillRuntime:
    """The process that skills are served by. Until ``deadline``, on anyio's clock, requests wait for the first scan.

    ``is_local``: the only caller is the client of this process, on this machine. ``has_failed`` returns whether a
    server has failed. ``keep`` makes a session's active skills outlive the request, where nothing else does.
    """

    deadline: float
    is_local: bool = True
    has_failed: Callable[[str], bool] = lambda _server: False
    keep: Callable[[Session], None] = lambda _session: None


@dataclass(frozen=True, slots=True)
class SkillDependencies:
    """The dependencies of the use cases; assembled by the composition root."""

    settings: Settings
    catalog: SkillCatalog
    searcher: SkillSearcher
    outcomes: ReportedOutcomes
    gate: Gate
    indexer: Indexer
    offer_gate: OfferGate
    views: CatalogViews
    events: EventLog
    confirmations: Confirmations
    runtime: SkillRuntime


ConfirmedTexts = Collection[tuple[str, str]] | None
"""The skills, by id and content hash, whose texts a person has released to a request; None: all of them."""


class _UnconfirmedError(Exception):
    """The texts of these skills require a confirmation that has not been given yet."""

    def __init__(self, skills: list[Skill]) -> None:
        super().__init__()
        self.skills = skills


def approval_of(principal: str, skill: Skill) -> Approval:
    """Return the key of a principal's lasting confirmation of a skill; it holds for this version of the text only."""
    return Approval(principal, "skill", f"{skill.source}/{skill.folder}", skill.content_hash)


class SkillUseCases:
    """The use cases of one set of dependencies. Blocking work is done in worker threads."""

    def __init__(self, dependencies: SkillDependencies) -> None:
        self.dependencies = dependencies
        self._section = dependencies.settings.toolcrib.skills
        self._catalog, self._events = dependencies.catalog, dependencies.events
        self._cleaners: dict[tuple[int, ...], Cleaner] = {}
        # Weak in both: a snapshot of skills, or a catalog, that is no longer current must not stay for its entries.
        self._parts: WeakKeyDictionary[VisibleSkills, Recent[frozenset[int], VisibleSkills]] = WeakKeyDictionary()
        self._shown: WeakKeyDictionary[VisibleSkills, RecentBy[Cleaner, int, FoundSkill]] = WeakKeyDictionary()
        self.loads: list[RootLoad] = []
        self._is_wanted, self._is_loaded = anyio.Event(), anyio.Event()
        self._stopped = threading.Event()

    @cached_property
    def loader(self) -> "SkillLoader":
        """Renders texts of skills within a budget; created lazily, so that no start waits for its modules."""
        from toolcrib.skills.loading import SkillLoader  # noqa: PLC0415

        return SkillLoader(self.dependencies, self.tools)

    @cached_property
    def tools(self) -> "SkillTools":
        """Describes the tools that skills name, and activates skills; lazy like the loader."""
        from toolcrib.skills.tools import SkillTools  # noqa: PLC0415

        return SkillTools(self.dependencies)

    @cached_property
    def publisher(self) -> "Publisher":
        """Publishes skills as resources; lazy like the loader."""
        from toolcrib.skills.publishing import Publisher  # noqa: PLC0415

        return Publisher(self.dependencies.settings, self._catalog)

    # -- loading ---------------------------------------------------------------------------------

    async def load(self) -> None:
        """Scan every root and update the index. On any failure, what was indexed before is served.

        Begins when somebody requests skills, and soon in any case: a client that first requests its tools gets those
        first.
        """
        with anyio.move_on_after(_UNREQUESTED_S):
            await self._is_wanted.wait()
        if self._stopped.is_set():
            return
        try:
            self.loads = await anyio.to_thread.run_sync(self._catalog.refresh, self._stopped)
            # Before the warnings: requests wait for this.
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
            await anyio.to_thread.run_sync(self._catalog.remove_old_copies)
            lacking = await anyio.to_thread.run_sync(self._catalog.repaired, self._catalog.lacking, self._stopped)
            for problem in (*self._catalog.problems, *lacking):
                _log.warning("%s", problem)
        except ToolcribError as error:
            _log.warning("skills could not be scanned: %s %s", error, error.detail)
        finally:
            self._is_loaded.set()

    async def inputs(self, session: Session) -> SkillInputs | None:
        """Return what the caller's visible skills depend on besides rows; None if that is not known for certain."""
        if not self._is_loaded.is_set():
            return None
        return await anyio.to_thread.run_sync(self._catalog.inputs, session.caller)

    async def mirror(self, server: ServerSettings, offered: OfferedSkills) -> None:
        """Take in the skills of a server: from now on they are found, listed and read like others.

        Raises:
            StoreError: they cannot be stored.

        """
        changed = await anyio.to_thread.run_sync(self._catalog.copy, server, offered, self._stopped)
        self._catalog.announce(changed)

    def stop(self) -> None:
        """Stop the current scan soon, and start no other."""
        self._stopped.set()
        self._is_wanted.set()

    # -- worker threads --------------------------------------------------------------------------

    async def run(self, work: Callable[[], _Answer]) -> _Answer:
        """Return the result of ``work``, run in a worker thread after the first scan, or once that takes too long.

        Before it runs, files that have changed since the last look are indexed again.
        """
        self._is_wanted.set()
        with anyio.move_on_after(self.dependencies.runtime.deadline - anyio.current_time()):
            await self._is_loaded.wait()

        def run() -> tuple[_Answer, ChangedScopes]:
            if self._is_loaded.is_set():
                try:
                    self._catalog.refresh_if_due(self._stopped)
                except ToolcribError as error:
                    _log.warning("skills could not be looked at: %s %s", error, error.detail)
            return self._catalog.repaired(work, self._stopped), self._catalog.changed_scopes()

        answer, changed = await anyio.to_thread.run_sync(run)
        # Subscribers announce changes to clients, which only the event loop's thread may do.
        self._catalog.announce(changed)
        return answer

    async def run_within(self, within_s: float, work: Callable[[], _Answer]) -> _Answer | None:
        """Return the result of ``work``, run in a worker thread, or None if it is not done in time.

        The first scan is awaited for half of the time; after that, what was indexed before it is used.
        """
        self._is_wanted.set()
        with anyio.move_on_after(within_s):
            with anyio.move_on_after(within_s / 2):
                await self._is_loaded.wait()
            repaired = partial(self._catalog.repaired, work, self._stopped)
            return await anyio.to_thread.run_sync(repaired, abandon_on_cancel=True)
        return None

    async def run_confirmed(
        self, session: Session, caller: Request | None, work: Callable[[ConfirmedTexts], _Answer]
    ) -> _Answer:
        """Return the result of ``work``, run like :meth:`run`, after the confirmations that it requires.

        ``work`` calls :meth:`require_confirmed` with what it is given. ``caller`` is the request by which a person is
        asked; None: the person at this machine, who is not asked.

        Raises:
            NotConfirmed: the person has not confirmed.
            InputRequired: they can be asked, but not while this request is under way.

        """
        if caller is None:
            return await self.run(partial(work, None))
        confirmed: set[tuple[str, str]] = set()
        # A file may change while the person reads the question: then its new text needs a confirmation of its own.
        for _ in range(_CONFIRMATIONS_MAX):
            try:
                return await self.run(partial(work, confirmed))
            except _UnconfirmedError as error:
                unconfirmed = error.skills
            for skill in unconfirmed:
                await self.dependencies.confirmations.require(caller, self._subject(session, skill))
                confirmed.add((skill.id, skill.content_hash))
        raise Unavailable("", "The skill changes again and again. Nothing was given; try later.")

    def require_confirmed(self, skills: Iterable[Skill], confirmed: ConfirmedTexts) -> None:
        """Interrupt the work of :meth:`run_confirmed` if texts of these skills need a confirmation first."""
        unconfirmed = [
            skill
            for skill in skills
            if confirmed is not None
            and self._catalog.must_confirm(skill)
            and (skill.id, skill.content_hash) not in confirmed
        ]
        if unconfirmed:
            raise _UnconfirmedError(unconfirmed)

    def _subject(self, session: Session, skill: Skill) -> Subject:
        approval = approval_of(session.caller.principal, skill)

        def question() -> str:
            clean = partial(self.visible(session)[1].about, skill)
            says = shown_text(clean(skill.summary), _SUMMARY_MAX)
            return f"May the model be given the skill {escaped(clean(approval.name))}?\nIt says of itself: {says}"

        return Subject(approval, "Nothing was given.", lambda: anyio.to_thread.run_sync(question))

    def visible(self, session: Session) -> tuple[VisibleSkills, "Cleaner"]:
        """Return the skills visible to the session's caller, and the cleaner that redacts their texts for that caller.

        The single decision behind every answer here. May block.
        """
        masker = self.dependencies.gate.masker(session, self.dependencies.indexer.current())
        cleaner = self._cleaners.get(masker.permissions.key)
        if cleaner is None or cleaner.masker is not masker:
            from toolcrib.skills.text.cleaning import Cleaner  # noqa: PLC0415 - as above

            cleaner = self._cleaners[masker.permissions.key] = Cleaner(masker, redact=self._section.redact_pii)
        return self._permitted(session, self._catalog.visible(session.caller)), cleaner

    def _permitted(self, session: Session, visible: VisibleSkills) -> VisibleSkills:
        """Return the skills without those of servers that the caller may not read there either."""
        gate = self.dependencies.offer_gate
        if not visible.of_servers or gate.permissions(session).unrestricted:
            return visible
        refused = frozenset(
            skill.row
            for skill in visible.of_servers
            if not gate.may_use(session, self._catalog.server_of(skill), server_uri(skill), skill.name)
        )
        # For each set its own value: what is derived from it has no word of the others.
        rest = [skill for skill in visible.everything if skill.row not in refused]
        return self._parts.setdefault(visible, Recent(_PARTS_MAX)).get(
            refused, lambda: VisibleSkills(rest, visible.generation)
        )

    def has_own(self, session: Session) -> bool:
        """Return whether a session's caller has skills besides the core pack, which only says how to use toolcrib.

        May block.
        """
        return any(skill.source != CORE_SOURCE for skill in self._catalog.visible(session.caller).skills)

    # -- search ----------------------------------------------------------------------------------

    async def search(self, session: Session, query: SkillQuery) -> SearchAnswer:
        """Find skills visible to the session's caller.

        Raises:
            BadRequest: a blank query, or a pattern that cannot be used.

        """
        if not query.query.strip():
            raise BadRequest("'query' is blank. Say in a few words what you want to do, e.g. 'fill a pdf form'.")
        began = time.perf_counter()
        answer = await self.run(partial(self._search, session, query))
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
        resolved = replace(query, query=named[0].id) if named else query
        if query.usable:
            resolved = replace(resolved, without=self.tools.lacking(session, visible))
        found = self._found(session, resolved, visible, cleaner)
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
            evidence=found.evidence,
        )

    def _found(self, session: Session, query: SkillQuery, visible: VisibleSkills, cleaner: "Cleaner") -> Found[Skill]:
        outcomes = self.dependencies.outcomes
        penalties = outcomes.penalties(session.caller.principal) if outcomes.enabled else NO_PENALTIES
        return self.dependencies.searcher.search(query, visible, cleaner.masker, penalties)

    # -- get -------------------------------------------------------------------------------------

    async def get(self, session: Session, request: GetRequest, caller: Request | None = OWN_REQUEST) -> GetAnswer:
        """Return skills by name, rendered within the budget; unknown and ambiguous names are reported (R135).

        ``caller`` is the request by which a person is asked, who may have to confirm first; None: the person at this
        machine.

        Raises:
            NotConfirmed, InputRequired: a person has to confirm first.
            BadRequest: ``file`` with several skills, or one that cannot be shown as text.
            UnknownSkill: the skill has no such ``file``.

        """
        began = time.perf_counter()
        answer = await self.run_confirmed(session, caller, partial(self._get, session, request))
        # On the event loop, since a session is not safe to change from worker threads.
        self.loader.record_sent(session, answer, request)
        await self.tools.activate(session, answer.skills)
        names = [given.text.name for given in answer.skills]
        session.history.given(names)
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

    def _get(self, session: Session, request: GetRequest, confirmed: ConfirmedTexts) -> GetAnswer:
        resolved, cleaner = self._resolved(session, request)
        if self._catalog.freshen(resolved.skills):
            # The new version may have another name, or be hidden.
            resolved, cleaner = self._resolved(session, request)
        if not resolved.skills:
            return self.loader.not_found(resolved, request.max_tokens)
        self.require_confirmed(resolved.skills, confirmed)
        if request.file is None:
            answer = self.loader.load(resolved, request, cleaner, session)
        elif len(request.names) > 1:
            raise BadRequest("'file' takes exactly one name in 'names'.")
        else:
            answer = self.loader.load_file(resolved, request.file, cleaner)
        self._catalog.record_use(resolved.skills)
        return answer

    def _resolved(self, session: Session, request: GetRequest) -> tuple[Resolved, "Cleaner"]:
        visible, cleaner = self.visible(session)
        if request.by_person:
            visible = self._catalog.for_person(session.caller)
        names = [self.loader.id_at(name, visible, cleaner) or name for name in request.names]
        return visible.resolve(names, cleaner.about), cleaner

    async def completions(self, session: Session, start: str) -> list[str]:
        """Return the names of the skills of the session's caller that begin so, in any case and with any separator."""

        def complete() -> list[str]:
            visible, cleaner = self.visible(session)
            return [visible.name_for(skill, cleaner.about) for skill in visible.beginning(start)]

        return await self.run(complete)

    async def whole(self, session: Session, name: str, caller: Request) -> str:
        """Return one skill as requested by a person: as much of it as the largest budget allows.

        Raises:
            NotConfirmed, InputRequired: a person has to confirm first.
            BadRequest: no visible skill has this name, or several have.

        """
        request = GetRequest((name,), format="raw", max_tokens=_WHOLE_TOKENS, force=True, by_person=True)
        answer = await self.get(session, request, caller)
        if not answer.skills:
            raise BadRequest(answer.formatted)
        return answer.formatted

    async def activate(self, session: Session, request: GetRequest, caller: Request) -> GetAnswer:
        """Activate skills without returning their texts, and return information about their tools.

        Raises:
            NotConfirmed, InputRequired: a person has to confirm first, as for the text.

        """

        def describe(confirmed: ConfirmedTexts) -> GetAnswer:
            resolved, cleaner = self._resolved(session, request)
            self.require_confirmed(resolved.skills, confirmed)
            return self.loader.load_tools_only(resolved, request.max_tokens, cleaner, session)

        answer = await self.run_confirmed(session, caller, describe)
        await self.tools.activate(session, answer.skills)
        return answer

    async def deactivate(self, session: Session, names: tuple[str, ...]) -> list[str]:
        """Deactivate skills; return those of ``names`` that match no active skill."""
        # The first caller waits until the modules are loaded, in a thread.
        tools = await anyio.to_thread.run_sync(lambda: self.tools)
        return await tools.deactivate(session, names)

    # -- list ------------------------------------------------------------------------------------

    async def list_skills(self, session: Session, request: ListRequest) -> ListAnswer:
        """Return one page of all skills visible to the session's caller, by name (R137).

        Raises:
            BadRequest: the cursor is invalid.

        """
        began = time.perf_counter()
        answer = await self.run(partial(self._list, session, request))
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
        lacking = self.tools.lacking(session, visible) if request.usable else ()
        fitting = (skill for skill in visible.skills if request.passes(skill) and skill.row not in lacking)
        ordered = sorted(fitting, key=_by_name)
        page, next_cursor = page_of(ordered, _by_name, request.cursor, request.page_size)
        errors = self.load_errors(session.caller, cleaner)
        return ListAnswer(
            skills=tuple(self.shown(cleaner, visible, skill) for skill in page),
            total=len(ordered),
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
        answer, raw_tokens = await self.run(partial(self._relevant, session, request))
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
            matches = with_frame_matches(matches, of_frame.matches)
        confirmations, principal = self.dependencies.confirmations, session.caller.principal
        skills = [
            skill
            for skill in select_skills(matches, tags, request.task_type)
            if not self._catalog.must_confirm(skill) or confirmations.is_allowed(session, approval_of(principal, skill))
        ]
        skills = _with_few_of_servers(skills, top_k)
        text, raw_tokens = self.loader.load_brief(
            skills, cleaner, session, request.max_tokens or self._section.max_tokens
        )
        return RelevantAnswer(text, tuple(skill.name for skill in skills)), raw_tokens

    # -- what overviews need too -----------------------------------------------------------------

    def shown(self, cleaner: "Cleaner", visible: VisibleSkills, skill: Skill) -> FoundSkill:
        """Return a skill's entry in a list: its shortest unambiguous spelling, its title, its truncated trigger."""

        def entry() -> FoundSkill:
            title, summary = (one_line(cleaner.about(skill, text)) for text in (skill.title, skill.summary))
            return FoundSkill(skill, visible.name_for(skill, cleaner.about), title, truncate(summary, _TRIGGER_MAX))

        return self._shown.setdefault(visible, RecentBy(_SHOWN_MAX))[cleaner].get(skill.row, entry)

    def load_errors(self, caller: Caller, cleaner: "Cleaner", *, for_person: bool = False) -> list[LoadError]:
        """Return every file of the caller's roots that could not be loaded, and every limit that omits some.

        ``for_person`` includes problems of skills that agents may not know of (R113).
        """
        codes = (*LIMITS_MET, LEARNED_KEPT) if for_person else LIMITS_MET
        # Whoever may not use all of a server must not learn what else it has.
        hides_servers = not (for_person or cleaner.masker.hides_nothing)
        return [
            LoadError(source, cleaner.text(problem.path), cleaner.text(problem.message), problem.line)
            for source, problem in self._catalog.reports(caller, hidden=for_person)
            if not (hides_servers and source.startswith(OF_SERVERS))
            if problem.level == "error" or problem.code in codes
        ]

    def _for_events(self, session: Session, query: str) -> str:
        dependencies = self.dependencies
        return dependencies.gate.without_denied_names(session, query, dependencies.indexer.current())


def _with_few_of_servers(skills: Sequence[Skill], count: int) -> list[Skill]:
    """Return the first ``count`` skills, of which servers get a small share: they displace few of the person's own."""
    left = max(count // _SHARE_OF_SERVERS, 1)
    chosen: list[Skill] = []
    for skill in skills:
        if skill.is_of_server:
            if not left:
                continue
            left -= 1
        chosen.append(skill)
    return chosen[:count]


def _by_name(skill: Skill) -> tuple[str, str]:
    # With the id the key is unique, as page_of requires.
    return skill.name, skill.id
