"""What went wrong is told in words that help, whatever it was."""

import anyio
import pytest
from mcp import MCPError

from toolcrib.downstream.failures import reason_of


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (MCPError(-32603, "no database"), "it answered with an error: no database"),
        (MCPError(-32000, "Connection closed"), "it closed the connection"),
        (MCPError(-32000, "SSE stream ended without a response"), "it closed the connection"),
        (MCPError(-32000, "too many users"), "it answered with an error: too many users"),
        (anyio.BrokenResourceError(), "the connection was closed"),
        (OSError(8, "Exec format error", "/bin/thing"), "[Errno 8] Exec format error: '/bin/thing'"),
        (RuntimeError(), "RuntimeError"),
        (ExceptionGroup("outer", [ExceptionGroup("inner", [ValueError("first")]), KeyError()]), "first"),
    ],
)
def test_a_failure_is_told_in_its_own_words(failure: BaseException, reason: str):
    assert reason_of(failure) == reason


def test_a_fault_of_ours_is_logged_and_only_named(caplog: pytest.LogCaptureFixture):
    assert reason_of(KeyError("s3cr3t")) == "internal error (KeyError); the log of toolcrib has the details"
    [record] = caplog.records
    assert record.exc_info is not None
