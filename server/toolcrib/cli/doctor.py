"""``toolcrib doctor``: checks everything that toolcrib depends on, and names the fix for each finding."""

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote, split
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from toolcrib.base.errors import ConfigError, Problem, ToolcribError
from toolcrib.base.model import JsonObject
from toolcrib.base.text import enumerated, one_line, truncate
from toolcrib.cli.fixes import Fix, Outcome, carry_out
from toolcrib.cli.importing import user_environment
from toolcrib.cli.in_process import Tried, status_now, tool_names_now, try_servers, with_skills
from toolcrib.cli.output import (
    ConfigOption,
    JsonOption,
    counted,
    fail_if,
    load_settings,
    print_json,
    print_text,
    print_verbatim,
)
from toolcrib.cli.screen import Role
from toolcrib.cli.waiting import WaitingLine

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from toolcrib.clients.connecting import ConnectedEntry
    from toolcrib.config.settings import ServerSettings, Settings
    from toolcrib.policy.client_profiles import ClientProfile
    from toolcrib.policy.sessions import Session
    from toolcrib.skills.answers import Overview
    from toolcrib.skills.use_cases import SkillUseCases

WITHIN_S = 10.0
"""How long a server may take; one that takes longer is called slow."""

_PREFIX = len("mcp__toolcrib__")
"""What clients that name tools after their server put in front, of the 64 characters that they allow."""

_NAMES_ROOM, _SAID_MAX = 300, 300
"""Characters of names in one finding, and of what a server said last."""

Level = Literal["ok", "warning", "error"]
_CHMOD = "chmod "
"""How the hint of a file begins that others can read."""

_MARKS: dict[Level, tuple[str, Role]] = {
    "ok": ("ok     ", Role.GOOD),
    "warning": ("warning", Role.WARNING),
    "error": ("wrong  ", Role.BAD),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check, and its remedy, empty if nothing is wrong. ``facts`` are for programs.

    ``fixes`` are those commands of the remedy that ``--fix`` may run.
    """

    about: str
    level: Level
    text: str
    remedy: str = ""
    facts: JsonObject = field(default_factory=dict[str, Any])
    fixes: tuple[Fix, ...] = ()

    @property
    def as_json(self) -> JsonObject:
        """The finding for programs."""
        shown: JsonObject = {"about": self.about, "level": self.level, "text": self.text, "remedy": self.remedy}
        return {**shown, "facts": self.facts, "fixes": [fix.command for fix in self.fixes]}


def doctor(
    fix: Annotated[
        bool, typer.Option("--fix", help="Run the commands that mend what was found, each after your yes.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="With --fix: run them without asking, except those that are a choice.")
    ] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check config, servers, index, state, skills and connected clients; starts each server once."""
    findings = list(_findings(config, quiet=as_json))
    if not as_json:
        _print(findings)
    outcomes: list[Outcome] = []
    if fix:
        # One command may mend several findings.
        fixes = dict.fromkeys(each for finding in findings for each in finding.fixes)
        for outcome in carry_out(fixes, config, yes=yes, as_json=as_json):
            outcomes.append(outcome)
            if outcome.error:
                print_text(f"`{outcome.command}` failed: {outcome.error}", error=True)
        if any(outcome.run for outcome in outcomes):
            findings = list(_findings(config, quiet=as_json))
            if not as_json:
                print_text("Checked again:")
                _print(findings)
        elif not as_json:
            print_text(_why_nothing_was_run(any_fix=bool(fixes), yes=yes), error=True)
    is_wrong = any(finding.level == "error" for finding in findings)
    if as_json:
        told: JsonObject = {"ok": not is_wrong, "findings": [finding.as_json for finding in findings]}
        print_json({**told, "fixed": [outcome.as_json for outcome in outcomes]} if fix else told)
    fail_if(is_wrong)


def _why_nothing_was_run(*, any_fix: bool, yes: bool) -> str:
    if not any_fix:
        return "There is nothing to run."
    if yes:
        return "Nothing was run: what is left is a choice, which --yes does not make. At a terminal, --fix asks."
    return "Nothing was run. Add --yes to run what needs no choice."


def _print(findings: Iterable[Finding]) -> None:
    for finding in findings:
        mark, role = _MARKS[finding.level]
        print_text(f"  {finding.about}: {finding.text}", lead=mark, role=role)
        if finding.remedy:
            # Mostly a command that a person copies, so it is not broken into lines.
            print_verbatim(f"           {finding.remedy}")


def _findings(config: Path | None, *, quiet: bool) -> Iterator[Finding]:
    from concurrent.futures import ThreadPoolExecutor

    try:
        settings = load_settings(config)
    except ConfigError as error:
        for problem in error.problems:
            yield Finding("config", "error", f"{problem.path}: {problem.reason}", problem.hint or "change the file")
        return
    yield from _of_config(settings)
    yield _of_sqlite()
    yield _of_meaning(settings)
    yield _of_programs(settings)
    yield from _folders(settings)
    with ThreadPoolExecutor() as beside:  # a server that hangs takes most of the time that there is
        skills = beside.submit(lambda: list(_checked("skills", _of_skills(config, settings), "toolcrib index clear")))
        listed = Event()
        clients = _try_clients(beside, listed)
        try:
            yield from _checked("servers", _of_servers(settings, quiet=quiet), "toolcrib config check")
        finally:
            listed.set()
        # After the servers: trying them has listed those that never were.
        yield from _checked("index", _of_index(settings), "toolcrib index clear")
        yield from skills.result()
        yield from _checked("surface", _of_surface(config, settings), "toolcrib tokens")
        yield from _of_clients(clients)
    yield from _long_names(settings)


def _checked(about: str, findings: Iterator[Finding], remedy: str) -> Iterator[Finding]:
    """Yield the findings of one check; if it cannot be made, the reason is one, so that the others still are."""
    try:
        yield from findings
    except ToolcribError as error:
        yield Finding(about, "error", str(error), remedy)


def _of_config(settings: "Settings") -> Iterator[Finding]:
    from toolcrib.cli.config import env_file_json, env_file_text
    from toolcrib.config.checks import inspect

    if settings.config_path is None:
        remedy = "toolcrib init, or toolcrib add NAME -- COMMAND"
        yield Finding("config", "error", "there is none", remedy, fixes=(Fix(("toolcrib", "init")),))
    else:
        yield Finding("config", "ok", f"{settings.source}, {len(settings.servers)} servers")
        if text := env_file_text(settings):
            yield Finding("config", "ok", text, "", {"env_file": env_file_json(settings)})
        yield from (_config_finding(settings, problem, "error") for problem in inspect(settings))
    found: tuple[tuple[Level, tuple[Problem, ...]], ...] = ("error", settings.skipped), ("warning", settings.notices)
    for level, problems in found:
        # What a person has left out on purpose, such as a disabled server, is no finding.
        told = (problem for problem in problems if problem.is_mistake or problem.hint.startswith(_CHMOD))
        yield from (_config_finding(settings, problem, level) for problem in told)


def _config_finding(settings: "Settings", problem: Problem, level: Level) -> Finding:
    remedies, fixes = [problem.hint] if problem.hint else [], list[Fix]()
    if problem.hint.startswith(_CHMOD):
        fixes.append(Fix(tuple(split(problem.hint))))
    if (key := _server_of(problem, settings)) is not None:
        fixes.append(_disabling(key))
        remedies.append(fixes[-1].command)
    remedy = "; ".join(remedies) or "toolcrib config check"
    return Finding("config", level, f"{problem.path}: {problem.reason}", remedy, fixes=tuple(fixes))


def _server_of(problem: Problem, settings: "Settings") -> str | None:
    """Return the server that a problem is about; None where it is about none, or no command can name it."""
    from toolcrib.config.findings import Skipped

    if isinstance(problem, Skipped):
        return problem.key if problem.key == one_line(problem.key) != "" else None
    section, _, place = problem.path.partition(".")
    # A key may have dots, as the path behind it has: the longest that fits is the server's.
    keys = [key for key in settings.servers if place == key or place.startswith(f"{key}.")]
    return max(keys, key=len, default=None) if section == "mcpServers" else None


def _disabling(key: str) -> Fix:
    """Return what leaves a server out: a person may rather mend it."""
    return Fix(("toolcrib", "disable", key), is_choice=True)


def _folders(settings: "Settings") -> Iterator[Finding]:
    from toolcrib.storage.files import set_aside

    for name, folder in (("index", settings.cache_dir), ("state", settings.state_dir)):
        if folder.is_dir() and not os.access(folder, os.W_OK):
            fix = Fix(("chmod", "u+w", str(folder)))
            yield Finding(name, "error", f"{folder} cannot be written", fix.command, fixes=(fix,))
        elif not folder.is_dir():
            fix = Fix(("mkdir", "-p", str(folder)))
            yield Finding(name, "warning", f"{folder} does not exist yet", fix.command, fixes=(fix,))
    if settings.state_file.is_file():
        yield Finding("state", "ok", str(settings.state_file))
    elif settings.state_dir.is_dir():
        yield Finding("state", "ok", f"{settings.state_file}, not created yet: no decisions so far")
    for file in set_aside(settings.state_file):
        yield Finding("state", "warning", f"{file} was damaged and set aside", "repeat your decisions; remove it")


def _of_sqlite() -> Finding:
    from toolcrib.storage.opening import has_fts5, sqlite_version
    from toolcrib.storage.store import faults_of

    known = [fault.name for fault in faults_of(sqlite_version())]
    facts: JsonObject = {"version": sqlite_version(), "fts5": has_fts5(), "faults": known}
    if facts["fts5"]:
        faults = f"; has known bugs, all avoided: {', '.join(known)}" if known else ""
        return Finding("sqlite", "ok", f"{sqlite_version()}, with full-text search{faults}", "", facts)
    text = f"{sqlite_version()}, without full-text search (FTS5): large catalogs are searched in memory"
    return Finding("sqlite", "warning", text, "run toolcrib with a Python whose SQLite has FTS5", facts)


def _of_meaning(settings: "Settings") -> Finding:
    """Return whether search by meaning works; the model is loaded, as one that is there may be damaged."""
    from toolcrib.gateway.offline import semantic_model
    from toolcrib.search.semantic import state_of

    if model := semantic_model(settings):
        model.get()
    found = state_of(model)
    text = f"search by meaning is {found.state}" + (f": {found.reason}" if found.reason else "")
    is_broken = found.state == "unavailable"
    return Finding("semantic", "warning" if is_broken else "ok", text, "toolcrib index semantic" if is_broken else "")


def _of_programs(settings: "Settings") -> Finding:
    """Return whether programs can run; a worker is started, as an interpreter that is there may not be one for here."""
    import anyio

    from toolcrib.cli.extras import programs_state
    from toolcrib.programs.workers import why_none_starts

    async def why_not() -> str:
        with anyio.move_on_after(WITHIN_S):
            return await why_none_starts(settings.toolcrib.programs)
        return f"no worker within {WITHIN_S:.0f} s"

    found = programs_state(settings)
    if found.state == "on" and (reason := anyio.run(why_not)):
        text = f"programs cannot run: {one_line(reason)}"
        return Finding(
            "programs",
            "warning",
            text,
            "install toolcrib and its extra programs anew; toolcrib.programs.enabled: off leaves them out",
        )
    return Finding("programs", "ok", f"tool_run is {found.text}", found.command, found.as_json)


def _index_anew(settings: "Settings", name: str) -> Iterator[Fix]:
    """Yield what makes an index anew; what stands in the place of its file is kept, under the name of a damaged one."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    for file in (settings.tool_cache, settings.skill_cache):
        if file.name == name and file.is_dir():
            yield Fix(("mv", str(file), str(file.with_name(f"{file.name}.corrupt-{stamp}"))))
    yield Fix(("toolcrib", "index", "refresh"))


def _damaged_caches(settings: "Settings") -> list[Path]:
    """Return the caches that were damaged and set aside, which can be removed."""
    from toolcrib.storage.files import set_aside

    return [file for cache in (settings.tool_cache, settings.skill_cache) for file in set_aside(cache)]


def _of_servers(settings: "Settings", *, quiet: bool) -> Iterator[Finding]:
    from toolcrib.events.log import timestamp

    if not settings.servers:
        return
    began = timestamp(time.time())
    tried = try_servers(settings, WITHIN_S, WaitingLine(quiet=quiet), command="doctor")
    for key, server in settings.servers.items():
        yield _of_server(server, tried[key], _last_words(settings, key, began))


def _last_words(settings: "Settings", key: str, began: str) -> str:
    """Return the last line that a server has written to stderr since ``began``."""
    from toolcrib.events.server_logs import last_lines

    try:
        # Times in ISO form sort as text does.
        at, _, said = next(iter(last_lines(settings.cache_dir, key, 1)), "").partition(" ")
    except OSError:
        return ""
    return truncate(one_line(said), _SAID_MAX) if at >= began else ""


def _of_server(server: "ServerSettings", tried: Tried, last_words: str) -> Finding:
    from toolcrib.config.launching import find_program
    from toolcrib.config.settings import HttpTarget, StdioTarget

    key, target, place = server.key, server.target, None
    if isinstance(target, StdioTarget):
        place = find_program(target)
    elif isinstance(target, HttpTarget):
        place = target.public_url
    seconds = None if tried.seconds is None else round(tried.seconds, 1)
    facts = {"at": place, "tools": tried.tools, "seconds": seconds, "protocol": tried.era, "last_words": last_words}
    about, said = f"server {key}", f"; its last output: {last_words}" if last_words else ""
    disabling = _disabling(key)
    mend = f"toolcrib logs {quote(key)}; {disabling.command}"
    if tried.needs_login:
        return Finding(
            about, "error", "it requires a login, and there is none or it has expired", f"toolcrib login {key}"
        )
    if tried.failed:
        # Failures of a start often quote the last line already.
        text = tried.failed if last_words in tried.failed else f"{tried.failed}{said}"
        return Finding(about, "error", text, mend, facts, (disabling,))
    if seconds is None:
        return Finding(about, "warning", f"no answer within {WITHIN_S:.0f} s{said}", mend, facts, (disabling,))
    text = f"{tried.tools} tools in {seconds} s, {tried.era or 'unknown'} protocol, {place}"
    return Finding(about, "ok", text, "", facts)


def _of_index(settings: "Settings") -> Iterator[Finding]:
    found = status_now(settings)
    listed = sum(server.listed is not None for server in found.servers)
    text = f"{counted(found.allowed, 'tool')} of {counted(listed, 'server')} in {settings.tool_cache}"
    yield Finding("index", "ok", text, "", {"tools": found.allowed, "servers": listed})
    for file in _damaged_caches(settings):
        yield Finding("index", "warning", f"{file} was damaged and set aside", f"rm {quote(str(file))}")
    for file, why in found.rebuilt.items():
        fixes = tuple(_index_anew(settings, file))
        remedy = "; ".join(fix.command for fix in fixes)
        yield Finding("index", "warning", f"{file} was rebuilt: {why}", remedy, fixes=fixes)
    for server in found.servers:
        if (listed := server.listed) is None:
            continue
        told = [f"its tool {each.name} is left out: {each.reason}" for each in listed.refused]
        told += [f"it may have more tools: {listed.cut}"] if listed.cut else []
        for text in told:
            yield Finding(f"server {server.key}", "warning", text, f"toolcrib get {server.key}")


def _of_skills(config: Path | None, settings: "Settings") -> Iterator[Finding]:
    from toolcrib.skills.overviews import Overviews

    if not settings.toolcrib.skills.enabled:
        yield Finding("skills", "ok", "switched off")
        return
    folders: dict[str, Path] = {}

    async def overview(use_cases: "SkillUseCases", session: "Session") -> "Overview":
        found = await Overviews(use_cases).overview(session)
        folders.update({root.source: root.folder for root in use_cases.dependencies.catalog.roots})
        return found

    found = with_skills(config, overview, command="doctor")
    left_out = len(found.errors)
    text = f"{len(found.skills)} loaded, {len(found.withheld)} hidden, {left_out} left out"
    yield Finding("skills", "ok", text, "", {"loaded": len(found.skills), "hidden": len(found.withheld)})
    # Hundreds of skills may be hidden for one reason.
    reasons = Counter(reason for _skill, reason in found.withheld)
    for reason, count in reasons.items():
        names = [skill.name for skill, why in found.withheld if why == reason]
        text = f"{count} hidden, {reason}: {enumerated(names, _NAMES_ROOM)}"
        yield Finding("skills", "ok", text, "toolcrib skills list --hidden")
    if found.untrusted:
        text = f"{found.untrusted} of an untrusted repository are left out"
        yield Finding("skills", "warning", text, "toolcrib.skills.trust_project: true, once you have read them")
    for error in found.errors:
        folder = folders.get(error.source)
        remedy = f"toolcrib skills check {quote(str(folder / error.path))}" if folder else "toolcrib config check"
        yield Finding("skills", "warning", f"{error.place}: {error.message}", remedy)


def _of_surface(config: Path | None, settings: "Settings") -> Iterator[Finding]:
    """Yield how much a model reads at first; a warning if that is more than listing all tools."""
    from toolcrib.cli.tokens import prices_now

    if not settings.servers:
        return
    prices = prices_now(config, settings)
    text = (
        f"about {prices.counter} tokens: its own tools {sum(prices.own.values())}, instructions "
        f"{prices.instructions}, always listed {sum(prices.always.values())}; all tools listed {prices.everything}"
    )
    facts = {"tokens": prices.counter, "always": sum(prices.always.values()), "all_listed": prices.everything}
    if prices.always and prices.counter > prices.everything:
        yield Finding("surface", "warning", text, "toolcrib tokens; list fewer tools always", facts)
    else:
        better = f"{prices.proposal} toolcrib.gate.pass_through_tokens: {prices.whole_limit}" if prices.proposal else ""
        yield Finding("surface", "ok", text, better, {**facts, "listed_whole": prices.whole})


def _try_clients(beside: "ThreadPoolExecutor", listed: Event) -> "list[tuple[list[ConnectedEntry], Future[str]]]":
    """Start the commands in the clients' files, each once; return the entries of each, and why it fails.

    Each would also list servers that were never listed: it waits until they are, but not for those that hang.
    """
    from toolcrib.clients.connecting import connected_entries, why_not_answered

    user, entries = user_environment(), dict[tuple[object, ...], "list[ConnectedEntry]"]()
    for entry in connected_entries(user):
        # Clients mostly share one command, and each start takes a while.
        entries.setdefault((entry.command, *sorted(entry.env.items())), []).append(entry)

    def why_not(entry: "ConnectedEntry") -> str:
        listed.wait(WITHIN_S / 2)
        return why_not_answered(entry.command, {**user.environ, **entry.env}, WITHIN_S)

    return [(group, beside.submit(why_not, group[0])) for group in entries.values()]


def _of_clients(tried: "list[tuple[list[ConnectedEntry], Future[str]]]") -> Iterator[Finding]:
    for group, why_not in tried:
        yield from (_of_client(entry, why_not.result()) for entry in group)
    if not tried:
        yield Finding("clients", "warning", "no client starts toolcrib", "toolcrib connect CLIENT")


def _of_client(entry: "ConnectedEntry", why_not: str) -> Finding:
    about, fix = f"client {entry.client.key}", Fix(("toolcrib", "connect", entry.client.key))
    again = fix.command
    if why_not:
        text = f"its entry in {entry.file} does not start: {why_not}"
        return Finding(about, "error", text, again, fixes=(fix,))
    try:
        served = _served(entry, {**os.environ, **entry.env})
        left_out = _left_out_by(entry)
    except ConfigError as error:
        return Finding(about, "error", f"its entry in {entry.file}: {error}", again, fixes=(fix,))
    if left_out:
        text = f"its entry in {entry.file} starts, but without the variables of this shell it leaves out {left_out}"
        return Finding(about, "warning", text, "write them into the file that toolcrib.env_file names")
    text = f"its entry in {entry.file} starts; {_served_text(served)}"
    return Finding(about, "ok", text, "", {"file": str(entry.file), **served.as_json})


def _served(entry: "ConnectedEntry", environ: dict[str, str]) -> "ClientProfile":
    """Return how a client is served by the command in its entry."""
    from toolcrib.policy.client_profiles import ClientProfiles

    return ClientProfiles(_settings_of(entry, environ), "stdio").profile_of_product(entry.client.title)


def _left_out_by(entry: "ConnectedEntry") -> str:
    """Return the servers that a client lacks which has no variable of this shell, with the reasons; empty for none."""
    from toolcrib.config.launching import passed_on

    here = {why.key for why in _settings_of(entry, {**os.environ, **entry.env}).skipped}
    there = _settings_of(entry, {**passed_on(os.environ), **entry.env}).skipped
    lacking = [f"{one_line(each.key)} ({each.reason})" for each in there if each.key not in here]
    return enumerated(lacking, _NAMES_ROOM)


def _settings_of(entry: "ConnectedEntry", environ: dict[str, str]) -> "Settings":
    """Return the settings with which the command in a client's entry starts in an environment."""
    from toolcrib.cli.serve import settings_as_started

    # The client's own --config and --http decide, not those of this command.
    arguments = list(entry.command[entry.command.index("serve") + 1 :]) if "serve" in entry.command else []
    return settings_as_started(arguments, environ, Path.cwd())


def _served_text(served: "ClientProfile") -> str:
    listing = {
        "dynamic": "its list grows with the tools that are used",
        "stable": "its list is constant",
        "auto": "its list grows if its protocol has sessions",
    }[served.listing]
    answers = "text and structured content" if served.structured else "text alone"
    return f"{listing} ({served.listing_reason}); our answers are {answers} ({served.structured_reason})"


def _long_names(settings: "Settings") -> Iterable[Finding]:
    most = 64 - _PREFIX
    if settings.toolcrib.limits.name_max <= most:
        return
    long = sorted(name for name in tool_names_now(settings) if len(name) > most)
    if long:
        text = f"{len(long)} names are longer than {most} characters: {enumerated(long, _NAMES_ROOM)}"
        remedy = f"toolcrib.limits.name_max: {most}, for clients that add a prefix"
        yield Finding("names", "warning", text, remedy, {"names": long})
