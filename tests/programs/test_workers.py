"""What comes from a worker is read in bounded frames; one is used again only when nothing was left half-way."""

import json
import sys
import time
import tracemalloc
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from test_bounds import workers as processes

from toolcrib.config.schema import ProgramsSection
from toolcrib.programs.frames import HEAD, packed
from toolcrib.programs.runner import weight_of
from toolcrib.programs.running import Deadline, Program, Run
from toolcrib.programs.source import read
from toolcrib.programs.workers import Bounds, Ended, HostCall, Worker, WorkerLost, Workers
from waiting import until

pytestmark = pytest.mark.anyio
BOUNDS = Bounds(ProgramsSection(), most=100, held=100)


class Scripted:
    """A process whose output is written here, and whose input nobody reads once ``room`` frames were sent."""

    def __init__(self, output: bytes, room: float = 100) -> None:
        self.stdin, self._input = anyio.create_memory_object_stream[bytes](room)
        sending, self.stdout = anyio.create_memory_object_stream[bytes](1)
        sending.send_nowait(output)
        sending.close()
        self.returncode = None

    def worker(self) -> Worker:
        """Return it as a worker."""
        process: Any = self
        return Worker(process, 100)

    def close(self) -> None:
        """Close its ends."""
        for stream in (self.stdin, self._input, self.stdout):
            stream.close()


NUMBERS = {"number": 1, "weight": 1, "printed": 0, "line": 0, "size": 0}
UNREADABLE = {
    "a huge header": HEAD.pack(2**32 - 1, 0),
    "a huge text": HEAD.pack(2, 2**32 - 1) + b"{}",
    "no JSON": HEAD.pack(2, 0) + b"[{",
    "no UTF-8": HEAD.pack(2, 0) + b"\xff\xff",
    "no object": HEAD.pack(2, 0) + b"[]",
    "no kind": packed({}),
    "an unknown kind": packed({"is": "sleep", **NUMBERS}),
    "a kind that is a list": packed({"is": [], **NUMBERS}),
    "a call of an unknown kind": packed({"is": "call", "kind": "exec", **NUMBERS}),
    "a call without a number": packed({"is": "call", "kind": "call", "weight": 1}),
    "a number that is a list": packed({"is": "call", "kind": "call", **NUMBERS, "number": [1]}),
    "a name that is a list": packed({"is": "call", "kind": "call", "name": ["a"], **NUMBERS}),
    "a size that is no number": packed({"is": "ended", "is_counted": True, **NUMBERS, "size": "x"}),
    "an end without a size": packed({"is": "ended", "printed": 0}),
    "a number without an end": packed({"is": "taken", "size": float("inf")}),
    "nested without an end": HEAD.pack(60_000, 0) + b"[" * 60_000,
    "a failure without a line": packed({"is": "failed", "printed": 0}),
}


@pytest.mark.parametrize("output", UNREADABLE.values(), ids=UNREADABLE)
async def test_what_cannot_be_read_loses_the_worker_and_nothing_else(output):
    process = Scripted(output)
    with pytest.raises(WorkerLost, match="cannot be read"):
        await process.worker().message()
    process.close()


@pytest.mark.parametrize("cut", [0, 3, HEAD.size, HEAD.size + 3, -1])
async def test_a_frame_that_ends_too_early_is_the_end_of_the_worker(cut):
    whole = packed({"is": "ended", "is_counted": True, **NUMBERS}, "a text")
    process = Scripted(whole[:cut])
    worker = process.worker()
    with pytest.raises(WorkerLost, match="has ended"):
        await worker.message()
    process.close()


async def test_a_worker_is_reusable_between_programs_only():
    call = packed({"is": "call", "kind": "call", "name": "a__b", **NUMBERS}, "{}")
    end = packed({"is": "ended", "is_counted": True, **NUMBERS}, "é")
    process = Scripted(call + end)
    worker = process.worker()
    assert worker.is_reusable
    await worker.begin("", "1", BOUNDS, stubs=None)
    assert not worker.is_reusable
    assert await worker.message() == HostCall(1, "call", "a__b", "{}", 1)
    await worker.answer(1, "text", "x" * 600_000)
    assert not worker.is_reusable
    assert await worker.message() == Ended("é", 0, is_counted=True)
    assert worker.is_reusable
    process.close()


async def test_a_worker_with_half_an_answer_is_not_reusable():
    end = packed({"is": "ended", **NUMBERS, "size": None})
    process = Scripted(end, room=3)
    worker = process.worker()
    await worker.begin("", "1", BOUNDS, stubs=None)
    with anyio.move_on_after(0.01) as waiting:
        await worker.answer(1, "text", "x" * 2_000_000)
    assert waiting.cancelled_caught
    assert await worker.message() == Ended()
    assert not worker.is_reusable
    with pytest.raises(WorkerLost):  # what comes next would be taken as the rest of it
        await worker.answer(2, "text", "a")
    process.close()


async def test_a_lost_program_is_told_with_the_reason_that_the_process_gives():
    process = Scripted(packed({"is": "lost", "detail": "FileNotFoundError"}, "No process could be started to run it."))
    with pytest.raises(WorkerLost, match=r"^No process could be started to run it\.$") as lost:
        await process.worker().ready()
    assert lost.value.detail == "FileNotFoundError"
    process.close()


async def test_a_long_answer_is_sent_in_pieces():
    process = Scripted(b"")
    worker = process.worker()
    text = "é" * 600_000
    await worker.answer(7, "json", text)
    pieces: list[str] = []
    headers: list[dict[str, Any]] = []
    while process._input.statistics().current_buffer_used:
        frame = process._input.receive_nowait()
        top, rest = HEAD.unpack(frame[: HEAD.size])
        headers.append(json.loads(frame[HEAD.size : HEAD.size + top]))
        pieces.append(frame[HEAD.size + top :].decode())
        assert len(frame) == HEAD.size + top + rest < 600_000
    assert "".join(pieces) == text
    assert headers == [{"do": "more"}, {"do": "more"}, {"do": "answer", "number": 7, "kind": "json"}]
    process.close()


class One(Workers):
    """Workers of which there is one, whose output is written here."""

    output: bytes

    @asynccontextmanager
    async def worker(self, section: ProgramsSection) -> AsyncGenerator[Worker]:
        """Yield it."""
        del section
        process = Scripted(self.output)
        try:
            yield process.worker()
        finally:
            process.close()


@pytest.mark.parametrize("frames", [["ready"], ["waits", "waits"], ["waits", *["ready"] * 1000]], ids=str)
async def test_a_worker_that_waits_in_another_order_than_a_program_does_is_lost(frames):
    host: Any = None  # it makes no calls

    async def told(_message: str) -> None:
        raise AssertionError

    async with anyio.create_task_group() as tasks:
        workers = One(tasks)
        workers.output = b"".join(packed({"is": frame}) for frame in frames)
        program = Program(read("1", 1000), {}, is_checked=True)
        run = Run(program, host, ProgramsSection(), Deadline(60), caller="me", most=100, progress=told)
        outcome = await run.run(workers)
    assert outcome.problem == "The process that ran it has sent what cannot be read."
    assert workers.places.why_none("me") == ""


@asynccontextmanager
async def real() -> AsyncGenerator[Workers]:
    """Yield workers that are processes."""
    async with anyio.create_task_group() as tasks:
        yield Workers(tasks)
        tasks.cancel_scope.cancel()


SMALL = ProgramsSection(memory_bytes=16 * 1024 * 1024)


@pytest.mark.skipif(sys.platform != "linux", reason="children are found in /proc")
async def test_an_answer_that_comes_after_the_end_reaches_no_other_program():
    async with real() as workers, workers.worker(SMALL) as worker:
        for _ in range(3):
            await worker.begin("", "1 + 1", Bounds(SMALL, most=100, held=100), stubs=None)
            assert await worker.message() == Ended("2", 1)
            await worker.answer(1, "text", "x" * 17_000_000)
        assert worker.is_reusable
    assert not processes()


@pytest.mark.skipif(sys.platform != "linux", reason="children are found in /proc")
@pytest.mark.parametrize("after_s", [0.005, 0.02, 0.05, 0.08])
async def test_a_program_that_is_cancelled_while_its_worker_starts_leaves_nothing(after_s):
    async with real() as workers:
        with anyio.move_on_after(after_s):
            async with workers.worker(SMALL) as worker:
                await worker.begin("", "while True: pass", BOUNDS, stubs=None)
                await worker.message()
    await until(lambda: not processes())


@pytest.mark.skipif(sys.platform != "linux", reason="children are found in /proc")
async def test_no_more_workers_are_kept_than_there_may_be():
    async with real() as workers:
        for most in (3, 1):
            section = ProgramsSection(workers=most)
            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(run_one, workers, section)
            assert len(processes()) <= most


async def run_one(workers: Workers, section: ProgramsSection) -> None:
    """Run a program."""
    async with workers.worker(section) as worker:
        await worker.begin("", "1", Bounds(section, most=100, held=100), stubs=None)
        assert await worker.message() == Ended("1", 1)


async def test_a_worker_that_does_not_start_is_told_as_that(monkeypatch):
    for program in ("/bin/false", "/nonexistent"):
        monkeypatch.setattr(sys, "executable", program)
        async with real() as workers:
            with pytest.raises(WorkerLost, match=r"^No process could be started to run it\.$"):
                await run_one(workers, SMALL)


def test_arguments_are_weighed_in_time_whatever_they_are():
    began = time.process_time()
    for text in (
        '"' + '\\"' * 400_000,
        '"' + '\\"' * 400_000 + "\\",
        '"a",' * 200_000,
        "[" * 1_000_000,
        '"\\\n"' * 200_000,
    ):
        assert weight_of(text) >= len(text)
    assert weight_of("[" * 1000) > 60_000
    assert weight_of('"' + "[" * 1000 + '"') < 2000
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    "shape",
    [
        "[]",
        "{}",
        "0.5",
        '"ab"',
        '{"a":1}',
        '{"a":{"b":"c"}}',
        '"\\ud83d\\ude00"',
        '"a text of some length here"',
    ],
)
def test_arguments_weigh_about_what_they_take(shape):
    text = "[" + ",".join([shape] * 20_000) + "]"
    tracemalloc.start()
    value = json.loads(text)
    takes = tracemalloc.get_traced_memory()[0] + len(text)
    tracemalloc.stop()
    assert value
    assert 0.7 * takes < weight_of(text) < 4 * takes
