"""Two processes on one cache that are killed while they write: what is found next is whole, and decisions stay."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import KeysView
from contextlib import closing, suppress
from pathlib import Path

import anyio
import pytest
from builders import opened
from counts import count

from fakes.menu import tool
from toolcrib.config.editing.files import replace_file
from worlds import world

pytestmark = pytest.mark.hostile

KILLS = count("kills")
SIZES = (60, 120)
FIRST = 7
"""The number of the tool that is called before anything is killed, and by none of those that are."""
OTHERS = [number for number in range(min(SIZES)) if number != FIRST]
NAMED = {"TOOLCRIB_SESSION_ID": "mine"}
CONFIG = {"tool_search": {"activation_scope": "session"}, "state_dir": "state"}
"""What has been activated is kept in ``state.db``, by the id of the session."""

FORKER = """
import itertools, os, sys, traceback
from pathlib import Path
import anyio
from fakes.menu import tool
from test_hostile_kills import CONFIG, NAMED, OTHERS, listed
from toolcrib.config.editing.files import replace_file
from worlds import world

folder = Path(sys.argv[1])

async def write(number):
    own = folder / str(number)  # for the config, which a world writes
    own.mkdir(exist_ok=True)
    shared = {**CONFIG, **{key: str(folder / name) for key, name in (("cache_dir", "cache"), ("state_dir", "state"))}}
    async with world(own, {"zoo": listed(number)}, shared, environ=NAMED) as w, w.client() as client:
        for turn in itertools.count(number):
            await w["zoo"].change(*listed(turn))
            name = f"zoo__feed_{OTHERS[turn % len(OTHERS)]}"
            await client.call(name, {})
            os.write(1, f"answered {name}\\n".encode())  # in one piece, whenever it is killed
            await anyio.sleep(0.002)

for line in sys.stdin:
    pids = []
    for number in range(2):
        pids.append(os.fork())
        if not pids[-1]:
            try:
                anyio.run(write, number)
            except BaseException:
                traceback.print_exc()
            os._exit(4)
    print("begun", *pids, flush=True)
    print("ended", *(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids), flush=True)
"""


def listed(turn: int) -> list[dict]:
    """Return the list of a server at some turn: the texts of all its tools are of the same turn."""
    return [tool(f"feed_{number}", f"Turn {turn % 2}. Feeds animal {number}.") for number in range(SIZES[turn % 2])]


@pytest.mark.skipif(sys.platform == "win32", reason="no fork there")
@pytest.mark.timeout(3600)
def test_nothing_is_damaged_or_half_written_and_no_decision_is_lost(tmp_path: Path, record_property):
    index = anyio.run(made, tmp_path)
    [state] = tmp_path.glob("state/**/state.db")
    moments, found, longest_s = random.Random(26), Counter[str](), 0.5
    answered = Counter([f"zoo__feed_{FIRST}"])
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", FORKER, str(tmp_path)]
    with subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as forker:
        while found["killed"] < KILLS:
            before = answered.total()
            forker.stdin.write("\n")
            forker.stdin.flush()
            pids = told(forker, "begun", answered)
            for pid in moments.sample(pids, 2):
                time.sleep(moments.uniform(0, longest_s))
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            codes = told(forker, "ended", answered)
            found["killed"] += codes.count(-signal.SIGKILL)
            found["failed"] += sum(code != -signal.SIGKILL for code in codes)
            look_at(index, state, answered.keys(), found)
            longest_s *= 0.8 if answered.total() > before else 1.3  # as quick as this machine is, just now
        forker.stdin.close()
    worst = ", ".join(f"{found[what]} {what}" for what in ("damaged", "half lists", "decisions lost"))
    worst += f" of {len(answered)}, in {found['killed']} kills"
    record_property("count", found["killed"])
    record_property("worst", f"{worst}; {found['turns']} of the lists were other than before")
    assert not found["damaged"] + found["half lists"] + found["decisions lost"] + found["failed"], found
    assert found["turns"]
    assert len(answered) > 1, "no writer lived to be answered"


def told(forker: subprocess.Popen[str], word: str, answered: Counter[str]) -> list[int]:
    """Return the numbers after ``word``; count what writers have been answered meanwhile in ``answered``."""
    while line := forker.stdout.readline().split():
        if line[0] == word:
            return [int(number) for number in line[1:]]
        assert line[0] == "answered", line
        answered[line[1]] += 1
    raise AssertionError("those that start writers have ended")


async def made(folder: Path) -> Path:
    """Make a cache, and a decision beside it; return the index."""
    async with world(folder, {"zoo": listed(0)}, CONFIG, environ=NAMED) as w, w.client() as client:
        await client.call(f"zoo__feed_{FIRST}", {})
        return w.catalog_file


def look_at(index: Path, state: Path, answered: KeysView[str], found: Counter[str]) -> None:
    """Open what the killed have left, and count what is wrong with it: each name in ``answered`` is a decision."""
    with opened(index) as it:
        found["damaged"] += it.store.rebuilt is not None or it.index.check() != []
        row = it.index.server_rows()["zoo"]
        tools = it.index.load({"zoo": row.config_fingerprint})
        texts = {each[0][:7] for each in it.index.texts(known.row for known in tools).values()}
        whole = {(SIZES[turn], (f"Turn {turn}.",)) for turn in (0, 1)}
        found["half lists"] += (len(tools), tuple(texts)) not in whole
        found["turns"] += texts == {"Turn 1."}
    with closing(sqlite3.connect(state)) as connection:
        found["damaged"] += connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]
        kept = {name for (name,) in connection.execute("SELECT name FROM activations")}
        found["decisions lost"] += len(answered - kept)


REPLACER = """
import sys
from pathlib import Path
from toolcrib.config.editing.files import replace_file

while True:
    for letter in b"ab":
        replace_file(Path(sys.argv[1]), bytes([letter]) * 200_000)
        print(flush=True)
"""


def test_a_config_that_is_replaced_is_whole_and_no_copy_of_it_is_left(tmp_path):
    file, chance = tmp_path / "mcp.json", random.Random(7)
    for _ in range(min(45, KILLS)):
        with subprocess.Popen([sys.executable, "-c", REPLACER, str(file)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            began = time.perf_counter()
            while time.perf_counter() - began < chance.uniform(0, 0.02):
                pass
            process.kill()
        assert set(file.read_bytes()) in ({ord("a")}, {ord("b")})
        assert file.stat().st_size == 200_000
        # Between getting a name and taking the file's place is a moment; what is left then goes with the next change.
        assert len(list(tmp_path.iterdir())) <= 2
    replace_file(file, b"{}")
    assert [each.name for each in tmp_path.iterdir()] == ["mcp.json"]
