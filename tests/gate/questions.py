"""A state machine of questions: servers ask while they are called, whatever else happens.

Clients of both eras come, call, answer, decline, give up and go, while servers end, change their era, and the config is
loaded again. A question and its answer name the call they belong to, so each that goes astray is seen.
"""

import json
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import anyio
import mcp_types as types
from hypothesis import strategies as st
from hypothesis.stateful import consumes, initialize, invariant, multiple, precondition, rule
from mcp import MCPError

from fakes.menu import tool
from gate.machines import Guest, WorldMachine
from toolcrib.base.model import Caller
from worlds import MODERN, Call, JsonObject, MemoryServer, settled, text, until

ERAS = {"old": ("legacy",), "new": ("modern",), "both": ("legacy", "modern")}
OPTIONS = [{}, {"isolation": "session"}, {"isolation": "shared"}, {"isolation": "principal"}]
TOKENS = [{"token": f"token-{who}", "subject": who} for who in ("ann", "bob")]
REMOTE = {"type": "http", "url": "http://example.invalid/mcp"}
"""A server that is not said to be a process: it asks as one over HTTP by a stream that belongs to no request."""

FORM: JsonObject = {"requestedSchema": {"type": "object", "properties": {"which": {"type": "string"}}}}
META = "io.modelcontextprotocol/"
MODES, CALLERS = st.sampled_from(["legacy", MODERN]), st.sampled_from(["ann", "bob"])
SERVERS = st.sampled_from(sorted(ERAS))
MOST = 5
ANSWER_S = [60.0] * 7 + [0.3]
"""Time for an answer. What was given up while its person was asked ends after it: only the short one is waited for."""


@dataclass(eq=False)
class Question:
    """A question in front of a client's person, until they answer."""

    key: str
    answer: str = ""
    answered: anyio.Event = field(default_factory=anyio.Event)


@dataclass(eq=False)
class Asking:
    """What servers ask: ``open`` are the questions that wait for an answer, ``answers`` what came for each."""

    open: set[str] = field(default_factory=set)
    answers: dict[str, str] = field(default_factory=dict)

    async def feed(self, call: Call) -> JsonObject:
        """Ask as often as the arguments say, in the way of the era, and return what was answered."""
        key, count = call.arguments["key"], call.arguments["questions"]
        if f"{META}protocolVersion" in call.params.get("_meta", {}):
            return self._modern(call, key, count)
        for number in range(count):
            question = f"{key}.{number}"
            self.open.add(question)
            try:
                given = await call.ask("elicitation/create", {**FORM, "message": question})
                self.answers[question] = (given.get("content") or {}).get("which", given["action"])
            except MCPError as error:
                self.answers[question] = f"error: {error.message}"
            finally:
                self.open.remove(question)
        return self._told(key, count)

    def _modern(self, call: Call, key: str, count: int) -> JsonObject:
        number = int(call.params.get("requestState", -1))
        if number >= 0:
            given = call.params["inputResponses"]["it"]
            self.answers[f"{key}.{number}"] = (given.get("content") or {}).get("which", given["action"])
        if number + 1 == count:
            return self._told(key, count)
        question = {"method": "elicitation/create", "params": {**FORM, "message": f"{key}.{number + 1}"}}
        return {"resultType": "input_required", "inputRequests": {"it": question}, "requestState": f"{number + 1}"}

    def _told(self, key: str, count: int) -> JsonObject:
        answers = {f"{key}.{number}": self.answers[f"{key}.{number}"] for number in range(count)}
        return text(json.dumps({"key": key, "answers": answers}))


class Person(Guest):
    """A guest who is asked."""

    def __init__(self, name: str, *, is_modern: bool) -> None:
        self.name, self.is_modern = name, is_modern
        self.asked: list[Question] = []
        self.calls: list[Made] = []
        self.wrong: list[str] = []

    async def elicit(self, _context: Any, params: Any) -> types.ElicitResult:
        question = Question(params.message)
        if not question.key.startswith(f"{self.name}/"):
            self.wrong.append(question.key)
        self.asked.append(question)
        try:
            await question.answered.wait()
        finally:
            self.asked.remove(question)
        if not question.answer:
            return types.ElicitResult(action="decline")
        return types.ElicitResult(action="accept", content={"which": question.answer})


@dataclass(eq=False)
class Made:
    """A call that a person has made; ``outcome`` is its result, the error that came, or nothing if it was given up."""

    key: str
    questions: int
    is_given_up: bool = False
    outcome: str | None = None
    future: Future[None] = field(init=False)

    @property
    def keys(self) -> list[str]:
        """Its questions."""
        return [f"{self.key}.{number}" for number in range(self.questions)]


class QuestionMachine(WorldMachine):
    """Whoever comes and goes, and whatever happens to servers and config meanwhile."""

    guests = WorldMachine.guests

    @initialize(
        target=guests,
        has_tokens=st.booleans(),
        is_remote=st.booleans(),
        answer_s=st.sampled_from(ANSWER_S),
        options=st.sampled_from(OPTIONS),
        modes=st.lists(MODES, min_size=2, max_size=3),
        callers=st.lists(CALLERS, min_size=3, max_size=3),
    )
    def start(
        self,
        has_tokens: bool,
        is_remote: bool,
        answer_s: float,
        options: JsonObject,
        modes: list[str],
        callers: list[str],
    ) -> Any:
        self.asking, self.count, self.options, self.answer_s = Asking(), 0, options, answer_s
        self.people: list[Person] = []
        self.tokens = TOKENS if has_tokens else []
        entry: JsonObject = {"entry": REMOTE} if is_remote else {}
        self.servers = {
            key: MemoryServer([tool("feed")], eras=eras, answers={"feed": self.asking.feed}, **entry)
            for key, eras in ERAS.items()
        }
        self.open(self.servers, self.config(), transport="http")
        return multiple(*(self.enter_person(mode, who) for mode, who in zip(modes, callers, strict=False)))

    def config(self, **limits: Any) -> JsonObject:
        tokens = {"http": {"tokens": self.tokens}} if self.tokens else {}
        options = dict.fromkeys(ERAS, self.options)
        limits |= {"answer_timeout_s": self.answer_s}
        return {**tokens, "limits": limits, "servers": options, "gate": {"listing": "auto"}}

    # -- clients ---------------------------------------------------------------------------------

    @precondition(lambda self: len(self.present) < MOST)
    @rule(target=guests, mode=MODES, who=CALLERS)
    def connect(self, mode: str, who: str) -> Person:
        return self.enter_person(mode, who)

    def enter_person(self, mode: str, who: str) -> Person:
        self.count += 1
        person = Person(f"{who}-{self.count}", is_modern=mode == MODERN)
        caller = Caller(who) if self.tokens else None
        person.client, person.close = self.connected(
            mode, caller=caller, name=person.name, elicitation_callback=person.elicit
        )
        self.people.append(person)
        return self.come(person)

    @precondition(lambda self: len(self.present) > 1)
    @rule(guest=consumes(guests))
    def leave(self, guest: Person) -> None:
        for made in guest.calls:
            made.is_given_up |= made.outcome is None
        guest.close()
        self.present.remove(guest)

    @rule(guest=guests, server=SERVERS, questions=st.integers(1, 3), is_direct=st.booleans())
    def call(self, guest: Person, server: str, questions: int, is_direct: bool) -> None:
        self.make(guest, server, questions, is_direct=is_direct)

    @rule(one=guests, other=guests, server=SERVERS)
    def call_at_once(self, one: Person, other: Person, server: str) -> None:
        self.make(one, server, 1, is_direct=True)
        self.make(other, server, 2, is_direct=False)

    def make(self, guest: Person, server: str, questions: int, *, is_direct: bool) -> None:
        self.count += 1
        made = Made(f"{guest.name}/{self.count}", questions)
        guest.calls.append(made)
        arguments = {"key": made.key, "questions": questions}
        named = (f"{server}__feed", arguments)
        name, given = named if is_direct else ("tool_call", {"name": named[0], "arguments": arguments})
        made.future = self.portal.start_task_soon(self.run_call, guest, made, name, given)

    async def run_call(self, guest: Person, made: Made, name: str, arguments: JsonObject) -> None:
        try:
            result = await guest.client.call_tool(name, arguments)
            [block] = result.content
            assert isinstance(block, types.TextContent)
            made.outcome = f"error: {block.text}" if result.is_error else block.text
        except MCPError as error:
            made.outcome = f"error: {error.message}"
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            made.outcome = "error: gone"

    @rule(at=st.integers(0, 10), is_yes=st.booleans())
    def answer(self, at: int, is_yes: bool) -> None:
        self.portal.call(settled)
        # Whether there is a question yet depends on threads, so no rule may.
        if waiting := self.questions():
            person, question = waiting[at % len(waiting)]
            question.answer = f"{person.name} says {question.key}" if is_yes else ""
            self.portal.call(question.answered.set)

    @rule(at=st.integers(0, 10))
    def give_up(self, at: int) -> None:
        if waiting := self.under_way():
            made = waiting[at % len(waiting)]
            made.is_given_up = True
            made.future.cancel()

    # -- servers and config ----------------------------------------------------------------------

    @rule(server=SERVERS)
    def hang_up(self, server: str) -> None:
        self.portal.call(self.servers[server].hang_up)

    @rule(server=SERVERS, era=SERVERS)
    def change_era(self, server: str, era: str) -> None:
        """Have another version of a server take its place."""
        self.servers[server].eras = ERAS[era]
        self.portal.call(self.servers[server].hang_up)

    @rule(server=SERVERS)
    def change_list(self, server: str) -> None:
        self.count += 1
        self.portal.call(self.servers[server].change, tool("feed"), tool(f"other_{self.count}"))

    @rule(options=st.sampled_from(OPTIONS), seconds=st.integers(100, 103))
    def reload(self, options: JsonObject, seconds: int) -> None:
        self.options = options
        loaded = self.portal.call(self.world.reload, self.config(call_max_s=seconds))
        assert not loaded.failure

    @rule()
    def settle(self) -> None:
        self.portal.call(settled)

    # -- what always holds -----------------------------------------------------------------------

    def questions(self) -> list[tuple[Person, Question]]:
        return [(person, each) for person in self.people for each in person.asked if not each.answered.is_set()]

    def under_way(self) -> list[Made]:
        return [each for person in self.people for each in person.calls if self.is_under_way(each)]

    @invariant()
    def nobody_is_asked_what_is_not_theirs_and_no_answer_is_another_s(self) -> None:
        if not hasattr(self, "people"):
            return
        for person in self.people:
            assert person.wrong == []
            for made in person.calls:
                self.check(person, made)
        for key, answer in dict(self.asking.answers).items():
            name = key.partition("/")[0]
            assert answer in ("decline", "cancel", f"{name} says {key}") or answer.startswith("error: "), (key, answer)

    def check(self, person: Person, made: Made) -> None:
        if made.outcome is None or made.outcome.startswith("error: "):
            return
        told = json.loads(made.outcome)
        assert told["key"] == made.key
        assert [*told["answers"]] == made.keys

    def teardown(self) -> None:
        with self.stack:
            if not hasattr(self, "people"):
                return
            try:
                self.portal.call(self.end_all)
            finally:
                for made in (each for person in self.people for each in person.calls):
                    made.future.cancel()
            self.nobody_is_asked_what_is_not_theirs_and_no_answer_is_another_s()

    async def end_all(self) -> None:
        """Answer all that is asked until every call has ended."""

        def is_over() -> bool:
            for person, question in self.questions():
                question.answer = f"{person.name} says {question.key}"
                question.answered.set()
            return not any(self.is_under_way(made) for person in self.people for made in person.calls)

        await until(is_over)
        ending = {
            key for each in self.people for made in each.calls if self.is_awaited(each, made) for key in made.keys
        }
        await until(lambda: not self.asking.open & ending)
        for person in self.people:
            for made in person.calls:
                self.check(person, made)

    def is_under_way(self, made: Made) -> bool:
        return made.outcome is None and not made.is_given_up

    def is_awaited(self, person: Person, made: Made) -> bool:
        """Return whether the questions of a call end before the time for an answer is over.

        Who has no session is asked by the result of a call, and nobody says so if they then give that call up. So its
        own question waits for its answer as long as it may; those of other calls do not.
        """
        return not (person.is_modern and made.is_given_up) or self.answer_s < max(ANSWER_S)
