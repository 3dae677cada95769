"""How often a library may log the same thing to stderr."""

import logging

from toolcrib.cli.serve import LogRate


def said(rate: LogRate, message: str, *arguments: object, name: str = "uvicorn.error") -> str | None:
    """Return what is written of a record, if it is."""
    record = logging.LogRecord(name, logging.WARNING, "", 0, message, arguments, None)
    return record.getMessage() if rate.filter(record) else None


def test_what_is_repeated_is_left_out_and_counted():
    times = [0.0]
    rate = LogRate(lambda: times[0])
    written = [said(rate, "Invalid HTTP request received: %d", number) for number in range(1000)]
    assert written[:5] == [f"Invalid HTTP request received: {number}" for number in range(5)]
    assert not any(written[5:])
    assert said(rate, "Another one") == "Another one"
    times[0] = 10
    assert said(rate, "Invalid HTTP request received: %d", 7) == (
        "Invalid HTTP request received: 7 (995 more like it were left out)"
    )


def test_what_varies_at_the_end_is_the_same():
    rate = LogRate(lambda: 0.0)
    written = [said(rate, f"Rejected request with unknown or expired session ID: {number}") for number in range(100)]
    assert sum(each is not None for each in written) == 5


def test_ours_are_all_written():
    rate = LogRate(lambda: 0.0)
    assert all(said(rate, "server %s failed", "a", name="toolcrib.gateway.composition") for _ in range(100))
