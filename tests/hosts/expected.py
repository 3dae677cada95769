"""What each host is expected to do with toolcrib, as seen of the versions in .ci/hosts.txt, and what toolcrib does.

``TODAY`` is toolcrib's side of it at its defaults: whoever changes a default changes it here, and the rest of the table
holds. ``EVERYTHING`` is a toolcrib that spares a host nothing: what hosts do then is what toolcrib's own table has.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Form = Literal["text", "structured"]
Way = Literal["read", "call", "own name"]


@dataclass(frozen=True, slots=True)
class Toolcrib:
    """What toolcrib does that a host makes something of."""

    config: Mapping[str, Any]
    """The section of the config with which it does that."""
    structured: bool
    """Whether the hosts of this table are sent structured content besides the text."""
    grows: bool
    """Whether a used tool is listed also where that changes the head of the model's prompt."""


TODAY = Toolcrib(config={}, structured=False, grows=False)
EVERYTHING = Toolcrib(
    config={"results": {"structured": "always"}, "gate": {"listing": "dynamic"}}, structured=True, grows=True
)


@dataclass(frozen=True, slots=True)
class Expected:
    """What a host does.

    ``reaches`` is what stands before the model when it is first asked: definitions of our tools, their names, or just
    the name of the server. ``shows`` is which forms of a result the model gets where both are there, ``wrap`` how many
    characters there may be around them. ``unasked`` are the ways to call a read-only tool that run at the host's
    defaults, ``approved`` those that run with the line of docs/clients.md, where there is one; ``judged`` says that
    the host asks its model about each call, which here always allows it. ``follows`` says what becomes of a tool that
    is newly listed: it changes the head of the prompt, comes later in the prompt, or nothing. ``own_search`` says that
    the model has to find our tools by a search of the host's own.
    """

    reaches: Literal["tools", "names", "server"]
    instructions: Literal["whole", "first line", "none"]
    shows: frozenset[Form]
    wrap: int
    unasked: frozenset[Way]
    follows: Literal["head", "later", "never"]
    approved: frozenset[Way] | None = None
    judged: bool = False
    own_search: bool = False

    def forms(self, toolcrib: Toolcrib) -> frozenset[Form]:
        """Return the forms in which the model is to see an answer."""
        return self.shows if toolcrib.structured else frozenset({"text"})

    def head_changes(self, toolcrib: Toolcrib) -> bool:
        """Return whether the use of a tool is to change the head of the prompt."""
        return self.follows == "head" and toolcrib.grows

    def own_name(self, toolcrib: Toolcrib) -> bool:
        """Return whether a used tool is to be callable by its own name."""
        return self.follows == "later" or self.head_changes(toolcrib)


TEXT: frozenset[Form] = frozenset({"text"})
STRUCTURED: frozenset[Form] = frozenset({"structured"})
BOTH = TEXT | STRUCTURED
NOTHING: frozenset[Way] = frozenset()
READ: frozenset[Way] = frozenset({"read"})
ANY: frozenset[Way] = frozenset({"read", "call"})

EXPECTED: Mapping[str, Expected] = {
    "claude-code": Expected("tools", "whole", STRUCTURED, 0, NOTHING, "later", approved=ANY),
    "claude-code-always-load": Expected("tools", "whole", STRUCTURED, 0, NOTHING, "later", approved=ANY),
    "codex": Expected("server", "first line", BOTH, 200, READ, "never", approved=ANY, own_search=True),
    "codex-gpt-5.5": Expected("server", "first line", STRUCTURED, 40, READ, "never", own_search=True),
    "codex-gpt-4.1": Expected("tools", "whole", STRUCTURED, 40, READ, "never"),
    "gemini-cli": Expected("tools", "whole", TEXT, 41, NOTHING, "head", approved=READ),
    "opencode": Expected("tools", "whole", TEXT, 0, ANY, "head"),
    "copilot": Expected("tools", "none", BOTH, 10, READ, "head", approved=ANY),
    "qwen-code": Expected("names", "whole", BOTH, 10, ANY, "never", approved=ANY, judged=True, own_search=True),
    "cline": Expected("tools", "none", BOTH, 120, ANY, "never"),
    "continue": Expected("tools", "none", TEXT, 60, ANY, "never"),
}
"""By the names of ``launching.HOSTS``."""

LOSES_THE_WAY = frozenset({"codex-gpt-4.1"})
"""Hosts that cut so much out of a result that the way to its rest is lost: toolcrib cannot tell which model asks."""
