"""Clients that hold on to what they may take: sockets that say nothing, and calls that nobody waits for any more."""

import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from counts import count

from fakes.menu import FakeServer, tool
from online import online
from serve.served import command, environment, served, write_config

pytestmark = [pytest.mark.anyio, pytest.mark.hostile]
MIB = 1024 * 1024
DESCRIPTORS = 200
SLOW = 200


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


async def test_a_good_client_does_not_wait_for_those_that_send_a_byte_now_and_then(tmp_path: Path, record_property):
    took, worked, seconds = list[float](), list[float](), count("sockets")
    head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"
    async with online(tmp_path, {"zoo": [tool("feed")]}, listing="auto") as it, anyio.create_task_group() as tasks:
        port = int(it.url.rpartition(":")[2].partition("/")[0])
        for number in range(SLOW):
            tasks.start_soon(trickle, port, head, number)
        ends_at = anyio.current_time() + seconds
        while anyio.current_time() < ends_at:
            began, before = time.perf_counter(), time.process_time()
            assert (await it.modern("tools/call", {"name": "zoo__feed", "arguments": {}})).status_code == 200
            took.append(time.perf_counter() - began)
            worked.append(time.process_time() - before)
            await anyio.sleep(0.01)
        lasted = round(anyio.current_time() - ends_at + seconds)
        tasks.cancel_scope.cancel()
    p99, cpu_p99 = (sorted(each)[int(len(each) * 0.99)] for each in (took, worked))
    record_property("count", lasted)
    figures = f"{p99 * 1000:.0f} ms, in which this process worked for {cpu_p99 * 1000:.0f} ms"
    record_property("worst", f"p99 of {len(took)} calls beside {SLOW} slow sockets in {seconds} s: {figures}")
    record_property("goal met", p99 < 0.2)
    assert cpu_p99 < 0.2
    assert p99 < 2  # a bound against waiting, on a busy machine; the figure is in the report


async def trickle(port: int, head: bytes, number: int) -> None:
    """Send a request byte by byte, without end; where it is ended, begin anew."""
    while True:
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            with suppress(anyio.BrokenResourceError):
                for at in range(number % len(head), len(head) + 1000):  # some are in their head, some in their body
                    await stream.send((head[: at + 1] if at == number % len(head) else head[at : at + 1]) or b" ")
                    await anyio.sleep(0.3)


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
