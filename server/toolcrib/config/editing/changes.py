"""The changes of a config that add, remove or enable one server."""

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from toolcrib.base.json_values import DocumentError, as_list, as_object, value_at
from toolcrib.base.model import JsonObject
from toolcrib.base.text import exact_glob
from toolcrib.config.documents import parse_any
from toolcrib.config.editing import json_text, toml_text, yaml_text
from toolcrib.config.editing.files import EditRefused
from toolcrib.config.switches import flag, lists_off, name_listed, switches

_BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class SetMember:
    """``value`` becomes the member at ``path``."""

    path: tuple[str, ...]
    value: Any


@dataclass(frozen=True, slots=True)
class RemoveMember:
    """What stands at ``path`` goes."""

    path: tuple[str, ...]


EDITED_MAX_CHARACTERS = 16 * 1024 * 1024
"""The longest text that is edited: it is parsed twice, and compared as a whole."""

Change = SetMember | RemoveMember


def apply_changes(text: str, file: Path, changes: Sequence[Change]) -> str:
    """Return ``text`` of ``file`` with the changes made; its comments, order and formatting stay.

    Raises:
        EditRefused: it is not understood, or an edit would have come to something else than it ought to.

    """
    if len(text) > EDITED_MAX_CHARACTERS:
        raise EditRefused(f"has more than {EDITED_MAX_CHARACTERS:,} characters, the most that toolcrib edits")
    mark = _BOM if text.startswith(_BOM) else ""
    plain = text.removeprefix(_BOM)
    wanted = _document(plain, file)
    editor = _editor_of(file)
    for change in changes:
        try:
            if isinstance(change, SetMember):
                plain = editor.set_member(plain, change.path, change.value)
            else:
                plain = editor.remove_member(plain, change.path)
        except DocumentError as error:
            raise EditRefused(str(error)) from None
        wanted = _with_change(wanted, change)
    # The check that makes the three editors safe: whatever they misread, the file is not written (ADR 31).
    if _without_empty(_document(plain, file)) != _without_empty(wanted):
        raise EditRefused("is written in a way that cannot be edited safely")
    return mark + plain


def _editor_of(file: Path) -> Any:
    suffix = file.suffix.lower()
    if suffix == ".toml":
        return toml_text
    return yaml_text if suffix in (".yaml", ".yml") else json_text


def _document(text: str, file: Path) -> JsonObject:
    try:
        document = parse_any(text, file)
    except (ValueError, RecursionError) as error:
        raise EditRefused(str(error) or "is nested too deeply") from None
    if not isinstance(document, dict):
        raise EditRefused("is not an object")
    # Without what YAML shares between places: each place is changed by itself.
    return cast("JsonObject", json.loads(json.dumps(document, default=str)))


def _with_change(document: JsonObject, change: Change) -> JsonObject:
    """Return a copy of ``document`` with one change made."""
    made = copy.deepcopy(document)
    *way, last = change.path
    holder = made
    for key in way:
        if not isinstance(holder.get(key), dict):
            if isinstance(change, RemoveMember):
                return made
            holder[key] = dict[str, Any]()
        holder = as_object(holder[key])
    if isinstance(change, SetMember):
        holder[last] = copy.deepcopy(change.value)
    else:
        holder.pop(last, None)
    return made


def _without_empty(value: Any) -> Any:
    """Return a value without objects that have nothing in them: to some formats they are the same as none."""
    if not isinstance(value, dict):
        return value
    members = {key: _without_empty(member) for key, member in as_object(value).items()}
    return {key: member for key, member in members.items() if member not in ({}, None)}


def addition(document: JsonObject, name: str, entry: JsonObject) -> list[Change]:
    """Return the changes that add a server, whose tools may be used where servers are allowed by name."""
    changes: list[Change] = [SetMember(("mcpServers", name), entry)]
    place = ("toolcrib", "policy", "allow")
    allow, glob = value_at(document, place), f"{exact_glob(name)}.*"
    # Where servers are allowed by name, a new one would be listed and no tool of it could be used.
    if isinstance(allow, list) and "*" not in allow and glob not in allow:
        changes.append(SetMember(place, [*allow, glob]))
    return changes


def removal(document: JsonObject, name: str) -> list[Change]:
    """Return the changes that take a server out, with its options and the globs about its tools."""
    section = as_object(document.get("toolcrib"))
    changes: list[Change] = [RemoveMember(("mcpServers", name))]
    if name in as_object(section.get("servers")):
        changes.append(RemoveMember(("toolcrib", "servers", name)))
    policy = as_object(section.get("policy"))
    for key in ("allow", "deny"):
        globs = as_list(policy.get(key))
        others = [glob for glob in globs if not str(glob).startswith(f"{exact_glob(name)}.")]
        if others != globs:
            changes.append(SetMember(("toolcrib", "policy", key), others))
    return changes


def enabling(document: JsonObject, name: str) -> list[Change]:
    """Return the changes after which nothing in the config switches a server off; none where nothing does."""
    found = switches(as_object(value_at(document, ("mcpServers", name)))).found
    lists = ((key, names) for key, names in lists_off(document).items() if names)
    changes: list[Change] = [RemoveMember(("mcpServers", name, *each.path)) for each in found if not each.is_on]
    changes += [_off_the_list(document[key], key, name) for key, names in lists if name in names]
    options = as_object(value_at(document, place := ("toolcrib", "servers", name)))
    is_on = flag(options.get("enabled")) is True
    if flag(value_at(document, ("toolcrib", "server_defaults", "enabled"))) is False:
        changes += [] if is_on else [SetMember((*place, "enabled"), value=True)]
    elif "enabled" in options and not is_on:
        changes.append(RemoveMember((*place, "enabled")) if len(options) > 1 else RemoveMember(place))
    return changes


def _off_the_list(listed: Any, key: str, name: str) -> Change:
    """Return the change after which a list of servers that are switched off does not name one."""
    if isinstance(listed, dict):
        return RemoveMember((key, name))
    if isinstance(listed, str):
        return RemoveMember((key,))
    return SetMember((key,), [each for each in as_list(listed) if name_listed(each) != name])


def denies_all(document: JsonObject, name: str) -> bool:
    """Return whether a glob denies every tool of a server."""
    return f"{exact_glob(name)}.*" in as_list(value_at(document, ("toolcrib", "policy", "deny")))
