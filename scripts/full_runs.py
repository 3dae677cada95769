"""Runs the tests that take too long for every change, by group.

scripts/full hosts matrix

A test belongs to a group by the marker ``full(group="NAME")``; the group ``counts`` is the hostile tests at full count.
CI runs only the groups that are about a file that has changed. The exit code is 1 if a test failed.
"""

import argparse
import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "hostile")]

from counts import THREATS  # noqa: E402 - from where the tests are

COUNTS = "counts"

NODE = ("TOOLCRIB_NODE_DIR", "install-node-tools")
FASTMCP = ("TOOLCRIB_FASTMCP_PYTHON", "install-fastmcp")
FRAMEWORKS = ("TOOLCRIB_FRAMEWORKS_DIR", "install-frameworks")
HOSTS = ("TOOLCRIB_HOSTS_DIR", "install-hosts")

_MODULES = tomllib.loads((ROOT / "scripts" / "mutation.toml").read_text(encoding="utf-8")).values()
FAULTS = tuple(
    path for module in _MODULES for path in (*(f"server/toolcrib/{file}" for file in module["files"]), *module["tests"])
)
"""The modules in which faults are planted, and the tests that have to notice them."""


@dataclass(frozen=True)
class Group:
    """Tests that run together.

    ``about`` is what they are about, as patterns of paths; ``needs`` the scripts that install their programs, each with
    the environment variable that tells the tests where.
    """

    what: str
    about: tuple[str, ...]
    needs: tuple[tuple[str, str], ...] = ()


GROUPS = {
    "hosts": Group(
        "agent hosts from npm with a scripted model",
        (
            *("tests/hosts/*", "benchmarks/hosts.py", ".ci/hosts.txt", "scripts/install-hosts"),
            "server/toolcrib/policy/client_profiles*",
        ),
        (NODE, HOSTS),
    ),
    "matrix": Group(
        "each kind of client with each kind of server, beside a direct connection",
        (
            *("tests/matrix/*", "benchmarks/matrix.py", ".ci/package.json", ".ci/fastmcp.txt", ".ci/constraints.txt"),
            *("server/toolcrib/jsonrpc/*", "server/toolcrib/downstream/*", "server/toolcrib/server/*"),
        ),
        (NODE, FASTMCP),
    ),
    "conformance": Group(
        "the official conformance suites, beside a direct connection",
        (
            *("tests/conformance/*", "benchmarks/conformance.py", ".ci/package.json", ".ci/fastmcp.txt"),
            ".ci/constraints.txt",
            *("server/toolcrib/jsonrpc/*", "server/toolcrib/downstream/*", "server/toolcrib/server/*"),
        ),
        (NODE, FASTMCP),
    ),
    "frameworks": Group(
        "agent frameworks that use toolcrib as a library",
        (
            *("tests/library/*", "docs/python.md", "server/toolcrib/library/*", "scripts/install-frameworks"),
            *(".ci/frameworks.txt", ".ci/langchain-mcp-adapters.txt", ".ci/constraints.txt"),
        ),
        (FRAMEWORKS,),
    ),
    "release": Group(
        "the rehearsal of a release; installing, upgrading and removing it",
        (
            *("tests/test_release.py", "tests/e2e/test_installing.py", "scripts/release*", "server.json"),
            *("pyproject.toml", ".ci/constraints.txt", "packs/*", "server/toolcrib/__init__.py"),
        ),
    ),
    "machines": Group(
        "state machines with many more runs",
        (
            *("tests/gate/*", "server/toolcrib/policy/*", "server/toolcrib/gateway/*"),
            *("server/toolcrib/catalog/*", "server/toolcrib/skills/*"),
        ),
    ),
    "mutants": Group(
        "small faults planted in what guards most, which the quick tests have to notice",
        ("scripts/mut*", *FAULTS),
    ),
    "reruns": Group("the repetition of failed tests", ("tests/reruns.py", "tests/scripts/test_reruns.py")),
    "benchmarks": Group("each benchmark on small inputs", ("benchmarks/*", "tests/test_benchmarks.py")),
    COUNTS: Group(
        "hostile tests at full count; writes docs/reliability.md",
        tuple(sorted({path for threat in THREATS.values() for path in threat.tests})),
    ),
}


def groups_about(paths: Sequence[str]) -> list[str]:
    """Return the names of the groups that are about one of these paths."""
    return [
        name
        for name, group in GROUPS.items()
        if any(fnmatchcase(path, pattern) for path in paths for pattern in group.about)
    ]


def programs(group: Group) -> Mapping[str, str]:
    """Install what a group needs; return the environment variables that say where."""
    found = {}
    for variable, script in group.needs:
        done = subprocess.run([ROOT / "scripts" / script], stdout=subprocess.PIPE, text=True, check=True)
        found[variable] = done.stdout.strip()
    return found


def run(name: str, paths: Sequence[str]) -> bool:
    """Run a group, and return whether it passed; of the full counts those of hostile tests in ``paths``, else all."""
    print(f"--- {name}: {GROUPS[name].what}", flush=True)
    try:
        environment = {**os.environ, **programs(GROUPS[name])}
    except subprocess.CalledProcessError as error:
        print(f"{name}: {error}", flush=True)
        return False
    if name == COUNTS:
        threats = [threat for threat, facts in THREATS.items() if set(facts.tests) & set(paths)]
        command = ["scripts/hostile_runs.py", "--full", *threats]
        environment.pop("PYTEST_ADDOPTS", None)  # it judges each test by itself
    else:
        command = ["-m", "pytest", "-q", "-n", "2", "-m", f'full(group="{name}")', "--durations=10"]
    return subprocess.run([sys.executable, *command], cwd=ROOT, env=environment, check=False).returncode == 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the groups, or list them, and return the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/full", description=__doc__)
    parser.add_argument("names", metavar="NAME", nargs="*", help=f"groups: {', '.join(GROUPS)}")
    parser.add_argument("--about", metavar="PATH", nargs="+", default=[], help="the groups that are about these files")
    parser.add_argument("--list", action="store_true", help="print the names, and run nothing")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(GROUPS):
        parser.error(f"no such group: {', '.join(sorted(unknown))}; there are: {', '.join(GROUPS)}")
    names = options.names or (groups_about(options.about) if options.about else list(GROUPS))
    if options.list:
        print(*names, sep="\n")
        return 0
    failed = [name for name in names if not run(name, options.about)]
    print(f"groups: {', '.join(names) or 'none'}; failed: {', '.join(failed) or 'none'}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
