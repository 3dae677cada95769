"""Finds the program of a server.

Knows the search path of a server and the folder of toolcrib's own programs; never knows what one does, and starts none.
"""

import os
import shutil
import sys
from pathlib import Path

from toolcrib.config.settings import StdioTarget


def find_program(target: StdioTarget) -> str | None:
    """Return what to start for a server, as it is written or with its folder; None where there is no such program.

    What the search path does not have is looked for beside toolcrib's own Python: servers that were installed with it,
    as those of the extra ``demo``, are found though nobody has activated its environment.
    """
    return target.command if is_program(target.command, target) else _beside_toolcrib(target.command)


def is_program(command: str, target: StdioTarget) -> bool:
    """Return whether a server could start ``command``, by its own search path and from its own folder."""
    is_bare = Path(command).name == command
    path = command if is_bare or target.cwd is None else str(target.cwd / command)
    return shutil.which(path, path=target.env.get("PATH", os.defpath)) is not None


def _beside_toolcrib(command: str) -> str | None:
    if Path(command).name != command:
        return None
    return shutil.which(command, path=str(Path(sys.executable).parent))
