"""A SKILL.md is read whatever shape it is in, each deviation is told, and the format's rules are known exactly."""

import string
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as given_settings
from hypothesis import strategies as st

from toolcrib.base.model import SkillProblem, SkillText, TaskType, ToolNote
from toolcrib.skills.formats.agent_skill import TEXT_MAX_BYTES, conformance, read_agent_skill

CORPUS = Path(__file__).resolve().parents[2] / "../shared/skills-dev/corpus"

GOOD = """\
---
name: fill-form
description: Fills forms. Use when a form must be filled.
---
# Fill a form

## Prerequisites
- A form

## Steps
1. Open it
2. Fill it

## Troubleshooting
| Symptom | Remedy |
|---------|--------|
| Locked  | Ask for the password |
"""


def read(text: str | bytes, path: str = "fill-form/SKILL.md") -> tuple[SkillText | None, list[SkillProblem]]:
    raw = text if isinstance(text, bytes) else text.encode()
    return read_agent_skill(raw, folder_name=path.split("/")[-2], path=path)


def skill(fields: str, body: str = "# Title") -> SkillText:
    """Return the skill that a conforming frontmatter with these further ``fields`` makes."""
    text, problems = read(f"---\nname: fill-form\ndescription: Fills forms.\n{fields}\n---\n{body}")
    assert text is not None, problems
    assert "error" not in {problem.level for problem in problems}
    return text


def found(text: str | bytes, path: str = "fill-form/SKILL.md") -> list[tuple[str, str]]:
    _, problems = read(text, path)
    assert {problem.path for problem in problems} <= {path}
    assert all(problem.message for problem in problems)
    return [(problem.level, problem.code) for problem in problems]


# what is read


def test_a_conforming_file_is_read_without_a_word():
    text, problems = read(GOOD)
    assert problems == []
    assert text is not None
    assert text == SkillText(
        name="fill-form",
        title="Fill a form",
        description="Fills forms. Use when a form must be filled.",
        trigger="Fills forms. Use when a form must be filled.",
        task_type=TaskType.UNKNOWN,
        tags=(),
        steps=("Open it", "Fill it"),
        preconditions=("A form",),
        failure_modes=("Locked: Ask for the password",),
        tools=(),
        requires=(),
        body=GOOD.split("---\n")[2].strip("\n"),
        frontmatter={"name": "fill-form", "description": "Fills forms. Use when a form must be filled."},
        extra={},
        is_hidden=False,
        content_hash=text.content_hash,
    )
    assert conformance(text, "fill-form") == []


@pytest.mark.parametrize(
    ("fields", "trigger"),
    [
        ("triggers: [fill pdf, form filling]", "fill pdf, form filling"),
        ("when_to_use: Asked to fill", "Asked to fill"),
        ("when-to-use: Asked to fill", "Asked to fill"),
        ("trigger: fill", "fill"),
        ("metadata: {triggers: 'fill, form'}", "fill, form"),
        ("when_to_use: second\ntriggers: first", "first"),
        ("triggers: []\nmetadata: {triggers: fill}", "fill"),
        ("triggers: ''", "Fills forms."),
        ("triggers: [1, true, .5]", "1, true, 0.5"),
        ("", "Fills forms."),
    ],
)
def test_the_trigger_is_what_the_author_calls_so_else_the_description(fields: str, trigger: str):
    assert skill(fields).trigger == trigger


def test_tags_come_from_four_fields_of_the_top_level_or_of_metadata():
    text = skill("tags: [pdf, 2, ~]\ncategory: office\nmetadata:\n  domain: forms, pdf\n  frames: [task]")
    assert text.tags == ("pdf", "2", "office", "forms", "task")
    assert text.extra == {}


def test_the_task_type_is_one_of_the_known_ones_or_unknown_and_told():
    assert skill("task_type: Browser").task_type is TaskType.BROWSER
    text, problems = read("---\nname: fill-form\ndescription: d\ntask_type: sorcery\n---\n")
    assert text is not None
    assert (text.task_type, text.extra) == (TaskType.UNKNOWN, {"task_type": "sorcery"})
    assert ("info", "task-type-unknown") in [(problem.level, problem.code) for problem in problems]


@pytest.mark.parametrize(
    ("fields", "tools"),
    [
        ("allowed-tools: Read Bash(git add *) mcp__x__y", [("Read", ""), ("Bash", "git add *"), ("mcp__x__y", "")]),
        ("allowed-tools: Read, Write,Read", [("Read", ""), ("Write", "")]),
        ("allowed-tools: [Read, 'Azure MCP/docs', 'Bash(ls)', 3, {}, '']",
         [("Read", ""), ("Azure MCP/docs", ""), ("Bash", "ls"), ("3", "")]),
        ("tools: [{tool: git, note: log only}, {name: gh}]\nallowed_tools: git",
         [("git", "log only"), ("gh", ""), ("git", "")]),
        ("metadata: {tools: [a]}", [("a", "")]),
        ("tools: 7", []),
    ],
)  # fmt: skip
def test_tools_are_read_from_text_and_from_lists(fields: str, tools: list[tuple[str, str]]):
    assert skill(fields).tools == tuple(ToolNote(*tool) for tool in tools)


@pytest.mark.parametrize(
    "fields", ["requires: [API_KEY, B2]", "requires: API_KEY, B2", "metadata: {requires: [API_KEY, B2]}"]
)
def test_requirements_are_names_of_environment_variables(fields: str):
    text = skill(fields)
    assert (text.requires, text.extra) == (("API_KEY", "B2"), {})


@pytest.mark.parametrize(
    "fields", ["requires: [API_KEY, python3]", "requires: Python and uv", "requires: {env: [A]}", "requires: 3"]
)
def test_other_requirements_are_only_shown(fields: str):
    text = skill(fields)
    assert text.requires == ()
    assert list(text.extra) == ["requires"]
    assert ("info", "requires-not-variables") in found(f"---\nname: fill-form\ndescription: d\n{fields}\n---\n")


def test_a_title_is_the_field_else_the_first_heading():
    assert skill("title: Mine").title == "Mine"
    assert skill("displayName: Mine").title == "Mine"
    assert skill("").title == "Title"
    assert skill("", "words").title == ""


@pytest.mark.parametrize(
    ("fields", "is_hidden"),
    [
        ("disable-model-invocation: true", True),
        ("disable_model_invocation: 'True '", True),
        ("disable-model-invocation: false", False),
        ("disable-model-invocation: 1", False),
        ("user-invocable: false", False),
    ],
)
def test_an_author_may_hide_a_skill_from_models(fields: str, is_hidden: bool):
    assert skill(fields).is_hidden is is_hidden


def test_fields_of_lists_win_over_what_the_body_lists():
    text = skill("steps: [a, b]\npreconditions: p\nfailure-modes: [f, [nested]]", GOOD)
    assert (text.steps, text.preconditions, text.failure_modes) == (("a", "b"), ("p",), ("f",))


def test_sections_list_items_else_headings_else_rows_else_paragraphs():
    assert skill("", "## Pitfalls\n### One\ntext\n### Two\n").failure_modes == ("One", "Two")
    assert skill("", "## Gotchas\nNever **guess**.\n\n---\nMore.").failure_modes == ("Never guess.", "More.")
    assert skill("", "## Gotchas\n").failure_modes == ()


def test_all_else_is_kept_and_can_be_sent():
    fields = 'license: MIT\nversion: 1.10\nwhen: 2026-01-02\nbad: [.inf, .nan, {"k\\e": "a\\ec"}]\n'
    text = skill(fields + "metadata: {author: me, tags: x}")
    assert text.extra == {
        "license": "MIT",
        "version": 1.1,
        "when": "2026-01-02",
        "bad": ["inf", "nan", {"k": "ac"}],
        "metadata": {"author": "me"},
    }
    assert text.frontmatter["metadata"] == {"author": "me", "tags": "x"}
    assert "frontmatter-not-json" in [problem.code for problem in conformance(text, "fill-form")]


def test_metadata_that_is_no_object_is_kept():
    assert skill("metadata: text").extra == {"metadata": "text"}


def test_hidden_characters_do_not_reach_a_model():
    text, _ = read(
        '---\nname: "a\\eb"\ndescription: "x\\u202ey\\0 z"\n---\n# T\u200bitle\x1b[0m\r\nnext', "ab/SKILL.md"
    )
    assert text is not None
    assert (text.name, text.description, text.title, text.body) == ("ab", "xy z", "Title[0m", "# Title[0m\nnext")


def test_white_space_in_yaml_changes_nothing_and_a_word_does():
    one, _ = read(GOOD)
    spaced = GOOD.replace("name: fill-form", "name:    'fill-form'").replace(
        "Fills forms. Use", "\n  Fills forms.\n  Use"
    )
    two, _ = read(spaced)
    three, _ = read(GOOD.replace("Open it", "Open them"))
    assert one is not None
    assert two is not None
    assert three is not None
    assert one.content_hash == two.content_hash != three.content_hash


# what is wrong


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"---\nname: a\xff", "file-not-utf8"),
        (b"\0", "file-with-nul"),
        (b"", "file-empty"),
        (b"x" * (TEXT_MAX_BYTES + 1), "file-too-large"),
        ("# Title\nwords", "frontmatter-missing"),
        ("---\nwords\n---\n", "frontmatter-not-fields"),
        ("---\n[[[\n---\n", "frontmatter-unreadable"),
        ("---\nname: fill-form\n---\n# Title", "description-missing"),
        ("---\nname: fill-form\ndescription: ''\n---\n", "description-missing"),
        ("---\nname: fill-form\ndescription: '\u200b'\n---\n", "description-missing"),
        ("---\nname: fill-form\ndescription: {a: b}\n---\n", "description-missing"),
        ("---\n---\n", "description-missing"),
    ],
)  # fmt: skip
def test_a_file_without_a_skill_is_exactly_one_error(text: str | bytes, code: str):
    assert read(text)[0] is None
    assert [told for level, told in found(text) if level == "error"] == [code]


@pytest.mark.parametrize(
    ("fields", "name", "told"),
    [
        ("name: fill-form", "fill-form", []),
        ("", "fill-form", ["name-missing"]),
        ("name: ''", "fill-form", ["name-missing"]),
        ("name: Fill Form", "Fill Form", ["name-pattern", "name-not-folder"]),
        ("name: fill_form", "fill_form", ["name-pattern", "name-not-folder"]),
        ("name: -fill", "-fill", ["name-pattern", "name-not-folder"]),
        ("name: other", "other", ["name-not-folder"]),
        ("name: 12", "12", ["name-not-text"]),
        ("name: [a]", "a", ["name-not-text"]),
        ("name: " + "a" * 65, "a" * 65, ["name-too-long", "name-not-folder"]),
    ],
)
def test_a_name_is_loaded_as_it_is_and_its_deviations_are_warnings(fields: str, name: str, told: list[str]):
    text = f"---\n{fields}\ndescription: d\n---\n"
    loaded, _ = read(text)
    assert loaded is not None
    assert loaded.name == name
    assert found(text) == [("warning", code) for code in told]


def test_a_skill_without_any_name_still_has_one():
    text, _ = read_agent_skill(b"---\ndescription: d\n---\n", folder_name="", path="SKILL.md")
    assert text is not None
    assert text.name.startswith("skill-")


def test_other_spellings_of_the_file_are_told():
    assert found(GOOD, "x/fill-form/skill.md") == [("warning", "file-name")]


def test_a_long_body_is_told_as_advice():
    assert found(GOOD + "x\n" * 501) == [("info", "body-long")]
    assert found(GOOD + "x" * 21_000) == [("info", "body-long")]


# the rules of the format


ALPHABET = frozenset(string.ascii_lowercase + string.digits + "-")


def is_text(value: Any) -> bool:
    return type(value) is str and value != ""


def is_wrong_name(name: Any) -> bool:
    return is_text(name) and bool(set(name) - ALPHABET or name[0] == "-" or name[-1] == "-" or "--" in name)


RULES: dict[str, Callable[[dict[str, Any], str], bool]] = {
    "name-missing": lambda said, _: said.get("name") in (None, ""),
    "name-not-text": lambda said, _: type(said.get("name", "")) not in (str, type(None)),
    "name-too-long": lambda said, _: is_text(said.get("name")) and len(said["name"]) > 64,
    "name-pattern": lambda said, _: is_wrong_name(said.get("name")),
    "name-not-folder": lambda said, folder: is_text(said.get("name")) and said["name"] != folder,
    "description-missing": lambda said, _: said.get("description") in (None, " "),
    "description-not-text": lambda said, _: type(said.get("description", "")) not in (str, type(None)),
    "description-too-long": lambda said, _: is_text(said.get("description")) and len(said["description"]) > 1024,
    "license-not-text": lambda said, _: type(said.get("license", "")) is not str,
    "compatibility-not-text": lambda said, _: type(said.get("compatibility", "")) is not str,
    "compatibility-length": lambda said, _: said.get("compatibility") == "" or (
        is_text(said.get("compatibility")) and len(said["compatibility"]) > 500
    ),
    "allowed-tools-not-text": lambda said, _: type(said.get("allowed-tools", "")) is not str,
    "metadata-not-fields": lambda said, _: type(said.get("metadata", {})) is not dict,
    "metadata-not-text": lambda said, _: type(said.get("metadata")) is dict
    and any(type(value) is not str for value in said["metadata"].values()),
}  # fmt: skip
"""When each rule of the format's specification is broken, by a folder's name; written apart from the code."""


_odd = st.sampled_from([None, 1, 1.5, True, ["a"], {"a": "b"}])
_names = st.sampled_from(
    ["", "a", "fill-form", "A", "a--b", "-a", "a-", "a b", "ä", "a.b", "a" * 64, "a" * 65, "a\n", "4"]
)
_texts = st.sampled_from(["x", " ", "x" * 500, "x" * 501, "x" * 1024, "x" * 1025, "a, b"])
_frontmatters = st.fixed_dictionaries(
    {},
    optional={
        "name": _names | _odd,
        "description": _texts | _odd,
        "license": _texts | _odd,
        "compatibility": _texts | st.just("") | _odd,
        "allowed-tools": _texts | _odd,
        "metadata": st.dictionaries(st.sampled_from("ab"), st.just("x") | _odd, max_size=2) | _odd,
        "version": _odd,
    },
)


@given_settings(max_examples=2 * given_settings.default.max_examples)
@given(_frontmatters, st.sampled_from(["fill-form", "a", "a" * 65]))
def test_the_rules_are_those_of_the_specification(values: dict[str, Any], folder: str):
    problems = conformance(replace(skill(""), frontmatter=values), folder, "p/SKILL.md")
    errors = [problem.code for problem in problems if problem.level == "error"]
    assert sorted(errors) == sorted(code for code, is_broken in RULES.items() if is_broken(values, folder))
    assert {problem.path for problem in problems} <= {"p/SKILL.md"}
    assert ("field-unknown" in [problem.code for problem in problems]) == ("version" in values)


def test_names_and_folders_are_compared_as_unicode_sees_them():
    text, _ = read("---\nname: cafe\u0301\ndescription: d\n---\n", "caf\u00e9/SKILL.md")
    assert text is not None
    assert [problem.code for problem in conformance(text, "caf\u00e9")] == ["name-pattern"]


@pytest.mark.parametrize(
    ("fields", "level", "code"),
    [
        ("allowed-tools: Read, Write", "warning", "allowed-tools-commas"),
        ("version: 1", "info", "field-unknown"),
        ("compatibility: ''", "warning", "compatibility-length"),
        ("metadata:", "warning", "metadata-not-fields"),
    ],
)
def test_deviations_are_told_mildly_to_who_reads_leniently(fields: str, level: str, code: str):
    assert found(f"---\nname: fill-form\ndescription: d\n{fields}\n---\n") == [(level, code)]


def test_commas_inside_a_tools_pattern_are_no_separators():
    assert found("---\nname: fill-form\ndescription: d\nallowed-tools: Bash(a, b)\n---\n") == []


def test_markup_in_a_description_is_told():
    assert found("---\nname: fill-form\ndescription: use <b>now</b>, a < b\n---\n") == [("info", "description-markup")]


# real files


@pytest.mark.slow
def test_nearly_all_real_files_load_quickly_and_the_others_say_why(capsys: pytest.CaptureFixture[str]):
    if not CORPUS.is_dir():
        pytest.skip("the collection of real skills is not here")
    files = sorted(CORPUS.rglob("SKILL.md"))
    raws = [file.read_bytes() for file in files]
    began = time.process_time()
    results = [
        read_agent_skill(raw, folder_name=file.parent.name, path=f"{file.parent.name}/SKILL.md")
        for raw, file in zip(raws, files, strict=True)
    ]
    spent = time.process_time() - began
    lost = [problem for text, problems in results if text is None for problem in problems if problem.level == "error"]
    with capsys.disabled():
        codes = Counter(f"{problem.level} {problem.code}" for _, problems in results for problem in problems)
        print(
            f"\n{len(files) - len(lost)} of {len(files)} load in {spent:.2f} s", *lost, *codes.most_common(), sep="\n  "
        )
    assert len(lost) == sum(text is None for text, _ in results)
    assert len(lost) <= 0.02 * len(files)
    assert spent <= 1.5
