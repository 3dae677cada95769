"""Why a server failed and what to do, in words for the person who has to fix it."""

import logging
import re
import shlex
from collections.abc import Iterator, Sequence

import anyio
import httpx2
import mcp_types as types
from mcp import MCPError
from pydantic import ValidationError

from toolcrib.base.errors import LoginNeeded, ToolcribError, innermost
from toolcrib.base.json_values import as_object
from toolcrib.config.settings import HttpTarget, ServerSettings
from toolcrib.downstream.http import (
    BROKEN,
    FORGOTTEN,
    REFUSED,
    UNDELIVERED,
    WANTS_LOGIN,
    ClientFault,
    code_of,
    status_text,
)
from toolcrib.downstream.states import Failure

_SHOWN = 3

_NOISE = re.compile(
    r"""
      at\ \S .* | node:internal\S* .* | Node\.js\ v\d .* | Require\ stack: | -\ /\S+ | code:\ '.*' | requireStack:.*
    | [{}\[\]),;^~|]+
    | npm\ (warn|notice|http)\b .* | npm\ (error|ERR!)\ (A\ complete\ log\ of\ .* | \d* | \d+\ +(Note\ that|tarball,).*)
    | Traceback\ \(most\ recent .* | File\ ".*",\ line\ \d+ .* | During\ handling\ of .* | The\ above\ exception\ was .*
    | goroutine\ \d+ .* | \S+\.go:\d+ .* | \[signal\ .* | exit\ status\ \d+ | note:\ run\ with\ .*RUST_BACKTRACE.*
    | (See|Run)\ 'docker\ .*
    """,
    re.VERBOSE,
)
"""Lines, stripped, that follow or surround a reason in every failure of their kind, and never are one."""

_PYTHON_FRAME = re.compile(r'File ".*", line \d+')
_TELLING = re.compile(
    r"error|exception|panic|fatal|fail|cannot|can't|could not|not found|no such|denied|missing|invalid|refused|"
    r"required|unauthorized|forbidden|expired|timed? ?out",
    re.IGNORECASE,
)


def last_words(lines: Sequence[str]) -> list[str]:
    """Return at most three of ``lines``, which are stripped and not empty, in their order: those that say why.

    Frames of stack traces and hints that follow every failure are left out, unless there is nothing else.
    """
    kept = list(_without_noise(lines))
    shown = (kept or list(lines))[-_SHOWN:]
    if any(map(_TELLING.search, shown)):
        return shown
    telling = [line for line in kept if _TELLING.search(line)]
    return [*telling[-1:], *shown[-(_SHOWN - 1) :]] if telling else shown


def _without_noise(lines: Sequence[str]) -> Iterator[str]:
    after_frame = False
    for line in lines:
        # Below a frame Python quotes the source, which may well hold the word "error".
        if not after_frame and not _NOISE.fullmatch(line):
            yield line
        after_frame = _PYTHON_FRAME.match(line) is not None


_log = logging.getLogger(__name__)

_ENDED_TEXT = "Connection closed"
_CLOSED_TEXTS = (_ENDED_TEXT, "SSE stream ")
"""How the SDK begins its own errors of code CONNECTION_CLOSED; servers use that code for whatever they like."""

_CHECK_HEADERS = "Check the headers in its config entry."
_NO_LOGIN = (
    "Get a token from whoever runs the server, and put it into headers in its config entry, as "
    '"Authorization": "Bearer ${TOKEN}"; or have neither that nor "auth": {"type": "none"} there, and run '
)


def is_undelivered(error: MCPError) -> bool:
    """Return whether the request never got to do anything: the address refused it, or did not know our session."""
    return isinstance(error, ClientFault) and error.code in (UNDELIVERED, FORGOTTEN)


def is_forgotten(error: MCPError) -> bool:
    """Return whether that is because the server named our session as one that it does not know."""
    return isinstance(error, ClientFault) and error.code == FORGOTTEN


def is_closed(error: MCPError) -> bool:
    """Return whether the way back for the answer is gone: an end of the connection, or of that part of it."""
    is_sdk_s_own = error.code == types.CONNECTION_CLOSED and error.message.startswith(_CLOSED_TEXTS)
    return is_sdk_s_own or (isinstance(error, ClientFault) and error.code == BROKEN)


def is_end(error: MCPError) -> bool:
    """Return whether the whole connection has ended."""
    return error.code == types.CONNECTION_CLOSED and error.message == _ENDED_TEXT


def reason_of(failure: BaseException) -> str:
    """Return a failure as part of a sentence; of a group, the first one in it."""
    match innermost(failure):
        case FileNotFoundError() | NotADirectoryError() as error:
            return f"no such program or folder: {str(error.filename)!r}"
        case PermissionError() as error:
            return f"{str(error.filename)!r} cannot be executed"
        case anyio.BrokenResourceError() | anyio.ClosedResourceError():
            return "the connection was closed"
        case MCPError() | httpx2.HTTPStatusError() | ValidationError() as error:
            return _reason_of_answer(error)
        case OSError() | httpx2.HTTPError() | RuntimeError() | ToolcribError() | ValueError() as error:
            return f"{error}" or type(error).__name__
        case error:
            _log.error("a server's task failed", exc_info=error)
            return f"internal error ({type(error).__name__}); the log of toolcrib has the details"


def failure_of(failure: BaseException, server: ServerSettings, known: str = "") -> Failure:
    """Return what is told of a server that failed so; ``known`` is what its transport knows about it."""
    inner = innermost(failure)
    reason = "; ".join(filter(None, (reason_of(failure), known)))
    if wants_login(inner, server):
        return login_failure(server, reason, inner.error.data if isinstance(inner, MCPError) else None)
    return Failure(reason, _remedy(inner, server))


def wants_login(failure: BaseException, server: ServerSettings | None = None) -> bool:
    """Return whether a server has refused a request for want of a login, or of one that reaches far enough.

    Of ``server`` is known whether a login is expected, so that a refusal need not name it.
    """
    match failure:
        case ClientFault(code=code):
            return code == WANTS_LOGIN
        case httpx2.HTTPStatusError(response=response, request=request):
            was_sent = "authorization" in request.headers
            is_expected = server is not None and server.may_log_in and (was_sent or server.options.auth is not None)
            return code_of(response, is_expected=is_expected) == WANTS_LOGIN
        case _:
            return False


def login_failure(server: ServerSettings, reason: str, data: object = None) -> Failure:
    """Return what is told of a server that wants a login; ``data`` are those of the error that says so."""
    command = f"`toolcrib login {shlex.quote(server.key)}`"
    if not server.may_log_in:
        return Failure(reason, f"{_NO_LOGIN}{command}.")
    if server.options.auth is not None and server.options.auth.type == "client_credentials":
        return Failure(
            reason, f"Check toolcrib.servers.{server.key}.auth in the config: the server rejects that login."
        )
    if scope := as_object(data).get("scope"):
        scope = server.redactor.clean(str(scope))  # the server names it, and may name what it was sent
        command = f"`toolcrib login {shlex.quote(server.key)} --scope {shlex.quote(scope)}`"
    return Failure(reason, f"Run {command} in a terminal.", needs_login=True)


def silence_of(server: ServerSettings, reason: str, known: str = "") -> Failure:
    """Return what is told of a server that gave no answer in time."""
    if isinstance(server.target, HttpTarget):
        remedy = "Check the url in its config entry, and that it is running"
    else:
        remedy = "Run its command in a terminal to see what it waits for"
    text = "; ".join(filter(None, (reason, known)))
    return Failure(text, f"{remedy}; if it is only slow, raise that limit.", is_silent=True)


def login_needed(server: ServerSettings, failure: Failure) -> LoginNeeded:
    """Return what callers of a server are told that wants a login."""
    return LoginNeeded(server.key, f"The server {server.key!r} requires a login, so nothing ran. {failure.remedy}")


def advice_on(error: MCPError) -> str:
    """Return what to do about an answer to a request; empty where nothing is known."""
    return _CHECK_HEADERS if isinstance(error, ClientFault) and error.code == REFUSED else ""


def _remedy(failure: BaseException, server: ServerSettings) -> str:
    match failure:
        case FileNotFoundError() | NotADirectoryError():
            return "Install it, or correct command and cwd in its config entry."
        case PermissionError():
            return "Make it executable, or correct the command in its config entry."
        case ClientFault(code=code) if code == REFUSED:
            return _CHECK_HEADERS
        case httpx2.HTTPStatusError(response=response) if code_of(response) == REFUSED:
            return _CHECK_HEADERS
        case _ if isinstance(server.target, HttpTarget):
            return "Check the url in its config entry, and that an MCP server is running there."
        case _:
            return "Run its command in a terminal to see more; check args, env and cwd in its config entry."


def _reason_of_answer(error: MCPError | httpx2.HTTPStatusError | ValidationError) -> str:
    if isinstance(error, ValidationError):
        return f"its answer is not valid MCP: {_first_problem(error)}"
    if isinstance(error, httpx2.HTTPStatusError):
        return f"it answered with {status_text(error.response)}"
    if isinstance(error, ClientFault) and error.code in (UNDELIVERED, BROKEN):
        return error.message
    return "it closed the connection" if is_closed(error) else f"it answered with an error: {error.message}"


def _first_problem(error: ValidationError) -> str:
    problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
