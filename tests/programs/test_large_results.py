"""Large results in programs: others are answered meanwhile."""

import json
import time

import anyio
import pytest

from toolcrib.base.model import JsonObject
from toolcrib.catalog.outputs import TEXT, output_of
from toolcrib.config.schema import ProgramsSection
from toolcrib.gateway.returned import returned
from toolcrib.programs.running import CallMade, Deadline, Program, Result, Run
from toolcrib.programs.source import read
from toolcrib.programs.workers import Workers

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

ROWS = 195_000
PROGRAMS = {
    "text": "import json\nlen(json.loads(await call('text')))",
    "declared": "len(await call('declared'))",
    "undeclared": "import json\nlen(json.loads(await call('undeclared'))['result'])",
}
LISTED = {"type": "object", "properties": {"result": {"type": "array"}}, "required": ["result"]}


def large(kind: str) -> JsonObject:
    """Return many rows, as text or as structured content."""
    rows = [{"id": number, "name": f"row {number}", "share": number * 1.5} for number in range(ROWS)]
    if kind == "text":
        return {"content": [{"type": "text", "text": json.dumps(rows)}]}
    return {"content": [], "structuredContent": {"result": rows}}


class Answering:
    """A host that answers each call with many rows."""

    async def call(self, name: str, arguments: str, made: CallMade) -> Result:
        assert arguments == "{}"
        output = output_of(LISTED) if name == "declared" else TEXT
        return await anyio.to_thread.run_sync(lambda: returned(name, large(name), output))

    async def search(self, query: str, limit: int) -> Result:
        raise AssertionError((query, limit))

    async def result(self, handle: str) -> Result:
        raise AssertionError(handle)


@pytest.mark.parametrize("kind", PROGRAMS)
async def test_the_loop_goes_on_while_ten_megabytes_are_taken_apart(kind):
    async def told(_name: str) -> None:
        await anyio.lowlevel.checkpoint()

    waits: list[float] = []

    async def tick() -> None:
        while True:
            began = time.thread_time()
            await anyio.sleep(0.001)
            waits.append(time.thread_time() - began)

    section = ProgramsSection(compute_s=60)
    async with anyio.create_task_group() as tasks:
        workers = Workers(tasks)
        tasks.start_soon(tick)
        program = Program(read(PROGRAMS[kind], 1000), {}, is_checked=True)
        run = Run(program, Answering(), section, Deadline(60), caller="me", most=100, progress=told)
        end = (await run.run(workers)).end
        assert end is not None
        assert end.value == str(ROWS)
        tasks.cancel_scope.cancel()
    # CPU of the loop's own thread, so that what else runs on the machine does not count.
    assert max(waits) <= 0.02
