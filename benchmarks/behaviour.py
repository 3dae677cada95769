"""Whether two checkouts behave the same: what each says and writes when both are asked the same, byte by byte.

Each is asked from outside only, so its modules may move: by command, over MCP on stdio and over HTTP, and by what it
writes. One runs after the other under the same path, as a copy, with the same files and environment.

Lists and searches are compared as they come. Left out of the rest, because no two runs have them in common, are times,
durations, process ids, the port, ids of sessions over HTTP, and random handles (``handle``, ``requestState``,
``elicitationId``). Of events, the order is compared within a session, a server and each other kind.

Left out because they depend on how busy the machine is: the first handshake of a new index, which tells as many skills
as are read by then; when a client is told that resources and prompts have changed; whether an answer over HTTP is a
stream. Of the events: how often and for how many skills ``skill_directory_rendered`` is written, which an early answer
leaves out; that a server has not answered after 5 s; that one sleeps, which a process that ends may not write any more;
and how often one that fails is tried.
"""

import difflib
import hashlib
import json
import os
import sys
import tempfile
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic

import catalog
from behaviour_aspects import ASPECTS, Given, Job, Recording, jobs
from behaviour_inputs import CLIENT_FILES
from behaviour_site import COPIED, Answers, World, copied, in_parallel, removed
from measuring import options, say

SHARED = catalog.ROOT.parent / "shared"
LINES_MOST = 40
WIDTH_MOST = 240


@dataclass(frozen=True, slots=True)
class Difference:
    """One question that two checkouts answer differently."""

    question: str
    there: str | None
    here: str | None

    def shown(self) -> str:
        """Return it as a unified diff."""
        if self.here is None or self.there is None:
            return f"{self.question}\n  answered only {'there' if self.here is None else 'here'}"
        there, here = readable(self.there), readable(self.here)
        if there == here:
            there, here = self.there.splitlines(), self.here.splitlines()
        lines = list(difflib.unified_diff(there, here, "there", "here", n=1, lineterm=""))
        if len(lines) > LINES_MOST:
            lines[LINES_MOST:] = [f"... {len(lines) - LINES_MOST} lines more"]
        return "\n".join([self.question, *("  " + cut(line) for line in lines)])


def readable(answer: str) -> list[str]:
    """Return the lines of an answer, JSON spread over several, and texts in it over as many as they have."""
    lines: list[str] = []
    for line in answer.splitlines():
        try:
            value = json.loads(line) if line.startswith(("{", "[")) else None
        except ValueError:
            value = None
        shown = line if value is None else json.dumps(value, indent=1, ensure_ascii=False).replace("\\n", "\n")
        lines += shown.split("\n")
    return lines


def cut(line: str) -> str:
    """Return a line that fits the screen."""
    return line if len(line) <= WIDTH_MOST else f"{line[:WIDTH_MOST]} ... ({len(line)} characters)"


def differences(there: Answers, here: Answers) -> list[Difference]:
    """Return the questions whose answers differ, in the order in which they were asked there."""
    questions = {**there, **here}
    pairs = ((question, there.get(question), here.get(question)) for question in questions)
    return [Difference(*pair) for pair in pairs if pair[1] != pair[2]]


def recorded(root: Path, site: Path, given: Namespace) -> Recording:
    """Ask a checkout everything, in a copy of it and in worlds that are gone afterwards."""
    if site.exists():
        removed(site)
    recording = Recording()
    checkout = site / "checkout"
    copied(root, checkout)
    asked = Given(given.catalog, given.requests, given.skills, site.with_name("kept"), given.most)
    found = jobs(given.only, asked)
    tasks: list[Callable[[], None]] = [
        partial(done, name, job, World(site / f"world-{number:02}", checkout), recording)
        for number, (name, job) in enumerate(found.items())
    ]
    in_parallel(tasks, given.jobs)
    removed(site)
    return recording


def done(name: str, job: Job, world: World, recording: Recording) -> None:
    """Do a job and say so."""
    began = monotonic()
    try:
        job(world, recording)
    except Exception as error:
        raise RuntimeError(f"{name}: {error!r}") from error
    say(f"  {name}: {monotonic() - began:.1f} s")


def missing(given: Namespace) -> Iterator[str]:
    """Yield what is skipped because its input is not there."""
    for folder, what in (
        (given.catalog, "lists and searches of captured tools"),
        (given.requests, "searches of request sets"),
        (given.skills, "searches of a corpus of skills"),
    ):
        if not folder.is_dir():
            yield f"skipped: {what} ({folder} is not there)"


def aspects(text: str) -> list[str]:
    """Return the aspects that an option names."""
    names = text.split(",")
    if unknown := [name for name in names if name not in ASPECTS]:
        raise ArgumentTypeError(f"{', '.join(unknown)}: choose from {', '.join(ASPECTS)}")
    return names


def compared(given: Namespace) -> Mapping[str, tuple[int, list[Difference]]]:
    """Return, for each aspect, how many questions were asked and which were answered differently."""
    found: dict[str, tuple[int, list[Difference]]] = {name: (0, []) for name in given.only}
    for _ in range(given.repeat):
        with tempfile.TemporaryDirectory(prefix="behaviour-") as temporary:
            folder = Path(given.keep or temporary)
            there = asked_there(folder, given)
            say(f"asking {catalog.ROOT} ...")
            here = recorded(catalog.ROOT, folder / "site", given)
        for name in given.only:
            count, differing = found[name]
            pair = there.answers.get(name, {}), here.answers.get(name, {})
            found[name] = count + len(pair[0] | pair[1]), differing + differences(*pair)
    return found


def asked_there(folder: Path, given: Namespace) -> Recording:
    """Return what the other checkout says; what it said before, where nothing has changed and that was kept."""
    file, of = folder / "there.json", fingerprint(given)
    if file.exists():
        before = json.loads(file.read_text(encoding="utf-8"))
        if before["of"] == of:
            return Recording(before["answers"])
    for left in (folder / "site", folder / "kept"):
        if left.exists():
            removed(left)
    say(f"asking {given.against} ...")
    there = recorded(given.against, folder / "site", given)
    file.write_text(json.dumps({"of": of, "answers": there.answers}), encoding="utf-8")
    return there


def fingerprint(given: Namespace) -> str:
    """Return what the answers of the other checkout rest on: its files, those that ask, the inputs and the options."""
    read = [given.against / name for name in COPIED]
    asking = [*catalog.SERVERS.parent.glob("behaviour*.py"), catalog.SERVERS, CLIENT_FILES]
    digest = hashlib.sha256(repr((sorted(given.only), given.most, sys.version)).encode())
    for place in (*read, *asking):
        for path in sorted([place, *place.rglob("*")]):
            if path.is_file() and path.suffix != ".pyc":
                digest.update(str(path).encode() + path.read_bytes())
    for place in (given.catalog, given.requests, given.skills):
        for path in sorted(place.rglob("*")):
            digest.update(f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}".encode())
    return digest.hexdigest()


def measure(given: Namespace) -> bool:
    found = compared(given)
    notes = [*missing(given), f"there: {given.against}"]
    if given.json:
        rows = [
            {
                "what": name,
                "compared": count,
                "differing": len(differing),
                "first": [one.shown() for one in differing[: given.first]],
            }
            for name, (count, differing) in found.items()
        ]
        print(json.dumps({"aspects": rows, "notes": notes}))
    else:
        print("| aspect | answers compared | differ |\n|---|---|---|")
        for name, (count, differing) in found.items():
            print(f"| {name} | {count:,} | {f'**{len(differing):,}**' if differing else 0} |")
        for name, (_, differing) in found.items():
            for one in differing[: given.first]:
                print(f"\n{name}: {one.shown()}")
        print("\n" + "\n".join(notes))
    return not any(differing for _, differing in found.values())


def main() -> None:
    parser = options(__doc__, repeat=1)
    catalog.add_option(parser)
    parser.add_argument("--against", type=Path, metavar="DIR", required=True, help="the other checkout")
    parser.add_argument(
        "--only", type=aspects, default=list(ASPECTS), metavar="ASPECT,...", help=f"of {', '.join(ASPECTS)}"
    )
    parser.add_argument("--requests", type=Path, default=SHARED / "retrieval-dev", metavar="DIR", help="request sets")
    parser.add_argument("--skills", type=Path, default=SHARED / "skills-dev", metavar="DIR", help="corpus and queries")
    parser.add_argument("--most", type=int, metavar="N", help="only the first N requests of each set")
    parser.add_argument("--first", type=int, default=3, metavar="N", help="differences shown of each (default: 3)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep what DIR says, and do not ask it again")
    parser.add_argument("--jobs", type=int, default=(os.cpu_count() or 1) + 1, metavar="N", help="what runs at a time")
    given = parser.parse_args()
    given.against = given.against.resolve()
    if given.keep:
        given.keep = given.keep.resolve()
        given.keep.mkdir(parents=True, exist_ok=True)
    sys.exit(0 if measure(given) else 1)


if __name__ == "__main__":
    main()
