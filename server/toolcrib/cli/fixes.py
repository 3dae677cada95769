"""The commands that mend what ``doctor`` finds: each is shown, asked about, and carried out.

None of them logs in, deletes anything, or takes a server out of a client (R333).
"""

import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from toolcrib.base.errors import ToolcribError
from toolcrib.base.model import JsonObject
from toolcrib.cli.output import confirmed, print_text


@dataclass(frozen=True, slots=True)
class Fix:
    """One command, as its words: ``toolcrib …``, or one of the few of a shell that are carried out here.

    ``is_choice``: it is one of several ways, or gives something up, so that only a person's own yes runs it.
    """

    words: tuple[str, ...]
    is_choice: bool = False

    @property
    def command(self) -> str:
        """The command as a person types it."""
        return shlex.join(self.words)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a command: whether it was ``run``, and the ``error`` with which it ended, empty if it worked."""

    command: str
    run: bool
    error: str = ""

    @property
    def as_json(self) -> JsonObject:
        """What a program is told."""
        return {"command": self.command, "run": self.run, "error": self.error}


def carry_out(fixes: Iterable[Fix], config: Path | None, *, yes: bool, as_json: bool) -> Iterator[Outcome]:
    """Run each command after a yes of the person, and yield what became of it.

    ``yes`` is that yes for all but those that are a choice. A program is not asked.
    """
    for fix in fixes:
        # A pressed Enter must not give anything up.
        is_wanted = confirmed(
            f"Run `{fix.command}`?", yes=yes and not fix.is_choice, as_json=as_json or yes, default=not fix.is_choice
        )
        if not is_wanted:
            yield Outcome(fix.command, run=False)
            continue
        if yes and not as_json:
            print_text(f"Running {fix.command}")
        try:
            _run(fix.words, config, yes=yes, as_json=as_json)
        except OSError as error:
            yield Outcome(fix.command, run=True, error=str(error.strerror))
        except ToolcribError as error:
            yield Outcome(fix.command, run=True, error=str(error))
        else:
            yield Outcome(fix.command, run=True)


def _run(words: tuple[str, ...], config: Path | None, *, yes: bool, as_json: bool) -> None:
    """Carry out a command.

    Raises:
        ToolcribError: it failed.
        OSError: a file cannot be changed.

    """
    match words:
        case ("mkdir", "-p", folder):
            from toolcrib.storage.files import private_directory

            private_directory(Path(folder))
        case ("chmod", "600", file):
            Path(file).chmod(0o600)
        case ("chmod", "u+w", file):
            Path(file).chmod(Path(file).stat().st_mode | 0o200)
        case ("mv", file, aside):
            Path(file).rename(aside)
        # Named one by one: none of them logs in, deletes, or takes a server out of a client.
        case ("toolcrib", "init") | ("toolcrib", "connect", _):
            # These show what they are about to write, and ask.
            _run_ours([*words[1:], *(["--yes"] if yes else [])], config, as_json=as_json)
        case ("toolcrib", "disable", _) | ("toolcrib", "index", "refresh"):
            _run_ours(list(words[1:]), config, as_json=as_json)
        case _:
            raise ToolcribError("it is left to you")


def _run_ours(arguments: list[str], config: Path | None, *, as_json: bool) -> None:
    from toolcrib.cli.app import run

    named = [] if config is None else ["--config", str(config)]
    # Of a program that reads our JSON, stdout is for that alone.
    with redirect_stdout(sys.stderr if as_json else sys.stdout):
        code = run([*arguments, *named])
    if code:
        raise ToolcribError(f"it ended with {code}")
