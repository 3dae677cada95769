"""Which variables of toolcrib's environment a server gets.

Knows the names that are safe or needed; never knows a server.
"""

import sys
from collections.abc import Iterable, Mapping

from toolcrib.base.text import glob_matcher
from toolcrib.config.nesting import PARENT_MARKER

SAFE_POSIX = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
SAFE_WINDOWS = (
    "APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE",
    "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE",
)  # fmt: skip
"""What the MCP SDK passes on: its ``mcp.client.stdio.DEFAULT_INHERITED_ENV_VARS``."""

NEEDED = (
    "LANG", "LC_*", "TZ", "TMPDIR", "XDG_*", "*_PROXY", "*_proxy", "SSL_*", "NODE_EXTRA_CA_CERTS",
    "PIP_*", "UV_*", "npm_config_*", "SSH_AUTH_SOCK",
)  # fmt: skip
"""Globs of what servers need besides, to reach the network and to find packages."""


def safe_names(platform: str = sys.platform) -> tuple[str, ...]:
    """Return the names that every server gets, which hold no secrets."""
    return SAFE_WINDOWS if platform == "win32" else SAFE_POSIX


class ChildEnvironments:
    """The environments of servers, out of that of toolcrib. Shell functions, whose values begin with ``()``, stay."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._everybody = self._inherited((*safe_names(), *NEEDED))

    def of(self, inherit: Iterable[str], own: Mapping[str, str]) -> dict[str, str]:
        """Return the whole environment of a server: what it inherits, its ``own``, and the marker against nesting.

        ``inherit`` are globs of more names than every server gets.
        """
        return {**self._everybody, **self._inherited(inherit), **own, PARENT_MARKER: "1"}

    def _inherited(self, globs: Iterable[str]) -> dict[str, str]:
        wanted = glob_matcher(globs)
        return {name: value for name, value in self._environ.items() if wanted(name) and not value.startswith("()")}
