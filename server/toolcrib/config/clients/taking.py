"""Writes a draft to toolcrib's config, and the secrets moved out of it to a file of their own.

Knows the files to write; never knows what a client has.
"""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from toolcrib.base.errors import ToolcribError
from toolcrib.base.model import JsonObject
from toolcrib.config.clients.drafting import Unfit
from toolcrib.config.documents import read
from toolcrib.config.editing.changes import Change, changed
from toolcrib.config.editing.files import PRIVATE_MODE, EditRefused, read_original, replace_file
from toolcrib.config.findings import Findings
from toolcrib.config.schema import ToolcribSection
from toolcrib.config.servers import ServerReader


def existing_document(path: Path) -> JsonObject:
    """Return what a config has as it is written, nothing where there is none.

    Raises:
        ConfigError: it is there, and cannot be read.

    """
    return read(path)[0] if path.exists() else {}


def check_entry(environ: Mapping[str, str]) -> Unfit:
    """Return what says why an entry would make a config unusable."""

    def unfit(key: str, entry: JsonObject) -> str:
        findings = Findings()
        ServerReader(ToolcribSection(), environ, Path(), findings).read(key, entry)
        return "; ".join(str(problem) for problem in findings.problems)

    return unfit


def write_config(path: Path, changes: Sequence[Change], *, is_private: bool) -> None:
    """Make ``changes`` in the config at ``path``, which only its owner can read where it is new or ``is_private``.

    Raises:
        ToolcribError: it cannot be changed, or not be written.

    """
    try:
        original = read_original(path)
        text = changed(original.text, path, changes)
        mode = PRIVATE_MODE if is_private or original.content is None else None
        replace_file(path, text.encode(), mode=mode)
    except EditRefused as error:
        raise ToolcribError(f"{path} {error}. Nothing was written.") from None
    except OSError as error:
        raise ToolcribError(f"{path} cannot be written: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ToolcribError(f"{path} is not UTF-8 text. Nothing was written.") from None


def write_variables(path: Path, variables: Mapping[str, str]) -> None:
    """Add variables to a file of lines for a shell, which only its owner can read.

    Raises:
        ToolcribError: it cannot be written.

    """
    try:
        before = (read_original(path).content or b"").decode("utf-8", "surrogateescape")
        lines = [line for line in before.splitlines() if line.partition("=")[0] not in variables]
        lines += [f"{name}={shlex.quote(value)}" for name, value in variables.items()]
        replace_file(path, ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape"), mode=PRIVATE_MODE)
    except OSError as error:
        raise ToolcribError(f"{path} cannot be written: {error.strerror}") from error
