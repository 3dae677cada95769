"""What docs/conformance.md says: how many checks pass, and why one that passes directly does not pass through."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from conformance.suites import Check, Suite

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
ANY = "any"
_FIGURES, _REASONS = "suite", "scenario"


@dataclass(frozen=True, slots=True)
class Explained:
    """One row: a check of a scenario, where it does not pass (in suites and by ways, or in any), and why."""

    scenario: str
    check: str
    suite: str
    way: str
    why: str

    def is_about(self, suite: Suite, way: str) -> bool:
        return self.suite in (ANY, suite.name) and self.way in (ANY, way)

    def explains(self, check: Check) -> bool:
        return (self.scenario, self.check) == (check.scenario, check.id)


def explained() -> list[Explained]:
    """Return the rows of the table of reasons."""
    return [Explained(*row) for row in _rows(_REASONS)]


def figures() -> dict[tuple[str, str], str]:
    """Return what the table of figures says, by suite and by way or ``direct``."""
    heading, *rows = _rows(_FIGURES, heading=True)
    return {(row[0], way): figure for row in rows for way, figure in zip(heading[1:], row[1:], strict=True)}


def _rows(first: str, *, heading: bool = False) -> Iterator[list[str]]:
    """Yield the cells of the table whose first heading is ``first``."""
    inside = False
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip().strip("`") for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            inside = False
        elif cells[0] == first:
            inside = True
            if heading:
                yield cells
        elif inside and not cells[0].startswith("--"):
            yield cells
