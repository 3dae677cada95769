"""Variables in the strings of a config: ``${VAR}``, ``${VAR:-default}``, ``${file:PATH}``, ``${keyring:NAME}``.

Knows their spelling, the environment and the references that it is given; never knows what a string is for.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from toolcrib.base.errors import Problem
from toolcrib.config.findings import join
from toolcrib.config.references import MissingSecret, References

VARIABLE = re.compile(r"\$\{([^}]*)\}")
"""What looks like a variable, with what stands inside."""
DOLLAR = "${TOOLCRIB_DOLLAR:-$}"
"""How ``$`` is written where ``${`` would begin a variable of toolcrib's."""
_KNOWN = re.compile(r"(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>(?:(?!\$\{).)*))?", re.DOTALL)
_REFERENCE = re.compile(
    r"(?P<kind>file|keyring):(?P<name>(?:(?!:-|\$\{).)+)(?::-(?P<default>(?:(?!\$\{).)*))?", re.DOTALL
)
_FOREIGN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*:")
_NOT_IN_NAME = re.compile(r"\W+")


def variable_name(key: str) -> str:
    """Return a name for an environment variable, made of any key: ``github-token`` is ``GITHUB_TOKEN``."""
    name = _NOT_IN_NAME.sub("_", key).strip("_").upper()
    if not name.isascii() or not name:
        name = "".join(char if char.isascii() else "_" for char in name).strip("_") or "VALUE"
    return f"_{name}" if name[0].isdigit() else name


class Variables:
    """Fills in the variables of one part of a config file.

    ``missing`` holds a problem for each variable that is not set, ``values`` the values that were filled in, and
    ``secrets`` those among them that a reference stood for.
    A value is never looked at again: text that comes from a variable is not expanded.
    """

    def __init__(self, environ: Mapping[str, str], references: References | None = None) -> None:
        self.missing: list[Problem] = []
        self.values: list[str] = []
        self.secrets: list[str] = []
        self._environ = environ
        self._references = references or References(environ, Path())

    def fill(self, value: Any, path: str) -> Any:
        """Return a copy of ``value`` with the variables in all its strings filled in; ``path`` says where it stands."""
        if isinstance(value, str):
            return VARIABLE.sub(lambda match: self._value(match, path), value) if "${" in value else value
        if isinstance(value, Mapping):
            members = cast("Mapping[str, Any]", value)
            return {key: self.fill(member, join(path, key)) for key, member in members.items()}
        if isinstance(value, list):
            items = cast("list[Any]", value)
            return [self.fill(item, join(path, number)) for number, item in enumerate(items)]
        return value

    def _value(self, match: re.Match[str], path: str) -> str:
        if reference := _REFERENCE.fullmatch(match[1]):
            return self._referred(reference, path)
        known = _KNOWN.fullmatch(match[1])
        if known is None:
            # Only what looks like another client's variable, such as ${input:token}, is a mistake; all else in braces
            # may be meant as it stands.
            if _FOREIGN.match(match[1]):
                hint = "write ${NAME}, ${NAME:-default}, ${file:PATH} or ${keyring:NAME}"
                self.missing.append(Problem(path, f"{match[0]} is not a variable that toolcrib knows", hint))
            return match[0]
        name, default = known["name"], known["default"]
        value = self._environ.get(name)
        # As in a shell, an empty value counts as none where there is a default.
        if default is not None and not value:
            return default
        if value is None:
            hint = f"set it, or write ${{{name}:-default}}"
            self.missing.append(Problem(path, f"the variable {name} is not set", hint))
            return ""
        self.values.append(value)
        return value

    def _referred(self, reference: re.Match[str], path: str) -> str:
        kind, name, default = reference["kind"], reference["name"], reference["default"]
        try:
            value = self._references.value(kind, name)
        except MissingSecret as missing:
            if default is not None:
                return default
            self.missing.append(Problem(path, missing.reason, missing.hint))
            return ""
        self.secrets.append(value)
        self.values.append(value)
        return value
