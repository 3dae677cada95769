"""What a skill is called: its slug, its id, its ``skill://`` URI, and the hash that tells one text from another."""

import json
import re
import unicodedata
from dataclasses import asdict, fields
from hashlib import sha256
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from toolcrib.base.model import Skill, SkillScope, SkillText
from toolcrib.skills.sources.files import SKILL_FILE, is_plain

PACK_FILES: dict[str, tuple[str, ...]] = {
    "md": (".skill.md",),
    "yaml": (".skill.yaml", ".skill.yml"),
    "json": (".skill.json",),
    "jsonl": (".skill.jsonl",),
}
"""File name suffixes of pack files, by format (R109)."""

SLUG_MAX = 64
URI_MAX = 4096

_SCHEME = "skill://"
_NOT_SLUG = re.compile(r"[^a-z0-9]+")
_NOT_IN_URI = re.compile(r"[\x00-\x20\x7f?#\\]|%(?![0-9A-Fa-f]{2})")


def slug(text: str) -> str:
    """Return ``text`` as a valid Agent Skills name: ``[a-z0-9]+(-[a-z0-9]+)*``, at most 64 characters.

    Accents are removed. A text without a Latin letter or digit becomes ``skill-`` and 8 hex digits of its hash (C8).
    """
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    made = _NOT_SLUG.sub("-", plain).strip("-")[:SLUG_MAX].rstrip("-")
    return made or f"skill-{_digest(text)[:8]}"


def skill_id(scope: SkillScope, key: str, place: str) -> str:
    """Return the opaque id of the skill at ``place`` in the root with this ``key``: stable across runs (R95)."""
    parts = (scope.mode, scope.tenant_id, scope.project_id, key, place)
    return f"sk_{_digest(json.dumps(parts))[:16]}"


def content_hash(text: SkillText) -> str:
    """Return the SHA-256, in hex, of the content of ``text``, except its own ``content_hash``.

    It is computed over parsed values, so white space and the order of keys in YAML or JSON do not matter (R119).
    """
    said: dict[str, Any] = {each.name: getattr(text, each.name) for each in fields(text)}
    said["tools"] = [asdict(note) for note in text.tools]
    del said["content_hash"]
    return _digest(json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=True))


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def of_repository(skill: Skill) -> bool:
    """Return whether a skill comes from the current repository, whose author may be anybody."""
    return skill.source.partition("-")[0] == "repo"


def server_uri(skill: Skill) -> str:
    """Return the URI under which a server itself knows a skill of its own."""
    return skill_uri("", skill.folder)


def skill_uri(source: str, folder: str, file: str = SKILL_FILE) -> str:
    """Return the URI of a file of the skill in ``folder`` of ``source``; each is a POSIX path, ``folder`` may be empty.

    With ``file`` empty it is the URI of the folder itself.
    """
    return _SCHEME + "/".join(
        quote(segment, safe="", errors="surrogatepass")
        for part in (source, folder, file)
        if part
        for segment in part.split("/")
    )


def parse_uri(uri: str) -> tuple[str, ...] | None:
    """Return the segments of a ``skill://`` URI, percent-decoded once; None if it is invalid or tries path traversal.

    Refused: another scheme, a query or fragment, empty segments, ``.`` and ``..`` however they are spelled, and
    slashes, backslashes, control characters or bytes that are not UTF-8 inside a segment (R183).
    """
    scheme, rest = uri[: len(_SCHEME)], uri[len(_SCHEME) : URI_MAX + 1]
    if scheme.lower() != _SCHEME or len(uri) > URI_MAX or _NOT_IN_URI.search(rest):
        return None
    try:
        segments = tuple(unquote_to_bytes(segment).decode() for segment in rest.split("/"))
    except UnicodeError:
        return None
    return segments if all(map(is_plain, segments)) else None
