"""Programs that download what they run if it is not installed yet.

Knows their names; never knows whether one is downloading at this moment.
"""

from pathlib import PurePath

from toolcrib.config.settings import HttpTarget, StdioTarget

_LAUNCHERS = frozenset({"bunx", "deno", "docker", "go", "npm", "npx", "pipx", "pnpm", "podman", "uv", "uvx", "yarn"})


def may_download(target: StdioTarget | HttpTarget) -> bool:
    """Return whether the start of a server may have to download it first."""
    return isinstance(target, StdioTarget) and PurePath(target.command).stem.lower() in _LAUNCHERS
