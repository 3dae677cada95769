"""What is kept of logins, in files or in the system's keyring: one record for each entry of ``mcpServers``.

Knows where a record lies and what one that cannot be read is taken for; never knows a lock or a provider.
"""

import hashlib
import json
import logging
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from toolcrib.config.settings import HttpTarget
from toolcrib.errors import StoreError
from toolcrib.login.kept_file import KeptFile, Stamp
from toolcrib.login.keyring import Keyring
from toolcrib.login.records import Record, decoded, encoded

_log = logging.getLogger(__name__)

_UNREADABLE = re.compile(r"[^A-Za-z0-9]+")
_FILE = ".json"
_FILES_MAX = 1000
_LOG_IN_AGAIN = "log in again"


class Keeper:
    """Reads and writes what is kept of logins. All of it blocks.

    Where there is a ``keyring`` the secrets lie there, and files hold none of them.
    """

    def __init__(self, folder: Path, keyring: Keyring) -> None:
        self._folder, self._keyring = folder, keyring

    def file(self, server_url: str, entry: str) -> KeptFile:
        """Return the file of one entry at one server: another URL is another login."""
        readable = _UNREADABLE.sub("-", entry).strip("-")[:40] or "server"
        digest = hashlib.sha256(json.dumps([server_url, entry]).encode()).hexdigest()[:16]
        return KeptFile(self._folder / f"{readable}-{digest}{_FILE}")

    def read(self, file: KeptFile, blank: Record) -> tuple[Record, Stamp | None]:
        """Return what is kept, and what tells this content from the next; ``blank`` where there is nothing.

        What is damaged counts as nothing, and the record says so.
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
            return replace(blank, problem=f"{file.path} is of another server, so {_LOG_IN_AGAIN}"), stamp
        return (self._from_keyring(file, record) if record.is_in_keyring else record), stamp

    def write(self, file: KeptFile, record: Record) -> Stamp:
        """Keep a record, whole, in the place of the one before.

        Raises:
            StoreError: it cannot be kept.

        """
        in_keyring = self._is_in_keyring(file, record)
        try:
            return file.write(encoded(record, with_secrets=not in_keyring).encode())
        except OSError as error:
            raise StoreError(f"{file.path} cannot be written: {error.strerror or error}") from error

    def remove(self, file: KeptFile) -> bool:
        """Forget what is kept, and return whether there was something.

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
        """Yield what is known of each login that is kept, without asking the keyring; damaged ones are left out."""
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
        """Put the secrets into the keyring, if there is one that takes them: else they go into the file."""
        try:
            if not self._keyring.is_usable():
                return False
            self._keyring.set(_name_of(file), encoded(record, with_secrets=True))
        except StoreError as error:
            # What a provider gave can often not be had again, so a keyring that fails must not lose it.
            _log.warning("%s; the login to %s is kept in a private file instead", error, record.entry)
            return False
        return True


def blank_record(server_url: str, entry: str) -> Record:
    """Return the record of a server where nobody has logged in."""
    return Record(entry, HttpTarget(server_url, {}).public_url)


def _name_of(file: KeptFile) -> str:
    """Return what a record is called in the keyring: no secret that a config can name is called so."""
    return f"login/{file.path.stem}"


def kept_in_keyring(path: Path) -> str | None:
    """Return what the record of a file is called in the keyring; None where it is not there, or nothing is known."""
    file = KeptFile(path)
    with suppress(OSError, ValueError):
        content = file.read()
        if content and decoded(content[0]).is_in_keyring:
            return _name_of(file)
    return None
