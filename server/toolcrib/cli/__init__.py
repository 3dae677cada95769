"""The command line. Clients start ``serve``, so that loads nothing that only commands for people need."""

import atexit
import gc
import os
import signal
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv``, by default that of the process, and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["serve"]:
        return _serve(arguments[1:])
    return _run(arguments)


def _run(arguments: list[str]) -> int:
    # A command is over soon, and the process frees its memory: collecting garbage would take a fifth of a search.
    atexit.register(gc.freeze)
    gc.disable()
    try:
        from toolcrib.cli.app import run

        return run(arguments)
    finally:
        gc.enable()


def _serve(arguments: list[str]) -> int:
    if sys.platform != "win32":
        # A client has its first answers before the server can reload. Until it can, SIGHUP waits, as it would end the
        # process; `serve` lets it through.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    # Imported modules stay: collecting garbage among them, again and again, would take a tenth of a start.
    gc.disable()
    try:
        from toolcrib.server.early import answer_early

        begun = answer_early(arguments, os.environ)
        from toolcrib.cli.serve import main as serve
    finally:
        gc.freeze()
        gc.enable()
    return serve(arguments, begun)
