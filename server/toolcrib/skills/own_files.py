"""Resolves a path, however it is written, to a file of a skill, and words the error if there is none.

Knows paths and URIs as texts; never knows whether the file exists, or its content.
"""

from collections.abc import Sequence
from difflib import get_close_matches

from toolcrib.base.errors import UnknownSkill
from toolcrib.base.model import Skill
from toolcrib.base.text import one_line, truncate
from toolcrib.skills.identity import SKILL_FILE, parse_uri

_NEAR_MAX = 5
_LIKENESS = 0.5
_SHOWN_MAX = 200


def path_in_skill(skill: Skill, written: str, base: str) -> str:
    """Return the path in the skill that ``written`` refers to.

    A path may begin with ``./`` and end with a link's fragment; a ``skill://`` URI of the skill and a path below
    ``base``, its folder if that may be shown, refer to its files too. Anything else is returned unchanged.
    """
    path = written.strip()
    if "://" in path:
        return _of_uri(skill, path)
    if base and path.startswith(f"{base}/"):
        path = path[len(base) + 1 :]
    while path.startswith("./"):
        path = path[2:]
    return path.partition("#")[0] or path


def _of_uri(skill: Skill, uri: str) -> str:
    segments = parse_uri(uri.partition("#")[0])
    own = (skill.source, *skill.folder.split("/")) if skill.folder else (skill.source,)
    if segments is None or segments[: len(own)] != own:
        return uri
    return "/".join(segments[len(own) :]) or SKILL_FILE


def missing_file(written: str, files: Sequence[str]) -> UnknownSkill:
    """Return the error for a file that a skill does not have; it suggests similar ones of ``files``."""
    name = written.rstrip("/").rpartition("/")[2]
    alike = [path for path in files if path.rpartition("/")[2].lower() == name.lower()]
    below = [path for path in files if path.startswith(f"{written.strip('/')}/")]
    close = get_close_matches(written, files, n=_NEAR_MAX, cutoff=_LIKENESS)
    near = list(dict.fromkeys((*alike, *below, *close)))[:_NEAR_MAX]
    said = truncate(one_line(written), _SHOWN_MAX)
    if near:
        return UnknownSkill(f"{said}. Did you mean: {', '.join(near)}")
    some = ", ".join(files[:_NEAR_MAX])
    return UnknownSkill(f"{said}. Its files: {some}" + (", …" if len(files) > _NEAR_MAX else "") if some else said)
