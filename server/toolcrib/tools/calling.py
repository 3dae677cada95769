"""A call of a tool as it came in, whichever door it came by.

Knows what goes on with a call; never knows what becomes of it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from toolcrib.downstream.askers import NOBODY, Asker, Progress
from toolcrib.model import JsonObject


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call as it came in; ``more`` is what goes on beside its name and arguments.

    ``announce`` tells the session that its list has grown, before the result is sent.
    """

    name: str
    arguments: object
    more: JsonObject
    on_progress: Progress | None
    announce: Callable[[], Awaitable[None]]
    asker: Asker = NOBODY
