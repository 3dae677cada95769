"""The tables of ``state.db``: their columns and their migrations.

Knows names and SQL of tables only; never knows what a decision means or when it is asked for.
"""

import sqlite3

from toolcrib.storage.opening import Schema

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


_ACTIVE_SKILLS = "ALTER TABLE sessions ADD COLUMN skills TEXT NOT NULL DEFAULT '[]'"


def _first_tables(connection: sqlite3.Connection) -> None:
    for statement in (_SESSIONS, _ACTIVATIONS, _FORGOTTEN, _SKILLS, _META):
        connection.execute(statement)


def _outcomes(connection: sqlite3.Connection) -> None:
    connection.execute(_OUTCOMES)


def _with_approvals(connection: sqlite3.Connection) -> None:
    connection.execute(_APPROVALS)


def _with_active_skills(connection: sqlite3.Connection) -> None:
    connection.execute(_ACTIVE_SKILLS)


def _with_vocabulary(connection: sqlite3.Connection) -> None:
    connection.execute(_VOCABULARY)


_MIGRATIONS = _first_tables, _outcomes, _with_approvals, _with_active_skills, _with_vocabulary

STATE_SCHEMA = Schema(APPLICATION_ID, _MIGRATIONS, durable=True)
"""What ``state.db`` is. Append migrations, never change one: nothing in this file can be made again.

Times are in seconds since the epoch. A row of ``skills`` is there for each skill that was ever switched off or used,
whether the skill is there or not.
"""
