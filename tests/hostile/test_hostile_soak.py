"""Many clients, servers that misbehave, reloads and kills: every call is answered, and nothing that is held grows."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from counts import THREATS, count

from soak import Held

pytestmark = pytest.mark.hostile

ROOT = Path(__file__).resolve().parents[2]
SECONDS = count("soak")
IS_FULL = THREATS["soak"].full == SECONDS
"""Only then there is something to say of what is held: at first pools and buffers fill."""
ENDS_WITHIN_S = 2 * SECONDS + (900 if IS_FULL else 200)
"""With its begin, its first round and the last calls that are waited for, on a busy machine."""


def in_words(finding: dict[str, Any]) -> str:
    """Return one finding of the soak as the page says it."""
    before = "" if finding["baseline"] is None else f" (before: {finding['baseline']:.0f})"
    return f"{finding['what']}: {finding['toolcrib']:.0f} {finding['unit']}".strip() + before


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads /proc")
def test_pipes_of_a_child_count_once_it_has_ended():
    before = Held.by(os.getpid()).descriptors
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert Held.by(os.getpid()).descriptors == before
        child.kill()
        child.wait()
        assert Held.by(os.getpid()).descriptors == before + 2
    assert Held.by(os.getpid()).descriptors == before


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads /proc")
def test_a_connection_to_a_database_counts_until_it_is_closed(tmp_path: Path):
    with ExitStack() as open_ones:
        first, *others = [open_ones.enter_context(closing(sqlite3.connect(tmp_path / "x.db"))) for _ in range(4)]
        first.execute("PRAGMA journal_mode = WAL").fetchall()
        first.execute("CREATE TABLE t (x)")
        before = Held.by(os.getpid()).descriptors
        for each in others:
            each.execute("SELECT * FROM t").fetchall()
        assert Held.by(os.getpid()).descriptors == before + len(others)
        for each in others:
            each.close()
        assert Held.by(os.getpid()).descriptors == before


@pytest.mark.timeout(ENDS_WITHIN_S + 60)
def test_nobody_waits_in_vain_and_nothing_grows(tmp_path: Path, record_property):
    """At full count the picture in docs is drawn anew."""
    picture = ROOT / "docs" / "soak.svg" if IS_FULL else tmp_path / "soak.svg"
    options = ["--json", "--minutes", f"{SECONDS / 60}", "--clients", "50" if IS_FULL else "5", "--svg", str(picture)]
    command = [sys.executable, str(ROOT / "benchmarks" / "soak.py"), *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=ENDS_WITHIN_S)
    found = {each["what"]: each for each in json.loads(done.stdout)["findings"]}
    record_property("count", SECONDS)
    record_property("worst", "; ".join(map(in_words, found.values())))
    assert picture.read_text(encoding="utf-8").startswith("<svg")
    assert found["calls answered"]["toolcrib"] > 0
    assert found["calls without an answer"]["toolcrib"] == 0
    if IS_FULL:
        assert [what for what, each in found.items() if each["holds"] is False] == []
