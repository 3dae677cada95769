"""A memory that holds so many values and no more."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Event

import pytest

from toolcrib.base.cache import Recent, RecentBy


def test_the_least_recently_used_gives_way():
    recent = Recent[str, int](2)
    recent["a"] = 1
    recent["b"] = 2
    assert recent["a"] == 1
    recent["c"] = 3
    assert list(recent) == ["a", "c"]
    assert "b" not in recent


def test_what_is_set_again_counts_as_used():
    recent = Recent[str, int](2)
    for key in ("a", "b", "a", "c"):
        recent[key] = 0
    assert list(recent) == ["a", "c"]


def test_what_is_not_there_is_a_key_error_and_nothing_is_a_value_too():
    recent = Recent[str, int | None](2)
    with pytest.raises(KeyError):
        recent["a"]
    recent["a"] = None
    assert recent["a"] is None
    recent.clear()
    assert "a" not in recent


def test_a_value_is_made_once():
    numbers = count()
    recent = Recent[str, int](2)
    assert [recent.get(key, lambda: next(numbers)) for key in "aabba"] == [0, 0, 1, 1, 0]


def test_what_fails_to_be_made_is_tried_again():
    recent = Recent[str, int](2)
    with pytest.raises(ZeroDivisionError):
        recent.get("a", lambda: 1 // 0)
    assert recent.get("a", lambda: 1) == 1


def test_two_threads_that_want_the_same_value_make_it_once_and_known_ones_do_not_wait():
    recent = Recent[str, int](4)
    recent["known"] = 7
    begun, may_end, made = Event(), Event(), []

    def make() -> int:
        begun.set()
        assert may_end.wait(5)
        made.append(1)
        return 1

    with ThreadPoolExecutor(2) as threads:
        both = [threads.submit(recent.get, "a", make) for _ in range(2)]
        assert begun.wait(5)
        assert recent.get("known", make) == 7
        may_end.set()
        assert [each.result(5) for each in both] == [1, 1]
    assert made == [1]


class Owner:
    """Something that values are made with."""


def test_what_was_made_with_something_goes_together_with_it():
    kept = RecentBy[Owner, str, Owner](2)
    one, other, made = Owner(), Owner(), Owner()
    kept[one]["a"] = made
    kept[other]["a"] = Owner()
    assert (kept[one]["a"], "b" in kept[one]) == (made, False)
    gone = weakref.ref(made)
    del one, made
    gc.collect()
    assert gone() is None
    assert list(kept[other]) == ["a"]


def test_of_each_owner_so_many_are_kept():
    kept, one, other = RecentBy[Owner, int, int](2), Owner(), Owner()
    for number in range(4):
        kept[one][number] = number
    kept[other][0] = 0
    assert (list(kept[one]), list(kept[other])) == ([2, 3], [0])
