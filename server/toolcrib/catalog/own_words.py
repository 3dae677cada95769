"""Requests that a command of the person wrote for tools: stored by definition, searched as ways of asking (ADR 61)."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from types import MappingProxyType
from typing import Never

import anyio
import anyio.to_thread

from toolcrib.base.errors import StoreError
from toolcrib.base.redaction import Redactor
from toolcrib.base.signals import ChangeSignal
from toolcrib.base.text import one_line, sanitize, search_text, truncate
from toolcrib.policy.state import StoredRequests
from toolcrib.search.postings import Version

REQUESTS_MAX = 10
"""Maximum number of requests of one tool; more would dilute what each says."""

_REQUEST_MAX = 200
"""Maximum length of a request in characters."""

_LOOK_EVERY_S = 0.25
"""Minimum interval between checks for what another process has stored, in seconds."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Asking:
    """The words of the requests for one tool, separated by spaces, and what identifies them."""

    words: str
    digest: str


AskingByTool = Mapping[Version, Asking]
"""By the fingerprint of a tool: a tool whose definition has changed has none."""

NO_ASKING: AskingByTool = MappingProxyType({})


def cleaned(text: str, redactor: Redactor) -> tuple[str, ...]:
    """Return the first requests in the output of a command: one a line, safe to store, without secrets, each once.

    Marks of a list before a request are removed: a model is asked for lines and likes to number them.
    """
    lines = (one_line(sanitize(line)).lstrip("-*•0123456789.) \t").strip("\"'` ") for line in text.splitlines())
    requests = (truncate(redactor.redact(line), _REQUEST_MAX) for line in lines if line)
    return tuple(dict.fromkeys(requests))[:REQUESTS_MAX]


class OwnWords:
    """The words of all stored requests, as of the last look. :meth:`current` may be called from any thread."""

    def __init__(self, stored: StoredRequests) -> None:
        self._stored = stored
        self._known = NO_ASKING
        self._version: tuple[int, object] | None = None
        self._look_wanted = ChangeSignal()

    def open(self) -> None:
        """Read what is stored, unless it is known. Blocks."""
        try:
            version = self._stored.version()
            if version == self._version:
                return
            known = {each.fingerprint: _asking(each.requests) for each in self._stored.all()}
        except StoreError as error:  # the next attempt reads it
            _log.warning("the requests written for tools could not be read: %s %s", error, error.detail)
            return
        self._version = version
        # Many a change of the file is of something else, and must not have all words of tools indexed again.
        if known != self._known:
            self._known = MappingProxyType(known)

    def current(self) -> AskingByTool:
        """Return the words by tool: the same value until another process has stored or removed some."""
        return self._known

    def look(self) -> None:
        """Have :meth:`keep` look whether another process has stored or removed some."""
        self._look_wanted.event.set()

    async def keep(self) -> Never:
        """Read what other processes have stored, where a look is wanted."""
        while True:
            await self._look_wanted.wait()
            await anyio.to_thread.run_sync(self.open)
            await anyio.sleep(_LOOK_EVERY_S)


def _asking(requests: tuple[str, ...]) -> Asking:
    words = search_text("\n".join(requests))
    return Asking(words, sha256(words.encode("utf-8", "surrogatepass")).hexdigest()[:16])
