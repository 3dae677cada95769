"""Which keys of a config can change while toolcrib runs, and which need a restart.

Knows the keys with which files, sockets and sessions were opened; never knows how a config is applied.
"""

from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from toolcrib.config.http_schema import HttpSection
from toolcrib.config.schema import ToolcribSection
from toolcrib.config.settings import Settings

_FIXED = (
    "cache_dir",
    "state_dir",
    "context",
    "events",
    "reload",
    "tool_search.cache_dir",
    "tool_search.activation_scope",
    "skills.cache_dir",
    *(f"http.{name}" for name in HttpSection.model_fields if name != "tokens"),
    *(f"limits.{name}" for name in ("request_max_bytes", "garbage_lines", "replay_max_bytes")),
    *(f"limits.{name}" for name in ("sessions_kept", "sessions_kept_s", "activations_kept")),
    *(f"limits.{name}" for name in ("results_kept_s", "results_kept_bytes", "results_kept_total_bytes")),
)
"""By these something was opened that outlives a config. Who listens, and whose the files are, stays as it was."""


def settled(before: Settings, after: Settings) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings as they can take the place of others, and the keys that differ and stay as they were."""
    section, fixed = after.toolcrib, list[str]()
    for key in _FIXED:
        value = _at(before.toolcrib, key)
        if _at(section, key) != value:
            fixed.append(key)
            section = _with(section, key.split("."), value)
    # Whether callers are told apart at all was settled when the transport was opened; who they are was not.
    if bool(section.http.tokens) != bool(before.toolcrib.http.tokens):
        fixed.append("http.tokens")
        section = _with(section, ["http", "tokens"], before.toolcrib.http.tokens)
    kept = {"cache_dir": before.cache_dir, "state_dir": before.state_dir, "session_id": before.session_id}
    return replace(after, toolcrib=section, **kept), tuple(fixed)


def _at(section: BaseModel, key: str) -> Any:
    value: Any = section
    for name in key.split("."):
        value = getattr(value, name)
    return value


def _with(section: ToolcribSection, path: list[str], value: Any) -> ToolcribSection:
    """Return a copy in which the key at ``path`` has this value."""
    name, *inner = path
    if inner:
        part = getattr(section, name)
        value = part.model_copy(update={inner[0]: value})
    return section.model_copy(update={name: value})
