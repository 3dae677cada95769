"""What is rendered of real skills within a budget: what it leaves of them, how full it is, how long it takes.

Skills are rendered alone and in batches, in the order of their paths, beside their files as they are. A text is over
its budget where its estimate is; there must be none. Time is CPU time.
"""

import hashlib
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from measuring import Finding, Target, interleaved, median, options, percentile, show
from toolcrib.base.markdown import outline
from toolcrib.skills.formats.agent_skill import read_agent_skill
from toolcrib.skills.identity import skill_uri
from toolcrib.skills.text.rendering import Estimate, Page, Rendered, Sheet, estimator
from toolcrib.skills.text.rendering import rendered as rendered_pages

CORPUS = Path(__file__).resolve().parents[2] / "shared" / "skills-dev" / "corpus"
BUDGETS = (200, 500, 1500, 6000)
BATCHES = (1, 3, 10)
USUAL = 1500
NONE, ONE = Target(0), Target(4)
CUT = "for the others there is no room]"
"""What a text ends its steps with where not even their titles fit."""


def sheets(corpus: Path) -> Iterator[Sheet]:
    """Yield every skill below ``corpus`` that loads."""
    for path in sorted(corpus.rglob("SKILL.md")):
        content = path.read_bytes()
        folder = path.parent
        text, _ = read_agent_skill(content, folder_name=folder.name, path=path.name)
        if text is None:
            continue
        files = (each for each in folder.rglob("*") if each.is_file() and each != path)
        yield Sheet.from_text(
            text,
            uri=skill_uri("repo", folder.name),
            digest=hashlib.sha256(content).hexdigest()[:12],
            files=tuple(sorted(each.relative_to(folder).as_posix() for each in files)),
        )


@dataclass
class Round:
    """What came of all skills with one budget and one size of batch. ``used`` counts texts that hold not everything."""

    over: int = 0
    over_whole: int = 0
    milliseconds: list[float] = field(default_factory=list)
    used: list[float] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)


def injection(skills: Sequence[Sheet], max_tokens: int, estimate: Estimate) -> Rendered:
    return rendered_pages([Page(sheet, estimate) for sheet in skills], max_tokens, estimate)


def rendered(skills: Sequence[Sheet], max_tokens: int, batch: int, estimate: Estimate) -> Round:
    """Render all skills in batches."""
    done = Round()
    for start in range(0, len(skills), batch):
        chosen = skills[start : start + batch]
        began = time.process_time()
        made = injection(chosen, max_tokens, estimate)
        done.milliseconds.append((time.process_time() - began) * 1000)
        tokens = estimate(made.text)
        done.over += tokens > max_tokens
        done.over_whole += estimate("\n".join(each.text.body for each in chosen)) > max_tokens
        done.kinds.update(outcome.included for outcome in made.outcomes)
        if any(outcome.included != "full" for outcome in made.outcomes):
            done.used.append(tokens / max_tokens)
    return done


def without_all_steps(skills: Sequence[Sheet], estimate: Estimate) -> float:
    """Return the share of skills of whose steps some are missing, even by their titles, at the usual budget."""
    return sum(CUT in injection([each], USUAL, estimate).text for each in skills) / len(skills)


def measure(given: Namespace) -> None:
    estimate = estimator(given.estimator)
    skills = list(sheets(given.corpus))
    found: list[Finding] = []
    notes = [f"{len(skills)} skills with {sum(len(outline(each.text.body).steps) for each in skills)} steps"]
    for max_tokens in BUDGETS:
        rounds = {batch: rendered(skills, max_tokens, batch, estimate) for batch in BATCHES}
        over, whole = (sum(getattr(each, name) for each in rounds.values()) for name in ("over", "over_whole"))
        found.append(Finding(f"{max_tokens:,} tokens: over budget", "texts", over, whole, "whole", NONE))
        notes += [f"{max_tokens:,} tokens, {batch} at once: {_told(each)}" for batch, each in rounds.items()]
    found.append(Finding(f"{USUAL:,} tokens: steps left out", "of 1", without_all_steps(skills, estimate)))
    cases = {str(batch): lambda batch=batch: rendered(skills, USUAL, batch, estimate).milliseconds for batch in BATCHES}
    for batch, each in interleaved(given.repeat, cases).items():
        for share in (0.5, 0.95):
            taken = median([percentile(one, share) for one in each])
            target = ONE if (batch, share) == ("1", 0.95) else None
            found.append(Finding(f"{USUAL:,} tokens, {batch} at once, p{share * 100:g}", "ms", taken, target=target))
    show(found, *notes, f"medians of {given.repeat} rounds", as_json=given.json)


def _told(done: Round) -> str:
    kinds = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in done.kinds.most_common())
    used = f", {sum(done.used) / len(done.used):.1%} of the room used" if done.used else ""
    return f"{kinds}{used}"


def main() -> None:
    parser = options(__doc__, repeat=3)
    parser.add_argument("--corpus", type=Path, default=CORPUS, metavar="DIR", help="folder with SKILL.md files")
    parser.add_argument("--estimator", choices=["chars", "bytes"], default="chars")
    given = parser.parse_args()
    if not given.corpus.is_dir():
        parser.error("no skills there; name a folder with --corpus")
    measure(given)


if __name__ == "__main__":
    main()
