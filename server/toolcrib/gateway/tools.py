"""The use cases: list tools, search tools, call a tool. Each takes a session and answers with plain values."""

import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

import anyio
import anyio.to_thread
from mcp_types import URL_ELICITATION_REQUIRED

from toolcrib.auth.logins import Logins
from toolcrib.base.errors import (
    BadRequest,
    DownstreamError,
    LoginFailed,
    LoginNeeded,
    StartFailed,
    ToolcribError,
    Unavailable,
    UnknownTool,
)
from toolcrib.base.handles import new_handle
from toolcrib.base.json_decoding import is_finite
from toolcrib.base.json_values import as_object
from toolcrib.base.model import JsonObject, SearchType, Tool
from toolcrib.base.names import may_belong_to
from toolcrib.base.text import escaped
from toolcrib.base.uris import published_tool_result
from toolcrib.catalog.arguments import (
    ArgumentChecks,
    Misfit,
    Read,
    call_digest,
    misfit_text,
    shape_text,
    unwrap_arguments,
)
from toolcrib.catalog.definitions import ORIGINAL_META, completed, fixed_arguments
from toolcrib.catalog.gate import Gate, ServerPurposes
from toolcrib.catalog.index import Card
from toolcrib.catalog.indexing import CatalogChange
from toolcrib.catalog.learning import Learning
from toolcrib.catalog.learnt_shapes import LearntShapes
from toolcrib.catalog.outputs import TEXT, Output, output_of
from toolcrib.catalog.snapshot import Catalog
from toolcrib.catalog.tool_search import Detail, FoundTool, SearchAnswer, SearchRequest, refuse_blank
from toolcrib.catalog.views import CatalogView
from toolcrib.config.settings import ServerSettings, Settings
from toolcrib.downstream.calls import BecameTask, asks_for_input
from toolcrib.downstream.connection import Outdated
from toolcrib.downstream.fleet import Fleet
from toolcrib.downstream.lifecycle import Downstream
from toolcrib.downstream.relays import Call
from toolcrib.downstream.states import DOWN, State
from toolcrib.events.kinds import (
    DefinitionChanged,
    NotRunReason,
    ToolActivated,
    ToolActivationDenied,
    ToolCall,
    ToolCallNotRun,
    ToolSearchQuery,
)
from toolcrib.events.log import EventLog, elapsed_ms
from toolcrib.gateway.missing_servers import MissingServers
from toolcrib.gateway.offline import Offline
from toolcrib.gateway.results import LongResults, failure
from toolcrib.policy.confirmations import Confirmations, InputRequired, Subject
from toolcrib.policy.questions import shown_arguments, shown_text
from toolcrib.policy.requests import Request, refuse_beyond
from toolcrib.policy.rules import ConfirmRules, effects_of
from toolcrib.policy.sessions import PastSearch, Session
from toolcrib.policy.state import Approval
from toolcrib.search.documents import Found

if TYPE_CHECKING:
    from toolcrib.catalog.instructions import Introduction
    from toolcrib.gateway.tasks import CallerTask, CallerTasks  # few calls become tasks

_REDEFINED_MAX = 100
"""Maximum number of reported changes per list: a server may change thousands, repeatedly."""


def report_definitions(events: EventLog, change: CatalogChange) -> None:
    """Emit events about tools that their server has changed."""
    for each in change.rows.redefined[:_REDEFINED_MAX] if change.rows else ():
        events.emit(
            DefinitionChanged(
                server=str(change.server),
                tool_name=each.public_name,
                change="added" if each.before is None else "removed" if each.after is None else "changed",
                keys=each.keys,
                fingerprint_before=each.before,
                fingerprint_after=each.after,
            )
        )


class ToolReports:
    """Emits events about sessions' use of tools, and passes them on to learning.

    ``began`` is on the clock of :func:`time.perf_counter` everywhere.
    """

    def __init__(self, events: EventLog, gate: Gate, learning: Learning) -> None:
        self._events, self._gate, self._learning = events, gate, learning

    def searched(self, session: Session, answer: SearchAnswer, catalog: Catalog, began: float) -> None:
        """Emit the event of an answered search (R151)."""
        names = [hit.tool.public_name for hit in answer.hits]
        told = self._gate.without_denied_names(session, answer.query, catalog)
        self._learning.record_search(session, answer, told)
        self._events.emit(
            ToolSearchQuery(
                query=told,
                requested_search_type=answer.effective.value,
                effective_search_type=answer.effective.value,
                results_count=len(names),
                search=session.history.searched(names),
                confidence=answer.confidence,
                hits=names,
            ),
            session=session.label,
            duration_ms=elapsed_ms(began),
        )

    def refused(self, session: Session, name: str, catalog: Catalog) -> None:
        """Emit the event of a denied or unknown name, with the reason (R153)."""
        reason = self._gate.why_refused(session, name, catalog)
        self._events.emit(ToolActivationDenied(tool_name=name, reason=reason), session=session.label)

    def activated(self, session: Session, tool: Tool, source: str) -> None:
        """Emit the event of a tool's first use by a session (R152)."""
        activated = ToolActivated(
            tool_name=tool.public_name, activation_scope=self._gate.scope, source=source, reason="first_use"
        )
        self._events.emit(activated, session=session.label)

    def not_run(self, session: Session, name: str, reason: NotRunReason) -> None:
        """Emit the event of a call that ended before anything ran."""
        session.history.called(ok=False)
        origin = session.history.origin(name)
        not_run = ToolCallNotRun(tool_name=name, reason=reason, search=origin.search, rank=origin.rank)
        self._events.emit(not_run, session=session.label)

    def ran(
        self, session: Session, name: str, *, ok: bool, size: int, asked: tuple[PastSearch, ...], duration_ms: float
    ) -> None:
        """Emit the event of a call that was sent, and learn from it."""
        session.history.called(ok=ok)
        if ok and asked:
            self._learning.record_call(session, name, asked)
        origin = session.history.origin(name)
        called = ToolCall(tool_name=name, ok=ok, bytes=size, search=origin.search, rank=origin.rank)
        self._events.emit(called, session=session.label, duration_ms=duration_ms)


class CallReport:
    """One call of a tool; reports its end as a context manager: that it ran, or why nothing did.

    ``ok`` and ``size``, of its result, are set by the block; ``began`` is on the clock of :func:`time.perf_counter`.
    """

    # A class rather than a generator, because every call passes here.

    __slots__ = ("_asked", "_is_sent", "_reports", "_session", "began", "name", "ok", "size")

    def __init__(self, reports: ToolReports, session: Session, name: str) -> None:
        self._reports, self._session, self.name = reports, session, name
        self._is_sent, self.ok, self.size, self.began = False, False, 0, 0.0
        self._asked: tuple[PastSearch, ...] = ()

    def __enter__(self) -> Self:
        return self

    def note_sent(self) -> None:
        """Record that the call is sent now."""
        # It says nothing about a search that is made while it runs.
        self._is_sent, self._asked = True, self._session.history.asked

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, Outdated | InputRequired):
            return  # it is decided about again
        if self._is_sent:
            self._reports.ran(
                self._session,
                self.name,
                ok=self.ok,
                size=self.size,
                asked=self._asked,
                duration_ms=elapsed_ms(self.began),
            )
        elif isinstance(error, BadRequest):
            self._reports.not_run(self._session, self.name, "arguments")
        elif isinstance(error, Unavailable):
            self._reports.not_run(self._session, self.name, "unavailable")


_SUBJECTS_ROOM = 240
"""Maximum length of the list of servers if nothing likely was found."""


class SearchNotes:
    """Creates the note of an answer."""

    def __init__(self, settings: Settings, gate: Gate, fleet: Fleet, missing: MissingServers) -> None:
        self._gate, self._fleet, self._missing = gate, fleet, missing
        self._subjects = ServerPurposes(settings.servers, gate)

    def note(self, session: Session, answer: SearchAnswer, server: str | None, catalog: Catalog) -> str | None:
        """Return why little or nothing was found: the search's reason, what could not be searched, what exists."""
        there = self._there(session, answer, catalog) if server is None else ""
        more = self._more(session, answer, server, catalog) if catalog.incomplete else ""
        # The usual case: every server is listed and works, so everything was searched.
        if server is None and self._fleet.is_quiet and not self._missing.leaves_out:
            return " ".join(filter(None, (answer.note, there, more))) or None
        clean = partial(self._gate.without_denied_names, session, catalog=catalog)
        about = self._gate.permissions(session), self._fleet.snapshot(), clean
        if server is not None:
            servers = self._missing.note_of(server, *about)
            if servers and not answer.hits:
                return servers  # not that it has no such tool, which is unknown
        else:
            found = {hit.tool.server for hit in answer.hits}
            nothing_known = not self._gate.permitted(session, catalog).tools
            servers = self._missing.note(answer.query, found, *about, any_of_them=nothing_known)
        return " ".join(filter(None, (answer.note, servers or there, more))) or None

    def _more(self, session: Session, answer: SearchAnswer, server: str | None, catalog: Catalog) -> str:
        """Return which servers that were searched may have more tools than are known."""
        found = {hit.tool.server for hit in answer.hits}
        meant = found | ({server} if server is not None else self._missing.meant(answer.query))
        return self._missing.incomplete(meant, found, self._gate.permissions(session), catalog.incomplete)

    def _there(self, session: Session, answer: SearchAnswer, catalog: Catalog) -> str:
        """Return which servers have tools for the caller, by subject, if no text match was likely."""
        if answer.confidence != "none" or answer.effective is not SearchType.FTS:
            return ""
        having = {tool.server for tool in self._gate.permitted(session, catalog).tools}
        servers = [key for key in self._gate.servers(session) if key in having]
        subjects = self._subjects.describe(servers, session, catalog, _SUBJECTS_ROOM)
        return f"There are tools of: {subjects}." if servers else ""


_DESCRIPTION_MAX = 400


class CallConfirmations:
    """Obtains confirmation of calls under ``policy.confirm``; ``view_of`` returns a session's view of the catalog."""

    def __init__(
        self, settings: Settings, confirmations: Confirmations, view_of: Callable[[Session], CatalogView]
    ) -> None:
        section = settings.toolcrib.policy.confirm
        self._rules, self._confirmations = ConfirmRules(section), confirmations
        self._asks_nobody = not section.tools and not section.effects
        self._clean, self._view_of = settings.redactor.clean, view_of

    async def require(self, request: Request, tool: Tool, arguments: JsonObject) -> None:
        """Return if the tool may be called with these arguments.

        Raises:
            NotConfirmed: a person has to confirm first, and has not.
            InputRequired: they can be asked, but not while this request is under way.

        """
        if self._asks_nobody:
            return
        # By the name first: only rules about effects need the definition, which is on disk.
        is_named = self._rules.names(tool)
        if not is_named and not self._rules.may_concern_effects(tool):
            return
        session = request.session
        read = await anyio.to_thread.run_sync(self._view_of(session).described, [tool.row])
        definition = read[tool.row][0] if tool.row in read else {}
        if not is_named and not self._rules.concern_effects(tool, as_object(definition.get("annotations"))):
            return
        subject = Subject(
            _approval(session, tool),
            "It did not run.",
            partial(anyio.to_thread.run_sync, partial(self._question, tool, definition, arguments)),
        )
        await self._confirmations.require(request, subject)

    async def question(self, session: Session, tool: Tool, arguments: JsonObject) -> str:
        """Return the question whether a tool may run."""
        read = await anyio.to_thread.run_sync(self._view_of(session).described, [tool.row])
        definition = read[tool.row][0] if tool.row in read else {}
        return await anyio.to_thread.run_sync(partial(self._question, tool, definition, arguments))

    async def allow(self, session: Session, tool: Tool) -> None:
        """Store that a person has allowed the caller's calls of a tool, as it is defined now.

        Raises:
            StoreError: it cannot be stored.

        """
        await anyio.to_thread.run_sync(self._confirmations.allow, _approval(session, tool))

    def _question(self, tool: Tool, definition: JsonObject, arguments: JsonObject) -> str:
        """Return the question to the person, one fact per line, so that no text of a server can imitate another one."""
        effects = sorted(effects_of(tool.side_effects, as_object(definition.get("annotations"))))
        return "\n".join(
            (
                f"May the tool {escaped(tool.public_name)} run?",
                f"Server: {escaped(tool.server)}",
                f"It says of itself: {shown_text(str(definition.get('description') or ''), _DESCRIPTION_MAX)}",
                f"It may: {', '.join(map(_worded, effects)) or 'read only'}",
                f"Arguments: {shown_arguments(arguments, self._clean)}",
            )
        )


def _approval(session: Session, tool: Tool) -> Approval:
    return Approval(session.caller.principal, "tool", tool.public_name, tool.fingerprint)


def _worded(effect: str) -> str:
    return {"destructive": "destroy", "external": "reach the outside", "write": "write"}[effect]


_ELICIT, _COMPLETE = "elicitation/create", "notifications/elicitation/complete"
_OWNER = "local"
"""The principal of the person at this machine, who owns these logins, and receives the login's redirect."""

_log = logging.getLogger(__name__)

Show = Callable[[str, str], Awaitable[None]]


class LoginRequests:
    """Requests logins to the servers of a config, and lists servers after a login."""

    def __init__(self, settings: Settings, fleet: Fleet) -> None:
        self._settings, self._fleet = settings, fleet
        self._turns: dict[str, anyio.Lock] = {}
        self._asked_before = Counter[str]()
        self._has_logged_in: dict[str, bool] = {}

    async def log_in(self, request: Request, key: str) -> bool:
        """Return whether somebody has logged in to a server that requires it.

        A caller that waits for another call's request gets its result, and requests nothing.

        Raises:
            InputRequired: the person can be asked, but not while this request is under way.

        """
        server, logins = self._settings.servers.get(key), self._fleet.logins
        if server is None or logins is None or not _can_be_asked(request):
            return False
        if not request.can_ask_now:
            raise InputRequired
        asked_before = self._asked_before[key]
        async with self._turns.setdefault(key, anyio.Lock()):
            if not await logins.has_changed(server):
                if self._asked_before[key] == asked_before:
                    self._has_logged_in[key] = await self._has_said_yes(logins, server, request)
                    self._asked_before[key] += 1  # not if the call was abandoned meanwhile
                if not self._has_logged_in[key]:
                    return False
        with suppress(StartFailed):  # reported when the call is tried again
            # The connection of this caller: the first that uses the new login takes it for known by all.
            await self._fleet.resolve(key, request.session).connection(wanted=False)
        return True

    async def _has_said_yes(self, logins: Logins, server: ServerSettings, request: Request) -> bool:
        try:
            await self._ask(logins, server, request)
        except ToolcribError as error:
            _log.warning("nobody logged in to %s: %s", server.key, error)
            return False
        return True

    async def _ask(self, logins: Logins, server: ServerSettings, request: Request) -> None:
        """Request a login, and wait for the result, as long as a person may take to answer."""
        elicitation = new_handle()

        async def show(address: str, _redirect_uri: str) -> None:
            question: JsonObject = {
                "mode": "url",
                "message": f"The server {server.key} requires you to log in, in the browser on this computer.",
                "url": address,
                "elicitationId": elicitation,
            }
            if (await _answer(request, question)).get("action") != "accept":
                raise LoginFailed("their client was asked, and the answer is no")

        with anyio.move_on_after(self._settings.toolcrib.limits.answer_timeout_s) as waiting:
            await logins.log_in(server, show)
        if waiting.cancelled_caught:
            raise LoginFailed("nobody answered in time")
        if request.lasting:
            await request.notify(_COMPLETE, {"elicitationId": elicitation})


async def _answer(request: Request, question: JsonObject) -> JsonObject:
    from mcp import MCPError  # noqa: PLC0415 - who only says that nobody can be asked does not wait for the SDK

    try:
        return await request.ask(_ELICIT, question)
    except MCPError as error:
        raise LoginFailed(f"their client could not be asked: {error.message}") from None


def _can_be_asked(request: Request) -> bool:
    """Return whether the caller is the person at this machine, and its client can open URLs."""
    from mcp import MCPError  # noqa: PLC0415 - as above

    if request.session.caller.principal != _OWNER:
        return False
    try:
        refuse_beyond(request.session.capabilities, _ELICIT, {"mode": "url"})
    except MCPError:
        return False
    return True


_NOT_UP = (State.STARTING, *DOWN)
"""States of a server that matter to a caller; sleeping is normal."""
_UNKNOWN_TASK = (
    "There is no such task: it is not one of this session, it has expired, or toolcrib was restarted since, with which "
    "tasks are lost. What its tool did is not known here: check before you call it again."
)
_DECISIONS_MAX = 3
_FORWARDED = ("_meta", "inputResponses", "requestState")
"""The members of a call that its server gets, besides name and arguments."""


_Decide = Callable[[Request, str, Any], Awaitable[tuple[Tool, JsonObject]]]
"""Returns the tool that a call by name and arguments means, and the arguments for it; raises if it must not run."""

Allow = Callable[[Tool, JsonObject], Awaitable[None]]
"""Returns if a tool may be called with these arguments, which are those that are sent; raises if it must not."""


class ToolUseCases:
    """The use cases of one config.

    Until ``first_index_deadline``, on anyio's clock, answers wait for servers that are listed for the first time.
    ``caller_tasks`` returns the tasks of callers, which few calls become.
    """

    def __init__(
        self,
        offline: Offline,
        fleet: Fleet,
        long_results: LongResults,
        shapes: LearntShapes,
        first_index_deadline: float,
        caller_tasks: Callable[[], Awaitable["CallerTasks"]],
    ) -> None:
        self.settings, self.finder, self.gate, self.indexer = (
            offline.settings,
            offline.finder,
            offline.gate,
            offline.indexer,
        )
        self.fleet, self.long_results, self._first_index_deadline = fleet, long_results, first_index_deadline
        self._shapes = shapes
        self.caller_tasks = caller_tasks
        section = self.settings.toolcrib
        self._checks = ArgumentChecks(offline.index, offline.checker)
        self._confirmations = CallConfirmations(
            self.settings,
            offline.confirmations,
            lambda session: self.finder.view(session, self.indexer.current()),
        )
        self._index = offline.index
        self._missing = MissingServers(self.settings)
        self._login_requests = LoginRequests(self.settings, fleet)
        self._notes = SearchNotes(self.settings, self.gate, fleet, self._missing)
        self._reports = ToolReports(offline.events, self.gate, offline.learning)
        self._limits = section.limits
        self._reads_resources = section.gate.expose.resources != "off"

    # -- list ------------------------------------------------------------------------------------

    async def list_tools(self, session: Session) -> list[JsonObject]:
        """Return the definitions of the downstream tools that the session's ``tools/list`` shows."""
        if session.pass_through or self._may_list_unindexed():
            await self._first_listing(session)
        catalog = self.indexer.current()
        self.gate.decide_pass_through(session, catalog)
        tools = self.gate.listed(session, catalog)
        if not tools:
            return []
        section = self.settings.toolcrib.tool_examples
        view = self.finder.view(session, catalog)
        owners = self.gate.owners(session, catalog)
        listed = await anyio.to_thread.run_sync(view.listed, tools, section, owners)
        if session.shows_output_schemas:
            return listed
        return [{key: value for key, value in each.items() if key != "outputSchema"} for each in listed]

    async def original(self, tool: Tool) -> JsonObject | None:
        """Return what a server says itself of a tool that the config words anew: name, description and input schema."""
        versions = {tool.row: tool.fingerprint}
        found = await anyio.to_thread.run_sync(self._index.definitions, [tool.row], versions)
        return as_object(found.get(tool.row, {}).get("_meta")).get(ORIGINAL_META)

    def listed_schema(self, session: Session, name: str) -> JsonObject | None:
        """Return the input schema of a tool that the session's ``tools/list`` shows; None for any other name."""
        catalog = self.indexer.current()
        tool = catalog.get(name)
        return self._checks.schema(tool) if tool and tool in self.gate.listed(session, catalog) else None

    def _may_list_unindexed(self) -> bool:
        """Whether tools of a server that is being listed for the first time could belong in the list."""
        section = self.settings.toolcrib
        return bool(self.fleet.awaited) and (
            self.gate.lists_everything
            or section.gate.pass_through_below > 0
            or bool(section.tool_search.always_loaded_patterns)
            or section.tool_search.default_loading_mode.value == "always"
            or any(
                server.options.always_loaded_tools
                or server.options.deferred_tools is not None
                or server.options.default_loading_mode == "always"
                for server in self.settings.servers.values()
            )
        )

    async def _first_listing(self, session: Session, servers: Collection[str] | None = None) -> None:
        """Wait for servers that are listed for the first time, until the deadline that began with the process.

        Without ``servers`` for all of them, except those that did not answer at an earlier start; never for one of
        which the session's caller could be permitted nothing.
        """
        fleet, permissions = self.fleet, self.gate.permissions(session)
        wanted = [key for key in (fleet.awaited if servers is None else servers) if permissions.permits_some_of(key)]
        with anyio.move_on_after(self._first_index_deadline - anyio.current_time()):
            await fleet.first_listing(wanted)

    @property
    def is_ready(self) -> bool:
        """Whether answers no longer wait for servers that are being listed for the first time."""
        return not self.fleet.awaited or anyio.current_time() >= self._first_index_deadline

    async def survey(
        self, session: Session
    ) -> tuple[list[tuple[Tool, JsonObject, Card]], Callable[[SearchRequest], Found[Tool]]]:
        """Return everything the session's caller may use, and a search over it that records no event."""
        await self._first_listing(session)
        catalog = self.indexer.current()
        permitted = self.gate.permitted(session, catalog)
        described = await anyio.to_thread.run_sync(self.finder.view(session, catalog).described, permitted.rows)
        search = partial(self.finder.searcher.search, catalog=catalog, permitted=permitted)
        return [(tool, *described[tool.row]) for tool in permitted.tools if tool.row in described], search

    # -- search ----------------------------------------------------------------------------------

    async def search_tools(self, session: Session, request: SearchRequest, detail: Detail) -> SearchAnswer:
        """Find tools that the session's caller may use.

        Raises:
            BadRequest: a blank query, or a regex that cannot be used.

        """
        began = time.perf_counter()
        refuse_blank(request)
        # Before the catalog is taken, which the wait may add to.
        await self._likely_servers(session, request)
        catalog = self.indexer.current()
        found = await self.finder.find(session, request, catalog, detail, self._notable_status)
        knows_shapes = bool(self._shapes.known or session.shapes)
        answer = replace(
            found,
            hits=tuple(self._with_shape(session, hit, catalog) for hit in found.hits) if knows_shapes else found.hits,
            note=self._notes.note(session, found, request.server, catalog),
            introductions=await self._introduced(session, [hit.tool.server for hit in found.hits], catalog),
        )
        self._reports.searched(session, answer, catalog, began)
        return answer

    def _with_shape(self, session: Session, hit: FoundTool, catalog: Catalog) -> FoundTool:
        """Return a hit that says what texts of the tool hold, as far as this was known when the session began."""
        tool = hit.tool
        whose = self.fleet.identity(tool.server, session) if hit.shown.returns == TEXT.shown else None
        if whose is None:
            return hit
        key = tool.server, tool.name, tool.fingerprint, whose
        versions = self._shapes.known.get(key, ())
        if session.lasting:  # what it was told of a tool stays the same
            began = session.history.began
            known = next((each for each in reversed(versions) if each.since < began), None)
            shown = session.shapes.get(key, lambda: known.shown if known else TEXT.shown)
        else:
            shown = versions[-1].shown if versions else TEXT.shown
        if shown == TEXT.shown:
            return hit
        # Names of members may be those of tools.
        return replace(hit, shown=replace(hit.shown, returns=self.gate.without_denied_names(session, shown, catalog)))

    async def _likely_servers(self, session: Session, request: SearchRequest) -> None:
        """List the servers that a query seems to mean before others, and wait for those never listed."""
        if request.server is not None:
            await self._named_server(session, request.server)
        elif self.fleet.listing_first:
            permissions = self.gate.permissions(session)
            self.fleet.prefer([key for key in self._missing.meant(request.query) if permissions.permits_some_of(key)])
            await self._first_listing(session)

    async def _named_server(self, session: Session, key: str) -> None:
        """Wait for one server that was never listed; start it again if it has failed."""
        # A server of which nothing can be permitted is neither started nor waited for: both would tell that it exists.
        if key in self.fleet and self.gate.permissions(session).permits_some_of(key):
            self.fleet.prefer([key])
            await self._first_listing(session, [key])
            await self.fleet.try_again(key)

    async def _introduced(
        self, session: Session, servers: Sequence[str], catalog: Catalog
    ) -> "tuple[Introduction, ...]":
        """Return what servers say of themselves that the session was not shown yet; nothing without a session."""
        new = {*servers}.intersection(catalog.instructions).difference(session.introduced)
        if not session.lasting or not new:
            return ()
        masker = self.gate.masker(session, catalog)

        def read() -> "tuple[Introduction, ...]":
            from toolcrib.catalog.instructions import read  # noqa: PLC0415 - most servers have none

            return read((server for server in servers if server in new), masker)

        introductions = await anyio.to_thread.run_sync(read)
        return tuple(each for each in introductions if session.introduce(each.server, each.tokens))

    def _notable_status(self, tool: Tool) -> str | None:
        """Return a server's state if it matters to a caller; sleeping is normal."""
        state = self.fleet.status(tool.server).state
        return state.value if state in _NOT_UP else None

    # -- call ------------------------------------------------------------------------------------

    async def call_listed(self, request: Request, name: str, arguments: JsonObject) -> JsonObject:
        """Answer a direct ``tools/call`` of a downstream tool, listed or not; the downstream validates the arguments.

        Raises:
            UnknownTool: denied, hidden from this caller or nonexistent: indistinguishable.
            DownstreamError: the downstream's own JSON-RPC error.

        """
        try:
            return await self._run(request, name, arguments, self._decide_listed, source="direct")
        except Unavailable as error:
            return failure(str(error))

    async def call_any(self, request: Request, name: str, arguments: object, *, read_only: bool = False) -> JsonObject:
        """Answer ``tool_call`` as :meth:`call` does, with errors that a model can act on in the result."""
        try:
            result = await self.call(request, name, arguments, read_only=read_only)
            return await self._with_introduction(request.session, name, result)
        except DownstreamError as error:
            if error.code == URL_ELICITATION_REQUIRED:  # for the client, which has to open the URL in the error
                raise
            return failure(f"The server of {name} refused the call: {error} (code {error.code})")
        except ToolcribError as error:
            return failure(str(error))

    async def call(
        self, request: Request, name: str, arguments: object, *, read_only: bool = False, allow: Allow | None = None
    ) -> JsonObject:
        """Call any permitted tool, in any spelling, with arguments validated first; return its result.

        ``allow`` is called with the tool and the arguments that are sent, before anything runs; what it raises ends the
        call.

        Raises:
            UnknownTool: denied, hidden from this caller or nonexistent: indistinguishable.
            BadRequest: invalid arguments.
            NotConfirmed: a person has to confirm first, and has not.
            Unavailable: its server gave no answer.
            DownstreamError: the downstream's own JSON-RPC error.

        """
        decide = partial(self._decide_any, read_only=read_only)
        try:
            return await self._run(request, name, arguments, decide, source="tool_call", allow=allow)
        except UnknownTool as error:
            near = await self.finder.near_names(request.session, name, self.indexer.current())
            raise UnknownTool(error.name, near) from None

    async def named(
        self, session: Session, name: str, spelled: Callable[[Sequence[str]], Mapping[str, str]] | None = None
    ) -> Tool:
        """Return the permitted tool that a program names, in any spelling; ``spelled`` maps spellings to public names.

        Raises:
            UnknownTool: denied, hidden from this caller or nonexistent: indistinguishable.
            Unavailable: its server could not be listed.

        """
        if spelled is not None and self._find(session, name, forgiving=False) is None:
            permitted = self.gate.permitted(session, self.indexer.current()).tools
            name = spelled([tool.public_name for tool in permitted]).get(name, name)
        try:
            return await self._resolve(session, name, forgiving=True)
        except UnknownTool as error:
            near = await self.finder.near_names(session, name, self.indexer.current())
            raise UnknownTool(error.name, near) from None

    async def imports_of(self, session: Session, answer: SearchAnswer) -> Mapping[str, str]:
        """Return the names of found tools in imports of programs, by public name, where those differ."""
        odd = {hit.tool.public_name for hit in answer.hits if not hit.tool.public_name.isidentifier()}
        if not odd:
            return {}
        # All that the caller may use, since equal names get a number; others would tell that they exist.
        permitted = [tool.public_name for tool in self.gate.permitted(session, self.indexer.current()).tools]

        def named() -> Mapping[str, str]:
            from toolcrib.programs.source import import_names  # noqa: PLC0415 - most names need no other

            return {public: name for name, public in import_names(permitted).items() if public in odd}

        return await anyio.to_thread.run_sync(named)

    async def input_schema(self, session: Session, tool: Tool) -> JsonObject:
        """Return the schema of a tool's arguments, without allowed values that name tools denied to the caller."""
        return await self._reduced(session, tool) or self._checks.schema(tool)

    async def outputs(self, tools: Mapping[str, Tool]) -> dict[str, Output]:
        """Return what results of these tools are in a program, by the same names; those just changed are omitted."""
        versions = {tool.row: tool.fingerprint for tool in tools.values()}

        def read() -> dict[int, Output]:
            found = self._index.definitions(versions, versions)
            return {row: output_of(definition.get("outputSchema")) for row, definition in found.items()}

        known = await anyio.to_thread.run_sync(read) if tools else {}
        return {name: known[tool.row] for name, tool in tools.items() if tool.row in known}

    async def question(self, session: Session, tool: Tool, arguments: JsonObject) -> str:
        """Return the question to a person whether a tool may run, with its arguments."""
        return await self._confirmations.question(session, tool, arguments)

    async def allow(self, session: Session, name: str) -> None:
        """Allow the caller's calls of a tool, in any spelling, without asking until it changes: a person said yes.

        Raises:
            UnknownTool: denied, hidden from this caller or nonexistent: indistinguishable.
            StoreError: it cannot be stored.

        """
        await self._confirmations.allow(session, await self._resolve(session, name, forgiving=True))

    async def _with_introduction(self, session: Session, name: str, result: JsonObject) -> JsonObject:
        """Return a result with what the tool's server says of itself behind it, if the session was not shown that.

        Not beside structured content, which many hosts show alone: it is shown with another result or hit then.
        """
        catalog, content = self.indexer.current(), result.get("content")
        if not catalog.instructions or "structuredContent" in result or not isinstance(content, list):
            return result
        tool = self._find(session, name, forgiving=True)
        said = await self._introduced(session, [tool.server], catalog) if tool else ()
        blocks = [{"type": "text", "text": each.as_line} for each in said]
        return {**result, "content": [*cast("list[Any]", content), *blocks]} if blocks else result

    async def _run(
        self,
        request: Request,
        name: str,
        arguments: object,
        decide: _Decide,
        *,
        source: str,
        allow: Allow | None = None,
    ) -> JsonObject:
        """Decide about a call and run it; if its server changed the tool meanwhile, decide again.

        If it requires a login, the calling person may log in, and the call continues.
        """
        for _ in range(_DECISIONS_MAX):
            try:
                return await self._run_once(request, name, arguments, decide, source=source, allow=allow)
            except LoginNeeded as error:
                if not await self._login_requests.log_in(request, error.server):
                    raise
            except Outdated:
                continue
            with suppress(Outdated):
                return await self._run_once(request, name, arguments, decide, source=source, allow=allow)
        raise Unavailable("", f"The tool {name} keeps being changed by its server. Nothing ran; try later.")

    async def _run_once(
        self, request: Request, name: str, arguments: object, decide: _Decide, *, source: str, allow: Allow | None
    ) -> JsonObject:
        """Run the tool once, on a live connection whose own list has exactly it; a person may have to confirm first.

        Raises:
            NotConfirmed, InputRequired: a person has to confirm first; nothing ran.
            Outdated: the list has another definition of it than the one that was decided about; nothing ran.

        """
        session = request.session
        with CallReport(self._reports, session, name) as report:
            tool, fitting = await decide(request, name, arguments)
            report.name = tool.public_name
            if overrides := self.settings.servers[tool.server].options.tools:
                fitting = completed(fitting, overrides.get(tool.name))
            if not is_finite(fitting):
                # They would be sent as null, which is another request.
                raise Unavailable("", f"The arguments of {name} hold NaN or a number too large for JSON. Nothing ran.")
            if allow is not None:
                await allow(tool, fitting)
            await self._confirmations.require(request, tool, fitting)
            report.began = time.perf_counter()  # after the confirmation: how long a person thinks says nothing
            downstream = self.fleet.resolve(tool.server, session)
            # Here too, so that a server that answers nothing is not started first.
            downstream.calls.circuit.check()
            params = {key: request.params[key] for key in _FORWARDED if key in request.params}
            params |= {"name": tool.name, "arguments": fitting}
            # Open before the server is started: it may ask its caller something while it starts.
            with downstream.open_call(
                request, "tools/call", params, target=tool.name, fingerprint=tool.fingerprint
            ) as call:
                live = await self._live(session, tool, downstream)
                if live.fingerprint != tool.fingerprint:
                    raise Outdated
                if await session.activations.add(tool.public_name):
                    self._reports.activated(session, tool, source)
                    if self.gate.grows_by(session, tool, self.indexer.current()):
                        await request.notify_tools_changed()
                if request.task_ttl_ms is not None:
                    (await self.caller_tasks()).require_room(session, self._limits)
                report.note_sent()
                raw = await downstream.calls.run(call)
                if isinstance(raw, BecameTask):
                    report.ok = True
                    return await self._as_task(request, tool, downstream, raw, call)
                report.ok = not raw.get("isError")
                result, report.size = await self._shown(request, tool, raw)
                if report.ok and self._shapes.has_room and not asks_for_input(raw):
                    self._learn_from(session, tool, fitting, raw)
                return result

    def _learn_from(self, session: Session, tool: Tool, arguments: JsonObject, result: JsonObject) -> None:
        whose = self.fleet.identity(tool.server, session)
        if whose is not None:  # else a reload has removed its server meanwhile
            self._shapes.note(tool, whose, arguments, result)

    async def _shown(self, request: Request, tool: Tool, raw: JsonObject) -> tuple[JsonObject, int]:
        """Return a server's result as its caller gets it, and its size."""
        if self._reads_resources:
            raw = published_tool_result(raw, tool.server)
        result, size = await self.long_results.bounded(request, tool, raw)
        # Clients insist on the list (schema, "CallToolResult"); a server of a tool that has nothing to say may not.
        if result.get("content") is None and not asks_for_input(result):
            result = {**result, "content": list[JsonObject]()}
        return result, size

    async def _as_task(
        self, request: Request, tool: Tool, downstream: Downstream, became: BecameTask, call: Call
    ) -> JsonObject:
        """Return the task that a call has become, for its caller to follow; with too many of them, its result."""
        tasks = await self.caller_tasks()
        if not tasks.has_room(request.session, self._limits):
            return (await self._shown(request, tool, await downstream.calls.finish(became.task, call)))[0]

        async def finish(task: Request) -> JsonObject:
            with downstream.open_call(task, "tools/call", target=tool.name) as own_call:
                raw = await downstream.calls.finish(became.task, own_call)
            return (await self._shown(task, tool, raw))[0]

        return tasks.adopt(request, tool.public_name, became.task, self._limits, finish)

    async def as_asked(self, request: Request, name: object, result: JsonObject) -> JsonObject:
        """Return the answer to a caller that asked for a task: a task, also where the call has ended already.

        ``name`` is that of the tool of a server that was called; of one of ours it is none.
        """
        if "content" not in result:
            return result
        tool = self._find(request.session, name, forgiving=True) if isinstance(name, str) else None
        tasks = await self.caller_tasks()
        if not tasks.has_room(request.session, self._limits):
            return result
        return tasks.completed(request, tool.public_name if tool else "", result, self._limits)

    async def task(self, session: Session, handle: object) -> "CallerTask":
        """Return a task of a session by its handle.

        Raises:
            BadRequest: there is none: of another session, expired, of a tool that is denied by now, or never there.

        """
        task = (await self.caller_tasks()).find(session, handle)
        # One answer for all of these, so that nobody learns which handles exist.
        if task is None or not await self._still_permits(session, task.tool):
            raise BadRequest(_UNKNOWN_TASK)
        return task

    async def tasks(self, session: Session) -> "list[CallerTask]":
        """Return the tasks of a session whose tools may still be called, the oldest first."""
        kept = (await self.caller_tasks()).of(session)
        return [task for task in kept if await self._still_permits(session, task.tool)]

    async def _still_permits(self, session: Session, name: str) -> bool:
        """Return whether the session's caller may call the tool with this public name; empty: it was one of ours."""
        if name and self._find(session, name, forgiving=False) is None:
            # After a reload its server may have to be listed again.
            await self._servers_of(session, name, forgiving=False)
        return not name or self._find(session, name, forgiving=False) is not None

    async def _decide_listed(self, request: Request, name: str, arguments: object) -> tuple[Tool, JsonObject]:
        tool, given = await self._resolve(request.session, name, forgiving=False), as_object(arguments)
        return tool, await self._without_denied_values(request.session, tool, given)

    async def _decide_any(
        self, request: Request, name: str, arguments: object, *, read_only: bool
    ) -> tuple[Tool, JsonObject]:
        tool = await self._resolve(request.session, name, forgiving=True)
        if read_only and not tool.read_only:
            self._reports.not_run(request.session, tool.public_name, "not_read_only")
            raise ToolcribError(
                f"{tool.public_name} is not declared read-only by its server: call it with toolcrib's tool_call."
            )
        return await self._fitting(request, tool, arguments)

    async def _resolve(self, session: Session, name: str, *, forgiving: bool) -> Tool:
        """Return the permitted tool that ``name`` means; wait for a server that is being listed for the first time."""
        tool = self._find(session, name, forgiving=forgiving)
        if tool is None:
            await self._servers_of(session, name, forgiving=forgiving)
            tool = self._find(session, name, forgiving=forgiving)
        if tool is None:
            if refusal := self._unavailable(session, name, forgiving=forgiving):
                raise refusal
            self._reports.refused(session, name, self.indexer.current())
            raise UnknownTool(name)
        return tool

    def _unavailable(self, session: Session, name: str, *, forgiving: bool) -> Unavailable | None:
        """Return why a tool that is not found cannot be called, if its server failed before it was ever listed.

        ``forgiving``: also if it is still being listed; for a direct call, the tool is unknown until then.
        """
        clean = partial(self.gate.without_denied_names, session, catalog=self.indexer.current())
        now = self.fleet.snapshot()
        seen = now if forgiving else replace(now, arriving={})
        return self._missing.refusal(name, self.gate.permissions(session), seen, clean)

    async def _servers_of(self, session: Session, name: str, *, forgiving: bool) -> None:
        """Wait for the servers that an unknown name may belong to, if they were never listed.

        A server of which the caller could be permitted nothing is ignored: a name with it is treated like any other.
        """
        permits = self.gate.permissions(session).permits_some_of
        named = [key for key in self.settings.servers if may_belong_to(name, key) and permits(key)]
        for key in named:
            await self._named_server(session, key)
        if forgiving and not named:
            await self._first_listing(session)

    def _find(self, session: Session, name: str, *, forgiving: bool) -> Tool | None:
        catalog = self.indexer.current()
        permitted = self.gate.permitted(session, catalog)
        if forgiving:
            return catalog.find(name, permitted)
        tool, rows = catalog.get(name), permitted.rows  # computed in any case: timing must reveal nothing
        return tool if tool is not None and tool.row in rows else None

    async def _live(self, session: Session, tool: Tool, downstream: Downstream) -> Tool:
        """Return the tool as in the live list of its server (R1); start the server and list again if needed."""
        await downstream.connection()
        if downstream.live.get(tool.name) == tool.fingerprint:
            return tool
        tool = await self._resolve(session, tool.public_name, forgiving=False)
        if downstream.live.get(tool.name) != tool.fingerprint and not self._is_for_others(tool, downstream):
            await self.fleet.list_now(tool.server, downstream)
            tool = await self._resolve(session, tool.public_name, forgiving=False)
        if downstream.live.get(tool.name) == tool.fingerprint:
            return tool
        if self._is_for_others(tool, downstream):
            raise self._not_for_this_client(session, tool, downstream)
        raise UnknownTool(tool.public_name)

    def _is_for_others(self, tool: Tool, downstream: Downstream) -> bool:
        return tool.name not in downstream.live and self.fleet.is_conditional(tool.server, tool.name)

    def _not_for_this_client(self, session: Session, tool: Tool, downstream: Downstream) -> Unavailable:
        """Return why a tool cannot be called that its server offers other clients only (ADR 65)."""
        declared = ", ".join(sorted(downstream.scope.declared)) or "nothing"
        withheld = ", ".join(self.fleet.withheld(tool.server, session))
        why = f" Your client also has {withheld}, which needs isolation: session." if withheld else ""
        return Unavailable(
            tool.server,
            f"The server {tool.server!r} offers {tool.public_name} only to clients that it can ask for more than "
            f"yours here (it may ask for: {declared}).{why} Nothing ran.",
        )

    async def _fitting(self, request: Request, tool: Tool, given: object) -> tuple[Tool, JsonObject]:
        """Return the tool, and its arguments: unwrapped, and read as its schema asks for them.

        The schema of a sleeping server may be out of date: if they do not fit it is started and asked again. A schema
        may also ask for more than its server: what a session insists on passes as it is (ADR 87).

        Raises:
            BadRequest: they do not fit; the text names each error and shows the schema.

        """
        session, checks = request.session, self._checks
        arguments = unwrap_arguments(given, checks.schema(tool))
        if arguments is None:
            shape = await self._shape(session, tool)
            raise BadRequest(f"'arguments' must be a JSON object that fits {tool.public_name}.\n{shape}")
        reduced = await self._reduced(session, tool)
        read = await checks.read(tool, arguments, reduced)
        if read.misfits and (downstream := self.fleet.resolve(tool.server, session)).status.state is not State.READY:
            with downstream.open_call(request):
                await downstream.connection()
            tool = await self._resolve(session, tool.public_name, forgiving=False)
            reduced = await self._reduced(session, tool)
            read = await checks.read(tool, arguments, reduced)
        if reduced is not None:
            await self._refuse_misfit(session, tool, read)
        elif read.misfits:
            await self._refuse_once(session, tool, arguments, read.misfits)
            return tool, arguments
        return tool, read.arguments

    async def _refuse_once(
        self, session: Session, tool: Tool, arguments: JsonObject, misfits: Sequence[Misfit]
    ) -> None:
        """Let pass arguments that do not fit if the session insists on them: the same call was refused before.

        Raises:
            BadRequest: it was not, or nobody can insist.

        """
        if session.refused is None or self._fixes_some(tool, arguments):
            raise BadRequest(misfit_text(tool, misfits, await self._shape(session, tool)))
        call = await anyio.to_thread.run_sync(call_digest, tool, arguments)
        if call not in session.refused:
            text = misfit_text(tool, misfits, await self._shape(session, tool), may_insist=True)
            session.refused[call] = None
            raise BadRequest(text)

    def _fixes_some(self, tool: Tool, arguments: JsonObject) -> bool:
        """Return whether the config fixes the value of one of these arguments."""
        overrides = self.settings.servers[tool.server].options.tools
        return not arguments.keys().isdisjoint(fixed_arguments(overrides.get(tool.name)))

    async def _reduced(self, session: Session, tool: Tool) -> JsonObject | None:
        """Return a tool's input schema as the caller reads it, if it names denied tools among the values it allows."""
        catalog = self.indexer.current()
        if self.gate.hides_nothing(session):
            return None
        view = self.finder.view(session, catalog)
        return None if view.hides_nothing else await anyio.to_thread.run_sync(view.reduced_schema, tool.row)

    async def _without_denied_values(self, session: Session, tool: Tool, arguments: JsonObject) -> JsonObject:
        """Return arguments of a direct call: as they are, unless the schema has values that name denied tools.

        Then as that schema asks for them: a server may read them in another way than we do, but not what was read.

        Raises:
            BadRequest: they do not fit without these values: to the caller it is none of the values.

        """
        reduced = await self._reduced(session, tool)
        if reduced is None:
            return arguments
        read = await self._checks.read(tool, arguments, reduced)
        await self._refuse_misfit(session, tool, read)
        return read.arguments

    async def _refuse_misfit(self, session: Session, tool: Tool, read: Read) -> None:
        """Let pass only what was checked and fits: a server may take other arguments for the name of a denied tool.

        Raises:
            BadRequest: something does not fit, or that could not be checked.

        """
        if read.misfits is None:
            raise BadRequest(
                f"The arguments of {tool.public_name} could not be checked, so it was not called: they are too large, "
                "or its schema is not a usable one."
            )
        if read.misfits:
            raise BadRequest(misfit_text(tool, read.misfits, await self._shape(session, tool)))

    async def _shape(self, session: Session, tool: Tool) -> str:
        """Return the schema of a tool's arguments and the shortest example, as the session's caller may read them."""
        view = self.finder.view(session, self.indexer.current())
        read = await anyio.to_thread.run_sync(view.described, [tool.row])
        return shape_text(*read[tool.row]) if tool.row in read else "Input schema: unknown, the tool is gone."
