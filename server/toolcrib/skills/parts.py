"""What the use cases of skills are made of, and in what they are served.

Knows which parts there are; never knows what is done with them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from toolcrib.access.sessions import Session
from toolcrib.config.settings import Settings
from toolcrib.events.log import EventLog
from toolcrib.skills.catalog import SkillCatalog
from toolcrib.skills.search import SkillSearcher
from toolcrib.skills.standing import Standing
from toolcrib.tools.confirming import Confirmations
from toolcrib.tools.gate import Gate
from toolcrib.tools.indexing import Indexer
from toolcrib.tools.wording import Wordings


@dataclass(frozen=True, slots=True)
class AroundSkills:
    """In what skills are served. Until ``deadline``, on anyio's clock, questions wait for a first scan.

    ``is_local``: nobody asks but the one client of this process, on this machine. ``has_failed`` tells of a server.
    ``keep`` has what is active for a session outlive the request, where nothing else does.
    """

    deadline: float
    is_local: bool = True
    has_failed: Callable[[str], bool] = lambda _server: False
    keep: Callable[[Session], None] = lambda _session: None


@dataclass(frozen=True, slots=True)
class SkillUseCaseParts:
    """What the use cases work with; put together by the composition root."""

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
