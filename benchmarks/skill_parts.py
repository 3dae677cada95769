"""Whether the right part of a skill is kept within a budget: the facts that whoever works by it must not miss.

For some real skills, drawn by a seed, up to eight facts each were written down by reading the whole text: what it is
for, what it forbids, the steps that are the procedure, the option it prefers, commands that are needed, and the files
it sends to. A fact is a short string of the text; it is kept where what is rendered has it, however it is wrapped or
emphasised. Beside it in the same run: the text cut where the budget ends, its headings alone, and another checkout.
"""

import hashlib
import json
import os
import random
import re
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from pathlib import Path

from measuring import Finding, Target, options, show
from skill_budget import CORPUS, injection
from toolcrib.skills.formats.agent_skill import read_agent_skill
from toolcrib.skills.identity import skill_uri
from toolcrib.skills.text.rendering import Sheet, estimator

FACTS = Path(__file__).resolve().parent / "queries" / "skill_facts.json"
BUDGETS = {300: 0.55, 800: 0.80, 1500: 0.95}
"""Budgets in tokens, with the share of facts that should be kept in each."""

_MARKS = re.compile(r"[*`]")
_SPACE = re.compile(r"\s+")
_HEADING = re.compile(r"^#{1,6} .*$", re.MULTILINE)
_FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)

Render = Callable[["Read", int], str]


@dataclass(frozen=True, slots=True)
class Read:
    """One skill that was read: its whole text, its sheet, and the facts that were written down."""

    whole: str
    sheet: Sheet
    facts: tuple[str, ...]


def drawn(corpus: Path, seed: int, count: int) -> list[Path]:
    """Return the skills that the seed draws from all below ``corpus`` that load, in the order of their paths."""
    paths = [path for path in sorted(corpus.rglob("SKILL.md")) if _read(path) is not None]
    return sorted(random.Random(seed).sample(paths, count))


def read_facts(corpus: Path, file: Path) -> Iterator[Read]:
    """Yield the skills of ``file``, each found in ``corpus`` by the digest of its text."""
    kept = {each["digest"]: tuple(each["facts"]) for each in json.loads(file.read_text(encoding="utf-8"))["skills"]}
    for path in sorted(corpus.rglob("SKILL.md")):
        content = path.read_bytes()
        facts = kept.get(digest := hashlib.sha256(content).hexdigest())
        text = _read(path)
        if facts is not None and text is not None:
            uri = skill_uri("repo", path.parent.name)
            whole = content.decode("utf-8")
            yield Read(whole, Sheet.from_text(text, uri=uri, digest=digest[:12]), facts)


def _read(path: Path):
    return read_agent_skill(path.read_bytes(), folder_name=path.parent.name, path=path.name)[0]


def plain(text: str) -> str:
    """Return ``text`` as facts are looked for: on one line, without emphasis, case and escapes."""
    return _SPACE.sub(" ", _MARKS.sub("", unescape(text))).casefold()


def kept(reads: Sequence[Read], render: Render, max_tokens: int) -> float:
    """Return the share of all facts that are kept within ``max_tokens``."""
    found = total = 0
    for each in reads:
        text = plain(render(each, max_tokens))
        found += sum(plain(fact) in text for fact in each.facts)
        total += len(each.facts)
    return found / total


def truncated(read: Read, max_tokens: int) -> str:
    """Return the file's text up to where the budget ends."""
    return read.whole[: max_tokens * 4]


def headings(read: Read, max_tokens: int) -> str:
    """Return the description and the headings, as many as fit."""
    lines = _HEADING.findall(_FENCED.sub("", read.sheet.text.body))
    return "\n".join((read.sheet.text.description, *lines))[: max_tokens * 4]


def elsewhere(checkout: Path, given: Namespace) -> dict[str, float]:
    """Return what another checkout keeps of the same facts, by the names of the findings."""
    script = checkout / "benchmarks" / Path(__file__).name
    command = [sys.executable, str(script), "--json", "--corpus", str(given.corpus), "--facts", str(given.facts)]
    environ = {**os.environ, "PYTHONPATH": str(checkout / "server")}
    told = subprocess.run(command, env=environ, check=True, capture_output=True, text=True)
    return {each["what"]: each["toolcrib"] for each in json.loads(told.stdout)["findings"]}


def measure(given: Namespace) -> None:
    reads = list(read_facts(given.corpus, given.facts))
    estimate = estimator("chars")
    ours: Render = lambda read, max_tokens: injection([read.sheet], max_tokens, estimate).text  # noqa: E731
    there = elsewhere(given.against, given) if given.against else {}
    found: list[Finding] = []
    for max_tokens, least in BUDGETS.items():
        share, cut = kept(reads, ours, max_tokens), kept(reads, truncated, max_tokens)
        what = f"{max_tokens:,} tokens: facts kept"
        found.append(Finding(what, "of 1", share, cut, "plain truncation"))
        found.append(Finding(f"{max_tokens:,} tokens: …", "of 1", share, kept(reads, headings, max_tokens), "headings"))
        if what in there:
            found.append(Finding(f"{max_tokens:,} tokens: … there", "of 1", share, there[what], "the other checkout"))
        lost = f"{max_tokens:,} tokens: facts lost"
        found.append(Finding(lost, "of 1", 1 - share, 1 - cut, "plain truncation", Target(round(1 - least, 2))))
    note = f"{len(reads)} skills with {sum(len(each.facts) for each in reads)} facts"
    show(found, note, *_lost(reads, ours, given.lost), as_json=given.json)


def _lost(reads: Sequence[Read], render: Render, max_tokens: int | None) -> Iterator[str]:
    """Yield, for whoever asks, which facts are lost within a budget."""
    for each in reads if max_tokens else ():
        text = plain(render(each, max_tokens or 0))
        lost = [fact for fact in each.facts if plain(fact) not in text]
        if lost:
            yield f"{each.sheet.text.name}: {lost}"


def main() -> None:
    parser = options(__doc__, repeat=1)
    parser.add_argument("--corpus", type=Path, default=CORPUS, metavar="DIR", help="folder with SKILL.md files")
    parser.add_argument("--facts", type=Path, default=FACTS, metavar="FILE", help="the facts of each skill")
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout, measured in the same run")
    parser.add_argument("--lost", type=int, metavar="TOKENS", help="tell which facts are lost within this budget")
    parser.add_argument("--draw", type=int, nargs=2, metavar=("SEED", "COUNT"), help="only tell which skills are drawn")
    given = parser.parse_args()
    if not given.corpus.is_dir():
        parser.error("no skills there; name a folder with --corpus")
    if given.draw:
        print(*drawn(given.corpus, *given.draw), sep="\n")
        return
    measure(given)


if __name__ == "__main__":
    main()
