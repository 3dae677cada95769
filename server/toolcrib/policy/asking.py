"""A caller as a server can reach it during a call: which questions it can be asked, and how."""

from typing import TYPE_CHECKING, Any, Protocol

from toolcrib.base.json_values import as_object
from toolcrib.base.model import JsonObject

if TYPE_CHECKING:
    from mcp import MCPError

QUESTIONS = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}
"""What a server may ask a client, with the capability that the client has to declare."""

_METHOD_NOT_FOUND, _INVALID_PARAMS = -32601, -32602
"""Codes of JSON-RPC 2.0 (section 5.1)."""

_TASKS = "io.modelcontextprotocol/tasks"
"""An extension that is of no use without methods that toolcrib does not serve."""

_RESERVED_META = "io.modelcontextprotocol/"
_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


class Progress(Protocol):
    """Takes one report of progress of a call."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Pass it on."""
        ...


class Asker(Protocol):
    """The caller of one request.

    ``is_live``: it can be asked while the request is under way; else only by the result of the request. ``lasting``:
    it has a session, on whose channels it can be asked.
    """

    @property
    def session(self) -> str:
        """What no other session is called, nor another caller without one."""
        ...

    @property
    def principal(self) -> str:
        """Whose session it is."""
        ...

    @property
    def capabilities(self) -> JsonObject:
        """What its client says it can do, as it said it."""
        ...

    @property
    def log_level(self) -> str | None:
        """The least important log messages that it wants of a server that has to be told; None: none."""
        ...

    @property
    def lasting(self) -> bool:
        """Whether it has a session."""
        ...

    @property
    def is_live(self) -> bool:
        """Whether it can be asked at once."""
        ...

    async def ask(self, method: str, params: JsonObject, /) -> JsonObject:
        """Ask it and return its raw answer.

        Raises:
            MCPError: it answered with an error, or it is gone.

        """
        ...

    async def tell(self, method: str, params: JsonObject, /) -> None:
        """Tell it something, if it can be told still."""
        ...

    def wants_log(self, level: str, /) -> bool:
        """Return whether it is told log messages of a level."""
        ...


class Nobody:
    """A caller that cannot be reached: there is no client behind the call."""

    session = principal = ""
    log_level: str | None = None
    lasting = is_live = False

    @property
    def capabilities(self) -> JsonObject:
        """None."""
        return {}

    async def ask(self, method: str, _params: JsonObject) -> JsonObject:
        """Refuse."""
        raise _refused(_METHOD_NOT_FOUND, "There is no client to ask.", method)

    async def tell(self, _method: str, _params: JsonObject) -> None:
        """Let it pass."""

    def wants_log(self, _level: str) -> bool:
        """Return false."""
        return False


NOBODY: Asker = Nobody()
"""Who asks without a client, as the command line does."""


def is_at_least(level: str, least: str) -> bool:
    """Return whether a log message is as important as ``least``; one of an unknown level is."""
    return level not in _LEVELS or _LEVELS.index(level) >= _LEVELS.index(least)


def is_level(level: Any) -> bool:
    """Return whether there is such a level of log messages."""
    return level in _LEVELS


def relayed(capabilities: JsonObject, *, questions: bool, roots: bool) -> JsonObject:
    """Return what a server is told of a client: what toolcrib can keep the promise of.

    ``questions``: it can be asked through toolcrib; ``roots``: for its roots too, which belong to one client alone.
    """
    told = {key: capabilities[key] for key in ("elicitation", "sampling") if questions and key in capabilities}
    if roots and "roots" in capabilities:
        told["roots"] = capabilities["roots"]
    if extensions := {key: each for key, each in as_object(capabilities.get("extensions")).items() if key != _TASKS}:
        told["extensions"] = extensions
    return told


def for_next_hop(params: JsonObject) -> JsonObject:
    """Return params without the ``_meta`` members of one connection: the progress token, the protocol's own keys."""
    kept = {
        key: value
        for key, value in as_object(params.get("_meta")).items()
        if not key.startswith(_RESERVED_META) and key != "progressToken"
    }
    bare = {key: value for key, value in params.items() if key != "_meta"}
    return {**bare, "_meta": kept} if kept else bare


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
