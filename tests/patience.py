"""How long tests may take: longer where they do what they do at full count."""

import os

FULL = "TOOLCRIB_HOSTILE_FULL"
"""The variable of the environment that asks for full counts."""


def patience_s(seconds: float) -> float:
    """Return how many seconds a test may take that takes so many at most where counts are small."""
    return 3600 if os.environ.get(FULL) else seconds
