"""Another checkout of toolcrib beside this one, each asked by its own source in the same run.

Knows the command line of a benchmark that prints rows, and how another checkout is run; never knows what a row holds.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from retrieval import default_paths
from retrieval_data import Dataset
from retrieval_metrics import Answer, Search

Row = Mapping[str, Any]

_ANSWERS = Path(__file__).resolve().parent / "retrieval_answers.py"


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
    """Return what the same script gives with the toolcrib of another checkout.

    The checkout's own copy is run if it has one: its packages may not have the names that the running script imports.
    """
    own = checkout / "benchmarks" / Path(sys.argv[0]).name
    script = own if own.is_file() else Path(sys.argv[0])
    done = _run([str(script), "--json", *(str(path.resolve()) for path in paths)], [checkout / "server"])
    return json.loads(done)


def search_of(checkout: Path, dataset: Dataset) -> Search:
    """Return a search that answers the queries of a set of tools as the toolcrib of another checkout does.

    All of them are asked at once, in a process that imports the checkout's own benchmark modules.
    """
    requests = [query.text for query in dataset.queries]
    given = {"name": dataset.name, "documents": [asdict(each) for each in dataset.documents], "requests": requests}
    done = _run(["-P", str(_ANSWERS)], [checkout / "server", checkout / "benchmarks"], json.dumps(given))
    answers = [Answer(tuple(each["ids"]), each["confidence"], ms=each["ms"]) for each in json.loads(done)]
    return dict(zip(requests, answers, strict=True)).__getitem__


def _run(arguments: Sequence[str], modules: Sequence[Path], given: str = "") -> str:
    command = [sys.executable, *arguments]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(str(path.resolve()) for path in modules)}
    return subprocess.run(command, env=environ, check=True, stdout=subprocess.PIPE, input=given, text=True).stdout
