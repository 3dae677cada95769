"""Whether programs can run here, and the command that installs what they lack into this very installation."""

import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from toolcrib.base.errors import ConfigError, ToolcribError
from toolcrib.base.json_values import as_list, as_object
from toolcrib.base.model import JsonObject
from toolcrib.cli.output import confirmed, load_settings, print_text, print_verbatim

if TYPE_CHECKING:
    from toolcrib.config.settings import Settings

_APP, _EXTRA, _PACKAGE = "toolcrib", "programs", "pydantic-monty"
_OF_EXTRA = re.compile(r"extra == ['\"]programs['\"]")
_SPECIAL = re.compile(r"[^\w.:\\/\[\],=-]")
"""What a shell of Windows takes for something else, but in double quotes."""
_PIPX, _UV = "pipx_metadata.json", "uv-receipt.toml"
"""The files by which these installers know an environment of theirs."""
_SIZE = "42 MB on disk"


@dataclass(frozen=True, slots=True)
class ProgramsState:
    """Whether programs run, and if not, why. ``install``: the words of what a person can run to have it."""

    state: Literal["on", "off"]
    reason: str | None = None
    install: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The state as a person reads it, without the command."""
        return self.state if self.reason is None else f"{self.state}: {self.reason}"

    @property
    def command(self) -> str:
        """What a person can run to have it, as it is typed; empty if nothing helps."""
        return typed(self.install, sys.platform)

    @property
    def as_json(self) -> JsonObject:
        """The state for programs."""
        return {"state": self.state, "reason": self.reason, "install": self.command or None}


def typed(words: Sequence[str], system: str) -> str:
    """Return a command as it is typed in a shell; on Windows, single quotes are none."""
    if system != "win32":
        return shlex.join(words)
    return " ".join(f'"{word}"' if _SPECIAL.search(word) else word for word in words)


def programs_state(settings: "Settings") -> ProgramsState:
    """Return whether ``tool_run`` is offered with these settings."""
    if settings.toolcrib.programs.enabled == "off":
        return ProgramsState("off", "programs.enabled is off")
    if not settings.toolcrib.tool_search.enabled:
        return ProgramsState("off", "tool_search.enabled is false")
    return _installed_state()


def _installed_state() -> ProgramsState:
    """Return whether programs could run here, whatever a config says."""
    from toolcrib.programs import installed

    if installed.are_installed():
        return ProgramsState("on")
    if not installed.can_be_installed():
        return ProgramsState("off", "their interpreter has no build for this machine")
    return ProgramsState("off", f"their extra, toolcrib[{_EXTRA}], is not installed", _install_words())


def offer_programs(config: Path, *, may_ask: bool) -> None:
    """Say what is to be run where programs could be had, or run it, if a person at a terminal says so.

    Raises:
        ToolcribError: it was run, and failed.

    """
    state = _installed_state()
    if not state.install:  # nothing is read where nothing is to be said
        return
    if config.exists():
        try:
            state = programs_state(load_settings(config))
        except ConfigError:  # `config check` reports what is wrong with it
            return
    if not state.install:
        return
    print_text("With programs (tool_run), a model makes many calls by one. What adds their extra:")
    print_verbatim(f"  {state.command}")
    # Windows lets nobody replace the files of a program that runs.
    may_run = may_ask and sys.platform != "win32"
    if may_run and confirmed(f"Run it now? It downloads what takes {_SIZE}.", yes=False, as_json=False):
        _run(state.install)


def _run(words: tuple[str, ...]) -> None:
    import shutil
    import subprocess

    program = shutil.which(words[0])
    if program is None:
        raise ToolcribError(f"{words[0]} is not in the PATH of this shell: run it where it is.")
    done = subprocess.run([program, *words[1:]], check=False)  # noqa: S603 - what the person has just said yes to
    if done.returncode:
        raise ToolcribError(f"It ended with {done.returncode}: programs are not installed. All else is as said above.")
    print_text("Programs are installed; restart the client.")


def _install_words() -> tuple[str, ...]:
    from importlib.metadata import PackageNotFoundError, requires

    try:
        required = requires(_APP) or []
    except PackageNotFoundError:
        required = []
    ours = (each.partition(";")[0].strip() for each in required if _OF_EXTRA.search(each))
    has_pip = find_spec("pip") is not None
    return install_words(Path(sys.prefix), sys.executable, next(ours, _PACKAGE), has_pip=has_pip)


def install_words(prefix: Path, python: str, requirement: str, *, has_pip: bool) -> tuple[str, ...]:
    """Return the command that adds the extra to the environment at ``prefix``, by what has made it.

    ``requirement`` is what the extra brings. Nothing else that the person has chosen changes: versions, other extras,
    the checkout that toolcrib is run from.
    """
    if (prefix / _PIPX).is_file():
        # With runpip, pipx would forget what toolcrib was installed from.
        return ("pipx", "inject", prefix.name, requirement)
    if (extras := _chosen_by_name(prefix / _UV)) is not None:
        # An upgrade by uv removes from a tool what it was not asked for in this way.
        return ("uv", "tool", "install", f"{_APP}[{','.join(sorted({*extras, _EXTRA}))}]")
    if has_pip:
        return (python, "-m", "pip", "install", f"{_APP}[{_EXTRA}]")
    return ("uv", "pip", "install", "--python", python, f"{_APP}[{_EXTRA}]")


def _chosen_by_name(receipt: Path) -> list[str] | None:
    """Return the extras with which uv has installed toolcrib, if it was asked for its name and extras and for no more.

    Asked anew, uv forgets a version, a path, further packages, an index.
    """
    import tomllib

    try:
        tool = as_object(tomllib.loads(receipt.read_text(encoding="utf-8")).get("tool"))
    except (OSError, ValueError):
        return None
    required = [as_object(each) for each in as_list(tool.get("requirements"))]
    if tool.get("options") or len(required) != 1 or not {"name"} <= required[0].keys() <= {"name", "extras"}:
        return None
    return list(map(str, as_list(required[0].get("extras"))))
