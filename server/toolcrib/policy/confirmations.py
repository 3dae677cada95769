"""Asks a person to confirm a call or a skill, and remembers the answer for as long as the person chose."""

import logging
import shlex
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import anyio
import anyio.to_thread

from toolcrib.base.errors import NotConfirmed, StoreError
from toolcrib.base.json_values import as_object
from toolcrib.base.model import JsonObject
from toolcrib.base.text import one_line, truncate
from toolcrib.events.kinds import Confirmation, ConfirmationAnswer
from toolcrib.events.log import EventLog
from toolcrib.policy.requests import Request, refuse_beyond
from toolcrib.policy.sessions import Session
from toolcrib.policy.state import Approval, Approvals

ONCE: Final = "once"
SESSION: Final = "this session"
ALWAYS: Final = "always"

_ELICIT = "elicitation/create"
_REASON_MAX = 200
_NO_ANSWER: dict[object, ConfirmationAnswer] = {"decline": "no", "cancel": "dismissed"}
_SAID = {
    "no": "Their client was asked, and the answer is no. Do not try again unless they ask for it.",
    "dismissed": "Their client was asked, and closed the question without an answer.",
    "none": "Their client was asked, and no answer came in time.",
}

_log = logging.getLogger(__name__)


class InputRequired(Exception):
    """Input from the caller can only be requested by the result of its request (2026-07-28); nothing was done."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of a confirmation. ``nothing_done`` says that it was not done; ``question`` is computed on demand.

    It is shown to a person and contains no secret.
    """

    approval: Approval
    nothing_done: str
    question: Callable[[], Awaitable[str]]

    @property
    def name(self) -> str:
        """Its name."""
        return self.approval.name


class Confirmations:
    """Asks for confirmations and remembers answers; ``approvals`` persist. ``now`` returns seconds since the epoch."""

    def __init__(self, approvals: Approvals, answer_s: float, events: EventLog, now: Callable[[], float]) -> None:
        self.approvals, self._answer_s, self._events, self._now = approvals, answer_s, events, now

    async def require(self, request: Request, subject: Subject) -> None:
        """Return once a person has confirmed, now or earlier.

        Raises:
            NotConfirmed: they have not; the text says how to allow it.
            InputRequired: they can be asked, but not while this request is under way.

        """
        session = request.session
        if await anyio.to_thread.run_sync(self.is_allowed, session, subject.approval):
            return
        answer, why = await self._answer(request, subject)
        told = Confirmation(subject.approval.kind, subject.name, answer)
        self._events.emit(told, session=session.label)
        if answer == SESSION and session.confirmed is not None:
            session.confirmed[subject.approval] = None
        elif answer == ALWAYS:
            await anyio.to_thread.run_sync(self._keep, subject.approval)
        elif answer != ONCE:
            raise NotConfirmed(_refusal(subject, why or _SAID[answer]))

    def is_allowed(self, session: Session, approval: Approval) -> bool:
        """Return whether a person has given a lasting confirmation. May block."""
        if session.confirmed is not None and approval in session.confirmed:
            return True
        try:
            return approval in self.approvals
        except StoreError as error:
            _log.warning("what was allowed cannot be read: %s", error.detail)
            return False  # in doubt, a person is asked again

    def allow(self, approval: Approval) -> None:
        """Store a lasting confirmation. Blocks.

        Raises:
            StoreError: it cannot be stored.

        """
        self.approvals.give(approval, self._now())

    def _keep(self, approval: Approval) -> None:
        try:
            self.allow(approval)
        except StoreError as error:
            _log.warning("an answer cannot be kept: %s", error.detail)  # it still holds for this call

    async def _answer(self, request: Request, subject: Subject) -> tuple[ConfirmationAnswer, str]:
        """Return a person's answer and, if nobody could be asked, why not.

        Raises:
            InputRequired: see :meth:`require`.

        """
        from mcp import MCPError  # noqa: PLC0415 - commands that only read approvals do not wait for the SDK

        try:
            refuse_beyond(request.session.capabilities, _ELICIT, {})
        except MCPError:
            return "unable", "Only a person can allow it, and this client has no way to ask one."
        if not request.can_ask_now:
            raise InputRequired
        # Where requests cannot be related to a session, an answer cannot hold for one.
        choices = [ONCE, *([SESSION] if request.session.confirmed is not None else ()), ALWAYS]
        params = _form(await subject.question(), choices)
        try:
            # A person may never answer, and the caller waits meanwhile.
            with anyio.move_on_after(self._answer_s):
                return _read(await request.ask(_ELICIT, params), choices)
        except MCPError as error:
            reason = truncate(one_line(error.message), _REASON_MAX)
            return "unable", f"Only a person can allow it, and the client could not ask one: {reason}"
        return "none", ""


def _form(message: str, choices: list[str]) -> JsonObject:
    answer = {
        "type": "string",
        "title": "Allow it",
        "description": "If it changes later, you are asked again, whatever you choose here.",
        "enum": choices,
        "default": ONCE,
    }
    schema = {"type": "object", "properties": {"answer": answer}, "required": ["answer"]}
    return {"message": message, "requestedSchema": schema}


def _read(result: JsonObject, choices: list[str]) -> tuple[ConfirmationAnswer, str]:
    """Return the meaning of an elicitation result: a confirmation only if it is one of the choices."""
    action = result.get("action")
    answer = as_object(result.get("content")).get("answer")
    if action == "accept" and answer in choices:
        chosen: dict[object, ConfirmationAnswer] = {ONCE: ONCE, SESSION: SESSION, ALWAYS: ALWAYS}
        return chosen[answer], ""
    # A client may accept with any content: only a choice that was offered counts as a yes.
    return _NO_ANSWER.get(action, "dismissed"), ""


def _refusal(subject: Subject, why: str) -> str:
    principal = subject.approval.principal
    whose = "" if principal == "local" else f" --principal {shlex.quote(principal)}"
    command = f"toolcrib allow {shlex.quote(subject.name)}{whose}"
    return f"{subject.name} needs a person's yes. {subject.nothing_done} {why} To allow it, they can run: {command}"
