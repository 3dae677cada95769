"""``toolcrib index enrich``: lets a command of the person write requests for each tool, by which it is then found."""

import json
import os
import shlex
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated

import typer

from toolcrib.base.errors import BadRequest
from toolcrib.base.model import JsonObject
from toolcrib.base.text import one_line, truncate
from toolcrib.cli.completion import ServerOption, tool_names
from toolcrib.cli.in_process import why_not_stored
from toolcrib.cli.output import ConfigOption, JsonOption, counted, fail_if, load_settings, print_answer, print_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.abc import ByteReceiveStream, Process

    from toolcrib.base.model import Tool
    from toolcrib.gateway.offline import Offline
    from toolcrib.policy.state import WrittenRequests

_PARALLEL, _TIMEOUT_S = 3, 120
"""How many commands run at once, and how many seconds each may take."""
_OUTPUT_MAX = 64 * 1024
"""Maximum number of bytes of output; a command that writes more is stopped."""
_REASON_MAX = 200
_LEFT_S = 5.0
"""How long the end of a stopped command is waited for, in seconds."""


def enrich(
    command: Annotated[
        str | None,
        typer.Option(
            "--with", metavar="CMD", help="Gets a tool's definition as JSON on stdin, prints requests, one a line."
        ),
    ] = None,
    server: ServerOption = None,
    tool: Annotated[
        str | None, typer.Option(help="Only this tool, by its public name.", autocompletion=tool_names)
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Also tools that have requests already.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the requests instead.")] = False,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds that a command may take for one tool.")] = _TIMEOUT_S,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a command of yours, such as a model, write requests for each tool, and find tools by them too."""
    import anyio

    from toolcrib.gateway.offline import open_offline
    from toolcrib.gateway.runtime import Runtime

    if remove == (command is not None):
        raise typer.BadParameter("requires --with CMD, or --remove", param_hint="enrich")
    settings = load_settings(config)
    if server is not None and server not in settings.servers:
        raise BadRequest(f"There is no server {server!r} in {settings.source}.")
    with open_offline(settings, Runtime(command="index enrich"), keep_rows=True) as offline:
        selection = _Selection(server, tool)
        tools = selection.tools_in(offline)
        if remove:
            gone = [each for each in offline.state.requests.all() if selection.takes(each.server, each.tool, tools)]
            offline.state.requests.remove((each.server, each.tool) for each in gone)
            if refusal := why_not_stored(offline):
                raise refusal
            text = f"Removed the requests of {counted(len(gone), 'tool')}."
            print_answer({"removed": len(gone)}, text, as_json=as_json)
            return
        if not tools:
            raise BadRequest("There is no such tool in the index; `toolcrib index refresh` lists all servers.")
        run = _Run(_words(command or ""), timeout)
        work = _pending(offline, tools, again=again)
        done = anyio.run(_write_all, run, offline, work)
        if refusal := why_not_stored(offline):
            raise refusal
    known = len(tools) - len(work)
    text = f"Wrote {counted(done.requests, 'request')} for {counted(done.tools, 'tool')}"
    text += f"; {counted(known, 'tool')} had some already" if known else ""
    text += f"; failed for {counted(len(done.failed), 'tool')}" if done.failed else ""
    answer = {"tools": done.tools, "requests": done.requests, "known": known, "failed": done.failed}
    print_answer(answer, f"{text}.", as_json=as_json)
    fail_if(done.failed)


@dataclass(frozen=True, slots=True)
class _Selection:
    """Which tools a person means: of this server, with this public name; None means any."""

    server: str | None
    tool: str | None

    def tools_in(self, offline: "Offline") -> "list[Tool]":
        tools = offline.indexer.current().tools
        return [each for each in tools if self.server in (None, each.server) and self.tool in (None, each.public_name)]

    def takes(self, server: str, name: str, tools: "Sequence[Tool]") -> bool:
        """Return whether stored requests are selected: also those of a tool that is gone, unless one tool is named."""
        if self.tool is not None:
            return any((each.server, each.name) == (server, name) for each in tools)
        return self.server in (None, server)


@dataclass(frozen=True, slots=True)
class _Run:
    """The words of a command, and its deadline in seconds."""

    words: Sequence[str]
    timeout_s: float


@dataclass(slots=True)
class _Done:
    """For how many tools how many requests were written, and why there are none for others, by public name.

    ``refused`` is why the command cannot be run at all.
    """

    tools: int = 0
    requests: int = 0
    failed: dict[str, str] = field(default_factory=dict[str, str])
    refused: BadRequest | None = None


@dataclass(frozen=True, slots=True)
class _Work:
    """A tool, and the definition that the command gets, as JSON."""

    tool: "Tool"
    definition: str

    @property
    def digest(self) -> str:
        return sha256(self.definition.encode()).hexdigest()


def _words(command: str) -> list[str]:
    """Return the words of a command, split as a POSIX shell does, without running one.

    Raises:
        BadRequest: it is empty, or a quote is not closed.

    """
    try:
        # A backslash is part of a path on Windows.
        words = shlex.split(command, posix=sys.platform != "win32")
    except ValueError as error:
        raise BadRequest(f"--with cannot be split into words: {error}.") from None
    if not words:
        raise BadRequest("--with is empty; name a command, such as --with 'python write_requests.py'.")
    return words


def _pending(offline: "Offline", tools: "Sequence[Tool]", *, again: bool) -> list[_Work]:
    """Return the tools to write requests for, and store anew those of a definition that is still the same."""
    kept = {(each.server, each.tool): each for each in offline.state.requests.all()}
    work: list[_Work] = []
    for each in _definitions(offline, tools):
        known = None if again else kept.get((each.tool.server, each.tool.name))
        if known is None or known.definition != each.digest:
            work.append(each)
        elif known.fingerprint != each.tool.fingerprint:  # the config, or a release, has another record of it
            offline.state.requests.keep(_written(each, known.requests))
    return work


def _definitions(offline: "Offline", tools: "Sequence[Tool]") -> Iterator[_Work]:
    redactor = offline.settings.redactor
    read = offline.index.definitions([tool.row for tool in tools])
    for tool in tools:
        if (definition := read.get(tool.row)) is not None:
            # As an agent would see it: with its public name.
            said: JsonObject = {**definition, "name": tool.public_name}
            yield _Work(tool, json.dumps(redactor.cleaned(said), ensure_ascii=False))


def _written(work: _Work, requests: tuple[str, ...]) -> "WrittenRequests":
    from toolcrib.policy.state import WrittenRequests

    return WrittenRequests(work.tool.server, work.tool.name, work.tool.fingerprint, work.digest, requests)


async def _write_all(run: _Run, offline: "Offline", work: Iterable[_Work]) -> _Done:
    import anyio
    from anyio.to_thread import run_sync

    from toolcrib.catalog.own_words import cleaned

    pending, done = list(work), _Done()
    places = anyio.CapacityLimiter(_PARALLEL)

    async def write(number: int, each: _Work) -> None:
        async with places:
            name = each.tool.public_name
            try:
                requests = _usable(cleaned(await _output(run, each.definition), offline.settings.redactor))
                # Stored one by one, so that a run that is stopped has lost nothing.
                await run_sync(offline.state.requests.keep, _written(each, requests))
            except BadRequest as error:
                # The same for every tool: the others need not be tried.
                done.refused = error
                tasks.cancel_scope.cancel()
                return
            except _Failed as error:
                done.failed[name] = str(error)
                remedy = f"try it alone: --tool {name}"
                print_text(f"{number}/{len(pending)} {name}: {error}; {remedy}", error=True)
                return
            done.tools, done.requests = done.tools + 1, done.requests + len(requests)
            print_text(f"{number}/{len(pending)} {name}: {counted(len(requests), 'request')}", error=True)

    async with anyio.create_task_group() as tasks:
        for number, each in enumerate(pending, 1):
            tasks.start_soon(write, number, each)
    if done.refused:
        raise done.refused
    return done


def _usable(requests: tuple[str, ...]) -> tuple[str, ...]:
    if not requests:
        raise _Failed("the command printed nothing")
    return requests


class _Failed(Exception):
    """A command has written no requests for a tool; the text says why."""


async def _output(run: _Run, definition: str) -> str:
    """Run the command for one tool, and return its output.

    Raises:
        _Failed: it failed, took too long, or wrote too much.
        BadRequest: there is no such command.

    """
    import anyio

    try:
        # No shell, and the person's own environment: this is their command, not a server.
        process = await anyio.open_process(run.words, start_new_session=True)
    except OSError as error:
        raise BadRequest(f"{run.words[0]} cannot be started: {error.strerror or error}.") from None
    async with process:
        try:
            with anyio.fail_after(run.timeout_s):
                return await _talk(process, definition)
        except TimeoutError:
            raise _Failed(f"the command took longer than {run.timeout_s:g} s") from None
        finally:
            # Before the streams are closed, which would wait for it.
            await _stop(process)


async def _talk(process: "Process", definition: str) -> str:
    import anyio

    stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
    assert stdin is not None and stdout is not None and stderr is not None, "pipes are the default"  # noqa: PT018
    tasks = anyio.create_task_group()
    printed = _Printed(tasks.cancel_scope.cancel)
    async with tasks:
        # Each stream has its own task: a command that fills one pipe while the other is awaited would hang.
        tasks.start_soon(printed.collect, stdout, printed.output)
        tasks.start_soon(printed.collect, stderr, printed.errors)
        # A command need not read its input, or not all of it.
        with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await stdin.send(definition.encode("utf-8", "replace"))
        await stdin.aclose()
    if printed.is_too_long:
        raise _Failed(f"the command printed more than {_OUTPUT_MAX >> 10} KiB")
    code = await process.wait()
    if code:
        said = printed.errors.decode("utf-8", "replace").strip().splitlines()
        reason = f": {truncate(one_line(said[-1]), _REASON_MAX)}" if said else ""
        raise _Failed(f"the command ended with {code}{reason}")
    return printed.output.decode("utf-8", "replace")


class _Printed:
    """What a command prints, up to a limit; beyond it ``stop`` is called."""

    def __init__(self, stop: "Callable[[], object]") -> None:
        self.output, self.errors = bytearray(), bytearray()
        self._stop = stop

    @property
    def is_too_long(self) -> bool:
        return max(len(self.output), len(self.errors)) > _OUTPUT_MAX

    async def collect(self, stream: "ByteReceiveStream", into: bytearray) -> None:
        async for chunk in stream:
            into += chunk
            if self.is_too_long:
                self._stop()


async def _stop(process: "Process") -> None:
    """End the command and what it has started, as far as it still runs."""
    import anyio

    if process.returncode is not None:
        return
    with anyio.move_on_after(_LEFT_S, shield=True), suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
