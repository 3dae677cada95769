"""Skills as resources: which files of which skills are published, their bytes, digests and sizes (SEP-2640, C12)."""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from mimetypes import MimeTypes

from toolcrib.base.cache import RecentBy
from toolcrib.base.errors import UnknownSkill
from toolcrib.base.model import JsonObject, Skill, SkillProblem, SkillText
from toolcrib.config.settings import Settings
from toolcrib.skills.catalog import SkillCatalog
from toolcrib.skills.formats.agent_skill import conformance, read_agent_skill
from toolcrib.skills.formats.frontmatter import MENDED
from toolcrib.skills.identity import parse_uri, skill_uri
from toolcrib.skills.sources.files import SKILL_FILE, FileDigest, Manifests, decoded, is_skill_file
from toolcrib.skills.text.cleaning import Cleaner
from toolcrib.skills.visible import VisibleSkills

MARKDOWN = "text/markdown"
FOLDER = "inode/directory"

_KNOWN_MAX = 8192
_LISTED_MAX = 20_000
"""Maximum number of listed files of a skill whose files are too many to be read."""
_PLACEHOLDER = re.compile(r"\[(REDACTED_[A-Z]+)\]")
_FIELD = re.compile(r"^(tools|allowed-tools|allowed_tools)[ \t]*:.*\n(?:(?:[ \t-].*|[ \t\r]*|#.*)\n)*", re.MULTILINE)
"""A frontmatter field that lists tools, with all of its lines."""


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """One file of a skill: its path, the SHA-256 of its bytes in hex, and their number."""

    path: str
    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class Published:
    """A published skill. ``files`` None: too many or too large to be listed ("dynamic")."""

    skill: Skill
    frontmatter: JsonObject
    files: tuple[PublishedFile, ...] | None

    @property
    def uri(self) -> str:
        """Return the URI of its SKILL.md."""
        return self.uri_of(SKILL_FILE)

    def uri_of(self, path: str) -> str:
        """Return the URI of one of its files."""
        return skill_uri(self.skill.source, self.skill.folder, path)


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of one resource. ``text`` is None if they are not text."""

    uri: str
    mime_type: str
    data: bytes

    @property
    def text(self) -> str | None:
        """Return the bytes as text, None if they are not text."""
        return decoded(self.data)


@dataclass(frozen=True, slots=True)
class Child:
    """One entry of a folder of a skill."""

    uri: str
    name: str
    mime_type: str
    size: int | None


class Publisher:
    """Publishes the skills of a catalog. Reads files, so it may block; safe to use from several threads."""

    def __init__(self, settings: Settings, catalog: SkillCatalog) -> None:
        self._catalog, self._limits = catalog, settings.toolcrib.limits
        self._publishes_redacted = settings.toolcrib.skills.publish_redacted
        self._manifests = Manifests()
        # Python's own table, without the system's files: a file has the same type on every machine.
        self._types = MimeTypes(())
        self._known = RecentBy[Cleaner, tuple[str, bool, bool, frozenset[str]], PublishedFile | None](_KNOWN_MAX)

    def skills(self, visible: VisibleSkills, cleaner: Cleaner, after: str = "") -> Iterator[Published]:
        """Yield the published skills whose URI comes after ``after``, in the order of their URIs.

        Only valid Agent Skills are listed, as SEP-2640 requires; files of others can still be read (C14).
        """
        by_uri = {skill_uri(skill.source, skill.folder): skill for skill in visible.skills}
        for uri in sorted(by_uri):
            if uri > after and (published := self._published(by_uri[uri], cleaner, strict=True)):
                yield published

    def skill(self, visible: VisibleSkills, cleaner: Cleaner, uri: str) -> Published:
        """Return the published skill whose SKILL.md has this URI.

        Raises:
            UnknownSkill: there is no such skill for this caller.

        """
        skill, path = self._located(visible, uri)
        published = self._published(skill, cleaner, strict=True) if path == SKILL_FILE else None
        if published is None:
            raise UnknownSkill(uri)
        return published

    def read(self, visible: VisibleSkills, cleaner: Cleaner, uri: str) -> tuple[Content, Skill]:
        """Return a file of a published skill, and the skill.

        Raises:
            UnknownSkill: there is no such file for this caller.

        """
        skill, path = self._located(visible, uri)
        try:
            data = self._served(skill, path, cleaner) if self._published(skill, cleaner) else None
        except UnknownSkill:
            data = None
        if data is None:
            raise UnknownSkill(uri)
        return Content(uri, self.mime_type(path), data), skill

    def children(self, visible: VisibleSkills, cleaner: Cleaner, uri: str) -> list[Child]:
        """Return the direct children of a folder of a published skill, by name.

        Raises:
            UnknownSkill: there is no such folder for this caller.

        """
        skill, path = self._located(visible, uri)
        published = self._published(skill, cleaner)
        prefix = f"{path}/" if path else ""
        found: dict[str, Child] = {}
        for file, size in (self._sizes(published, cleaner) if published else {}).items():
            if file.startswith(prefix):
                name, is_folder, _ = file[len(prefix) :].partition("/")
                place = skill_uri(skill.source, skill.folder, prefix + name)
                found[name] = (
                    Child(place, name, FOLDER, None) if is_folder else Child(place, name, self.mime_type(name), size)
                )
        if not found:
            raise UnknownSkill(uri)
        return [found[name] for name in sorted(found)]

    def mime_type(self, path: str) -> str:
        """Return the MIME type for the suffix of a file's name."""
        if path.lower().endswith(".md"):
            return MARKDOWN
        return self._types.guess_type(path)[0] or "application/octet-stream"

    def _located(self, visible: VisibleSkills, uri: str) -> tuple[Skill, str]:
        """Return the innermost visible skill that a URI is inside, and the path within it."""
        segments = parse_uri(uri) or ()
        for length in range(len(segments), 1, -1):
            skill = visible.at(segments[:length])
            if skill is not None:
                return skill, "/".join(segments[length:])
        raise UnknownSkill(uri)

    def _published(self, skill: Skill, cleaner: Cleaner, *, strict: bool = False) -> Published | None:
        """Return the skill as published; None if one of its files must not be served."""
        uri = skill_uri(skill.source, skill.folder)
        # A URI cannot be redacted, because it would no longer resolve: a skill with a denied name in its URI is
        # omitted.
        if (strict and not skill.is_conforming) or cleaner.verbatim(skill, uri) != uri:
            return None
        try:
            head = self._served(skill, SKILL_FILE, cleaner)
            files, is_whole = self._files(skill, cleaner)
        except UnknownSkill:
            return None
        # Parsed from the bytes that are served: hosts verify the frontmatter against them.
        text, problems = read_agent_skill(head or b"", folder_name=_last(skill.folder), path=SKILL_FILE)
        # A manifest lists every file (SEP-2640), so one that must not be served excludes the whole skill.
        if head is None or files is None or text is None or _names_denied(text, cleaner):
            return None
        if strict and not _is_readable_to_all(text, problems, _last(skill.folder)):
            return None
        return Published(skill, text.frontmatter, files if is_whole else None)

    def _files(self, skill: Skill, cleaner: Cleaner) -> tuple[tuple[PublishedFile, ...] | None, bool]:
        """Return the files as served, None if one of them must not be, and whether the list is complete."""
        folder = self._catalog.folder_of(skill)
        if folder is None:
            data = self._served(skill, SKILL_FILE, cleaner)
            return (None if data is None else (_published_file(SKILL_FILE, data),)), True
        manifest = self._manifests.read(folder.real, self._limits, base=folder.base)
        files: list[PublishedFile] = []
        for file in filter(lambda file: folder.has(file.path), manifest.files):
            # The standard requires SKILL.md in the URI, however the file is spelled on disk.
            path = SKILL_FILE if file.path == folder.file_name else file.path
            served = self._known_file(skill, path, file, cleaner) if cleaner.verbatim(skill, path) == path else None
            if served is None:
                return None, True
            files.append(served)
        return tuple(files), not manifest.truncated

    def _sizes(self, published: Published, cleaner: Cleaner) -> dict[str, int | None]:
        """Return the files of a published skill with their sizes as served, None if there are too many to be read."""
        if published.files is not None:
            return {file.path: file.size for file in published.files}
        folder = self._catalog.folder_of(published.skill)
        if folder is None:
            return {}
        # No file is read here, so only the number of names is bounded.
        names_only = {"skill_files": _LISTED_MAX, "skill_files_max_bytes": sys.maxsize}
        try:
            listing = folder.list(self._limits.model_copy(update=names_only))
        except UnknownSkill:
            return {}
        paths = (SKILL_FILE if path == folder.file_name else path for path in listing.files)
        return {path: None for path in paths if cleaner.verbatim(published.skill, path) == path}

    def _known_file(self, skill: Skill, path: str, file: FileDigest, cleaner: Cleaner) -> PublishedFile | None:
        """Return a file as served, None if it must not be; the same bytes are redacted once for equal permissions."""
        # Only in SKILL.md fields that list tools are rewritten: a copy of it under another name is served differently.
        known_files = self._known[cleaner]
        key = file.digest, path == SKILL_FILE, self._is_confirmed(skill, path), cleaner.lost(skill.tools)
        with suppress(KeyError):
            known = known_files[key]
            return known and replace(known, path=path)
        data = self._served(skill, path, cleaner)
        served = None if data is None else _published_file(path, data)
        known_files[key] = served
        return served

    def _is_confirmed(self, skill: Skill, path: str) -> bool:
        return is_skill_file(path) and self._catalog.must_confirm(skill)

    def _served(self, skill: Skill, path: str, cleaner: Cleaner) -> bytes | None:
        """Return a file's bytes as served: redacted if published, None if not."""
        data = self._catalog.read_file(skill, path, self._limits.skill_files_max_bytes)
        text = decoded(data)
        if text is None:
            return data
        if len(data) > self._limits.skill_text_max_bytes:
            return data if cleaner.changes_nothing else None  # redacting it would take too long
        cleaned = cleaner.verbatim(skill, _with_lists_of(text, cleaner) if path == SKILL_FILE else text)
        if cleaned != text and not self._publishes_redacted:
            return None
        if self._is_confirmed(skill, path):
            confirmed = cleaner.confirmed_file(data, self._limits.skill_text_max_bytes)
            return None if confirmed is None else confirmed.encode("utf-8", "surrogatepass")
        return data if cleaned == text else _with_plain_fields(cleaned).encode("utf-8", "surrogatepass")


def _published_file(path: str, data: bytes) -> PublishedFile:
    return PublishedFile(path, sha256(data).hexdigest(), len(data))


def _names_denied(text: SkillText, cleaner: Cleaner) -> bool:
    """Return whether the frontmatter's list of tools names one that the caller may not know of."""
    names = [note.tool for note in text.tools]
    return len(cleaner.tool_names(names)) < len(names)


def _is_readable_to_all(text: SkillText, problems: list[SkillProblem], folder_name: str) -> bool:
    """Return whether what is served follows the format's rules, and every YAML parser finds the same fields in it.

    It may have changed since it was indexed, and a host compares its own result with ours.
    """
    broken = (problem for problem in conformance(text, folder_name) if problem.level == "error")
    return MENDED.isdisjoint(problem.code for problem in problems) and next(broken, None) is None


def _with_plain_fields(text: str) -> str:
    """Return ``text`` with the placeholders in its frontmatter unbracketed: a bracket begins a list in YAML."""
    head, end, rest = text.partition("\n---")
    if not head.startswith("---"):
        return text
    return _PLACEHOLDER.sub(lambda found: found[1].replace(" ", "-"), head) + end + rest


def _with_lists_of(text: str, cleaner: Cleaner) -> str:
    """Return a SKILL.md whose lists of tools name only those that the caller may know of."""
    head, end, rest = text.partition("\n---")
    fields = read_agent_skill(text.encode("utf-8", "surrogatepass"), folder_name="", path=SKILL_FILE)[0]
    if cleaner.changes_no_names or not head.startswith("---") or fields is None:
        return text
    frontmatter = fields.frontmatter

    def written(found: re.Match[str]) -> str:
        listed = cleaner.list_of_tools(frontmatter[found[1]]) if found[1] in frontmatter else None
        is_same = listed is None or listed == frontmatter[found[1]]
        # JSON is YAML too, so the field can be replaced by one line of JSON.
        return found[0] if is_same else f"{found[1]}: {json.dumps(listed, ensure_ascii=False)}\n"

    # The pattern matches whole lines, so the last one temporarily gets a newline.
    return _FIELD.sub(written, f"{head}\n")[:-1] + end + rest


def _last(folder: str) -> str:
    return folder.rpartition("/")[2]
