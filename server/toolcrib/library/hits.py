"""One tool that a search has found, as a program gets it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from toolcrib.base.json_values import copied
from toolcrib.base.model import JsonObject, SearchType, Tool
from toolcrib.search.confidence import Confidence
from toolcrib.search.english import stem
from toolcrib.search.query import parsed, plain

if TYPE_CHECKING:
    from toolcrib.catalog.tool_search import Shown
    from toolcrib.search.postings import Text


@dataclass(frozen=True, slots=True)
class ToolHit:
    """One tool that a search has found.

    ``server`` is the name of the server that has it, empty if it has none. ``description`` is about the first sentence
    of its description, ``signature`` its parameters on one line. ``score``, from 0 to 1, orders the hits of one search
    and means nothing across searches.

    ``confidence`` is comparable: the first hit is ``high`` if it is very likely the one that was asked for, ``low`` if
    it may be, ``none`` if nothing fits; every other hit is at most ``low``. ``why`` names what of the query it has.

    ``definition`` is the whole definition, as ``tools/list`` would have it (``name``, ``description``,
    ``inputSchema``, …), a copy of what is searched. ``tool`` is what the definition was made of, such as a function or
    an SDK ``Tool``; None if that is not in this process.

    >>> hit = ToolHit("send", signature="send(to, text)", score=1.0, confidence="high", why="name: send")
    >>> hit
    ToolHit(send(to, text), score=1.0, confidence='high', why='name: send')
    """

    name: str
    server: str = ""
    description: str = ""
    signature: str = ""
    score: float = 0.0
    confidence: Confidence = "none"
    why: str = ""
    definition: JsonObject = field(default_factory=dict[str, object])
    tool: object = None

    def __hash__(self) -> int:
        """Return the hash of what can have one."""
        return hash((self.name, self.server, self.score, self.why))

    def __repr__(self) -> str:
        """Return what a person wants to see of it: not the whole definition."""
        shown = self.signature or self.name
        return f"ToolHit({shown}, score={self.score}, confidence={self.confidence!r}, why={self.why!r})"


def tool_hit(
    tool: Tool, shown: "Shown", score: float, confidence: Confidence, why: str, definition: JsonObject, given: object
) -> ToolHit:
    """Return a tool that was found as a hit; ``definition`` is its server's, ``given`` what that was made of."""
    name = tool.public_name
    signature, own = shown.signature or name, {**copied(definition), "name": name}
    return ToolHit(name, tool.server, shown.description, signature, score, confidence, why, own, given)


def confidences(of_answer: Confidence) -> Iterator[Confidence]:
    """Yield the confidence of each hit of an answer: only of the first one it is known how likely it is right."""
    yield of_answer
    while True:
        yield "none" if of_answer == "none" else "low"


PARTS = ("name", "description", "description", "parameters", "parameters", "server", "tags", "asked as", "parameters")
"""What a person calls each of the fields that are ranked (:data:`~toolcrib.catalog.views.FIELDS`)."""


class Reasons:
    """Says of the hits of one query why they were found."""

    def __init__(self, query: str) -> None:
        self._asked = [(stem(word), word) for word in parsed(query).terms or plain(query).terms if not _is_letter(word)]

    def of(self, match_type: str, part_with: Callable[[str], str]) -> str:
        """Return why a tool was found. ``part_with`` names the part of it with a stem; empty if none has it."""
        if match_type != SearchType.FTS:
            return _OF_OTHERS[match_type]
        said: dict[str, list[str]] = {}
        for each, word in self._asked:
            if part := part_with(each):
                said.setdefault(part, []).append(word)
        told = [f"{part}: {', '.join(found)}" for part, found in said.items()]
        return "; ".join(told) or "other words for the same thing"


def _is_letter(word: str) -> bool:
    return len(word) == 1 and word.isascii()  # of "what's"


_OF_OTHERS: Mapping[str, str] = MappingProxyType(
    {SearchType.EXACT: "the query is its name", SearchType.REGEX: "the pattern matches"}
)


def part_with(texts: "Iterable[Text]") -> Callable[[str], str]:
    """Return what names the first part of a tool that has a stem; ``texts`` are its fields as they are ranked."""
    stems = [frozenset(map(stem, text.split())) if isinstance(text, str) else text for text in texts]
    return lambda each: next((part for part, found in zip(PARTS, stems, strict=False) if each in found), "")
