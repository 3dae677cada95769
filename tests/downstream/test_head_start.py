"""A server that a command needs is started before the rest of toolcrib is loaded, once, and only if it will be used."""

import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import pytest

from downstream.fleets import DEADLINE_S, TEST_S, settings_of, until
from fakes.menu import FakeServer
from toolcrib.config.schema import LimitsSection, ServerSection
from toolcrib.config.settings import ServerSettings, StdioTarget
from toolcrib.downstream.head_start import HeadStart, head_start
from toolcrib.downstream.transport import open_streams

pytestmark = pytest.mark.anyio

LIMITS = LimitsSection(close_timeout_s=DEADLINE_S)


def target_of(server: ServerSettings) -> StdioTarget:
    assert isinstance(server.target, StdioTarget)
    return server.target


def written(program: str) -> ServerSettings:
    """Return the settings of a server that is a program for sh."""
    target = StdioTarget("/bin/sh", ("-c", program), {"PATH": "/usr/bin:/bin"}, None)
    return ServerSettings("fake", target, ServerSection(), "fingerprint")


@asynccontextmanager
async def ahead_of(target: StdioTarget) -> AsyncGenerator[HeadStart]:
    with anyio.fail_after(TEST_S):
        async with head_start(target, LIMITS.close_timeout_s) as ahead:
            yield ahead


async def running(fake: FakeServer) -> None:
    await until(lambda: bool(fake.starts()))


async def test_the_first_connection_uses_the_process_and_the_next_one_another(tmp_path: Path):
    fake = FakeServer(tmp_path)
    server = settings_of(fake)
    async with ahead_of(target_of(server)) as ahead:
        await running(fake)
        connect = partial(open_streams, server, LIMITS, ahead=ahead)
        async with connect() as first:
            assert first.program == ahead.program
            assert len(fake.starts()) == 1
        # It has ended by then, so that no two of one server run.
        assert not fake.survivors()
        async with connect():
            await until(lambda: len(fake.starts()) == 2)
    assert not fake.survivors()


async def test_a_process_that_nobody_uses_ends(tmp_path: Path):
    fake = FakeServer(tmp_path)
    async with ahead_of(target_of(settings_of(fake))):
        await running(fake)
    assert not fake.survivors()


async def test_another_server_does_not_get_it(tmp_path: Path):
    fake, other = FakeServer(tmp_path), FakeServer(tmp_path, "other")
    async with ahead_of(target_of(settings_of(fake))) as ahead:
        async with open_streams(settings_of(other), LIMITS, ahead=ahead):
            await running(other)
        async with open_streams(settings_of(fake), LIMITS, ahead=ahead):
            await running(fake)
        assert (len(fake.starts()), len(other.starts())) == (1, 1)


async def test_a_process_that_has_ended_is_started_again(tmp_path: Path):
    first, second = tmp_path / "first", tmp_path / "second"
    server = written(f"if [ -e {first} ]; then touch {second}; cat; else touch {first}; fi")
    async with ahead_of(target_of(server)) as ahead:
        await until(first.exists)
        await until(lambda: not ahead.is_there)
        async with open_streams(server, LIMITS, ahead=ahead):
            await until(second.exists)


async def test_what_it_wrote_before_is_kept(tmp_path: Path):
    done = tmp_path / "done"
    server = written(f"echo early >&2; touch {done}; cat")
    lines: list[tuple[str, str]] = []
    async with ahead_of(target_of(server)) as ahead:
        await until(done.exists)
        async with open_streams(server, LIMITS, on_stderr=lambda key, line: lines.append((key, line)), ahead=ahead):
            await until(lambda: lines == [("fake", "early")])


async def test_a_program_that_is_missing_is_reported_by_the_connection(tmp_path: Path):
    server = replace(written(""), target=StdioTarget(str(tmp_path / "none"), (), {}, None))
    async with ahead_of(target_of(server)) as ahead:
        with pytest.raises(FileNotFoundError):
            async with open_streams(server, LIMITS, ahead=ahead):
                pass


def test_it_needs_no_sdk():
    code = "import sys, toolcrib.downstream.head_start; print({'mcp', 'mcp_types', 'httpx2'} & {*sys.modules})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
