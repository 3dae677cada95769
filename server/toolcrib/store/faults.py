"""Known bugs of SQLite versions that could affect our files: which version has which, and the mitigation.

Knows version numbers and what was published about them; never knows a file or a connection. A distribution may have
fixed a bug under an old version number, so this says only that a bug may be present.
"""

from dataclasses import dataclass

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """A known fault: its source, the first version without it, and what toolcrib does about it.

    ``since`` is the first affected version. ``backports`` are the first fixed versions of earlier series, identified by
    their first two numbers.
    """

    name: str
    source: str
    since: Version
    fixed: Version
    remedy: str
    backports: tuple[Version, ...] = ()

    def is_in(self, version: Version) -> bool:
        """Return whether a version is affected."""
        if not self.since <= version < self.fixed:
            return False
        return not any(version[:2] == backport[:2] and version >= backport for backport in self.backports)


FAULTS = (
    Fault(
        name="WAL-reset",
        # 3.7.0 to 3.51.2; fixed in 3.51.3, 3.50.7 and 3.44.6. 3.52.0 was withdrawn, and had the fix.
        source="https://sqlite.org/wal.html#walresetbug",
        since=(3, 7, 0),
        fixed=(3, 51, 3),
        backports=((3, 44, 6), (3, 50, 7)),
        remedy="no checkpoint of ours runs beside a commit",
    ),
    Fault(
        name="FTS5 memory (CVE-2026-11822, CVE-2026-11824)",
        # A crafted file overflows the heap in a MATCH. FTS5 is part of SQLite since 3.9.0.
        source="https://sqlite.org/releaselog/3_53_2.html",
        since=(3, 9, 0),
        fixed=(3, 53, 2),
        remedy="full text is read from files that this user alone can write, checked when they are opened",
    ),
)


def faults_of(version: str) -> list[Fault]:
    """Return the faults that may affect a version of SQLite (``3.40.1``)."""
    numbers = tuple(int(part) for part in version.split("."))
    return [fault for fault in FAULTS if fault.is_in(numbers)]
