"""Requests that a command of the person wrote for tools: stored by definition, searched at low weight (ADR 61)."""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Never

import anyio
import anyio.to_thread

from toolcrib.base.errors import StoreError
from toolcrib.base.redaction import Redactor
from toolcrib.base.text import one_line, sanitize, truncate
from toolcrib.catalog.snapshot import Catalog
from toolcrib.policy.state import StoredRequests, WrittenRequests
from toolcrib.search.english import stem
from toolcrib.search.learned_words import learnable

REQUESTS_MAX = 10
"""Maximum number of requests of one tool; more would dilute what each says."""

_REQUEST_MAX = 200
"""Maximum length of a request in characters."""

_LOOK_EVERY_S = 0.25
"""Minimum interval between checks for what another process has stored, in seconds."""

_log = logging.getLogger(__name__)

TaughtWords = Mapping[str, Mapping[str, float]]
"""By word (a stem), then by the public name of a tool: how surely it means the tool, above 0 and below 1."""

NO_WORDS: TaughtWords = {}


def cleaned(text: str, redactor: Redactor) -> tuple[str, ...]:
    """Return the first requests in the output of a command: one a line, safe to store, without secrets, each once.

    Marks of a list before a request are removed: a model is asked for lines and likes to number them.
    """
    lines = (one_line(sanitize(line)).lstrip("-*•0123456789.) \t").strip("\"'` ") for line in text.splitlines())
    requests = (truncate(redactor.redact(line), _REQUEST_MAX) for line in lines if line)
    return tuple(dict.fromkeys(requests))[:REQUESTS_MAX]


@dataclass(frozen=True, slots=True)
class _Known:
    """The words of one tool's requests, for the definition with this fingerprint."""

    server: str
    tool: str
    fingerprint: str
    sureness: Mapping[str, float]


class OwnWords:
    """The words of stored requests, for those tools whose definition is still the same. Safe to use from one loop."""

    def __init__(self, stored: StoredRequests) -> None:
        self._stored = stored
        self._known: tuple[_Known, ...] = ()
        self._version: tuple[int, object] | None = None
        self._of_catalog: tuple[Catalog, TaughtWords] | None = None
        self._work = anyio.Event()

    def open(self) -> None:
        """Read what is stored. Blocks."""
        self._known = self._read() or ()

    def words(self, catalog: Catalog) -> TaughtWords:
        """Return the words for the tools of a catalog."""
        self._work.set()  # another process may have stored or removed some
        if not self._known:
            return NO_WORDS
        if self._of_catalog is None or self._of_catalog[0] is not catalog:
            self._of_catalog = catalog, _by_word(self._known, catalog)
        return self._of_catalog[1]

    async def keep(self) -> Never:
        """Read what other processes store, soon after a search."""
        while True:
            await self._work.wait()
            self._work = anyio.Event()
            known = await anyio.to_thread.run_sync(self._read)
            if known is not None:
                self._known, self._of_catalog = known, None
            await anyio.sleep(_LOOK_EVERY_S)

    def _read(self) -> tuple[_Known, ...] | None:
        """Return the words of all requests if they have changed since the last time, else None. Blocks."""
        try:
            version = self._stored.version()
            if version == self._version:
                return None
            known = tuple(map(_known, self._stored.all()))
        except StoreError as error:  # the next attempt reads it
            _log.warning("the requests written for tools could not be read: %s %s", error, error.detail)
            return None
        self._version = version
        return known


def _known(written: WrittenRequests) -> _Known:
    # Ordinary words only: what looks like an identifier may name a tool that a caller may not know of.
    counts = Counter(word for request in written.requests for word in learnable(request, stem))
    sureness = {word: count / (1 + count) for word, count in counts.items()}
    return _Known(written.server, written.tool, written.fingerprint, sureness)


def _by_word(known: Iterable[_Known], catalog: Catalog) -> TaughtWords:
    named = {(tool.server, tool.name): tool for tool in catalog.tools}
    words: dict[str, dict[str, float]] = {}
    for each in known:
        tool = named.get((each.server, each.tool))
        if tool is not None and tool.fingerprint == each.fingerprint:
            for word, sure in each.sureness.items():
                words.setdefault(word, {})[tool.public_name] = sure
    return words
