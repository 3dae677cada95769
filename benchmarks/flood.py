"""What an answer of a gigabyte does to toolcrib's memory: over stdio, over HTTP as JSON and as events, zipped or not.

For each, what the process had at most while the call was under way, above what it had before. A healthy server answers
in between, and the flooded call is answered too: how soon is shown.
"""

import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import catalog
from measuring import Finding, Target, median, options, say, show
from raw_client import RawClient, RefusedError

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path.insert(0, str(TESTS))

from fakes.menu import FakeServer  # noqa: E402 - from the tests of the same checkout

MIB = 1024 * 1024
GROWTH = Target(64)
CALLS = {
    "stdio, no end of line": ("stdio__echo", {}),
    "HTTP, JSON": ("web__json_plain", {"size": 1}),
    "HTTP, JSON, zipped": ("web__json_zipped", {"size": 1}),
    "HTTP, events": ("web__events_plain", {"size": 1}),
    "HTTP, events, zipped": ("web__events_zipped", {"size": 1}),
}
"""By what is shown: the tool to call; the size goes into the arguments."""


@contextmanager
def web() -> Iterator[str]:
    """Run the server that floods over HTTP; yield its address."""
    command = [sys.executable, str(catalog.SERVERS / "flooding.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        yield process.stdout.readline().strip()
        process.stdin.close()


def flooded(command: list[str], call: tuple[str, Mapping[str, Any]], size: int) -> tuple[float, float]:
    """Return by how many MiB toolcrib grew during the call, and how many seconds it took."""
    name, arguments = call
    with RawClient(command) as client:
        client.open()
        client.call("fine__echo", {})
        before = client.resident_mb()
        client.forget_peak()
        began = time.perf_counter()
        refused = is_refused(client, name, {**arguments, "size": size} if "size" in arguments else dict(arguments))
        seconds = time.perf_counter() - began
        if not refused:
            raise RuntimeError(f"{name} was answered with something else than an error")
        client.call("fine__echo", {})
        return (client.peak_mb() - before) * 1e6 / MIB, seconds


def is_refused(client: RawClient, name: str, arguments: dict[str, Any]) -> bool:
    """Call a tool; return whether an error came back, in one of its two forms."""
    try:
        return bool(client.call(name, arguments).get("isError"))
    except RefusedError:
        return True


def measure(given: Namespace, folder: Path) -> None:
    flooder, fine = FakeServer(folder, "stdio"), FakeServer(folder, "fine")
    findings: list[Finding] = []
    with web() as url:
        stdio = {fake.name: [fake.command, *fake.args] for fake in (flooder, fine)}
        config = catalog.write_servers(folder, {**stdio, "web": url}, {"limits": {}})
        catalog.index(config)
        size = given.mib * MIB
        flooder.change(flood=size)
        for what, call in CALLS.items():
            say(f"{what} ...")
            runs = [flooded(catalog.toolcrib_command(config), call, size) for _ in range(given.repeat)]
            grown = median([run[0] for run in runs])
            findings.append(Finding(what, "MiB more", grown, given.mib, "sent", target=GROWTH))
            findings.append(Finding("… answered after", "s", median([run[1] for run in runs])))
    show(findings, f"{given.mib:,} MiB each, at the default limits", as_json=given.json)


def main() -> None:
    parser = options(__doc__, repeat=3)
    parser.add_argument("--mib", type=int, default=1024, metavar="N", help="MiB of the flood (default: 1024)")
    with tempfile.TemporaryDirectory() as folder:
        measure(parser.parse_args(), Path(folder))


if __name__ == "__main__":
    main()
