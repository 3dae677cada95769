"""One tool that a search has found, as a program gets it."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from toolcrib.base.model import JsonObject, SearchType
from toolcrib.base.text import STOP_WORDS, words
from toolcrib.search.confidence import Confidence
from toolcrib.search.english import stem


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
        """Take the words of a query; what a hit has of them does not depend on other hits."""
        every = words(query)
        self._asked = {stem(word): word for word in every if word not in STOP_WORDS} or {
            stem(word): word for word in every
        }

    def of(self, match_type: SearchType, texts: Iterable[tuple[str, str]]) -> str:
        """Return why a tool was found, given its ``texts`` with what each of them is."""
        if match_type is SearchType.EXACT:
            return "the query is its name"
        if match_type is SearchType.REGEX:
            return "the pattern matches"
        open_stems, parts = dict(self._asked), list[str]()
        for what, text in texts:
            found = sorted({open_stems.pop(each) for each in map(stem, words(text)) if each in open_stems})
            if found:
                parts.append(f"{what}: {', '.join(found)}")
        return "; ".join(parts) or "other words for the same thing"
