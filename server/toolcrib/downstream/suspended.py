"""Work for callers without a session who may have to be asked during it: it continues between their requests."""

import json
import secrets
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from hashlib import sha256

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from mcp import MCPError

from toolcrib.base.errors import ConnectionLost, DownstreamError
from toolcrib.base.json_values import as_object
from toolcrib.base.model import JsonObject
from toolcrib.config.schema import LimitsSection
from toolcrib.policy.asking import Asker, Progress

ANSWERS = ("inputResponses", "requestState")
"""What a retry has besides the params of the call."""

_SAME = ("name", "uri", "arguments")
"""What makes a retry one of the same call; whatever else a client sends along may differ."""

_KEY_BYTES = 32
_GONE_PARAMS = ("elicitationId", "task")
"""What questions had in the handshake era, and have no more."""

_UNKNOWN = (
    "This requestState belongs to no call of yours that waits for an answer: it was already used, it has expired, "
    "the server has gone, or it is of another call. Nothing was run again. Call without requestState to start over; "
    "check first what the earlier call has done."
)


def same_request(server: str, method: str, params: JsonObject) -> str:
    """Return what a call and its retries have in common, as a hash."""
    bare = {key: params[key] for key in _SAME if key in params}
    return sha256(json.dumps([server, method, bare], sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(eq=False, slots=True)
class _Question:
    """What a server has asked; ``answer`` is set when ``answered`` is."""

    method: str
    params: JsonObject
    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: JsonObject | MCPError = field(default_factory=dict[str, object])


class Parked:
    """One call that goes on while its caller comes and goes. It is an :class:`Asker` for the server.

    ``request`` works out what :func:`same_request` returns, which only a retry asks for. ``scope`` is that of the task
    that waits for the server. ``lasting``: it stands for a session as long as it goes on, so that servers of both eras
    ask through it.
    """

    is_live = True

    def __init__(self, asker: Asker, request: Callable[[], str], *, lasting: bool = False) -> None:
        self.asker, self.request, self.lasting = asker, request, lasting
        self.scope = anyio.CancelScope()
        self.changed = anyio.Event()
        self._outcome: JsonObject | Exception | None = None
        self._questions: dict[str, _Question] = {}
        self._count = 0
        self.is_attended = True
        self.on_progress: Progress | None = None

    @property
    def session(self) -> str:
        """That of its caller."""
        return self.asker.session

    @property
    def principal(self) -> str:
        """That of its caller."""
        return self.asker.principal

    @property
    def capabilities(self) -> JsonObject:
        """Those of its caller."""
        return self.asker.capabilities

    @property
    def log_level(self) -> str | None:
        """That of its caller."""
        return self.asker.log_level

    def wants_log(self, level: str) -> bool:
        """Return whether its caller is told log messages of a level."""
        return self.asker.wants_log(level)

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        """Have the caller asked by the result of its request, and wait until it has answered by the next one."""
        self._count += 1
        name, question = f"question-{self._count}", _Question(method, params)
        self._questions[name] = question
        self._change()
        try:
            await question.answered.wait()
        finally:
            del self._questions[name]
            if not self.is_attended and not question.answered.is_set():
                self.scope.cancel()  # nobody came in time
        if isinstance(question.answer, MCPError):
            raise question.answer
        return question.answer

    async def tell(self, method: str, params: JsonObject) -> None:
        """Tell the caller, if it waits at the moment."""
        if self.is_attended:
            await self.asker.tell(method, params)

    async def report(self, progress: float, total: float | None, message: str | None) -> None:
        """Pass one report of progress on to the caller, if it waits at the moment."""
        if self.is_attended and self.on_progress is not None:
            await self.on_progress(progress, total, message)

    def settle(self, outcome: JsonObject | Exception) -> None:
        """Note how the server's call has ended; the first end counts."""
        if self._outcome is None:
            self._outcome = outcome
            self._change()

    def answer(self, given: object) -> None:
        """Take in what the caller answers, as far as it was asked; what it leaves out is asked again."""
        answers = as_object(given)
        for name, question in self._questions.items():
            if isinstance(answers.get(name), dict):
                question.answer = _without(answers[name], ("resultType",))
                question.answered.set()

    def refuse(self, reason: str) -> None:
        """Tell the server that its questions are not answered."""
        for question in self._questions.values():
            question.answer = MCPError(types.INVALID_REQUEST, reason)
            question.answered.set()

    async def next_step(self) -> JsonObject | None:
        """Wait for the result, and return it; or return None as soon as there is a question.

        Raises:
            Exception: what the call has ended with.

        """
        while True:
            if isinstance(self._outcome, Exception):
                raise self._outcome
            if self._outcome is not None:
                return self._outcome
            if any(not question.answered.is_set() for question in self._questions.values()):
                return None
            await self.changed.wait()

    def interim(self, key: str) -> JsonObject:
        """Return the result that asks the caller what the server wants to know."""
        requests = {
            name: {"method": question.method, "params": _without(question.params, _GONE_PARAMS)}
            for name, question in self._questions.items()
            if not question.answered.is_set()
        }
        return {"resultType": "input_required", "inputRequests": requests, "requestState": key}

    def _change(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()


def _without(value: JsonObject, keys: Collection[str]) -> JsonObject:
    return {key: each for key, each in value.items() if key not in keys}


@dataclass(frozen=True, slots=True)
class _Place:
    parked: Parked
    until: float


class Parking:
    """All calls that are parked, of all servers."""

    def __init__(self, limits: LimitsSection) -> None:
        self._limits = limits
        self._places: dict[str, _Place] = {}

    def __len__(self) -> int:
        return len(self._places)

    def keep(self, parked: Parked) -> str | None:
        """Park a call and return its key, which nobody can guess; None where there are too many."""
        self._drop_expired()
        own = sum(place.parked.principal == parked.principal for place in self._places.values())
        if len(self._places) >= self._limits.parked_calls or own >= self._limits.parked_calls_per_principal:
            return None
        key = secrets.token_urlsafe(_KEY_BYTES)
        self._places[key] = _Place(parked, anyio.current_time() + self._limits.answer_timeout_s)
        parked.is_attended = False
        return key

    def knows(self, key: object) -> bool:
        """Return whether a call is parked under a key, whosoever it is."""
        return isinstance(key, str) and key in self._places

    def take(self, key: object, asker: Asker, request: str) -> Parked:
        """Return the call that is parked under a key, for the caller who may resume it; the key is then invalid.

        Raises:
            DownstreamError: there is none for this caller and this request.

        """
        self._drop_expired()
        place = self._places.get(key) if isinstance(key, str) else None
        if place is None or place.parked.session != asker.session or place.parked.request() != request:
            raise refused()
        del self._places[str(key)]
        place.parked.asker, place.parked.is_attended = asker, True
        return place.parked

    def _drop_expired(self) -> None:
        now = anyio.current_time()
        for key in [key for key, place in self._places.items() if place.until <= now]:
            self._places.pop(key).parked.scope.cancel()


def refused() -> DownstreamError:
    """Return what a retry is told that belongs to nothing."""
    return DownstreamError(types.INVALID_PARAMS, _UNKNOWN, {"reason": "invalid_request_state"})


_GIVEN_UP = "The call was cancelled, because nobody waited for it."


class ParkedWork:
    """Runs work in tasks of its own. ``server`` is whose calls these are, empty where they are of none."""

    def __init__(self, parking: Parking, tasks: TaskGroup, server: str = "") -> None:
        self._parking, self._tasks, self._server = parking, tasks, server

    def knows(self, key: object) -> bool:
        """Return whether something is parked under a key, whosoever it is."""
        return self._parking.knows(key)

    async def begin(self, parked: Parked, work: Callable[[], Awaitable[JsonObject]]) -> JsonObject:
        """Begin a piece of work, and return its result, or what its caller is to be asked first."""
        self._tasks.start_soon(self._carry_out, parked, work)
        return await self._attend(parked)

    async def take_up(self, params: JsonObject, asker: Asker, request: str, on_progress: Progress | None) -> JsonObject:
        """Hand answers in and return as :meth:`begin` does; ``params`` are those of the retry, ``request`` what it is.

        Raises:
            DownstreamError: nothing is parked for this caller and this request under the key.
            Exception: what the work has ended with.

        """
        parked = self._parking.take(params["requestState"], asker, request)
        parked.on_progress = on_progress
        parked.answer(params.get("inputResponses"))
        return await self._attend(parked)

    async def _carry_out(self, parked: Parked, work: Callable[[], Awaitable[JsonObject]]) -> None:
        with parked.scope:
            try:
                parked.settle(await work())
            except Exception as error:  # barrier: work that may be parked; raised for whoever waits for its end
                parked.settle(error)
        parked.settle(ConnectionLost(self._server, _GIVEN_UP))

    async def _attend(self, parked: Parked) -> JsonObject:
        """Wait until the work has ended, or its caller is asked; one that leaves while it waits gives the work up."""
        try:
            while (result := await parked.next_step()) is None:
                if key := self._parking.keep(parked):
                    return parked.interim(key)
                parked.refuse("Too many calls wait for answers (limits.parked_calls).")
        except anyio.get_cancelled_exc_class():
            parked.scope.cancel()
            raise
        return result
