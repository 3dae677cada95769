"""Rules that a client keeps beside its servers: denied there must mean denied here."""

import fnmatch
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.base.json_values import as_list, as_object, value_at
from toolcrib.config.rule_words import may_be_used
from toolcrib.config.switches import lists_off, switches
from toolcrib.config.tool_rules import Denials, combined, covering_glob, globs_after, rules_of_list

_PERMISSION = re.compile(r"mcp__(?P<server>.+?)(?:__(?P<tool>.*))?\Z")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_-]")
_NOT_PLAIN_GLOB = re.compile(r"[^A-Za-z0-9_*-]")


@dataclass(frozen=True, slots=True)
class StandingRule:
    """A rule that stands outside of an entry; ``tool`` is a glob of tool names, None all of the server.

    ``server`` may be a glob too: Claude Code's ``mcp__*``.
    """

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
        if kind == "mcp" and tool and may_be_used(as_object(rule).get("default")) is not True:
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
    globs = [pattern for pattern, value in rules if may_be_used(value) is False]
    return Denials(denied=tuple(dict.fromkeys(rest for glob in globs for rest in globs_after(glob, beginning))))


_LISTED = (("excludeTools",), ("tools", "exclude"), ("amp.tools.disable",), ("options", "disabled_tools"))
"""Where Gemini CLI and Qwen Code, Amp and Crush name tools that no server may offer."""


def listed_denials(document: Mapping[str, Any], servers: Collection[str]) -> dict[str, Denials]:
    """Return what lists for all ``servers`` deny of each: tools named alone, and those named with that server."""
    found = dict.fromkeys(servers, Denials())
    for place in _LISTED:
        listed, path = value_at(document, place), ".".join(place)
        names = _texts(listed)
        # tools: {exclude: false} is opencode's, of a tool.
        is_read = listed in (None, False) or (isinstance(listed, list) and len(names) == len(as_list(listed)))
        unread = Denials() if is_read else Denials(unknown=(path,))
        # Of tools of the client itself, the arguments may be anything.
        tools = [name.partition("(")[0].strip() for name in names if not name.startswith("builtin:")]
        rules = rules_of_list(tools, servers, path)
        found = {server: combined((before, unread, rules[server])) for server, before in found.items()}
    return found


def denied_servers(document: Mapping[str, Any], names: Iterable[str]) -> set[str]:
    """Return which of the named servers lists beside them forbid a client to use."""
    mcp, every = as_object(document.get("mcp")), set(names)
    gone = {*_texts(mcp.get("excluded")), *_texts(document.get("excludeMCPServers"))}
    for only in (mcp.get("allowed"), document.get("allowMCPServers")):
        if only:
            gone |= every - set(_texts(only))
    return every & gone


def switched_off(documents: Iterable[Mapping[str, Any]], *, in_project: bool) -> set[str]:
    """Return the names of the servers that a person has switched off in a client, by lists beside their entries."""
    lists = [listed for document in documents for listed in lists_off(document).items()]
    # Claude Code's disabledMcpjsonServers is about the .mcp.json of a project.
    return {name for key, names in lists if in_project or "json" not in key.lower() for name in names or ()}


def gemini_off(documents: Iterable[Mapping[str, Any]], names: Iterable[str]) -> set[str]:
    """Return which of the named servers Gemini CLI's file ``mcp-server-enablement.json`` switches off."""
    off = {name for document in documents for name, each in document.items() if switches(as_object(each)).off}
    # It has names in lower case.
    return {name for name in names if name.lower().strip() in off}


def _texts(value: Any) -> list[str]:
    return [each for each in as_list(value) if isinstance(each, str)]


def with_rules(denials: Denials, server: str, rules: Iterable[StandingRule]) -> tuple[Denials, bool]:
    """Return the denials of a server with those rules that are about it, and whether it may be used at all."""
    plain, may = _NOT_PLAIN.sub("_", server), True
    for rule in rules:
        if not fnmatch.fnmatchcase(plain, _NOT_PLAIN_GLOB.sub("_", rule.server)):
            continue
        may = may and rule.tool is not None
        denials = denials.narrowed(Denials(denied=() if rule.tool is None else (rule.tool,)))
    return denials, may
