"""Writes a draft to toolcrib's config, and the secrets moved out of it to a file of their own."""

import re
from collections import ChainMap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from toolcrib.base.errors import ToolcribError
from toolcrib.base.json_values import as_list, as_object, compact, value_at
from toolcrib.base.model import JsonObject
from toolcrib.base.text import exact_glob
from toolcrib.clients.entries import Use, not_understood
from toolcrib.clients.reading import FoundServer
from toolcrib.config.checks import inspect_server
from toolcrib.config.documents import read
from toolcrib.config.editing.changes import Change, SetMember, apply_changes, enabling
from toolcrib.config.editing.files import PRIVATE_MODE, EditRefused, read_original, replace_file
from toolcrib.config.entries import with_texts
from toolcrib.config.env_file import format_variables
from toolcrib.config.findings import Findings
from toolcrib.config.foreign import find_bridge
from toolcrib.config.launching import passed_on
from toolcrib.config.loading import env_references
from toolcrib.config.paths import VARIABLES_FILE
from toolcrib.config.private_values import (
    Secret,
    inlined_texts_in,
    moved,
    private_arguments,
    private_in,
    private_variables,
    secrets_in,
    secrets_in_value,
    unique,
)
from toolcrib.config.schema import ServerEntry, ToolcribSection
from toolcrib.config.servers import ServerReader
from toolcrib.config.settings import ServerSettings
from toolcrib.config.tool_rules import Denials
from toolcrib.config.variables import VARIABLE, EnvFile, Keyring, MissingSecret, References, Variables, no_keyring


def bridged(servers: Iterable[FoundServer]) -> list[FoundServer]:
    """Return those of the servers that are reached by a bridge."""
    return [server for server in servers if not server.read.lost and find_bridge(server.read.entry)]


def without_bridges(servers: Iterable[FoundServer]) -> list[FoundServer]:
    """Return the servers, each reached by itself; where that takes a step of the person, a notice says so."""
    return [_direct(server) for server in servers]


def _direct(server: FoundServer) -> FoundServer:
    bridge = None if server.read.lost else find_bridge(server.read.entry)
    if bridge is None:
        return server
    notices = [*server.read.notices, "without mcp-remote, whose logins toolcrib cannot use: run `toolcrib login`"]
    if bridge.unread:
        notices.append(f"ignored: {', '.join(bridge.unread)}")
    return replace(server, read=replace(server.read, entry=bridge.entry, notices=tuple(notices)))


_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_-]+")
_ANY = "${}"
_SEPARATOR = re.compile(r"_{2,}")


@dataclass(frozen=True, slots=True)
class DraftServer:
    """A server to be written under ``key``: where it comes from, the others that are the same, and its secrets.

    ``known``: the config has it already, as ``entry``, under this key; only rules about its tools are new. ``moved_to``
    are the variables that take the place of its secrets.
    """

    key: str
    found: tuple[FoundServer, ...]
    entry: JsonObject
    options: JsonObject
    denials: Denials
    secrets: tuple[Secret, ...]
    notices: tuple[str, ...]
    known: bool = False
    is_disabled: bool = False
    moved_to: tuple[str, ...] = ()

    @property
    def obstacle(self) -> str:
        """Why it is written switched off, if it has to be."""
        if self.known:
            return ""
        return next((each.read.obstacle for each in self.found if each.read.obstacle), "")


@dataclass(frozen=True, slots=True)
class Draft:
    """What is to be written: servers, and the variables that take the place of their secrets.

    ``lost`` are servers of which there is nothing to take over.
    """

    servers: tuple[DraftServer, ...]
    lost: tuple[FoundServer, ...]
    variables: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def added(self) -> tuple[DraftServer, ...]:
        """The servers that the config does not have yet."""
        return tuple(server for server in self.servers if not server.known)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What toolcrib would do with an entry; both empty where it would serve it.

    ``unfit``: why nothing can be made of it as it is written. ``notes``: why it is left out for now, and what this
    machine lacks.
    """

    unfit: str = ""
    notes: tuple[str, ...] = ()


class EntryCheck:
    """Judges entries as a config would be read here, with these variables and what its references stand for."""

    def __init__(self, environ: Mapping[str, str], references: References | None = None) -> None:
        self._environ = environ
        self._references = references or References(environ, Path())

    def unfit(self, key: str, entry: JsonObject) -> str:
        """Return why nothing can be made of an entry as it is written; empty if it can."""
        return _unfit(self._read(key, entry, self._environ)[0])

    def verdict(self, key: str, entry: JsonObject) -> Verdict:
        """Return what toolcrib would do with an entry under a key."""
        findings, server = self._read(key, entry, self._environ)
        unfit = _unfit(findings)
        others = [each for each in findings.skipped if each.is_mistake and not each.is_malformed]
        notes = [f"it is left out for now: {each.reason}" for each in others]
        if server is None and not unfit:
            # A second time, as if all were set and in use: what this machine lacks has to be told all the same.
            every = dict.fromkeys(_names_referred_to([entry]), "0")
            _, server = self._read(key, {**entry, "disabled": False}, {**every, **self._environ})
        elif server is not None:
            # Served here, but a client has little of this shell's environment when it starts toolcrib.
            skipped = self._read(key, entry, passed_on(self._environ))[0].skipped
            notes += [f"a client may leave it out, having less than this shell: {each.reason}" for each in skipped]
        problems = inspect_server(server) if server is not None else ()
        return Verdict(
            unfit=unfit,
            notes=(*notes, *(each.text for each in problems)),
        )

    def filled(self, entry: JsonObject) -> JsonObject:
        """Return an entry with those of its variables filled in that stand for something."""
        return as_object(Variables(self._environ, self._references, keep_missing=True).fill(entry, ""))

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables that have a value here."""
        file = self._references.env_file
        return self._environ if file is None else {**file.variables, **self._environ}

    def _read(self, key: str, entry: JsonObject, environ: Mapping[str, str]) -> tuple[Findings, ServerSettings | None]:
        findings = Findings()
        reader = ServerReader(ToolcribSection(), environ, Path(), findings, self._references)
        return findings, reader.read(key, entry)


def _unfit(findings: Findings) -> str:
    return "; ".join(str(each) for each in findings.skipped if each.is_malformed)


def draft(
    found: Iterable[FoundServer], document: JsonObject, check: EntryCheck, *, with_variables: bool = False
) -> Draft:
    """Return what servers of clients come to, beside those that the config ``document`` has already.

    ``with_variables``: secrets are moved out of the entries. What does not pass the ``check`` is switched off.
    """
    groups: list[tuple[Identity, list[FoundServer]]] = []
    found = list(found)
    inlined = all_inlined(found)
    written = {key: as_object(entry) for key, entry in as_object(document.get("mcpServers")).items()}
    entries = {key: with_texts(entry) for key, entry in written.items()}
    # By what variables stand for: another account's secret is another server.
    filled = {key: check.filled(entry) for key, entry in entries.items()}
    here = {key: identity(entry, inlined) for key, entry in filled.items()}
    # First, so that a server with its bridge and the same without it are one.
    found = [_as_in(here.values(), server, check, inlined) for server in found]
    for server in found:
        if server.read.lost:
            continue
        own = identity(check.filled(server.read.entry), inlined)
        # Pairwise, since fitting is not transitive: an entry with a variable fits two accounts that do not fit each
        # other.
        group = next((members for same, members in groups if same.fits(own)), None)
        if group is None:
            groups.append((own, [server]))
        else:
            group.append(server)
    taken = set(here)
    variables: dict[str, str] = {}
    # Under a name that an entry refers to, its server would get another server's secret.
    entries_of_all = [*entries.values(), *(each.read.entry for each in found)]
    referred = dict.fromkeys(_names_referred_to(entries_of_all), _IMPOSSIBLE)
    servers: list[DraftServer] = []
    for same, group in groups:
        known = next((key for key, other in here.items() if other.fits(same)), None)
        if known is not None:
            is_off = bool(enabling({**document, "mcpServers": filled}, known))
            unfit = check.unfit(known, written[known])
            servers.append(_known_server(known, entries[known], group, unfit, is_off=is_off))
            continue
        key = _free_key(group[0], taken)
        taken.add(key)
        server = _server(key, group, check)
        if with_variables and server.secrets:
            moved_to: dict[str, str] = {}
            # A name that has another value already, in the environment or in the file, would bring that one.
            known_values = ChainMap(moved_to, variables, dict(check.variables), referred)
            entry = moved(server.entry, server.secrets, known_values)
            variables |= moved_to
            server = replace(server, entry=entry, moved_to=tuple(moved_to))
        servers.append(server)
    return Draft(tuple(servers), tuple(server for server in found if server.read.lost), variables)


_IMPOSSIBLE = "\0"
"""A value that no variable can have."""


def _names_referred_to(entries: Iterable[JsonObject]) -> Iterator[str]:
    """Yield the names of the variables in entries of ``mcpServers``."""
    for entry in entries:
        yield from (name.removeprefix("env:").partition(":-")[0] for name in VARIABLE.findall(compact(entry)))


@dataclass(frozen=True, slots=True)
class Identity:
    """What distinguishes servers: how one is reached, and the secrets that identify its account.

    ``secrets`` are those that are written out, by where they stand; ``shape`` is the same where a variable stands for
    one. Whether an entry is switched off does not count.
    """

    shape: str
    secrets: Mapping[str, str] = field(repr=False)

    def fits(self, other: "Identity") -> bool:
        """Return whether two entries can be the same server with the same account."""
        places = self.secrets.keys() & other.secrets.keys()
        return self.shape == other.shape and all(self.secrets[place] == other.secrets[place] for place in places)


def identity(entry: JsonObject, inlined: Sequence[str] = ()) -> Identity:
    """Return what distinguishes the server of an entry of ``mcpServers`` from others.

    ``inlined`` texts are secrets wherever they stand. What ``secrets_in`` takes for a secret is one here too, so that
    an entry from which they were moved is still the same server.
    """
    kept = ServerEntry.model_fields.keys() - {"disabled", "type"}
    shape: JsonObject = {key: value for key, value in with_texts(entry).items() if key in kept and value}
    secrets: dict[str, str] = {}

    def hidden(place: str, secret: str) -> str:
        if not VARIABLE.search(secret):
            secrets[place] = secret
        return _ANY

    args: list[str] = shape.get("args", [])
    referred = private_variables(args)
    for part in ("env", "headers"):
        values = {name: value for name, value in as_object(shape.get(part)).items() if isinstance(value, str)}
        shape[part] = {
            name: hidden(f"{part}.{name}", value)
            if VARIABLE.search(value)
            or (part == "env" and name in referred)
            or any(secrets_in_value(name, value, inlined))
            else value
            for name, value in values.items()
        }
    for place, secret in private_arguments(args):
        args[place] = args[place].replace(secret, hidden(f"args.{place}", secret))
    for place, argument in enumerate(args):
        for secret in inlined_texts_in(argument, inlined):
            args[place] = args[place].replace(secret, hidden(f"args.{place}", secret))
    url = str(entry.get("url") or "")
    for number, secret in enumerate((*private_in(url), *inlined_texts_in(url, inlined))):
        url = url.replace(secret, hidden(f"url.{number}", secret))
    shape["args"], shape["url"] = [VARIABLE.sub(_ANY, each) for each in args], VARIABLE.sub(_ANY, url)
    shape["kind"] = "sse" if entry.get("type") == "sse" else ""
    return Identity(compact(dict(sorted(shape.items()))), secrets)


def _as_in(here: Collection[Identity], server: FoundServer, check: EntryCheck, inlined: Sequence[str]) -> FoundServer:
    """Return a client's server, without its bridge if the config has it without one: it is not added again."""
    bridge = None if server.read.lost else find_bridge(server.read.entry)
    if bridge is None or any(other.fits(identity(check.filled(server.read.entry), inlined)) for other in here):
        return server
    is_here = any(other.fits(identity(check.filled(bridge.entry), inlined)) for other in here)
    return replace(server, read=replace(server.read, entry=bridge.entry)) if is_here else server


def all_inlined(found: Iterable[FoundServer]) -> list[str]:
    """Return the texts that clients read out of files for their servers: they are secrets wherever they stand."""
    return [text for each in found for text in each.read.inlined]


def _server(key: str, group: Sequence[FoundServer], check: EntryCheck) -> DraftServer:
    # Where one of its clients uses it, it is in use, unless one of them is told never to, or not understood.
    chosen = next((each for each in group if not each.read.entry.get("disabled")), group[0])
    entry, notices = dict(chosen.read.entry), [*chosen.read.notices]
    notices += [
        f"in {each.client.title}, {notice}"
        for each in group
        for notice in each.read.notices
        if notice not in chosen.read.notices
    ]
    if any(each.read.obstacle or each.read.use is Use.FORBIDDEN for each in group):
        entry["disabled"] = True
    notices += _uses(group, is_disabled=bool(entry.get("disabled")))
    if key != chosen.name:
        notices.append(f"it is called {chosen.name} there")
    notices += [f"{name} must be set{f' ({about})' if about else ''}" for name, about in chosen.read.asked.items()]
    verdict = check.verdict(key, entry)
    # Written disabled instead of left out, so that the person finds and mends it.
    if verdict.unfit:
        entry["disabled"] = True
        notices.append(f"it is disabled, because {verdict.unfit}")
    return DraftServer(
        key=key,
        found=tuple(group),
        entry=entry,
        options={name: value for each in reversed(group) for name, value in each.read.options.items()},
        denials=_denials_of(group),
        secrets=tuple(unique(secrets_in(entry, key, all_inlined(group)))),
        notices=tuple(dict.fromkeys((*notices, *verdict.notes))),
        is_disabled=bool(entry.get("disabled")),
    )


def _uses(group: Sequence[FoundServer], *, is_disabled: bool) -> Iterator[str]:
    """Yield what is made of a server that not all of its clients use."""
    for each in group:
        if each.read.use is Use.FORBIDDEN:
            yield f"{each.client.title} is told never to use it, so it is disabled here too"
    off = list(dict.fromkeys(each.client.title for each in group if each.read.use is Use.OFF))
    on = list(dict.fromkeys(each.client.title for each in group if each.read.use is Use.ON))
    if off and is_disabled:
        yield "it is disabled there, and here too"
    elif off:
        yield f"it is disabled in {', '.join(off)}, but not here, because it is in use in {', '.join(on)}"


def _denials_of(group: Sequence[FoundServer]) -> Denials:
    denials = group[0].read.denials
    for other in group[1:]:
        # What any of its clients denies is denied here: the one entry stands for all of them.
        denials = denials.narrowed(other.read.denials)
    return denials


def _known_server(
    key: str, entry: JsonObject, group: Sequence[FoundServer], unfit: str, *, is_off: bool
) -> DraftServer:
    """Return a server that the config has: nothing of it is written again, so no notice about that is true."""
    notices = [f"toolcrib does not serve it: {unfit}"] if unfit else []
    unknown = {each.client.title: each.read.denials for each in group if each.read.denials.unknown}
    return DraftServer(
        key=key,
        found=tuple(group),
        entry=entry,
        options={},
        denials=_denials_of(group),
        secrets=tuple(unique(secrets_in(entry, key, all_inlined(group)))),
        notices=(
            *notices,
            *(f"{title} {not_understood(denials)}: see toolcrib.policy" for title, denials in unknown.items()),
        ),
        known=True,
        is_disabled=is_off,
    )


def plain_key(name: str) -> str:
    """Return a key that is plain in names of tools: no separator and nothing outside of their alphabet."""
    return _SEPARATOR.sub("_", _NOT_PLAIN.sub("-", name)).strip("-_") or "server"


def _free_key(server: FoundServer, taken: Collection[str]) -> str:
    name = plain_key(server.name)
    names = [name, f"{name}-{server.client.key}", *(f"{name}-{number}" for number in range(2, len(taken) + 3))]
    return next(each for each in names if each not in taken)


def changes_of(drafted: Draft, document: JsonObject) -> list[Change]:
    """Return what has to be changed in the config ``document`` to hold the drafted servers and their rules.

    Where secrets have moved to variables, it also names the file of these, unless it names one already.
    """
    changes: list[Change] = []
    if drafted.variables and value_at(document, ("toolcrib", "env_file")) is None:
        changes.append(SetMember(("toolcrib", "env_file"), VARIABLES_FILE))
    for server in drafted.added:
        changes.append(SetMember(("mcpServers", server.key), server.entry))
        if server.options:
            changes.append(SetMember(("toolcrib", "servers", server.key), server.options))
    return [*changes, *policy_changes(document, drafted.servers)]


def policy_changes(document: JsonObject, servers: Sequence[DraftServer]) -> Iterator[Change]:
    """Yield the changes of ``toolcrib.policy`` that deny what was denied, and let the others be used."""
    policy = as_object(value_at(document, ("toolcrib", "policy")))
    deny = [*as_list(policy.get("deny"))]
    more = [f"{exact_glob(server.key)}.{glob}" for server in servers for glob in server.denials.denied]
    if set(more) - set(deny):
        yield SetMember(("toolcrib", "policy", "deny"), list(dict.fromkeys([*deny, *more])))
    allow = [*as_list(policy.get("allow"))] if "allow" in policy else ["*"]
    wanted = list(_allowed(allow, servers, [*as_object(document.get("mcpServers"))]))
    if wanted != allow:
        yield SetMember(("toolcrib", "policy", "allow"), wanted)


def missing_rules(document: JsonObject, server: FoundServer, check: EntryCheck) -> str:
    """Return which rules of a client about a server's tools the config lacks that has the server; empty if none."""
    if unknown := ", ".join(server.read.denials.unknown):
        return f"its rule about tools is not understood ({unknown}): write it into toolcrib.policy, and remove it here"
    lacks = any(policy_changes(document, draft([server], document, check).servers))
    return "toolcrib's policy lacks its rules about tools; `toolcrib init` adds them" if lacks else ""


def _allowed(allow: Sequence[str], servers: Sequence[DraftServer], here: Sequence[str]) -> Iterator[str]:
    """Yield the globs of what may be used: as they are where no server is limited to some of its tools."""
    limited = {server.key: server.denials.allowed for server in servers if server.denials.allowed is not None}
    whole = [server.key for server in servers if server.key not in limited]
    if "*" in allow:
        if not limited:
            yield from allow
            return
        # A glob for everything would allow what a client allows only in part: each server is named.
        keys = dict.fromkeys([*(key for key in here if key not in limited), *whole])
        yield from (f"{exact_glob(key)}.*" for key in keys)
        yield from (f"{exact_glob(key)}.{glob}" for key, globs in limited.items() for glob in globs or ())
        return
    # What a config allows as a whole is limited to what the client allows of it.
    allow = [glob for glob in allow if glob not in {f"{exact_glob(key)}.*" for key in limited}]
    yield from allow
    added = [f"{exact_glob(server.key)}.*" for server in servers if server.key in whole and not server.known]
    added += [f"{exact_glob(key)}.{glob}" for key, globs in limited.items() for glob in globs or ()]
    yield from (glob for glob in dict.fromkeys(added) if glob not in allow)


def rules_shown(denials: Denials) -> str:
    """Return which of a server's tools are denied, for people."""
    parts: list[str] = []
    if denials.allowed is not None:
        parts.append(f"only {', '.join(denials.allowed)}" if denials.allowed else "no tool")
    if denials.denied:
        parts.append(f"without {', '.join(denials.denied)}")
    return "; ".join(parts)


def origins(server: DraftServer) -> list[str]:
    """Return where a server is configured, each client once."""
    return list(dict.fromkeys(each.client.title for each in server.found))


def existing_document(path: Path) -> JsonObject:
    """Return the parsed text of a config, without its variables filled in; empty if there is none.

    Raises:
        ConfigError: it is there, and cannot be read.

    """
    return read(path)[0] if path.exists() else {}


def variables_of(
    document: JsonObject, path: Path, environ: Mapping[str, str], keyring: Keyring = no_keyring
) -> tuple[References, EnvFile]:
    """Return what the references of the config at ``path`` stand for, and the file that its secrets move to.

    That is the one that it names, else one beside it, which then counts as if it were named. Blocks.

    Raises:
        ToolcribError: the file is there, and cannot be read, so nothing may be written into it.

    """
    references = env_references(document, path, environ, keyring)
    file = references.env_file
    if file is None or (not file.variables and file.path.exists()):
        try:
            references.read_env_file(str(path.with_name(VARIABLES_FILE) if file is None else file.path))
        except MissingSecret as missing:
            if references.env_file is not None and references.env_file.path.exists():
                raise ToolcribError(f"No secret can be moved: {missing.reason}.") from missing
    assert references.env_file is not None
    return references, references.env_file


def write_config(path: Path, changes: Sequence[Change], *, is_private: bool) -> None:
    """Make ``changes`` in the config at ``path``, which only its owner can read where it is new or ``is_private``.

    Raises:
        ToolcribError: it cannot be changed, or not be written.

    """
    try:
        original = read_original(path)
        text = apply_changes(original.text, path, changes)
        # An existing file without secrets keeps the mode that its owner chose.
        mode = PRIVATE_MODE if is_private or original.content is None else None
        replace_file(path, text.encode(), mode=mode)
    except EditRefused as error:
        raise ToolcribError(f"{path} {error}. Nothing was written.") from None
    except OSError as error:
        raise ToolcribError(f"{path} cannot be written: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ToolcribError(f"{path} is not UTF-8 text. Nothing was written.") from None


def write_variables(file: EnvFile, variables: Mapping[str, str]) -> None:
    """Add variables to a file of such, which only its owner can read; nothing in it is changed.

    Raises:
        ToolcribError: it cannot be written.

    """
    added = {name: value for name, value in variables.items() if file.variables.get(name) != value}
    try:
        before = read_original(file.path).content or b""
        # A line that the person has not ended would swallow the first of ours.
        end = b"" if not before or before.endswith(b"\n") else b"\n"
        replace_file(file.path, before + end + format_variables(added).encode(), mode=PRIVATE_MODE)
    except OSError as error:
        raise ToolcribError(f"{file.path} cannot be written: {error.strerror}") from error
