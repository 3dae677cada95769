"""Tells whether the quick tests notice small faults in a package: draws some, runs the tests on each, counts.

python scripts/mutate.py --package search --count 60 --seed 1 --least 85

Works on a copy in a temporary directory; the tree is never touched. Prints each fault with its fate, and exits with 1
where a smaller share than ``--least`` per cent died, with 2 where the tests fail without any fault.
"""

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mutants import Mutant, mutants

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("server", "tests", "benchmarks", "scripts", "packs", "docs", "pyproject.toml", "README.md")
TESTS = {
    "search": (
        "tests/search",
        "tests/retrieval",
        *(
            f"tests/tools/test_{name}.py"
            for name in (
                "ranking confidence exact_names languages pattern_names pattern_search semantic typos missing_servers"
            ).split()
        ),
        "tests/skills/test_skill_search.py",
    )
}
"""The quick tests that say most about a package, those that fail fastest first."""

UNSHRUNK = """
from hypothesis import Phase, settings
settings.register_profile("unshrunk", settings.default, phases=(Phase.explicit, Phase.generate))
settings.load_profile("unshrunk")
"""
"""Added to the copy's conftest: that an example fails is enough, nobody will read it."""

SLOWER, PATIENCE_S = 3, 15
"""A run may take so many times as long as one without a fault, and so many seconds more."""

TEST_S = 30
"""Seconds for one test: a fault often makes a loop that does not end."""

_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a mutant. ``by``: the test that noticed it, or another reason why it died; None: it survived."""

    mutant: Mutant
    module: str
    by: str | None

    @property
    def line(self) -> str:
        """One line about it."""
        before, after = (_short(text) for text in (self.mutant.before, self.mutant.after))
        told = "SURVIVED" if self.by is None else f"killed by {self.by}"
        return f"{self.module}:{self.mutant.line}  {before}  ->  {after}  {told}"


class Copy:
    """A copy of the tree in which tests can be run. ``limit_s``: how long a run may take."""

    def __init__(self, root: Path, folder: Path, tests: Sequence[str]) -> None:
        self.folder, self._tests = folder, tests
        self.limit_s: float | None = None
        for name in COPIED:
            source, target = root / name, folder / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            elif source.exists():
                shutil.copy(source, target)
        with (folder / "tests" / "conftest.py").open("a", encoding="utf-8") as conftest:
            conftest.write(UNSHRUNK)

    def verdict(self) -> str | None:
        """Run the tests until one fails, and return which; None where all pass."""
        shutil.rmtree(self.folder / ".hypothesis", ignore_errors=True)
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:cacheprovider"]
        environ = {**os.environ, "PYTHONPATH": str(self.folder / "server"), "PYTHONHASHSEED": "0"}
        try:
            done = subprocess.run(
                [*command, "--hypothesis-seed=0", f"--timeout={TEST_S}", *self._tests],
                cwd=self.folder,
                env=environ,
                capture_output=True,
                text=True,
                timeout=self.limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "timeout"
        if done.returncode == 0:
            return None
        failed = _FAILED.search(done.stdout)
        return failed[1] if failed else f"a run that ended with {done.returncode}"

    def fate(self, package: Path, module: str, mutant: Mutant, number: int) -> Fate:
        """Return what becomes of one mutant; afterwards the copy is as before."""
        path = self.folder / package / module
        source, times = path.read_bytes(), path.stat().st_mtime
        path.write_bytes(mutant.applied(source))
        later = times + 10 + number  # a module compiled before is told by its size and its second
        os.utime(path, (later, later))
        try:
            return Fate(mutant, module, self.verdict())
        finally:
            path.write_bytes(source)
            os.utime(path, (times, times))


def drawn(package: Path, count: int, seed: int, modules: Sequence[str] = ()) -> list[tuple[str, Mutant]]:
    """Return ``count`` of the mutants of a package, the same ones for the same seed and sources.

    ``modules``: only of files with these names, without their ending; of all if none.
    """
    every = [
        (path.relative_to(package).as_posix(), mutant)
        for path in sorted(package.rglob("*.py"))
        if not modules or path.stem in modules
        for mutant in mutants(path.read_bytes())
    ]
    return sorted(random.Random(seed).sample(every, min(count, len(every))))  # noqa: S311 - nothing secret


# -- the run -------------------------------------------------------------------------------------


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", choices=TESTS, default="search", help="a package below toolcrib")
    parser.add_argument("--count", type=int, default=60, help="how many faults")
    parser.add_argument("--seed", type=int, default=1, help="which ones")
    parser.add_argument("--least", type=float, default=85, help="the share that must die, in per cent")
    parser.add_argument("--module", action="append", default=[], help="only faults in this module; may be repeated")
    parser.add_argument("--list", action="store_true", help="only print the faults that would be tried")
    parser.add_argument("tests", nargs="*", help="test files or folders (default: those known to exercise the package)")
    return parser.parse_args()


def main() -> int:
    """Try the faults and print what became of each."""
    options = _options()
    package = Path("server", "toolcrib", options.package)
    chosen = drawn(ROOT / package, options.count, options.seed, options.module)
    if options.list:
        for module, mutant in chosen:
            print(f"{module}:{mutant.line}  {_short(mutant.before)}  ->  {_short(mutant.after)}")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(ROOT, Path(folder), options.tests or TESTS[options.package])
        began = time.monotonic()
        without = copy.verdict()
        if without is not None:
            print(f"The tests fail without any fault: {without}", file=sys.stderr)
            return 2
        copy.limit_s = SLOWER * (time.monotonic() - began) + PATIENCE_S
        survivors = 0
        for number, (module, mutant) in enumerate(chosen):
            fate = copy.fate(package, module, mutant, number)
            survivors += fate.by is None
            print(fate.line, flush=True)
    share = 100 * (1 - survivors / max(len(chosen), 1))
    print(f"\n{len(chosen) - survivors} of {len(chosen)} killed: {share:.1f} % (at least {options.least:g} %)")
    return int(share < options.least)


if __name__ == "__main__":
    sys.exit(main())
