"""What a new list of a server changed in the index.

Knows names, counts and fingerprints; never knows how they are stored or who is told.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Redefinition:
    """An indexed tool whose server has since changed, added or removed it.

    ``keys`` of its definition differ; empty if the tool was added or removed: then ``before`` or ``after``, which are
    fingerprints of the record, is None.
    """

    public_name: str
    keys: tuple[str, ...]
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Changes:
    """How many tools of a server's list were added, changed or removed since the last listing.

    ``redefined`` are those changed by the server, if it was listed before; changes made by the config alone are not
    included.
    """

    added: int
    updated: int
    removed: int
    redefined: tuple[Redefinition, ...] = field(default=(), compare=False)

    def after(self, earlier: "Changes") -> "Changes":
        """Return both changes of one server's list, in order."""
        return Changes(
            earlier.added + self.added,
            earlier.updated + self.updated,
            earlier.removed + self.removed,
            (*earlier.redefined, *self.redefined),
        )
