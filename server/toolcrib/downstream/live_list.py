"""The tool list of a live connection: read, indexed, and refreshed when the server announces a change.

Knows when a list is out of date and who waits for the next one; never knows why a tool is called or by whom.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
from mcp import MCPError

from toolcrib.base.errors import StartFailed, StoreError
from toolcrib.base.json_decoding import collector_paused
from toolcrib.config.settings import ServerSettings
from toolcrib.downstream.connection import Connection, Era
from toolcrib.downstream.failures import reason_of

_PATIENCE = 2
"""How many times as long as one list may take a call waits for a server that keeps announcing new ones."""

LiveTools = Mapping[str, str]
"""The tools of a live connection's own list: name to fingerprint of the record made of it."""

TakeIn = Callable[[ServerSettings, list[Any], Era], Awaitable[LiveTools]]
"""Gets a server's raw tool list and era."""


class LiveList:
    """What a server offers, by its own last list. ``pages`` bounds a list.

    ``tools`` are those of the last list, empty before there was one. ``era`` is what the server spoke then.
    """

    def __init__(self, settings: ServerSettings, take_in: TakeIn, pages: int, era: Era | None) -> None:
        self.tools: LiveTools = {}
        self.era: Era | None = era
        self._settings, self._take_in, self._pages = settings, take_in, pages
        self._clean = settings.redactor.clean
        self._reading, self._settling = anyio.Lock(), anyio.Lock()

    async def read(self, connection: Connection) -> None:
        """Read the list and have it taken in. The caller bounds the time."""
        async with self._reading:
            # Counted before the list is asked for: a change announced meanwhile makes it outdated.
            changes = connection.news.changes
            with collector_paused():
                # The list gets no name here: it should be gone when the pause ends.
                self.tools = await self._take_in(
                    self._settings, await connection.list_tools(pages=self._pages), connection.era
                )
            connection.changes_listed = changes
            self.era = connection.era

    async def read_again(self, connection: Connection) -> None:
        """Read the list once more, within the time that a start may take.

        Raises:
            StartFailed: the server went away, or its list cannot be read.

        """
        key, timeout_s = self._settings.key, self._settings.options.connect_timeout_s
        try:
            with anyio.fail_after(timeout_s):
                await self.read(connection)
        except TimeoutError:
            raise StartFailed(key, f"The tools of {key!r} cannot be read: no answer within {timeout_s:g} s") from None
        except (MCPError, StoreError, ValueError) as error:
            reason = self._clean(reason_of(error))
            raise StartFailed(key, f"The tools of {key!r} cannot be read: {reason}") from None

    async def settle(self, connection: Connection) -> None:
        """Have ``tools`` be the list that the server last announced, so that what runs is what was listed.

        Raises:
            StartFailed: the new list cannot be read, or the server announces others without end.

        """
        if connection.is_listed:
            return
        key, timeout_s = self._settings.key, self._settings.options.connect_timeout_s
        with anyio.move_on_after(_PATIENCE * timeout_s):
            while not connection.is_listed:
                # Calls that wait together share one reading, hence the second look inside.
                async with self._settling:
                    if not connection.is_listed:
                        await self._read_for_call(connection)
            return
        raise StartFailed(key, f"The tools of {key!r} change faster than they can be read; nothing ran. Try again.")

    async def _read_for_call(self, connection: Connection) -> None:
        try:
            await self.read_again(connection)
        except StartFailed as error:
            raise StartFailed(error.server, f"{error}. It has announced that they changed, so nothing ran.") from None
