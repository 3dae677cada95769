"""Messages over two descriptors: whole, in order, bounded, and without a thread."""

import json
import os
import socket
import struct
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse, jsonrpc_message_adapter

from toolcrib.streams.pipes import MessageReader, MessageWriter, PipeBounds, encode, message_pipe, supports

pytestmark = pytest.mark.anyio
BOUNDS = PipeBounds(line_max_bytes=64 * 1024 * 1024, garbage_lines=3)
PATIENCE_S = 30

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
OBJECTS = st.dictionaries(st.text(), JSON, max_size=4)
IDS = st.integers(0, 2**53) | st.text(max_size=8)
MESSAGES = st.one_of(
    st.builds(JSONRPCRequest, jsonrpc=st.just("2.0"), id=IDS, method=st.text(min_size=1), params=OBJECTS),
    st.builds(JSONRPCNotification, jsonrpc=st.just("2.0"), method=st.text(min_size=1), params=OBJECTS),
    st.builds(JSONRPCResponse, jsonrpc=st.just("2.0"), id=IDS, result=OBJECTS),
    st.builds(
        JSONRPCError,
        jsonrpc=st.just("2.0"),
        id=IDS,
        error=st.fixed_dictionaries({"code": st.integers(-(2**31), 2**31), "message": st.text(), "data": JSON}),
    ),
)


@contextmanager
def two_pipes() -> Generator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield the descriptors of two ends, each (to read from, to write to)."""
    (here, far_out), (far_in, out) = os.pipe(), os.pipe()
    try:
        yield (here, out), (far_in, far_out)
    finally:
        close(here, out, far_in, far_out)


@contextmanager
def socket_pair() -> Generator[tuple[tuple[int, int], tuple[int, int]]]:
    one, other = socket.socketpair()
    with one, other:
        yield (one.fileno(), one.fileno()), (other.fileno(), other.fileno())


def close(*fds: int) -> None:
    for fd in fds:
        with suppress(OSError):  # a test may have closed it, to see what happens
            os.close(fd)


@dataclass
class Ends:
    """A reader and a writer of ours, and the descriptors at the far end, on which a test does what it likes."""

    reader: MessageReader
    writer: MessageWriter
    far_in: int
    far_out: int
    garbage: list[str] = field(default_factory=list)

    def feed(self, data: bytes) -> None:
        """Write bytes at the far end, few enough for a pipe."""
        os.write(self.far_out, data)

    async def rest(self) -> list[Any]:
        """Close the far end and return the ids of all messages that still come."""
        os.close(self.far_out)
        return [key_of(item) async for item in self.reader]


@asynccontextmanager
async def ends(bounds: PipeBounds = BOUNDS) -> AsyncGenerator[Ends]:
    garbage: list[str] = []
    with two_pipes() as (near, (far_in, far_out)):
        async with message_pipe(*near, bounds, garbage.append) as (reader, writer):
            with anyio.fail_after(PATIENCE_S):
                yield Ends(reader, writer, far_in, far_out, garbage)


def request(key: int | str, size: int = 0) -> SessionMessage:
    return SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=key, method="m", params={"text": "x" * size}))


def key_of(item: Any) -> Any:
    """Return the id of a received request or response."""
    return item.message.id


def line(key: int | str, size: int = 0) -> bytes:
    return encode(request(key, size).message) + b"\n"


# -- round trips ---------------------------------------------------------------------------------


@pytest.mark.parametrize("wires", [two_pipes, socket_pair])
@given(messages=st.lists(MESSAGES, min_size=1, max_size=5))
def test_what_is_sent_is_received(wires: Callable[[], Any], messages: list[Any]):
    async def round_trip() -> list[Any]:
        async with both_ends(wires) as ((_, writer), (reader, _)):
            for message in messages:
                await writer.send(SessionMessage(message))
            with anyio.fail_after(PATIENCE_S):
                return [(await reader.receive()).message for _ in messages]

    received = anyio.run(round_trip)
    assert [plain(message) for message in received] == [plain(message) for message in messages]


def plain(message: Any) -> Any:
    return message.model_dump(by_alias=True, exclude_unset=True)


@asynccontextmanager
async def both_ends(wires: Callable[[], Any]) -> AsyncGenerator[tuple[Any, Any]]:
    with wires() as (near, far):
        (near_in, near_out), (far_in, far_out) = near, far
        async with (
            message_pipe(near_in, near_out, BOUNDS, [].append) as one,
            message_pipe(far_in, far_out, BOUNDS, [].append) as other,
        ):
            yield one, other


@pytest.mark.parametrize("wires", [two_pipes, socket_pair])
async def test_messages_larger_than_any_buffer_come_whole(wires: Callable[[], Any]):
    tools = [{"name": f"tool {number}", "text": "é\n" * 500} for number in range(2000)]
    large = JSONRPCResponse(jsonrpc="2.0", id=1, result={"tools": tools})
    async with both_ends(wires) as ((_, writer), (reader, _)), anyio.create_task_group() as tasks:
        tasks.start_soon(writer.send, SessionMessage(large))
        tasks.start_soon(writer.send, request("after"))
        with anyio.fail_after(PATIENCE_S):
            assert (await reader.receive()).message == large
            assert key_of(await reader.receive()) == "after"


@pytest.mark.parametrize("size", [0, 200_000])
async def test_lone_surrogates_come_through_in_small_and_large_messages(size: int):
    message = JSONRPCResponse(jsonrpc="2.0", id=1, result={"name": "report\udcff.txt", "text": "x" * size})
    async with both_ends(two_pipes) as ((_, writer), (reader, _)), anyio.create_task_group() as tasks:
        tasks.start_soon(writer.send, SessionMessage(message))
        with anyio.fail_after(PATIENCE_S):
            assert (await reader.receive()).message == message


def test_a_message_is_one_line_of_compact_json():
    text = encode(JSONRPCResponse(jsonrpc="2.0", id=1, result={"a": "one\ntwo\r\u2028", "b": [1, 2]}))
    assert text.splitlines() == [text]
    assert text == b'{"jsonrpc":"2.0","id":1,"result":{"a":"one\\ntwo\\r\xe2\x80\xa8","b":[1,2]}}'
    no_text = JSONRPCResponse(jsonrpc="2.0", id=1, result={"a": "\ud800"})
    assert encode(no_text) == b'{"jsonrpc":"2.0","id":1,"result":{"a":"\\ud800"}}'


async def test_a_line_may_come_in_pieces_and_several_in_one():
    async with ends() as end, anyio.create_task_group() as tasks:
        received: list[Any] = []

        async def collect() -> None:
            received.extend([key_of(item) async for item in end.reader])

        tasks.start_soon(collect)
        data = line(1) + line(2) + b"\n \r\n" + line(3).replace(b"\n", b"\r\n") + line(4)
        for piece in (data[:7], data[7:60], data[60:61], data[61:]):
            end.feed(piece)
            await anyio.wait_all_tasks_blocked()
        os.close(end.far_out)
    assert received == [1, 2, 3, 4]
    assert end.garbage == []


async def test_no_thread_is_used():
    before = threading.active_count()
    async with both_ends(two_pipes) as ((_, writer), (reader, _)):
        await writer.send(request(1))
        await reader.receive()
        assert threading.active_count() == before


# -- many senders --------------------------------------------------------------------------------


async def test_frames_of_many_senders_are_never_torn_even_when_some_are_cancelled():
    senders, each = 12, 8
    sizes = [0, 10, 3000, 70_000, 200_000]
    given_up: set[str] = set()
    async with ends() as end, anyio.create_task_group() as tasks:
        os.set_blocking(end.far_in, False)

        async def send_all(sender: int) -> None:
            for number in range(each):
                key = f"{sender}-{number}"
                with anyio.move_on_after(0.002 if (sender + number) % 3 == 0 else PATIENCE_S) as patience:
                    await end.writer.send(request(key, sizes[(sender * 3 + number) % len(sizes)]))
                if patience.cancelled_caught:
                    given_up.add(key)

        async with anyio.create_task_group() as sending:
            tasks.start_soon(read_slowly, end.far_in, received := bytearray(), 3001)
            for sender in range(senders):
                sending.start_soon(send_all, sender)
        await end.writer.send(request("last"))
        while not received.endswith(line("last")):
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()

    frames: list[Any] = [jsonrpc_message_adapter.validate_json(each) for each in received.splitlines()]
    keys = [frame.id for frame in frames]
    assert given_up, "nobody was cancelled while the pipe was full"
    assert len(keys) == len(set(keys))
    assert {f"{sender}-{number}" for sender in range(senders) for number in range(each)} - set(keys) <= given_up
    for sender in range(senders):
        own = [key for key in keys if key.startswith(f"{sender}-")]
        assert own == sorted(own), "a sender's messages overtook each other"


async def read_slowly(fd: int, into: bytearray, step: int) -> None:
    while True:
        await anyio.wait_readable(fd)
        into += os.read(fd, step)


async def test_a_message_begun_by_a_cancelled_sender_is_finished():
    async with ends() as end:
        with anyio.move_on_after(0.01) as patience:
            await end.writer.send(request("large", 1_000_000))
        assert patience.cancelled_caught
        received = bytearray()
        async with anyio.create_task_group() as tasks:
            os.set_blocking(end.far_in, False)
            tasks.start_soon(read_slowly, end.far_in, received, 1 << 16)
            await end.writer.send(request("next"))
            while not received.endswith(line("next")):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        assert received == line("large", 1_000_000) + line("next")


async def test_a_reader_that_does_not_read_holds_up_nobody_but_the_senders():
    async with ends() as end, anyio.create_task_group() as tasks:
        tasks.start_soon(end.writer.send, request("stuck", 1_000_000))
        tasks.start_soon(end.writer.send, request("behind it"))
        end.feed(line(1))
        assert key_of(await end.reader.receive()) == 1
        tasks.cancel_scope.cancel()


# -- bounds --------------------------------------------------------------------------------------


async def test_garbage_is_passed_over_and_told():
    async with ends() as end:
        end.feed(b"Starting up...\n" + line(1) + b'{"jsonrpc": "2.0"}\n\xff\xfe\n' + line(2))
        assert await end.rest() == [1, 2]
        assert end.garbage == ["Starting up...", '{"jsonrpc": "2.0"}', "\ufffd\ufffd"]
        assert end.reader.fault == ""


async def test_too_much_garbage_in_a_row_ends_it():
    async with ends() as end:
        end.feed(line(1) + b"noise\n" * (BOUNDS.garbage_lines + 1) + line(2))
        assert await end.rest() == [1]
        assert end.reader.fault == "sent 4 lines in a row that are no MCP messages"


async def test_a_peer_that_also_talks_sense_is_borne_with():
    async with ends() as end:
        end.feed((b"noise\n" * BOUNDS.garbage_lines + line("sense")) * 20)
        assert await end.rest() == ["sense"] * 20
        assert len(end.garbage) == 60


async def test_only_the_beginning_of_garbage_is_kept():
    async with ends() as end:
        end.feed(b"x" * 10_000 + b"\n")
        await end.rest()
        assert end.garbage == ["x" * 2000]


async def test_much_garbage_gives_way_to_other_tasks():
    async with ends(PipeBounds(1 << 20, 10**6)) as end, anyio.create_task_group() as tasks:
        turns: list[int] = []

        async def count() -> None:
            while True:
                turns.append(len(end.garbage))
                await anyio.lowlevel.checkpoint()

        tasks.start_soon(count)
        end.feed(b"noise\n" * 5000)
        await end.rest()
        tasks.cancel_scope.cancel()
    assert max(after - before for before, after in pairwise(turns)) <= 64


@pytest.mark.parametrize("ending", [b"\n", b""])
@pytest.mark.parametrize("pieces", [1, 3])
async def test_a_line_that_is_too_long_ends_it_after_what_came_before(ending: bytes, pieces: int):
    async with ends(PipeBounds(line_max_bytes=1000, garbage_lines=3)) as end, anyio.create_task_group() as tasks:
        data = line(1) + line(2, 900) + b"x" * 1001 + ending
        tasks.start_soon(feed_in_pieces, end, data, pieces)
        received = [key_of(item) async for item in end.reader]
        assert received == [1, 2]
        assert end.reader.fault == "sent a line of more than 1000 bytes"
        assert end.reader.ended.is_set()


async def feed_in_pieces(end: Ends, data: bytes, pieces: int) -> None:
    step = -(-len(data) // pieces)
    for start in range(0, len(data), step):
        end.feed(data[start : start + step])
        await anyio.wait_all_tasks_blocked()


async def test_a_line_of_the_greatest_length_is_a_message():
    longest = line(1, 500)
    async with ends(PipeBounds(len(longest) - 1, garbage_lines=0)) as end:
        end.feed(longest)
        assert await end.rest() == [1]
        assert end.reader.fault == ""


# -- ends ----------------------------------------------------------------------------------------


async def test_the_end_of_the_input_ends_the_reader():
    async with ends() as end:
        end.feed(line(1) + b'{"jsonrpc": "2.0", "id": 2, "meth')
        assert await end.rest() == [1]
        assert (end.reader.fault, end.reader.ended.is_set()) == ("", True)
        with pytest.raises(anyio.EndOfStream):
            await end.reader.receive()


async def test_a_connection_reset_is_an_end_like_any_other():
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as near:
        far, _ = listener.accept()
        async with message_pipe(near.fileno(), near.fileno(), BOUNDS, [].append) as (reader, _):
            far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            far.close()
            with anyio.fail_after(PATIENCE_S), pytest.raises(anyio.EndOfStream):
                await reader.receive()
        assert reader.fault == ""


async def test_a_false_alarm_does_no_harm():
    async with ends() as end, anyio.create_task_group() as tasks:

        async def steal_once() -> None:
            end.feed(line("stolen"))
            await anyio.lowlevel.checkpoint()
            os.read(end.reader._fd, 1000)
            await anyio.wait_all_tasks_blocked()
            end.feed(line("left"))

        tasks.start_soon(steal_once)
        assert key_of(await end.reader.receive()) == "left"


async def test_a_closed_reader_gives_nothing_more():
    async with ends() as end:
        end.feed(line(1) + line(2))
        async with end.reader as reader:
            assert key_of(await reader.receive()) == 1
        with pytest.raises(anyio.EndOfStream):
            await end.reader.receive()


async def test_sending_to_a_peer_that_is_gone_fails_at_once_and_ever_after():
    async with ends() as end:
        os.close(end.far_in)
        for _ in range(2):
            with pytest.raises(anyio.BrokenResourceError):
                await end.writer.send(request(1))


async def test_a_peer_that_goes_away_wakes_the_senders_that_wait_for_it():
    failed: list[str] = []

    async with ends() as end, anyio.create_task_group() as tasks:

        async def send(key: str) -> None:
            try:
                await end.writer.send(request(key, 1_000_000))
            except anyio.BrokenResourceError:
                failed.append(key)

        tasks.start_soon(send, "first")
        tasks.start_soon(send, "second")
        await anyio.wait_all_tasks_blocked()
        os.close(end.far_in)
    assert sorted(failed) == ["first", "second"]


async def test_a_closed_writer_refuses_messages_and_wakes_who_waits():
    async with ends() as end, anyio.create_task_group() as tasks:

        async def stuck() -> None:
            with pytest.raises(anyio.BrokenResourceError):
                await end.writer.send(request(1, 1_000_000))

        tasks.start_soon(stuck)
        await anyio.wait_all_tasks_blocked()
        async with end.writer:
            pass
        with pytest.raises(anyio.BrokenResourceError):
            await end.writer.send(request(2))


@pytest.mark.parametrize("blocking", [True, False])
async def test_the_descriptors_are_left_open_and_in_the_mode_they_had(*, blocking: bool):
    with two_pipes() as ((read_fd, write_fd), _):
        os.set_blocking(read_fd, blocking)
        with pytest.RaisesGroup(ZeroDivisionError):
            async with message_pipe(read_fd, write_fd, BOUNDS, [].append):
                assert not os.get_blocking(read_fd)
                assert not os.get_blocking(write_fd)
                raise ZeroDivisionError
        assert (os.get_blocking(read_fd), os.get_blocking(write_fd)) == (blocking, True)


async def test_one_socket_for_both_directions_gets_its_mode_back():
    with socket_pair() as ((fd, _), _):
        async with message_pipe(fd, fd, BOUNDS, [].append):
            assert not os.get_blocking(fd)
        assert os.get_blocking(fd)


def test_pipes_and_sockets_are_supported_and_files_are_not(tmp_path: Any, monkeypatch: pytest.MonkeyPatch):
    with ExitStack() as stack:
        (read_fd, write_fd), _ = stack.enter_context(two_pipes())
        (socket_fd, _), _ = stack.enter_context(socket_pair())
        file = stack.enter_context((tmp_path / "file").open("w+"))
        assert all(map(supports, (read_fd, write_fd, socket_fd)))
        assert not supports(file.fileno())
        monkeypatch.setattr("sys.platform", "win32")
        assert not supports(read_fd)


def test_big_messages_are_still_json_for_others():
    message = JSONRPCResponse(jsonrpc="2.0", id=1, result={"n": [1.5, -0.0, 10**30, True, None]})
    assert json.loads(encode(message))["result"] == {"n": [1.5, -0.0, 10**30, True, None]}
