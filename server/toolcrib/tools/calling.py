"""A call of a tool as it was received, through whichever entry point.

Knows what belongs to a call; never knows how it is handled.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from toolcrib.base.model import JsonObject
from toolcrib.policy.asking import NOBODY, Asker, Progress


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call as received; ``more`` is forwarded besides its name and arguments.

    ``announce`` notifies the session that its list has grown, before the result is sent.
    """

    name: str
    arguments: object
    more: JsonObject
    on_progress: Progress | None
    announce: Callable[[], Awaitable[None]]
    asker: Asker = NOBODY
