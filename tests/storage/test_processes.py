"""Several processes on one file, and processes that die while they write."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from builders import numbered, opened, replace

HERE = Path(__file__).parent

INDEXING = """
import sys
from pathlib import Path
from builders import numbered, opened, replace

path, server, turns = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
with opened(path) as world:
    for turn in range(turns):
        replace(world.index, numbered(server, 20, f"Paints wall {turn}."))
        replace(world.index, numbered("shared", 20 + turn % 2, f"Paints wall {turn}."))
        world.names("paint")
    print(world.store.rebuilt, flush=True)
"""

RELISTING = """
import itertools, sys
from pathlib import Path
from builders import numbered, opened, replace

with opened(Path(sys.argv[1])) as world:
    print("ready", flush=True)
    for turn in itertools.count():
        replace(world.index, numbered("s", 200 if turn % 2 else 100, f"Turn {turn % 2}."), config=f"c{turn % 2}")
"""


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (HERE, HERE.parent / "catalog")))},
    )


@pytest.mark.slow
@pytest.mark.parametrize("before", ["nothing", "garbage"])
def test_eight_processes_share_one_file(tmp_path: Path, before: str):
    path = tmp_path / "cache" / "tool_cache.db"
    if before == "garbage":
        path.parent.mkdir()
        path.write_bytes(b"garbage" * 1000)
    children = [start(INDEXING, path, f"s{number}", 5) for number in range(8)]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:  # all at once
        child.stdin.write("\n")
        child.stdin.flush()
    outputs = [child.communicate(timeout=60) for child in children]
    assert [errors for _, errors in outputs] == [""] * 8
    reasons = {output.strip() for output, _ in outputs}
    assert not any("memory" in reason for reason in reasons)
    with opened(path) as world:
        assert world.store.rebuilt is None
        assert world.index.check() == []
        if before == "nothing":
            assert reasons == {"None"}
            counts = {key: row.tool_count for key, row in world.index.server_rows().items()}
            assert counts == {"shared": 20} | {f"s{number}": 20 for number in range(8)}


@pytest.mark.slow
def test_a_process_killed_while_it_writes_leaves_one_whole_list(tmp_path: Path):
    path = tmp_path / "cache" / "tool_cache.db"
    chance = random.Random(7)
    with opened(path) as world:
        replace(world.index, numbered("s", 100, "Turn 0."), config="c0")
    for _ in range(25):
        child = start(RELISTING, path)
        try:
            assert child.stdout.readline() == "ready\n"
            with pytest.raises(subprocess.TimeoutExpired):
                child.wait(chance.uniform(0.01, 0.2))
        finally:
            child.send_signal(signal.SIGKILL)
            child.communicate(timeout=10)
        with opened(path) as world:
            assert world.store.rebuilt is None
            assert world.index.check() == []
            row = world.index.server_rows()["s"]
            tools = world.index.load({"s": row.config_fingerprint})
            assert (row.config_fingerprint, len(tools)) in {("c0", 100), ("c1", 200)}
            texts = {each[0][:7] for each in world.index.texts(tool.row for tool in tools).values()}
            assert texts == {f"Turn {row.config_fingerprint[1]}."}


DAMAGING = """
import json, random, sys
from pathlib import Path
from builders import numbered, opened, replace
from toolcrib.base.errors import StoreError

path, cycles = Path(sys.argv[1]), int(sys.argv[2])
whole = path.read_bytes()
outcomes = {"used": 0, "rebuilt": 0}
for cycle in range(cycles):
    chance = random.Random(cycle)
    content = bytearray(whole)
    place = chance.randrange(len(content))
    if cycle % 3 == 0:
        for _ in range(chance.randint(1, 200)):
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    elif cycle % 3 == 1:
        del content[place:]
    else:
        content[place : place + 4096] = chance.randbytes(4096)
    for file in path.parent.glob(path.name + "*"):
        file.unlink()
    path.write_bytes(content)
    with opened(path) as world:
        world.index.load({"s": "c1"})
        outcomes["rebuilt" if world.store.rebuilt else "used"] += 1
        try:
            replace(world.index, numbered("s", 10))
            world.names("paint")
        except StoreError:  # said, not crashed; one in a thousand
            pass
print(json.dumps(outcomes))
"""


@pytest.mark.slow
def test_no_damage_to_the_file_stops_the_next_start(tmp_path: Path):
    path = tmp_path / "cache" / "tool_cache.db"
    with opened(path) as world:
        replace(world.index, numbered("s", 300, "Paints a wall."))
    child = start(DAMAGING, path, 120)  # a process of its own, should SQLite itself fall over
    output, errors = child.communicate(timeout=120)
    assert (child.returncode, errors) == (0, "")
    outcomes = json.loads(output)
    assert sum(outcomes.values()) == 120
    assert outcomes["rebuilt"] > 80
