"""A greeting is known in the identical situation only: whatever it rests on, a change of it makes it unknown."""

import json
import os
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib import __version__
from toolcrib.config.loading import load
from toolcrib.server import early
from toolcrib.server.early import FOLDER, StartConditions, answer_early

CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
RESULT = {"protocolVersion": "2025-11-25", "instructions": "as the last time"}
TABLES = (
    "CREATE TABLE servers(key, config_fingerprint, catalog_fingerprint, withheld, denied, extensions, listed_at)",
    "CREATE TABLE skills(id, root, record_hash, is_pinned)",
    "CREATE TABLE skills(id, is_off, use_count, last_used)",
)
ROWS = (
    (
        "INSERT INTO servers VALUES ('git', 'a', 'b', '[]', '[]', '{}', 1)",
        "UPDATE servers SET catalog_fingerprint = 'c'",
    ),
    ("INSERT INTO skills VALUES ('sk_1', 'r', 'h', 0)", "UPDATE skills SET is_pinned = 1"),
    ("INSERT INTO skills VALUES ('sk_1', 0, 1, 2.5)", "UPDATE skills SET use_count = 2"),
)


class Place:
    """A config, what a greeting rests on, and the greeting that was kept for it."""

    def __init__(self, folder: Path) -> None:
        self.config = folder / "mcp.json"
        self.config.write_text('{"toolcrib": {"cache_dir": "cache", "context": {"profile": "${PROFILE:-none}"}}}')
        self.skill, self.absent = folder / "skills" / "SKILL.md", folder / ".git"
        self.skill.parent.mkdir()
        self.skill.write_text("once")
        self.databases = [folder / f"{number}.db" for number in range(3)]
        for path, table, (first, _change) in zip(self.databases, TABLES, ROWS, strict=True):
            self.run(path, table)
            self.run(path, first)
        self.arguments, self.environ = ["--config", str(self.config)], {"HOME": str(folder), "PROFILE": "one"}
        self.params: Any = CLIENT
        self.keep()

    def run(self, path: Path, statement: str) -> None:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(statement)

    def keep(self) -> None:
        start = StartConditions(self.arguments, self.environ)
        files = [str(self.skill), str(self.skill.parent)]
        situation = start.situation(files, [str(self.absent)], ["TOKEN"], list(map(str, self.databases)))
        file = start.files(self.question)[0]
        file.parent.mkdir(parents=True)
        file.touch(mode=0o600)
        file.write_text(json.dumps({"situation": situation, "answers": self.answers}))

    @property
    def question(self) -> Any:
        return ["initialize", self.params]

    @property
    def answers(self) -> Any:
        return [[self.question, {"result": RESULT}]]

    def known(self) -> Any:
        return StartConditions(self.arguments, self.environ).known(self.question)


def add_client(place: Place, text: str) -> None:
    place.params = {**CLIENT, "clientInfo": {"name": text, "version": "2"}}


def add_argument(place: Place, text: str) -> None:
    place.arguments = [*place.arguments, text]


def name_variable(place: Place, text: str) -> None:
    place.environ = {**place.environ, "PROFILE": f"{text}."}


def set_own_variable(place: Place, text: str) -> None:
    place.environ = {**place.environ, "TOOLCRIB_PROFILE": f"{text}."}


def set_needed_variable(place: Place, text: str) -> None:
    place.environ = {**place.environ, "TOKEN": f"{text}."}


def move_home(place: Place, text: str) -> None:
    place.environ = {**place.environ, "HOME": f"/{text}"}


def change_config(place: Place, text: str) -> None:
    place.config.write_text(place.config.read_text() + " " * (1 + len(text)))


def change_skill(place: Place, text: str) -> None:
    place.skill.write_text(f"once more {text}")


def touch_skill(place: Place, text: str) -> None:
    os.utime(place.skill, ns=(1, len(text)))


def change_skill_unnoticed(place: Place, _text: str) -> None:
    rewrite_unnoticed(place.skill, "ecno")


def rewrite_unnoticed(file: Path, text: str) -> None:
    """Rewrite a file in place with as many bytes, and set its time back: only the inode tells."""
    before = file.stat()
    with file.open("r+") as opened:
        opened.write(text)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = file.stat()
    assert [getattr(after, key) for key in SAME] == [getattr(before, key) for key in SAME]
    # The clock of inodes may stand still for some milliseconds.
    while file.stat().st_ctime_ns == before.st_ctime_ns:
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


SAME = ("st_mtime_ns", "st_size", "st_ino")


def add_skill(place: Place, text: str) -> None:
    before = place.skill.parent.stat().st_mtime_ns
    (place.skill.parent / "another").mkdir()
    os.utime(place.skill.parent, ns=(before, before + 1 + len(text)))


def remove_skill(place: Place, _text: str) -> None:
    place.skill.unlink()


def make_place(place: Place, _text: str) -> None:
    place.absent.mkdir()


def change_rows(number: int) -> Callable[[Place, str], None]:
    return lambda place, _text: place.run(place.databases[number], ROWS[number][1])


def declare_extension(place: Place, text: str) -> None:
    place.run(place.databases[0], f"""UPDATE servers SET extensions = '{{"{text}": {{}}}}'""")


def remove_rows(number: int) -> Callable[[Place, str], None]:
    return lambda place, _text: place.databases[number].unlink()


CHANGES = (
    *(add_client, add_argument, name_variable, set_own_variable, set_needed_variable, move_home),
    *(
        change_config,
        change_skill,
        change_skill_unnoticed,
        touch_skill,
        add_skill,
        remove_skill,
        make_place,
        declare_extension,
    ),
    *(change_rows(number) for number in range(3)),
    *(remove_rows(number) for number in range(3)),
)


def known_or_none(place: Place) -> Any:
    """Return what is known; what cannot be read is not, as in :func:`begin`."""
    try:
        return place.known()
    except (OSError, sqlite3.Error):
        return None


@given(change=st.sampled_from(CHANGES), text=st.text(st.characters(codec="ascii", categories=["L", "N"]), max_size=8))
def test_after_any_change_the_greeting_is_unknown(tmp_path_factory, change, text):
    place = Place(tmp_path_factory.mktemp("place"))
    assert place.known() == place.answers
    change(place, text)
    assert not known_or_none(place)


@given(names=st.lists(st.sampled_from(["LINES", "PWD", "SHLVL", "TERM_SESSION_ID"]), unique=True), value=st.text())
def test_what_nothing_rests_on_changes_nothing(tmp_path_factory, names, value):
    place = Place(tmp_path_factory.mktemp("place"))
    place.environ |= dict.fromkeys(names, value)
    place.run(place.databases[0], "UPDATE servers SET listed_at = 2")
    assert place.known() == place.answers


def test_another_version_and_another_directory_answer_for_themselves(tmp_path, monkeypatch):
    place = Place(tmp_path)
    with monkeypatch.context() as changed:
        changed.setattr(early, "__version__", f"{__version__}.1")
        assert not place.known()
    with monkeypatch.context() as changed:
        changed.syspath_prepend(tmp_path)
        assert not place.known()
    monkeypatch.chdir(tmp_path)
    assert not place.known()


def test_a_greeting_that_others_could_have_written_is_not_given(tmp_path):
    place = Place(tmp_path)
    [file] = (tmp_path / "cache" / FOLDER).iterdir()
    file.chmod(0o620)
    assert not place.known()


class Asked(Mapping[str, str]):
    """Variables that are all set, but for that of a file, and which note by which names they were asked for."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.names.add(name)
        if name == "TOOLCRIB_CONFIG":
            raise KeyError(name)
        return "/nowhere"

    def __iter__(self):
        return iter(())

    def __len__(self) -> int:
        return 0


@pytest.mark.parametrize("named", [True, False])
def test_every_variable_that_the_config_is_loaded_by_counts(tmp_path, named):
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"a": {"command": "x", "env": {"A": "${OF_A_SERVER}"}}}}))
    asked = Asked()
    load(file if named else None, asked, tmp_path)
    arguments = ["--config", str(file)] if named else []
    plain = StartConditions(arguments, {"HOME": "/"})
    assert len(asked.names) > 8
    for name in asked.names - {"TOOLCRIB_CONFIG"}:
        assert StartConditions(arguments, {"HOME": "/", name: "another"}).files({}) != plain.files({}), name


def test_over_http_nothing_is_read_of_stdin(monkeypatch):
    monkeypatch.setattr(early.os, "read", lambda *_: pytest.fail("it has read"))
    begun = answer_early(["--transport", "http"], {})
    assert (begun.data, begun.replayed, begun.start) == (b"", [], None)


def test_a_file_that_the_config_refers_to_counts(tmp_path):
    file, secret = tmp_path / "mcp.json", tmp_path / "token"
    file.write_text(json.dumps({"mcpServers": {"a": {"command": "x", "env": {"A": "${file:token:-none}"}}}}))
    arguments = ["--config", str(file)]
    without = StartConditions(arguments, {"HOME": "/"}).files({})
    secret.write_text("one")
    with_one = StartConditions(arguments, {"HOME": "/"}).files({})
    secret.write_text("another")
    assert len({str(without), str(with_one), str(StartConditions(arguments, {"HOME": "/"}).files({}))}) == 3


def test_a_file_of_a_deny_that_is_rewritten_in_place_counts_whatever_time_it_is_given(tmp_path):
    file, denied = tmp_path / "mcp.json", tmp_path / "denied"
    file.write_text(json.dumps({"toolcrib": {"policy": {"deny": ["${file:denied}"]}}}))
    denied.write_text("zoo.feed")
    arguments = ["--config", str(file)]
    before = StartConditions(arguments, {"HOME": "/"}).files({})
    assert StartConditions(arguments, {"HOME": "/"}).files({}) == before
    rewrite_unnoticed(denied, "zoo.kill")
    assert StartConditions(arguments, {"HOME": "/"}).files({}) != before


def test_what_a_keyring_holds_cannot_be_known_early(tmp_path):
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"a": {"command": "x", "env": {"A": "${keyring:token}"}}}}))
    assert not StartConditions(["--config", str(file)], {"HOME": "/"}).is_knowable
    file.write_text("{}")
    assert StartConditions(["--config", str(file)], {"HOME": "/"}).is_knowable
