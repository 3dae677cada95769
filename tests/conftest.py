"""What all tests share: what each has for itself, and which inputs Hypothesis draws."""

import gc
import logging
import os
import secrets
import signal
from collections.abc import Generator, Sequence
from functools import cache
from pathlib import Path
from uuid import uuid4

import httpcore2
import pytest
from hypothesis import Phase, settings

import blocking
from e2e.npm import HOW_TO_INSTALL, Npm, find
from toolcrib.downstream.states import Arriving
from toolcrib.search import static_model

pytest_plugins = ["reruns", "delays", "samples", "timeouts"]

blocking.install()

MODEL_PACKAGE = static_model.PACKAGE

settings.register_profile("quick", derandomize=True, deadline=None, max_examples=10)
# Shrinking has no clock and may take longer than a test may: what was found is shrunk by whoever mends it.
_UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)
# The same inputs each time, so that what CI refuses is about the change.
settings.register_profile("ci", derandomize=True, deadline=None, max_examples=100, print_blob=True, phases=_UNSHRUNK)
settings.register_profile("explore", deadline=None, max_examples=300, database=None, print_blob=True, phases=_UNSHRUNK)
settings.load_profile("quick")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _nothing_blocks_the_loop() -> Generator[None]:
    """Fail a test during which the product kept its event loop from going on."""
    with blocking.watched() as calls:
        yield
    assert not calls, "blocked the event loop:\n" + "\n".join(dict.fromkeys(calls))


@pytest.fixture(scope="session", autouse=True)
def _nothing_of_whoever_runs_it(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """Keep the options of this run from tests that run pytest on something else, and decisions out of the home.

    The process that starts the workers keeps the options: each worker reads them anew.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTEST_ADDOPTS", raising=False)
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.getbasetemp() / "data" / "shared"))
        yield


@pytest.fixture(autouse=True)
def _data_home(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep what a test decides out of the data directory of whoever runs it."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path_factory.getbasetemp() / "data" / uuid4().hex))


@pytest.fixture(scope="session", autouse=True)
def _certificates_are_read_once() -> Generator[None]:
    """Share the system's certificates, which no test is about: to read them takes longer than a connection."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpcore2, "default_ssl_context", cache(httpcore2.default_ssl_context))
        yield


@pytest.fixture
def just_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a server that is being listed have begun this moment, however busy the machine is."""

    def arriving(seconds: float | None, *, is_download: bool) -> Arriving:
        return Arriving(None if seconds is None else 0.0, is_download=is_download)

    monkeypatch.setattr("toolcrib.downstream.lifecycle.Arriving", arriving)


@pytest.fixture(scope="session", autouse=True)
def _words_alone() -> Generator[None]:
    """Rank by words in the tests' own process, with and without the extra, unless a test is about meaning."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(static_model, "PACKAGE", "of-a-model-that-nobody-has")
        yield


@pytest.fixture
def installed_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the test use the model that the extra ``semantic`` has installed, if it has."""
    monkeypatch.setattr(static_model, "PACKAGE", MODEL_PACKAGE)


@pytest.fixture(autouse=True)
def _logging_is_as_it_was() -> Generator[None]:
    """Take back what a command that ran in the test's own process has set up for a process of its own."""
    loggers = [logging.getLogger(name) for name in ("", "toolcrib", "client", "mcp.client")]
    before = [(logger, logger.level, list(logger.handlers)) for logger in loggers]
    yield
    for logger, level, handlers in before:
        if logger.level != level:
            logger.setLevel(level)
        logger.handlers[:] = [handler for handler in logger.handlers if handler in handlers]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the place of a store's file, in a directory that is not there yet."""
    return tmp_path / "cache" / "tool_cache.db"


@pytest.fixture(scope="session")
def npm() -> Npm:
    """Return the programs from npm; a test that asks for them is slow, and is skipped where they are missing."""
    found = find(os.environ)
    if found is None:
        pytest.skip(HOW_TO_INSTALL)
    return found


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    for item in items:
        if "npm" in getattr(item, "fixturenames", ()) or item.get_closest_marker("full"):
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Have what tests start end by an interrupt, also where all of this runs in the background of a shell.

    There the signal is ignored, which a program inherits. Nearly all that collecting makes stays: to look for garbage
    in it, again and again, would take a third of its time.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Keep the garbage collector from walking, again and again, through what lives as long as the process.

    What a test leaves is little: to look for garbage in it at the default threshold takes a thirtieth of all CPU.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return how many workers ``-n auto`` means: more than cores, because many tests wait for a deadline to pass."""
    return (os.cpu_count() or 1) + 3


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Draw a seed for ``explore`` before Hypothesis asks for it and before workers are given the options."""
    if config.option.hypothesis_profile == "explore" and config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(secrets.randbelow(2**32))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Print the seed, whatever the verbosity is: without it a failure cannot be had again."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    seed = session.config.option.hypothesis_seed
    if reporter and seed is not None and not hasattr(session.config, "workerinput"):
        reporter.write_line(f"hypothesis seed: repeat with --hypothesis-profile=explore --hypothesis-seed={seed}")
