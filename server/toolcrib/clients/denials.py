"""A client's deny rules for a server's tools, as globs of tool names: denied there must mean denied here."""

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from toolcrib.base.json_values import as_list, as_object
from toolcrib.base.text import exact_glob
from toolcrib.config.foreign import is_allow_list, restricting_keys

_NAME_OF_CALL = re.compile(r"[^(]+")
_YES = ("allow", "allowed", "always", "always_allow", "enabled", "on", "ask", "prompt", "confirm", "auto", "approve")
"""What may run, be it after a question: whether to ask is for the client that calls toolcrib."""
_NO = ("deny", "denied", "never", "disabled", "off", "block", "blocked", "none", "hidden")
_PERMISSION = re.compile(r"mcp__(?P<server>.+?)(?:__(?P<tool>.*))?\Z")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class Denials:
    """Globs of tool names; ``allowed`` None: all but the ``denied``. ``unknown``: keys that were not understood."""

    allowed: tuple[str, ...] | None = None
    denied: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    def narrowed(self, other: "Denials") -> "Denials":
        """Return what both of them allow."""
        if self.allowed is None or other.allowed is None:
            allowed = other.allowed if self.allowed is None else self.allowed
        else:
            # By equality of globs: an intersection of patterns is no pattern, and too little is safer than too much.
            allowed = tuple(glob for glob in self.allowed if glob in other.allowed)
        denied, unknown = (*self.denied, *other.denied), (*self.unknown, *other.unknown)
        return Denials(allowed, tuple(dict.fromkeys(denied)), tuple(dict.fromkeys(unknown)))


def covering_glob(name: str) -> str:
    """Return the glob that fits ``name`` and, where it is a glob already, all that it fits."""
    return name.replace("[", "[[]")


def entry_denials(entry: Mapping[str, Any]) -> Denials:
    """Return what an entry says of its tools: ``excludeTools``, ``includeTools``, ``toolPermissions`` and the like."""
    found = Denials()
    # Goose: a list of the only tools to use, where an empty one says nothing.
    rules = {
        **restricting_keys(entry),
        **({"available_tools": known} if (known := entry.get("available_tools")) else {}),
    }
    for key, value in rules.items():
        found = found.narrowed(_denials(key, value))
    return found


def _denials(key: str, value: Any) -> Denials:
    if isinstance(value, dict):
        return _by_tool(key, cast("dict[str, Any]", value))
    names = as_list(value)
    if not isinstance(value, list) or not all(isinstance(name, str) and name for name in names):
        return Denials() if value == "*" and is_allow_list(key) else Denials(unknown=(key,))
    # Gemini CLI names a tool with arguments too, as in read(path): the tool is what stands before them.
    tools = [_NAME_OF_CALL.match(name) for name in names]
    if not all(tools):
        return Denials(unknown=(key,))
    plain = [tool[0].strip() for tool in tools if tool]
    if key == "available_tools" or is_allow_list(key):
        return Denials(allowed=tuple(dict.fromkeys(map(exact_glob, plain))))
    return Denials(denied=tuple(dict.fromkeys(map(covering_glob, plain))))


def _by_tool(key: str, value: Mapping[str, Any]) -> Denials:
    """Return what an object says of tools by name; under a key that names what may not, true forbids."""
    forbids = key.lower().startswith(("exclud", "disabl", "den", "block", "forbid", "ignor", "hid"))
    denied: list[str] = []
    for name, each in value.items():
        verdict = _may(each)
        # What cannot be understood must not become permission.
        if verdict is None:
            return Denials(unknown=(key,))
        if verdict is forbids:
            denied.append(covering_glob(name))
    return Denials(denied=tuple(denied))


def _may(value: Any) -> bool | None:
    """Return whether a value lets a tool be used; None where its meaning is unknown."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        word = value.lower().replace("-", "_")
        return True if word in _YES else False if word in _NO else None
    about = as_object(value)
    for name in ("enabled", "allowed", "default", "permission", "action"):
        if name in about:
            return _may(about[name])
    # Codex: how a tool is approved, which forbids nothing.
    return True if set(about) <= {"approval_mode", "autoApprove", "alwaysAllow"} else None


@dataclass(frozen=True, slots=True)
class StandingRule:
    """A rule that stands outside of an entry; ``tool`` is a glob of tool names, None all of the server."""

    server: str
    tool: str | None


def standing_rules(document: Mapping[str, Any]) -> Iterator[StandingRule]:
    """Yield the rules about servers and tools that a client's file has beside its servers."""
    yield from _claude(as_list(as_object(document.get("permissions")).get("deny")))
    yield from _zed(as_object(as_object(as_object(document.get("agent")).get("tool_permissions")).get("tools")))
    for profile in as_object(document.get("user")), document:
        yield from _goose(as_list(profile.get("never_allow")))


def _claude(rules: Iterable[Any]) -> Iterator[StandingRule]:
    """Claude Code: ``mcp__server``, ``mcp__server__*``, ``mcp__server__tool``, with names made plain."""
    for rule in rules:
        found = _PERMISSION.match(rule) if isinstance(rule, str) else None
        if found:
            # A rule about some arguments denies the tool as a whole here: never less than its client denies.
            tool = (found["tool"] or "*").partition("(")[0]
            yield StandingRule(found["server"], None if tool == "*" else covering_glob(tool))


def _zed(rules: Mapping[str, Any]) -> Iterator[StandingRule]:
    """Zed: ``mcp:server:tool``."""
    for name, rule in rules.items():
        kind, _, rest = name.partition(":")
        server, _, tool = rest.partition(":")
        if kind == "mcp" and tool and _may(as_object(rule).get("default", "allow")) is not True:
            yield StandingRule(server, covering_glob(tool))


def _goose(rules: Iterable[Any]) -> Iterator[StandingRule]:
    """Goose: ``server__tool``, with names made plain."""
    for rule in rules:
        server, mark, tool = rule.partition("__") if isinstance(rule, str) else ("", "", "")
        if mark and tool:
            yield StandingRule(server, covering_glob(tool))


def opencode_rules(document: Mapping[str, Any], server: str) -> Denials:
    """Return what opencode's ``tools`` and ``permission`` say of a server: globs of ``server_tool``."""
    beginning = f"{_NOT_PLAIN.sub('_', server)}_"
    rules = (*as_object(document.get("tools")).items(), *as_object(document.get("permission")).items())
    # Its globs are over "server_tool", so the rest after the server's name is a glob of tools.
    globs = [pattern for pattern, value in rules if _may(value) is False]
    return Denials(denied=tuple(dict.fromkeys(rest for glob in globs for rest in _after(glob, beginning))))


def _after(glob: str, beginning: str) -> Iterator[str]:
    """Yield the globs of what may follow ``beginning`` in a name that fits ``glob``."""
    if "[" in glob:
        yield "*"  # nothing tells how it is meant
        return
    # Each way to split the glob between the server's name and the tool's, since "*" may cover both.
    for end in range(len(glob) + 1):
        if fnmatch.fnmatchcase(beginning, glob[:end]):
            yield f"*{glob[end:]}" if glob[:end].endswith("*") else glob[end:]


def denied_servers(document: Mapping[str, Any], names: Iterable[str]) -> set[str]:
    """Return which of the named servers lists beside them forbid a client to use."""
    mcp, every = as_object(document.get("mcp")), set(names)
    gone = {*_texts(mcp.get("excluded")), *_texts(document.get("excludeMCPServers"))}
    for only in (mcp.get("allowed"), document.get("allowMCPServers")):
        if only:
            gone |= every - set(_texts(only))
    return every & gone


def switched_off(document: Mapping[str, Any]) -> set[str]:
    """Return the names of the servers that a person has switched off in a client, by lists beside them."""
    return {name for key in ("disabledMcpServers", "disabledMcpjsonServers") for name in _texts(document.get(key))}


def _texts(value: Any) -> list[str]:
    return [each for each in as_list(value) if isinstance(each, str)]


def with_rules(denials: Denials, server: str, rules: Iterable[StandingRule]) -> tuple[Denials, bool]:
    """Return the denials of a server with those rules that are about it, and whether it may be used at all."""
    plain, may = _NOT_PLAIN.sub("_", server), True
    for rule in rules:
        if _NOT_PLAIN.sub("_", rule.server) != plain:
            continue
        may = may and rule.tool is not None
        denials = denials.narrowed(Denials(denied=() if rule.tool is None else (rule.tool,)))
    return denials, may
