"""What a program gets from a crib: frozen values that a person can read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from toolcrib.base.json_values import as_list, as_object
from toolcrib.base.model import JsonObject
from toolcrib.base.text import truncate
from toolcrib.library.hits import ToolHit
from toolcrib.search.confidence import Confidence

_SHOWN_MAX = 200


@dataclass(frozen=True, slots=True)
class SearchResult(Sequence[ToolHit]):
    """The hits of a search, the best first: a sequence of :class:`ToolHit`.

    ``confidence`` says how likely the first one is right, ``note`` why there are no more, or what was not searched.

    >>> SearchResult((ToolHit("time__now", signature="time__now(zone)", confidence="high"),), confidence="high")
    SearchResult([time__now], confidence='high')
    """

    hits: tuple[ToolHit, ...] = ()
    confidence: Confidence = "none"
    note: str = ""

    def __len__(self) -> int:
        """Return the number of hits."""
        return len(self.hits)

    @overload
    def __getitem__(self, index: int) -> ToolHit: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[ToolHit, ...]: ...
    def __getitem__(self, index: int | slice) -> ToolHit | tuple[ToolHit, ...]:
        """Return a hit, or several."""
        return self.hits[index]

    def __iter__(self) -> Iterator[ToolHit]:
        """Iterate over the hits."""
        return iter(self.hits)

    def __repr__(self) -> str:
        """Return the names of the hits, and what is said of all of them."""
        names = ", ".join(hit.name for hit in self.hits)
        note = f", note={self.note!r}" if self.note else ""
        return f"SearchResult([{names}], confidence={self.confidence!r}{note})"


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of a call, as its server sent it.

    ``content`` are the blocks of ``tools/call`` (MCP, Tools), ``structured`` is its structured content, None if there
    is none. ``is_error``: the tool says that it failed, and its text why. ``meta`` is ``_meta``.

    >>> CallResult(({"type": "text", "text": "12:00"},))
    CallResult('12:00')
    """

    content: tuple[JsonObject, ...] = ()
    structured: Any = None
    is_error: bool = False
    meta: JsonObject = field(default_factory=dict[str, Any])

    @classmethod
    def of(cls, result: JsonObject) -> "CallResult":
        """Return it for a raw result."""
        blocks = tuple(as_object(block) for block in as_list(result.get("content")))
        is_error = result.get("isError") is True
        return cls(blocks, result.get("structuredContent"), is_error, as_object(result.get("_meta")))

    @property
    def text(self) -> str:
        """All texts of the content, one below the other."""
        return "\n".join(str(block["text"]) for block in self.content if block.get("type") == "text")

    @property
    def value(self) -> Any:
        """The structured content if there is any, else the text."""
        return self.text if self.structured is None else self.structured

    def __hash__(self) -> int:
        """Return the hash of what can have one: equal results have equal texts."""
        return hash((self.text, self.is_error))

    def __repr__(self) -> str:
        """Return the beginning of its text."""
        others = ", ".join(str(block.get("type")) for block in self.content if block.get("type") != "text")
        parts = [repr(truncate(self.text, _SHOWN_MAX)), *([others] if others else [])]
        return f"CallResult({', '.join(parts)}{', is_error=True' if self.is_error else ''})"


@dataclass(frozen=True, slots=True)
class ToolInfo:
    """A tool that the caller may use.

    ``definition`` is what ``tools/list`` would have, by the name under which it is called here. ``read_only``: its
    server declares that it changes nothing.

    >>> ToolInfo("time__now", "time", "What time it is.", read_only=True)
    ToolInfo('time__now', read only)
    """

    name: str
    server: str
    description: str = ""
    read_only: bool = False
    definition: JsonObject = field(default_factory=dict[str, Any], hash=False)

    @property
    def input_schema(self) -> JsonObject:
        """The JSON schema of its arguments."""
        return as_object(self.definition.get("inputSchema"))

    def __repr__(self) -> str:
        """Return its name."""
        return f"ToolInfo({self.name!r}{', read only' if self.read_only else ''})"
