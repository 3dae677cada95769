"""Converts other clients' variable syntax to toolcrib's.

Knows the spellings of clients and what each stands for; never knows a value of the environment.
Text that the client does not expand must stay as it is: where toolcrib would expand a variable, its ``$`` is written
as a variable that is never set and has a default.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from toolcrib.config.clients.descriptions import Syntax
from toolcrib.config.variables import DOLLAR, variable_name

FILE_MAX_BYTES = 64 * 1024
"""Most that is read of a file whose content takes the place of a variable."""

_TOKEN = re.compile(r"\$\{(?P<braced>[^}]*)\}|\$(?P<bare>[A-Za-z_]\w*)|\{(?P<curly>(?:env|file):[^}]*)\}")
_NAME = re.compile(r"(?P<name>[A-Za-z_]\w*)(?P<default>:-[^$]*)?\Z")


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a client asks the person for, under an id."""

    description: str = ""
    default: str = ""
    is_password: bool = False


@dataclass(frozen=True, slots=True)
class Scene:
    """What the variables of one file stand for: its spellings, the home, the project it is for, and its questions."""

    syntax: Syntax
    home: Path
    folder: Path | None
    prompts: Mapping[str, Prompt] = field(default_factory=dict[str, Prompt])


@dataclass(slots=True)
class Translation:
    """What came up while texts were translated.

    ``asked`` are variables to set, each with what the client asked for; ``inlined`` the contents of files that stand
    there now; ``obstacles`` variables that have no counterpart.
    """

    asked: dict[str, str] = field(default_factory=dict[str, str])
    inlined: list[str] = field(default_factory=list[str])
    obstacles: list[str] = field(default_factory=list[str])


class Translator:
    """Writes texts of one client in toolcrib's words; what came up goes to ``found``."""

    def __init__(self, scene: Scene, found: Translation) -> None:
        self._scene, self._found = scene, found
        self._editor: Mapping[str, Callable[[], str | None]] = {
            "userHome": lambda: "${HOME}",
            "workspaceFolder": self._workspace,
            "workspaceRoot": self._workspace,
            "workspaceFolderBasename": lambda: None if scene.folder is None else scene.folder.name,
            "cwd": self._workspace,
            "pathSeparator": lambda: "/",
            "/": lambda: "/",
        }

    def translate(self, value: Any) -> Any:
        """Return a copy of ``value`` with the variables in all its strings written in toolcrib's words."""
        if isinstance(value, str):
            return _TOKEN.sub(self._written, value)
        if isinstance(value, Mapping):
            return {key: self.translate(member) for key, member in cast("Mapping[str, Any]", value).items()}
        if isinstance(value, list):
            return [self.translate(item) for item in cast("list[Any]", value)]
        return value

    def _written(self, match: re.Match[str]) -> str:
        if match["curly"] is not None:
            return self._curly(match["curly"], match[0]) if Syntax.CURLY in self._scene.syntax else match[0]
        if match["bare"] is not None:
            return f"${{{match['bare']}}}" if Syntax.BARE in self._scene.syntax else match[0]
        known = self._braced(match["braced"], match[0])
        return f"{DOLLAR}{match[0][1:]}" if known is None else known

    def _braced(self, inner: str, whole: str) -> str | None:
        """Return what ``${inner}`` is here; None where the client takes it for text."""
        syntax = self._scene.syntax
        if Syntax.BRACED in syntax and _NAME.match(inner):
            return whole
        if Syntax.INPUT in syntax and inner.startswith("input:"):
            return self._input(inner.removeprefix("input:"))
        if Syntax.EDITOR in syntax and (inner in self._editor or inner.startswith(("env:", "command:", "config:"))):
            known = self._editor[inner]() if inner in self._editor else self._colon(inner)
            return self._refused(whole, whole) if known is None else known
        return self._file(inner.removeprefix("file:"), whole) if self._is_file(inner) else None

    def _is_file(self, inner: str) -> bool:
        return Syntax.FILE in self._scene.syntax and inner.startswith("file:")

    def _colon(self, inner: str) -> str | None:
        """Return what ``env:NAME`` is here; None where it is something else."""
        kind, _, rest = inner.partition(":")
        return f"${{{rest}}}" if kind == "env" and _NAME.match(rest) else None

    def _curly(self, inner: str, whole: str) -> str:
        """Return what ``{env:NAME}`` or ``{file:PATH}`` is here."""
        if inner.startswith("file:"):
            return self._file(inner.removeprefix("file:"), whole)
        return self._colon(inner) or self._refused(whole, whole)

    def _input(self, key: str) -> str:
        name = variable_name(key)
        prompt = self._scene.prompts.get(key, Prompt())
        self._found.asked[name] = prompt.description
        is_plain = prompt.default and not prompt.is_password and "$" not in prompt.default and "}" not in prompt.default
        return f"${{{name}:-{prompt.default}}}" if is_plain else f"${{{name}}}"

    def _file(self, text: str, whole: str) -> str:
        path = Path(text.strip())
        if text.strip().startswith("~/"):
            path = self._scene.home / text.strip()[2:]
        path = (self._scene.folder or self._scene.home) / path
        try:
            with path.open("rb") as file:
                content = file.read(FILE_MAX_BYTES + 1).decode("utf-8").strip()
        except (OSError, ValueError):
            return self._refused(whole, f"the file {text.strip()}, which cannot be read")
        if len(content) > FILE_MAX_BYTES:
            return self._refused(whole, f"the file {text.strip()}, which is too large")
        written = literal(content)
        self._found.inlined.append(written)
        return written

    def _workspace(self) -> str | None:
        return None if self._scene.folder is None else literal(str(self._scene.folder))

    def _refused(self, whole: str, what: str) -> str:
        """Return the variable as it stands, for a person to replace: its server is not to be used until then."""
        self._found.obstacles.append(what)
        return whole


def literal(text: str) -> str:
    """Return ``text`` so that toolcrib reads it as it stands."""
    return text.replace("${", f"{DOLLAR}{{")
