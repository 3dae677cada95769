"""Programs that attack the gateway that runs them: how much it grows, how soon it answers others, what comes back.

All of it over stdio, by a client without an SDK, at the default limits. While each program runs, the same client sends
pings. Beside it stand a program that attacks nothing, and the growth by one result of 15 MB that ``tool_call`` returns.
``--programs FILE`` takes other programs, parted by lines of ``# ---``. Skips where the extra ``programs`` is missing.
"""

import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import catalog
from measuring import Finding, Target, median, options, say, show
from raw_client import RawClient

SIZED = [sys.executable, str(catalog.SERVERS / "sized.py")]
FOLDER = Path(__file__).resolve().parents[1] / "tests" / "programs"
PROGRAMS = [FOLDER / "attacks.txt", FOLDER / "attacks_of_a_reader.txt"]
GROWTH, PING_MS, CHARACTERS = Target(50), Target(50), Target(32_000)
HARMLESS = "n = 0\nfor i in range(3_000_000): n += i\nn"


@dataclass(frozen=True)
class Attack:
    """What one program came to: MB that the gateway grew, the pings meanwhile in milliseconds, characters returned."""

    code: str
    grown: float
    pings: list[float]
    characters: int
    seconds: float

    @property
    def slowest(self) -> float:
        """The slowest ping."""
        return max(self.pings, default=0.0)


def parted(text: str) -> list[str]:
    """Return the programs of a file."""
    return [code.strip("\n") for code in text.split("# ---\n") if code.strip()]


def attacked(client: RawClient, code: str) -> Attack:
    """Run a program, and ping until it has ended."""
    client.request("ping", {})
    before, began = client.resident_mb(), time.perf_counter()
    client.forget_peak()
    pings: list[float] = []
    running = client.begin("tools/call", {"name": "tool_run", "arguments": {"code": code, "timeout_s": 20}})
    while (result := client.ended(running)) is None:
        sent = time.perf_counter()
        client.request("ping", {})
        pings.append((time.perf_counter() - sent) * 1000)
        time.sleep(0.005)
    characters = sum(len(block["text"]) for block in result["content"])
    return Attack(code, client.peak_mb() - before, pings, characters, time.perf_counter() - began)


def grown(attacks: Iterable[Attack]) -> float:
    """Return by how much the gateway grew at most."""
    return max((attack.grown for attack in attacks), default=0.0)


def measure(given: Namespace, config: Path) -> list[Finding]:
    attacks: list[Attack] = []
    with RawClient(catalog.toolcrib_command(config)) as client:
        client.open()
        client.call("tool_call", {"name": "sized__read", "arguments": {"size": 1}})
        attacked(client, HARMLESS)
        harmless = attacked(client, HARMLESS)
        for code in [code for file in given.programs for code in parted(file.read_text(encoding="utf-8"))][
            : given.first
        ]:
            attacks.append(attacked(client, code))
            if given.each:
                last = attacks[-1]
                head = code.splitlines()[-1][:60]
                say(f"{last.grown:6.0f} MB {last.slowest:6.0f} ms {last.characters:7} {last.seconds:5.1f} s  {head}")
        resident = client.resident_mb()
    with RawClient(catalog.toolcrib_command(config)) as client:
        client.open()
        client.call("tool_call", {"name": "sized__read", "arguments": {"size": 1}})
        before = client.resident_mb()
        client.call("tool_call", {"name": "sized__read", "arguments": {"size": 15_000_000}})
        by_one = client.peak_mb() - before
    large = [attack for attack in attacks if "sized__read" in attack.code]
    pings = sorted(ping for attack in attacks for ping in attack.pings)
    return [
        Finding("programs", "", len(attacks)),
        Finding("the gateway grows by, at most", "MB", grown(a for a in attacks if a not in large), target=GROWTH),
        Finding("… by programs that read", "MB", grown(large), by_one, "by tool_call, 15 MB", GROWTH),
        Finding("a ping meanwhile, p50", "ms", median(pings), median(harmless.pings), "by a harmless one"),
        Finding("a ping meanwhile, at most", "ms", pings[-1], harmless.slowest, "by a harmless one", PING_MS),
        Finding("characters that come back, at most", "", max(a.characters for a in attacks), target=CHARACTERS),
        Finding("resident in the end", "MB", resident),
    ]


def main() -> None:
    parser = options(__doc__, repeat=1)
    parser.add_argument("--programs", type=Path, nargs="+", default=PROGRAMS, metavar="FILE", help="programs to run")
    parser.add_argument("--first", type=int, metavar="N", help="only so many of them")
    parser.add_argument("--each", action="store_true", help="say what each program came to")
    given = parser.parse_args()
    if find_spec("pydantic_monty") is None:
        say("The extra toolcrib[programs] is not installed: nothing to measure.")
        return
    with tempfile.TemporaryDirectory() as folder:
        config = catalog.write_servers(Path(folder), {"sized": SIZED})
        catalog.index(config)
        show(measure(given, config), as_json=given.json)


if __name__ == "__main__":
    main()
