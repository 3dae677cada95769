"""What went wrong with a server, in words for the person who has to mend it.

Knows the errors of processes, HTTP and the protocol; never knows which server it is, nor what is done about it.
"""

import logging

import anyio
import httpx2
import mcp_types as types
from mcp import MCPError
from pydantic import ValidationError

from toolcrib.downstream.http import BROKEN, UNDELIVERED, status_text
from toolcrib.errors import ToolcribError, innermost

_log = logging.getLogger(__name__)

_ENDED_TEXT = "Connection closed"
_CLOSED_TEXTS = (_ENDED_TEXT, "SSE stream ")
"""How the SDK begins its own errors of code CONNECTION_CLOSED; servers use that code for whatever they like."""


def is_undelivered(error: MCPError) -> bool:
    """Return whether the request never got to do anything: the address refused it, or did not know our session."""
    return error.code == UNDELIVERED


def is_closed(error: MCPError) -> bool:
    """Return whether the way back for the answer is gone: an end of the connection, or of that part of it."""
    is_sdk_s_own = error.code == types.CONNECTION_CLOSED and error.message.startswith(_CLOSED_TEXTS)
    return is_sdk_s_own or error.code == BROKEN


def is_end(error: MCPError) -> bool:
    """Return whether the whole connection has ended."""
    return error.code == types.CONNECTION_CLOSED and error.message == _ENDED_TEXT


def reason_of(failure: BaseException) -> str:
    """Return a failure as part of a sentence; of a group, the first one in it."""
    match innermost(failure):
        case FileNotFoundError() | NotADirectoryError() as error:
            return f"no such program or folder: {str(error.filename)!r} (check its entry in the config)"
        case PermissionError() as error:
            return f"{str(error.filename)!r} may not be run (is it executable?)"
        case anyio.BrokenResourceError() | anyio.ClosedResourceError():
            return "the connection was closed"
        case MCPError() | httpx2.HTTPStatusError() | ValidationError() as error:
            return _reason_of_answer(error)
        case OSError() | httpx2.HTTPError() | RuntimeError() | ToolcribError() | ValueError() as error:
            return f"{error}" or type(error).__name__
        case error:
            _log.error("a server's task failed", exc_info=error)
            return f"internal error ({type(error).__name__}); the log of toolcrib has the details"


def _reason_of_answer(error: MCPError | httpx2.HTTPStatusError | ValidationError) -> str:
    if isinstance(error, ValidationError):
        return f"its answer is not what MCP prescribes: {_first_problem(error)}"
    if isinstance(error, httpx2.HTTPStatusError):
        return f"it answered with {status_text(error.response)}"
    if error.code in (UNDELIVERED, BROKEN):
        return error.message
    return "it closed the connection" if is_closed(error) else f"it answered with an error: {error.message}"


def _first_problem(error: ValidationError) -> str:
    problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
