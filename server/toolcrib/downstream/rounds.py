"""A server of 2026-07-28 asks for input with its result; a caller with a session is asked immediately.

Knows the rounds of one request; never knows who is asked, nor how a request is sent.
"""

import secrets
from collections.abc import Awaitable, Callable
from functools import partial

import anyio
import mcp_types as types
from mcp import MCPError

from toolcrib.base.json_values import as_object
from toolcrib.base.model import JsonObject
from toolcrib.policy.asking import QUESTIONS

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 0.25
"""Pauses before a request is sent again of which the server wants to know nothing."""

Ask = Callable[[str, JsonObject], Awaitable[JsonObject]]
Send = Callable[[JsonObject], Awaitable[JsonObject]]


def asks_for_input(result: JsonObject) -> bool:
    """Return whether a result is none yet: the server wants to know something, or wants to be asked again."""
    return result.get("resultType") == "input_required"


async def driven(result: JsonObject, ask: Ask, send: Send, *, most: int) -> JsonObject:
    """Return the result that a request comes to in the end.

    ``result`` is the first one. ``ask`` asks the caller; ``send`` sends the request again with answers.

    Raises:
        MCPError: a question was refused, or the server goes on asking after ``most`` rounds.

    """
    pause_s = _FIRST_PAUSE_S
    for _ in range(most):
        if not asks_for_input(result):
            return result
        retry = {"requestState": result["requestState"]} if "requestState" in result else {}
        if questions := as_object(result.get("inputRequests")):
            retry["inputResponses"] = await _answers(questions, ask)
            pause_s = _FIRST_PAUSE_S
        else:
            await anyio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        result = await send(retry)
    if not asks_for_input(result):
        return result
    raise MCPError(types.INTERNAL_ERROR, f"it asked {most} times and was not done (limits.input_rounds).")


async def _answers(questions: JsonObject, ask: Ask) -> JsonObject:
    """Ask all of them at once; the first that is refused ends them all."""
    answers: JsonObject = {}
    refusals: list[MCPError] = []

    async def put(tasks: anyio.abc.TaskGroup, name: str) -> None:
        question = as_object(questions[name])
        try:
            answers[name] = await _asked(question, ask)
        except MCPError as error:
            refusals.append(error)
            tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for name in questions:
            tasks.start_soon(partial(put, tasks, name))
    if refusals:
        raise refusals[0]
    return answers


async def _asked(question: JsonObject, ask: Ask) -> JsonObject:
    method = question.get("method")
    if method not in QUESTIONS:
        raise MCPError(types.METHOD_NOT_FOUND, f"it cannot be asked {method!r}.")
    params = as_object(question.get("params"))
    if params.get("mode") == "url":  # 2026-07-28 has no name for it any more; the handshake era requires one
        params = {"elicitationId": secrets.token_urlsafe(), **params}
    return await ask(str(method), params)
