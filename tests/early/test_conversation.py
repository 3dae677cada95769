"""Whoever answers a client early never waits for it to read, and loses no byte of what it has yet to be sent."""

import json
import os
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from ends import two_pipes

from toolcrib.server import early
from toolcrib.server.early import EarlyExchange

PATIENCE_S = 20
GREETING = ["initialize", {"protocolVersion": "2025-11-25"}]
LISTING = ["tools/list", {}]
SIZES = (10, 400_000)
"""Of a list: one that fits into a pipe, and one that does not."""


def known(size: int) -> list[Any]:
    """Return what a client is answered: a greeting, and a list of so many bytes."""
    return [[GREETING, {"result": {}}], [LISTING, {"result": {"tools": [{"name": "x" * size}]}}]]


def line(key: int, question: list[Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": key, "method": question[0], "params": question[1]}).encode() + b"\n"


def answer(key: int, outcome: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": key, **outcome}, separators=(",", ":")).encode() + b"\n"


def answers(due: list[Any]) -> bytes:
    """Return what the client gets that asks all of it, under the ids 1, 2 and so on."""
    return b"".join(answer(key, outcome) for key, (_question, outcome) in enumerate(due, 1))


class Talk:
    """A client's ends of stdin and stdout of ours, and what was begun with it."""

    def __init__(self, to_us: int, from_us: int, ours: int) -> None:
        self.to_us, self.from_us, self.ours = to_us, from_us, ours
        self.begun = EarlyExchange()

    def asks(self, data: bytes) -> None:
        os.write(self.to_us, data)

    def begins(self, due: list[Any]) -> None:
        """Answer what was sent so far."""
        assert self.begun.read()
        returns(lambda: self.begun.answer(list(due)))

    def gets(self) -> Iterator[bytes]:
        """Yield what comes, as it comes."""
        while True:
            yield os.read(self.from_us, 1 << 16)

    def got(self) -> bytes:
        """Return what has come and was not read."""
        os.set_blocking(self.from_us, False)
        pieces: list[bytes] = []
        try:
            pieces.extend(self.gets())
        except BlockingIOError:
            return b"".join(pieces)
        raise AssertionError("its end was closed")


@pytest.fixture
def talk(monkeypatch: pytest.MonkeyPatch) -> Generator[Talk]:
    with two_pipes() as ((here, out), (far_in, far_out)):
        monkeypatch.setattr(early, "_STDIN", here)
        monkeypatch.setattr(early, "_STDOUT", out)
        it = Talk(far_out, far_in, out)
        with left(it):
            yield it


@contextmanager
def left(it: Talk) -> Generator[None]:
    """Let no thread outlive the descriptors that it writes to, not even one that still waits for the client."""
    try:
        yield
    finally:
        os.close(it.from_us)
        returns(it.begun.end)


def returns(action: Callable[[], Any]) -> None:
    """Do something that must not wait for anybody."""
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), "it waits for the client"


def until(condition: Callable[[], bool]) -> None:
    """Wait for another thread to get there."""
    tick = threading.Event()
    for _ in range(PATIENCE_S * 100):
        if condition():
            return
        tick.wait(0.01)
    raise AssertionError("it never came to that")


@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize("size", SIZES)
def test_a_list_that_is_asked_for_at_once_is_sent_without_waiting_and_the_rest_is_left_over(
    talk: Talk, size: int, *, blocking: bool
):
    os.set_blocking(talk.ours, blocking)
    due = known(size)
    asked = line(1, GREETING) + line(2, LISTING) + line(3, ["ping", {}])
    talk.asks(asked)
    talk.begins(due)
    returns(talk.begun.end)
    assert talk.got() + talk.begun.unsent == answers(due)
    assert bool(talk.begun.unsent) == (size == max(SIZES))
    assert (talk.begun.data, talk.begun.ids, talk.begun.replayed) == (asked, {1, 2}, due)
    assert os.get_blocking(talk.ours) == blocking


@pytest.mark.parametrize("blocking", [True, False])
def test_a_list_that_is_asked_for_later_and_not_read_is_left_over_too(talk: Talk, *, blocking: bool):
    os.set_blocking(talk.ours, blocking)
    due = known(max(SIZES))
    talk.asks(line(1, GREETING))
    talk.begins(due)
    talk.asks(line(2, LISTING))
    until(lambda: 2 in talk.begun.ids)
    returns(talk.begun.end)
    assert talk.got() + talk.begun.unsent == answers(due)
    assert os.get_blocking(talk.ours) == blocking


@pytest.mark.parametrize("pieces", [1, 2])
def test_a_client_that_reads_gets_all_of_a_long_list_early(talk: Talk, pieces: int):
    due = known(max(SIZES))
    asked = [line(1, GREETING), line(2, LISTING)]
    talk.asks(asked[0] if pieces == 2 else b"".join(asked))
    talk.begins(due)
    if pieces == 2:
        talk.asks(asked[1])
    said = b""
    for piece in talk.gets():
        said += piece
        if len(said) >= len(answers(due)):
            break
    assert said == answers(due)
    returns(talk.begun.end)
    assert talk.begun.unsent == b""


def test_nothing_is_answered_behind_what_was_left_over(talk: Talk):
    due = [[GREETING, {"result": {"instructions": "x" * max(SIZES)}}], [LISTING, {"result": {"tools": []}}]]
    talk.asks(line(1, GREETING) + line(2, LISTING))
    talk.begins(due)
    returns(talk.begun.end)
    assert talk.begun.ids == {1}
    assert talk.got() + talk.begun.unsent == answers(due[:1])
