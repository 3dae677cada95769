"""A client's own command that adds or removes a server, run once with a deadline.

Knows how it is run and what it says when it fails; never knows a client.
"""

import shutil
import subprocess
from collections.abc import Mapping, Sequence

from toolcrib.base.text import one_line
from toolcrib.errors import ToolcribError
from toolcrib.model import JsonObject

_DEADLINE_S = 60
_SAID_MAX = 300


def filled(template: Sequence[str], name: str, entry: str, command: Sequence[str]) -> list[str]:
    """Return the words of a client's command with the name of our entry, the entry and its command filled in."""
    words: list[str] = []
    for word in template:
        words += command if word == "{command}" else [word.replace("{name}", name).replace("{json}", entry)]
    return words


def is_there(program: str, environ: Mapping[str, str]) -> bool:
    """Return whether the search path has a program."""
    return shutil.which(program, path=environ.get("PATH", "")) is not None


def run_client(words: Sequence[str], environ: Mapping[str, str]) -> None:
    """Run a client's command to its end.

    Raises:
        ToolcribError: it failed, or took too long.

    """
    program = shutil.which(words[0], path=environ.get("PATH", "")) or words[0]
    try:
        done = subprocess.run(  # noqa: S603 - what the person asked for, without a shell
            [program, *words[1:]],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_DEADLINE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolcribError(
            f"`{words[0]} {words[1]} {words[2]}` did not work: {one_line(str(error))[:_SAID_MAX]}"
        ) from None
    if done.returncode:
        said = one_line(done.stderr or done.stdout)[:_SAID_MAX]
        raise ToolcribError(f"`{words[0]} {words[1]} {words[2]}` ended with {done.returncode}: {said}")


def shown(entry: JsonObject) -> str:
    """Return an entry of ours as one line of JSON."""
    import json

    return json.dumps(entry, ensure_ascii=False)
