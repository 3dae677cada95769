"""Rows of one checkout of toolcrib beside those of another, each asked by its own source in the same run.

Knows the command line of such a benchmark; never knows what a row holds.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from retrieval import default_paths

Row = Mapping[str, Any]


def run(
    description: str | None,
    measured: Callable[[Sequence[Path]], Iterable[Row]],
    show: Callable[[Sequence[Row], Sequence[Row]], None],
) -> None:
    """Measure the sets of the command line, and show them, with `--against DIR` beside another checkout's."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", type=Path, nargs="*", metavar="PATH", help="sets, as retrieval.py takes them")
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout, the baseline")
    parser.add_argument("--json", action="store_true", help="print the rows of this checkout as JSON")
    given = parser.parse_args()
    paths = given.paths or default_paths()
    rows = list(measured(paths))
    if given.json:
        json.dump(rows, sys.stdout)
        return
    show(rows, _there(given.against, paths) if given.against else [])


def _there(checkout: Path, paths: Sequence[Path]) -> list[Row]:
    """Return what the same script gives with the toolcrib of another checkout."""
    command = [sys.executable, sys.argv[0], "--json", *map(str, paths)]
    environ = {**os.environ, "PYTHONPATH": str(checkout / "server")}
    return json.loads(subprocess.run(command, env=environ, check=True, stdout=subprocess.PIPE).stdout)
