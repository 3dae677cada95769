"""The examples of docs/python.md run as they stand there, and print what they say. ``test_recipes.py`` runs recipes."""

import ast
import inspect
import io
import re
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fakes.menu import FakeServer, tool
from serve.served import write_config
from toolcrib.gateway.runtime import Runtime

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python.md"
EXAMPLES = re.findall(r"(?<!-->\n)```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
SAID = re.compile(r"print\(.*\)  # (.*)")


async def test_each_example_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    weather = FakeServer(tmp_path, "weather", tools=[tool("forecast", "Tells the weather in a city.")])
    write_config(tmp_path, weather).rename(tmp_path / "mcp.json")
    monkeypatch.chdir(tmp_path)
    # No check of arguments runs out of time, however busy the machine: the call would go through.
    monkeypatch.setattr("toolcrib.library.crib.Runtime", partial(Runtime, clock=lambda: 0.0))
    names: dict[str, Any] = {"__name__": "examples"}
    for example in EXAMPLES:
        code = compile(example, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        printed = io.StringIO()
        with redirect_stdout(printed):
            running = eval(code, names)
            if inspect.isawaitable(running):
                await running
        assert printed.getvalue().splitlines() == SAID.findall(example)
    async with names["lifespan"](names["app"]):
        assert [route.path for route in names["app"].routes] == ["/mcp"]


def test_there_are_examples_that_say_what_they_print():
    assert len([each for each in EXAMPLES if SAID.search(each)]) >= 4
