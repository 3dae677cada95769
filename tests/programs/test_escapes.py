"""Programs that try to reach more than their tools: files, the environment, our process, denied tools (R386, R389)."""

import os
import random
import sys
from itertools import product
from pathlib import Path

import anyio
import pytest
from repository import ON, configured, git, ran
from test_bounds import workers

from fakes.memory import Call, JsonObject, text
from worlds import Client, world

pytestmark = [pytest.mark.anyio, pytest.mark.hostile]

CANARY = "canary-8c1f2e"

MODULES = (
    "os sys subprocess socket ctypes builtins importlib inspect gc io shutil pathlib threading multiprocessing pickle "
    "marshal code codeop runpy pty signal resource mmap fcntl asyncio.subprocess tools toolcrib pydantic_monty"
).split()
VALUES = ("()", "''", "{}", "(lambda: 1)", "print", "call", "search", "ToolError", "git__read", "ToolError('x')", "int")
ATTRIBUTES = (
    "__class__ __bases__ __mro__ __subclasses__ __globals__ __builtins__ __closure__ __code__ __dict__ __reduce__ "
    "__self__ __module__ __wrapped__ gi_frame cr_frame"
).split()


NAMES = (
    *("git__secret", "git.secret", "secret", "GIT__SECRET", "mcp__toolcrib__git__secret"),
    *("git__secret ", " git__secret", "git__secret\x00", "\uff47it__secret", "git__s\u200becret"),
)
"""Spellings of a tool that is denied."""


def attacks(file: Path) -> list[str]:
    """Return programs; each gives back what it has got hold of."""
    read = f"'{file}'"
    direct = [
        *(f"import {name}\nstr({name.partition('.')[0]})" for name in MODULES),
        *(f"from {name} import *\nstr(dir())" for name in MODULES),
        *(f"str(__import__('{name}'))" for name in MODULES[:8]),
        *(f"str({value}.{attribute})" for value, attribute in product(VALUES, ATTRIBUTES)),
        *(f"str(getattr({value}, '{attribute}'))" for value, attribute in product(VALUES, ATTRIBUTES[:8])),
        *(f"'{{0.{attribute}}}'.format({value})" for value, attribute in product(VALUES[:6], ATTRIBUTES[:4])),
        f"open({read}).read()",
        f"import pathlib\npathlib.Path({read}).read_text()",
        f"from pathlib import Path\nstr(list(Path({read}).parent.iterdir()))",
        f"import os\nos.listdir({str(file.parent)!r})",
        f"import os\nstr(os.open({read}, 0))",
        f"import os\nos.symlink({read}, '/a')\nopen('/a').read()",
        "import os\nstr(os.environ)",
        "import os\nos.getenv('TOOLCRIB_CANARY')",
        "import os\nos.environ['TOOLCRIB_CANARY']",
        "import os\nos.system('env')",
        "import os\nos.popen('env').read()",
        "import sys\nstr([sys.argv, sys.path, sys.modules])",
        "import sys\nstr(sys._getframe())",
        "str(globals())",
        "str(vars())",
        "help(call)",
        "breakpoint()",
        "eval('1')",
        "e = eval\ne('1')",
        "exec('x = 1')",
        "compile('1', 'a', 'eval')",
    ]
    denied = [
        "from tools import git__secret\nawait git__secret()",
        "from tools import git__read, git__secret as s\nawait s()",
        *(f"await call({name!r})" for name in NAMES),
        "hits = await search('tell a secret')\nawait call('git__' + 'secret')",
        "hits = await search('secret', 20)\nfor hit in hits:\n    if 'secret' in hit['name']: await call(hit['name'])",
        "c = call\nn = 'git__secret'\nhits = await search('x')\nawait c(n, {})",
        "await toolcrib_call('git__secret', '{}')",
        "if False:\n    toolcrib_call = 1\nawait toolcrib_call('git__secret', '{}')",
        "async def f():\n    global toolcrib_call\n    return await toolcrib_call('git__secret', '{}')\nawait f()",
        "await toolcrib_tool('git__secret')()",
        "if False:\n    toolcrib_tool = 1\nawait toolcrib_tool('git__secret')()",
        "from tools import git__read\nt = git__read\ngit__read = 'git__secret'\nawait t(path='a', name='git__secret')",
        "await call('tool_call', {'name': 'git__secret'})",
        "await call('tool_run', {'code': '1'})",
        "await call('read_more', {'handle': 'x'})",
    ]  # fmt: skip
    forged = [f"await result({'x' * length!r})" for length in (0, 1, 16, 22, 43, 1000)]
    return [*direct, *denied, *forged]


async def test_no_program_gets_hold_of_anything_but_its_tools(tmp_path, monkeypatch):
    monkeypatch.setenv("TOOLCRIB_CANARY", CANARY)
    file = tmp_path / "canary.txt"
    file.write_text(CANARY)
    programs = attacks(file)
    assert len(programs) > 300
    escapes: list[str] = []

    async def tried(client: Client, code: str) -> None:
        said = await ran(client, f"from tools import git__read\n{code}")
        if CANARY in said or "site-packages" in said or str(os.getpid()) in said:
            escapes.append(f"{code!r}: {said}")

    section = configured({"deny": ["git.secret"]}, compute_s=2, timeout_s=10, runs_per_session=8)
    async with world(tmp_path, {"git": git(secret=text(CANARY))}, section) as w, w.client() as client:
        places = anyio.CapacityLimiter(4)

        async def one(code: str) -> None:
            async with places:
                await tried(client, code)

        async with anyio.create_task_group() as tasks:
            for code in programs:
                tasks.start_soon(one, code)
        assert w["git"].calls("secret") == []
        assert await ran(client, "'unhurt'") == "unhurt"
    assert escapes == []


@pytest.mark.skipif(sys.platform != "linux", reason="children are found in /proc")
async def test_workers_killed_at_any_moment_hang_no_session_and_leave_no_process(tmp_path):
    chance, killed = random.Random(7), list[int]()

    async def kill() -> None:
        await anyio.sleep(chance.random() / 20)
        for pid in workers()[:1]:
            os.kill(pid, 9)
            killed.append(pid)

    async def read(_call: Call) -> JsonObject:
        if chance.random() < 0.01:  # so that a slow machine has as many in a program
            tasks.start_soon(kill)
        await anyio.sleep(chance.random() / 200)
        return text("x" * chance.randrange(5000))

    code = "from tools import git__read\nfor n in range(60):\n    await git__read(path=str(n))\n'whole'"
    answers: list[str] = []
    async with world(tmp_path, {"git": git(read=read)}, ON) as w, w.client() as client:
        await ran(client, "1")

        async def run() -> None:
            for _ in range(40):
                if chance.random() < 0.1:
                    tasks.start_soon(kill)
                answers.append(await ran(client, code))

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(run)
        assert len(killed) > 20
        assert {"whole"} < {answer.partition(":")[0] for answer in answers} <= {"whole", "ERROR The program failed"}
        assert await ran(client, "'unhurt'") == "unhurt"
    assert workers() == []


async def test_a_flood_costs_the_gateway_little_memory_and_others_little_time(tmp_path):
    import resource
    import time

    section = configured(compute_s=1, timeout_s=5, memory_bytes=64 * 1024 * 1024)
    floods = (
        "while True: print('x' * 10_000)",
        "a = []\nwhile True: a.append('x' * 1000)",
        "x = 3\nwhile True: x = x * x",
        "await parallel([call('git__read', {'path': 'x' * 2_000_000}) for n in range(150)], errors='return')",
        "a = [1]\nfor n in range(40): a = [a, a]\na",
    )
    async with world(tmp_path, {"git": git()}, section) as w, w.client() as client, w.client() as other:
        await ran(client, "1")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        took: list[float] = []
        async with anyio.create_task_group() as tasks:
            for code in floods[:4]:
                tasks.start_soon(ran, client, code)
            for _ in range(50):
                began = time.perf_counter()
                await other.tool_call("git__git_log", {"repo": "."})
                took.append(time.perf_counter() - began)
        await ran(client, floods[4])
        more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert more < 50, f"{more:.0f} MB more"
    assert sorted(took)[-2] < 1
