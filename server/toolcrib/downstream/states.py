"""What a downstream is doing, and why.

Knows the states there are, and how a failure is told; never knows how a server comes into one.
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
class Failure:
    """Why a server cannot be used, as part of a sentence, and what to do about it, in sentences; no secret in either.

    ``is_silent``: it gave no answer in time.
    """

    reason: str
    remedy: str = ""
    is_silent: bool = False

    def __str__(self) -> str:
        """Both, for people and models."""
        return f"{self.reason}. {self.remedy}".strip()


@dataclass(frozen=True, slots=True)
class Status:
    """A server's state, and why, for people; ``reason`` holds no secret. ``since`` is on anyio's clock.

    ``failure`` is why it has failed, where it has.
    """

    state: State
    reason: str = ""
    since: float = field(default=0.0, compare=False)
    failure: Failure | None = None
