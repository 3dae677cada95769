"""Skills that a server offers as resources: found by the skills extension or in its list, and read within bounds.

Three forms are known: ``skills/list`` (SEP-2640), resources ``skill://NAME/SKILL.md`` with or without a ``_manifest``
(FastMCP), and ``skill://index.json`` (an older draft). Nothing of them is run, and no path is taken from them here.
"""

import base64
import binascii
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import islice
from typing import Any, TypeGuard
from urllib.parse import quote

import anyio
import anyio.to_thread
from mcp import MCPError

from toolcrib.base.errors import ConnectionLost, DownstreamError
from toolcrib.base.json_values import as_list, as_object
from toolcrib.base.model import JsonObject, Refused
from toolcrib.base.text import one_line, truncate
from toolcrib.config.schema import LimitsSection
from toolcrib.downstream.connection import Challenged, Connection, Undelivered, capabilities_of
from toolcrib.downstream.lists import ListBounds
from toolcrib.downstream.offers import SKILLS_EXTENSION
from toolcrib.downstream.states import OfferedSkill, OfferedSkills

_SCHEME, _SKILL_FILE, _MANIFEST, _INDEX = "skill://", "/SKILL.md", "/_manifest", "skill://index.json"
_URI_MAX, _SHOWN_MAX = 4096, 80
_REFUSED_MAX = 100
"""Maximum number of skills whose refusal is told one by one."""
_AT_A_TIME = 3
"""Files of one skill that are requested at a time: each answer may be as large as a message."""
_ENDED = (ConnectionLost, Undelivered, Challenged)
"""The server went away, or wants a login first: what is missing says nothing about its skills."""


@dataclass(frozen=True, slots=True)
class _File:
    """A file that a server names: its URI, and if its server promises them, its SHA-256 in hex and its size."""

    uri: str
    digest: str | None = None
    size: int | None = None


class _RefusedError(Exception):
    """The skill is left out; the text says why."""


async def read_skills(
    connection: Connection, resources: Sequence[Any], limits: LimitsSection, timeout_s: float
) -> OfferedSkills:
    """Return the skills of a server that lists these ``resources``; each request may take ``timeout_s``.

    Never raises for what a server does: what it cannot or must not give is left out, with the reason.
    """
    reading = _Reading(connection, limits, timeout_s)
    is_complete = False
    with anyio.move_on_after(limits.server_skills_timeout_s):
        is_complete = await reading.run(resources)
    return OfferedSkills(tuple(reading.skills), tuple(reading.refused), is_complete)


_FindFiles = Callable[[], Awaitable[tuple[_File, ...]]]


class _Reading:
    """One reading of all skills of a server. ``skills`` and ``refused`` are what is known so far."""

    def __init__(self, connection: Connection, limits: LimitsSection, timeout_s: float) -> None:
        self.skills: list[OfferedSkill] = []
        self.refused: list[Refused] = []
        self._connection, self._limits, self._timeout_s = connection, limits, timeout_s
        self._left = limits.server_skills_max_bytes
        self._is_cut = False

    async def run(self, resources: Sequence[Any]) -> bool:
        """Read them; return whether the server was there to the end."""
        try:
            found = await self._found(resources)
            most = self._limits.server_skills
            # In the order of their URIs: which are left out must not depend on the order of a list.
            for uri in sorted(found)[:most]:
                await self._read(uri, await found[uri]())
            if len(found) > most:
                self._refuse(f"{len(found) - most} more skills", f"limits.server_skills is {most}")
        except _ENDED:
            return False
        except (_RefusedError, MCPError, DownstreamError, ValueError, TimeoutError) as error:
            self._refuse("skills", f"their list cannot be read: {error}")
            return False
        return not self._is_cut

    # -- which there are -------------------------------------------------------------------------

    async def _found(self, resources: Sequence[Any]) -> Mapping[str, _FindFiles]:
        """Return the URI of each SKILL.md, with a function that finds the files of its skill."""
        if SKILLS_EXTENSION in (capabilities_of(self._connection.session).extensions or {}):
            listed = await self._listed()
            return {uri: partial(self._promised, files) for uri, files in listed.items()}
        uris = await anyio.to_thread.run_sync(_skill_uris, resources)
        found = {uri: partial(self._with_manifest, uri, uris) for uri in uris.skills}
        if not found and _INDEX in uris.all:
            found = {uri: partial(self._promised, ()) for uri in await self._indexed()}
        return found

    async def _listed(self) -> Mapping[str, Sequence[Any]]:
        """Return the raw files of each skill of ``skills/list``, by the URI of its SKILL.md."""
        with anyio.fail_after(self._timeout_s):
            listed = await self._connection.read_list("skills/list", "skills", ListBounds.of_offers(self._limits))
        if listed.cut:
            self._is_cut = listed.is_passing
            self._refuse("more skills", listed.cut)
        entries = ((entry.get("uri"), entry.get("resources")) for entry in map(as_object, listed.items))
        return {uri: as_list(files) for uri, files in entries if _is_skill(uri)}

    async def _promised(self, files: Sequence[Any]) -> tuple[_File, ...]:
        # One more than allowed, so that the bound is noticed.
        return tuple(_promised(as_object(each)) for each in islice(files, self._limits.skill_files + 2))

    async def _indexed(self) -> list[str]:
        """Return the skills of an index of the older draft."""
        index = await self._json(_INDEX)
        entries = map(as_object, islice(as_list(index.get("skills")), self._limits.offers_per_server))
        return [uri for each in entries for uri in (each.get("uri"), each.get("url")) if _is_skill(uri)]

    async def _with_manifest(self, uri: str, uris: "_Uris") -> tuple[_File, ...]:
        """Return the files of a skill that are listed, and those of its manifest if it has one."""
        base, most = uri.removesuffix(_SKILL_FILE), self._limits.skill_files + 1
        listed = uris.files.get(uri, ())[:most]
        if f"{base}{_MANIFEST}" not in uris.all:
            return listed
        try:
            manifest = await self._json(f"{base}{_MANIFEST}")
        except _RefusedError:
            return listed
        paths = (as_object(each).get("path") for each in islice(as_list(manifest.get("files")), most))
        # No digests: FastMCP hashes bytes and gives text, whose ends of lines may be others.
        more = (_File(f"{base}/{quote(each, safe='/', errors='replace')}") for each in paths if isinstance(each, str))
        return tuple(dict.fromkeys((*listed, *more)))

    # -- what they have --------------------------------------------------------------------------

    async def _read(self, uri: str, files: Sequence[_File]) -> None:
        """Read one skill with all its files, or refuse it."""
        limits = self._limits
        own = {each.uri: each for each in files}
        promised = own.pop(uri, _File(uri))
        if len(own) > limits.skill_files:
            self._refuse(uri, f"has more than {limits.skill_files} files (limits.skill_files)")
            return
        try:
            text = await self._content(promised, min(limits.skill_text_max_bytes, self._left))
            rest = await self._files(list(own.values()), min(limits.skill_files_max_bytes, self._left - len(text)))
        except _RefusedError as error:
            self._refuse(uri, str(error))
            return
        self._left -= len(text) + sum(map(len, rest.values()))
        self.skills.append(OfferedSkill(uri, {uri: text, **rest}))

    async def _files(self, files: Sequence[_File], room: int) -> Mapping[str, bytes]:
        """Return the bytes of some files, which have room together."""
        found: dict[str, bytes] = {}
        for start in range(0, len(files), _AT_A_TIME):
            some = files[start : start + _AT_A_TIME]
            contents: list[bytes | _RefusedError] = [b""] * len(some)

            async def read(place: int, file: _File, contents: list[bytes | _RefusedError], room: int) -> None:
                try:
                    contents[place] = await self._content(file, room)
                except _RefusedError as error:
                    contents[place] = error

            async with anyio.create_task_group() as tasks:
                for place, file in enumerate(some):
                    tasks.start_soon(read, place, file, contents, room)
            for file, content in zip(some, contents, strict=True):
                if isinstance(content, _RefusedError):
                    raise content
                found[file.uri] = content
                room -= len(content)
            if room < 0:
                raise _RefusedError(
                    "is too large (limits.skill_files_max_bytes, or limits.server_skills_max_bytes for all of a server)"
                )
        return found

    async def _json(self, uri: str) -> JsonObject:
        """Return a resource that is a JSON object; an empty one for anything else."""
        data = await self._content(_File(uri), self._limits.skill_text_max_bytes)

        def decoded() -> JsonObject:
            try:
                return as_object(json.loads(data))
            except (ValueError, RecursionError):
                return {}

        return await anyio.to_thread.run_sync(decoded)

    async def _content(self, file: _File, limit: int) -> bytes:
        """Return the content of one resource.

        Raises:
            _RefusedError: there is none, it has more than ``limit`` bytes, or it is not as promised.

        """
        try:
            with anyio.fail_after(self._timeout_s):
                result = await self._connection.request("resources/read", {"uri": file.uri})
        except DownstreamError as error:
            raise _RefusedError(f"cannot be read: {error}") from None
        except TimeoutError:
            raise _RefusedError(f"gave no answer within {self._timeout_s:g} s") from None
        return await anyio.to_thread.run_sync(_data_in, result, file, limit)

    def _refuse(self, name: str, reason: str) -> None:
        if len(self.refused) < _REFUSED_MAX:
            self.refused.append(Refused(truncate(one_line(name[: 2 * _SHOWN_MAX]), _SHOWN_MAX), one_line(reason)))


@dataclass(frozen=True, slots=True)
class _Uris:
    """The ``skill://`` URIs of a list: of skills, of listed files by skill, and all."""

    skills: tuple[str, ...]
    files: Mapping[str, tuple[_File, ...]]
    all: frozenset[str]


def _skill_uris(resources: Sequence[Any]) -> _Uris:
    uris = sorted({uri for item in resources if _is_ours(uri := as_object(item).get("uri"))})
    skills = tuple(filter(_is_skill, uris))
    files: dict[str, list[_File]] = {}
    bases = {uri.removesuffix(_SKILL_FILE): uri for uri in skills}
    for uri in uris:
        if uri.endswith(_MANIFEST):
            continue
        base = uri
        # To the innermost skill only: an enclosing one is known by its own list of files.
        while (base := base.rpartition("/")[0]) and base not in bases and base != _SCHEME.rstrip("/"):
            pass
        if base in bases and bases[base] != uri:
            files.setdefault(bases[base], []).append(_File(uri))
    return _Uris(skills, {uri: tuple(each) for uri, each in files.items()}, frozenset(uris))


def _is_ours(uri: object) -> TypeGuard[str]:
    return isinstance(uri, str) and uri.startswith(_SCHEME) and len(uri) <= _URI_MAX


def _is_skill(uri: object) -> TypeGuard[str]:
    return _is_ours(uri) and uri.endswith(_SKILL_FILE)


def _promised(entry: Mapping[str, Any]) -> _File:
    uri, digest, size = entry.get("uri"), entry.get("digest"), entry.get("size")
    return _File(
        uri if isinstance(uri, str) else "",
        digest.removeprefix("sha256:") if isinstance(digest, str) else None,
        size if isinstance(size, int) else None,
    )


def _data_in(result: Mapping[str, Any], file: _File, limit: int) -> bytes:
    """Return the bytes in a result, if they are what the server promised (SEP-2640: hosts verify digest and size).

    Raises:
        _RefusedError: they are not, or too many.

    """
    data = next(
        (data for each in as_list(result.get("contents")) if (data := _bytes_of(as_object(each))) is not None), None
    )
    if data is None:
        raise _RefusedError("has no content")
    if len(data) > limit:
        bounds = "limits.skill_text_max_bytes, limits.skill_files_max_bytes, limits.server_skills_max_bytes"
        raise _RefusedError(f"has {len(data)} bytes, more than is left ({bounds})")
    if file.size is not None and file.size != len(data):
        raise _RefusedError(f"has {len(data)} bytes, not {file.size} as listed")
    if file.digest is not None and sha256(data).hexdigest() != file.digest:
        raise _RefusedError("differs from its digest")
    return data


def _bytes_of(content: JsonObject) -> bytes | None:
    text, blob = content.get("text"), content.get("blob")
    if isinstance(text, str):
        return text.encode("utf-8", "replace")
    try:
        return base64.b64decode(blob, validate=True) if isinstance(blob, str) else None
    except (binascii.Error, ValueError):
        return None
