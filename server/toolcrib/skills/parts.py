"""What the use cases of skills work with.

Knows which parts there are; never knows what is done with them.
"""

from dataclasses import dataclass

from toolcrib.config.settings import Settings
from toolcrib.events.log import EventLog
from toolcrib.skills.catalog import SkillCatalog
from toolcrib.skills.search import SkillSearcher
from toolcrib.skills.standing import Standing
from toolcrib.tools.confirming import Confirmations
from toolcrib.tools.gate import Gate
from toolcrib.tools.indexing import Indexer


@dataclass(frozen=True, slots=True)
class SkillUseCaseParts:
    """What the use cases work with; put together by the composition root. ``deadline`` is on anyio's clock.

    ``is_local``: nobody asks but the one client of this process, on this machine.
    """

    settings: Settings
    catalog: SkillCatalog
    searcher: SkillSearcher
    standing: Standing
    gate: Gate
    indexer: Indexer
    events: EventLog
    confirmations: Confirmations
    deadline: float
    is_local: bool
