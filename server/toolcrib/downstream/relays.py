"""Routes a server's requests and notifications to the caller they concern, or to nobody.

Nothing is ever sent to a session that it may not concern: if that is unclear, the server gets
an error (ADR 28).
"""

import math
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Self, cast

import anyio
import mcp_types as types
from mcp import MCPError

from toolcrib.base.cache import Recent
from toolcrib.base.errors import DownstreamError
from toolcrib.base.json_decoding import whole
from toolcrib.base.json_values import as_list, as_object
from toolcrib.base.model import JsonObject
from toolcrib.config.schema import LimitsSection
from toolcrib.config.settings import ServerSettings
from toolcrib.policy.asking import QUESTIONS, Asker, Progress, for_next_hop, is_level, refuse_beyond


class Patience:
    """``seconds`` from when the call is sent, from the last sign of life, or from the last answer of its caller.

    At most ``most_s`` seconds from when it is sent.
    """

    def __init__(self, seconds: float, most_s: float) -> None:
        self._seconds, self._most_s = seconds, most_s
        self._scope: anyio.CancelScope | None = None
        self._ends_at = math.inf
        self._pauses = 0
        self._paused_until = -math.inf

    def begin(self) -> anyio.CancelScope:
        """Let the time run from now on, and return the scope that ends when it is over."""
        now = anyio.current_time()
        self._ends_at = now + self._most_s
        self._scope = anyio.CancelScope(deadline=self._deadline(now))
        return self._scope

    def restart(self) -> None:
        """Restart the deadline, unless it is paused."""
        if self._scope is not None:
            self._scope.deadline = self._deadline(anyio.current_time())

    @property
    def waited_s(self) -> float:
        """How long was waited in vain, once the time is over."""
        return self._seconds if anyio.current_time() < self._ends_at else self._most_s

    def _deadline(self, now: float) -> float:
        return min((self._paused_until if self._pauses else now) + self._seconds, self._ends_at)

    @contextmanager
    def paused(self, seconds: float) -> Generator[None]:
        """Let the time begin after the block, which takes at most so long."""
        self._pauses += 1
        self._paused_until = anyio.current_time() + seconds
        self.restart()
        try:
            yield
        finally:
            self._pauses -= 1
            self.restart()


_LAST_S = 1.0
"""Seconds that the report under way has to be delivered once the call has ended."""


class Relay:
    """Passes progress on as fast as the receiver takes it: of what comes meanwhile, only the latest report.

    Each report restarts the deadline.
    """

    def __init__(self, patience: Patience, on_progress: Progress) -> None:
        self._patience, self._on_progress = patience, on_progress
        self._latest: tuple[float, float | None, str | None] | None = None
        self._settled: anyio.Event | None = None

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Pass one report on, or leave it to whoever is still passing on the one before."""
        self._patience.restart()
        self._latest = progress, total, message and whole(message)
        if self._settled is not None:
            return
        self._settled = anyio.Event()
        try:
            while self._latest is not None:
                report, self._latest = self._latest, None
                await self._on_progress(*report)
        finally:
            self._settled.set()
            self._settled = self._latest = None

    async def settle(self) -> None:
        """Wait a moment for what is under way: after its result, progress would reach nobody."""
        if self._settled is not None:
            with anyio.move_on_after(_LAST_S, shield=True):
                await self._settled.wait()


_LINGER_S = 60.0
"""How long a request that was given up may still be worked on: a question that comes meanwhile may be its."""

_TOLD_AT_ONCE = 100
"""Messages on their way to callers at a time; what comes while they take no more is left out."""

_ELICITATIONS = 256
"""Elicitations by URL of which it is remembered whose they are."""

_COMPLETE = "notifications/elicitation/complete"
_LOG = "notifications/message"


class Line:
    """One request of a caller, from before its server is started until it is answered: open as long as the block is.

    ``patience`` is its deadline. Made by :meth:`Relays.line`.
    """

    __slots__ = ("_relays", "asker", "is_sent", "patience", "questions")

    def __init__(self, relays: "Relays", asker: Asker, patience: Patience) -> None:
        self._relays, self.asker, self.patience = relays, asker, patience
        self.is_sent = False
        self.questions = set[anyio.CancelScope]()

    def __enter__(self) -> Self:
        self._relays.open(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._relays.close(self, error)


carried_by: ContextVar[Line | None] = ContextVar("carried_by", default=None)
"""The request that a message of a server belongs to, where the transport tells: streamable HTTP brings what a server
sends on account of a request on the answer to that request."""


class Relays:
    """Routes what one server sends.

    ``declared`` is what it was told at the handshake that its clients can do. ``is_exclusive``: only one client ever
    uses its connection.
    """

    def __init__(
        self, server: ServerSettings, limits: LimitsSection, declared: JsonObject, *, is_exclusive: bool
    ) -> None:
        self._declared = declared
        self._key, self._clean = server.key, server.redactor.cleaned
        self._answer_s, self._hold_s = limits.answer_timeout_s, server.options.connect_timeout_s
        self._call_s, self._call_max_s = server.options.call_timeout_s, limits.call_max_s
        self._is_exclusive = is_exclusive
        self._lines: list[Line] = []
        self._given_up: dict[str, float] = {}
        self._changed: anyio.Event | None = None
        self._owner: Asker | None = None
        self._elicitations = Recent[str, Asker](_ELICITATIONS)
        self._being_told = 0

    # -- requests under way ----------------------------------------------------------------------

    def line(self, asker: Asker) -> Line:
        """Return a line to a caller, by which the server can reach it while the line is open."""
        return Line(self, asker, Patience(self._call_s, self._call_max_s))

    def open(self, line: Line) -> None:
        """Take a request up."""
        self._lines.append(line)
        if self._is_exclusive and line.asker.lasting:
            self._owner = line.asker
        self._change()

    def close(self, line: Line, error: BaseException | None) -> None:
        """Let go of a request, which has ended with ``error`` unless that is None."""
        self._lines.remove(line)
        if isinstance(error, DownstreamError):
            self._remember(line.asker, error)
        elif error is not None and line.is_sent:
            self._given_up[line.asker.session] = anyio.current_time() + _LINGER_S
        for question in line.questions:
            question.cancel()
        self._change()

    def _change(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    async def _change_noted(self) -> None:
        """Wait until other requests are under way."""
        if self._changed is None:
            self._changed = anyio.Event()
        await self._changed.wait()

    def forget(self) -> None:
        """Reset for another connection: cancelled requests are no longer worked on."""
        self._given_up.clear()

    def _remember(self, asker: Asker, error: DownstreamError) -> None:
        """Note whose the elicitations are that a server requires before a request (code -32042)."""
        if error.code == types.URL_ELICITATION_REQUIRED:
            for each in as_list(as_object(error.data).get("elicitations")):
                self._note_elicitation(asker, as_object(each))

    def _note_elicitation(self, asker: Asker, params: JsonObject) -> None:
        if isinstance(key := params.get("elicitationId"), str):
            self._elicitations[key] = asker

    # -- what a server asks ----------------------------------------------------------------------

    async def on_request(self, method: str, params: JsonObject) -> JsonObject:
        """Answer a request of the server.

        Raises:
            MCPError: with what the server is told instead of an answer.

        """
        if method == "ping":
            return {}
        if method not in QUESTIONS:
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", method)
        refuse_beyond(self._declared, method, params)
        candidates = await self._whose(method)
        if not candidates:
            return await self._ask_owner(method, params)
        with ExitStack() as stack:
            # Each of them, because it cannot be told which of them waits for the answer.
            for line in candidates:
                stack.enter_context(line.patience.paused(self._answer_s))
            return await self.ask(candidates[-1], method, params)

    async def ask(self, line: Line, method: str, params: JsonObject) -> JsonObject:
        """Ask the caller of one request, who has some time to answer.

        Raises:
            MCPError: it cannot be asked that, it is gone, or it did not answer; or its own error.

        """
        params = for_next_hop(params)
        refuse_beyond(line.asker.capabilities, method, params)
        self._note_elicitation(line.asker, params)
        async with self._question_of(line):
            with line.patience.paused(self._answer_s), anyio.move_on_after(self._answer_s):
                return await line.asker.ask(method, params)
            raise MCPError(types.REQUEST_TIMEOUT, f"Nobody answered within {self._answer_s:g} s.")
        raise MCPError(types.INVALID_REQUEST, "The request this belongs to has ended: its caller cancelled it.")

    @asynccontextmanager
    async def _question_of(self, line: Line) -> AsyncGenerator[None]:
        """End the block when the request does."""
        with anyio.CancelScope() as question:
            line.questions.add(question)
            try:
                yield
            finally:
                line.questions.discard(question)

    async def _whose(self, method: str) -> list[Line]:
        """Return the requests that a question may be asked for, all of one session; none if none is under way.

        One that comes while its server is still being started for a caller who can be asked only later is held.

        Raises:
            MCPError: it cannot be told whose question it is.

        """
        line = carried_by.get()
        if line is not None:
            if line not in self._lines:
                raise MCPError(types.INVALID_REQUEST, "The request this belongs to has ended.")
            return [line]
        with anyio.move_on_after(self._hold_s):
            while True:
                if self._lines and not self._is_one_session():
                    raise MCPError(
                        types.INVALID_REQUEST,
                        f"{method} cannot be passed on: several clients use this connection at the moment, and nothing "
                        "says which of them is meant. With 'isolation: session' each has a connection of its own.",
                    )
                live = [line for line in self._lines if line.asker.is_live]
                if live or not any(line.asker.capabilities for line in self._lines):
                    return live
                await self._change_noted()  # the one that it is for may be about to be parked
        return []

    def _is_one_session(self) -> bool:
        """Whether all that the server may be working at is for one session."""
        if self._is_exclusive:
            return True
        now = anyio.current_time()
        self._given_up = {session: until for session, until in self._given_up.items() if until > now}
        return len(self._given_up.keys() | {line.asker.session for line in self._lines}) == 1

    async def _ask_owner(self, method: str, params: JsonObject) -> JsonObject:
        """Ask for roots outside of any request: they are those of the connection's only client, whatever it asks."""
        if self._owner is None or method != "roots/list":
            raise MCPError(types.INVALID_REQUEST, f"{method} comes outside of any request: there is nobody to ask.")
        refuse_beyond(self._owner.capabilities, method, params)
        with anyio.move_on_after(self._hold_s):
            return await self._owner.ask(method, for_next_hop(params))
        raise MCPError(types.REQUEST_TIMEOUT, "The client did not answer.")

    # -- what a server tells ---------------------------------------------------------------------

    async def on_notify(self, method: str, params: JsonObject) -> bool:
        """Pass a notification on; return whether it was one of those that callers are told."""
        if method == _LOG:
            await self._log(params)
        elif method == _COMPLETE:
            key = params.get("elicitationId")
            if isinstance(key, str) and key in self._elicitations:
                await self._tell(self._elicitations[key], method, params)
        else:
            return False
        return True

    async def _log(self, params: JsonObject) -> None:
        level, line = params.get("level"), carried_by.get()
        if line is not None:
            asker = line.asker
        elif self._lines:
            asker = self._lines[-1].asker if self._is_one_session() else None
        else:
            asker = self._owner
        if asker is None or not is_level(level) or not asker.wants_log(cast("str", level)):
            return
        named = params.get("logger")
        logger = f"{self._key}/{named}" if isinstance(named, str) and named else self._key
        told: JsonObject = {**params, "logger": logger, "data": self._clean(params.get("data"))}
        told.pop("_meta", None)
        await self._tell(asker, _LOG, told)

    async def _tell(self, asker: Asker, method: str, params: JsonObject) -> None:
        if self._being_told >= _TOLD_AT_ONCE:
            return
        self._being_told += 1
        try:
            await asker.tell(method, params)
        finally:
            self._being_told -= 1
