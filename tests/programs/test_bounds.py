"""The bounds of a program, and its end: whatever happens, nothing of it goes on (R388, R389)."""

import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import anyio
import pytest
from repository import ON, configured, git, ran

from fakes.memory import Call, JsonObject, MemoryServer, text
from patience import patience_s
from worlds import DEADLINE_S, ERAS, World, passing, time_passes, until, world

pytestmark = pytest.mark.anyio

READ = "from tools import git__read\n"

LONG_S = 30
"""More seconds than a program here takes, however busy the machine is."""

LATE = "It took too long"


def bound_of(code: str) -> float:
    """Return how long a program may compute: as good as for ever, unless it does so."""
    return 1 if "while" in code or "compute()" in code else LONG_S


class Slow:
    """A tool that does not answer; ``entered`` and ``left`` are its calls."""

    def __init__(self) -> None:
        self.entered, self.left = 0, 0

    async def is_entered(self) -> None:
        """Wait until it is called."""
        await until(lambda: self.entered > 0)

    async def __call__(self, _call: Call) -> None:
        self.entered += 1
        try:
            await anyio.sleep_forever()
        finally:
            self.left += 1


def ended(slow: Slow, server: MemoryServer) -> bool:
    """Return whether the server was told of the end of each call."""
    told = [message["params"] for message in server.received if message["method"] == "notifications/cancelled"]
    return sum(each["requestId"].startswith("call-") for each in told) == slow.entered > 0


ENDS = {
    "success": ("try:\n    await both(fail())\nexcept ToolError:\n    pass\n'done'", "done"),
    "an error": ("await both(divide())", "ZeroDivisionError"),
    "a failed parallel": ("await parallel([git__read(path='a'), fail()])", "ToolError: x"),
    "its time": ("await git__read(path='a')", LATE),
    "computing": ("await both(compute())", "computed for too long"),
}
"""Ways of a program to end while a call of it is under way."""

WAYS = """
import asyncio
from tools import git__read, git__secret
async def both(last): await asyncio.gather(git__read(path='a'), last)
async def fail():
    await git__secret()
    raise ToolError('x')
async def divide():
    await git__secret()
    1 / 0
async def compute():
    await git__secret()
    while True: pass
"""


@pytest.mark.parametrize(("code", "said"), ENDS.values(), ids=ENDS)
async def test_no_call_goes_on_after_the_end(tmp_path, code, said):
    slow = Slow()

    async def secret(_call: Call) -> JsonObject:
        await until(lambda: slow.entered > 0)
        return text("now")

    server = git(read=slow, secret=secret)
    section = configured(timeout_s=DEADLINE_S if said == LATE else LONG_S, compute_s=bound_of(code))
    async with world(tmp_path, {"git": server}, section) as w, w.client() as client:
        await client.tool_call("git__git_log", {"repo": "."})
        async with passing(DEADLINE_S, slow.is_entered) if said == LATE else nullcontext():
            assert said in await ran(client, WAYS + code)
        await until(lambda: ended(slow, w["git"]))


async def test_a_write_that_is_under_way_at_the_end_is_named(tmp_path):
    slow = Slow()
    section = configured(timeout_s=DEADLINE_S, writes="allow")
    code = "from tools import git__write\nawait git__write(path='a')"
    async with world(tmp_path, {"git": git(write=slow)}, section) as w, w.client() as client:
        async with passing(DEADLINE_S, slow.is_entered):
            said = await ran(client, code)
    assert "Calls made: git__write 1 (1 under way). These may have changed something" in said
    assert said.endswith('git__write(path="a") under way')


async def test_a_call_that_is_not_awaited_is_never_made(tmp_path):
    async with world(tmp_path, {"git": git()}, ON) as w, w.client() as client:
        assert await ran(client, READ + "kept = [git__read(path='a')]\n1") == "1"
        assert w["git"].calls() == []


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("code", ["await git__read(path='a')", "while True: pass"], ids=["calling", "computing"])
async def test_a_clients_cancellation_ends_it(tmp_path, era, code):
    slow = Slow()
    async with world(tmp_path, {"git": git(read=slow)}, configured(compute_s=60)) as w, w.client(era) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ran, client, READ + code)
            await until(lambda: bool(workers()) and (slow.entered > 0 or "while" in code))
            tasks.cancel_scope.cancel()
        if slow.entered:
            await until(lambda: ended(slow, w["git"]))
        assert await ran(client, "1") == "1"


def workers() -> list[int]:
    """Return the processes of workers that we have started."""
    return [pid for pid in children(os.getpid()) if b"programs.runner" in _read(pid, "cmdline")]


def children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for thread in threads for child in (thread / "children").read_text().split()]
    except OSError:
        return []


BEYOND = {
    "for n in range(9):\n    await git__read(path='a')": "It made more than 5 calls (programs.calls)",
    "for n in range(9):\n    try: await git__read(path='a')\n    except BaseException: pass": "more than 5 calls",
    "await parallel([git__read(path=str(n)) for n in range(5000)])": "more than 5 calls (programs.calls)",
    "while True: pass": "computed for too long (programs.compute_s)",
    "try:\n    while True: pass\nexcept BaseException:\n    pass\n1": "computed for too long",
    "x = 3\nwhile True: x = x * x": "too",
    "'x' * 300_000_000": "too much memory (programs.memory_bytes)",
    "x = []\nwhile True: x.append('x' * 100_000)": "too",
    "def f(n): return f(n + 1)\nf(0)": "RecursionError",
    "import asyncio\nawait asyncio.sleep(100)": LATE,
    "import time\ntime.sleep(100)": LATE,
    "await git__read(path='x' * 2_000_000)": "longer than 1048576 characters",
    "await parallel([call('git__read', {'path': 'x' * 1_000_000}) for n in range(20)])": "more than 5 calls",
    "d = {}\nfor n in range(400): d = {'a': d}\nawait git__read(path=d)": "ERROR",
}  # fmt: skip


@pytest.mark.parametrize(
    ("code", "said"),
    [
        # It takes seconds until memory is full; of those that compute without end, one is enough here.
        pytest.param(*each, id=str(number), marks=[pytest.mark.slow] if each[1] == "too" or number == 4 else [])
        for number, each in enumerate(BEYOND.items())
    ],
)
async def test_what_goes_beyond_a_bound_ends_with_an_error_that_says_which(tmp_path, code, said):
    section = configured(
        timeout_s=DEADLINE_S if said == LATE else LONG_S,
        compute_s=bound_of(code),
        calls=5,
        memory_bytes=64 * 1024 * 1024,
    )
    async with world(tmp_path, {"git": git()}, section) as w, w.client() as client:
        async with passing(DEADLINE_S) if said == LATE else nullcontext():
            answer = await ran(client, READ + code)
        assert answer.startswith("ERROR")
        assert said in answer
        assert len(answer) < 3000
        assert await ran(client, "'next'") == "next"


async def test_the_arguments_of_calls_under_way_are_bounded_together(tmp_path):
    code = "await parallel([git__read(path='x' * 1_000_000) for n in range(20)])"
    async with world(tmp_path, {"git": git(read=Slow())}, ON) as w, w.client() as client:
        assert "arguments of its calls under way take more than 8388608" in await ran(client, READ + code)


async def test_a_value_is_cut_to_its_tokens_and_says_so(tmp_path):
    async with world(tmp_path, {}, configured(max_tokens=100)) as w, w.client() as client:
        said = await ran(client, "'x' * 100_000")
        assert said.startswith("xxx")
        assert "it has 100000 characters" in said
        assert len(said) < 1000
        assert "cut" not in await ran(client, "'x' * 100")
        assert len(await ran(client, "'x' * 100_000", max_tokens=5000)) < 1000


async def test_what_it_prints_is_cut_and_never_fails_it(tmp_path):
    async with world(tmp_path, {}, configured(printed_bytes=1000)) as w, w.client() as client:
        said = await ran(client, "for n in range(20_000): print('x' * 100)\n'end'")
        assert said.startswith("end\nPrinted:\nxxx")
        assert "it has 2020000 characters" in said
        assert len(said) < 1500


async def test_a_caller_may_ask_for_less_time_but_not_for_more(tmp_path):
    slow = Slow()
    async with (
        world(tmp_path, {"git": git(read=slow)}, configured(timeout_s=2 * DEADLINE_S)) as w,
        w.client() as client,
    ):
        for asked, given in ((DEADLINE_S, DEADLINE_S), (1000, 2 * DEADLINE_S)):
            async with passing(given, slow.is_entered):
                assert LATE in await ran(client, READ + "await git__read(path='a')", timeout_s=asked)
            slow.entered = 0


async def test_a_result_that_is_too_large_for_a_program_is_an_error_in_it(tmp_path):
    async with world(tmp_path, {"git": git(read=text("x" * 5000))}, configured(result_bytes=2000)) as w:
        async with w.client() as client:
            said = await ran(client, READ + "try:\n    await git__read(path='a')\nexcept ToolError as e:\n    print(e)")
    assert said == "The result of git__read is larger than 2000 bytes (programs.result_bytes)."


@pytest.mark.parametrize(("bounds", "key"), [({"runs_per_session": 1}, "runs_per_session"), ({"runs": 1}, "runs")])
async def test_programs_at_the_same_time_are_bounded(tmp_path, bounds, key):
    slow = Slow()
    async with world(tmp_path, {"git": git(read=slow)}, configured(**bounds)) as w, w.client() as client:
        async with w.client() as other, anyio.create_task_group() as tasks:
            tasks.start_soon(ran, client, READ + "await git__read(path='a')")
            await until(lambda: slow.entered == 1)
            second = client if key == "runs_per_session" else other
            assert f"(programs.{key}: 1). Nothing ran" in await ran(second, "1")
            tasks.cancel_scope.cancel()
        while await ran(client, "1") != "1":  # until its end has come to the gateway
            await anyio.sleep(0.01)


async def rest_and_say(world: World, said: list[str]) -> None:
    """Run a program that rests a moment, and add what it came to."""
    async with world.client() as client:
        said.append(await ran(client, "import asyncio\nawait asyncio.sleep(.05)\n1"))


async def test_more_programs_than_workers_take_their_turns(tmp_path):
    said: list[str] = []
    async with world(tmp_path, {}, configured(workers=2)) as w:
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(rest_and_say, w, said)
        assert len(workers()) <= 2
    assert said == ["1"] * 5


async def test_after_a_reload_there_may_be_more_workers(tmp_path):
    said: list[str] = []
    async with world(tmp_path, {}, configured(workers=1)) as w:
        await rest_and_say(w, said)
        await w.reload(configured(workers=3))
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(rest_and_say, w, said)
    assert said == ["1"] * 4


@pytest.mark.skipif(sys.platform != "linux", reason="children are found in /proc")
async def test_workers_start_at_the_first_program_and_stop_when_none_runs(tmp_path):
    async with world(tmp_path, {}, configured(idle_stop_s=DEADLINE_S)) as w, w.client() as client:
        assert workers() == []
        await ran(client, "1")
        assert len(workers()) == 1
        await time_passes(DEADLINE_S)
        await until(lambda: not workers())
        assert await ran(client, "2") == "2"


@pytest.mark.skipif(sys.platform != "linux", reason="children are found in /proc")
async def test_no_worker_outlives_the_gateway(tmp_path):
    async with world(tmp_path, {}, ON) as w, w.client() as client:
        await ran(client, "1")
        assert workers()
    assert workers() == []


@pytest.mark.skipif(sys.platform != "linux", reason="children are found in /proc")
@pytest.mark.parametrize("which", ["interpreter", "runner"])
async def test_a_killed_worker_is_an_error_of_its_program_alone(tmp_path, which):
    async with world(tmp_path, {"git": git()}, ON) as w, w.client() as client:
        said: list[str] = []

        async def run() -> None:
            code = "import asyncio\nawait git__read(path='a')\nwhile True:\n    await asyncio.sleep(.01)"
            said.append(await ran(client, READ + code))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await until(lambda: bool(w["git"].calls()))
            [runner] = workers()
            interpreters = children(runner)
            os.kill(runner if which == "runner" else interpreters[0], 9)
        assert said[0].startswith("ERROR The program failed: The ")
        assert "that ran it has ended" in said[0]
        await until(lambda: not any(map(_is_alive, interpreters)))
        assert await ran(client, "1") == "1"


@pytest.mark.skipif(sys.platform != "linux", reason="environments are read in /proc")
async def test_a_worker_has_nothing_of_our_environment_and_no_stderr_of_ours(tmp_path, capfd):
    os.environ["TOOLCRIB_CANARY"] = "canary"
    try:
        async with world(tmp_path, {}, configured(memory_bytes=32 * 1024 * 1024)) as w, w.client() as client:
            await ran(client, "1")
            [pid] = workers()
            assert not any(b"canary" in _read(each, "environ") for each in (pid, *children(pid)))
            assert "too much memory" in await ran(client, "'x' * 300_000_000")
    finally:
        del os.environ["TOOLCRIB_CANARY"]
    assert capfd.readouterr().err == ""


KILLED = """
import anyio
from toolcrib.config.schema import ProgramsSection
from toolcrib.programs.running import Deadline, Program, Result, Run
from toolcrib.programs.source import read
from toolcrib.programs.workers import Workers

async def told(_): pass

class Host:
    async def call(self, name, arguments, made):
        print("begun", flush=True)
        return Result("text", "")

async def main():
    section = ProgramsSection(compute_s=60)
    async with anyio.create_task_group() as tasks:
        program = Program(read("await call('begun')\\nwhile True: pass", 1000), {})
        run = Run(program, Host(), section, Deadline(60), caller="me", most=100, progress=told)
        await run.run(Workers(tasks))

anyio.run(main)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="children are found in /proc")
def test_no_worker_is_left_after_the_gateway_was_killed():
    with subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        begun = [worker for child in children(process.pid) for worker in (child, *children(child))]
        process.kill()
    assert len(begun) == 2
    anyio.run(_gone, begun)


async def _gone(pids: list[int]) -> None:
    with anyio.fail_after(patience_s(6)):
        while any(_is_alive(pid) for pid in pids):
            await anyio.sleep(0.05)


def _is_alive(pid: int) -> bool:
    state = _read(pid, "stat").rpartition(b")")[2][:3]
    return bool(state) and b"Z" not in state


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
