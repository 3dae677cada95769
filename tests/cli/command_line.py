"""What tests of the command line share.

Knows what running a command gives; never knows a command.
"""

from collections.abc import Callable

Run = Callable[..., tuple[int, str, str]]
"""Runs the command line with some arguments, and returns the exit code, stdout and stderr."""
