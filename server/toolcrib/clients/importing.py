"""Writes a draft to toolcrib's config, and the secrets moved out of it to a file of their own."""

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from toolcrib.base.errors import ToolcribError
from toolcrib.base.json_values import as_list, as_object, compact, value_at
from toolcrib.base.model import JsonObject
from toolcrib.base.text import exact_glob
from toolcrib.clients.denials import Denials
from toolcrib.clients.reading import FoundServer
from toolcrib.config.documents import read
from toolcrib.config.editing.changes import Change, SetMember, apply_changes
from toolcrib.config.editing.files import PRIVATE_MODE, EditRefused, read_original, replace_file
from toolcrib.config.findings import Findings
from toolcrib.config.foreign import find_bridge
from toolcrib.config.private_values import (
    Secret,
    inlined_texts_in,
    moved,
    private_arguments,
    private_in,
    secrets_in,
    secrets_in_value,
    unique,
)
from toolcrib.config.schema import ToolcribSection
from toolcrib.config.servers import ServerReader
from toolcrib.config.variables import VARIABLE


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

    ``known``: the config has it already, under this key; only rules about its tools are new.
    """

    key: str
    found: tuple[FoundServer, ...]
    entry: JsonObject
    options: JsonObject
    denials: Denials
    secrets: tuple[Secret, ...]
    notices: tuple[str, ...]
    known: bool = False

    @property
    def obstacle(self) -> str:
        """Why it is written switched off, if it has to be."""
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


Unfit = Callable[[str, JsonObject], str]
"""Says why an entry under a key cannot be used; empty where it can."""


def draft(found: Iterable[FoundServer], document: JsonObject, unfit: Unfit, *, with_variables: bool = False) -> Draft:
    """Return what servers of clients come to, beside those that the config ``document`` has already.

    ``with_variables``: secrets are moved out of the entries. What is ``unfit`` is switched off.
    """
    groups: list[tuple[Identity, list[FoundServer]]] = []
    found = list(found)
    inlined = all_inlined(found)
    here = {key: identity(as_object(entry), inlined) for key, entry in as_object(document.get("mcpServers")).items()}
    # First, so that a server with its bridge and the same without it are one.
    found = [_as_in(here.values(), server, inlined) for server in found]
    for server in found:
        if server.read.lost:
            continue
        own = identity(server.read.entry, inlined)
        # Pairwise, since fitting is not transitive: an entry with a variable fits two accounts that do not fit each
        # other.
        group = next((members for same, members in groups if same.fits(own)), None)
        if group is None:
            groups.append((own, [server]))
        else:
            group.append(server)
    taken = set(here)
    variables: dict[str, str] = {}
    servers: list[DraftServer] = []
    for same, group in groups:
        known = next((key for key, other in here.items() if other.fits(same)), None)
        key = known or _free_key(group[0], taken)
        taken.add(key)
        server = _server(key, group, known=known is not None)
        if with_variables and server.secrets:
            server = replace(server, entry=moved(server.entry, server.secrets, variables))
        # Written disabled instead of left out, so that the person finds and mends it.
        if why := unfit(key, server.entry):
            notices = (*server.notices, f"it is disabled, because {why}")
            server = replace(server, entry={**server.entry, "disabled": True}, notices=notices)
        servers.append(server)
    return Draft(tuple(servers), tuple(server for server in found if server.read.lost), variables)


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
    shape: JsonObject = {key: value for key, value in entry.items() if key not in ("disabled", "type") and value}
    secrets: dict[str, str] = {}

    def hidden(place: str, secret: str) -> str:
        if not VARIABLE.search(secret):
            secrets[place] = secret
        return _ANY

    for part in ("env", "headers"):
        values = {name: value for name, value in as_object(shape.get(part)).items() if isinstance(value, str)}
        shape[part] = {
            name: hidden(f"{part}.{name}", value)
            if VARIABLE.search(value) or any(secrets_in_value(name, value, inlined))
            else value
            for name, value in values.items()
        }
    args = [each if isinstance(each, str) else "" for each in as_list(shape.get("args"))]
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


def _as_in(here: Collection[Identity], server: FoundServer, inlined: Sequence[str]) -> FoundServer:
    """Return a client's server, without its bridge if the config has it without one: it is not added again."""
    bridge = None if server.read.lost else find_bridge(server.read.entry)
    if bridge is None or any(other.fits(identity(server.read.entry, inlined)) for other in here):
        return server
    is_here = any(other.fits(identity(bridge.entry, inlined)) for other in here)
    return replace(server, read=replace(server.read, entry=bridge.entry)) if is_here else server


def all_inlined(found: Iterable[FoundServer]) -> list[str]:
    """Return the texts that clients read out of files for their servers: they are secrets wherever they stand."""
    return [text for each in found for text in each.read.inlined]


def _server(key: str, group: Sequence[FoundServer], *, known: bool) -> DraftServer:
    first = group[0]
    denials = first.read.denials
    for other in group[1:]:
        # What any of its clients denies is denied here: the one entry stands for all of them.
        denials = denials.narrowed(other.read.denials)
    # Where one of its clients uses it, it is in use, unless what one of them says of it was not understood.
    entry = dict(next((each.read.entry for each in group if not each.read.entry.get("disabled")), first.read.entry))
    if any(each.read.obstacle for each in group):
        entry["disabled"] = True
    notices = [notice for each in group for notice in each.read.notices]
    if key != first.name and not known:
        notices.append(f"it is called {first.name} there")
    notices += [f"{name} must be set{f' ({about})' if about else ''}" for name, about in first.read.asked.items()]
    return DraftServer(
        key=key,
        found=tuple(group),
        entry=entry,
        options={name: value for each in reversed(group) for name, value in each.read.options.items()},
        denials=denials,
        secrets=tuple(unique(secrets_in(entry, key, all_inlined(group)))),
        notices=tuple(dict.fromkeys(notices)),
        known=known,
    )


def plain_key(name: str) -> str:
    """Return a key that is plain in names of tools: no separator and nothing outside of their alphabet."""
    return _SEPARATOR.sub("_", _NOT_PLAIN.sub("-", name)).strip("-_") or "server"


def _free_key(server: FoundServer, taken: Collection[str]) -> str:
    name = plain_key(server.name)
    names = [name, f"{name}-{server.client.key}", *(f"{name}-{number}" for number in range(2, len(taken) + 3))]
    return next(each for each in names if each not in taken)


def changes_of(drafted: Draft, document: JsonObject) -> list[Change]:
    """Return what has to be changed in the config ``document`` to hold the drafted servers and their rules."""
    changes: list[Change] = []
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


def check_entry(environ: Mapping[str, str]) -> Unfit:
    """Return what says why an entry would make a config unusable."""

    def unfit(key: str, entry: JsonObject) -> str:
        findings = Findings()
        ServerReader(ToolcribSection(), environ, Path(), findings).read(key, entry)
        return "; ".join(str(problem) for problem in findings.problems)

    return unfit


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


def write_variables(path: Path, variables: Mapping[str, str]) -> None:
    """Add variables to a file of lines for a shell, which only its owner can read.

    Raises:
        ToolcribError: it cannot be written.

    """
    try:
        # Bytes that are no UTF-8 survive the round trip.
        before = (read_original(path).content or b"").decode("utf-8", "surrogateescape")
        # The person's own lines, comments included, stay in their order.
        lines = [line for line in before.splitlines() if line.partition("=")[0] not in variables]
        lines += [f"{name}={shlex.quote(value)}" for name, value in variables.items()]
        replace_file(path, ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape"), mode=PRIVATE_MODE)
    except OSError as error:
        raise ToolcribError(f"{path} cannot be written: {error.strerror}") from error
