"""Learns what the texts of results hold, from the calls that are made anyway, for later sessions (ADR 95)."""

import logging
import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Never

import anyio
import anyio.to_thread

from toolcrib.base.cache import Recent
from toolcrib.base.errors import StoreError
from toolcrib.base.json_values import as_list, as_object, compact, weight
from toolcrib.base.model import JsonObject, Tool
from toolcrib.base.signals import ChangeSignal
from toolcrib.catalog.index import ToolIndex
from toolcrib.catalog.outputs import TEXT, Output, output_of
from toolcrib.catalog.shapes import TextShape
from toolcrib.storage.store import Store

_WAITING_MAX = 16
"""Results that wait to be read; further ones are left out, since the next call shows the same."""
_LOOK_EVERY_S = 1.0
"""Minimum interval between two times that results are read, in seconds."""
_LEARNING_MAX = 100
"""Tools whose results are being compared, by identity; of others what is stored is read again."""
_ARGUMENTS_MAX, _ARGUMENTS_BYTES = 256, 16 * 1024
"""Calls of one tool whose arguments are remembered, and how large these may be; larger ones teach nothing."""
_TEXT_MAX, _BLOCKS_MAX = 256 * 1024, 100
"""Characters of a result that is read, and the blocks that these are in."""
_KNOWN_MAX, _STORED_MAX = 1000, 32 * 1024
"""Shapes that are known, beyond which those go that were learnt first, and characters of one."""
_VERSIONS_MAX = 4
"""What is said of one tool that sessions may still be told, since they began before it changed."""
_SETTLED = 64
"""What is said of a tool changes at most once in so many texts, once there were as many."""

_COLUMNS = "server, tool, whose, fingerprint, since, seen"
_ALL = f"SELECT {_COLUMNS} FROM shapes WHERE length(seen) <= ? ORDER BY since DESC LIMIT ?"  # noqa: S608 - own constant
_KEEP = f"INSERT OR REPLACE INTO shapes({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"  # noqa: S608 - own constant
_DROP_OLDEST = (
    "DELETE FROM shapes WHERE (server, tool, whose) NOT IN "
    "(SELECT server, tool, whose FROM shapes ORDER BY since DESC LIMIT ?)"
)

_log = logging.getLogger(__name__)

ShapeKey = tuple[str, str, str, str]
"""Whose texts: the server, the name of the tool there, its fingerprint, and the identity under which it was called."""


class KnownShape:
    """What the texts of a tool hold, as :class:`TextShape` writes it, since when, in seconds since the epoch.

    What an earlier process has learnt is older than any session, whatever its clock said.
    """

    def __init__(self, since: float, stored: str) -> None:
        self.since, self.stored = since, stored

    @cached_property
    def shown(self) -> str:
        """What is said of it."""
        # Only now, since a start reads many; and never stored, since it could be any text then.
        return TextShape(self.stored).shown


@dataclass(frozen=True, slots=True)
class _Result:
    """A result that waits to be read: of which call."""

    tool: Tool
    whose: str
    arguments: JsonObject
    text: str


class _Learning:
    """What is being learnt of one tool: its texts, and by which arguments they came."""

    def __init__(self, stored: str) -> None:
        self.shape = TextShape(stored)
        self.arguments = Recent[bytes, None](_ARGUMENTS_MAX)
        self._texts, self._next = 0, 1

    def is_due(self) -> bool:
        """Count one more text; return whether what is said may change by it.

        Less and less often, since what is now and then there would come and go with every text.
        """
        self._texts += 1
        if self._texts < self._next:
            return False
        self._next = self._texts + min(self._texts, _SETTLED)
        return True


class LearntShapes:
    """What the texts of tools hold; ``known`` has it by tool and identity, the latest last.

    ``clean`` replaces secrets and keys in a text; ``now`` returns seconds since the epoch. Unless ``is_enabled``,
    nothing is learnt.
    """

    def __init__(
        self,
        index: ToolIndex,
        store: Store,
        clean: Callable[[str], str],
        now: Callable[[], float],
        *,
        is_enabled: bool,
    ) -> None:
        self._index, self._store, self._clean, self._now = index, store, clean, now
        self._is_enabled = is_enabled
        self.known: Mapping[ShapeKey, tuple[KnownShape, ...]] = {}
        self._waiting = deque[_Result]()
        self._learning = Recent[ShapeKey, _Learning](_LEARNING_MAX)
        self._outputs = Recent[tuple[int, str], Output](_LEARNING_MAX)
        self._work = ChangeSignal()

    def open(self) -> None:
        """Read what is stored, if that can be. Blocks."""
        try:
            with self._store.read() as connection:
                rows = list(connection.execute(_ALL, (_STORED_MAX, _KNOWN_MAX)))
        except StoreError as error:  # a start does without it
            _log.warning("what results hold cannot be read: %s %s", error, error.detail)
            return
        self.known = {
            (server, tool, fingerprint, whose): (KnownShape(-math.inf, seen),)
            for server, tool, whose, fingerprint, _, seen in reversed(rows)
            if isinstance(seen, str)  # else somebody else has written it
        }

    @property
    def has_room(self) -> bool:
        """Whether another result is taken."""
        return self._is_enabled and len(self._waiting) < _WAITING_MAX

    def note(self, tool: Tool, whose: str, arguments: JsonObject, result: JsonObject) -> None:
        """Take the text of a result for reading soon, unless there are other blocks. Never waits; on the event loop."""
        text = _text_of(result)
        if text and weight(arguments, _ARGUMENTS_BYTES) <= _ARGUMENTS_BYTES:
            self._waiting.append(_Result(tool, whose, arguments, text))
            self._work.event.set()

    async def keep(self) -> Never:
        """Read results as they arrive, and store what they teach."""
        while True:
            await self._work.wait()
            await anyio.to_thread.run_sync(self.flush)
            await anyio.sleep(_LOOK_EVERY_S)

    def flush(self) -> None:
        """Read the results that wait. Blocks."""
        for _ in range(len(self._waiting)):  # and not those that come meanwhile
            try:
                self._learn(self._waiting.popleft())
            except StoreError as error:  # a later call tries again
                _log.warning("what results hold could not be kept: %s %s", error, error.detail)

    def _learn(self, came: _Result) -> None:
        tool = came.tool
        output = self._outputs.get((tool.row, tool.fingerprint), lambda: self._output(tool))
        if output.kinds != TEXT.kinds:
            return
        key = tool.server, tool.name, tool.fingerprint, came.whose
        known = self.known.get(key, ())
        learning = self._learning.get(key, lambda: _Learning(known[-1].stored if known else ""))
        arguments = _digest(came.arguments)
        # The same question again says nothing: its answer has the same names, also where these are data.
        if arguments in learning.arguments:
            return
        learning.arguments[arguments] = None
        learning.shape.add(came.text)
        if learning.is_due() and learning.shape.shown != (known[-1].shown if known else TEXT.shown):
            self._say(key, learning.shape.as_json())

    def _output(self, tool: Tool) -> Output:
        found = self._index.definitions([tool.row], {tool.row: tool.fingerprint})
        # Of one that has been changed meanwhile nothing is learnt.
        return output_of(found[tool.row].get("outputSchema")) if tool.row in found else Output("", ())

    def _say(self, key: ShapeKey, stored: str) -> None:
        """Have something else be said of a tool from now on, and store it; nothing that has a secret."""
        if len(stored) > _STORED_MAX or self._clean(stored) != stored:
            return
        server, tool, fingerprint, whose = key
        new = KnownShape(self._now(), stored)
        row = server, tool, whose, fingerprint, new.since, stored
        self._store.change(
            lambda connection: [connection.execute(_KEEP, row), connection.execute(_DROP_OLDEST, (_KNOWN_MAX,))],
            owed=f"shape of {key}",
        )
        # What is known of the tool under another fingerprint is forgotten.
        others = [(each, known) for each, known in self.known.items() if _place(each) != _place(key)]
        versions = (*self.known.get(key, ()), new)[-_VERSIONS_MAX:]
        self.known = {**dict(others[-(_KNOWN_MAX - 1) :]), key: versions}


def _digest(arguments: JsonObject) -> bytes:
    try:
        text = compact(arguments)
    except (ValueError, RecursionError):  # more digits, or deeper, than Python writes: all of these are one
        text = ""
    return blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()


def _text_of(result: JsonObject) -> str:
    """Return the text of a result; empty where it has other blocks, or a longer text than is read."""
    blocks = [*map(as_object, as_list(result.get("content"))[: _BLOCKS_MAX + 1])]
    texts = [text for block in blocks if block.get("type") == "text" and isinstance(text := block.get("text"), str)]
    is_read = len(texts) == len(blocks) <= _BLOCKS_MAX and sum(map(len, texts)) <= _TEXT_MAX
    return "\n".join(texts) if is_read else ""


def _place(key: ShapeKey) -> tuple[str, str, str]:
    server, tool, _, whose = key
    return server, tool, whose
