"""Skill files damaged in two thousand ways: no exception, no long wait, and one error wherever there is no skill."""

import random
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from shelving import repo, skills

from toolcrib.skills.formats.agent_skill import conformance, read_agent_skill
from worlds import world

pytestmark = pytest.mark.hostile

CORPUS = Path(__file__).resolve().parents[2] / "../shared/skills-dev/corpus"
FILES = 2000
FROM_CORPUS = 60
SLOWEST_S = 0.1 if sys.gettrace() is None else 0.5
"""Processor time for one file; measuring coverage costs several times as much."""

FIXTURES = [
    "---\nname: fill-form\ndescription: Fills forms.\n---\n# Fill\n\n1. Open\n2. Fill\n\n## Pitfalls\n- none\n",
    "---\nname: a\ndescription: Use when: `asked`\ntags: [x, y]\nmetadata: {requires: [KEY]}\n---\n```sh\nls\n```\n",
    "\ufeff\r\n---\r\nname: crlf\r\ndescription: >\r\n  folded\r\n---\r\n| a | b |\r\n|---|---|\r\n| 1 | 2 |\r\n",
    "---\nname: unclosed\ndescription: no fence\n\n# Body\n\n- [ ] check\n  - nested\n",
    "---\nbase: &b {k: v}\nmore: [*b, *b]\ndescription: aliases\ntools: [{tool: git}]\n---\n## Step 1: x\n## 2. y\n",
    "# No frontmatter\n\nwords\n",
]
LUMPS: list[Callable[[random.Random], bytes]] = [
    lambda _: b"[" * 100_000,
    lambda _: b"{a: " * 20_000,
    lambda _: b"- " * 20_000,
    lambda _: b"".join(b" " * depth + b"- a\n" for depth in range(500)),
    lambda _: b"# h\n" * 20_000,
    lambda _: b"1. s\n" * 20_000,
    lambda _: b"```\n" * 20_001,
    lambda _: b"x" * 900_000,
    lambda _: b"\n" * 500_000,
    lambda _: b"k: v: w\n" * 8_000,
    lambda _: b'"' * 60_000,
    lambda _: b"a: 'b\n" * 8_000,
    lambda _: b"? " * 30_000,
    lambda _: b"&a " * 20_000,
    lambda _: (
        b"a0: &a0 [x]\n"
        + b"".join(b"a%d: &a%d [%s]\n" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 12))
    ),
    lambda _: b"b: &b " + b"y" * 30_000 + b"\nc: [" + b"*b, " * 8_000 + b"]\n",
    lambda _: b"n: 0x" + b"f" * 9_000 + b"\n",
    lambda _: b"\0",
    lambda _: b"\xff\xfe",
    lambda _: b"\xed\xa0\x80",
    lambda _: b"\xe2\x80\xae\x1b[31m\xef\xbb\xbf",
    lambda _: b"---\n",
    lambda _: b"description: |\n",
    lambda _: b"name: \n",
    lambda _: b"\t",
    lambda chance: chance.randbytes(200),
    lambda chance: chance.randbytes(20_000),
    lambda _: b"t" * 1_100_000,
]


def damaged(raw: bytes, chance: random.Random) -> bytes:
    """Return ``raw`` with bytes flipped, lines lost or doubled, something hostile put in, or its end cut off."""
    for _ in range(chance.randint(1, 3)):
        raw = chance.choice((_flipped, _cut, _without_fences, _without_a_line, _with_a_lump, _with_a_lump))(raw, chance)
    return raw


def _flipped(raw: bytes, chance: random.Random) -> bytes:
    made = bytearray(raw or b" ")
    for _ in range(chance.choice((1, 3, 40))):
        made[chance.randrange(len(made))] = chance.choice((chance.randrange(256), *b"-:[]{}'\"`#\n\t|>&*"))
    return bytes(made)


def _cut(raw: bytes, chance: random.Random) -> bytes:
    return raw[: chance.randrange(len(raw) + 1)]


def _without_fences(raw: bytes, chance: random.Random) -> bytes:
    mark = chance.choice((b"---", b"```", b"\n", b": "))
    return raw.replace(mark, b"", chance.choice((1, -1)))


def _without_a_line(raw: bytes, chance: random.Random) -> bytes:
    lines = raw.split(b"\n")
    at = chance.randrange(len(lines))
    lines[at : at + 1] = [] if chance.random() < 0.5 else [lines[at]] * chance.choice((2, 500))
    return b"\n".join(lines)


def _with_a_lump(raw: bytes, chance: random.Random) -> bytes:
    at = chance.choice((chance.randrange(len(raw) + 1), min(4, len(raw)), max(raw.find(b"\n---"), 0) + 1, len(raw)))
    return raw[:at] + chance.choice(LUMPS)(chance) + raw[at:]


def seeds() -> list[bytes]:
    """Return fixtures of our own, and some real files where they are there."""
    own = [text.encode() for text in FIXTURES]
    files = sorted(CORPUS.rglob("SKILL.md")) if CORPUS.is_dir() else []
    return own * 5 + [file.read_bytes() for file in random.Random(7).sample(files, min(FROM_CORPUS, len(files)))]


def test_no_damaged_file_breaks_or_stalls_the_reader_and_each_lost_skill_is_one_error(record_property):
    chance, originals = random.Random(20261120), seeds()
    slow: list[tuple[float, bytes]] = []
    lost = 0
    for number in range(FILES):
        raw = damaged(chance.choice(originals), chance)
        path = f"skill-{number}/SKILL.md"
        spent, (text, problems) = timed(raw, path)
        if spent > SLOWEST_S:  # a busy machine is slow once; a hostile file is slow again
            slow += [(again, raw[:200]) for again in [timed(raw, path)[0]] if again > SLOWEST_S]
        errors = [problem for problem in problems if problem.level == "error"]
        assert len(errors) == (text is None), (errors, raw[:500])
        assert {problem.path for problem in problems} <= {path}
        assert all(problem.message and len(problem.message) < 8000 for problem in problems)
        lost += text is None
        if text is not None:
            assert text.name
            assert text.description
            assert all(problem.path == path for problem in conformance(text, f"skill-{number}", path))
    record_property("count", number + 1)
    record_property("worst", f"{lost} of {number + 1} were lost, with an error each")
    assert not slow, slow
    assert FILES / 10 < lost < FILES * 9 / 10, "the damage is too small or too great to mean something"


def timed(raw: bytes, path: str):
    began = time.process_time()
    answer = read_agent_skill(raw, folder_name=path.partition("/")[0], path=path)
    return time.process_time() - began, answer


# -- a start with all of them --------------------------------------------------------------------

INITIALIZE_S = 2.0
"""How long a client may wait for the answer to ``initialize``, on a machine with nothing to spare."""


@contextmanager
def busy_machine(workers: int = 2) -> Generator[None]:
    """Keep the processors busy with other work."""
    with ExitStack() as stack:
        for _ in range(workers):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(process.kill)
        yield


@pytest.mark.anyio
async def test_no_client_waits_for_two_thousand_of_them_on_a_busy_machine(tmp_path):
    chance, originals = random.Random(20261121), seeds()
    for number in range(FILES):
        folder = repo(tmp_path) / f"skill-{number}"
        folder.mkdir(parents=True)
        raw = chance.choice(originals)
        (folder / "SKILL.md").write_bytes(damaged(raw, chance) if number % 2 else raw)
    waited: list[float] = []
    with busy_machine():
        for _ in range(3):
            async with world(tmp_path, {}, skills(), wait=False) as w:
                began = time.monotonic()
                async with w.client():
                    waited.append(time.monotonic() - began)
    assert max(waited) < INITIALIZE_S, waited
