"""Faults that some versions of SQLite have and that our files could meet: which version has which, and what is done.

Knows version numbers and what was published about them; never knows a file or a connection. A distribution may have
mended a fault under an old number, so what is said here is that a fault may be there.
"""

from dataclasses import dataclass

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: where it is told, the first version without it, and what toolcrib does about it.

    ``since`` is the first version that has it. ``backports`` are the first versions of earlier series, told by their
    first two numbers, that have it no more.
    """

    name: str
    source: str
    since: Version
    fixed: Version
    remedy: str
    backports: tuple[Version, ...] = ()

    def is_in(self, version: Version) -> bool:
        """Return whether a version has the fault."""
        if not self.since <= version < self.fixed:
            return False
        return not any(version[:2] == backport[:2] and version >= backport for backport in self.backports)


FAULTS = (
    Fault(
        name="WAL-reset",
        # 3.7.0 to 3.51.2; mended in 3.51.3, 3.50.7 and 3.44.6. 3.52.0 was withdrawn, and had the mend.
        source="https://sqlite.org/wal.html#walresetbug",
        since=(3, 7, 0),
        fixed=(3, 51, 3),
        backports=((3, 44, 6), (3, 50, 7)),
        remedy="no checkpoint of ours runs beside a commit",
    ),
    Fault(
        name="FTS5 memory (CVE-2026-11822, CVE-2026-11824)",
        # A file made for it overflows the heap in a MATCH. FTS5 is part of SQLite since 3.9.0.
        source="https://sqlite.org/releaselog/3_53_2.html",
        since=(3, 9, 0),
        fixed=(3, 53, 2),
        remedy="full text is read from files that this user alone can write, checked when they are opened",
    ),
)


def faults_of(version: str) -> list[Fault]:
    """Return the faults that a version of SQLite (``3.40.1``) may have."""
    numbers = tuple(int(part) for part in version.split("."))
    return [fault for fault in FAULTS if fault.is_in(numbers)]
