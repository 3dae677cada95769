"""Opens ``state.db``: its parts, and what a process does with them at its start.

Knows which parts the file has; never knows what an earlier version stored elsewhere, which is passed in.
"""

import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from toolcrib.access.state.approvals import Approvals
from toolcrib.access.state.earlier import EarlierFile, EarlierTable, take_over
from toolcrib.access.state.kept_sessions import KeptBounds, KeptSessions
from toolcrib.access.state.skill_decisions import SkillDecisions
from toolcrib.access.state.skill_outcomes import SkillOutcomes
from toolcrib.access.state.tables import STATE_SCHEMA
from toolcrib.access.state.vocabularies import KeptVocabularies
from toolcrib.base.errors import StoreError
from toolcrib.storage.store import Store

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class State:
    """What was decided, and what cannot be made again.

    ``has_all``: the file has what an earlier version kept elsewhere; otherwise that must not be removed there.
    """

    store: Store
    sessions: KeptSessions
    skills: SkillDecisions
    outcomes: SkillOutcomes
    approvals: Approvals
    vocabularies: KeptVocabularies
    has_all: bool


@dataclass(frozen=True, slots=True)
class Earlier:
    """Where earlier versions kept decisions: the index of tools the activations, that of skills the rest."""

    activations: tuple[Path, EarlierTable]
    skills: tuple[Path, EarlierTable]


@contextmanager
def open_state(
    file: Path, bounds: KeptBounds, earlier: Earlier, *, clock: Callable[[], float], told: Callable[[str], None]
) -> Generator[State]:
    """Open ``state.db``, with what an earlier version kept elsewhere. ``told`` is the store's.

    A file that another process keeps locked for long stops no start: what was to be done first is done at the next.

    Raises:
        StoreError: it can neither be opened nor replaced.

    """
    with Store(file, STATE_SCHEMA, fts="off", clock=clock, told=told) as store:
        sessions, skills, outcomes = KeptSessions(store, bounds), SkillDecisions(store), SkillOutcomes(store)
        files: Sequence[EarlierFile] = (
            EarlierFile(*earlier.activations, sessions.keep),
            EarlierFile(*earlier.skills, skills.keep),
        )
        vocabularies = KeptVocabularies(store)
        has_all = False
        try:
            has_all = take_over(store, files)
            sessions.expire(clock())
            outcomes.expire(clock())
            vocabularies.expire(clock())
        except StoreError as error:
            _log.warning("%s: %s %s", file.name, error, error.detail)
        yield State(store, sessions, skills, outcomes, Approvals(store), vocabularies, has_all)
