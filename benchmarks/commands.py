"""What a person's commands cost in CPU time: help, a search in a warm index and status, beside Python doing nothing.

And what a call takes, by the clock, beside the same call made by a raw client that starts the server itself.
``--against DIR`` names another checkout, whose commands are measured in turn with these as the baseline instead.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import catalog
from measuring import Finding, Target, interleaved, median, options, say, show
from raw_client import RawClient, environment

HELP_MS, SEARCH_MS, STATUS_MS, CALL_MS = 200, 500, 400, 500
STATIC, TOOL = "static", "echo"
STATIC_COMMAND = [sys.executable, str(catalog.SERVERS / "static.py"), "1"]


def cpu_ms(command: Sequence[str], environment: Mapping[str, str]) -> float:
    """Run a command to its end and return the milliseconds that it has worked, in user and system mode."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def source(checkout: Path) -> dict[str, str]:
    """Return the environment in which Python imports the toolcrib of a checkout."""
    return {**environment(), "PYTHONPATH": str(checkout / "server")}


def wall_ms(command: Sequence[str], environment: Mapping[str, str]) -> float:
    """Run a command to its end and return the milliseconds until then."""
    began = time.perf_counter()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    return 1000 * (time.perf_counter() - began)


def direct_call_ms() -> float:
    """Start the server, list its tools, call one, end it, and return the milliseconds until then."""
    began = time.perf_counter()
    with RawClient(STATIC_COMMAND) as client:
        client.open()
        client.request("tools/list", {})
        client.call(TOOL, {"text": "hello"})
    return 1000 * (time.perf_counter() - began)


def warmed(folder: Path, lists: Mapping[str, catalog.Tools], environment: Mapping[str, str]) -> Path:
    """Write a config with an index of its own, have a checkout list every server, and return the config."""
    folder.mkdir()
    config = catalog.write_config(folder, lists, more={STATIC: STATIC_COMMAND})
    command = [sys.executable, "-m", "toolcrib", "index", "refresh", "--config", str(config)]
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return config


def measure(given: Namespace, folder: Path) -> None:
    lists, note = catalog.tool_lists(given.catalog)
    checkouts = {"toolcrib": catalog.ROOT, **({"baseline": given.against} if given.against else {})}
    cases = {"nothing": partial(cpu_ms, [sys.executable, "-c", "pass"], os.environ), "direct call": direct_call_ms}
    say("listing every server once ...")
    for name, checkout in checkouts.items():
        environment = source(checkout)
        config = warmed(folder / name, lists, environment)
        toolcrib = [sys.executable, "-m", "toolcrib"]
        cases[f"{name} help"] = partial(cpu_ms, [*toolcrib, "--help"], environment)
        search = [*toolcrib, "search", "create an issue", "--config", str(config)]
        cases[f"{name} search"] = partial(cpu_ms, search, environment)
        call = [*toolcrib, "call", f"{STATIC}__{TOOL}", '{"text": "hello"}', "--config", str(config)]
        cases[f"{name} call"] = partial(wall_ms, call, environment)
        cases[f"{name} status"] = partial(cpu_ms, [*toolcrib, "status", "--config", str(config)], environment)
    beyond = Target(CALL_MS, "difference")
    found = {name: median(times) for name, times in interleaved(given.repeat, cases).items()}
    against = str(given.against) if given.against else "python -c pass"
    show(
        [
            Finding(
                what, "ms CPU", found[f"toolcrib {key}"], found.get(f"baseline {key}", found["nothing"]), against, most
            )
            for what, key, most in (
                ("toolcrib --help", "help", Target(HELP_MS)),
                ("toolcrib search, index warm", "search", Target(SEARCH_MS)),
                ("toolcrib status, index warm", "status", Target(STATUS_MS)),
            )
        ]
        + [
            Finding("toolcrib call", "ms", found["toolcrib call"], found["direct call"], "direct", beyond),
            *([Finding("… of the baseline", "ms", found["baseline call"])] if given.against else []),
        ],
        f"{note}; medians of {given.repeat} runs",
        as_json=given.json,
    )


def main() -> None:
    parser = options(__doc__, repeat=11)
    catalog.add_option(parser)
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout to compare with")
    with tempfile.TemporaryDirectory() as folder:
        measure(parser.parse_args(), Path(folder))


if __name__ == "__main__":
    main()
