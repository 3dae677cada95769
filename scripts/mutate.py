"""Tells whether the quick tests, and all of the sampled ones, notice small faults in modules: draws some, counts.

python scripts/mutate.py --sample 40 --seed 1 --least 90 [MODULE…]

The modules, the tests that say most about each, and the faults that change no behaviour are in mutation.toml. A fault
is put in as a module is imported: the tree is never touched. Names each survivor, and exits with 1 where a smaller
share than ``--least`` per cent of a module's other faults died, with 2 where tests fail without any fault.
"""

import argparse
import math
import os
import random
import shutil
import sys
import tempfile
import time
import tomllib
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from itertools import pairwise
from multiprocessing import get_context
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from mutants import Mutant, mutants

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "toolcrib"
TABLE = "scripts/mutation.toml"

SLOWER, PATIENCE_S = 3, 15
"""A run may take so many times as long as one without a fault, and so many seconds more."""

TEST_S = 30
"""Seconds for one test: a fault often makes a loop that does not end."""

_TESTS = "-m=not hostile and not full and (sampled or not slow)"
_OPTIONS = ("-x", "-q", "--tb=no", "--assert=plain", "-p", "no:cacheprovider", f"--timeout={TEST_S}", _TESTS)
_SHOWN = 60
_LOOK_S = 1
"""How often it is looked whether a trial takes too long."""

Identity = tuple[str, str, str, int]
"""What tells a fault from the others of a module, wherever its lines are."""


@dataclass(frozen=True, slots=True)
class Module:
    """What is tried together. ``files`` lie below the package; ``equivalents`` has the reason for each of them."""

    name: str
    files: tuple[str, ...]
    tests: tuple[str, ...]
    equivalents: Mapping[Identity, str]
    by_default: bool = True

    def faults(self, root: Path) -> list[tuple[str, Mutant]]:
        """Return every fault in its files, in order, each with its file."""
        package = root / "server" / PACKAGE
        paths = (path for name in self.files for path in sorted((package / name).rglob("*.py")) or [package / name])
        return [
            (path.relative_to(package).as_posix(), mutant) for path in paths for mutant in mutants(path.read_bytes())
        ]


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a fault. ``by``: the test that noticed it, or another reason why it died; None: it survived."""

    file: str
    mutant: Mutant
    by: str | None
    reason: str | None = None
    """Why it changes no behaviour, if it is listed so."""

    @property
    def kind(self) -> str:
        """What it counts as."""
        if self.reason is None:
            return "survived" if self.by is None else "killed"
        return "equivalent" if self.by is None else "misjudged"

    @property
    def line(self) -> str:
        """One line about it."""
        by = "" if self.by is None else f" by {self.by}"
        told = {"survived": "SURVIVED", "misjudged": "listed as equivalent, but killed"}.get(self.kind, self.kind)
        return f"{shown(self.file, self.mutant, whole=self.is_wrong)}  {told}{by}"

    @property
    def is_wrong(self) -> bool:
        """Whether something has to be done about it: a test, or an entry in the table."""
        return self.kind in {"survived", "misjudged"}


def shown(file: str, mutant: Mutant, *, whole: bool = False) -> str:
    """Return a fault on one line; ``whole`` as the table would list it."""
    before, after = (text if whole else _short(text) for text in (mutant.reads, mutant.after))
    nth = f" ({mutant.nth})" if mutant.nth > 1 else ""
    return f"{file}:{mutant.line}  {mutant.where}  {before}  ->  {after}{nth}"


def modules(root: Path) -> dict[str, Module]:
    """Return the modules of the table, by name."""
    table = tomllib.loads((root / TABLE).read_text(encoding="utf-8"))
    return {name: _module(name, entry) for name, entry in table.items()}


def _module(name: str, entry: Mapping[str, Any]) -> Module:
    equivalents = {
        (each["where"], each["before"], each["after"], each.get("nth", 1)): each["reason"]
        for each in entry.get("equivalent", ())
    }
    return Module(name, tuple(entry["files"]), tuple(entry["tests"]), equivalents, entry.get("by_default", True))


def drawn(faults: Sequence[tuple[str, Mutant]], count: int, seed: int) -> list[tuple[str, Mutant]]:
    """Return ``count`` of the faults, spread over all of them: the same ones for the same seed and sources."""
    chance = random.Random(seed)  # noqa: S311 - nothing secret
    count = min(count, len(faults))
    ends = [len(faults) * number // count for number in range(count + 1)] if count else [0]
    return [faults[chance.randrange(*between)] for between in pairwise(ends)]


# -- one trial, in a process of its own ----------------------------------------------------------


class _Faulty(SourceFileLoader):
    """Loads one module from a source that is not the one in its file."""

    def __init__(self, name: str, path: str, source: bytes) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self._source, self.get_filename(fullname))


class _Finder(MetaPathFinder):
    """Finds the module of one file, and has it loaded with a fault."""

    def __init__(self, root: Path, file: str, mutant: Mutant) -> None:
        self._path = root / "server" / PACKAGE / file
        self._name = ".".join([PACKAGE, *Path(file).with_suffix("").parts]).removesuffix(".__init__")
        self._source = mutant.applied(self._path.read_bytes())

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        loader = _Faulty(fullname, str(self._path), self._source)
        return spec_from_file_location(fullname, self._path, loader=loader)


class _Watcher:
    """A plugin of pytest that notes each test as it begins: the last one is the one that failed."""

    def __init__(self, note: Path) -> None:
        self._note = note

    def pytest_configure(self) -> None:
        from hypothesis import Phase, settings  # noqa: PLC0415 - only in a trial

        # That an example fails is enough: nobody will read it.
        settings.register_profile("unshrunk", settings.default, phases=(Phase.explicit, Phase.generate))
        settings.load_profile("unshrunk")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._note.write_text(nodeid, encoding="utf-8")


def _tried(root: Path, tests: Sequence[str], fault: tuple[str, Mutant] | None, folder: Path) -> None:
    """Run the tests on a fault, and end this process with what pytest says. Notes in ``folder`` what it is at."""
    import pytest  # noqa: PLC0415 - only in a trial

    os.chdir(root)
    output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    if fault is not None:
        sys.meta_path.insert(0, _Finder(root, *fault))
    basetemp = f"--basetemp={folder / 'tests'}"
    os._exit(pytest.main([*_OPTIONS, basetemp, *tests], plugins=[_Watcher(folder / "note")]))


@dataclass(frozen=True, slots=True)
class _Trial:
    """A running trial: its process, where it notes what it is at, and when it has taken too long."""

    fault: tuple[str, Mutant] | None
    process: BaseProcess
    folder: Path
    until: float

    @property
    def by(self) -> str | None:
        """The test that noticed the fault, or another reason why it died; None: it survived. Only once it has ended."""
        if self.process.exitcode == 0:
            return None
        note = self.folder / "note"
        what = note.read_text(encoding="utf-8") if note.exists() else "an import"
        return what if self.process.exitcode in (1, 2) else f"{what}, which did not end ({self.process.exitcode})"


class Trials:
    """Runs tests on faults, each in a process forked from this one, which has everything loaded but the package."""

    def __init__(self, root: Path, folder: Path, jobs: int = 1) -> None:
        self._root, self._folder, self._jobs, self._number = root, folder, jobs, 0

    def verdict(self, tests: Sequence[str]) -> str | None:
        """Run the tests without a fault; return which one fails, None where none does."""
        [(_, by)] = self.verdicts(tests, [None], math.inf)
        return by

    def verdicts(
        self, tests: Sequence[str], faults: Iterable[tuple[str, Mutant] | None], limit_s: float
    ) -> Iterator[tuple[tuple[str, Mutant] | None, str | None]]:
        """Yield each fault as its trial ends, with what noticed it; None if nothing did."""
        waiting, running = deque(faults), list[_Trial]()
        while waiting or running:
            while waiting and len(running) < self._jobs:
                running.append(self._begun(tests, waiting.popleft(), limit_s))
            wait([trial.process.sentinel for trial in running], timeout=_LOOK_S)
            for trial in [*running]:
                if trial.process.is_alive() and time.monotonic() > trial.until:
                    trial.process.kill()
                    trial.process.join()
                if not trial.process.is_alive():
                    running.remove(trial)
                    yield trial.fault, trial.by
                    shutil.rmtree(trial.folder, ignore_errors=True)

    def _begun(self, tests: Sequence[str], fault: tuple[str, Mutant] | None, limit_s: float) -> _Trial:
        self._number += 1
        folder = self._folder / str(self._number)
        folder.mkdir()
        process = get_context("fork").Process(target=_tried, args=(self._root, tests, fault, folder))
        process.start()
        return _Trial(fault, process, folder, time.monotonic() + limit_s)


def prepare() -> None:
    """Load what all trials need: everything that the package imports, but nothing of the package itself."""
    for name in ("hypothesis", "pytest", f"{PACKAGE}.server.serving"):
        import_module(name)
    for name in [*sys.modules]:
        if name.partition(".")[0] == PACKAGE:
            del sys.modules[name]


# -- the run -------------------------------------------------------------------------------------


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


def _options(known: Mapping[str, Module]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=40, help="how many faults of each module; 0: all of them")
    parser.add_argument("--seed", type=int, default=1, help="which ones")
    parser.add_argument("--least", type=float, default=90, help="the share that must die, in per cent")
    parser.add_argument("--jobs", type=int, default=1, help="how many trials at a time")
    parser.add_argument(
        "--limit", type=float, help="seconds for a trial; the tests are then not run without a fault first"
    )
    parser.add_argument("--listed", action="store_true", help="try those listed as equivalent too")
    parser.add_argument("--list", action="store_true", help="only print the faults that would be tried")
    parser.add_argument("--verbose", action="store_true", help="print those that died, too, and by which test")
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=f"of {', '.join(known)}")
    options = parser.parse_args()
    if unknown := [name for name in options.modules if name not in known]:
        parser.error(f"not in {TABLE}: {', '.join(unknown)}")
    return options


def _tally(module: Module, trials: Trials, options: argparse.Namespace) -> bool | None:
    """Try some faults of one module, print what became of them, and return whether enough died; None: no test can."""
    faults = module.faults(ROOT)
    chosen = drawn(faults, options.sample or len(faults), options.seed)
    if options.list:
        print("\n".join(f"{module.name}: {shown(*fault)}" for fault in chosen))
        return True
    limit_s = options.limit
    if limit_s is None:
        began = time.monotonic()
        if (failing := trials.verdict(module.tests)) is not None:
            print(f"{module.name}: a test fails without any fault: {failing}", file=sys.stderr)
            return None
        limit_s = SLOWER * (time.monotonic() - began) + PATIENCE_S
    tried = [fault for fault in chosen if options.listed or fault[1].identity not in module.equivalents]
    counted = Counter({"equivalent": len(chosen) - len(tried)})
    for fault, by in trials.verdicts(module.tests, tried, limit_s):
        assert fault is not None
        fate = Fate(*fault, by, module.equivalents.get(fault[1].identity))
        counted[fate.kind] += 1
        if options.verbose or fate.is_wrong:
            print(f"{module.name}: {fate.line}", flush=True)
    killed, survived = counted["killed"], counted["survived"]
    share = 100 * killed / max(killed + survived, 1)
    told = f"{killed} killed, {survived} survived, {counted['equivalent']} equivalent"
    print(f"{module.name}: of {len(chosen)} {told}: {share:.1f} % (at least {options.least:g} %)", flush=True)
    return share >= options.least and not counted["misjudged"]


def main() -> int:
    """Try the faults and print what became of them."""
    known = modules(ROOT)
    options = _options(known)
    chosen = options.modules or [name for name, module in known.items() if module.by_default]
    prepare()
    with tempfile.TemporaryDirectory() as folder:
        trials = Trials(ROOT, Path(folder), options.jobs)
        told = [_tally(known[name], trials, options) for name in chosen]
    return 2 if None in told else int(not all(told))


if __name__ == "__main__":
    sys.exit(main())
