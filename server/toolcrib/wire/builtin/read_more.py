"""``read_more``: what a model reads of it, and its arguments.

Knows the words that a model reads; never knows how a result was cut or where its rest is kept.
"""

from typing import Annotated, ClassVar, Self

from pydantic import Strict

from toolcrib.base.model import READ_MORE, JsonObject
from toolcrib.gateway.results import LongResults
from toolcrib.policy.sessions import Session
from toolcrib.wire.builtin.schemas import COUNT, TEXT
from toolcrib.wire.builtin.tool import READ_ONLY, Arguments, BuiltinParts, BuiltinTool, CallMaker


class ReadMoreArguments(Arguments):
    """The arguments of ``read_more``."""

    handle: Annotated[str, Strict()]
    page: Annotated[int, Strict()] | None = None


_DEFINITION: JsonObject = {
    "title": "Read the rest of a result",
    "description": 'Read the next page of a result that was cut.\nExamples:\n- args: {"handle":"as given","page":2}',
    "inputSchema": {
        "type": "object",
        "properties": {
            "handle": TEXT,
            "page": COUNT,
        },
        "required": ["handle"],
    },
    **READ_ONLY,
}


class ReadMore(BuiltinTool[ReadMoreArguments]):
    """Reads the pages of a result after the first; listed only in sessions for which a result was kept (ADR 25)."""

    name: ClassVar[str] = READ_MORE
    arguments = ReadMoreArguments
    definition = _DEFINITION

    def __init__(self, long_results: LongResults) -> None:
        self._long_results = long_results

    def shown_to(self, session: Session) -> JsonObject | None:
        """Return the definition if the session has pages to read."""
        return self.definition if session.reads_more else None

    @classmethod
    def offered_by(cls, parts: BuiltinParts) -> Self:
        """Return the tool regardless of the config: any result may be too large."""
        return cls(parts.tool_use_cases.long_results)

    async def run(self, session: Session, given: ReadMoreArguments, _call: CallMaker) -> JsonObject:
        """Return the page that the arguments request."""
        return await self._long_results.page(session, given.handle, given.page)
