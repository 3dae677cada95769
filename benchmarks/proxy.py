"""What search, skills and deferral cost those who have switched them off: a plain proxy beside the usual toolcrib.

Both serve the same server and the same index of many tools, and are called in turn by the same raw client, under the
tool's own name. Memory is what is resident after the handshake, and after the calls.
"""

import sys
import tempfile
import time
from argparse import Namespace
from contextlib import ExitStack
from pathlib import Path

import catalog
from measuring import Finding, Target, interleaved, median, options, percentile, say, show
from raw_client import RawClient

ECHO = {"echo": [sys.executable, str(catalog.SERVERS / "static.py"), "1"]}
PLAIN = {"tool_search": {"enabled": False}, "skills": {"enabled": False}}
ARGUMENTS = {"text": "as long as a usual argument is"}
CALLS = 20
SHARE = 0.95


def call_ms(client: RawClient) -> list[float]:
    """Return the milliseconds of some calls."""
    taken: list[float] = []
    for _ in range(CALLS):
        began = time.perf_counter()
        client.call("echo__echo", ARGUMENTS)
        taken.append((time.perf_counter() - began) * 1000)
    return taken


def measure(given: Namespace, folder: Path) -> None:
    lists, note = catalog.tool_lists(given.catalog)
    names = {"plain": PLAIN, "usual": {}}
    configs = {}
    for name, section in names.items():
        (folder / name).mkdir()
        configs[name] = catalog.write_config(folder / name, lists, section, ECHO)
    say("listing every server twice ...")
    catalog.index(configs["usual"])
    with RawClient(catalog.toolcrib_command(configs["plain"])) as client:
        client.open()
        client.request("tools/list", {})
    with ExitStack() as stack:
        commands = {name: catalog.toolcrib_command(config) for name, config in configs.items()}
        clients = {name: stack.enter_context(RawClient(command)) for name, command in commands.items()}
        for client in clients.values():
            client.open()
            client.request("ping", {})  # the greeting may come before all is loaded
        at_first = {name: client.resident_mb() for name, client in clients.items()}
        for client in clients.values():
            call_ms(client)
        before = {name: client.cpu_ms() for name, client in clients.items()}
        runs = interleaved(
            given.repeat, {name: lambda client=client: call_ms(client) for name, client in clients.items()}
        )
        calls = {name: [ms for run in each for ms in run] for name, each in runs.items()}
        cpu = {name: (client.cpu_ms() - before[name]) / len(calls[name]) for name, client in clients.items()}
        at_last = {name: client.resident_mb() for name, client in clients.items()}

    def finding(what: str, unit: str, of: dict[str, float], target: Target) -> Finding:
        return Finding(what, unit, of["plain"], of["usual"], "with search and skills", target)

    show(
        [
            finding("call, p50", "ms", {name: median(each) for name, each in calls.items()}, Target(1.05, "ratio")),
            finding(
                "call, p95", "ms", {name: percentile(each, SHARE) for name, each in calls.items()}, Target(1.1, "ratio")
            ),
            finding("CPU of a call", "ms", cpu, Target(1.05, "ratio")),
            finding("resident at first", "MB", at_first, Target(1.02, "ratio")),
            finding("resident after the calls", "MB", at_last, Target(1.02, "ratio")),
        ],
        f"{note}; {given.repeat * CALLS} calls each",
        as_json=given.json,
    )


def main() -> None:
    parser = options(__doc__, repeat=20)
    catalog.add_option(parser)
    with tempfile.TemporaryDirectory() as folder:
        measure(parser.parse_args(), Path(folder))


if __name__ == "__main__":
    main()
