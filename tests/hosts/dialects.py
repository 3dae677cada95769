"""The four APIs in which hosts speak to a model: what a request offers and carries, and how one turn is answered.

Knows JSON bodies and server-sent events; never knows a host, a script, or the network.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, cast

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """A turn of the model: call a tool by the name under which the host offers it.

    Only in Responses: a tool may stand in a ``namespace``, take a ``program`` instead of arguments, or be the
    ``search`` that the API itself knows of.
    """

    tool: str
    arguments: JsonObject = field(default_factory=dict[str, Any])
    namespace: str | None = None
    kind: Literal["function", "program", "search"] = "function"
    program: str = ""


@dataclass(frozen=True, slots=True)
class Say:
    """A turn of the model: say this, and be done."""

    text: str


Turn = Call | Say
OUTPUTS = ("function_call_output", "custom_tool_call_output", "tool_search_output")
RESULTS = ("tool_result", *OUTPUTS)
"""The types of blocks and items that carry results, in Messages and in Responses."""


class Dialect(Protocol):
    """One API."""

    def tools(self, body: JsonObject) -> list[JsonObject]:
        """Return the definitions that a request offers, in order, as they are."""
        ...

    def results(self, body: JsonObject) -> list[str]:
        """Return what the model is given of each of its calls, in order."""
        ...

    def wants_stream(self, path: str, body: JsonObject) -> bool:
        """Tell whether a request is to be answered with :meth:`stream`."""
        ...

    def stream(self, turn: Turn, key: str) -> bytes:
        """Return a turn as server-sent events; ``key`` tells its ids from those of other turns."""
        ...

    def whole(self, turn: Turn, key: str) -> JsonObject:
        """Return a turn as one object."""
        ...


def read_by_model(content: Any) -> str:
    """Return content as a model reads it: text as it is, blocks one after the other, anything else as JSON."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(map(read_by_model, cast("list[Any]", content)))
    if isinstance(content, dict) and "text" in content:
        return cast("JsonObject", content)["text"]
    return json.dumps(content, ensure_ascii=False)


def strings_but_results(value: Any) -> Iterator[str]:
    """Yield every string in a request that is no key, leaving out the results of calls."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in cast("list[Any]", value):
            yield from strings_but_results(one)
    elif isinstance(value, dict):
        inner = cast("JsonObject", value)
        if inner.get("type") not in RESULTS and inner.get("role") != "tool" and "functionResponse" not in inner:
            yield from strings_but_results(list(inner.values()))


def tool_names(tools: Iterable[JsonObject]) -> list[str]:
    """Return the names under which tools are offered; those in a namespace as ``namespace.name``."""
    names: list[str] = []
    for tool in tools:
        name = tool.get("name") or tool.get("function", {}).get("name") or tool["type"]
        inner = tool_names(tool.get("tools", []))
        names += [f"{name}.{one}" for one in inner] or [name]
    return names


def _events(messages: Iterable[JsonObject], *, typed: bool) -> bytes:
    lines = (
        (f"event: {message['type']}\n" if typed else "") + f"data: {json.dumps(message)}\n\n" for message in messages
    )
    return "".join(lines).encode()


class Messages:
    """Anthropic's Messages."""

    def tools(self, body: JsonObject) -> list[JsonObject]:
        return body.get("tools", [])

    def results(self, body: JsonObject) -> list[str]:
        contents = (message["content"] for message in body["messages"] if not isinstance(message["content"], str))
        blocks = (block for content in contents for block in content if block["type"] == "tool_result")
        return [read_by_model(block.get("content", "")) for block in blocks]

    def wants_stream(self, path: str, body: JsonObject) -> bool:
        return bool(body.get("stream"))

    def stream(self, turn: Turn, key: str) -> bytes:
        return _events(self._stream(turn, key), typed=True)

    def _stream(self, turn: Turn, key: str) -> Iterator[JsonObject]:
        whole = self.whole(turn, key)
        [block] = whole["content"]
        if isinstance(turn, Call):
            begun: JsonObject = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(turn.arguments)}
        else:
            begun, delta = {**block, "text": ""}, {"type": "text_delta", "text": turn.text}
        ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        yield {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}
        yield {"type": "content_block_start", "index": 0, "content_block": begun}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
        yield {"type": "content_block_stop", "index": 0}
        yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 1}}
        yield {"type": "message_stop"}

    def whole(self, turn: Turn, key: str) -> JsonObject:
        if isinstance(turn, Call):
            block = {"type": "tool_use", "id": f"toolu_{key}", "name": turn.tool, "input": turn.arguments}
        else:
            block = {"type": "text", "text": turn.text}
        return {
            "id": f"msg_{key}",
            "type": "message",
            "role": "assistant",
            "model": "scripted",
            "content": [block],
            "stop_reason": "tool_use" if isinstance(turn, Call) else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }


class Responses:
    """OpenAI's Responses. Codex puts tools into the input too, so that they can be added later."""

    def tools(self, body: JsonObject) -> list[JsonObject]:
        added = [tool for item in body["input"] if item.get("type") == "additional_tools" for tool in item["tools"]]
        return body.get("tools", []) + added

    def results(self, body: JsonObject) -> list[str]:
        items = (item for item in body["input"] if item.get("type") in OUTPUTS)
        return [read_by_model(item.get("output", item.get("tools"))) for item in items]

    def wants_stream(self, path: str, body: JsonObject) -> bool:
        return bool(body.get("stream"))

    def stream(self, turn: Turn, key: str) -> bytes:
        return _events(self._stream(turn, key), typed=True)

    def _stream(self, turn: Turn, key: str) -> Iterator[JsonObject]:
        whole = self.whole(turn, key)
        [item] = whole["output"]
        yield {"type": "response.created", "response": {**whole, "output": [], "status": "in_progress"}}
        yield {"type": "response.output_item.added", "output_index": 0, "item": item}
        if isinstance(turn, Say):
            where = {"item_id": item["id"], "output_index": 0, "content_index": 0}
            yield {"type": "response.output_text.delta", **where, "delta": turn.text}
        yield {"type": "response.output_item.done", "output_index": 0, "item": item}
        yield {"type": "response.completed", "response": whole}

    def whole(self, turn: Turn, key: str) -> JsonObject:
        item = {"id": f"item_{key}", **self._item(turn, key)}
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        return {"id": f"resp_{key}", "object": "response", "status": "completed", "output": [item], "usage": usage}

    def _item(self, turn: Turn, key: str) -> JsonObject:
        if isinstance(turn, Say):
            content = [{"type": "output_text", "text": turn.text}]
            return {"type": "message", "role": "assistant", "content": content}
        called = {"call_id": f"call_{key}", "name": turn.tool}
        if turn.kind == "program":
            return {"type": "custom_tool_call", **called, "input": turn.program}
        if turn.kind == "search":
            return {"type": "tool_search_call", **called, "execution": "client", "arguments": turn.arguments}
        within = {} if turn.namespace is None else {"namespace": turn.namespace}
        return {"type": "function_call", **called, **within, "arguments": json.dumps(turn.arguments)}


class ChatCompletions:
    """OpenAI's Chat Completions, which most providers speak."""

    def tools(self, body: JsonObject) -> list[JsonObject]:
        return body.get("tools") or []

    def results(self, body: JsonObject) -> list[str]:
        return [read_by_model(message["content"]) for message in body["messages"] if message["role"] == "tool"]

    def wants_stream(self, path: str, body: JsonObject) -> bool:
        return bool(body.get("stream"))

    def stream(self, turn: Turn, key: str) -> bytes:
        return _events(self._stream(turn, key), typed=False) + b"data: [DONE]\n\n"

    def _stream(self, turn: Turn, key: str) -> Iterator[JsonObject]:
        """Yield a call's name before its arguments: one host loses a call that comes in one piece."""
        message = self._message(turn, key)
        deltas = [message]
        if isinstance(turn, Call):
            [call] = message["tool_calls"]
            named = {**call, "index": 0, "function": {"name": turn.tool, "arguments": ""}}
            filled = {"index": 0, "function": {"arguments": call["function"]["arguments"]}}
            deltas = [{**message, "tool_calls": [named]}, {"tool_calls": [filled]}]
        for delta in deltas:
            yield self._about("chat.completion.chunk", key, {"index": 0, "delta": delta, "finish_reason": None})
        ended: JsonObject = {"index": 0, "delta": {}, "finish_reason": _reason(turn)}
        yield self._about("chat.completion.chunk", key, ended)
        yield {**self._about("chat.completion.chunk", key), "usage": self._usage()}

    def whole(self, turn: Turn, key: str) -> JsonObject:
        choice = {"index": 0, "message": self._message(turn, key), "finish_reason": _reason(turn)}
        return {**self._about("chat.completion", key, choice), "usage": self._usage()}

    def _message(self, turn: Turn, key: str) -> JsonObject:
        if isinstance(turn, Say):
            return {"role": "assistant", "content": turn.text}
        function = {"name": turn.tool, "arguments": json.dumps(turn.arguments)}
        return {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"call_{key}", "type": "function", "function": function}],
        }

    def _about(self, kind: str, key: str, *choices: JsonObject) -> JsonObject:
        return {"id": f"chat_{key}", "object": kind, "created": 0, "model": "scripted", "choices": choices}

    def _usage(self) -> JsonObject:
        return {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


def _reason(turn: Turn) -> str:
    return "tool_calls" if isinstance(turn, Call) else "stop"


class GenerateContent:
    """Gemini's generateContent and streamGenerateContent."""

    def tools(self, body: JsonObject) -> list[JsonObject]:
        return [tool for group in body.get("tools", []) for tool in group.get("functionDeclarations", [])]

    def results(self, body: JsonObject) -> list[str]:
        parts = (part for content in body["contents"] for part in content["parts"])
        answers = (part["functionResponse"]["response"] for part in parts if "functionResponse" in part)
        return [read_by_model(answer.get("output", answer)) for answer in answers]

    def wants_stream(self, path: str, body: JsonObject) -> bool:
        return path.endswith(":streamGenerateContent")

    def stream(self, turn: Turn, key: str) -> bytes:
        return _events([self.whole(turn, key)], typed=False)

    def whole(self, turn: Turn, key: str) -> JsonObject:
        if isinstance(turn, Call):
            part = {"functionCall": {"id": f"call_{key}", "name": turn.tool, "args": turn.arguments}}
        else:
            part = {"text": turn.text}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted"}


DIALECTS: Mapping[str, Dialect] = {
    "/messages": Messages(),
    "/responses": Responses(),
    "/chat/completions": ChatCompletions(),
    ":generateContent": GenerateContent(),
    ":streamGenerateContent": GenerateContent(),
}
"""By the end of the path that a request is posted to."""
