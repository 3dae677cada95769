"""What a downstream is doing, and why."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from toolcrib.base.model import OfferKind


@dataclass(frozen=True, slots=True)
class RawList:
    """The raw items of one list. ``cut`` says why it has no more of them; empty where it is whole."""

    items: list[Any] = field(default_factory=list[Any])
    cut: str = ""


@dataclass(frozen=True, slots=True)
class Offered:
    """What was read of a server's offers. A kind is missing whose list could not be read, or was not asked for.

    ``subscribes`` and ``completes`` say whether it declares subscriptions to resources, and completions.
    """

    lists: Mapping[OfferKind, RawList]
    subscribes: bool
    completes: bool


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
