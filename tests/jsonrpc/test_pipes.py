"""Lines over two descriptors: whole, in order, bounded, and without a thread."""

import os
import socket
import struct
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from ends import PATIENCE_S, close, read_on, read_until, settled, socket_pair, two_pipes, until
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.jsonrpc.pipes import LineReader, LineWriter, open_pipe, supports

pytestmark = pytest.mark.anyio
LINE_MAX = 64 * 1024 * 1024


@dataclass
class Ends:
    """A reader and a writer of ours, what the reader has handed on, and the descriptors at the far end."""

    reader: LineReader
    writer: LineWriter
    far_in: int
    far_out: int
    lines: list[bytes] = field(default_factory=list)
    ended: anyio.Event = field(default_factory=anyio.Event)

    def take(self, line: bytearray) -> None:
        self.lines.append(bytes(line))

    def feed(self, data: bytes) -> None:
        """Write bytes at the far end, few enough for a pipe."""
        os.write(self.far_out, data)

    async def rest(self) -> list[bytes]:
        """Close the far end and return all lines, those included that still come."""
        os.close(self.far_out)
        with anyio.fail_after(PATIENCE_S):
            await self.ended.wait()
        return self.lines

    async def took(self, number: int) -> list[bytes]:
        """Return the lines, once there are so many."""
        await until(lambda: len(self.lines) >= number)
        return self.lines


@contextmanager
def ends(line_max_bytes: int = LINE_MAX, wires: Callable[[], Any] = two_pipes) -> Generator[Ends]:
    with wires() as ((read_fd, write_fd), (far_in, far_out)), open_pipe(read_fd, write_fd, line_max_bytes) as pipe:
        end = Ends(*pipe, far_in, far_out)
        end.reader.start(end.take, end.ended.set)
        yield end


def line(key: int | str, size: int = 0) -> bytes:
    return f"{key} {'x' * size}\n".encode()


# -- whole and in order --------------------------------------------------------------------------


@pytest.mark.parametrize("wires", [two_pipes, socket_pair])
@given(lines=st.lists(st.binary(max_size=50).filter(lambda text: b"\n" not in text), min_size=1, max_size=8))
def test_what_is_sent_is_received(wires: Callable[[], Any], lines: list[bytes]):
    async def round_trip() -> list[bytes]:
        with (
            wires() as (near, far),
            open_pipe(near[0], near[1], LINE_MAX) as (_, writer),
            open_pipe(far[0], far[1], LINE_MAX) as (there, _),
        ):
            received: list[bytes] = []
            there.start(lambda line: received.append(bytes(line)), lambda: None)
            for each in lines:
                await writer.send(each + b"\n")
            await until(lambda: len(received) >= len(lines))
            return received

    assert anyio.run(round_trip) == lines


@pytest.mark.parametrize("wires", [two_pipes, socket_pair])
async def test_lines_larger_than_any_buffer_come_whole(wires: Callable[[], Any]):
    large = b"x" * 20_000_000
    with (
        wires() as (near, far),
        open_pipe(near[0], near[1], LINE_MAX) as (_, writer),
        open_pipe(far[0], far[1], LINE_MAX) as (there, _),
    ):
        received: list[bytes] = []
        there.start(lambda line: received.append(bytes(line)), lambda: None)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(writer.send, large + b"\n")
            tasks.start_soon(writer.send, b"after\n")
        await until(lambda: len(received) >= 2)
    assert received == [large, b"after"]


async def test_a_line_may_come_in_pieces_and_several_in_one():
    with ends() as end:
        for piece in (b"on", b"e\ntwo\n\nthr", b"e", b"e\nfour\n"):
            end.feed(piece)
            await settled()
        assert await end.rest() == [b"one", b"two", b"", b"three", b"four"]


async def test_no_thread_is_used():
    before = threading.active_count()
    with ends() as end:
        end.feed(line(1))
        await end.writer.send(line(2))
        await end.took(1)
        assert threading.active_count() == before


async def test_many_lines_give_way_to_other_tasks():
    with ends() as end:
        async with anyio.create_task_group() as tasks:
            turns: list[int] = []

            async def count() -> None:
                while True:
                    turns.append(len(end.lines))
                    await anyio.lowlevel.checkpoint()

            tasks.start_soon(count)
            end.feed(b"noise\n" * 5000)
            assert len(await end.rest()) == 5000
            tasks.cancel_scope.cancel()
    assert max(after - before for before, after in pairwise(turns)) <= 64


# -- held ----------------------------------------------------------------------------------------


async def test_while_it_is_held_nothing_is_handed_on_and_the_peer_has_to_wait():
    with ends() as end:
        end.reader.hold()
        end.reader.hold()
        os.set_blocking(end.far_out, False)
        fed = 0
        with suppress(BlockingIOError):
            while fed < 10_000_000:
                fed += os.write(end.far_out, b"0123456\n" * 512)
                await anyio.lowlevel.checkpoint()
        end.reader.release()
        await settled()
        assert (end.lines, fed < 10_000_000) == ([], True)
        end.reader.release()
        await end.took(fed // 8)


async def test_whoever_takes_a_line_may_hold_those_behind_it():
    with ends() as end:
        taken: list[bytes] = []

        def take(line: bytearray) -> None:
            taken.append(bytes(line))
            end.reader.hold()

        end.reader._take = take
        end.feed(b"one\ntwo\n")
        for number in (1, 2):
            await settled()
            assert taken == [b"one", b"two"][:number]
            end.reader.release()


# -- many senders --------------------------------------------------------------------------------


async def lose_patience(impatient: list[anyio.CancelScope]) -> None:
    """Cancel, at each turn, whoever waits by then."""
    while True:
        await anyio.lowlevel.checkpoint()
        while impatient:
            impatient.pop().cancel()


async def test_lines_of_many_senders_are_never_torn_even_when_some_are_cancelled():
    senders, each = 12, 8
    sizes = [0, 10, 3000, 70_000, 200_000]
    given_up: set[str] = set()
    impatient: list[anyio.CancelScope] = []
    with ends() as end:
        received = bytearray()

        async def send_all(sender: int) -> None:
            for number in range(each):
                key = f"{sender}-{number}"
                with anyio.CancelScope() as patience:
                    if (sender + number) % 3 == 0:
                        impatient.append(patience)
                    await end.writer.send(line(key, sizes[(sender * 3 + number) % len(sizes)]))
                if patience.cancelled_caught:
                    given_up.add(key)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read_on, end.far_in, received, 3001)
            tasks.start_soon(lose_patience, impatient)
            async with anyio.create_task_group() as sending:
                for sender in range(senders):
                    sending.start_soon(send_all, sender)
            await end.writer.send(line("last"))
            await until(lambda: received.endswith(line("last")))
            tasks.cancel_scope.cancel()

    keys: list[str] = []
    for text in received.decode().splitlines():
        key, _, padding = text.partition(" ")
        assert len(padding) in sizes
        assert set(padding) <= {"x"}
        keys.append(key)
    assert given_up, "nobody was cancelled while the pipe was full"
    assert len(keys) == len(set(keys))
    # Who gave up was still waiting, so nothing of theirs was sent.
    assert {f"{sender}-{number}" for sender in range(senders) for number in range(each)} - set(keys) == given_up
    for sender in range(senders):
        own = [key for key in keys if key.startswith(f"{sender}-")]
        assert own == sorted(own), "a sender's lines overtook each other"


async def test_nobody_overtakes_who_waits_even_when_there_is_room_again():
    with ends() as end:
        await end.writer.send(line("large", 1_000_000))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(end.writer.send, line("first"))
            await settled()

            async def send_later() -> None:
                while end.writer._unsent:
                    await anyio.lowlevel.checkpoint()
                await end.writer.send(line("second"))

            tasks.start_soon(send_later)
            assert await read_until(end.far_in, line("second")) == b"".join(
                (line("large", 1_000_000), line("first"), line("second"))
            )


async def test_a_line_is_finished_whatever_becomes_of_its_sender():
    with ends() as end:
        with anyio.CancelScope() as scope:
            await end.writer.send(line("large", 1_000_000))
            scope.cancel()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(end.writer.send, line("next"))
            assert await read_until(end.far_in, line("next")) == line("large", 1_000_000) + line("next")


async def test_what_cannot_wait_is_written_behind_what_is_under_way():
    with ends() as end:
        end.writer.post(line("large", 1_000_000))
        end.writer.post(line("urgent"))
        assert not end.writer.is_free
        assert await read_until(end.far_in, line("urgent")) == line("large", 1_000_000) + line("urgent")


async def test_a_peer_that_does_not_read_holds_up_nobody_but_the_senders():
    with ends() as end:
        end.writer.post(line("stuck", 1_000_000))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(end.writer.send, line("behind it"))
            end.feed(line(1))
            await end.took(1)
            tasks.cancel_scope.cancel()


async def test_what_is_left_over_is_written_within_bounds():
    with ends() as end:
        end.writer.post(line("large", 1_000_000))
        await end.writer.flush(0.01)
        assert not end.writer.is_free
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(end.writer.flush, PATIENCE_S)
            assert await read_until(end.far_in, b"x\n") == line("large", 1_000_000)
        assert end.writer.is_free


# -- bounds --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [b"\n", b""])
@pytest.mark.parametrize("pieces", [1, 3])
async def test_a_line_that_is_too_long_ends_it_after_what_came_before(ending: bytes, pieces: int):
    with ends(line_max_bytes=1000) as end:
        data = line(1) + line(2, 900) + b"x" * 1001 + ending
        step = -(-len(data) // pieces)
        for start in range(0, len(data), step):
            end.feed(data[start : start + step])
            await settled()
        with anyio.fail_after(PATIENCE_S):
            await end.ended.wait()
        assert [bytes(each)[:1] for each in end.lines] == [b"1", b"2"]
        assert end.reader.fault == "sent a line of more than 1000 bytes"


async def test_a_line_of_the_greatest_length_is_a_line():
    longest = line(1, 500)
    with ends(len(longest) - 1) as end:
        end.feed(longest)
        assert await end.rest() == [longest[:-1]]
        assert end.reader.fault == ""


# -- ends ----------------------------------------------------------------------------------------


async def test_the_end_of_the_input_ends_the_reader():
    with ends() as end:
        end.feed(line(1) + b"half a li")
        assert await end.rest() == [line(1)[:-1]]
        assert end.reader.fault == ""


async def test_a_connection_reset_is_an_end_like_any_other():
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as near:
        far, _ = listener.accept()
        with open_pipe(near.fileno(), near.fileno(), LINE_MAX) as (reader, _):
            ended = anyio.Event()
            reader.start(lambda _line: None, ended.set)
            far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            far.close()
            with anyio.fail_after(PATIENCE_S):
                await ended.wait()
        assert reader.fault == ""


async def test_a_false_alarm_does_no_harm():
    with ends() as end:
        await settled()
        end.feed(line("stolen"))
        os.read(end.reader._fd, 1000)
        end.reader._read()
        end.feed(line("left"))
        assert await end.took(1) == [b"left "]


async def test_an_ended_reader_hands_on_nothing_more_and_says_so_once():
    with ends() as end:
        ended: list[str] = []
        end.reader._on_end = lambda: ended.append("ended")
        end.feed(line(1) + line(2))
        end.reader.end("was told to")
        end.reader.end("again")
        end.reader.hold()
        end.reader.release()
        await settled()
        assert (end.lines, ended, end.reader.fault) == ([], ["ended"], "was told to")


async def test_sending_to_a_peer_that_is_gone_fails_at_once_and_ever_after():
    with ends() as end:
        os.close(end.far_in)
        for _ in range(2):
            with pytest.raises(anyio.BrokenResourceError):
                await end.writer.send(line(1))


async def test_a_peer_that_goes_away_wakes_the_senders_that_wait_for_it():
    failed: list[str] = []

    with ends() as end:
        end.writer.post(line("large", 1_000_000))
        async with anyio.create_task_group() as tasks:

            async def send(key: str) -> None:
                try:
                    await end.writer.send(line(key))
                except anyio.BrokenResourceError:
                    failed.append(key)

            for key in ("first", "second", "third"):
                tasks.start_soon(send, key)
            await settled()
            os.close(end.far_in)
    assert failed == ["first", "second", "third"]


async def test_a_closed_writer_refuses_lines_and_wakes_who_waits():
    with ends() as end:
        end.writer.post(line(1, 1_000_000))
        async with anyio.create_task_group() as tasks:

            async def stuck() -> None:
                with pytest.raises(anyio.BrokenResourceError):
                    await end.writer.send(line(2))

            tasks.start_soon(stuck)
            tasks.start_soon(stuck)
            await settled()
            end.writer.close()
        with pytest.raises(anyio.BrokenResourceError):
            await end.writer.send(line(3))


@pytest.mark.parametrize("blocking", [True, False])
async def test_the_descriptors_are_left_open_and_in_the_mode_they_had(*, blocking: bool):
    with two_pipes() as ((read_fd, write_fd), _):
        os.set_blocking(read_fd, blocking)
        with suppress(ZeroDivisionError), open_pipe(read_fd, write_fd, LINE_MAX):
            assert not os.get_blocking(read_fd)
            assert not os.get_blocking(write_fd)
            raise ZeroDivisionError
        assert (os.get_blocking(read_fd), os.get_blocking(write_fd)) == (blocking, True)


async def test_one_socket_for_both_directions_gets_its_mode_back():
    with socket_pair() as ((fd, _), _):
        with open_pipe(fd, fd, LINE_MAX):
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
        close(write_fd)
