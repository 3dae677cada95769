"""What a shell offers for a word that is not complete yet: the names of servers.

Knows where names come from; never knows a shell. Whatever is wrong, nothing is offered and nothing is printed.
"""

import typer

from toolcrib.cli.options import load_settings
from toolcrib.errors import ToolcribError


def server_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the servers of the config named before this word, else of the one that is found, that begin so."""
    try:
        servers = load_settings(context.params.get("config")).servers
    except ToolcribError:
        return []
    return [key for key in servers if key.startswith(incomplete)]
