"""A client's own command that adds or removes a server, and the entry that a client starts, each run once.

Knows how they are run, for how long, and what they say when they fail; never knows a client.
"""

import json
import select
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from toolcrib.base.errors import ToolcribError
from toolcrib.base.model import JsonObject
from toolcrib.base.text import one_line

_DEADLINE_S = 60
_SAID_MAX = 300
_GRACE_S = 5


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
        raise ToolcribError(f"`{words[0]} {words[1]} {words[2]}` failed: {one_line(str(error))[:_SAID_MAX]}") from None
    if done.returncode:
        said = one_line(done.stderr or done.stdout)[:_SAID_MAX]
        raise ToolcribError(f"`{words[0]} {words[1]} {words[2]}` ended with {done.returncode}: {said}")


_HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "toolcrib-doctor", "version": "1"},
    },
}


def why_not_answered(words: Sequence[str], environ: Mapping[str, str], within_s: float) -> str:
    """Start what a client would start, shake hands, and end it; return why that did not work, empty where it did."""
    try:
        process = subprocess.Popen(  # noqa: S603 - what stands in the person's own file, as its client starts it
            list(words), env=dict(environ), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except OSError as error:
        return f"{words[0]}: {error.strerror}"
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        process.stdin.write(json.dumps(_HELLO).encode() + b"\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], within_s)
        if not ready:
            return f"no answer within {within_s:.0f} s"
        if b'"result"' in process.stdout.readline():
            return ""
        process.kill()
        said = process.stderr.read().decode("utf-8", "replace").strip().splitlines()
        return one_line(said[-1])[:_SAID_MAX] if said else "it exited without an answer"
    except BrokenPipeError:
        return "it exited immediately"
    finally:
        _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream:
            stream.close()
    try:
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def shown(entry: JsonObject) -> str:
    """Return an entry of ours as one line of JSON."""
    return json.dumps(entry, ensure_ascii=False)
