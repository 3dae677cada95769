"""The changes of a config that add, remove or enable one server.

Knows the keys that name a server; never knows a file.
"""

from toolcrib.base.json_values import as_list, as_object, value_at
from toolcrib.base.model import JsonObject
from toolcrib.base.text import exact_glob
from toolcrib.config.editing.changes import Change, Drop, Put


def addition(document: JsonObject, name: str, entry: JsonObject) -> list[Change]:
    """Return the changes that add a server, whose tools may be used where servers are allowed by name."""
    changes: list[Change] = [Put(("mcpServers", name), entry)]
    place = ("toolcrib", "policy", "allow")
    allow, glob = value_at(document, place), f"{exact_glob(name)}.*"
    if isinstance(allow, list) and "*" not in allow and glob not in allow:
        changes.append(Put(place, [*allow, glob]))
    return changes


def removal(document: JsonObject, name: str) -> list[Change]:
    """Return the changes that take a server out, with its options and the globs about its tools."""
    section = as_object(document.get("toolcrib"))
    changes: list[Change] = [Drop(("mcpServers", name))]
    if name in as_object(section.get("servers")):
        changes.append(Drop(("toolcrib", "servers", name)))
    policy = as_object(section.get("policy"))
    for key in ("allow", "deny"):
        globs = as_list(policy.get(key))
        kept = [glob for glob in globs if not str(glob).startswith(f"{exact_glob(name)}.")]
        if kept != globs:
            changes.append(Put(("toolcrib", "policy", key), kept))
    return changes


def enabling(document: JsonObject, name: str) -> list[Change]:
    """Return the changes after which a server is in use; none where it is."""
    changes: list[Change] = []
    if value_at(document, ("mcpServers", name, "disabled")) is not None:
        changes.append(Drop(("mcpServers", name, "disabled")))
    options = as_object(value_at(document, place := ("toolcrib", "servers", name)))
    if "enabled" in options:
        changes.append(Drop((*place, "enabled")) if len(options) > 1 else Drop(place))
    return changes


def denies_all(document: JsonObject, name: str) -> bool:
    """Return whether a glob denies every tool of a server."""
    return f"{exact_glob(name)}.*" in as_list(value_at(document, ("toolcrib", "policy", "deny")))
