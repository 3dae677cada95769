"""Stored logins, in files or in the system's keyring: one record for each entry of ``mcpServers``.

Knows where a record is stored and what an unreadable one counts as; never knows a lock or a provider.
"""

import hashlib
import json
import logging
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from toolcrib.base.errors import StoreError
from toolcrib.config.settings import HttpTarget
from toolcrib.login.kept_file import KeptFile, Stamp
from toolcrib.login.keyring import Keyring
from toolcrib.login.records import Record, decoded, encoded

_log = logging.getLogger(__name__)

_UNREADABLE = re.compile(r"[^A-Za-z0-9]+")
_FILE = ".json"
_FILES_MAX = 1000
_LOG_IN_AGAIN = "log in again"


class Keeper:
    """Reads and writes stored logins. All of it blocks.

    If there is a ``keyring`` it has the secrets, and files contain none of them.
    """

    def __init__(self, folder: Path, keyring: Keyring) -> None:
        self._folder, self._keyring = folder, keyring

    def file(self, server_url: str, entry: str) -> KeptFile:
        """Return the file of one entry at one server: another URL is another login."""
        readable = _UNREADABLE.sub("-", entry).strip("-")[:40] or "server"
        digest = hashlib.sha256(json.dumps([server_url, entry]).encode()).hexdigest()[:16]
        return KeptFile(self._folder / f"{readable}-{digest}{_FILE}")

    def read(self, file: KeptFile, blank: Record) -> tuple[Record, Stamp | None]:
        """Return the stored record and the stamp of its content; ``blank`` if there is none.

        A damaged file counts as none, and the record says so.
        """
        try:
            content = file.read()
        except OSError as error:
            reason = error.strerror or str(error)
            return replace(blank, problem=f"{file.path} cannot be read: {reason}"), file.stamp()
        if content is None:
            return blank, None
        data, stamp = content
        try:
            record = decoded(data)
        except ValueError:
            return replace(blank, problem=f"{file.path} is damaged, so {_LOG_IN_AGAIN}"), stamp
        if record.entry != blank.entry or record.server != blank.server:
            return replace(blank, problem=f"{file.path} belongs to another server, so {_LOG_IN_AGAIN}"), stamp
        return (self._from_keyring(file, record) if record.is_in_keyring else record), stamp

    def write(self, file: KeptFile, record: Record) -> Stamp:
        """Store a record, replacing the previous one atomically.

        Raises:
            StoreError: it cannot be stored.

        """
        in_keyring = self._is_in_keyring(file, record)
        try:
            return file.write(encoded(record, with_secrets=not in_keyring).encode())
        except OSError as error:
            raise StoreError(f"{file.path} cannot be written: {error.strerror or error}") from error

    def remove(self, file: KeptFile) -> bool:
        """Delete the stored record, and return whether there was one.

        Raises:
            StoreError: it cannot be removed.

        """
        if self._keyring.is_usable():
            self._keyring.delete(_name_of(file))
        try:
            return file.remove()
        except OSError as error:
            raise StoreError(f"{file.path} cannot be removed: {error.strerror or error}") from error

    def facts(self) -> Iterator[Record]:
        """Yield the public facts of each stored login, without using the keyring; damaged ones are skipped."""
        for path in sorted(self._folder.glob(f"*{_FILE}"))[:_FILES_MAX]:
            with suppress(OSError, ValueError):
                if content := KeptFile(path).read():
                    yield decoded(content[0])

    def _from_keyring(self, file: KeptFile, facts: Record) -> Record:
        """Return the record in the keyring, which is written before the file and may be newer."""
        nothing = Record(facts.entry, facts.server, is_in_keyring=True)
        try:
            if not self._keyring.is_usable():
                reason = f"the login is in the system's keyring, and there is none here, so {_LOG_IN_AGAIN}"
                return replace(nothing, problem=reason)
            text = self._keyring.get(_name_of(file))
            record = decoded(text or "")
        except StoreError as error:
            return replace(nothing, problem=str(error))
        except ValueError:
            return replace(nothing, problem=f"the system's keyring does not have the login, so {_LOG_IN_AGAIN}")
        return replace(record, is_in_keyring=True)

    def _is_in_keyring(self, file: KeptFile, record: Record) -> bool:
        """Store the secrets in the keyring, if there is one that accepts them: otherwise they go into the file."""
        try:
            if not self._keyring.is_usable():
                return False
            self._keyring.set(_name_of(file), encoded(record, with_secrets=True))
        except StoreError as error:
            # A provider's tokens can often not be issued again, so a failing keyring must not lose them.
            _log.warning("%s; the login to %s is stored in a private file instead", error, record.entry)
            return False
        return True


def blank_record(server_url: str, entry: str) -> Record:
    """Return the record of a server without a login."""
    return Record(entry, HttpTarget(server_url, {}).public_url)


def _name_of(file: KeptFile) -> str:
    """Return the name of a record in the keyring: it cannot collide with a secret named in a config."""
    return f"login/{file.path.stem}"


def kept_in_keyring(path: Path) -> str | None:
    """Return the name of a file's record in the keyring; None if it is not there, or unknown."""
    file = KeptFile(path)
    with suppress(OSError, ValueError):
        content = file.read()
        if content and decoded(content[0]).is_in_keyring:
            return _name_of(file)
    return None
