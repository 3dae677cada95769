"""The state of a running toolcrib, as values and as the JSON in its file.

Knows the fields and how they are written; never knows where the file is, or how its values are determined.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from toolcrib.base.json_values import as_list, as_object
from toolcrib.base.model import JsonObject

SESSIONS_MAX, NAMES_MAX = 50, 100
"""Maximum number of reported sessions, the most recently active ones; and of names in one list."""


@dataclass(frozen=True, slots=True)
class RunningSkill:
    """One active skill: its label, and the public names and states of the tools that it names."""

    name: str
    tools: Mapping[str, str]

    @property
    def as_json(self) -> JsonObject:
        """Return it as a JSON object."""
        return {"name": self.name, "tools": dict(self.tools)}


@dataclass(frozen=True, slots=True)
class RunningSession:
    """One session: its label in events, its client's name, its kind of list, and its activity.

    Times are seconds since the epoch; ``active`` is the time of its last request. ``activated`` are public names of
    tools, ``skills`` those that it received, each the last :data:`NAMES_MAX`; ``active_skills`` are active now.
    """

    label: str
    client: str
    listing: str
    began: float
    active: float
    searches: int
    calls: int
    failed: int
    activated: tuple[str, ...]
    skills: tuple[str, ...]
    active_skills: tuple[RunningSkill, ...]

    @property
    def as_json(self) -> JsonObject:
        """Return it as a JSON object."""
        return {
            "session": self.label,
            "client": self.client,
            "listing": self.listing,
            "began": _text(self.began),
            "active": _text(self.active),
            "searches": self.searches,
            "calls": self.calls,
            "failed": self.failed,
            "activated": list(self.activated),
            "skills": list(self.skills),
            "active_skills": [each.as_json for each in self.active_skills],
        }


@dataclass(frozen=True, slots=True)
class RunningServer:
    """One server: its state, the reason, if there is one, and since when."""

    key: str
    state: str
    reason: str
    since: float

    @property
    def as_json(self) -> JsonObject:
        """Return it as a JSON object."""
        return {"server": self.key, "state": self.state, "reason": self.reason, "since": _text(self.since)}


@dataclass(frozen=True, slots=True)
class RunningCrib:
    """One process. ``told`` is when it wrote this record, ``memory_bytes`` its memory use then; None if unknown.

    ``transport`` is ``stdio`` or ``http``, ``address`` its address over HTTP. ``sessions`` are the most recently
    active, latest first, of ``session_count`` in all. ``reload_failure`` says why its config could not be reloaded.
    """

    pid: int
    version: str
    transport: str
    address: str
    config: str
    began: float
    told: float
    memory_bytes: int | None
    session_count: int
    sessions: tuple[RunningSession, ...]
    servers: tuple[RunningServer, ...]
    reload_failure: str = ""

    @property
    def as_json(self) -> JsonObject:
        """Return it as a JSON object."""
        return {
            "pid": self.pid,
            "version": self.version,
            "transport": self.transport,
            "address": self.address or None,
            "config": self.config,
            "began": _text(self.began),
            "told": _text(self.told),
            "memory_bytes": self.memory_bytes,
            "calls": sum(each.calls for each in self.sessions),
            "failed": sum(each.failed for each in self.sessions),
            "session_count": self.session_count,
            "sessions": [each.as_json for each in self.sessions],
            "servers": [each.as_json for each in self.servers],
            "reload_failure": self.reload_failure or None,
        }


def crib_of(document: Any) -> RunningCrib | None:
    """Parse the file of a running toolcrib; None if it is not in this version's format."""
    raw = as_object(document)
    try:
        memory = raw["memory_bytes"]
        return RunningCrib(
            pid=int(raw["pid"]),
            version=str(raw["version"]),
            transport=str(raw["transport"]),
            address=str(raw["address"] or ""),
            config=str(raw["config"]),
            began=_seconds(raw["began"]),
            told=_seconds(raw["told"]),
            memory_bytes=None if memory is None else int(memory),
            session_count=int(raw["session_count"]),
            sessions=tuple(_session(as_object(each)) for each in as_list(raw["sessions"])),
            servers=tuple(_server(as_object(each)) for each in as_list(raw["servers"])),
            reload_failure=str(raw["reload_failure"] or ""),
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _session(raw: JsonObject) -> RunningSession:
    return RunningSession(
        label=str(raw["session"]),
        client=str(raw["client"]),
        listing=str(raw["listing"]),
        began=_seconds(raw["began"]),
        active=_seconds(raw["active"]),
        searches=int(raw["searches"]),
        calls=int(raw["calls"]),
        failed=int(raw["failed"]),
        activated=_names(as_list(raw["activated"])),
        skills=_names(as_list(raw["skills"])),
        active_skills=tuple(_skill(as_object(each)) for each in as_list(raw["active_skills"])),
    )


def _skill(raw: JsonObject) -> RunningSkill:
    return RunningSkill(str(raw["name"]), {name: str(state) for name, state in as_object(raw["tools"]).items()})


def _server(raw: JsonObject) -> RunningServer:
    return RunningServer(str(raw["server"]), str(raw["state"]), str(raw["reason"]), _seconds(raw["since"]))


def _names(raw: Iterable[Any]) -> tuple[str, ...]:
    return tuple(map(str, raw))


def _text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
