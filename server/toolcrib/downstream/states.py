"""What a downstream is doing, and why.

Knows the states there are; never knows how a server comes into one.
"""

from dataclasses import dataclass, field
from enum import StrEnum


class State(StrEnum):
    """What a server is doing."""

    SLEEPING = "sleeping"
    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Status:
    """A server's state, and why, for people; ``reason`` holds no secret. ``since`` is on anyio's clock."""

    state: State
    reason: str = ""
    since: float = field(default=0.0, compare=False)
