"""The parts that the use cases of skills depend on, and the context they are served in.

Knows which parts there are; never knows what is done with them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from toolcrib.catalog.gate import Gate
from toolcrib.catalog.indexing import Indexer
from toolcrib.catalog.wording import Wordings
from toolcrib.config.settings import Settings
from toolcrib.events.log import EventLog
from toolcrib.policy.confirmations import Confirmations
from toolcrib.policy.sessions import Session
from toolcrib.skills.catalog import SkillCatalog
from toolcrib.skills.search import SkillSearcher
from toolcrib.skills.standing import Standing


@dataclass(frozen=True, slots=True)
class AroundSkills:
    """The environment of skills. Until ``deadline``, on anyio's clock, requests wait for the first scan.

    ``is_local``: the only caller is the client of this process, on this machine. ``has_failed`` returns whether a
    server has failed. ``keep`` makes a session's active skills outlive the request, where nothing else does.
    """

    deadline: float
    is_local: bool = True
    has_failed: Callable[[str], bool] = lambda _server: False
    keep: Callable[[Session], None] = lambda _session: None


@dataclass(frozen=True, slots=True)
class SkillUseCaseParts:
    """The dependencies of the use cases; assembled by the composition root."""

    settings: Settings
    catalog: SkillCatalog
    searcher: SkillSearcher
    standing: Standing
    gate: Gate
    indexer: Indexer
    wordings: Wordings
    events: EventLog
    confirmations: Confirmations
    around: AroundSkills
