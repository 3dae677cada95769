"""``toolcrib serve``: what a client registers.

Parsed by argparse, because a client waits for this start: everything else of the command line costs import time.
"""

import argparse
import json
import logging
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Never

import anyio
import anyio.to_thread
from anyio import to_thread
from anyio.abc import TaskGroup, TaskStatus

from toolcrib.auth.keyring import SystemKeyring
from toolcrib.base.cache import Recent
from toolcrib.base.errors import ConfigError, StartRefused, StoreError, innermost
from toolcrib.base.redaction import Learned
from toolcrib.base.signals import ChangeSignal
from toolcrib.cli.footprint import sweep_daily
from toolcrib.config.launching import refuse_nested
from toolcrib.config.loading import load
from toolcrib.config.settings import Settings
from toolcrib.gateway.instances import Process, describe_instance, keep_instance_file, open_instance_file
from toolcrib.gateway.runtime import Runtime
from toolcrib.server.early import EarlyExchange
from toolcrib.server.serving import Serving, open_server

_MOST, _WINDOW_S = 5, 10.0
_KEY_MAX = 40
"""Characters by which two messages are the same; what varies stands further on."""

_KINDS_MAX = 200
_OURS = "toolcrib"


@dataclass(slots=True)
class _Window:
    began: float
    seen: int = 0


# A client of HTTP can cause a log record a request before it is known who it is.
class LogRate(logging.Filter):
    """Passes five records of a kind in ten seconds; the next one says how many were left out. ``now``: seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__()
        self._now = now
        self._windows = Recent[tuple[str, str], _Window](_KINDS_MAX)

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is to be written."""
        if record.name.partition(".")[0] == _OURS:
            return True
        window = self._windows.get((record.name, str(record.msg)[:_KEY_MAX]), lambda: _Window(self._now()))
        if self._now() >= window.began + _WINDOW_S:
            left_out = window.seen - _MOST
            window.began, window.seen = self._now(), 0
            if left_out > 0:
                record.msg, record.args = f"{record.getMessage()} ({left_out} more like it were left out)", None
        window.seen += 1
        return window.seen <= _MOST


_LOOK_S = 1.0
"""Between two looks at the files. They are read once two of them have found them the same."""

_Stamp = tuple[tuple[int, int, int] | None, ...]


class Reloads:
    """Requests to reload the config; those that arrive during a reload cause one more."""

    def __init__(self) -> None:
        self._wanted = ChangeSignal()

    def ask(self) -> None:
        """Have the config read again, as soon as that is possible."""
        self._wanted.event.set()

    async def carry_out(self, serving: Serving, read: Callable[[], Settings]) -> Never:
        """Read the config again whenever that is asked for."""
        while True:
            await self._wanted.wait()
            loaded = await serving.gateway.reload(read)
            if loaded.failure:
                _say(f"the config is not reloaded, and nothing has changed. {loaded.failure}")
                continue
            _say(f"the config is reloaded, {len(serving.gateway.settings.servers)} servers are in it")
            for notice in (*serving.gateway.settings.notices, *serving.gateway.settings.skipped):
                _say(str(notice))
            if loaded.fixed:
                _say(f"restart toolcrib to apply changes in {', '.join(loaded.fixed)}")

    async def watch(self, serving: Serving) -> Never:
        """Ask for it each time that the config, or its file of variables, has changed."""
        seen = known = await _stamp(serving)
        while True:
            await anyio.sleep(_LOOK_S)
            before, seen = seen, await _stamp(serving)
            if seen == before and seen != known:
                known = seen
                self.ask()


async def _stamp(serving: Serving) -> _Stamp:
    settings = serving.gateway.settings
    files = settings.config_path, settings.env_file.path if settings.env_file else None
    return await anyio.to_thread.run_sync(lambda: tuple(map(_stamp_of, files)))


def _stamp_of(path: Path | None) -> tuple[int, int, int] | None:
    try:
        status = path.stat() if path else None
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino) if status else None


def _say(text: str) -> None:
    print(f"toolcrib: {text}", file=sys.stderr, flush=True)


EXIT_OK, EXIT_FAILED, EXIT_CONFIG, EXIT_REFUSED, EXIT_INTERRUPTED = 0, 1, 2, 3, 130


def main(argv: list[str], begun: EarlyExchange | None = None) -> int:
    """Serve until the client leaves or a signal comes; return the exit code.

    ``begun`` is what was done with a client on stdin before.
    """
    options = _parser().parse_args(argv)
    handler = _log_to_stderr(options.log_level, as_json=options.log_format == "json")
    code = EXIT_OK
    try:
        refuse_nested(os.environ)
        # One for all configs that this process reads: a secret that came up under one is masked under the next one too.
        read = partial(_read, options, dict(os.environ), Path.cwd(), Learned())
        settings = read()
        # Which secrets to mask is known only now; nothing before quotes a value of the config.
        handler.setFormatter(_Redacting(handler.formatter, settings.redactor.redact))
        for notice in (*settings.notices, *settings.skipped):
            print(f"toolcrib: {notice}", file=sys.stderr)
        # Events are JSON: among lines of text, no program could read them.
        mirror = _mirror if options.log_format == "json" else None
        run = partial(_Run, settings, read, options.transport, Runtime(mirror=mirror), begun or EarlyExchange())
        anyio.run(_serve, run)
    except* ConfigError as errors:
        code = _complain(errors, EXIT_CONFIG)
    except* StartRefused as errors:
        code = _complain(errors, EXIT_REFUSED)
    except* StoreError as errors:
        code = _complain(errors, EXIT_FAILED)
    except* KeyboardInterrupt:  # before the signal was taken over
        code = EXIT_INTERRUPTED
    return code


def _complain(failure: BaseException, code: int) -> int:
    """Print why nothing is served, and return ``code``."""
    print(f"toolcrib: not started. {innermost(failure)}", file=sys.stderr)
    return code


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line: a client shows its log of this, not a manual."""

    def error(self, message: str) -> Never:
        """Print the mistake and how to go on, and exit with 2."""
        self.exit(EXIT_CONFIG, f"{self.prog}: {message}. `{self.prog} --help` lists the options.\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="toolcrib serve",
        description="Serve all configured MCP servers as one, over stdio or streamable HTTP.",
        epilog="Example: toolcrib serve --config mcp.json",
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="config file (default: see 'toolcrib config path')")
    parser.add_argument("--transport", choices=("stdio", "http"), default="stdio")
    parser.add_argument("--host", help="address to bind to, over HTTP (default: http.host, 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port, over HTTP (default: http.port, 8765; 0: any free one)")
    parser.add_argument("--listing", choices=("dynamic", "stable", "auto"), help="what tools/list shows (gate.listing)")
    parser.add_argument("--watch", action="store_true", help="reload the config when its file changes")
    parser.add_argument("--events-file", metavar="FILE", help="where structured events go (events.file)")
    parser.add_argument("--log-format", choices=("text", "json"), default="text")
    parser.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="warning")
    return parser


def settings_as_started(arguments: list[str], environ: Mapping[str, str], cwd: Path) -> Settings:
    """Return what ``toolcrib serve`` with these arguments serves.

    Raises:
        ConfigError: the config cannot be used.
        SystemExit: the arguments are wrong.

    """
    return _read(_parser().parse_args(arguments), environ, cwd, Learned())


def _read(options: argparse.Namespace, environ: Mapping[str, str], cwd: Path, learned: Learned) -> Settings:
    return _with_options(load(options.config, environ, cwd, SystemKeyring().get, learned), options)


def _with_options(settings: Settings, options: argparse.Namespace) -> Settings:
    """Return the settings with what the command line says instead."""
    section = settings.toolcrib
    http = {key: value for key in ("host", "port") if (value := getattr(options, key)) is not None}
    changes = {
        "http": section.http.model_copy(update=http),
        "gate": section.gate.model_copy(update={"listing": options.listing} if options.listing else {}),
        "reload": section.reload.model_copy(update={"watch": True} if options.watch else {}),
        "events": section.events.model_copy(
            update={"file": str(Path(options.events_file).absolute())} if options.events_file else {}
        ),
    }
    return replace(settings, toolcrib=section.model_copy(update=changes))


@dataclass(frozen=True, slots=True)
class _Run:
    """One run of the command. ``read`` reads the config as at the start, ``stop`` ends the run in order."""

    settings: Settings
    read: Callable[[], Settings]
    transport: str
    runtime: Runtime
    begun: EarlyExchange
    stop: anyio.Event
    reloads: Reloads

    @asynccontextmanager
    async def serving(self, address: str = "") -> AsyncGenerator[tuple[Serving, TaskGroup]]:
        """Serve the config, read it again when that is asked for, and give a group for what goes on meanwhile.

        ``address`` is where that is reached, over HTTP.
        """
        runtime = self.runtime
        process = Process(runtime.pid, runtime.wall_clock(), self.transport, address)
        opened = partial(open_instance_file, os.environ, runtime.pid)
        opening = open_server(self.settings, self.transport, runtime)
        async with opening as serving, anyio.create_task_group() as tasks:
            tasks.start_soon(self.reloads.carry_out, serving, self.read)
            # In the background: other configs' caches must not delay the first answer.
            tasks.start_soon(to_thread.run_sync, sweep_daily, self.settings, os.environ, runtime.wall_clock())
            if self.settings.toolcrib.reload.watch:
                tasks.start_soon(self.reloads.watch, serving)
            tasks.start_soon(
                keep_instance_file,
                opened,
                lambda: describe_instance(process, serving.snapshot()),
                serving.gateway.changed,
            )
            yield serving, tasks
            tasks.cancel_scope.cancel()


async def _serve(run: Callable[[anyio.Event, Reloads], _Run]) -> None:
    async with anyio.create_task_group() as tasks:
        own = run(anyio.Event(), Reloads())
        # Before anything is opened: a signal during the start has to close it in order, too.
        await tasks.start(_take_signals, own)
        await (_serve_stdio if own.transport == "stdio" else _serve_http)(own)
        tasks.cancel_scope.cancel()


async def _serve_stdio(run: _Run) -> None:
    from toolcrib.server.stdio import refuse_without_session, serve_stdio

    refuse_without_session(run.settings)
    async with run.serving() as (serving, tasks):

        async def end() -> None:
            await run.stop.wait()
            tasks.cancel_scope.cancel()

        tasks.start_soon(end)
        if sys.stdin.isatty():
            print(_waiting_text(run.settings), file=sys.stderr, flush=True)
        run.begun.end()
        async with serving.handshakes_cached(run.begun):
            await serve_stdio(serving.server, run.settings.toolcrib.limits, run.begun)


def _waiting_text(settings: Settings) -> str:
    """Return a hint for a person who has started this by hand, at a terminal."""
    count = len(settings.servers)
    return (
        f"toolcrib: serving {count} server{'' if count == 1 else 's'} on stdio, waiting for an MCP client on stdin. "
        "A client starts this command itself once toolcrib is registered there; "
        "`toolcrib search QUERY` tries a search from here. ^C ends it."
    )


async def _serve_http(run: _Run) -> None:
    from toolcrib.server.http import TokenTable, bind, host_notice, http_app, refuse_unsafe, serve_http, url_of

    section = run.settings.toolcrib
    http, tokens = section.http, TokenTable(section.http.tokens)
    refuse_unsafe(http, activation_scope=section.tool_search.activation_scope)
    if notice := host_notice(http):
        print(f"toolcrib: {notice}", file=sys.stderr)
    with bind(http) as listener:
        address = url_of(listener, http)
        async with run.serving(address) as (serving, _tasks):
            serving.on_change = lambda settings: tokens.change(settings.toolcrib.http.tokens)
            print(f"toolcrib: serving {address}", file=sys.stderr, flush=True)
            app = http_app(serving, http, section.limits, tokens)
            await serve_http(app, http, listener, run.stop)


async def _take_signals(run: _Run, *, task_status: TaskStatus[None]) -> None:
    """End everything in order on the signals that ask for it, and read the config again on SIGHUP.

    At a terminal that one means that the terminal is gone. Started once they are taken.
    """
    hangup = getattr(signal, "SIGHUP", None)
    taken = [signal.SIGINT, signal.SIGTERM, *([hangup] if hangup else [])]
    with anyio.open_signal_receiver(*taken) as signals:
        if hangup:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {hangup})  # blocked since the process began
        task_status.started()
        async for number in signals:
            if number == hangup and not sys.stdin.isatty():
                run.reloads.ask()
            else:
                run.stop.set()


def _log_to_stderr(level: str, *, as_json: bool) -> logging.Handler:
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(LogRate(time.monotonic))
    handler.setFormatter(_JsonFormatter() if as_json else logging.Formatter("toolcrib: %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("toolcrib").setLevel(level.upper())
    if level != "debug":
        # We log a sentence about what happened to a server; the SDK logs a traceback of it.
        for name in ("client", "mcp.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
    return handler


class _JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps({"log": record.levelname.lower(), "message": super().format(record)})


class _Redacting(logging.Formatter):
    """The lines of another formatter, tracebacks too, without secrets and personal data."""

    def __init__(self, inner: logging.Formatter | None, redact: Callable[[str], str]) -> None:
        super().__init__()
        self._inner, self._redact = inner or logging.Formatter(), redact

    def format(self, record: logging.LogRecord) -> str:
        return self._redact(self._inner.format(record))


def _mirror(line: str) -> None:
    print(line, file=sys.stderr)
