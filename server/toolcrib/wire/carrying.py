"""Requests during which a caller may have to be asked, handled in both eras.

Knows how the answer returns to a caller without a session; never knows what is asked.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial

import anyio
from anyio.abc import TaskGroup

from toolcrib.base.json_values import as_object
from toolcrib.base.model import JsonObject
from toolcrib.config.schema import LimitsSection
from toolcrib.downstream.suspended import ANSWERS, Parked, ParkedWork, Parking, refused, same_request
from toolcrib.jsonrpc.sdk import Context
from toolcrib.policy.asking import Asker, Progress
from toolcrib.policy.confirmations import MustAsk
from toolcrib.policy.sessions import Session
from toolcrib.wire.asking import asker_of


@dataclass(frozen=True, slots=True)
class Reach:
    """How the caller of a request is reached while the request is processed."""

    asker: Asker
    on_progress: Progress | None


class CarriedRequests:
    """Restarts a request that needs input from its caller in its own task; the client's retry resumes it there."""

    def __init__(self, limits: LimitsSection, tasks: TaskGroup) -> None:
        self._work = ParkedWork(Parking(limits), tasks)

    async def carry(
        self, context: Context, session: Session, work: Callable[[Reach], Awaitable[JsonObject]]
    ) -> JsonObject:
        """Return the result of ``work``, or the input that has to be requested from its caller first.

        Raises:
            DownstreamError: the request answers a question that was never asked, or has expired.

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
                raise refused() from None  # a second request for input could run it twice
        parked = Parked(reach.asker, request, lasting=True)
        parked.on_progress = reach.on_progress
        return await self._work.begin(parked, partial(work, replace(reach, asker=parked, on_progress=parked.report)))


@asynccontextmanager
async def open_carried(limits: LimitsSection) -> AsyncGenerator[CarriedRequests]:
    """Carry requests until the block ends; requests that still wait for input are then abandoned."""
    async with anyio.create_task_group() as tasks:
        try:
            yield CarriedRequests(limits, tasks)
        finally:
            tasks.cancel_scope.cancel()
