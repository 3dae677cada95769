"""Which skills a task is begun with: those that fit it best, a little more where they are of its frame or kind.

Knows how a match is weighed before a task; never knows how it was found, or how a skill is given.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from toolcrib.model import Skill, TaskType
from toolcrib.search.matches import Match
from toolcrib.skills.search import has_tag

CANDIDATES = 50
"""How many of the best matches are weighed."""

FRAME_BOOST, TYPE_BOOST = 0.2, 0.1
"""What a match of the frame, and of the kind of task, adds to a score; no score is above 1 (R193)."""


def both(matches: Sequence[Match[Skill]], of_frame: Sequence[Match[Skill]]) -> list[Match[Skill]]:
    """Return what a task finds, and after it what it finds only among the skills of its frame, with no score (R196)."""
    known = {match.document.row for match in matches}
    return [*matches, *(replace(match, score=0.0) for match in of_frame if match.document.row not in known)]


def frame_tags(frame: str, frames: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """Return the tags of skills that belong to a frame: the domains that the config gives it, else its own name."""
    return frozenset(tag.casefold() for tag in frames.get(frame, (frame,)))


def distance(source: str) -> tuple[int, int]:
    """Return how far off a source is: the repository from the working directory up, then home, folders, packs."""
    place, _, rest = source.partition("-" if source.startswith("repo") else "/")
    order = ("repo", "user", "dir", "pack")
    # repo, repo-2, repo-3 lie ever deeper, and the deepest is the working directory itself.
    depth = int(rest) if place == "repo" and rest.isdigit() else 0
    return (order.index(place) if place in order else len(order), -depth)


def chosen(matches: Sequence[Match[Skill]], tags: frozenset[str], task_type: TaskType | None) -> list[Skill]:
    """Return the skills in the order in which they fit: by score, with what belongs to the task before what does not.

    Of several with one name there is one, from the nearest source.
    """
    best: dict[str, tuple[float, float, int, Skill]] = {}
    for place, match in enumerate(matches):
        skill, boost = match.document, 0.0
        if has_tag(skill, tags):
            boost += FRAME_BOOST
        if task_type not in (None, TaskType.UNKNOWN) and skill.task_type is task_type:
            boost += TYPE_BOOST
        # Where the bound makes scores equal, what belongs to the task is ahead all the same.
        weighed = (-min(match.score + boost, 1.0), -boost, place, skill)
        known = best.get(skill.name)
        if known is None:
            best[skill.name] = weighed
        elif distance(skill.source) < distance(known[3].source):
            best[skill.name] = (*min(known[:3], weighed[:3]), skill)
    return [skill for *_, skill in sorted(best.values(), key=lambda each: each[:3])]
