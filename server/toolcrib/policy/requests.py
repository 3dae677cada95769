"""A request on its way: whose it is, what goes with it, and how its caller can be asked meanwhile."""

from typing import TYPE_CHECKING, Any, Protocol

from toolcrib.base.json_values import as_object
from toolcrib.base.model import Caller, JsonObject
from toolcrib.policy.sessions import NoActivations, Session

if TYPE_CHECKING:
    from mcp import MCPError

QUESTIONS = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}
"""What a server may ask a client, with the capability that the client has to declare."""

_METHOD_NOT_FOUND, _INVALID_PARAMS = -32601, -32602
"""Codes of JSON-RPC 2.0 (section 5.1)."""

_RESERVED_META = "io.modelcontextprotocol/"
_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


class Progress(Protocol):
    """Takes one report of progress of a call."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Pass it on."""
        ...


class Request:
    """One request of a caller, handed on from the protocol to the server that answers it.

    ``params`` are those received, without what belongs to one connection; ``session`` is whose it is. ``on_progress``
    takes reports of progress. ``lasting``: the caller has a session, on whose channels it can be asked.
    ``can_ask_now``: the caller can be asked while the request is under way; otherwise only by its result.
    ``whole_results``: what a tool returns is read by a program, not by a model: as it is, without pages or notices.

    An instance of this class has no client behind it, as on the command line; those of clients override the methods.
    """

    __slots__ = ("method", "on_progress", "params", "session")

    lasting: bool = False
    can_ask_now: bool = False
    whole_results: bool = False

    def __init__(
        self, session: Session, method: str = "", params: JsonObject | None = None, on_progress: Progress | None = None
    ) -> None:
        self.session, self.method, self.params, self.on_progress = session, method, params or {}, on_progress

    @property
    def takes_task(self) -> bool:
        """Whether its caller takes a task in the place of the result of a call."""
        return False

    @property
    def task_ttl_ms(self) -> int | None:
        """How long the caller wants the task kept that it asked for; 0: it does not say, None: it asked for none."""
        return None

    @property
    def log_level(self) -> str | None:
        """The least important log messages that the caller wants; None: it has not said."""
        return None

    def wants_log(self, level: str) -> bool:  # noqa: ARG002 - nobody reads them here
        """Return whether the caller is sent log messages of a level."""
        return False

    async def ask(self, method: str, params: JsonObject, /) -> JsonObject:  # noqa: ARG002 - refused whatever they are
        """Send the caller a request, and return its raw answer.

        Raises:
            MCPError: it answered with an error, it is gone, or it cannot be asked.

        """
        raise _refused(_METHOD_NOT_FOUND, "There is no client to ask.", method)

    def note_silence(self) -> None:
        """Note that the caller was asked, and has not answered in the time that there is."""

    async def notify(self, method: str, params: JsonObject) -> None:
        """Send the caller a notification, if it can still be reached."""

    async def tell(self, method: str, params: JsonObject) -> None:
        """Send the caller a notification that belongs to no request, also after this one, if its era has any."""

    async def end_stream(self) -> None:
        """End the stream on which the caller waits, if it can resume it: it comes back for the rest (SEP-1699)."""

    async def notify_tools_changed(self) -> None:
        """Notify the caller that its tool list has changed, before the request is answered."""


OWN_REQUEST = Request(Session("", Caller(""), NoActivations(), growing=False))
"""A request that toolcrib makes by itself, such as a subscription that several callers share."""


def is_at_least(level: str, least: str) -> bool:
    """Return whether a log message is as important as ``least``; one of an unknown level is."""
    return level not in _LEVELS or _LEVELS.index(level) >= _LEVELS.index(least)


def is_level(level: Any) -> bool:
    """Return whether there is such a level of log messages."""
    return level in _LEVELS


def meta_for_next_hop(meta: Any) -> JsonObject:
    """Return ``_meta`` without what belongs to one connection: the protocol's own keys and the progress token."""
    if not meta:
        return {}
    return {
        key: value
        for key, value in as_object(meta).items()
        if not key.startswith(_RESERVED_META) and key != "progressToken"
    }


def params_for_next_hop(params: JsonObject) -> JsonObject:
    """Return params without what belongs to one connection."""
    if "_meta" not in params:
        return params
    kept = {key: value for key, value in params.items() if key != "_meta"}
    meta = meta_for_next_hop(params["_meta"])
    return {**kept, "_meta": meta} if meta else kept


def refuse_beyond(capabilities: JsonObject, method: str, params: JsonObject) -> None:
    """Refuse a question that a client has not declared that it can be asked.

    Raises:
        MCPError: with the sentence for the server.

    """
    needed = QUESTIONS[method]
    if not isinstance(capabilities.get(needed), dict):
        raise _refused(_METHOD_NOT_FOUND, f"The client of this call does not declare {needed!r}.")
    declared = as_object(capabilities[needed])
    if method == "elicitation/create":
        mode = params.get("mode", "form")
        # A client of before there were modes declares nothing in it, and means forms.
        if mode not in declared and (mode != "form" or "url" in declared):
            raise _refused(_INVALID_PARAMS, f"The client of this call does not declare 'elicitation.{mode}'.")
    if method == "sampling/createMessage" and "tools" not in declared and ("tools" in params or "toolChoice" in params):
        raise _refused(_INVALID_PARAMS, "The client of this call does not declare 'sampling.tools'.")


def _refused(code: int, message: str, data: str | None = None) -> "MCPError":
    from mcp import MCPError  # noqa: PLC0415 - who only says that nobody can be asked does not wait for the SDK

    return MCPError(code, message, data)
