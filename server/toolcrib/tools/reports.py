"""What is told of searches and calls: events for whoever operates toolcrib, and the trail of the session.

Knows what an event says of a search, a call or a refusal; never knows how one of them goes, nor what a client is told.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from toolcrib.access.sessions import Session
from toolcrib.downstream.connection import Outdated
from toolcrib.errors import BadRequest, Unavailable
from toolcrib.events.kinds import (
    NotRunReason,
    ToolActivated,
    ToolActivationDenied,
    ToolCalled,
    ToolCallNotRun,
    ToolSearchQuery,
)
from toolcrib.events.log import EventLog, elapsed_ms
from toolcrib.model import Tool
from toolcrib.tools.answers import SearchAnswer
from toolcrib.tools.gate import Gate
from toolcrib.tools.index.catalog import Catalog


@dataclass(slots=True)
class Outcome:
    """How a call went: whether it did, and about how many bytes its result has."""

    ok: bool = False
    size: int = 0


class ToolReports:
    """Tells what sessions do with tools. ``began`` is on the clock of :func:`time.perf_counter` everywhere."""

    def __init__(self, events: EventLog, gate: Gate) -> None:
        self._events, self._gate = events, gate

    def searched(self, session: Session, answer: SearchAnswer, catalog: Catalog, began: float) -> None:
        """Tell of a search that was answered (R151)."""
        names = [hit.tool.public_name for hit in answer.hits]
        self._events.emit(
            ToolSearchQuery(
                query=self._gate.without_denied_names(session, answer.query, catalog),
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
        """Tell of a name that the session may not use, or that nobody has, and which of these it is (R153)."""
        reason = self._gate.why_refused(session, name, catalog)
        self._events.emit(ToolActivationDenied(tool_name=name, reason=reason), session=session.label)

    def activated(self, session: Session, tool: Tool, source: str) -> None:
        """Tell of a tool that the session uses for the first time (R152)."""
        activated = ToolActivated(
            tool_name=tool.public_name, activation_scope=self._gate.scope, source=source, reason="first_use"
        )
        self._events.emit(activated, session=session.label)

    @contextmanager
    def calling(self, session: Session, tool: Tool, began: float) -> Generator[Outcome]:
        """Tell of a call, once it is over, what stands in the outcome by then; not of one that was never sent."""
        outcome, is_sent = Outcome(), True
        try:
            yield outcome
        except Outdated:
            is_sent = False
            raise
        finally:
            if is_sent:
                self._called(session, tool, outcome, elapsed_ms(began))

    def _called(self, session: Session, tool: Tool, outcome: Outcome, duration_ms: float) -> None:
        session.trail.called(ok=outcome.ok)
        search, rank = _origin(session, tool.public_name)
        called = ToolCalled(tool_name=tool.public_name, ok=outcome.ok, bytes=outcome.size, search=search, rank=rank)
        self._events.emit(called, session=session.label, duration_ms=duration_ms)

    @contextmanager
    def preparing(self, session: Session, name: str) -> Generator[None]:
        """Tell of a call of ``name`` that ends meanwhile, before anything has run."""
        try:
            yield
        except BadRequest:
            self.not_run(session, name, "arguments")
            raise
        except Unavailable:
            self.not_run(session, name, "unavailable")
            raise

    def not_run(self, session: Session, name: str, reason: NotRunReason) -> None:
        """Tell of a call that ended before anything had run."""
        session.trail.called(ok=False)
        search, rank = _origin(session, name)
        not_run = ToolCallNotRun(tool_name=name, reason=reason, search=search, rank=rank)
        self._events.emit(not_run, session=session.label)


def _origin(session: Session, name: str) -> tuple[int | None, int | None]:
    origin = session.trail.origin(name)
    return (origin.search, origin.rank) if origin else (None, None)
