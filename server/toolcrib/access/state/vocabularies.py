"""Words learned from use, on disk: one vocabulary per caller it was learned from (ADR 49).

Knows learners (by an identifying text), words and names; never knows requests, whether a tool exists or who may use it.
Everything here may block: the event loop calls it through a worker thread.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from toolcrib.access.policy import VisibilityRule
from toolcrib.base.json_values import as_list
from toolcrib.base.model import Caller
from toolcrib.search.learned_words import HALF_LIFE_S, NOTHING_LEARNT, Entry, Lesson, Vocabulary, vocabulary_of
from toolcrib.storage.store import Store

LEARNERS_MAX = 50
"""So many have a vocabulary. A further one gets none until another is forgotten: nobody's goes for somebody else's."""

EVERYBODY = "[]"
"""Who learns where all share one vocabulary: all of whom no rule of the policy in particular is about."""

_FORGOTTEN_S = 10 * HALF_LIFE_S
"""What was taught longer ago goes at a start."""

_COLUMNS = "learner, word, tool, weight, taught_at"
_ALL = f"SELECT {_COLUMNS} FROM vocabulary"  # noqa: S608 - own constant
_OTHERS = "SELECT COUNT(DISTINCT learner) FROM vocabulary WHERE learner NOT IN (SELECT value FROM json_each(?))"
_KEEP = f"INSERT OR REPLACE INTO vocabulary({_COLUMNS}) VALUES (?, ?, ?, ?, ?)"  # noqa: S608 - own constant
_DROP = "DELETE FROM vocabulary WHERE learner = ? AND word = ? AND tool = ?"

_Row = tuple[str, str, str, float, float]

Vocabularies = Mapping[str, Vocabulary]
"""By who learns; who has learnt nothing is left out."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What is to be forgotten: all that fits each of these that is given."""

    learners: Sequence[str] | None = None
    words: Sequence[str] | None = None
    tool: str | None = None


def learner_of(caller: Caller) -> str:
    """Return the text by which a caller learns: all that may decide what the caller may use."""
    return json.dumps([caller.principal, caller.tenant_id, caller.project_id, caller.profile])


def group_of(rules: Iterable[VisibilityRule]) -> str:
    """Return the text by which all learn together whom these rules are about, and who so may use the same tools."""
    told = [dict(rule.when) for rule in rules]
    return json.dumps({"when": told}, sort_keys=True) if told else EVERYBODY


def caller_of(learner: str) -> Caller | None:
    """Return who learns by a text; None where several do, or another program has written it."""
    try:
        known = as_list(json.loads(learner))
    except ValueError:
        return None
    return Caller(str(known[0]), *known[1:]) if len(known) == 4 else None


def taught(known: Vocabularies, learner: str, lesson: Lesson, others: int = 0) -> Vocabularies:
    """Return vocabularies with one more lesson of somebody, within the bounds; ``others`` are learners besides."""
    if learner not in known and len(known) + others >= LEARNERS_MAX:
        return known
    return {**known, learner: known.get(learner, NOTHING_LEARNT).after(lesson)}


class KeptVocabularies:
    """Vocabularies in ``state.db``. Safe to use from several threads, and by processes.

    Every method raises StoreError where the file cannot be read or written.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last_change = object()

    def version(self) -> tuple[int, object]:
        """Return what is another once lessons were taken in here, or another process has written; never waits."""
        return self._store.data_version(), self._last_change

    def all(self) -> Vocabularies:
        """Return every vocabulary."""
        with self._store.read() as connection:
            return _vocabularies(connection.execute(_ALL))

    def teach(self, lessons: Sequence[tuple[str, Lesson]]) -> None:
        """Take in lessons, each with who learns, in this order."""
        learners = {learner for learner, _ in lessons}

        def teach(connection: sqlite3.Connection) -> None:
            others = connection.execute(_OTHERS, (json.dumps(list(learners)),)).fetchone()[0]
            before = now = _vocabularies(
                row for each in learners for row in connection.execute(f"{_ALL} WHERE learner = ?", (each,))
            )
            for learner, lesson in lessons:
                now = taught(now, learner, lesson, others)
            old, new = set(_rows(before)), set(_rows(now))
            connection.executemany(_DROP, [row[:3] for row in old - new])
            connection.executemany(_KEEP, new - old)

        self._store.change(teach, owed=f"lessons {lessons}")
        self._last_change = object()

    def forget(self, what: Forgotten) -> int:
        """Forget what was taught; return how many pairs of a word and a tool that was."""
        statement = (
            "DELETE FROM vocabulary WHERE (:learners IS NULL OR learner IN (SELECT value FROM json_each(:learners))) "
            "AND (:words IS NULL OR word IN (SELECT value FROM json_each(:words))) "
            "AND (:tool IS NULL OR tool = :tool)"
        )
        values = {"learners": _as_list(what.learners), "words": _as_list(what.words), "tool": what.tool}
        return self._store.change(lambda connection: connection.execute(statement, values).rowcount)

    def expire(self, now: float) -> None:
        """Forget what was taught too long ago."""
        statement, older_than = "DELETE FROM vocabulary WHERE taught_at < ?", now - _FORGOTTEN_S
        self._store.change(lambda connection: connection.execute(statement, (older_than,)))


def _as_list(given: Sequence[str] | None) -> str | None:
    return None if given is None else json.dumps(list(given))


def _vocabularies(rows: Iterable[_Row]) -> Vocabularies:
    pairs: dict[str, list[tuple[str, str, Entry]]] = {}
    for learner, word, tool, weight, taught_at in rows:
        pairs.setdefault(learner, []).append((word, tool, Entry(weight, taught_at)))
    return {learner: vocabulary_of(theirs) for learner, theirs in pairs.items()}


def _rows(known: Vocabularies) -> list[_Row]:
    return [
        (learner, word, tool, entry.weight, entry.at)
        for learner, vocabulary in known.items()
        for word, tool, entry in vocabulary.pairs()
    ]
