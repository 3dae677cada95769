"""The scripted model: the same turns in every API, one after the other, and nothing for anybody else."""

import http.client
import json
from collections.abc import Callable, Generator
from urllib.parse import urlsplit

import pytest

from hosts.dialects import Call, JsonObject, Say
from hosts.model_api import Model, Script, serving

ARGUMENTS = {"city": "Bern"}
ANSWER = "It is sunny."


@pytest.fixture
def model() -> Generator[Model]:
    script = Script([Call("forecast", ARGUMENTS), Say("It is.")], {"allow": Call("allow", {"yes": True})})
    with serving(script) as running:
        yield running


def post(model: Model, path: str, body: JsonObject, method: str = "POST") -> tuple[int, str]:
    connection = http.client.HTTPConnection(urlsplit(model.url).netloc, timeout=5)
    try:
        connection.request(method, path, json.dumps(body))
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def messages(tools: list[str], answers: list[str]) -> JsonObject:
    results = [
        {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": one}]} for one in answers
    ]
    said = [{"role": "user", "content": "Hi."}, {"role": "user", "content": results}]
    return {"tools": [{"name": name} for name in tools], "messages": said}


def responses(tools: list[str], answers: list[str]) -> JsonObject:
    results = [{"type": "function_call_output", "call_id": "1", "output": one} for one in answers]
    return {"tools": [{"type": "function", "name": name} for name in tools], "input": results}


def chat(tools: list[str], answers: list[str]) -> JsonObject:
    results = [{"role": "tool", "tool_call_id": "1", "content": one} for one in answers]
    offered = [{"type": "function", "function": {"name": name}} for name in tools]
    return {"tools": offered, "messages": [{"role": "user", "content": "Hi."}, *results]}


def gemini(tools: list[str], answers: list[str]) -> JsonObject:
    parts = [{"functionResponse": {"name": "forecast", "response": {"output": one}}} for one in answers]
    offered = [{"functionDeclarations": [{"name": name} for name in tools]}] if tools else []
    return {"tools": offered, "contents": [{"role": "user", "parts": [{"text": "Hi."}, *parts]}]}


Body = Callable[[list[str], list[str]], JsonObject]
APIS = pytest.mark.parametrize(
    ("path", "streaming", "body"),
    [
        ("/v1/messages", "/v1/messages", messages),
        ("/v1/responses", "/v1/responses", responses),
        ("/v1/chat/completions", "/v1/chat/completions", chat),
        ("/v1beta/models/m:generateContent", "/v1beta/models/m:streamGenerateContent?alt=sse", gemini),
    ],
)


@APIS
def test_a_turn_is_said_whole_or_as_a_stream(model: Model, path: str, streaming: str, body: Body):
    status, whole = post(model, path, body(["forecast"], []))
    assert status == 200
    assert "Bern" in whole
    json.loads(whole)
    _, stream = post(model, streaming, {**body(["forecast"], []), "stream": True})
    lines = [line.removeprefix("data: ") for line in stream.splitlines() if line.startswith("data: {")]
    assert lines
    assert "Bern" in "".join(lines)
    assert all(isinstance(json.loads(line), dict) for line in lines)


@APIS
def test_the_turn_is_the_one_after_the_results_that_are_in(model: Model, path: str, streaming: str, body: Body):
    for answers, said in ([], "forecast"), ([], "forecast"), ([ANSWER], "It is."), ([ANSWER, ANSWER], "Done."):
        assert said in post(model, path, body(["forecast"], answers))[1]
    assert [asked.results for asked in model.asked] == [[], [], [ANSWER], [ANSWER, ANSWER]]


@APIS
def test_a_question_of_the_hosts_own_is_no_turn(model: Model, path: str, streaming: str, body: Body):
    assert "Done." in post(model, path, body([], []))[1]
    assert "yes" in post(model, path, body(["allow"], []))[1]
    assert len(model.aside) == 2
    assert model.asked == []


def test_what_is_meant_for_others_is_refused_and_kept(model: Model):
    assert post(model, "http://example.com/v1/messages", {})[0] == 403
    assert post(model, "example.com:443", {}, method="CONNECT")[0] == 403
    assert post(model, "/v1/models", {}, method="GET")[0] == 404
    assert model.elsewhere == ["http://example.com/v1/messages", "example.com:443"]


def test_a_request_that_is_not_understood_is_a_fault(model: Model):
    with pytest.raises(http.client.RemoteDisconnected):
        post(model, "/v1/messages", {"tools": [{"name": "forecast"}]})
    assert model.faults == ["KeyError('messages')"]
