"""A server that fails call after call is left alone for a while, and tried with one call."""

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from downstream.fleets import DEADLINE_S, fleet_of, passing, settings_of, time_passes
from fakes.menu import FakeServer
from toolcrib.base.errors import CallTimeout, CircuitOpen, ConnectionLost, DownstreamError
from toolcrib.config.schema import LimitsSection
from toolcrib.downstream.calls import Circuit

pytestmark = pytest.mark.anyio


class Clocked(Circuit):
    """A circuit with a clock that a test moves."""

    def __init__(self, **limits: Any) -> None:
        self.time = 100.0
        super().__init__(
            "db", LimitsSection(**{"circuit_failures": 3, "circuit_pause_s": 10, **limits}), lambda: self.time
        )

    def end(self, error: Exception | None = None) -> bool:
        """Make a call that ends so; return whether it was let through."""
        try:
            with self.guarding():
                _end(error)
        except CircuitOpen:
            return False
        except Exception as raised:
            if raised is not error:
                raise
        return True


def _end(error: Exception | None) -> None:
    if error:
        raise error


FAILURE = CallTimeout("db", "no answer within 1 s")


def opened(**limits: Any) -> Clocked:
    circuit = Clocked(**limits)
    assert all(circuit.end(FAILURE) for _ in range(3))
    return circuit


@pytest.mark.parametrize("failure", [FAILURE, ConnectionLost("db", "it went away")])
def test_failures_in_a_row_open_it_and_it_says_why_and_when_the_next_try_is(failure: Exception):
    circuit = Clocked()
    assert [circuit.end(failure) for _ in range(4)] == [True] * 3 + [False]
    circuit.time += 4
    with pytest.raises(CircuitOpen) as refused, circuit.guarding():
        pass
    assert str(refused.value) == (
        "The server 'db' is not called, because its last 3 calls got no answer: it is tried again in 6 s. "
        f"Nothing ran. The last one: {failure}"
    )
    assert refused.value.server == "db"


@pytest.mark.parametrize("answer", [None, DownstreamError(-32000, "no such row")])
def test_an_answer_of_any_kind_keeps_it_closed(answer: Exception | None):
    circuit = Clocked()
    for _ in range(5):
        assert circuit.end(FAILURE)
        assert circuit.end(FAILURE)
        assert circuit.end(answer)


def test_after_an_answer_it_opens_by_as_many_failures_as_at_first_and_for_as_long():
    circuit = opened()
    circuit.time += 10
    assert circuit.end()
    assert [circuit.end(FAILURE) for _ in range(4)] == [True] * 3 + [False]
    circuit.time += 9.5
    assert not circuit.end()
    circuit.time += 0.5
    assert circuit.end()


def test_after_the_pause_one_call_tries_it_and_others_wait_for_what_becomes_of_it():
    circuit = opened()
    circuit.time += 10
    with circuit.guarding():
        with pytest.raises(CircuitOpen, match="it is being tried right now"):
            circuit.check()
        assert not circuit.end()
    assert circuit.end()
    assert circuit.end()


def test_a_try_that_fails_doubles_the_pause_up_to_its_bound():
    circuit, pauses = opened(backoff_max_s=30), []
    for _ in range(4):
        before = circuit.time
        while not circuit.end(FAILURE):
            circuit.time += 1
        pauses.append(circuit.time - before)
    assert pauses == [10, 20, 30, 30]


def test_calls_that_were_under_way_when_it_opened_do_not_make_the_pause_longer():
    circuit = Clocked()
    calls = [circuit.guarding() for _ in range(20)]
    for call in calls:
        call.__enter__()
    for call in calls:
        with suppress(CallTimeout):
            call.__exit__(CallTimeout, FAILURE, None)
    assert not circuit.end()
    circuit.time += 10
    assert circuit.end()


def test_an_answer_to_a_call_that_was_under_way_when_it_opened_closes_it_at_once():
    circuit = Clocked()
    with circuit.guarding():
        assert all(circuit.end(FAILURE) for _ in range(3))
        with pytest.raises(CircuitOpen):
            circuit.check()
    circuit.check()
    assert circuit.end()


def test_a_try_that_is_given_up_by_its_caller_tells_nothing():
    circuit = opened()
    circuit.time += 10
    with pytest.raises(KeyboardInterrupt), circuit.guarding():
        raise KeyboardInterrupt
    circuit.check()
    assert circuit.end()


async def test_a_server_that_crashes_in_every_call_is_no_longer_started_for_one(tmp_path: Path):
    fake = FakeServer(tmp_path, tools=["crash", "echo"])
    async with fleet_of(settings_of(fake), circuit_failures=2, circuit_pause_s=60) as it:
        it.fleet["fake"].calls.circuit._now = lambda: 0.0
        for _ in range(2):
            with pytest.raises(ConnectionLost):
                await it.call("fake", "crash")
        with pytest.raises(CircuitOpen, match="its last 2 calls got no answer: it is tried again in 60 s"):
            it.fleet["fake"].calls.circuit.check()
    assert len(fake.starts()) == 2


async def test_a_healthy_server_that_answers_with_errors_is_called_on(tmp_path: Path):
    fake = FakeServer(tmp_path, tools=["fail", "no"], error_on_call={"no": {"code": -32000, "message": "no"}})
    async with fleet_of(settings_of(fake), circuit_failures=2) as it:
        for _ in range(5):
            assert (await it.call("fake", "fail"))["isError"]
            with pytest.raises(DownstreamError):
                await it.call("fake", "no")


async def test_a_hanging_server_is_tried_again_after_the_pause(tmp_path: Path):
    fake = FakeServer(tmp_path, tools=["sleep", "echo"])
    settings = settings_of(fake, call_timeout_s=DEADLINE_S)
    async with fleet_of(settings, circuit_failures=2, circuit_pause_s=2 * DEADLINE_S) as it:
        for number in (1, 2):
            async with passing(DEADLINE_S, partial(fake.reached, "tools/call", number)):
                with pytest.raises(CallTimeout):
                    await it.call("fake", "sleep", {"seconds": 600})
        with pytest.raises(CircuitOpen):
            await it.call("fake", "echo")
        await time_passes(2 * DEADLINE_S)
        assert await it.text("fake", "echo") == "{}"
