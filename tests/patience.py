"""How long tests may take: longer where they do what they do at full count, and on a machine that is made busy."""

import os

FULL = "TOOLCRIB_HOSTILE_FULL"
"""The variable of the environment that asks for full counts."""

STRESS = "TOOLCRIB_STRESS"
"""The variable of the environment that says that the machine is made busy."""


def patience_s(seconds: float) -> float:
    """Return how many seconds a test may take that takes so many at most elsewhere."""
    if os.environ.get(FULL):
        return 3600
    return 6 * seconds if os.environ.get(STRESS) else seconds
