"""Instructions of servers: searched as words about their tools, and shown once a session as what a server says.

See R290 and ADR 68.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from toolcrib.base.model import Tool
from toolcrib.base.text import one_line, truncate, words
from toolcrib.catalog.denied_names import NameMasker
from toolcrib.search.english import stem
from toolcrib.search.ranking import Context

SERVER_TOKENS = 120
"""Maximum tokens that the instructions of one server take of an answer."""

_READ_MAX = 2000
"""Characters that are read for what is shown: several times as many."""

_TOKEN = 4
"""Bytes of a token, as an estimate that holds for other scripts too."""

_NEVER_SAID = str.maketrans('"<>[]', "'()()")
"""A server cannot end the quotation that its words stand in, and writes neither tags nor our notices in brackets."""


@dataclass(frozen=True, slots=True)
class Introduction:
    """What a server says of itself, as shown to a model: on one line, cleaned and shortened."""

    server: str
    text: str

    @property
    def as_line(self) -> str:
        """Return it for a model, as the words of the server and of nobody else."""
        return f'Server {self.server} says of itself: "{self.text}"'

    @property
    def tokens(self) -> int:
        """The estimated number of tokens of the line."""
        return -(-len(self.as_line.encode("utf-8", "replace")) // _TOKEN)


def words_about(instructions: Mapping[str, str], tools: Sequence[Tool], masker: NameMasker) -> Context | None:
    """Return the words of servers about themselves, for a caller who may use ``tools``; None if there are none.

    Servers without one of these tools do not count, nor do names of tools that are denied to the caller.
    """
    members: defaultdict[str, list[int]] = defaultdict(list)
    for number, tool in enumerate(tools):
        if tool.server in instructions:
            members[tool.server].append(number)
    if not members:
        return None
    told = {server: masker.clean(instructions[server])[0] for server in members}
    stems = {server: frozenset(map(stem, words(text))) for server, text in told.items()}
    return Context(stems, members, lambda number: tools[number].server)


def read(servers: Iterable[str], masker: NameMasker) -> tuple[Introduction, ...]:
    """Return what those of some servers that tell anything say of themselves, as a caller may read it."""
    instructions = masker.catalog.instructions
    told = (server for server in dict.fromkeys(servers) if server in instructions)
    return tuple(_fitting(server, masker.clean(_beginning(instructions[server]))[0]) for server in told)


def _beginning(text: str) -> str:
    # Whole words only: of a denied name, a part would not be recognized.
    return text if len(text) <= _READ_MAX else text[:_READ_MAX].rpartition(" ")[0]


def _fitting(server: str, text: str) -> Introduction:
    plain = one_line(text.translate(_NEVER_SAID))
    most = min(len(plain), SERVER_TOKENS * _TOKEN)
    while Introduction(server, truncate(plain, most)).tokens > SERVER_TOKENS:
        most -= max(1, most // 16)
    return Introduction(server, truncate(plain, most))
