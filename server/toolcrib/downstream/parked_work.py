"""Work for callers without a session who may have to be asked during it: it continues between their requests.

Knows the tasks that such work runs in, and who waits for its end; never knows what the work is.
"""

from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup

from toolcrib.base.errors import ConnectionLost
from toolcrib.base.model import JsonObject
from toolcrib.downstream.parking import Parked, Parking
from toolcrib.policy.asking import Asker, Progress

_GIVEN_UP = "The call was cancelled, because nobody waited for it."


class ParkedWork:
    """Runs work in tasks of its own. ``server`` is whose calls these are, empty where they are of none."""

    def __init__(self, parking: Parking, tasks: TaskGroup, server: str = "") -> None:
        self._parking, self._tasks, self._server = parking, tasks, server

    def knows(self, key: object) -> bool:
        """Return whether something is parked under a key, whosoever it is."""
        return self._parking.knows(key)

    async def begin(self, parked: Parked, work: Callable[[], Awaitable[JsonObject]]) -> JsonObject:
        """Begin a piece of work, and return its result, or what its caller is to be asked first."""
        self._tasks.start_soon(self._carry_out, parked, work)
        return await self._attend(parked)

    async def take_up(self, params: JsonObject, asker: Asker, request: str, on_progress: Progress | None) -> JsonObject:
        """Hand answers in and return as :meth:`begin` does; ``params`` are those of the retry, ``request`` what it is.

        Raises:
            DownstreamError: nothing is parked for this caller and this request under the key.
            Exception: what the work has ended with.

        """
        parked = self._parking.take(params["requestState"], asker, request)
        parked.on_progress = on_progress
        parked.answer(params.get("inputResponses"))
        return await self._attend(parked)

    async def _carry_out(self, parked: Parked, work: Callable[[], Awaitable[JsonObject]]) -> None:
        with parked.scope:
            try:
                parked.settle(await work())
            except Exception as error:  # barrier: work that may be parked; raised for whoever waits for its end
                parked.settle(error)
        parked.settle(ConnectionLost(self._server, _GIVEN_UP))

    async def _attend(self, parked: Parked) -> JsonObject:
        """Wait until the work has ended, or its caller is asked; one that leaves while it waits gives the work up."""
        try:
            while (result := await parked.next_step()) is None:
                if key := self._parking.keep(parked):
                    return parked.interim(key)
                parked.refuse("Too many calls wait for answers (limits.parked_calls).")
        except anyio.get_cancelled_exc_class():
            parked.scope.cancel()
            raise
        return result
