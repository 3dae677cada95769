"""One tool that a search has found, as a program gets it."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from toolcrib.base.model import JsonObject, SearchType
from toolcrib.base.text import words
from toolcrib.search.confidence import Confidence
from toolcrib.search.english import stem
from toolcrib.search.query import parsed, plain


@dataclass(frozen=True, slots=True)
class ToolHit:
    """One tool that a search has found.

    ``server`` is the name of the server that has it, empty if it has none. ``description`` is about the first sentence
    of its description, ``signature`` its parameters on one line. ``score``, from 0 to 1, orders the hits of one search
    and means nothing across searches.

    ``confidence`` is comparable: the first hit is ``high`` if it is very likely the one that was asked for, ``low`` if
    it may be, ``none`` if nothing fits; every other hit is at most ``low``. ``why`` names what of the query it has.

    ``definition`` is the whole definition, as ``tools/list`` would have it (``name``, ``description``,
    ``inputSchema``, …). ``tool`` is what the definition was made of, such as a function or an SDK ``Tool``; None if
    that is not in this process.

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

    def __repr__(self) -> str:
        """Return what a person wants to see of it: not the whole definition."""
        shown = self.signature or self.name
        return f"ToolHit({shown}, score={self.score}, confidence={self.confidence!r}, why={self.why!r})"


class Reasons:
    """Says of the hits of one query why they were found."""

    def __init__(self, query: str) -> None:
        self._asked = {stem(word): word for word in parsed(query).terms or plain(query).terms if not _is_letter(word)}

    def of(self, match_type: str, parts: Iterable[tuple[str, Collection[str]]]) -> str:
        """Return why a tool was found, given the stems of its parts (:func:`stems_of`) with what each of them is."""
        if match_type != SearchType.FTS:
            return _OF_OTHERS[match_type]
        rest, said = dict(self._asked), list[str]()
        for what, stems in parts:
            found = [rest.pop(each) for each in self._asked if each in rest and each in stems]
            if found:
                said.append(f"{what}: {', '.join(found)}")
        return "; ".join(said) or "other words for the same thing"


def _is_letter(word: str) -> bool:
    return len(word) == 1 and word.isascii()  # of "what's"


_OF_OTHERS: Mapping[str, str] = MappingProxyType(
    {SearchType.EXACT: "the query is its name", SearchType.REGEX: "the pattern matches"}
)


def stems_of(text: str) -> frozenset[str]:
    """Return the stems of a text, as searches compare them."""
    return frozenset(map(stem, words(text)))
