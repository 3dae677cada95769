"""A peer that sends what nobody asked for is slowed to a pace, and given up if it goes on."""

import math
from dataclasses import dataclass
from types import SimpleNamespace

import anyio
import pytest
from mcp_types import JSONRPCNotification, JSONRPCResponse

from toolcrib.jsonrpc.rate_limit import RateBounds, RateLimitedStream, RateLimiter
from toolcrib.jsonrpc.sdk import SessionMessage

pytestmark = pytest.mark.anyio
BOUNDS = RateBounds(per_s=100, flood_s=10)


@dataclass
class Peer:
    """Somebody who sends one message after the other, and waits as long as he is told to."""

    pace: RateLimiter
    now: float = 1000.0

    def send(self, number: int, each_s: float = 0) -> float:
        """Return for how many seconds he was held up in all."""
        held_up = 0.0
        for _ in range(number):
            pause = self.pace.pause()
            held_up += pause
            self.now += pause + each_s
        return held_up


def peer(bounds: RateBounds = BOUNDS) -> Peer:
    made = Peer(RateLimiter(bounds, lambda: made.now))
    return made


def test_who_keeps_the_pace_is_never_held_up():
    assert peer().send(5000, each_s=0.011) == 0


def test_a_burst_of_a_second_s_worth_passes():
    it = peer()
    assert it.send(100) == 0
    it.now += 1
    assert it.send(100) == 0


def test_who_is_faster_is_slowed_to_the_pace():
    it = peer()
    began = it.now
    it.send(1100)
    assert it.now - began == pytest.approx(10, abs=0.2)


def test_who_goes_on_and_on_is_a_flood():
    it = peer()
    it.send(1000)
    assert not it.pace.is_flood
    it.send(500)
    assert it.pace.is_flood


def test_who_rests_in_between_is_none():
    it = peer()
    for _ in range(20):
        it.send(500)
        it.now += 1
        assert not it.pace.is_flood


def test_progress_is_faster_and_never_a_flood():
    it = peer(BOUNDS.of_progress)
    began = it.now
    it.send(100_000)
    assert it.now - began == pytest.approx(99, abs=1)
    assert not it.pace.is_flood


async def test_a_stream_is_slowed_by_its_notifications_alone_and_ends_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
):
    now, pauses = 1000.0, []

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        pauses.append(seconds)

    clocked = SimpleNamespace(current_time=lambda: now, sleep=sleep, EndOfStream=anyio.EndOfStream)
    monkeypatch.setattr("toolcrib.jsonrpc.rate_limit.anyio", clocked)
    send, receive = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
    answer = SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=1, result={}))
    note = SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="notifications/message"))
    report = SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="notifications/progress"))
    for item in (*[answer] * 300, ValueError(), *[report] * 300, *[note] * 300):
        await send.send(item)
    async with send, RateLimitedStream(receive, RateBounds(per_s=100, flood_s=0.2)) as paced:
        got = [await paced.receive() for _ in range(301 + 300 + 100)]
        assert pauses == []
        got += [item async for item in paced]
    assert 701 <= len(got) < 801
    assert pauses
    assert paced.fault == "sent more than 100 notifications a second (limits.notifications_per_s) for 0.2 s"
    with pytest.raises(anyio.ClosedResourceError):
        await receive.receive()
