"""One hash over everything that identifies a server and determines its rows in the index.

Knows what counts as a change of a server; never knows what a tool is. Secrets go into it as hashes only.
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

from toolcrib.config.schema import ServerEntry, ServerSection, ToolcribSection
from toolcrib.config.scoping import scoped_globs


def fingerprint(entry: ServerEntry, options: ServerSection, section: ToolcribSection) -> str:
    """Return the hash of an entry, its options and the general settings that shape rows, as 64 hex digits.

    The variables of ``entry`` are filled in, and its ``type`` is ``stdio``, ``http`` or ``sse``.
    """
    identity: dict[str, Any] = {
        "target": _target(entry),
        "options": options.model_dump(exclude={"isolation", "auth"}),
        "policy": section.policy.model_dump(),
        "tool_examples": section.tool_examples.model_dump(),
        "loading": [section.tool_search.default_loading_mode, section.tool_search.always_loaded_patterns],
        "limits": [
            section.limits.name_max,
            section.limits.tools_per_server,
            section.limits.definition_max_bytes,
        ],
    }
    if globs := scoped_globs(section):
        identity["scoped"] = globs
    if options.auth is not None:  # who logs in may see other tools
        identity["auth"] = _digest(options.auth.model_dump_json(exclude={"redirect_port"}))
    return _digest(json.dumps(identity, sort_keys=True, separators=(",", ":")))


def _target(entry: ServerEntry) -> dict[str, Any]:
    if entry.url is None:
        return {
            "command": entry.command,
            "args": entry.args,
            "cwd": entry.cwd,
            "env": _hashed(entry.env or {}),
        }
    url = urlsplit(entry.url)
    userinfo, _, address = url.netloc.rpartition("@")
    return {
        "type": entry.type,
        "url": url._replace(netloc=address, query="", fragment="").geturl(),
        "hashed": [_digest(userinfo), _digest(url.query)],
        # Names of headers are the same in any case.
        "headers": _hashed({name.lower(): value for name, value in (entry.headers or {}).items()}),
    }


def _hashed(values: Mapping[str, str]) -> dict[str, str]:
    return {name: _digest(value) for name, value in values.items()}


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
