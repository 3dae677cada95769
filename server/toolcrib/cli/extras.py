"""Whether programs can run here, and the command that installs what they lack into this very installation."""

import json
import shlex
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from toolcrib.base.errors import ConfigError, ToolcribError
from toolcrib.base.json_values import as_list, as_object
from toolcrib.base.model import JsonObject
from toolcrib.cli.output import confirmed, load_settings, print_text

if TYPE_CHECKING:
    from toolcrib.config.settings import Settings

_APP, _EXTRA = "toolcrib", "programs"
_PIPX, _UV = "pipx_metadata.json", "uv-receipt.toml"
"""The files by which these installers know an environment of theirs."""
_SIZE = "42 MB on disk"


@dataclass(frozen=True, slots=True)
class ProgramsState:
    """Whether ``tool_run`` is offered, and if not, why. ``install``: the words of what a person can run to have it."""

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
        return shlex.join(self.install)

    @property
    def as_json(self) -> JsonObject:
        """The state for programs."""
        return {"state": self.state, "reason": self.reason, "install": self.command or None}


def programs_state(settings: "Settings") -> ProgramsState:
    """Return whether programs can run with these settings."""
    from toolcrib.programs import installed

    section = settings.toolcrib
    if section.programs.enabled == "off":
        return ProgramsState("off", "programs.enabled is off")
    if not section.tool_search.enabled:
        return ProgramsState("off", "tool_search.enabled is false")
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
    try:
        state = programs_state(load_settings(config if config.exists() else None))
    except ConfigError:  # `config check` reports what is wrong with it
        return
    if not state.install:
        return
    print_text("With programs (tool_run), a model makes many calls by one. What adds their extra:")
    print_text(f"  {state.command}")
    if may_ask and confirmed(f"Run it now? It downloads what takes {_SIZE}.", yes=False, as_json=False):
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
    print_text("Programs are installed.")


def _install_words() -> tuple[str, ...]:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        direct = distribution(_APP).read_text("direct_url.json")
    except PackageNotFoundError:
        direct = None
    return install_words(Path(sys.prefix), sys.executable, direct_url=direct, has_pip=find_spec("pip") is not None)


def install_words(prefix: Path, python: str, *, direct_url: str | None, has_pip: bool) -> tuple[str, ...]:
    """Return the command that adds the extra to the environment at ``prefix``, by what has made it.

    ``direct_url`` is the text of the file of this name (PEP 610), where toolcrib was not installed by its name.
    """
    if (prefix / _PIPX).is_file():
        return ("pipx", "runpip", prefix.name, "install", f"{_APP}[{_EXTRA}]")
    if (prefix / _UV).is_file():
        # An upgrade of uv removes from a tool what its receipt does not have.
        return ("uv", "tool", "install", _required(prefix / _UV, direct_url))
    if has_pip:
        return (python, "-m", "pip", "install", f"{_APP}[{_EXTRA}]")
    return ("uv", "pip", "install", "--python", python, f"{_APP}[{_EXTRA}]")


def _required(receipt: Path, direct_url: str | None) -> str:
    """Return what uv is to install in place of what its receipt says: the same, with the extra."""
    import tomllib

    extras, url = {_EXTRA}, ""
    with suppress(OSError, ValueError):
        tool = as_object(tomllib.loads(receipt.read_text(encoding="utf-8")).get("tool"))
        named = [each for each in map(as_object, as_list(tool.get("requirements"))) if each.get("name") == _APP]
        extras.update(str(extra) for each in named for extra in as_list(each.get("extras")))
    with suppress(ValueError):
        url = str(as_object(json.loads(direct_url or "")).get("url") or "")
    return f"{_APP}[{','.join(sorted(extras))}]" + (f" @ {url}" if url else "")
