"""Reports of searches and calls: events for the operator, and the trail of the session.

Knows what an event records of a search, a call or a refusal; never knows how they work, nor what a client is told.
"""

from types import TracebackType
from typing import Self

from toolcrib.base.errors import BadRequest, Unavailable
from toolcrib.base.model import Tool
from toolcrib.catalog.gate import Gate
from toolcrib.catalog.indexing import CatalogChange
from toolcrib.catalog.learning import Learning
from toolcrib.catalog.snapshot import Catalog
from toolcrib.catalog.tool_search import SearchAnswer
from toolcrib.downstream.connection import Outdated
from toolcrib.events.kinds import (
    DefinitionChanged,
    NotRunReason,
    ToolActivated,
    ToolActivationDenied,
    ToolCalled,
    ToolCallNotRun,
    ToolSearchQuery,
)
from toolcrib.events.log import EventLog, elapsed_ms
from toolcrib.policy.sessions import Session

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
        self._learning.asked(session, answer, told)
        self._events.emit(
            ToolSearchQuery(
                query=told,
                requested_search_type=answer.effective.value,
                effective_search_type=answer.effective.value,
                results_count=len(names),
                search=session.trail.searched(names),
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

    def calling(self, session: Session, tool: Tool, began: float) -> "Calling":
        """Return a context manager for a tool call, which emits an event when it ends."""
        return Calling(self, session, tool, began)

    def called(self, session: Session, tool: Tool, call: "Calling", duration_ms: float) -> None:
        """Emit the event of a call."""
        session.trail.called(ok=call.ok)
        if call.ok:
            self._learning.called(session, tool.public_name, call.asked)
        search, rank = _origin(session, tool.public_name)
        called = ToolCalled(tool_name=tool.public_name, ok=call.ok, bytes=call.size, search=search, rank=rank)
        self._events.emit(called, session=session.label, duration_ms=duration_ms)

    def preparing(self, session: Session, name: str) -> "Preparing":
        """Return a context manager for the preparation of a call of ``name``; an error in it means that nothing ran."""
        return Preparing(self, session, name)

    def not_run(self, session: Session, name: str, reason: NotRunReason) -> None:
        """Emit the event of a call that ended before anything ran."""
        session.trail.called(ok=False)
        search, rank = _origin(session, name)
        not_run = ToolCallNotRun(tool_name=name, reason=reason, search=search, rank=rank)
        self._events.emit(not_run, session=session.label)


# Classes rather than generators, because every call passes here.


class Calling:
    """One call in progress; at its end, its success and the approximate size of its result are reported.

    Nothing is reported for a call that was never sent.
    """

    __slots__ = ("_began", "_reports", "_session", "_tool", "asked", "ok", "size")

    def __init__(self, reports: ToolReports, session: Session, tool: Tool, began: float) -> None:
        self._reports, self._session, self._tool, self._began = reports, session, tool, began
        self.ok, self.size = False, 0
        # A call says nothing about a search that is made while it runs.
        self.asked = session.trail.asked

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not isinstance(error, Outdated):
            self._reports.called(self._session, self._tool, self, elapsed_ms(self._began))


class Preparing:
    """One call in preparation: if it ends here, the reason why nothing ran is reported."""

    __slots__ = ("_name", "_reports", "_session")

    def __init__(self, reports: ToolReports, session: Session, name: str) -> None:
        self._reports, self._session, self._name = reports, session, name

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, BadRequest):
            self._reports.not_run(self._session, self._name, "arguments")
        elif isinstance(error, Unavailable):
            self._reports.not_run(self._session, self._name, "unavailable")


def _origin(session: Session, name: str) -> tuple[int | None, int | None]:
    origin = session.trail.origin(name)
    return (origin.search, origin.rank) if origin else (None, None)
