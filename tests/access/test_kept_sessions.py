"""Activations that outlive a process: whose they are, and when they are forgotten."""

from pathlib import Path

from builders import opened, watched

HOUR = 3600.0


def test_activations_belong_to_one_caller_and_one_session(path: Path):
    with opened(path) as world:
        world.index.record_activation("ann", "one", "s__a", 1.0)
        world.index.record_activation("ann", "one", "s__b", 1.0)
        world.index.record_activation("ann", "one", "s__a", 2.0)
        world.index.record_activation("bob", "one", "s__c", 1.0)
    with opened(path) as world:
        assert world.index.activated("ann", "one") == {"s__a", "s__b"}
        assert world.index.activated("bob", "one") == {"s__c"}
        assert world.index.activated("ann", "two") == set()


def test_activations_expire_when_their_session_is_not_used(path: Path):
    with opened(path) as world:
        world.index.record_activation("ann", "used", "s__a", 0.0)
        world.index.record_activation("ann", "forgotten", "s__a", 0.0)
        world.index.touch("ann", "used", 2 * HOUR)
        world.index.expire_activations(HOUR)
        assert world.index.activated("ann", "used") == {"s__a"}
        assert world.index.activated("ann", "forgotten") == set()


def test_a_session_in_steady_use_is_written_once_an_hour(path: Path):
    with opened(path) as world, watched(path) as written:
        world.index.record_activation("ann", "one", "s__a", 0.0)
        assert written()
        world.index.touch("ann", "one", HOUR - 1)
        world.index.record_activation("ann", "one", "s__a", HOUR - 1)
        assert not written()
        world.index.touch("ann", "one", HOUR)
        assert written()
