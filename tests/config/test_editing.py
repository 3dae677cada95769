"""Files of others are changed in their text: what is not meant stays byte for byte."""

import errno
import json
import os
import stat
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from toolcrib.base.errors import ConfigError
from toolcrib.config.documents import parse_any, read_any, text_of
from toolcrib.config.editing.changes import EDITED_MAX_CHARACTERS, RemoveMember, SetMember, apply_changes
from toolcrib.config.editing.files import EditRefused, read_original, replace_file

CRIB = {"command": "/bin/toolcrib", "args": ["serve"]}
PUT = [SetMember(("mcpServers", "crib"), CRIB)]


def edited(text: str, *changes: SetMember | RemoveMember, name: str = "f.json") -> str:
    return apply_changes(text, Path(name), changes)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '{\n  "mcpServers": {\n    "crib": {"a": 1}\n  }\n}\n'),
        ("{}", '{\n  "mcpServers": {\n    "crib": {"a": 1}\n  }\n}'),
        ('{"mcpServers": {}}', '{"mcpServers": {\n  "crib": {"a": 1}\n}}'),
        ('{"mcpServers": {"x": 1}}', '{"mcpServers": {"x": 1, "crib": {"a": 1}}}'),
        ('{"mcpServers": {"x": 1,},}', '{"mcpServers": {"x": 1, "crib": {"a": 1}},}'),
        (
            '{\n  // mine\n  "mcpServers": {\n    "x": 1 // one\n    // end\n  }\n}\n',
            '{\n  // mine\n  "mcpServers": {\n    "x": 1, // one\n    "crib": {"a": 1}\n    // end\n  }\n}\n',
        ),
        (
            '{\n\t"mcpServers": {\n\t\t"x": 1, // one\n\t},\n}\n',
            '{\n\t"mcpServers": {\n\t\t"x": 1, // one\n\t\t"crib": {"a": 1},\n\t},\n}\n',
        ),
        ('{\r\n  "a": 1\r\n}\r\n', '{\r\n  "a": 1,\r\n  "mcpServers": {"crib": {"a": 1}}\r\n}\r\n'),
        ('\ufeff{"mcpServers": {"x": 1}}', '\ufeff{"mcpServers": {"x": 1, "crib": {"a": 1}}}'),
        (
            "{'mcpServers': {'x': '}', \"y\": [\"{\", {}]}, /* } */ b: null}",
            '{\'mcpServers\': {\'x\': \'}\', "y": ["{", {}], "crib": {"a": 1}}, /* } */ b: null}',
        ),
        (
            '{\n  "mcpServers": {\n    // none yet\n  }\n}',
            '{\n  "mcpServers": {\n    // none yet\n    "crib": {"a": 1}\n  }\n}',
        ),
    ],
)
def test_a_member_is_put_into_json_and_all_else_stays(before: str, after: str):
    made = edited(before, SetMember(("mcpServers", "crib"), {"a": 1}))
    assert _flat(made) == _flat(after)
    outside = made.replace("\r\n", "\n").partition('"crib"')[0]
    assert outside.replace("  ", " ").split() == after.replace("\r\n", "\n").partition('"crib"')[0].split()


def _flat(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"m": {"a": 1, "b": 2}}', '{"m": {"b": 2}}'),
        ('{"m": {"b": 2, "a": 1}}', '{"m": {"b": 2}}'),
        ('{"m": {"a": 1}}', '{"m": {}}'),
        (
            '{\n  "m": {\n    // about a\n    "a": {\n      "x": 1\n    },\n    "b": 2 // two\n  }\n}\n',
            '{\n  "m": {\n    // about a\n    "b": 2 // two\n  }\n}\n',
        ),
        (
            '{\n  "m": {\n    "b": 2, // two\n    "a": 1\n  }\n}\n',
            '{\n  "m": {\n    "b": 2 // two\n  }\n}\n',
        ),
        ('{"m": {"c": 1}}', '{"m": {"c": 1}}'),
        ('{"k": 1}', '{"k": 1}'),
    ],
)
def test_a_member_is_taken_out_of_json_and_all_else_stays(before: str, after: str):
    assert edited(before, RemoveMember(("m", "a"))) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "m:\n  a: {}\n"),
        ("# mine\n", "# mine\nm:\n  a: {}\n"),
        ("k: 1 # one", "k: 1 # one\nm:\n  a: {}\n"),
        ("m:\n", "m:\n  a: {}\n"),
        ("m: {}\nz: 1\n", "m: {a: {}}\nz: 1\n"),
        ("m: {b: [1, 2]} # b\n", "m: {b: [1, 2], a: {}} # b\n"),
        (
            "m:\n    b: |\n        text\n        more\n\n    # end\nz: 1\n",
            "m:\n    b: |\n        text\n        more\n    a: {}\n\n    # end\nz: 1\n",
        ),
        ("m:\n- 1\n", None),
        ("m: &x {b: 1}\nn: *x\n", None),
        ("a: [\n", None),
    ],
)
def test_a_member_is_put_into_yaml_and_all_else_stays(before: str, after: str | None):
    if after is None:
        with pytest.raises(EditRefused):
            edited(before, SetMember(("m", "a"), {}), SetMember(("m", "c"), 1), name="f.yaml")
    else:
        assert edited(before, SetMember(("m", "a"), {}), name="f.yaml") == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("m:\n  a: 1\n  b: 2\n", "m:\n  b: 2\n"),
        ("m:\n  b: 2 # two\n  # about a\n  a:\n    x: [1]\nz: 1\n", "m:\n  b: 2 # two\n  # about a\nz: 1\n"),
        ("m:\n  a:\n    x: 1\nz: 1\n", "m:\n  {}\nz: 1\n"),
        ("m: {a: 1, b: 2}\n", "m: {b: 2}\n"),
        ("m: {b: 2, a: 1}\n", "m: {b: 2}\n"),
        ("m: {a: 1}\n", "m: {}\n"),
        ("k: 1\n", "k: 1\n"),
    ],
)
def test_a_member_is_taken_out_of_yaml_and_all_else_stays(before: str, after: str):
    assert edited(before, RemoveMember(("m", "a")), name="f.yaml") == after


def test_a_value_in_yaml_takes_the_place_of_another():
    text = "m:\n  a: 1 # one\n  b:\n    x: 1\n  c: 3\n"
    made = edited(text, SetMember(("m", "a"), "no"), SetMember(("m", "b"), {"y": ["1e5", "x y"]}), name="f.yaml")
    assert made == 'm:\n  a: "no" # one\n  b:\n    "y": ["1e5", "x y"]\n  c: 3\n'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "[m.a]\nx = 1\n"),
        ('k = "v" # k\n', 'k = "v" # k\n\n[m.a]\nx = 1\n'),
        ("[m.b]\ny = 2", "[m.b]\ny = 2\n\n[m.a]\nx = 1\n"),
        ("[m.a]\nold = 1\n\n# about b\n[m.b]\ny = 2\n", "\n# about b\n[m.b]\ny = 2\n\n[m.a]\nx = 1\n"),
        ("m = {b = {}}\n", None),
        ('k = """\n[m.a]\nx = 0\n"""\n', None),
    ],
)
def test_a_table_is_put_into_toml_and_all_else_stays(before: str, after: str | None):
    if after is None:
        with pytest.raises(EditRefused):
            edited(before, SetMember(("m", "a"), {"x": 1}), name="f.toml")
    else:
        assert edited(before, SetMember(("m", "a"), {"x": 1}), name="f.toml") == after


def test_a_table_leaves_toml_with_those_below_it_and_takes_nothing_else():
    before = 'k = 1\n\n[m."a.b"]\nx = 1\n[m."a.b".env]\nE = "e"\n\n# about c\n[m.c]\ny = 2\n'
    assert edited(before, RemoveMember(("m", "a.b")), name="f.toml") == "k = 1\n\n\n# about c\n[m.c]\ny = 2\n"


def test_brackets_in_a_name_end_no_header():
    before = '[m."x]y"]\na = 1\n'
    made = edited(before, SetMember(("m", "[z]"), {"b": 2}), name="f.toml")
    assert made == before + '\n[m."[z]"]\nb = 2\n'
    assert edited(made, RemoveMember(("m", "x]y")), name="f.toml") == '[m."[z]"]\nb = 2\n'


@pytest.mark.parametrize("text", ['{"a": 1', "[1]", '{"m": [1]}', '{"m": 1}', "{'m' 1}"])
def test_json_that_cannot_be_changed_without_a_guess_is_refused(text: str):
    with pytest.raises(EditRefused):
        edited(text, SetMember(("m", "a"), 1))


# -- anything at all -----------------------------------------------------------------------------

_KEYS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Cn", "Co")), min_size=1, max_size=5)
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | _KEYS
    | st.just("")
    | st.sampled_from(["no", "1e5", "~", "0x1", "-"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=6,
)
_OBJECTS = st.dictionaries(_KEYS, _VALUES, max_size=4)


@given(before=_OBJECTS, key=_KEYS, value=_OBJECTS, indent=st.sampled_from([None, 2, 4, "\t"]))
def test_what_is_put_into_json_and_taken_out_leaves_the_same_bytes(
    before: dict[str, Any], key: str, value: dict[str, Any], indent: int | str | None
):
    assume(key not in before)
    text = json.dumps({"m": before, "z": 1}, indent=indent, ensure_ascii=False)
    made = edited(text, SetMember(("m", key), value))
    assert json.loads(made) == {"m": {**before, key: value}, "z": 1}
    taken = edited(made, RemoveMember(("m", key)))
    assert taken == text or not before


@given(before=_OBJECTS, key=_KEYS, value=_OBJECTS)
def test_what_is_put_into_yaml_is_read_as_it_was_meant(before: dict[str, Any], key: str, value: dict[str, Any]):
    text = edited("# first\nz: 1\n", SetMember(("m",), before), name="f.yaml")
    made = edited(text, SetMember(("m", key), value), name="f.yaml")
    assert made.startswith("# first\nz: 1\n")
    assert _empty_is_none(parse_any(made, Path("f.yaml"))) == _empty_is_none({"z": 1, "m": {**before, key: value}})


@given(key=_KEYS, value=st.dictionaries(_KEYS, _KEYS | st.booleans() | st.lists(_KEYS, max_size=2), max_size=3))
def test_what_is_put_into_toml_and_taken_out_leaves_the_same_bytes(key: str, value: dict[str, Any]):
    text = '# first\nk = "v"\n\n[m."x y"]\na = 1\n'
    assume(key != "x y")
    made = edited(text, SetMember(("m", key), value), name="f.toml")
    assert tomllib.loads(made)["m"][key] == value
    assert edited(made, RemoveMember(("m", key)), name="f.toml") == text


def _empty_is_none(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: _empty_is_none(member) for key, member in value.items() if member not in (None, {})}


# -- files ---------------------------------------------------------------------------------------


def test_a_file_keeps_its_mode_and_its_link(tmp_path: Path):
    real = tmp_path / "dotfiles" / "mcp.json"
    real.parent.mkdir()
    real.write_bytes(b"old")
    real.chmod(0o640)
    link = tmp_path / "mcp.json"
    link.symlink_to(real)
    replace_file(link, b"new")
    assert (link.is_symlink(), real.read_bytes(), stat.S_IMODE(real.stat().st_mode)) == (True, b"new", 0o640)
    assert list(real.parent.iterdir()) == [real]


def test_a_new_file_is_its_owners_alone_and_its_folders_are_made(tmp_path: Path):
    file = tmp_path / "a" / "b" / "mcp.json"
    assert read_original(file).content is None
    replace_file(file, b"new")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("leads", ["to a pipe", "to a folder", "to itself", "to a device"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, leads: str):
    path = tmp_path / "mcp.json"
    match leads:
        case "to a pipe":
            os.mkfifo(path)
        case "to a folder":
            path.mkdir()
        case "to itself":
            path.symlink_to(path.name)
        case _:
            path.symlink_to("/dev/zero")
    with pytest.raises(OSError, match=r"a pipe or a device|Is a directory|Too many levels"):
        read_original(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_any(path)


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="this machine has no folder of files below /dev")
def test_a_pipe_in_a_folder_of_files_below_dev_is_refused_too():
    with TemporaryDirectory(dir="/dev/shm") as folder:
        os.mkfifo(Path(folder, "mcp.json"))
        for path in (f"{folder}/mcp.json", f"/dev/fd/../../..{folder}/mcp.json"):
            with pytest.raises(OSError, match="a pipe or a device"):
                text_of(Path(path))


@pytest.mark.parametrize("folder", ["/dev/fd", "/proc/self/fd"])
def test_a_pipe_that_the_shell_makes_is_read(folder: str):
    reading, writing = os.pipe()
    os.write(writing, b"{}")
    os.close(writing)
    try:
        assert text_of(Path(f"{folder}/{reading}")) == "{}"
    finally:
        os.close(reading)


@pytest.mark.slow
def test_a_text_of_one_long_line_is_refused_or_edited_soon():
    began = time.process_time()
    with pytest.raises(EditRefused, match="has more than 16,777,216 characters"):
        edited(json.dumps({"a": "x" * EDITED_MAX_CHARACTERS}), *PUT)
    assert json.loads(edited(json.dumps({"a": "x\\" * 4_000_000}), *PUT))["mcpServers"] == {"crib": CRIB}
    assert time.process_time() - began < 5


def test_what_a_killed_process_has_left_goes_with_the_next_change(tmp_path: Path):
    file = tmp_path / "mcp.json"
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    own, running = f".mcp.json.toolcrib-{os.getpid()}", f".mcp.json.toolcrib-{os.getppid()}"
    others = [".other.json.toolcrib-1", ".mcp.json.toolcrib-x", running]
    for name in (f".mcp.json.toolcrib-{ended.pid}", own, *others):
        (tmp_path / name).write_text("whole")
    replace_file(file, b"new")
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(["mcp.json", *others])


@pytest.mark.parametrize("way", ["as this system does", "without unnamed files"])
def test_a_replacement_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str):
    if way == "without unnamed files":
        monkeypatch.setattr(sys, "platform", "another")
    file = tmp_path / "mcp.json"
    replace_file(file, b"old", mode=0o640)
    replace_file(file, b"new")
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"new", 0o640)
    monkeypatch.setattr(os, "fsync", _full)
    with pytest.raises(OSError, match="No space"):
        replace_file(file, b"newer")
    assert (list(tmp_path.iterdir()), file.read_bytes()) == ([file], b"new")


def _full(_descriptor: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
