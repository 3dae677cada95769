"""From starting ``toolcrib serve`` to its answer to tools/list, beside a bare SDK server with five tools.

The index is warm and holds the tools of many servers, none of which is started. Both answer the same raw client,
in turn. ``--profile`` shows which modules the time of the imports goes to.
"""

import re
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import catalog
from measuring import Finding, Target, interleaved, median, options, say, show
from raw_client import RawClient

STATIC_COMMAND = [sys.executable, str(catalog.SERVERS / "static.py"), "5"]
_IMPORT_TIME = re.compile(r"import time: +(\d+) \| +\d+ \| +(\S+)")
_SHOWN = 25


def started(command: Sequence[str]) -> tuple[float, float]:
    """Start a server; return the milliseconds until its list has arrived, and its resident megabytes then."""
    began = time.perf_counter()
    with RawClient(command) as client:
        client.open()
        client.request("tools/list", {})
        return (time.perf_counter() - began) * 1000, client.resident_mb()


def import_times(command: Sequence[str]) -> dict[str, int]:
    """Return the microseconds that each module's own code took to import, dependencies not counted."""
    profiled = subprocess.run(
        [command[0], "-X", "importtime", *command[1:]],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    return {name: int(own) for own, name in _IMPORT_TIME.findall(profiled.stderr)}


def print_profile(command: Sequence[str]) -> None:
    """Print what ours imports beyond the bare server, the slowest first."""
    bare, ours = import_times(STATIC_COMMAND), import_times(command)
    extra = {name: own for name, own in ours.items() if name not in bare}
    print(f"imports: bare {sum(bare.values()) / 1000:.0f} ms, ours {sum(ours.values()) / 1000:.0f} ms")
    print(f"modules that only ours imports: {len(extra)}, {sum(extra.values()) / 1000:.0f} ms; the slowest:")
    for name, own in sorted(extra.items(), key=lambda item: -item[1])[:_SHOWN]:
        print(f"  {own / 1000:7.1f} ms  {name}")


def measure(given: Namespace, folder: Path) -> None:
    lists, note = catalog.tool_lists(given.catalog)
    config = catalog.write_config(folder, lists)
    command = catalog.toolcrib_command(config)
    say("listing every server once ...")
    indexed = catalog.index(config)
    if given.profile:
        print_profile(command)
        return
    runs = interleaved(given.repeat, {"toolcrib": lambda: started(command), "bare": lambda: started(STATIC_COMMAND)})
    milliseconds = {name: median([run[0] for run in each]) for name, each in runs.items()}
    megabytes = {name: median([run[1] for run in each]) for name, each in runs.items()}
    show(
        [
            Finding(
                "start to tools/list",
                "ms",
                milliseconds["toolcrib"],
                milliseconds["bare"],
                "bare SDK server",
                Target(1.3, "ratio"),
            ),
            Finding(
                "resident memory then",
                "MB",
                megabytes["toolcrib"],
                megabytes["bare"],
                "bare SDK server",
                Target(40, "difference"),
            ),
        ],
        f"{note}, {indexed:,} indexed; medians of {given.repeat} starts",
        as_json=given.json,
    )


def main() -> None:
    parser = options(__doc__, repeat=15)
    catalog.add_option(parser)
    parser.add_argument("--profile", action="store_true", help="show the imports' share instead")
    with tempfile.TemporaryDirectory() as folder:
        measure(parser.parse_args(), Path(folder))


if __name__ == "__main__":
    main()
