"""States of servers, the reasons for them, and what servers offer."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from toolcrib.base.model import OfferKind, Refused


@dataclass(frozen=True, slots=True)
class RawList:
    """The raw items of one list. ``cut`` says why it is incomplete; empty if it is whole.

    ``is_passing``: it may be whole the next time, because the server has not given a page that it has.
    """

    items: list[Any] = field(default_factory=list[Any])
    cut: str = ""
    is_passing: bool = False


@dataclass(frozen=True, slots=True)
class Offered:
    """What a server offers. A kind is missing if its list could not be read, or was not requested.

    ``subscribes`` and ``completes``: it declares subscriptions to resources, and completions.
    """

    lists: Mapping[OfferKind, RawList]
    subscribes: bool
    completes: bool


@dataclass(frozen=True, slots=True)
class OfferedSkill:
    """One skill of a server, as it gave it: the URI of its SKILL.md, and the bytes of all its files by URI."""

    uri: str
    files: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class OfferedSkills:
    """The skills of a server, and those that were refused. Unless ``is_complete``, there may be others."""

    skills: tuple[OfferedSkill, ...] = ()
    refused: tuple[Refused, ...] = ()
    is_complete: bool = True


class State(StrEnum):
    """The state of a server."""

    SLEEPING = "sleeping"
    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"
    NEEDS_LOGIN = "needs_login"


DOWN = (State.FAILED, State.NEEDS_LOGIN)
"""States of a server that is unusable until a person intervenes, or the next attempt succeeds."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a server cannot be used, as part of a sentence, and the remedy, in sentences; neither contains a secret.

    ``is_silent``: it did not answer in time. ``needs_login``: a person has to log in, as the remedy says.
    """

    reason: str
    remedy: str = ""
    is_silent: bool = False
    needs_login: bool = field(default=False, compare=False)  # stored only as part of the remedy

    def __str__(self) -> str:
        """Return both, for people and models."""
        return f"{self.reason}. {self.remedy}".strip()


@dataclass(frozen=True, slots=True)
class Spoken:
    """The protocol revision of a connection, and in a few words why it is that one."""

    protocol: str
    reason: str


@dataclass(frozen=True, slots=True)
class Status:
    """A server's state, and the reason, for people and without secrets. ``since`` is on anyio's clock.

    ``failure`` is set if it has failed, ``spoken`` while it is ready.
    """

    state: State
    reason: str = ""
    since: float = field(default=0.0, compare=False)
    failure: Failure | None = None
    spoken: Spoken | None = None


@dataclass(frozen=True, slots=True)
class Arriving:
    """The very first listing of a server, in progress. ``seconds`` since its start; None while it is queued."""

    seconds: float | None
    is_download: bool

    def __str__(self) -> str:
        """Return its progress."""
        if self.seconds is None:
            return "waiting for its turn"
        return f"{'downloading' if self.is_download else 'starting'}, {self.seconds:.0f} s so far"


@dataclass(frozen=True, slots=True)
class ServersNow:
    """The state of each server. ``unlisted`` were never listed; of these, ``arriving`` are being listed."""

    statuses: Mapping[str, Status]
    unlisted: Collection[str] = ()
    arriving: Mapping[str, Arriving] = field(default_factory=dict[str, Arriving])

    def needs_login(self, key: str) -> bool:
        """Return whether a server is down because it requires a login, and is not being started."""
        return self.statuses[key].state is State.NEEDS_LOGIN and key not in self.arriving

    def has_failed(self, key: str) -> bool:
        """Return whether a server is down and not being started."""
        return self.statuses[key].state in DOWN and key not in self.arriving
