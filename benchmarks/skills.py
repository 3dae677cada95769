"""A folder of real skills: how many load, what reading them costs, and what they add to a start of `toolcrib serve`.

A start with skills that are indexed already is measured beside one with `skills.enabled: false`, over stdio, until the
answers to `initialize`, whose instructions name skills, and to `tools/list` have arrived: in time that passes, and in
CPU time of the process, which other work on the machine harms less.
"""

import json
import os
import shutil
import sys
import tempfile
import threading
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from measuring import Finding, Target, interleaved, median, options, say, show
from raw_client import RawClient
from toolcrib.base.model import SkillFile
from toolcrib.config.loading import load
from toolcrib.config.settings import Settings
from toolcrib.policy.state import STATE_SCHEMA, SkillDecisions
from toolcrib.skills.catalog import SkillCatalog
from toolcrib.skills.index import SKILLS_SCHEMA, SkillIndex
from toolcrib.skills.sources.roots import Root, find_roots
from toolcrib.skills.sources.scanning import ROOT_ITSELF, scan
from toolcrib.storage.store import Store

CORPUS = Path(__file__).resolve().parents[2] / "shared" / "skills-dev" / "corpus"
LEFT_OUT = Target(0.02)
COLD = Target(3000)
COPIED = Target(4000)
WARM = Target(20, "difference")


_COPIES = 4
"""How many copies of the folder are indexed together: many skills are installed for several hosts."""


def write_config(folder: Path, name: str, skills: dict) -> Path:
    """Write a config without servers, and with a cache of its own, in ``folder``; return its path."""
    section = {"cache_dir": str(folder / f"cache-{name}"), "skills": {"discover": [], **skills}}
    config = folder / f"{name}.json"
    config.write_text(json.dumps({"toolcrib": section}), encoding="utf-8")
    return config


def command(config: Path) -> list[str]:
    return [sys.executable, "-m", "toolcrib", "serve", "--config", str(config)]


def measure_loading(root: Root, settings: Settings) -> tuple[list[Finding], list[str]]:
    """Return the shares of files that do not load, leniently and strictly, and the reasons of the former."""
    lenient, strict = (_read(each, settings) for each in (root, replace(root, is_strict=True)))
    shares = [sum(not file.records for file in files) / len(files) for files in (lenient, strict)]
    codes = Counter(_reason(file) for file in lenient if not file.records)
    reasons = [f"{count} left out: {code}" for code, count in codes.most_common()]
    found = Finding("left out", "of 1", shares[0], shares[1], "that break a rule of the format", LEFT_OUT)
    return [found], [f"{len(lenient)} files", *reasons]


def _read(root: Root, settings: Settings) -> list[SkillFile]:
    found = scan(root, {}, settings.toolcrib.limits)
    return [file for file in found.changed if file.path != ROOT_ITSELF]


def _reason(file: SkillFile) -> str:
    return next(problem.code for problem in file.problems if problem.level == "error")


def refresh(settings: Settings) -> float:
    """Bring the index in step with all files; return the milliseconds from opening it to being able to list skills."""
    began = time.perf_counter()
    with Store(settings.skill_cache, SKILLS_SCHEMA) as store, Store(settings.state_file, STATE_SCHEMA) as state:
        catalog = SkillCatalog(settings, SkillIndex(store), SkillDecisions(state), time.time)
        catalog.refresh(threading.Event())
        return (time.perf_counter() - began) * 1000


def measure_indexing(given: Namespace, folder: Path, corpus: Path) -> list[Finding]:
    cold: list[float] = []
    warm: list[float] = []
    for number in range(given.repeat):
        settings = settings_of(write_config(folder, f"index-{number}", {"skill_dirs": [str(corpus)]}))
        cold.append(refresh(settings))
        warm.append(refresh(settings))
    for number in range(_COPIES):
        shutil.copytree(corpus, folder / "copies" / str(number))
    copied = refresh(settings_of(write_config(folder, "copies", {"skill_dirs": [str(folder / "copies")]})))
    return [
        Finding(f"index made anew of {_COPIES} copies of it", "ms", copied, target=COPIED),
        Finding("index made anew", "ms", median(cold), target=COLD),
        Finding("index found as it should be", "ms", median(warm), median(cold), "made anew"),
    ]


@dataclass(frozen=True)
class Moment:
    """The milliseconds since a start, and those of CPU that the process has taken."""

    ms: float
    cpu_ms: float


_MOMENTS = "warm start to initialize", "warm start to tools/list", "warm start until all is loaded"


def started(config: Path) -> tuple[Moment, Moment, Moment]:
    """Start toolcrib; return when it had greeted, when its list had arrived, and when it was wholly there."""
    began = time.perf_counter()

    def now(client: RawClient) -> Moment:
        return Moment((time.perf_counter() - began) * 1000, client.cpu_ms())

    with RawClient(command(config)) as client:
        client.open()
        greeted = now(client)
        client.request("tools/list", {})
        listed = now(client)
        client.request("ping", {})
        return greeted, listed, now(client)


def measure_starts(given: Namespace, folder: Path, corpus: Path) -> tuple[list[Finding], str]:
    with_skills = write_config(folder, "with", {"skill_dirs": [str(corpus)]})
    without = write_config(folder, "without", {"enabled": False})
    first = started(with_skills)[0].ms
    started(without)
    before = state_of(settings_of(with_skills).skill_cache)
    runs = interleaved(given.repeat, {"with": lambda: started(with_skills), "without": lambda: started(without)})
    wrote = "nothing" if state_of(settings_of(with_skills).skill_cache) == before else "to the index"
    found = [
        Finding("first start to initialize", "ms", first, median([run[0].ms for run in runs["without"]]), "without")
    ]
    for place, what in enumerate(_MOMENTS):
        for field, unit, target in (("ms", "ms", None), ("cpu_ms", "ms CPU", WARM)):
            ours, base = (median([getattr(run[place], field) for run in runs[case]]) for case in ("with", "without"))
            found.append(Finding(what, unit, ours, base, "without skills", target))
    return found, f"warm starts wrote {wrote}"


def state_of(index: Path) -> Sequence[tuple[str, int, int]]:
    """Return what tells whether an index has been written to."""
    files = (index, index.with_name(f"{index.name}-checked"))
    return [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files if file.exists()]


def settings_of(config: Path) -> Settings:
    return load(config, os.environ, config.parent)


def measure(given: Namespace, folder: Path) -> None:
    settings = settings_of(write_config(folder, "reading", {"core_pack": False, "skill_dirs": [str(given.corpus)]}))
    found, notes = measure_loading(find_roots(settings).roots[0], settings)
    say("indexing ...")
    found += measure_indexing(given, folder, given.corpus)
    say("starting ...")
    starts, note = measure_starts(given, folder, given.corpus)
    show([*found, *starts], *notes, note, f"medians of {given.repeat} rounds", as_json=given.json)


def main() -> None:
    over_corpus(__doc__, 9, measure)


def over_corpus(description: str | None, repeat: int, measure: Callable[[Namespace, Path], None]) -> None:
    """Run a benchmark over a folder of skills, with a folder of its own to write into."""
    parser = options(description, repeat=repeat)
    parser.add_argument("--corpus", type=Path, default=CORPUS, metavar="DIR", help="folder with SKILL.md files")
    given = parser.parse_args()
    if not given.corpus.is_dir():
        parser.error("no skills there; name a folder with --corpus")
    with tempfile.TemporaryDirectory() as folder:
        measure(given, Path(folder))


if __name__ == "__main__":
    main()
