"""Of the parameters of a test that is marked ``sampled``, every fifth is quick, and the others are slow.

Which are quick depends on their order: of several decorators, the parameters of the last one change slowest. What is
slow by itself does not count, nor what is not collected: asked for by its name alone, any parameter is quick.
"""

from collections import Counter
from collections.abc import Sequence

import pytest

EVERY = 5


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    seen = Counter[str]()
    for item in items:
        if item.get_closest_marker("sampled") and not item.get_closest_marker("slow"):
            test = item.nodeid.partition("[")[0]
            if seen[test] % EVERY:
                item.add_marker(pytest.mark.slow)
            seen[test] += 1
