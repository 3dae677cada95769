"""Paths that try to get out of a skill's folder, and folders that change while they are read."""

import itertools
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from counts import count

from toolcrib.base.errors import UnknownSkill
from toolcrib.base.text import one_line
from toolcrib.config.schema import LimitsSection
from toolcrib.skills.sources.files import Manifests, list_inside, read_inside

pytestmark = pytest.mark.hostile

SECRET = b"OUTSIDE"
LIMITS = LimitsSection()
PATIENCE_S = 20


@pytest.fixture(params=["descriptors", "paths"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "paths":
        monkeypatch.setattr("toolcrib.skills.sources.files._HAS_DESCRIPTORS", False)


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    """Make a skill full of traps: links out of it, and things that are no files. What lies outside is secret."""
    folder = tmp_path / "repo/skills/pdf"
    for path in ("secret.txt", "repo/secret.txt", "repo/skills/secret.txt", "repo/skills/pdf-2/SKILL.md"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(SECRET)
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_bytes(b"inside")
    (folder / "scripts/run.py").write_bytes(b"inside")
    (folder / ".env").write_bytes(SECRET)
    (folder / "sparse").touch()
    os.truncate(folder / "sparse", 10 * 2**30)
    os.mkfifo(folder / "pipe")
    links = {
        "out": tmp_path / "secret.txt",
        "up": Path(".."),
        "root": Path("/"),
        "sibling": Path("../pdf-2"),
        "zero": Path("/dev/zero"),
        "memory": Path("/proc/self/environ"),
        "dangling": Path("nowhere"),
        "self": Path("self"),
        "scripts/out": Path("../../secret.txt"),
        "scripts/back": Path(".."),
        "hop": Path("out"),
        "alias": Path("SKILL.md"),
    }
    for name, target in links.items():
        (folder / name).symlink_to(target)
    return folder


def attacks(folder: Path) -> list[str]:
    """Return more than 300 paths, none of which names a file of the skill."""
    outside = ["secret.txt", "pdf-2/SKILL.md", "skills/secret.txt", "etc/passwd"]
    ups = [
        "..",
        "../..",
        "../../..",
        "../" * 40 + "..",
        "scripts/..",
        "scripts/../..",
        "./..",
        "....",
        "..;",
        ".. ",
        "…",
    ]
    climbs = [f"{up}{slash}{target}" for up in ups for slash in ("/", "//", "\\") for target in outside]
    encoded = [
        f"{dot}{dot}{slash}{target}"
        for dot in ("%2e", "%252e", "%c0%ae", "\u2024", "\uff0e", "\x2e\u200b")
        for slash in ("/", "%2f", "%5c", "\u2215", "\uff0f")
        for target in outside
    ]
    absolute = [
        "/etc/passwd",
        str(folder / "SKILL.md"),
        str(folder.parent / "secret.txt"),
        "//etc/passwd",
        "file:///etc/passwd",
        "~/.ssh/id_rsa",
        "C:\\Windows\\win.ini",
        "C:/Windows/win.ini",
        "\\\\host\\share",
        "/proc/self/environ",
        "/dev/stdin",
    ]
    zeros = [f"{name}\x00{rest}" for name in ("SKILL.md", "../secret.txt", "") for rest in ("", ".png", "/x")]
    broken = [f"SKILL.md{char}" for char in "\n\r\t\x1b\x7f\x85\ud800\udfff"] + [
        "\udcff",
        "a\\b",
        "\\",
        "scripts\\run.py",
    ]
    links = ["out", "hop", "alias", "dangling", "self", "zero", "memory", "root/etc/passwd", "up/secret.txt"]
    links += ["sibling/SKILL.md", "scripts/out", "scripts/back/SKILL.md", "scripts/back/scripts/run.py", "up", "root"]
    kinds = [
        "pipe",
        "scripts",
        "sparse",
        ".env",
        "",
        ".",
        "..",
        "/",
        "//",
        "scripts/",
        "scripts/.",
        "none",
        "self/self",
    ]
    ends = [
        f"SKILL.md{end}" for end in ("/", "//", "/.", "/..", ".", " ", "/x", "::$DATA", ":x", "%00", "/../SKILL.md")
    ]
    dots = ["./SKILL.md", "scripts/./run.py", "scripts//run.py", "scripts/../SKILL.md", "/SKILL.md", " SKILL.md"]
    long = ["a" * 300, "a/" * 600 + "a", "a" * 100_000, "scripts/" * 20 + "run.py", "x/" * 17 + "SKILL.md"]
    long += ["../" * 5000 + "etc/passwd", "SKILL.md" + "/" * 5000]
    names = [
        "SKlLL.md",
        "SKILL.mｄ",
        "SKİLL.md",
        "SKILL\u200b.md",
        "S\u0301KILL.md",
        "CON",
        "NUL",
        "aux.txt",
        "$HOME",
        "*",
    ]
    groups = (climbs, encoded, absolute, zeros, broken, links, kinds, ends, dots, long, names)
    return list(dict.fromkeys(itertools.chain.from_iterable(groups)))


@pytest.mark.usefixtures("system")
def test_no_path_leads_out_and_every_refusal_reads_like_a_missing_file(skill: Path):
    paths = attacks(skill)
    assert len(paths) >= 300
    began = time.process_time()
    for base in (None, skill.parents[1]):
        for path in paths:
            with pytest.raises(UnknownSkill) as refused:
                read_inside(skill, path, 2**20, base=base)
            assert str(refused.value) == str(UnknownSkill(one_line(path[:200]))), ascii(path)
            assert refused.value.__suppress_context__
    assert time.process_time() - began < PATIENCE_S
    assert read_inside(skill, "SKILL.md", 2**20) == b"inside"


@pytest.mark.usefixtures("system")
def test_a_name_in_other_letters_gives_the_same_file_or_none(skill: Path):
    for name in ("skill.md", "Skill.MD", "SCRIPTS/run.py", "OUT", "UP/secret.txt", ".ENV"):
        try:
            assert read_inside(skill, name, 2**20) == b"inside"
        except UnknownSkill:
            continue


@pytest.mark.usefixtures("system")
def test_listings_and_manifests_have_nothing_but_the_skills_own_files(skill: Path):
    own = ("SKILL.md", "scripts/run.py")
    assert list_inside(skill, LIMITS).files == own
    assert tuple(file.path for file in Manifests().read(skill, LIMITS).files) == own


# -- while it is read -----------------------------------------------------------------------------


@contextmanager
def swapping(place: Path, lure: Path) -> Iterator[None]:
    """Have ``place`` be what it is and a link to the lure, by turns, as fast as it goes."""
    stop = threading.Event()

    def swap() -> None:
        kept, link = place.with_name("kept"), place.with_name("link")
        while not stop.is_set():
            link.symlink_to(lure)
            place.rename(kept)
            link.rename(place)
            for _ in range(10):
                place.lstat()
            place.unlink()
            kept.rename(place)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(PATIENCE_S)


@pytest.mark.parametrize("part", ["scripts/run.py", "scripts", "."])
def test_a_part_swapped_for_a_link_while_reading_lets_nothing_out(
    tmp_path: Path, skill: Path, part: str, record_property
):
    lure = tmp_path / "lure" / "scripts" / "run.py"
    lure.parent.mkdir(parents=True)
    lure.write_bytes(SECRET)
    target = {"scripts/run.py": lure, "scripts": lure.parent, ".": lure.parent.parent}[part]
    place = skill / part
    seen, reads = set[bytes](), 0
    with swapping(place, target):
        for _ in range(count("paths") // 3):
            reads += 1
            try:
                seen.add(read_inside(skill, "scripts/run.py", 100, base=skill.parents[1]))
            except UnknownSkill:
                seen.add(b"")
    record_property("count", reads)
    assert seen <= {b"inside", b""}
    assert read_inside(skill, "scripts/run.py", 100, base=skill.parents[1]) == b"inside"
