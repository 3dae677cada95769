"""Selects the last lines of a server's stderr that say why it exited.

Knows how Node, npm, Python, Go, Rust and Docker report a failure; never knows which server it was or what it did.
"""

import re
from collections.abc import Iterator, Sequence

LINES_KEPT = 200
"""Lines of stderr to look at: a stack trace and what npm says after it must fit."""

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
