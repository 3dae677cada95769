"""One run of one host: toolcrib behind it, a scripted model before it, nobody else; and what was seen of it.

A run has a home of its own, a deadline, and leaves no process behind.
"""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from e2e.crib import serve, write_config
from e2e.npm import Npm
from fakes.menu import FakeServer, tool
from hosts.dialects import JsonObject, strings_but_results
from hosts.launching import HOSTS, Host, Launch, Place
from hosts.model_api import Asked, Model, Script, serving

RUN_S = 60
"""How long a host may take; ten seconds are usual, thirty where other work goes on."""

READ_ONLY: JsonObject = {"annotations": {"readOnlyHint": True}}
TICKETS = [
    tool("list_tickets", "List the tickets of a project, newest first.", {"project": "string"}, **READ_ONLY),
    tool("get_ticket", "Get one ticket with its comments.", {"id": "integer"}, ["id"], **READ_ONLY),
    tool("search_tickets", "Search the tickets of all projects by words.", {"query": "string"}, **READ_ONLY),
    tool("create_ticket", "Create a ticket in a project.", {"project": "string", "title": "string"}, ["title"]),
    tool("close_ticket", "Close a ticket for good.", {"id": "integer"}, ["id"]),
]
WEATHER = [tool("forecast", "Tell the weather of the next days in a city.", {"city": "string"}, **READ_ONLY)]

USED = "tickets__list_tickets"
"""A read-only tool, which each step below but for the first and the last calls in another way."""

Step = tuple[str, JsonObject]
"""A call of a tool of toolcrib's list, with arguments."""
Steps = Mapping[str, Step | Callable[[str], Step]]
"""What a model calls, one after the other; a step may depend on what the model got of the one before it."""

STEPS: Mapping[str, Step] = {
    "search": ("tool_search", {"query": "list the tickets of a project", "limit": 5}),
    "read": ("tool_call_read", {"name": USED, "arguments": {"project": "read"}}),
    "call": ("tool_call", {"name": USED, "arguments": {"project": "call"}}),
    "own name": (USED, {"project": "own name"}),
    "skill": ("skill_get", {"names": ["pack.core.fill-a-web-form"]}),
}
"""What the model does, one call after the other, whatever comes of it."""


@dataclass(frozen=True, slots=True)
class Crib:
    """What stands behind a host, in a folder of its own: a toolcrib with small servers, or one of these alone."""

    folder: Path
    command: list[str]
    tickets: FakeServer


@dataclass(frozen=True, slots=True)
class Run:
    """What was seen of a host: by its model, by a server behind toolcrib, and by whoever started it.

    ``ran`` are the steps whose call arrived at the server.
    """

    host: Host
    folder: Path
    model: Model
    exit_code: int | None
    said: str
    seconds: float
    ran: frozenset[str]
    steps: Steps = field(default_factory=lambda: STEPS)

    @property
    def answers(self) -> dict[str, str]:
        """What the model was given of each step, and of the host's own search under "own search"."""
        steps = ["own search", *self.steps] if self.host.own_search else list(self.steps)
        results = max((asked.results for asked in self.model.asked), key=len, default=list[str]())
        return dict(zip(steps, results, strict=False))

    @property
    def before(self) -> Asked:
        """The request that the first step answers; the host's own search, if it has one, is behind it."""
        return next(asked for asked in self.model.asked if len(asked.results) == bool(self.host.own_search))

    @property
    def prompt(self) -> str:
        """All that the model reads before the first step, but for the paths of this run."""
        return "\n".join(strings_but_results(self.before.body)).replace(str(self.folder), "")

    @property
    def heads(self) -> list[str]:
        """The tools of each request that stand at the head of its prompt: all but those marked to be loaded later."""
        arrays = ([tool for tool in asked.tools if not tool.get("defer_loading")] for asked in self.model.asked)
        return [json.dumps(array) for array in arrays]


def installed(folder: Path, package: str) -> str | None:
    """Return which version of a host is installed as ``package@version``, or ``None``."""
    file = folder / package / "installed.txt"
    return file.read_text().strip() if file.exists() else None


def hosts_folder(environ: Mapping[str, str]) -> Path:
    """Return where ``scripts/install-hosts`` puts the hosts."""
    cache = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(environ.get("TOOLCRIB_HOSTS_DIR") or cache / "toolcrib-ci" / "hosts")


def crib(folder: Path, toolcrib: JsonObject, *options: str) -> Crib:
    """Make a config in a new folder."""
    folder.mkdir(parents=True)
    tickets = FakeServer(folder, "tickets", tools=TICKETS)
    weather = FakeServer(folder, "weather", tools=WEATHER)
    config = write_config(folder, {"tickets": tickets.entry(), "weather": weather.entry()}, **toolcrib)
    return Crib(folder, serve(config, *options), tickets)


def script_of(host: Host, steps: Steps = STEPS) -> Script:
    """Return what the model says in this host."""
    calls = [
        (lambda results, step=step: host.call(*step(results[-1]))) if callable(step) else host.call(*step)
        for step in steps.values()
    ]
    return Script([host.own_search, *calls] if host.own_search else calls, host.asides)


def run(name: str, npm: Npm, programs: Path, behind: Crib, *, approved: bool, steps: Steps = STEPS) -> Run:
    """Run a host once in ``behind``'s folder, with the line for its approvals or at its defaults."""
    host, home, project = HOSTS[name], behind.folder / "home", behind.folder / "project"
    for made in (home / "tmp", project):
        made.mkdir(parents=True)
    with serving(script_of(host, steps)) as model:
        launch = host.launch(Place(home, project, model.url, behind.command, approved))
        command = [str(programs / host.package / "node_modules" / ".bin" / launch.program), *launch.arguments]
        started = monotonic()
        exit_code, said = _ended(command, _environment(npm, home, model, launch), project)
        seconds = monotonic() - started
    shutil.rmtree(home, ignore_errors=True)  # a host may keep hundreds of megabytes there
    ran = frozenset(call["arguments"]["project"] for call in behind.tickets.calls("list_tickets"))
    return Run(host, behind.folder, model, exit_code, said, seconds, ran, steps)


def _environment(npm: Npm, home: Path, model: Model, launch: Launch) -> dict[str, str]:
    """Return a whole environment: nothing of this process's own, and a proxy that refuses everything."""
    return {
        "PATH": f"{npm.node.parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "TMPDIR": str(home / "tmp"),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), model.url),
        **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost"),
        **launch.environ,
    }


def _ended(command: list[str], environ: dict[str, str], project: Path) -> tuple[int | None, str]:
    """Run a command to its end or its deadline, and end what it leaves behind. Return its exit code and output."""
    output = project.parent / "output.txt"
    with output.open("wb") as file:
        process = subprocess.Popen(
            command,
            env=environ,
            cwd=project,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
        with suppress(subprocess.TimeoutExpired):
            process.wait(RUN_S)
    exit_code = process.poll()
    for pid in _started_in(environ["HOME"]):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.kill()
    process.wait()
    return exit_code, output.read_text(errors="replace")


def _started_in(home: str) -> list[int]:
    """Return the processes that have this home directory, those in sessions of their own too."""
    found: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"HOME={home}".encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
    return found
