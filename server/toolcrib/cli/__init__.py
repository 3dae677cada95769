"""The command line. ``serve`` is what clients start, so it loads nothing that only people's commands need.

Knows which half of the command line is asked for; never knows what a command does.
"""

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv``, by default that of the process, and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["serve"]:
        from toolcrib.cli.serve import main as serve

        return serve(arguments[1:])
    from toolcrib.cli.app import run

    return run(arguments)
