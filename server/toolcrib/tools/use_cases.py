"""The use cases: list tools, search tools, call a tool. Each takes a session and answers with plain values.

Knows the order in which the other parts are applied; never knows JSON-RPC, HTTP or SQL.
"""

import time
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import anyio
import anyio.to_thread
from mcp_types import URL_ELICITATION_REQUIRED

from toolcrib.base.errors import BadRequest, DownstreamError, LoginNeeded, ToolcribError, Unavailable, UnknownTool
from toolcrib.base.json_values import as_object
from toolcrib.base.model import JsonObject, Tool
from toolcrib.base.names import may_belong_to
from toolcrib.base.uris import published_tool_result
from toolcrib.catalog.arguments import ArgumentChecks, misfit_text, shape_text, unwrap_arguments
from toolcrib.catalog.finding import Detail, ToolFinder, refuse_blank
from toolcrib.catalog.gate import Gate
from toolcrib.catalog.index import Card
from toolcrib.catalog.indexing import Indexer
from toolcrib.catalog.learning import Learning
from toolcrib.catalog.tool_search import SearchAnswer, SearchRequest
from toolcrib.config.settings import Settings
from toolcrib.downstream.calls import Exchange
from toolcrib.downstream.connection import Outdated
from toolcrib.downstream.fleet import Fleet
from toolcrib.downstream.lifecycle import Downstream
from toolcrib.downstream.states import DOWN, State, Status
from toolcrib.events.log import EventLog
from toolcrib.policy.sessions import Session
from toolcrib.search.documents import Found
from toolcrib.tools.asked_logins import AskedLogins
from toolcrib.tools.calling import ToolCall
from toolcrib.tools.confirmed_calls import ConfirmedCalls
from toolcrib.tools.long_results import LongResults
from toolcrib.tools.missing_servers import MissingServers
from toolcrib.tools.reports import ToolReports
from toolcrib.tools.results import failure
from toolcrib.tools.search_notes import SearchNotes

_NOT_UP = (State.STARTING, *DOWN)
"""States of a server that matter to a caller; sleeping is normal."""
_DECISIONS_MAX = 3


@dataclass(frozen=True, slots=True)
class ToolUseCaseParts:
    """The dependencies of the use cases, built by the composition root."""

    settings: Settings
    indexer: Indexer
    finder: ToolFinder
    fleet: Fleet
    gate: Gate
    checks: ArgumentChecks
    confirmed_calls: ConfirmedCalls
    long_results: LongResults
    events: EventLog
    learning: Learning
    first_index_deadline: float


class ToolUseCases:
    """The use cases of one set of dependencies."""

    def __init__(self, parts: ToolUseCaseParts) -> None:
        self._parts = parts
        self._checks = parts.checks
        self._missing = MissingServers(parts.settings)
        self._asked_logins = AskedLogins(parts.settings, parts.fleet)
        self._notes = SearchNotes(parts.settings, parts.gate, parts.fleet, self._missing)
        self._reports = ToolReports(parts.events, parts.gate, parts.learning)
        self.finder = parts.finder
        self.gate = parts.gate
        self.indexer = parts.indexer
        self.fleet = parts.fleet
        self._reads_resources = parts.settings.toolcrib.gate.expose.resources != "off"
        self.long_results = parts.long_results

    # -- list ------------------------------------------------------------------------------------

    async def list_tools(self, session: Session) -> list[JsonObject]:
        """Return the definitions of the downstream tools that the session's ``tools/list`` shows."""
        if session.pass_through or self._may_list_unindexed():
            await self._first_listing(session)
        catalog = self._parts.indexer.current()
        self.gate.settle_pass_through(session, catalog)
        tools = self.gate.listed(session, catalog)
        if not tools:
            return []
        section = self._parts.settings.toolcrib.tool_examples
        wording = self.finder.wording(session, catalog)
        owners = self.gate.owners(session, catalog)
        return await anyio.to_thread.run_sync(wording.listed, tools, section, owners)

    def listed_schema(self, session: Session, name: str) -> JsonObject | None:
        """Return the input schema of a tool that the session's ``tools/list`` shows; None for any other name."""
        catalog = self._parts.indexer.current()
        tool = catalog.get(name)
        return self._checks.schema(tool) if tool and tool in self.gate.listed(session, catalog) else None

    def _may_list_unindexed(self) -> bool:
        """Whether tools of a server that is being listed for the first time could belong in the list."""
        section = self._parts.settings.toolcrib
        return bool(self._parts.fleet.awaited) and (
            self.gate.lists_everything
            or section.gate.pass_through_below > 0
            or bool(section.tool_search.always_loaded_patterns)
            or section.tool_search.default_loading_mode.value == "always"
            or any(
                server.options.always_loaded_tools
                or server.options.deferred_tools is not None
                or server.options.default_loading_mode == "always"
                for server in self._parts.settings.servers.values()
            )
        )

    async def _first_listing(self, session: Session, servers: Collection[str] | None = None) -> None:
        """Wait for servers that are listed for the first time, until the deadline that began with the process.

        Without ``servers`` for all of them, except those that did not answer at an earlier start; never for one of
        which the session's caller could be permitted nothing.
        """
        fleet, permissions = self._parts.fleet, self.gate.permissions(session)
        wanted = [key for key in (fleet.awaited if servers is None else servers) if permissions.permits_some_of(key)]
        with anyio.move_on_after(self._parts.first_index_deadline - anyio.current_time()):
            await fleet.first_listing(wanted)

    @property
    def is_ready(self) -> bool:
        """Whether answers no longer wait for servers that are being listed for the first time."""
        return not self._parts.fleet.awaited or anyio.current_time() >= self._parts.first_index_deadline

    async def list_servers(self) -> dict[str, Status]:
        """List the tools of every server again, and return the result for each."""
        return await self._parts.fleet.list_all()

    async def survey(
        self, session: Session
    ) -> tuple[list[tuple[Tool, JsonObject, Card]], Callable[[SearchRequest], Found[Tool]]]:
        """Return everything the session's caller may use, and a search over it that records no event."""
        await self._first_listing(session)
        catalog = self._parts.indexer.current()
        permitted = self.gate.permitted(session, catalog)
        described = await anyio.to_thread.run_sync(self.finder.wording(session, catalog).described, permitted.rows)
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
        await self._likely_servers(session, request)
        catalog = self._parts.indexer.current()
        found = await self.finder.find(session, request, catalog, detail, self._notable_status)
        answer = replace(found, note=self._notes.of(session, found, request.server, catalog))
        self._reports.searched(session, answer, catalog, began)
        return answer

    async def _likely_servers(self, session: Session, request: SearchRequest) -> None:
        """List the servers that a query seems to mean before others, and wait for those never listed."""
        fleet = self._parts.fleet
        if request.server is not None:
            await self._named_server(session, request.server)
        elif fleet.listing_first:
            permissions = self.gate.permissions(session)
            fleet.prefer([key for key in self._missing.meant(request.query) if permissions.permits_some_of(key)])
            await self._first_listing(session)

    async def _named_server(self, session: Session, key: str) -> None:
        """Wait for one server that was never listed; start it again if it has failed."""
        fleet = self._parts.fleet
        if key in fleet and self.gate.permissions(session).permits_some_of(key):
            fleet.prefer([key])
            await self._first_listing(session, [key])
            await fleet.try_again(key)

    def _notable_status(self, tool: Tool) -> str | None:
        """Return a server's state if it matters to a caller; sleeping is normal."""
        state = self._parts.fleet.status(tool.server).state
        return state.value if state in _NOT_UP else None

    # -- call ------------------------------------------------------------------------------------

    async def call_listed(self, session: Session, call: ToolCall) -> JsonObject:
        """Answer a direct ``tools/call`` of a downstream tool, listed or not; the downstream validates the arguments.

        Raises:
            UnknownTool: denied, hidden from this caller or nonexistent: indistinguishable.
            DownstreamError: the downstream's own JSON-RPC error.

        """

        async def attempt() -> JsonObject:
            with self._reports.preparing(session, call.name):
                tool = await self._resolve(session, call.name, forgiving=False)
            return await self._execute(session, tool, call, as_object(call.arguments), source="direct")

        try:
            return await self._by_the_current_list(session, call, attempt)
        except Unavailable as error:
            return failure(str(error))

    async def call_any(self, session: Session, call: ToolCall, *, read_only: bool = False) -> JsonObject:
        """Answer ``tool_call``: any permitted tool, in any spelling, with arguments validated first."""

        async def attempt() -> JsonObject:
            with self._reports.preparing(session, call.name):
                tool = await self._resolve(session, call.name, forgiving=True)
                if read_only and not tool.read_only:
                    self._reports.not_run(session, tool.public_name, "not_read_only")
                    return failure(
                        f"{tool.public_name} is not declared read-only by its server: "
                        "call it with toolcrib's tool_call."
                    )
                arguments = await self._fitting(session, tool, call)
            return await self._execute(session, tool, call, arguments, source="tool_call")

        try:
            return await self._by_the_current_list(session, call, attempt)
        except UnknownTool as error:
            catalog = self._parts.indexer.current()
            return failure(str(error) + await self.finder.near_names(session, call.name, catalog))
        except DownstreamError as error:
            if error.code == URL_ELICITATION_REQUIRED:  # for the client, which has to open the URL in the error
                raise
            return failure(f"The server of {call.name} refused the call: {error} (code {error.code})")
        except ToolcribError as error:
            return failure(str(error))

    async def _by_the_current_list(
        self, session: Session, call: ToolCall, attempt: Callable[[], Awaitable[JsonObject]]
    ) -> JsonObject:
        """Decide about a call and run it; if its server changed the tool meanwhile, decide again.

        If it requires a login, the calling person may log in, and the call continues.
        """
        for _ in range(_DECISIONS_MAX):
            with suppress(Outdated):
                try:
                    return await attempt()
                except LoginNeeded as error:
                    if not await self._asked_logins.settle(session, call.asker, error.server):
                        raise
                return await attempt()
        text = f"The tool {call.name} keeps being changed by its server. Nothing ran; try later."
        raise Unavailable("", text)

    async def _resolve(self, session: Session, name: str, *, forgiving: bool) -> Tool:
        """Return the permitted tool that ``name`` means; wait for a server that is being listed for the first time."""
        tool = self._find(session, name, forgiving=forgiving)
        if tool is None:
            await self._servers_of(session, name, forgiving=forgiving)
            tool = self._find(session, name, forgiving=forgiving)
        if tool is None:
            if refusal := self._unavailable(session, name, forgiving=forgiving):
                raise refusal
            self._reports.refused(session, name, self._parts.indexer.current())
            raise UnknownTool(name)
        return tool

    def _unavailable(self, session: Session, name: str, *, forgiving: bool) -> Unavailable | None:
        """Return why a tool that is not found cannot be called, if its server failed before it was ever listed.

        ``forgiving``: also if it is still being listed; for a direct call, the tool is unknown until then.
        """
        clean = partial(self.gate.without_denied_names, session, catalog=self._parts.indexer.current())
        now = self._parts.fleet.now()
        seen = now if forgiving else replace(now, arriving={})
        return self._missing.refusal(name, self.gate.permissions(session), seen, clean)

    async def _servers_of(self, session: Session, name: str, *, forgiving: bool) -> None:
        """Wait for the servers that an unknown name may belong to, if they were never listed.

        A server of which the caller could be permitted nothing is ignored: a name with it is treated like any other.
        """
        permits = self.gate.permissions(session).permits_some_of
        named = [key for key in self._parts.settings.servers if may_belong_to(name, key) and permits(key)]
        for key in named:
            await self._named_server(session, key)
        if forgiving and not named:
            await self._first_listing(session)

    def _find(self, session: Session, name: str, *, forgiving: bool) -> Tool | None:
        catalog = self._parts.indexer.current()
        permitted = self.gate.permitted(session, catalog)
        if forgiving:
            return catalog.find(name, permitted)
        tool, rows = catalog.get(name), permitted.rows  # computed in any case: timing must reveal nothing
        return tool if tool is not None and tool.row in rows else None

    async def _execute(
        self, session: Session, tool: Tool, call: ToolCall, arguments: JsonObject, *, source: str
    ) -> JsonObject:
        """Run the tool once, on a live connection whose own list has exactly it; a person may have to confirm first.

        Raises:
            NotConfirmed, MustAsk: a person has to confirm first; nothing ran.
            Outdated: the list has another definition of it than the one that was decided about; nothing ran.

        """
        await self._parts.confirmed_calls.settle(session, call.asker, tool, arguments)
        began = time.perf_counter()
        with self._reports.preparing(session, tool.public_name):
            downstream = self._parts.fleet.of(tool.server, session)
            downstream.check()
        with downstream.line(call.asker) as line:
            with self._reports.preparing(session, tool.public_name):
                live = await self._live(session, tool, downstream)
            if live.fingerprint != tool.fingerprint:
                raise Outdated
            if await session.activations.add(tool.public_name):
                self._reports.activated(session, tool, source)
                if self.gate.grows_by(session, tool, self._parts.indexer.current()):
                    await call.announce()
            with self._reports.calling(session, tool, began) as outcome:
                params = {**call.more, "name": tool.name, "arguments": arguments}
                sent = Exchange("tools/call", tool.name, params, call.on_progress, tool.fingerprint)
                raw = await downstream.call(sent, line)
                outcome.ok = not raw.get("isError")
                if self._reads_resources:
                    raw = published_tool_result(raw, tool.server)
                result, outcome.size = await self.long_results.bounded(session, raw, call.announce)
                return result

    async def _live(self, session: Session, tool: Tool, downstream: Downstream) -> Tool:
        """Return the tool as in the live list of its server (R1); start the server and list again if needed."""
        await downstream.connection()
        if downstream.live.get(tool.name) != tool.fingerprint:
            tool = await self._resolve(session, tool.public_name, forgiving=False)
        if downstream.live.get(tool.name) != tool.fingerprint:
            await self._parts.fleet.list_now(tool.server, downstream)
            tool = await self._resolve(session, tool.public_name, forgiving=False)
        if downstream.live.get(tool.name) != tool.fingerprint:
            raise UnknownTool(tool.public_name)
        return tool

    async def _fitting(self, session: Session, tool: Tool, call: ToolCall) -> JsonObject:
        """Return validated arguments, unwrapped if necessary.

        The schema of a sleeping server may be out of date: if validation fails it is started and asked again.

        Raises:
            BadRequest: they are invalid; the text names each error and shows the schema.

        """
        checks = self._checks
        arguments = unwrap_arguments(call.arguments, checks.schema(tool))
        if arguments is None:
            shape = await self._shape(session, tool)
            raise BadRequest(f"'arguments' must be a JSON object that fits {tool.public_name}.\n{shape}")
        misfits = await checks.check(tool, arguments)
        if misfits and (downstream := self._parts.fleet.of(tool.server, session)).status.state is not State.READY:
            with downstream.line(call.asker):
                await downstream.connection()
            tool = await self._resolve(session, tool.public_name, forgiving=False)
            misfits = await checks.check(tool, arguments)
        if misfits:
            raise BadRequest(misfit_text(tool, misfits, await self._shape(session, tool)))
        return arguments

    async def _shape(self, session: Session, tool: Tool) -> str:
        """Return the schema of a tool's arguments and the shortest example, as the session's caller may read them."""
        wording = self.finder.wording(session, self._parts.indexer.current())
        read = await anyio.to_thread.run_sync(wording.described, [tool.row])
        return shape_text(*read[tool.row]) if tool.row in read else "Input schema: unknown, the tool is gone."
