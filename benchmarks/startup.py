"""From starting ``toolcrib serve`` to its answers to initialize and tools/list, beside a bare SDK server.

The bare one has five tools. Ours has an index, which is warm, of the tools of many servers, none of which is started,
and of some hundred skills. Both answer the same raw client, in turn. Nothing changes from start to start, so that
``initialize`` and ``tools/list`` are answered as they were the last time, and a ``ping`` once all is loaded;
``changed`` are starts after each of which the config is another.
``--profile`` shows which modules the time of the imports goes to.
"""

import re
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

import catalog
from measuring import Finding, Target, interleaved, median, options, say, show
from raw_client import RawClient

STATIC_COMMAND = [sys.executable, str(catalog.SERVERS / "static.py"), "5"]
_IMPORT_TIME = re.compile(r"import time: +(\d+) \| +\d+ \| +(\S+)")
_SHOWN = 25
_SKILLS = 600


@dataclass(frozen=True)
class Started:
    """The milliseconds until a server has greeted, until its list has arrived, and until it is wholly there.

    By then it answers what no server can answer from what it kept. ``resident_mb`` are its megabytes then.
    """

    greeted_ms: float
    listed_ms: float
    loaded_ms: float
    resident_mb: float


def started(command: Sequence[str]) -> Started:
    began = time.perf_counter()
    with RawClient(command) as client:
        client.open()
        greeted = time.perf_counter()
        client.request("tools/list", {})
        listed = time.perf_counter()
        client.request("ping", {})
        loaded = time.perf_counter()
        return Started((greeted - began) * 1000, (listed - began) * 1000, (loaded - began) * 1000, client.resident_mb())


def started_anew(config: Path) -> Started:
    """Start toolcrib with a config that no start has seen: the same keys with another space between them."""
    config.write_text(config.read_text(encoding="utf-8") + " ", encoding="utf-8")
    return started(catalog.toolcrib_command(config))


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


def write_skills(folder: Path) -> int:
    """Write skills that are alike but for their names and words."""
    for number in range(_SKILLS):
        skill = folder / f"skill-{number}"
        skill.mkdir(parents=True)
        text = f"---\nname: skill-{number}\ndescription: Do the work of kind {number} as it was done before.\n---\n"
        (skill / "SKILL.md").write_text(text + "Take one step after another.\n" * 40, encoding="utf-8")
    return _SKILLS


def measure(given: Namespace, folder: Path) -> None:
    lists, note = catalog.tool_lists(given.catalog)
    skills = write_skills(folder / "skills")
    section = {"skills": {"discover": [], "skill_dirs": ["skills"]}}
    config = catalog.write_config(folder, lists, section)
    command = catalog.toolcrib_command(config)
    say("listing every server once ...")
    indexed = catalog.index(config)
    if given.profile:
        print_profile(command)
        return
    changed = folder / "changed.json"
    changed.write_bytes(config.read_bytes())
    cases = {
        "toolcrib": lambda: started(command),
        "changed": lambda: started_anew(changed),
        "bare": lambda: started(STATIC_COMMAND),
    }
    runs = interleaved(given.repeat, cases)

    def finding(what: str, unit: str, case: str, of: Callable[[Started], float], target: Target | None) -> Finding:
        ours, bare = (median([of(run) for run in runs[name]]) for name in (case, "bare"))
        return Finding(what, unit, ours, bare, "bare SDK server", target)

    show(
        [
            finding("start to initialize", "ms", "toolcrib", attrgetter("greeted_ms"), Target(0.15, "ratio")),
            finding("start to tools/list", "ms", "toolcrib", attrgetter("listed_ms"), Target(1.2, "ratio")),
            finding("start until all is loaded", "ms", "toolcrib", attrgetter("loaded_ms"), None),
            finding("changed: to initialize", "ms", "changed", attrgetter("greeted_ms"), None),
            finding("changed: to tools/list", "ms", "changed", attrgetter("listed_ms"), Target(1.4, "ratio")),
            finding("resident memory then", "MB", "toolcrib", attrgetter("resident_mb"), Target(40, "difference")),
        ],
        f"{note}, {indexed:,} indexed, and {skills} skills; medians of {given.repeat} starts",
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
