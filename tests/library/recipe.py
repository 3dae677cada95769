# pyright: basic, reportMissingImports=false, reportUnknownMemberType=false
"""Runs a recipe of docs/python.md in the environment of its framework, with a model that follows a script.

``python recipe.py FRAMEWORK < RECIPE`` prints as JSON what tools have told the model, and what the recipe has printed.
The model searches for a tool, calls what it found, and answers with what that returned.
"""

import ast
import inspect
import io
import json
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from typing import Any

import anyio
from pydantic import TypeAdapter

RAIN = "Rain from noon on."

Step = tuple[str, dict[str, Any]] | str
"""A tool to call and its arguments, or the answer."""


class Script:
    """What the model does; ``told`` is what tools have told it."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def step(self, told: Sequence[str]) -> Step:
        self.told = list(told)
        if not told:
            return "tool_search", {"query": "will it rain in a city"}
        if len(told) == 1:
            found = re.search(r"\w+__\w+", told[0])
            assert found, told[0]
            return "tool_call", {"name": found[0], "arguments": {"city": "Oslo"}}
        return f"The forecast: {told[-1]}"


def langchain(script: Script) -> dict[str, Any]:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, ToolMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    class Scripted(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "scripted"

        def bind_tools(self, tools, **_more):
            return self

        def _generate(self, messages, stop=None, run_manager=None, **_more):
            step = script.step([message.text for message in messages if isinstance(message, ToolMessage)])
            if isinstance(step, str):
                message = AIMessage(step)
            else:
                calls = [{"name": step[0], "args": step[1], "id": f"call-{len(script.told)}", "type": "tool_call"}]
                message = AIMessage("", tool_calls=calls)
            return ChatResult(generations=[ChatGeneration(message=message)])

    return {"model": Scripted()}


def weather__forecast(city: str) -> str:
    """Tell the weather of the next days in a city."""
    return RAIN if city == "Oslo" else "Sun."


def add_note(text: str) -> str:
    """Write a note down."""
    return text


FUNCTIONS = [weather__forecast, add_note]
"""What a program has of its own."""


def pydantic_ai(script: Script) -> dict[str, Any]:
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import FunctionModel

    def respond(messages, info):
        parts = [part for message in messages for part in message.parts]
        step = script.step([part.model_response_str() for part in parts if isinstance(part, ToolReturnPart)])
        offered = {tool.name for tool in info.function_tools}
        if isinstance(step, str):
            return ModelResponse(parts=[TextPart(step)])
        if "search_tools" in offered:
            step = ("search_tools", {"queries": [step[1]["query"]]}) if step[0] == "tool_search" else direct(step)
        assert step[0] in offered
        return ModelResponse(parts=[ToolCallPart(*step)])

    return {"model": FunctionModel(respond), "functions": FUNCTIONS}


def openai_agents(script: Script) -> dict[str, Any]:
    from agents import set_tracing_disabled
    from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call

    def respond(call):
        told = [item["output"] for item in call.input if item.get("type") == "function_call_output"]
        step = script.step([output if isinstance(output, str) else output["text"] for output in told])
        if isinstance(step, str):
            return ModelStep(output=[assistant_message(step)])
        return ModelStep(output=[function_call(step[0], json.dumps(step[1]), call_id=f"call-{len(told)}")])

    set_tracing_disabled(True)
    return {"model": ScriptedModel([ModelStep(responder=respond) for _ in range(3)])}


def fastmcp(script: Script) -> dict[str, Any]:
    """Give an application with tools; while it runs, a client of it does what the model would."""
    from fastmcp import Client, FastMCP

    class Application(FastMCP):
        async def run_async(self, *_arguments, **_options) -> None:
            await ask(self)

    app = Application("app")

    for function in FUNCTIONS:
        app.tool(function)

    async def ask(app: FastMCP) -> None:
        told: list[str] = []
        async with Client(app) as client:
            listed = {tool.name for tool in await client.list_tools()}
            search, call = ("tool_search", "tool_call") if "tool_search" in listed else ("search_tools", "call_tool")
            while not isinstance(step := script.step(told), str):
                name = search if step[0] == "tool_search" else call
                told.append((await client.call_tool(name, step[1])).content[0].text)
        print(step)

    return {"app": app}


def anthropic(script: Script) -> dict[str, Any]:
    from anthropic import AsyncAnthropic
    from anthropic.types import MessageParam, ToolUnionParam

    def respond(body: dict[str, Any]) -> dict[str, Any]:
        tools = TypeAdapter(list[ToolUnionParam]).dump_python(body["tools"])
        TypeAdapter(list[MessageParam]).validate_python(body["messages"])
        deferred = {tool["name"] for tool in tools if tool.get("defer_loading")}
        blocks = [
            block for message in body["messages"][1:] if message["role"] == "user" for block in message["content"]
        ]
        referred = [each["tool_name"] for block in blocks for each in block["content"] if "tool_name" in each]
        assert deferred.issuperset(referred), "the API refuses references to tools that were not given"
        assert all(block["tool_use_id"] == f"toolu_{number}" for number, block in enumerate(blocks))
        told = [" ".join(each.get("text") or each["tool_name"] for each in block["content"]) for block in blocks]
        step = direct(script.step(told))
        said = {"type": "text", "text": step}
        used = {"type": "tool_use", "id": f"toolu_{len(told)}", "name": step[0], "input": step[1]}
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [said if isinstance(step, str) else used],
            "stop_reason": "end_turn" if isinstance(step, str) else "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }

    return {"client": AsyncAnthropic(api_key="none", http_client=answering(respond, "httpx2")), "model": "scripted"}


def openai(script: Script) -> dict[str, Any]:
    from openai import AsyncOpenAI
    from openai.types.responses import ResponseInputItemParam, ToolParam

    def respond(body: dict[str, Any]) -> dict[str, Any]:
        TypeAdapter(list[ToolParam]).validate_python(body["tools"])
        TypeAdapter(list[ResponseInputItemParam]).validate_python(body["input"])
        answers = [item for item in body["input"] if item.get("type", "").endswith("_output")]
        told = [
            " ".join(each.get("text") or each["name"] for each in item.get("output") or item["tools"])
            for item in answers
        ]
        step = direct(script.step(told))
        call = {"call_id": f"call_{len(told)}", "id": f"item_{len(told)}", "status": "completed"}
        if isinstance(step, str):
            text = {"type": "output_text", "text": step, "annotations": []}
            item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
        elif step[0] == "tool_search":
            item = {"type": "tool_search_call", "execution": "client", "arguments": step[1], **call}
        else:
            assert step[0] in told[0]
            item = {"type": "function_call", "name": step[0], "arguments": json.dumps(step[1]), **call}
        return {
            "id": "resp_1",
            "object": "response",
            "created_at": 0,
            "model": body["model"],
            "output": [item],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }

    return {"client": AsyncOpenAI(api_key="none", http_client=answering(respond, "httpx")), "model": "scripted"}


def direct(step: Step) -> Step:
    """Return a step as a model does it that has the tool it has found."""
    return step if isinstance(step, str) or step[0] != "tool_call" else (step[1]["name"], step[1]["arguments"])


def answering(respond: Callable[[dict[str, Any]], dict[str, Any]], package: str) -> Any:
    """Return a client of HTTP, of the package that an SDK wants, that answers each request by a function."""
    httpx = import_module(package)

    def handle(request: Any) -> Any:
        return httpx.Response(200, json=respond(json.loads(request.content)))

    return httpx.AsyncClient(transport=httpx.MockTransport(handle))


FRAMEWORKS: dict[str, Callable[[Script], dict[str, Any]]] = {
    "anthropic": anthropic,
    "fastmcp-mount": fastmcp,
    "fastmcp-search": fastmcp,
    "langchain": langchain,
    "langchain-mcp-adapters": langchain,
    "openai": openai,
    "openai-agents": openai_agents,
    "pydantic-ai": pydantic_ai,
    "pydantic-ai-search": pydantic_ai,
}
"""What a recipe finds defined, by framework."""


async def run(framework: str, recipe: str) -> dict[str, Any]:
    script, printed = Script(), io.StringIO()
    names = FRAMEWORKS[framework](script)
    code = compile(recipe, framework, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    with redirect_stdout(printed):
        running = eval(code, names)
        if inspect.isawaitable(running):
            await running
    return {"told": script.told, "printed": printed.getvalue()}


if __name__ == "__main__":
    print(json.dumps(anyio.run(run, sys.argv[1], sys.stdin.read())))
