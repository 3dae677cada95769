"""Clients that hold on to what they may take: sockets that say nothing, and calls that nobody waits for any more."""

import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from fakes.menu import FakeServer
from serve.served import command, environment, served, write_config

pytestmark = [pytest.mark.anyio, pytest.mark.hostile]
MIB = 1024 * 1024
DESCRIPTORS = 200


@contextmanager
def over_http(folder: Path) -> Iterator[tuple[int, Path]]:
    """Run toolcrib over HTTP with few descriptors; yield its port and where its stderr goes."""
    errors, config = folder / "stderr", write_config(folder)
    arguments = command(config, "--transport", "http", "--port", "0")
    limited = ["/bin/sh", "-c", f'ulimit -n {DESCRIPTORS}; exec "$@"', "sh", *arguments]
    with errors.open("wb") as stderr, subprocess.Popen(limited, stderr=stderr, env=environment(folder)) as process:
        try:
            while "serving http" not in errors.read_text() and process.poll() is None:
                time.sleep(0.05)
            yield int(errors.read_text().rpartition(":")[2].split("/")[0]), errors
        finally:
            process.terminate()


def test_more_silent_sockets_than_descriptors_keep_nobody_out_and_fill_no_log(tmp_path: Path):
    with over_http(tmp_path) as (port, errors), ExitStack() as stack:
        for _ in range(3 * DESCRIPTORS):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        took: list[float] = []
        for _ in range(50):
            began = time.perf_counter()
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=20) as answer:
                assert answer.read() == b"ok\n"
            took.append(time.perf_counter() - began)
        assert sorted(took)[25] < 0.2
        assert len(errors.read_bytes()) < 4000  # some lines each few seconds, however long all of it takes


async def test_many_large_calls_of_a_tool_that_hangs_take_a_bounded_memory(tmp_path: Path):
    hanging, fine = FakeServer(tmp_path, "hanging", tools=["sleep"]), FakeServer(tmp_path, "fine")
    async with served(tmp_path, hanging, fine) as crib:
        await crib.initialize()
        await crib.tool("fine__echo")
        await crib.tool("hanging__sleep", seconds=0)
        before = crib.peak_bytes
        refused: list[Any] = []

        async def hear() -> None:
            while len(refused) < 92:
                message = await crib.receive()
                if "result" in message:
                    refused.append(message["result"])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hear)
            arguments = {"seconds": 600, "text": "x" * (4 * MIB - 1000)}
            for number in range(100):
                params = {"name": "hanging__sleep", "arguments": arguments}
                await crib.send({"id": f"n{number}", "method": "tools/call", "params": params})
        assert all("toolcrib is busy" in result["content"][0]["text"] for result in refused)
        assert crib.peak_bytes - before < 256 * MIB
        assert (await crib.tool("fine__echo", n=1))["structuredContent"] == {"n": 1}
        crib.close_stdin()
        assert await crib.ended() == 0
