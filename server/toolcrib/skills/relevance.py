"""Selects the skills for a task: those that fit it best, with a small bonus for its frame or kind."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from toolcrib.base.model import Skill, TaskType
from toolcrib.search.documents import Match
from toolcrib.skills.search import has_tag

CANDIDATES = 50
"""How many of the best matches are considered."""

FRAME_BOOST, TYPE_BOOST = 0.2, 0.1
"""What a matching frame, and a matching kind of task, add to a score; no score exceeds 1 (R193)."""


def with_frame_matches(matches: Sequence[Match[Skill]], of_frame: Sequence[Match[Skill]]) -> list[Match[Skill]]:
    """Return the matches for a task, followed by those found only among skills of its frame, with score 0 (R196)."""
    known = {match.document.row for match in matches}
    return [*matches, *(replace(match, score=0.0) for match in of_frame if match.document.row not in known)]


def frame_tags(frame: str, frames: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """Return the tags of skills that belong to a frame: the domains configured for it, else its own name."""
    return frozenset(tag.casefold() for tag in frames.get(frame, (frame,)))


def _distance(source: str) -> tuple[int, int]:
    """Return the distance of a source: the repository from the working directory up, then home, folders, packs."""
    place, _, rest = source.partition("-" if source.startswith("repo") else "/")
    order = ("repo", "user", "dir", "pack")
    # repo, repo-2, repo-3 are nested ever deeper; the deepest is the working directory itself.
    depth = int(rest) if place == "repo" and rest.isdigit() else 0
    return (order.index(place) if place in order else len(order), -depth)


def select_skills(matches: Sequence[Match[Skill]], tags: frozenset[str], task_type: TaskType | None) -> list[Skill]:
    """Return the skills by relevance: by score, boosted if they belong to the task.

    Of several with the same name only the one from the nearest source is returned.
    """
    best: dict[str, tuple[float, float, int, Skill]] = {}
    for place, match in enumerate(matches):
        skill, boost = match.document, 0.0
        if has_tag(skill, tags):
            boost += FRAME_BOOST
        if task_type not in (None, TaskType.UNKNOWN) and skill.task_type is task_type:
            boost += TYPE_BOOST
        # Where the bound makes scores equal, skills that belong to the task still come first.
        weighed = (-min(match.score + boost, 1.0), -boost, place, skill)
        known = best.get(skill.name)
        if known is None:
            best[skill.name] = weighed
        elif _distance(skill.source) < _distance(known[3].source):
            best[skill.name] = (*min(known[:3], weighed[:3]), skill)
    return [skill for *_, skill in sorted(best.values(), key=lambda each: each[:3])]
