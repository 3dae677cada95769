"""Stores in ``state.db`` what cannot be rebuilt: activations, decisions, outcomes, learned words (ADR 14)."""

import json
import logging
import sqlite3
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Literal

from toolcrib.base.errors import StoreError
from toolcrib.base.json_values import as_list
from toolcrib.base.model import Caller
from toolcrib.policy.rules import VisibilityRule
from toolcrib.policy.sessions import Active, Change, changed, skills_from_json, skills_to_json
from toolcrib.search.learned_words import HALF_LIFE_S, NOTHING_LEARNT, Entry, Lesson, Vocabulary, vocabulary_of
from toolcrib.storage.opening import Schema, statements
from toolcrib.storage.store import Store

_log = logging.getLogger(__name__)


APPLICATION_ID = int.from_bytes(b"tcST")
"""Marks the file as one of decisions (``PRAGMA application_id``)."""

_SESSIONS = """
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    principal TEXT NOT NULL,
    session_id TEXT NOT NULL,
    last_used REAL NOT NULL,
    UNIQUE (principal, session_id)
)"""

_ACTIVATIONS = """
CREATE TABLE activations (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    name TEXT NOT NULL,
    UNIQUE (session, name)
)"""

# A trigger, because foreign keys hold only in connections that have switched them on.
_FORGOTTEN = """
CREATE TRIGGER sessions_forgotten AFTER DELETE ON sessions BEGIN
    DELETE FROM activations WHERE session = old.id;
END"""

_SKILLS = """
CREATE TABLE skills (
    id TEXT PRIMARY KEY,
    is_off INTEGER NOT NULL DEFAULT 0,
    use_count INTEGER NOT NULL DEFAULT 0,
    last_used REAL
) WITHOUT ROWID"""

# One row a name: an approval of something that has changed since gives way to the next one.
_APPROVALS = """
CREATE TABLE approvals (
    principal TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    given_at REAL NOT NULL,
    PRIMARY KEY (principal, kind, name)
) WITHOUT ROWID"""

_META = "CREATE TABLE state_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"


_OUTCOMES = """
CREATE TABLE skill_outcomes (
    principal TEXT NOT NULL,
    skill TEXT NOT NULL,
    digest TEXT NOT NULL,
    reports INTEGER NOT NULL,
    successes REAL NOT NULL,
    failures REAL NOT NULL,
    last_failure REAL NOT NULL,
    last_report REAL NOT NULL,
    note TEXT NOT NULL,
    PRIMARY KEY (principal, skill)
) WITHOUT ROWID"""


_VOCABULARY = """
CREATE TABLE vocabulary (
    learner TEXT NOT NULL,
    word TEXT NOT NULL,
    tool TEXT NOT NULL,
    weight REAL NOT NULL,
    taught_at REAL NOT NULL,
    PRIMARY KEY (learner, word, tool)
) WITHOUT ROWID"""

_REQUESTS = """
CREATE TABLE written_requests (
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    definition TEXT NOT NULL,
    requests TEXT NOT NULL,
    PRIMARY KEY (server, tool)
) WITHOUT ROWID"""


_MIGRATIONS = (
    statements(_SESSIONS, _ACTIVATIONS, _FORGOTTEN, _SKILLS, _META),
    statements(_OUTCOMES),
    statements(_APPROVALS),
    statements("ALTER TABLE sessions ADD COLUMN skills TEXT NOT NULL DEFAULT '[]'"),
    statements(_VOCABULARY),
    statements(_REQUESTS),
)

STATE_SCHEMA = Schema(APPLICATION_ID, _MIGRATIONS, durable=True)
"""What ``state.db`` is. Append migrations, never change one: nothing in this file can be made again.

Times are in seconds since the epoch. A row of ``skills`` is there for each skill that was ever switched off or used,
whether the skill is there or not.
"""


_LATEST = "ON CONFLICT DO UPDATE SET fingerprint = excluded.fingerprint, given_at = excluded.given_at"

ApprovedKind = Literal["tool", "skill"]
"""What can be allowed."""


@dataclass(frozen=True, slots=True)
class Approval:
    """A lasting yes of one principal: as long as what is named has this fingerprint, nobody is asked about it.

    ``name`` is the public name of a tool, or the ``source/folder`` of a skill.
    """

    principal: str
    kind: ApprovedKind
    name: str
    fingerprint: str


class Approvals:
    """Lasting answers, one for each principal, kind and name. Safe to use from several threads, and by processes.

    Nothing is remembered in memory: what one process takes back holds in all others at their next question. Every
    method raises StoreError where the file cannot be read or written.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def __contains__(self, approval: Approval) -> bool:
        with self._store.read() as connection:
            query = "SELECT fingerprint FROM approvals WHERE principal = ? AND kind = ? AND name = ?"
            row = connection.execute(query, (approval.principal, approval.kind, approval.name)).fetchone()
        return row is not None and row[0] == approval.fingerprint

    def all(self) -> list[tuple[Approval, float]]:
        """Return every approval with the time when it was given, in seconds since the epoch, by principal and name."""
        with self._store.read() as connection:
            columns = "principal, kind, name, fingerprint, given_at"
            rows = list(connection.execute(f"SELECT {columns} FROM approvals ORDER BY principal, kind, name"))  # noqa: S608 - own constants
        return [(Approval(*row[:-1]), row[-1]) for row in rows]

    def give(self, approval: Approval, now: float) -> None:
        """Keep an approval, in the place of one with another fingerprint. ``now`` is in seconds since the epoch."""
        values = approval.principal, approval.kind, approval.name, approval.fingerprint, now
        statement = f"INSERT INTO approvals VALUES (?, ?, ?, ?, ?) {_LATEST}"  # noqa: S608 - own constants
        self._store.execute(statement, values, owed=f"approval {values[:3]}")

    def revoke(self, principal: str, name: str) -> bool:
        """Forget what a principal has allowed under a name; return whether there was anything."""
        statement = "DELETE FROM approvals WHERE principal = ? AND name = ?"
        return bool(self._store.execute(statement, (principal, name)))


_TOUCH_AFTER_S = 3600.0
"""A time of last use is moved only when it is this old: most connections of a session write nothing."""

_SESSION = "SELECT id FROM sessions WHERE principal = ? AND session_id = ?"


@dataclass(frozen=True, slots=True)
class SessionBounds:
    """Most session ids of one principal, and most activations of one session id; beyond them the oldest go.

    ``age_s``: a session that was not used for so long is forgotten.
    """

    sessions: int
    activations: int
    age_s: float


class StoredSessions:
    """Activations by principal and session id. Safe to use from several threads.

    Times are in seconds since the epoch. Every method raises StoreError where the file cannot be read or written.
    """

    def __init__(self, store: Store, bounds: SessionBounds) -> None:
        self._store, self._bounds = store, bounds

    def activated(self, principal: str, session_id: str, now: float) -> set[str]:
        """Return the public names that a caller's session has activated, and note that it is in use, to the hour."""
        key = principal, session_id
        with self._store.read() as connection:
            query = "SELECT id, last_used FROM sessions WHERE principal = ? AND session_id = ?"
            session, last_used = connection.execute(query, key).fetchone() or (None, now)
            query = "SELECT name FROM activations WHERE session = ?"
            names = {row[0] for row in connection.execute(query, (session,))}
        # To the hour, so that most requests only read.
        if now - last_used >= _TOUCH_AFTER_S:
            statement = "UPDATE sessions SET last_used = ? WHERE principal = ? AND session_id = ?"
            self._store.execute(statement, (now, *key), owed=f"touch {key}")
        return names

    def record(self, principal: str, session_id: str, name: str, now: float) -> None:
        """Store an activation for a caller and a session id; beyond the bounds the oldest are deleted."""
        key = principal, session_id

        def record(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT INTO sessions(principal, session_id, last_used) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                (*key, now),
            )
            statement = f"INSERT INTO activations(session, name) VALUES (({_SESSION}), ?) ON CONFLICT DO NOTHING"  # noqa: S608
            if connection.execute(statement, (*key, name)).rowcount:
                self._forget_oldest(connection, *key)

        self._store.change(record, owed=f"activation {principal, session_id, name}")

    def active_skills(self, principal: str, session_id: str) -> Active | None:
        """Return the skills that are active in a caller's session, in order; None if nothing is kept of it."""
        with self._store.read() as connection:
            return _active_skills(connection, principal, session_id)

    def change_skills(
        self, principal: str, session_id: str, changes: Sequence[Change], now: float, known: Active = ()
    ) -> Active:
        """Change which skills are active in a caller's session; return those that are now.

        What another process has changed meanwhile stays: a change is made to what is kept, in one transaction, or to
        those that are ``known`` to be active if nothing is kept of the session any more.
        """
        key = principal, session_id
        # Read first: most requests change nothing, and a write waits for other processes.
        before = self.active_skills(*key)
        if before is not None and changed(before, changes) == before:
            return before

        def change(connection: sqlite3.Connection) -> Active:
            kept = _active_skills(connection, *key)
            after = changed(known if kept is None else kept, changes)
            connection.execute(
                "INSERT INTO sessions(principal, session_id, last_used, skills) VALUES (?, ?, ?, ?) "
                "ON CONFLICT DO UPDATE SET skills = excluded.skills",
                (*key, now, skills_to_json(after)),
            )
            self._forget_oldest(connection, *key)
            return after

        return self._store.change(change, owed=f"active skills {key} {changes}")

    def _forget_oldest(self, connection: sqlite3.Connection, principal: str, session_id: str) -> None:
        connection.execute(
            f"DELETE FROM activations WHERE session = ({_SESSION}) AND id NOT IN "  # noqa: S608 - own constants
            f"(SELECT id FROM activations WHERE session = ({_SESSION}) ORDER BY id DESC LIMIT ?)",
            (principal, session_id, principal, session_id, self._bounds.activations),
        )
        connection.execute(
            "DELETE FROM sessions WHERE principal = ? AND id NOT IN "
            "(SELECT id FROM sessions WHERE principal = ? ORDER BY last_used DESC, id DESC LIMIT ?)",
            (principal, principal, self._bounds.sessions),
        )

    def expire(self, now: float) -> None:
        """Forget sessions that were not used for too long."""
        self._store.execute("DELETE FROM sessions WHERE last_used < ?", (now - self._bounds.age_s,))


def _active_skills(connection: sqlite3.Connection, principal: str, session_id: str) -> Active | None:
    query = "SELECT skills FROM sessions WHERE principal = ? AND session_id = ?"
    row = connection.execute(query, (principal, session_id)).fetchone()
    return skills_from_json(row[0]) if row else None


_ALL_SKILLS = "SELECT id, is_off, use_count, last_used FROM skills"
_SWITCH = "INSERT INTO skills(id, is_off) VALUES (?, ?) ON CONFLICT DO UPDATE SET is_off = excluded.is_off"
_USE = (
    "INSERT INTO skills(id, use_count, last_used) VALUES (?, 1, ?) "
    "ON CONFLICT DO UPDATE SET use_count = use_count + 1, last_used = excluded.last_used"
)

_SkillRow = tuple[str, int, int, float | None]


@dataclass(frozen=True, slots=True)
class Use:
    """How often a skill was used, and when last, in seconds since the epoch."""

    count: int
    last: float


class SkillDecisions:
    """Switches and use by the id of a skill, whether the skill is there or not. Safe to use from several threads.

    What is known of them is written again where the file turns out damaged in use. Every method raises StoreError
    where the file cannot be read or written.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._known: dict[str, _SkillRow] = {}
        # Damage in use replaces the file by an empty one, and a disabled skill must not come back.
        store.prepare(self._write_known)
        with suppress(StoreError):  # said by whoever asks next
            self._read()

    def switched_off(self) -> frozenset[str]:
        """Return the ids of all skills that are switched off."""
        return frozenset(row[0] for row in self._read() if row[1])

    def uses(self) -> dict[str, Use]:
        """Return the use of all skills that were ever used, by id."""
        return {row[0]: Use(row[2], row[3] or 0.0) for row in self._read() if row[2]}

    def switch(self, skill_id: str, *, enabled: bool) -> None:
        """Enable or disable a skill, for good."""

        def switch(connection: sqlite3.Connection) -> None:
            there = connection.execute("SELECT is_off FROM skills WHERE id = ?", (skill_id,)).fetchone()
            if bool(there and there[0]) == enabled:
                connection.execute(_SWITCH, (skill_id, int(not enabled)))

        self.store.change(switch, owed=f"switch {skill_id}")
        self._read()

    def record_use(self, ids: Collection[str], now: float) -> None:
        """Count one use of each of these skills. ``now`` is in seconds since the epoch."""
        if not ids:
            return
        rows = [(skill_id, now) for skill_id in ids]

        def use(connection: sqlite3.Connection) -> list[_SkillRow]:
            connection.executemany(_USE, rows)
            return [row for each in ids for row in connection.execute(f"{_ALL_SKILLS} WHERE id = ?", (each,))]

        used = self.store.change(use, owed=f"use {now} {ids}")
        self._known = {**self._known, **{row[0]: row for row in used}}

    def _read(self) -> Collection[_SkillRow]:
        with self.store.read() as connection:
            self._known = {row[0]: row for row in connection.execute(_ALL_SKILLS)}
        return self._known.values()

    def _write_known(self, store: Store) -> None:
        known = self._known
        if known:
            with store.write() as connection:
                connection.executemany("INSERT INTO skills VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", known.values())


OUTCOME_HALF_LIFE_S = 30 * 86_400.0
"""After so long a report counts half."""

_OUTCOME_FORGOTTEN_S = 10 * OUTCOME_HALF_LIFE_S
"""Reports that are older weigh less than a thousandth."""
_PER_PRINCIPAL = 1000
"""Skills of one principal that are remembered; beyond them those go that were reported on least recently."""

_OUTCOME_COLUMNS = "principal, skill, digest, reports, successes, failures, last_failure, last_report, note"
_KEEP_OUTCOME = f"INSERT OR REPLACE INTO skill_outcomes({_OUTCOME_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - own constant


@dataclass(frozen=True, slots=True)
class Report:
    """One report: whether the skill with this id and content hash did what it was for. ``note`` may say more."""

    skill_id: str
    digest: str
    success: bool
    note: str = ""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The reports of one principal about one text of a skill; a text with another ``digest`` starts from zero.

    ``successes`` and ``failures`` are the weights of the reports at ``last_report``: each is 1 when it comes and half
    of that a half-life later. Times are in seconds since the epoch; ``last_failure`` is 0 where there was none.
    ``note`` came with the last report that had one.
    """

    digest: str
    reports: int = 0
    successes: float = 0.0
    failures: float = 0.0
    last_failure: float = 0.0
    last_report: float = 0.0
    note: str = ""

    def with_report(self, report: Report, now: float) -> "Outcomes":
        """Return them with one more report."""
        before = self if self.digest == report.digest else Outcomes(report.digest)
        # Weights fade from report to report, so no single reports have to be stored.
        fading = faded(now - before.last_report)
        return Outcomes(
            report.digest,
            before.reports + 1,
            before.successes * fading + report.success,
            before.failures * fading + (not report.success),
            before.last_failure if report.success else now,
            now,
            report.note or before.note,
        )


def faded(age_s: float) -> float:
    """Return what is left of a weight of 1 after ``age_s`` seconds."""
    return 0.5 ** (max(age_s, 0.0) / OUTCOME_HALF_LIFE_S)


class SkillOutcomes:
    """Outcomes by principal and the id of a skill, whether the skill is there or not. Safe to use from several threads.

    Every method raises StoreError where the file cannot be read or written.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def by_principal(self, principal: str) -> dict[str, Outcomes]:
        """Return what a principal reported, by the id of the skill."""
        query = f"SELECT {_OUTCOME_COLUMNS} FROM skill_outcomes WHERE principal = ?"  # noqa: S608 - own constant
        with self._store.read() as connection:
            return {skill: Outcomes(*rest) for _, skill, *rest in connection.execute(query, (principal,))}

    def by_skill(self, skill_id: str) -> Mapping[str, Outcomes]:
        """Return what was reported of a skill, by principal."""
        query = f"SELECT {_OUTCOME_COLUMNS} FROM skill_outcomes WHERE skill = ? ORDER BY principal"  # noqa: S608 - own constant
        with self._store.read() as connection:
            return {principal: Outcomes(*rest) for principal, _, *rest in connection.execute(query, (skill_id,))}

    def record(self, principal: str, report: Report, now: float) -> None:
        """Count one report of a principal, who bears it alone. ``now`` is in seconds since the epoch."""

        def record(connection: sqlite3.Connection) -> None:
            query = f"SELECT {_OUTCOME_COLUMNS} FROM skill_outcomes WHERE principal = ? AND skill = ?"  # noqa: S608 - own constant
            row = connection.execute(query, (principal, report.skill_id)).fetchone()
            known = Outcomes(*row[2:]) if row else Outcomes(report.digest)
            one = known.with_report(report, now)
            connection.execute(_KEEP_OUTCOME, (principal, report.skill_id, *astuple(one)))
            connection.execute(
                "DELETE FROM skill_outcomes WHERE principal = ? AND skill NOT IN "
                "(SELECT skill FROM skill_outcomes WHERE principal = ? ORDER BY last_report DESC LIMIT ?)",
                (principal, principal, _PER_PRINCIPAL),
            )

        self._store.change(record, owed=f"outcome {now} {principal} {report.skill_id}")

    def expire(self, now: float) -> None:
        """Forget what was reported too long ago to count."""
        self._store.execute("DELETE FROM skill_outcomes WHERE last_report < ?", (now - _OUTCOME_FORGOTTEN_S,))


LEARNERS_MAX = 50
"""So many have a vocabulary. A further one gets none until another is forgotten: nobody's goes for somebody else's."""

EVERYBODY = "[]"
"""Who learns where all share one vocabulary: all of whom no rule of the policy in particular is about."""

_FORGOTTEN_S = 10 * HALF_LIFE_S
"""What was taught longer ago goes at a start."""

_WORD_COLUMNS = "learner, word, tool, weight, taught_at"
_ALL_WORDS = f"SELECT {_WORD_COLUMNS} FROM vocabulary"  # noqa: S608 - own constant
_OTHERS = "SELECT COUNT(DISTINCT learner) FROM vocabulary WHERE learner NOT IN (SELECT value FROM json_each(?))"
_KEEP_WORD = f"INSERT OR REPLACE INTO vocabulary({_WORD_COLUMNS}) VALUES (?, ?, ?, ?, ?)"  # noqa: S608 - own constant
_DROP = "DELETE FROM vocabulary WHERE learner = ? AND word = ? AND tool = ?"

_WordRow = tuple[str, str, str, float, float]

Vocabularies = Mapping[str, Vocabulary]
"""By who learns; who has learnt nothing is left out."""


@dataclass(frozen=True, slots=True)
class LessonFilter:
    """What is to be forgotten: all that fits each of these that is given."""

    learners: Sequence[str] | None = None
    words: Sequence[str] | None = None
    tool: str | None = None


def learner_key(caller: Caller) -> str:
    """Return the text by which a caller learns: all that may decide what the caller may use."""
    return json.dumps([caller.principal, caller.tenant_id, caller.project_id, caller.profile])


def group_key(rules: Iterable[VisibilityRule]) -> str:
    """Return the text by which all learn together whom these rules are about, and who so may use the same tools."""
    told = [dict(rule.when) for rule in rules]
    return json.dumps({"when": told}, sort_keys=True) if told else EVERYBODY


def caller_from_key(learner: str) -> Caller | None:
    """Return who learns by a text; None where several do, or another program has written it."""
    try:
        known = as_list(json.loads(learner))
    except ValueError:
        return None
    return Caller(str(known[0]), *known[1:]) if len(known) == 4 else None


def with_lesson(known: Vocabularies, learner: str, lesson: Lesson, others: int = 0) -> Vocabularies:
    """Return vocabularies with one more lesson of somebody, within the bounds; ``others`` are learners besides."""
    # A new learner never evicts another: one caller could make all others forget.
    if learner not in known and len(known) + others >= LEARNERS_MAX:
        return known
    return {**known, learner: known.get(learner, NOTHING_LEARNT).after(lesson)}


class StoredVocabularies:
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
            return _vocabularies(connection.execute(_ALL_WORDS))

    def teach(self, lessons: Sequence[tuple[str, Lesson]]) -> None:
        """Take in lessons, each with who learns, in this order."""
        learners = {learner for learner, _ in lessons}

        def teach(connection: sqlite3.Connection) -> None:
            others = connection.execute(_OTHERS, (json.dumps(list(learners)),)).fetchone()[0]
            before = now = _vocabularies(
                row for each in learners for row in connection.execute(f"{_ALL_WORDS} WHERE learner = ?", (each,))
            )
            for learner, lesson in lessons:
                now = with_lesson(now, learner, lesson, others)
            old, new = set(_word_rows(before)), set(_word_rows(now))
            # Only rows that differ: a lesson changes a few of thousands.
            connection.executemany(_DROP, [row[:3] for row in old - new])
            connection.executemany(_KEEP_WORD, new - old)

        self._store.change(teach, owed=f"lessons {lessons}")
        self._last_change = object()

    def forget(self, what: LessonFilter) -> int:
        """Forget what was taught; return how many pairs of a word and a tool that was."""
        statement = (
            "DELETE FROM vocabulary WHERE (:learners IS NULL OR learner IN (SELECT value FROM json_each(:learners))) "
            "AND (:words IS NULL OR word IN (SELECT value FROM json_each(:words))) "
            "AND (:tool IS NULL OR tool = :tool)"
        )
        values = {"learners": _as_list(what.learners), "words": _as_list(what.words), "tool": what.tool}
        return self._store.execute(statement, values)

    def expire(self, now: float) -> None:
        """Forget what was taught too long ago."""
        self._store.execute("DELETE FROM vocabulary WHERE taught_at < ?", (now - _FORGOTTEN_S,))


def _as_list(given: Sequence[str] | None) -> str | None:
    return None if given is None else json.dumps(list(given))


def _vocabularies(rows: Iterable[_WordRow]) -> Vocabularies:
    pairs: dict[str, list[tuple[str, str, Entry]]] = {}
    for learner, word, tool, weight, taught_at in rows:
        pairs.setdefault(learner, []).append((word, tool, Entry(weight, taught_at)))
    return {learner: vocabulary_of(theirs) for learner, theirs in pairs.items()}


def _word_rows(known: Vocabularies) -> list[_WordRow]:
    return [
        (learner, word, tool, entry.weight, entry.at)
        for learner, vocabulary in known.items()
        for word, tool, entry in vocabulary.pairs()
    ]


@dataclass(frozen=True, slots=True)
class WrittenRequests:
    """Requests that a command of the person wrote for a tool.

    ``definition`` is the hash of the definition that it was given, ``fingerprint`` that of the tool's whole record.
    """

    server: str
    tool: str
    fingerprint: str
    definition: str
    requests: tuple[str, ...]


class StoredRequests:
    """Requests written for tools, in ``state.db``: another run of the command would cost as much as the first.

    Safe to use from several threads, and by processes. Every method raises StoreError where the file cannot be read or
    written.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last_change = object()

    def version(self) -> tuple[int, object]:
        """Return a value that changes with every change, also by another process; never waits."""
        return self._store.data_version(), self._last_change

    def all(self) -> list[WrittenRequests]:
        """Return the requests of every tool."""
        query = "SELECT server, tool, fingerprint, definition, requests FROM written_requests ORDER BY server, tool"
        with self._store.read() as connection:
            rows: Iterable[tuple[str, str, str, str, str]] = connection.execute(query)
            return [
                WrittenRequests(server, tool, fingerprint, definition, _texts(requests))
                for server, tool, fingerprint, definition, requests in rows
            ]

    def keep(self, written: WrittenRequests) -> None:
        """Store the requests of a tool in place of those that it had."""
        row = (*astuple(written)[:4], json.dumps(written.requests))
        self._store.execute("INSERT OR REPLACE INTO written_requests VALUES (?, ?, ?, ?, ?)", row)
        self._last_change = object()

    def remove(self, tools: Iterable[tuple[str, str]]) -> None:
        """Remove the requests of these tools, each by its server and name."""
        pairs = list(tools)

        def remove(connection: sqlite3.Connection) -> None:
            connection.executemany("DELETE FROM written_requests WHERE server = ? AND tool = ?", pairs)

        self._store.change(remove)
        self._last_change = object()


def _texts(stored: str) -> tuple[str, ...]:
    """Return a list of texts as stored; what another program has written in its place is none."""
    with suppress(ValueError):
        return tuple(text for text in as_list(json.loads(stored)) if isinstance(text, str))
    return ()


@dataclass(frozen=True, slots=True)
class State:
    """The parts of an open ``state.db``: a person's decisions, and what cannot be rebuilt."""

    store: Store
    sessions: StoredSessions
    skills: SkillDecisions
    outcomes: SkillOutcomes
    approvals: Approvals
    vocabularies: StoredVocabularies
    requests: StoredRequests


@contextmanager
def open_state(
    file: Path | None, bounds: SessionBounds, *, clock: Callable[[], float], on_replaced: Callable[[str], None]
) -> Generator[State]:
    """Open ``state.db`` and delete what has expired in it. ``file`` and ``on_replaced`` are the store's.

    Raises:
        StoreError: it can neither be opened nor replaced.

    """
    with Store(file, STATE_SCHEMA, fts="off", clock=clock, on_replaced=on_replaced) as store:
        sessions, outcomes, vocabularies = (
            StoredSessions(store, bounds),
            SkillOutcomes(store),
            StoredVocabularies(store),
        )
        try:
            for part in (sessions, outcomes, vocabularies):
                part.expire(clock())
        # A file that another process keeps locked for long must stop no start: the next one deletes it.
        except StoreError as error:
            _log.warning("%s %s", error, error.detail)
        yield State(
            store, sessions, SkillDecisions(store), outcomes, Approvals(store), vocabularies, StoredRequests(store)
        )
