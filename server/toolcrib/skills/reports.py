"""Which problems of skill files are shown to whom: files not loaded, and skills left out.

Knows which problems agents see and which only the person sees; never knows how they were found.
"""

from typing import TYPE_CHECKING

from toolcrib.base.model import Caller, SkillProblem
from toolcrib.skills.catalog import SkillCatalog
from toolcrib.skills.index.changes import LEARNED_KEPT
from toolcrib.skills.requests import LoadError
from toolcrib.skills.sources.walking import LIMITS_MET

if TYPE_CHECKING:
    from toolcrib.skills.text.cleaning import Cleaner

ERRORS_MAX = 20
"""Maximum number of files that could not be loaded, named in one answer."""


def told_to_agents(catalog: SkillCatalog, caller: Caller, cleaner: "Cleaner") -> list[LoadError]:
    """Return every file of the caller's roots that could not be loaded, and every limit that omits some."""
    return [
        _told(source, problem, cleaner)
        for source, problem in catalog.reports(caller)
        if problem.level == "error" or problem.code in LIMITS_MET
    ]


def told_to_person(catalog: SkillCatalog, caller: Caller, cleaner: "Cleaner") -> list[LoadError]:
    """Return what agents get, plus problems of skills that they may not know of (R113)."""
    return [
        _told(source, problem, cleaner)
        for source, problem in catalog.reports(caller, hidden=True)
        if problem.level == "error" or problem.code in (*LIMITS_MET, LEARNED_KEPT)
    ]


def _told(source: str, problem: SkillProblem, cleaner: "Cleaner") -> LoadError:
    return LoadError(source, cleaner.text(problem.path), cleaner.text(problem.message), problem.line)
