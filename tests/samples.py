"""Of the parameters of a test that is marked ``sampled``, every fifth is quick, and the others are slow.

Which one comes first is drawn from the test's name: of tests with the same two protocol eras, some are quick in the one
and some in the other. What is slow by itself does not count, nor what is not collected: asked for by its name alone,
any parameter is quick.
"""

from collections import defaultdict
from collections.abc import Sequence
from zlib import crc32

import pytest

EVERY = 5


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    sampled = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        if item.get_closest_marker("sampled") and not item.get_closest_marker("slow"):
            sampled[item.nodeid.partition("[")[0]].append(item)
    for test, cases in sampled.items():
        first = crc32(test.encode()) % min(EVERY, len(cases))
        for number, case in enumerate(cases):
            if number % EVERY != first:
                case.add_marker(pytest.mark.slow)
