"""Paths in a config file, and the user's own directories."""

import os
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

_APP = "toolcrib"
USER_FILES = ("toolcrib.yaml", "toolcrib.yml", "toolcrib.json")
"""Names looked for in the user's config directory, the first one there is used."""

VARIABLES_FILE = "toolcrib.env"
"""The file beside a config that ``init --env`` moves secrets to; the config names it."""

MODELS, RUNNING = "models", "running"
"""Folders below :func:`user_cache_root`, which all configs share: downloaded models, and what runs now."""

CONNECTIONS, SECRETS = "connections", "secrets"
"""Folders below :func:`user_data_root`, which all configs share: how clients' files were, and secrets."""

TOKENS = "tokens"
"""The folder of what logins gave, in that of what was decided under one config."""

_UNREADABLE = re.compile(r"[^A-Za-z0-9]+")


def absolute(text: str, base: Path, environ: Mapping[str, str]) -> Path:
    """Return the path that ``text`` means where relative paths start from ``base``; a leading ``~`` is the home."""
    home = environ.get("HOME") or environ.get("USERPROFILE")
    if home and (text == "~" or text.startswith(("~/", "~\\"))):
        text = home + text[1:]
    # Not resolved: a symbolic link is part of what the person wrote, and may move later.
    return Path(os.path.normpath(base / text))


def is_there(file: Path) -> bool:
    """Return whether there is a file; false for one that may not be asked about."""
    try:
        return file.is_file()
    except OSError:
        return False


def user_config_dir(environ: Mapping[str, str]) -> Path:
    """Return the directory in which a person keeps the config file."""
    if environ.get("XDG_CONFIG_HOME"):
        return Path(environ["XDG_CONFIG_HOME"], _APP)
    from platformdirs import user_config_path  # noqa: PLC0415 - a start with --config does not pay for it

    return user_config_path(_APP, appauthor=False)


def user_cache_dir(environ: Mapping[str, str], config: Path | None) -> Path:
    """Return the directory for the index that belongs to one config file, or to having none."""
    return user_cache_root(environ) / folder_of(config)


def user_state_dir(environ: Mapping[str, str], config: Path | None) -> Path:
    """Return the directory for what was decided under one config file, or under none: it is no cache."""
    return user_data_root(environ) / folder_of(config)


def user_model_dir(environ: Mapping[str, str], model: str) -> Path:
    """Return the directory of a fetched model, ``owner/name``; all configs of a person share it."""
    return user_cache_root(environ) / MODELS / model


def user_cache_root(environ: Mapping[str, str]) -> Path:
    """Return the directory of everything that can be made again."""
    if environ.get("XDG_CACHE_HOME"):
        return Path(environ["XDG_CACHE_HOME"], _APP)
    from platformdirs import user_cache_path  # noqa: PLC0415 - a start that names its cache does not pay for it

    return user_cache_path(_APP, appauthor=False)


def user_data_root(environ: Mapping[str, str]) -> Path:
    """Return the directory of everything that cannot be made again."""
    if environ.get("XDG_DATA_HOME"):
        return Path(environ["XDG_DATA_HOME"], _APP)
    from platformdirs import user_data_path  # noqa: PLC0415 - a start that names its directory does not pay for it

    return user_data_path(_APP, appauthor=False)


def folder_of(config: Path | None) -> str:
    """Return the name of the folders that belong to one config file."""
    if config is None:
        return "default"
    # One config reached by two paths has one index; the hash tells apart configs of the same name.
    resolved = Path(os.path.realpath(config))  # unlike Path.resolve, also of a loop of links
    readable = _UNREADABLE.sub("-", f"{resolved.parent.name}-{resolved.stem}").strip("-")[:40]
    return f"{readable}-{sha256(os.fsencode(resolved)).hexdigest()[:12]}"
