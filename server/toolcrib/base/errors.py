"""One tree of errors, each with a public text for the model or person who gets it and a private detail for the log.

ToolcribError
    ├── ConfigError         the config file is wrong; carries every problem at once
    ├── StartRefused        the config is right, but serving it would not be safe
    ├── BadRequest          arguments the caller can correct
    ├── NotConfirmed        a person has to approve first, and has not
    ├── UnknownTool         denied, hidden and nonexistent are this one error
    ├── UnknownResource     the same for resources
    │   └── UnknownSkill    the same for skills and their files
    ├── UnknownPrompt       the same for prompts
    ├── StoreError          an index file cannot be used
    ├── LoginFailed         a login could not be made or refreshed
    │   └── LoginRefused    because the authorization server denied it
    ├── ModelUnavailable    there is no model for semantic search, or it does not work
    ├── Busy                a bound on concurrent work is reached
    ├── DownstreamError     the downstream answered with a JSON-RPC error of its own
    └── Unavailable         a downstream gave no answer
        ├── StartFailed     it could not be started or listed
        │   └── LoginNeeded it requires a login first
        ├── CircuitOpen     it keeps failing, and is not called for a while
        ├── ConnectionLost  it disconnected during the call
        └── CallTimeout     it did not answer in time
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast


class ToolcribError(Exception):
    """Base of all errors of toolcrib. ``str(error)`` is public; ``detail`` goes to the log only."""

    def __init__(self, public: str, *, detail: str = "") -> None:
        super().__init__(public)
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to say about a config file: where (``toolcrib.limits.name_max``), what, and what to do.

    ``is_mistake``: whoever wrote it cannot have meant it, though the file may be of use.
    """

    path: str
    reason: str
    hint: str = ""
    is_mistake: bool = False

    @property
    def text(self) -> str:
        """The reason, and in parentheses what to do."""
        return f"{self.reason} ({self.hint})" if self.hint else self.reason

    def __str__(self) -> str:
        """One line for a terminal."""
        return f"{self.path}: {self.text}"


class ConfigError(ToolcribError):
    """The config cannot be used; ``problems`` has everything that is wrong with it."""

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        lines = "\n".join(f"  {problem}" for problem in problems)
        super().__init__(f"{source} cannot be used:\n{lines}")
        self.source = source
        self.problems = tuple(problems)


class StartRefused(ToolcribError):
    """Serving as configured would not be safe; the text says why and what to change."""


class BadRequest(ToolcribError):
    """The caller's arguments are invalid; the text says what to change."""


class NotConfirmed(ToolcribError):
    """A person has to approve first, and has not; nothing ran, and nothing was returned."""


class UnknownTool(ToolcribError):
    """No such tool for this caller. Says nothing about whether others have it."""

    def __init__(self, name: str, near: str = "") -> None:
        super().__init__(f"Unknown tool: {name}{near}")
        self.name = name


class UnknownResource(ToolcribError):
    """No such resource for this caller. Says nothing about whether others have it."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Not found: {name}")
        self.name = name


class UnknownSkill(UnknownResource):
    """No such skill, or no such file of one, for this caller."""


class UnknownPrompt(ToolcribError):
    """No such prompt for this caller. Says nothing about whether others have it."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Unknown prompt: {name}")


class StoreError(ToolcribError):
    """An index file cannot be opened, read or written."""


class LoginFailed(ToolcribError):
    """A login could not be made, refreshed or ended; the text says why, and contains no secret."""


class LoginRefused(LoginFailed):
    """The authorization server denied it. ``is_final``: the stored login is no longer valid."""

    def __init__(self, public: str, *, is_final: bool = True) -> None:
        super().__init__(public)
        self.is_final = is_final


class ModelUnavailable(ToolcribError):
    """Semantic search is unavailable; the text says why and what to do. Search uses words only without it."""


class Busy(ToolcribError):
    """The caller has reached a bound on concurrent work; nothing ran."""


class DownstreamError(ToolcribError):
    """A downstream's own JSON-RPC error, passed on unchanged."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class Unavailable(ToolcribError):
    """A downstream gave no answer; the text names the ``server``.

    ``public`` is the text, which says by itself that the server gave none.
    """

    def __init__(self, server: str, public: str = "", *, detail: str = "") -> None:
        super().__init__(public or f"The server {server} gave no answer.", detail=detail)
        self.server = server


class StartFailed(Unavailable):
    """The server could not be started, connected to or listed."""


class LoginNeeded(StartFailed):
    """The server requires a login first; nothing ran. The text says how a person logs in."""


class CircuitOpen(Unavailable):
    """The server keeps failing, and is not called for a while; nothing ran."""


class ConnectionLost(Unavailable):
    """The server disconnected during the call. The call may have run."""


class CallTimeout(Unavailable):
    """The server did not answer within its deadline. The call may have run."""


def innermost(failure: BaseException) -> BaseException:
    """Return the failure itself, or the first one inside the groups that task groups wrap it in."""
    while isinstance(failure, BaseExceptionGroup):
        failure = cast("BaseExceptionGroup[BaseException]", failure).exceptions[0]
    return failure
