"""Options that many commands share.

Knows their spelling, and hands on the process's environment and directory; never knows what a command does.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from toolcrib.config.settings import Settings

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="The config file; see `toolcrib config path` for the default."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Write without asking.")]


def agreed(question: str, *, yes: bool, as_json: bool) -> bool:
    """Return whether something is to be done: the person has said so, or says so now; a program is not asked."""
    return yes or (not as_json and sys.stdin.isatty() and typer.confirm(question, default=True))


def load_settings(path: Path | None) -> "Settings":
    """Return the settings of the config file at ``path``, or of the one that is found.

    Raises:
        ConfigError: the file cannot be used.

    """
    from toolcrib.auth.keyring import SystemKeyring
    from toolcrib.config.loading import load

    return load(path, dict(os.environ), Path.cwd(), SystemKeyring().get)
