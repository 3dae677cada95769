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
from typing import Any

import anyio

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


FRAMEWORKS: dict[str, Callable[[Script], dict[str, Any]]] = {"langchain-mcp-adapters": langchain}
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
