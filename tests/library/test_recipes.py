"""Each recipe of docs/python.md lets a framework's agent find a tool and call it, in a dozen lines.

``recipe.py`` runs it in the environment of the framework, as ``scripts/install-frameworks`` makes it.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from fakes.menu import FakeServer, tool
from serve.served import environment, write_config

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
RECIPES = dict(re.findall(r"<!-- recipe: ([\w-]+) -->\n```python\n(.*?)```", PAGE, re.DOTALL))
OWN_ENVIRONMENT = {"langchain-mcp-adapters"}
"""Frameworks that cannot be in one environment with toolcrib, and start it as a process."""


def test_the_environment_of_the_frameworks_has_what_toolcrib_needs():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert pinned("frameworks").keys() >= {
        canonicalize_name(Requirement(each).name) for each in project["dependencies"]
    }


def test_the_page_names_the_versions_that_are_tried():
    versions = {**pinned("langchain-mcp-adapters"), **pinned("frameworks")}
    named = re.findall(
        r"([\w-]+) (\d+\.\d+)", PAGE.partition("tried as they stand here, with ")[2].partition(". Copy")[0]
    )
    assert len(named) == 7
    for name, version in named:
        package = "pydantic-ai-slim" if name == "pydantic-ai" else name
        assert versions[canonicalize_name(package)].startswith(f"{version}."), name


def pinned(environment: str) -> dict[str, str]:
    listed = (ROOT / ".ci" / f"{environment}.txt").read_text(encoding="utf-8").splitlines()
    pins = (line.partition("==") for line in listed if "==" in line)
    return {canonicalize_name(name): version for name, _, version in pins}


def lines(recipe: str) -> list[str]:
    return [line for line in recipe.splitlines() if line.strip() and not line.lstrip().startswith("#")]


@pytest.mark.parametrize("framework", RECIPES)
def test_a_recipe_takes_a_dozen_lines_at_most(framework: str):
    assert len(lines(RECIPES[framework])) <= 12


def python_of(framework: str) -> str:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(os.environ.get("TOOLCRIB_FRAMEWORKS_DIR") or cache / "toolcrib-ci" / "frameworks")
    python = folder / (framework if framework in OWN_ENVIRONMENT else "frameworks") / "bin" / "python"
    if not python.exists():
        pytest.skip("needs the frameworks: run scripts/install-frameworks, or set TOOLCRIB_FRAMEWORKS_DIR")
    return str(python)


@pytest.fixture
def world(tmp_path: Path) -> FakeServer:
    """Write a config with servers of which one knows the weather, and a command ``toolcrib`` of this repository."""
    forecast = tool("forecast", "Tells the weather of the next days in a city.", {"city": "string"}, ["city"])
    rain = {"content": [{"type": "text", "text": "Rain from noon on."}]}
    weather = FakeServer(tmp_path, "weather", tools=[forecast], results={"forecast": rain})
    notes = FakeServer(tmp_path, "notes", tools=[tool("add", "Writes a note down."), tool("list", "Lists all notes.")])
    write_config(tmp_path, weather, notes).rename(tmp_path / "mcp.json")
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "toolcrib"
    # Clients start a server with few variables: what this repository needs stands in the command.
    run = f'PYTHONPATH={ROOT / "server"} exec {sys.executable} -m toolcrib "$@"'
    command.write_text(f"#!/bin/sh\necho started >> {tmp_path / 'starts'}\n{run}\n")
    command.chmod(0o755)
    return weather


@pytest.mark.full(group="frameworks")
@pytest.mark.parametrize("framework", RECIPES)
def test_an_agent_finds_a_tool_and_calls_it(framework: str, world: FakeServer, tmp_path: Path):
    done = subprocess.run(
        [python_of(framework), str(Path(__file__).with_name("recipe.py")), framework],
        input=RECIPES[framework],
        env=environment(
            tmp_path,
            PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}",
            PYTHONPATH=str(ROOT / "server"),
        ),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert "weather__forecast" in seen["told"][0]
    assert seen["printed"] == "The forecast: Rain from noon on.\n"
    if not framework.endswith("-search"):  # there it is over the program's own
        assert [params["arguments"] for params in world.calls()] == [{"city": "Oslo"}]
    starts = tmp_path / "starts"
    assert starts.exists() == (framework in OWN_ENVIRONMENT)
    assert not starts.exists() or starts.read_text() == "started\n", "the session was not kept"


OBJECT = """
from contextlib import asynccontextmanager

import anyio
import fastmcp
import toolcrib

lived = []

@asynccontextmanager
async def lifespan(server):
    lived.append("began")
    yield {}
    lived.append("ended")

server = fastmcp.FastMCP("files", lifespan=lifespan)

@server.tool
def read_file(path: str) -> str:
    return f"content of {path}"

async def main():
    async with toolcrib.open(servers={"files": server}) as crib:
        print((await crib.call("files__read_file", {"path": "x"})).text, *lived)
    print(*lived)

anyio.run(main)
"""


@pytest.mark.full(group="frameworks")
def test_a_server_object_of_fastmcp_is_a_server_of_a_crib_and_lives_as_long(tmp_path: Path):
    run = [python_of("frameworks"), "-c", OBJECT]
    own = environment(tmp_path, PYTHONPATH=str(ROOT / "server"))
    done = subprocess.run(run, env=own, capture_output=True, text=True, timeout=90, check=False)
    assert done.stdout.splitlines() == ["content of x began", "began ended"], done.stderr
