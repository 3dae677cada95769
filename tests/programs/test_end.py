"""The end of a program belongs to the gateway: whatever one sets or hands over, a bounded answer comes back (R410)."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from repository import configured, ran

from fakes.memory import Call, JsonObject, MemoryServer, text
from fakes.menu import tool
from toolcrib.base.text import characters_of
from waiting import settled
from worlds import Client, until, world

ATTACKS = [
    code
    for name in ("attacks.txt", "attacks_of_a_reader.txt")
    for code in (Path(__file__).parent / name).read_text(encoding="utf-8").split("# ---\n")
    if code.strip()
]
TOKENS = 1000
BOUNDS: JsonObject = {"compute_s": 2, "timeout_s": 5, "max_tokens": TOKENS, "memory_bytes": 64 * 1024 * 1024}


def sized() -> MemoryServer:
    """Return a server that reads a text of any size."""

    async def read(call: Call) -> JsonObject:
        return text("x" * call.arguments["size"])

    reads = tool("read", "Read a text of a size.", {"size": "integer"}, ["size"], annotations={"readOnlyHint": True})
    return MemoryServer([reads], answers={"read": read})


@asynccontextmanager
async def attacked(path: Path, **bounds: Any) -> AsyncGenerator[Client]:
    """Yield a client of a toolcrib with that server, which has run a program."""
    async with world(path, {"sized": sized()}, configured(**{**BOUNDS, **bounds})) as w, w.client() as client:
        assert await ran(client, "1") == "1"
        yield client


async def bounded(client: Client, code: str) -> None:
    """Run a program, and see that its answer is bounded and the next one sees nothing of it."""
    said = await ran(client, code)
    assert len(said) <= characters_of(TOKENS) + len("ERROR "), f"{len(said)} characters: {code}"
    assert "Internal error of toolcrib" not in said
    assert await ran(client, "1") == "1", code


@pytest.mark.anyio
@pytest.mark.slow
@pytest.mark.hostile
@pytest.mark.parametrize("part", range(8))
async def test_no_attack_on_the_end_gets_through(tmp_path, part):
    async with attacked(tmp_path) as client:
        for code in ATTACKS[part::8]:
            await bounded(client, code)


NAMES = (
    "toolcrib_end toolcrib_value toolcrib_made toolcrib_tool toolcrib_call toolcrib_search toolcrib_result _reach "
    "_look _read call parallel search result ToolError len str isinstance list dict print Exception json"
).split()
VALUES = (
    *("None", "1", "'a'", "float('nan')", "3 ** 20_000", "'x' * 3_000_000", "b'x' * 100_000", "(1, 2)", "{1, 2}"),
    *("['y' * 1_000_000] * 300", "doubled([1], 40)", "doubled((1,), 22)", "{'a': doubled([1], 30)}", "deep(600)"),
    *("{(1, 2): 3}", "around", "Odd()", "[Odd()] * 1000", "ValueError('x' * 1_000_000)", "print", "lambda: 1", "..."),
    *("('t', 'y' * 3_000_000, 1)", "('t', doubled(['x'], 26), 1)", "('j', None, 'x')", "[[]] * 100_000"),
)
HEAD = """
def doubled(value, times):
    for _ in range(times): value = type(value)((value, value))
    return value
def deep(times):
    value = 1
    for _ in range(times): value = {'a': value}
    return value
around = []
around.append(around)
class Odd:
    def __init__(self): self.a = ['y' * 100_000] * 100
    def __str__(self): return 'y' * 3_000_000
    def __repr__(self): return 'y' * 3_000_000
    def __len__(self): return -1
"""
SETTINGS = ("{0} = {1}", "def {0}(*a, **k): return {1}", "async def {0}(*a, **k): return {1}", "class {0}: a = {1}")
DATACLASS = "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\n"
ENDS = (
    *("{}", "raise ToolError({})", "raise ValueError({})", "assert 1 == 2, {}", "print({})", "str({})", "return {}"),
    *("toolcrib_end({}, 10 ** 9)", "await toolcrib_call({}, '{{}}')", "await toolcrib_call('sized__read', {})"),
    *("await toolcrib_search({}, 10)", "await toolcrib_result({})", "await call('sized__read', {{'size': {}}})"),
    *("if True:\n    {}", "await parallel([call('sized__read', {{'size': 9}}), {}])"),
)
set_names = st.builds(str.format, st.sampled_from(SETTINGS), st.sampled_from(NAMES), st.sampled_from(VALUES))
ends = st.builds(str.format, st.sampled_from(ENDS), st.sampled_from(VALUES))
programs = st.builds(lambda lines, end: "\n".join([HEAD, *lines, end]), st.lists(set_names, max_size=4), ends)


@pytest.mark.slow
@pytest.mark.hostile
@settings(
    max_examples=max(settings.default.max_examples // 10, 3),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(codes=st.lists(programs, min_size=5, max_size=5))
def test_no_program_has_more_said_than_is_asked_for(codes, tmp_path_factory):
    async def run() -> None:
        async with attacked(tmp_path_factory.mktemp("world")) as client:
            for code in codes:
                await bounded(client, code)

    anyio.run(run)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("a = [1]\nfor n in range(40): a = [a, a]\na", "it has more than "),
        ("a = []\na.append(a)\na", '["[...]"]'),
        ("d = 1\nfor n in range(5_000): d = [d]\nd", "[[[["),
        (DATACLASS + "[P(1), {'a': P(2)}]", '[{"x":1},{"a":{"x":2}}]'),
        ("{(1, 2): {3}, None: b'a', 1.5: ValueError('x')}", '{"(1, 2)":[3],"null":"b\'a\'","1.5":{"error":"x"}}'),
        ("import datetime\n[datetime.date(2020, 1, 2), 1j]", '["2020-01-02","1j"]'),
        ("import decimal\ndecimal.Decimal('1.50')", '"1.50"'),
        ("[3 ** 10_000]", '["an integer of 15850 bits"]'),
        ("if True:\n    5", "it has no value"),
        ("5\nfor n in range(3): pass", "it has no value"),
        ("'\\ud800'", "\ufffd"),
        ("[print, int]", "[\"print\",\"<class 'int'>\"]"),
        ("class A: pass\n{A(): 1}", "cannot be shown: TypeError"),
    ],
)  # fmt: skip
async def test_a_value_of_any_kind_is_shown(tmp_path, code, said):
    async with attacked(tmp_path) as client:
        assert said in await ran(client, code)


@pytest.mark.anyio
async def test_what_is_cut_says_so(tmp_path):
    async with attacked(tmp_path, max_tokens=10_000_000, printed_bytes=1000, timeout_s=60) as client:
        assert "it has more than " in await ran(client, "[1] * 400_000")
        assert "it has 9000000 characters" in await ran(client, "'\u20ac' * 9_000_000")
        late = await ran(client, "for n in range(100): print('x' * 99)\nimport time\ntime.sleep(60)", timeout_s=2)
        assert "It took too long" in late
        assert "it has more than " in late


@pytest.mark.anyio
async def test_value_prints_notes_and_errors_share_what_is_asked_for(tmp_path):
    unsure = "\n".join(f"if False: (1).{'a' * 90}{n}" for n in range(5))
    async with attacked(tmp_path, max_tokens=100) as client:
        for code in (
            f"{unsure}\nprint('p' * 500)\n'v' * 5000",
            f"{unsure}\nprint('p')\n'v' * 5000",
            f"{unsure}\n'v' * 380",
            f"{unsure}\nprint('p' * 500)\nraise ToolError('e' * 5000)",
        ):
            assert len((await ran(client, code)).removeprefix("ERROR ")) <= characters_of(100)


@pytest.mark.anyio
async def test_results_that_are_not_taken_slow_the_calls_down(tmp_path):
    server = sized()
    code = """
from tools import sized__read
import time
async def rest(): time.sleep({})
read = await parallel([*[sized__read(size=400_000) for n in range(40)], rest()])
sum(len(each or "") for each in read)
"""
    async with world(tmp_path, {"sized": server}, configured(result_bytes=1_000_000)) as w, w.client() as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ran, client, code.format(60))
            await until(lambda: len(server.calls()) >= 3)
            await settled()
            assert len(server.calls()) <= 8 + 3
            tasks.cancel_scope.cancel()
        assert await ran(client, code.format(0.1)) == "16000000"


@pytest.mark.anyio
@pytest.mark.slow
@pytest.mark.parametrize("sleep", ["time.sleep(10.5)", "await asyncio.sleep(10.5)"])
async def test_a_sleep_lasts_as_long_as_it_says(tmp_path, sleep):
    async with attacked(tmp_path, timeout_s=60) as client:
        code = f"import asyncio, time\nbegan = time.monotonic()\n{sleep}\ntime.monotonic() - began > 10.4"
        assert await ran(client, code) == "true"


@pytest.mark.anyio
async def test_sleeps_end_in_their_order_and_calls_meanwhile(tmp_path):
    code = """
import asyncio
said = []
async def say(what, seconds):
    await asyncio.sleep(seconds)
    said.append(what)
async def read():
    await call("sized__read", {"size": 1})
    said.append("read")
await asyncio.gather(say("late", .4), say("soon", .01), say("before", -1), read())
sorted(said[:3]) + said[3:]
"""
    async with attacked(tmp_path) as client:
        assert await ran(client, code) == '["before","read","soon","late"]'
