"""A small schema, and how tests write and read a store that has it."""

import sqlite3

from toolcrib.storage.store import Schema, Store

APPLICATION_ID = 0x54455354


def make_notes(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)")


def make_full_text(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE VIRTUAL TABLE notes_fts USING fts5(text, content='notes', content_rowid='id')")


SCHEMA = Schema(APPLICATION_ID, (make_notes, make_full_text))


def add(store: Store, text: str) -> None:
    with store.write() as connection:
        connection.execute("INSERT INTO notes(text) VALUES (?)", (text,))


def texts(store: Store) -> list[str]:
    with store.read() as connection:
        return [row[0] for row in connection.execute("SELECT text FROM notes ORDER BY id")]
