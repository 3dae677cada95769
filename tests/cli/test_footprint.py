"""The caches of configs that are gone are removed, and nothing else is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from toolcrib.cli.footprint import IDLE_S, NOTE, own_files, remove, sweep, sweep_daily
from toolcrib.config.loading import load
from toolcrib.config.paths import user_cache_dir

NOW = 1_800_000_000.0


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "XDG_DATA_HOME": str(tmp_path / "data")}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "toolcrib"


def cache_of(config: Path, environ: dict[str, str], *, idle_s: float = IDLE_S + 1, kept: bool = False) -> Path:
    """Make the cache of a config that is gone, unless it is ``kept``, last written so long ago."""
    config.write_text("{}")
    settings = load(config, environ, config.parent)
    sweep_daily(settings, environ, NOW)
    for name in (
        "tool_cache.db",
        "tool_cache.db-wal",
        "skills.db",
        "events.jsonl.1",
        "program-worker",
        "greetings/a.json",
        "logs/git.log",
    ):
        file = settings.cache_dir / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("x")
    for file in settings.cache_dir.rglob("*"):
        os.utime(file, (NOW - idle_s, NOW - idle_s))
    if not kept:
        config.unlink()
    return settings.cache_dir


def test_the_cache_of_a_config_that_is_gone_goes_after_a_while(tmp_path: Path, environ: dict[str, str], root: Path):
    gone = cache_of(tmp_path / "gone.json", environ)
    lately = cache_of(tmp_path / "lately.json", environ, idle_s=IDLE_S - 1)
    kept = cache_of(tmp_path / "kept.json", environ, kept=True)
    assert sweep(root, NOW) == [gone]
    assert not gone.exists()
    assert len(list(lately.iterdir())) == len(list(kept.iterdir())) == 9


def test_nothing_that_is_not_ours_is_removed(tmp_path: Path, environ: dict[str, str], root: Path):
    with_others = cache_of(tmp_path / "others.json", environ)
    (with_others / "mine.txt").write_text("mine")
    (with_others / "folder").mkdir()
    (with_others / "folder" / "tool_cache.db").write_text("mine")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "events.jsonl").write_text("mine")
    (with_others / "logs" / "git.log").unlink()
    (with_others / "logs").rmdir()
    (with_others / "logs").symlink_to(elsewhere)
    renamed = cache_of(tmp_path / "renamed.json", environ).rename(root / "renamed")
    linked = root / "linked-0123456789ab"
    linked.symlink_to(elsewhere)
    unnamed = cache_of(tmp_path / "unnamed.json", environ)
    (unnamed / NOTE).unlink()
    before = [sorted(each.rglob("*")) for each in (renamed, unnamed, elsewhere)]
    sweep(root, NOW)
    assert [sorted(each.rglob("*")) for each in (renamed, unnamed, elsewhere)] == before
    assert {each.name for each in with_others.iterdir()} == {"mine.txt", "folder", "logs"}
    assert linked.is_symlink()


def test_it_is_looked_once_a_day(tmp_path: Path, environ: dict[str, str], root: Path):
    config = tmp_path / "own.json"
    own = cache_of(config, environ, kept=True)
    gone = cache_of(tmp_path / "gone.json", environ)
    settings = load(config, environ, tmp_path)
    os.utime(root / ".swept", (NOW, NOW))
    sweep_daily(settings, environ, NOW + 3600)
    assert gone.exists()
    sweep_daily(settings, environ, NOW + 25 * 3600)
    assert not gone.exists()
    assert own.exists()


def test_a_cache_that_the_config_names_is_nobody_elses_to_look_after(
    tmp_path: Path, environ: dict[str, str], root: Path
):
    config = tmp_path / "own.json"
    config.write_text('{"toolcrib": {"cache_dir": "here"}}')
    sweep_daily(load(config, environ, tmp_path), environ, NOW)
    sweep_daily(load(None, environ, tmp_path), environ, NOW)
    assert not root.exists()
    assert not (tmp_path / "here").exists()


def test_what_cannot_be_written_is_no_reason_not_to_serve(tmp_path: Path, environ: dict[str, str]):
    config = tmp_path / "own.json"
    config.write_text("{}")
    (tmp_path / "cache").write_text("a file")
    sweep_daily(load(config, environ, tmp_path), environ, NOW)


def test_files_are_removed_with_the_folders_that_are_empty_then(tmp_path: Path, environ: dict[str, str]):
    cache = cache_of(tmp_path / "any.json", environ)
    own = list(own_files(cache))
    assert len(own) == len([file for file in cache.rglob("*") if file.is_file()])
    remove(own, cache)
    assert not cache.exists()


@pytest.mark.slow
def test_serve_notes_whose_its_cache_is(tmp_path: Path, environ: dict[str, str]):
    config = tmp_path / "own.json"
    config.write_text("{}")
    command = [sys.executable, "-m", "toolcrib", "serve", "--config", str(config)]
    subprocess.run(command, env={**os.environ, **environ}, stdin=subprocess.DEVNULL, timeout=60, check=True)
    assert (user_cache_dir(environ, config) / NOTE).read_text() == str(config)
