"""Requests in the middle of which a caller may have to be asked, carried through in both eras.

Knows how the answer comes back to a caller without a session; never knows what is asked.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial

import anyio
from anyio.abc import TaskGroup

from toolcrib.access.sessions import Session
from toolcrib.base.json_values import as_object
from toolcrib.config.schema import LimitsSection
from toolcrib.downstream.askers import Asker, Progress
from toolcrib.downstream.parked_work import ParkedWork
from toolcrib.downstream.parking import ANSWERS, Parked, Parking, refused, same_request
from toolcrib.model import JsonObject
from toolcrib.streams.sdk import Context
from toolcrib.tools.confirming import MustAsk
from toolcrib.wire.asking import asker_of


@dataclass(frozen=True, slots=True)
class Reach:
    """How the caller of a request is reached while it is worked on."""

    asker: Asker
    on_progress: Progress | None


class CarriedRequests:
    """Begins again, in a task of its own, what has to ask a caller by its result; the retry takes it up there."""

    def __init__(self, limits: LimitsSection, tasks: TaskGroup) -> None:
        self._work = ParkedWork(Parking(limits), tasks)

    async def carry(
        self, context: Context, session: Session, work: Callable[[Reach], Awaitable[JsonObject]]
    ) -> JsonObject:
        """Return what ``work`` comes to, or what its caller is to be asked first.

        Raises:
            DownstreamError: the request answers what was never asked, or is no longer.

        """
        reach = Reach(asker_of(context, session), context.session.report_progress)
        params = as_object(context.params)
        request = partial(same_request, "", context.method, params)
        if not reach.asker.lasting and self._work.knows(params.get("requestState")):
            return await self._work.take_up(params, reach.asker, request(), reach.on_progress)
        try:
            return await work(reach)
        except MustAsk:
            if not params.keys().isdisjoint(ANSWERS):
                raise refused() from None  # asked anew, it could run a second time
        parked = Parked(reach.asker, request, lasting=True)
        parked.on_progress = reach.on_progress
        return await self._work.begin(parked, partial(work, replace(reach, asker=parked, on_progress=parked.report)))


@asynccontextmanager
async def open_carried(limits: LimitsSection) -> AsyncGenerator[CarriedRequests]:
    """Carry requests until the block ends; what waits for an answer then is given up."""
    async with anyio.create_task_group() as tasks:
        try:
            yield CarriedRequests(limits, tasks)
        finally:
            tasks.cancel_scope.cancel()
