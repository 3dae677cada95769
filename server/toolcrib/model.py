"""The frozen values that travel between the layers.

Knows what a tool, an example and a caller are; never knows a protocol, a file or a database.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

JsonObject = dict[str, Any]
"""A JSON object as it came from the wire, not looked into yet."""


class LoadingMode(StrEnum):
    """Whether a tool is listed from the start or only once activated (R16)."""

    ALWAYS = "always"
    DEFERRED = "deferred"


class SideEffects(StrEnum):
    """What calling a tool does to the world, mildest first: the order breaks ties in search (R54)."""

    PURE = "pure"
    READ = "read"
    WRITE = "write"
    EXTERNAL = "external"
    STATEFUL = "stateful"


SIDE_EFFECTS_ORDER = {effect: rank for rank, effect in enumerate(SideEffects)}
"""Rank of each side effect in the tie-break; a tool without one ranks ``len(SIDE_EFFECTS_ORDER)``."""


class SearchType(StrEnum):
    """How a query is read (R48)."""

    FTS = "fts"
    REGEX = "regex"
    EXACT = "exact"


@dataclass(frozen=True, slots=True)
class Example:
    """One way to call a tool (R85). ``tags`` may hold ``minimal``, ``common`` or ``edge-case``."""

    args: Mapping[str, Any]
    description: str = ""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tool:
    """A downstream tool as the catalog holds it in memory: identity and gate facts, without the definition.

    ``row`` is its row in the index. ``fingerprint`` is the hash of its whole record (R46).
    """

    row: int
    server: str
    name: str
    public_name: str
    loading_mode: LoadingMode
    side_effects: SideEffects | None
    read_only: bool
    fingerprint: str


@dataclass(frozen=True, slots=True)
class ToolRecord:
    """All that the index keeps of one tool; what :mod:`toolcrib.ingest` makes of a downstream's definition.

    ``definition`` is the downstream's own, repaired where it had to be, with its own name.
    ``summary`` is the first sentence of the description, ``body`` the rest. The ``*_text`` fields are
    search text only: split identifiers, without the parameters that most tools of a server share.
    """

    server: str
    name: str
    public_name: str
    loading_mode: LoadingMode
    side_effects: SideEffects | None
    read_only: bool
    definition: JsonObject
    tags: tuple[str, ...]
    examples: tuple[Example, ...]
    signature: str
    summary: str
    body: str
    name_text: str
    params_text: str
    params_description_text: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A tool of a downstream that cannot be offered, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Ingest:
    """One downstream's whole list, ready for the index."""

    server: str
    records: tuple[ToolRecord, ...]
    refused: tuple[Refused, ...]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is asking. Comes from the transport and the config, never from an argument (R145)."""

    principal: str = "local"
    tenant_id: str | None = None
    project_id: str | None = None
    profile: str | None = None
