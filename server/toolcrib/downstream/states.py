"""What a downstream is doing, and why.

Knows the states (R271 for logins), and how a failure is worded; never knows how a server enters one.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class State(StrEnum):
    """What a server is doing."""

    SLEEPING = "sleeping"
    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"
    NEEDS_LOGIN = "needs_login"


DOWN = (State.FAILED, State.NEEDS_LOGIN)
"""States of a server that gives nothing until somebody does something, or it is tried again."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a server cannot be used, as part of a sentence, and what to do about it, in sentences; no secret in either.

    ``is_silent``: it gave no answer in time. ``needs_login``: a person has to log in, as the remedy says.
    """

    reason: str
    remedy: str = ""
    is_silent: bool = False
    needs_login: bool = field(default=False, compare=False)  # the remedy says so where it is kept

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


@dataclass(frozen=True, slots=True)
class Arriving:
    """The very first listing of a server, under way. ``seconds``: since it was started; None: it waits for its turn."""

    seconds: float | None
    is_download: bool

    def __str__(self) -> str:
        """Say how far it is."""
        if self.seconds is None:
            return "waiting for its turn"
        return f"{'downloading' if self.is_download else 'starting'}, {self.seconds:.0f} s so far"


@dataclass(frozen=True, slots=True)
class ServersNow:
    """The state of each server. ``unlisted`` were never listed; of these, ``arriving`` are on their way."""

    statuses: Mapping[str, Status]
    unlisted: Collection[str] = ()
    arriving: Mapping[str, Arriving] = field(default_factory=dict[str, Arriving])

    def needs_login(self, key: str) -> bool:
        """Return whether a server is down for want of a login, and nobody is starting it."""
        return self.statuses[key].state is State.NEEDS_LOGIN and key not in self.arriving

    def has_failed(self, key: str) -> bool:
        """Return whether a server is down and nobody is starting it."""
        return self.statuses[key].state in DOWN and key not in self.arriving
