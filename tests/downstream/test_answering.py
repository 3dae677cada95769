"""What a server asks by its results is answered, and its request sent again, until it is done."""

from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import MCPError

from toolcrib.downstream import calls
from toolcrib.downstream.calls import answer_questions

pytestmark = pytest.mark.anyio

JsonObject = dict[str, Any]
DONE: JsonObject = {"resultType": "complete", "content": []}
LATER: JsonObject = {"resultType": "input_required", "requestState": "s"}


def asking(**questions: JsonObject) -> JsonObject:
    return {"resultType": "input_required", "inputRequests": questions}


class Peers:
    """A server that answers each retry with the next of ``results``, and a caller who answers with the method."""

    def __init__(self, *results: JsonObject) -> None:
        self.results = [*results]
        self.retries: list[JsonObject] = []
        self.asked: list[tuple[str, JsonObject]] = []

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        self.asked.append((method, params))
        return {"to": method}

    async def send(self, retry: JsonObject) -> JsonObject:
        self.retries.append(retry)
        return self.results.pop(0)

    async def outcome(self, most: int = 8) -> JsonObject:
        return await answer_questions(self.results.pop(0), self.ask, self.send, most=most)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []

    async def sleep(seconds: float) -> None:
        found.append(seconds)
        await anyio.lowlevel.checkpoint()

    monkeypatch.setattr(calls.anyio, "sleep", sleep)
    return found


async def test_answers_go_back_by_the_names_of_the_questions():
    roots, form = {"method": "roots/list"}, {"method": "elicitation/create", "params": {"message": "Size?"}}
    peers = Peers({**asking(a=roots, b=form), "requestState": "s1"}, DONE)
    assert await peers.outcome() == DONE
    answers = {"a": {"to": "roots/list"}, "b": {"to": "elicitation/create"}}
    assert peers.retries == [{"requestState": "s1", "inputResponses": answers}]
    assert peers.asked == [("roots/list", {}), ("elicitation/create", {"message": "Size?"})]


async def test_the_last_permitted_round_may_be_the_one_that_is_done():
    assert await Peers(LATER, DONE).outcome(most=1) == DONE


async def test_a_server_that_goes_on_asking_is_an_error_that_names_the_limit():
    with pytest.raises(MCPError, match=r"asked 2 times .* \(limits.input_rounds\)"):
        await Peers(LATER, LATER, LATER).outcome(most=2)


async def test_a_server_that_only_wants_a_retry_gets_it_after_longer_and_longer_pauses(pauses: list[float]):
    assert await Peers(*[LATER] * 5, DONE).outcome() == DONE
    assert pauses == [0.05, 0.1, 0.2, 0.25, 0.25]


async def test_a_question_begins_the_pauses_anew(pauses: list[float]):
    question = asking(a={"method": "roots/list"})
    assert await Peers(LATER, LATER, question, LATER, DONE).outcome() == DONE
    assert pauses == [0.05, 0.1, 0.05]


async def test_what_no_client_can_be_asked_ends_the_call():
    peers = Peers(asking(a={"method": "tools/list"}))
    with pytest.raises(MCPError, match="it cannot be asked 'tools/list'") as refused:
        await peers.outcome()
    assert refused.value.error.code == types.METHOD_NOT_FOUND
    assert (peers.asked, peers.retries) == ([], [])


async def test_a_visit_to_an_address_has_an_id_since_the_handshake_era_requires_one():
    visit = {"method": "elicitation/create", "params": {"mode": "url", "url": "https://example.com"}}
    named = {**visit, "params": {**visit["params"], "elicitationId": "own"}}
    form = {"method": "elicitation/create", "params": {"mode": "form"}}
    peers = Peers(asking(a=visit, b=named, c=form), DONE)
    await peers.outcome()
    [first, second, third] = [params.get("elicitationId", "") for _, params in peers.asked]
    assert len(first) > 20
    assert (second, third) == ("own", "")
