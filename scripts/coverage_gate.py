"""Fails where less of the code is covered than the table asks, lines and branches counted together.

python scripts/coverage_gate.py coverage.json
"""

import json
import sys
from pathlib import Path

GATES = (
    ("toolcrib/storage/", 95.0),
    ("toolcrib/search/", 95.0),
    ("toolcrib/catalog/index.py", 95.0),
    ("toolcrib/skills/index.py", 95.0),
    ("toolcrib/", 90.0),
)
"""Part of the path of a source file, and the least percentage of all such files taken together."""


def percentage(files: dict[str, dict], part: str) -> float:
    """Return the covered share of the files whose path holds ``part``; 0 where there are none."""
    summaries = [data["summary"] for name, data in files.items() if part in Path(name).as_posix()]
    covered = sum(one["covered_lines"] + one["covered_branches"] for one in summaries)
    total = sum(one["num_statements"] + one["num_branches"] for one in summaries)
    return 100 * covered / total if total else 0.0


def main() -> int:
    """Print each gate and how it stands; return 1 where one is missed."""
    files = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["files"]
    missed = False
    for part, least in GATES:
        reached = percentage(files, part)
        missed |= reached < least
        print(f"{part:<26} {reached:5.1f} % of {least:.0f} % {'' if reached >= least else 'MISSED'}")
    if missed:
        worst = sorted(files.items(), key=lambda item: item[1]["summary"]["percent_covered"])[:10]
        print("\nleast covered:")
        for name, data in worst:
            print(f"  {data['summary']['percent_covered']:5.1f} % {name}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
