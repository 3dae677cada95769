"""A pack's file: what is read, what is refused and why, and how its skills are published."""

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from toolcrib.base.model import SkillProblem, SkillText, TaskType, ToolNote
from toolcrib.skills.formats.agent_skill import conformance, read_agent_skill
from toolcrib.skills.formats.pack import pack_format, read_pack_file, skill_body, skill_markdown
from toolcrib.skills.identity import slug

FIELDS = {
    "title": "Make tea",
    "description": "How to make a pot of tea.",
    "trigger": "Someone is thirsty",
    "task_type": "domain",
    "tags": ["tea", "kitchen"],
    "steps": ["Boil water", "Pour it: slowly", "Wait\nfour minutes"],
    "preconditions": ["There is a kettle"],
    "failure_modes": ["Cold water"],
}
AS_MARKDOWN = """---
title: Make tea
description: How to make a pot of tea.
trigger: Someone is thirsty
task_type: domain
tags: [tea, kitchen]
---

## Preconditions

- There is a kettle

## Steps

1. Boil water
2. Pour it: slowly
3. Wait
   four minutes

## Failure modes

- Cold water
"""
AS_YAML = """
title:   Make tea
description: How to make a pot of tea.
trigger: "Someone is thirsty"
task_type: domain
tags: [tea, kitchen]
steps: [Boil water, 'Pour it: slowly', "Wait\\nfour minutes"]
preconditions:
  - There is a kettle
failure_modes: [Cold water]
"""


def read(text: str | bytes, path: str, **more: Any) -> tuple[list[SkillText], list[SkillProblem]]:
    raw = text if isinstance(text, bytes) else text.encode()
    return read_pack_file(raw, path=path, pack="home", **more)[:2]


def read_one(fields: object, path: str = "tea.skill.json") -> SkillText:
    (skill,), problems = read(json.dumps(fields), path)
    assert problems == []
    return skill


def refused(text: str | bytes, path: str = "tea.skill.json") -> list[tuple[str, str, int]]:
    """Return level, code and line of what is wrong with a file that holds no good skill."""
    skills, problems = read(text, path)
    assert skills == []
    assert {problem.path for problem in problems} == {path}
    return [(problem.level, problem.code, problem.line) for problem in problems]


def said(skill: SkillText) -> tuple[object, ...]:
    return (
        skill.name,
        skill.title,
        skill.description,
        skill.trigger,
        skill.task_type,
        skill.tags,
        [step.split() for step in skill.steps],
        skill.preconditions,
        skill.failure_modes,
    )


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("tea.skill.md", AS_MARKDOWN),
        ("tea.skill.yaml", AS_YAML),
        ("tea.skill.yml", AS_YAML),
        ("tea.skill.json", json.dumps(FIELDS)),
        ("tea.skill.jsonl", json.dumps(FIELDS | {"name": "pack.home.tea"})),
    ],
)
def test_every_format_says_the_same(path: str, text: str):
    (skill,), problems = read(text, path)
    assert problems == []
    assert said(skill) == (
        "pack.home.tea",
        "Make tea",
        "How to make a pot of tea.",
        "Someone is thirsty",
        TaskType.DOMAIN,
        ("tea", "kitchen"),
        [["Boil", "water"], ["Pour", "it:", "slowly"], ["Wait", "four", "minutes"]],
        ("There is a kettle",),
        ("Cold water",),
    )


def test_the_format_of_a_file_is_told_by_its_name():
    names = ("a.skill.md", "b/a.skill.yml", "A.SKILL.YAML", "a.skill.json", "a.skill.jsonl", "a.md", "skill.md")
    assert [pack_format(name) for name in names] == ["md", "yaml", "yaml", "json", "jsonl", None, None]


def test_a_file_whose_name_tells_no_format_is_read_in_the_pack_s():
    (skill,), _ = read(AS_YAML, "lists/tea", format="yaml")
    assert skill.name == "pack.home.tea"


def test_a_name_is_made_of_the_pack_and_the_file_and_is_the_same_every_time():
    names = {read_one(FIELDS, "drinks/Hot Tea_2.skill.json").name for _ in range(2)}
    assert names == {"pack.home.hot-tea-2"}


def test_lines_without_a_name_are_named_by_their_number():
    lines = [json.dumps(FIELDS), "", json.dumps(FIELDS | {"name": "own"}), json.dumps(FIELDS)]
    skills, problems = read("\n".join(lines), "tea.skill.jsonl")
    assert [skill.name for skill in skills] == ["pack.home.tea-1", "own", "pack.home.tea-4"]
    assert problems == []


def test_a_bad_line_is_reported_with_its_number_and_the_others_load():
    lines = [json.dumps(FIELDS), "{not json", "[1]", json.dumps({"trigger": "x", "steps": []}), json.dumps(FIELDS)]
    skills, problems = read("\r\n".join(lines), "tea.skill.jsonl")
    assert [skill.name for skill in skills] == ["pack.home.tea-1", "pack.home.tea-5"]
    assert [(problem.level, problem.code, problem.line) for problem in problems] == [
        ("error", "json-error", 2),
        ("error", "not-an-object", 3),
        ("error", "steps-missing", 4),
    ]


def test_a_name_given_twice_is_refused_the_second_time():
    lines = [json.dumps(FIELDS | {"name": "own"})] * 2
    skills, problems = read("\n".join(lines), "tea.skill.jsonl")
    assert len(skills) == 1
    assert [(problem.level, problem.code, problem.line) for problem in problems] == [("error", "name-twice", 2)]
    assert "line 1" in problems[0].message


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"trigger": None}, "trigger-missing"),
        ({"trigger": " \u200b"}, "trigger-missing"),
        ({"trigger": ["a"]}, "trigger-missing"),
        ({"steps": None}, "steps-missing"),
        ({"steps": []}, "steps-missing"),
        ({"steps": "Boil water"}, "steps-missing"),
        ({"steps": ["Boil water", 2]}, "steps-missing"),
        ({"steps": ["Boil water", " "]}, "steps-missing"),
        ({"name": 7}, "name-invalid"),
        ({"name": "two\nlines"}, "name-invalid"),
        ({"name": "x" * 300}, "name-invalid"),
        ({"steps": ["Boil water"] * 201}, "steps-too-many"),
    ],
)
def test_a_skill_that_lacks_what_it_needs_is_refused_with_the_reason(change: dict[str, object], code: str):
    assert refused(json.dumps(FIELDS | change)) == [("error", code, 0)]


def test_everything_wrong_with_a_skill_is_said_at_once():
    assert [code for _, code, _ in refused("{}")] == ["trigger-missing", "steps-missing"]


@pytest.mark.parametrize(
    ("raw", "path", "code"),
    [
        (b"\xff\xfe", "tea.skill.json", "file-not-utf8"),
        (b"{", "tea.skill.json", "json-error"),
        (b'{"steps": NaN}', "tea.skill.json", "json-error"),
        (b"[" * 100_000, "tea.skill.json", "json-error"),
        (b'{"a":' * 900 + b"1" + b"}" * 900, "tea.skill.json", "json-error"),
        (b"[{}]", "tea.skill.json", "not-an-object"),
        (b"a: [", "tea.skill.yaml", "yaml-error"),
        (b"- a", "tea.skill.yaml", "not-an-object"),
        (b"", "tea.skill.jsonl", "file-empty"),
        (b"\n\n", "tea.skill.jsonl", "file-empty"),
        (b"x", "tea.txt", "no-format"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_problem(raw: bytes, path: str, code: str):
    assert [(level, found) for level, found, _ in refused(raw, path)] == [("error", code)]


def test_thousands_of_bad_lines_are_reported_as_the_first_and_a_count():
    skills, problems = read("{}\n" * 5000, "tea.skill.jsonl")
    assert skills == []
    assert len(problems) <= 101
    assert "more" in problems[-1].message


def test_lines_beyond_a_bound_are_not_read():
    line = json.dumps(FIELDS)
    skills, problems = read(f"{line}{chr(10) * 10_000}{line}\n", "tea.skill.jsonl")
    assert len(skills) == 1
    assert [(problem.code, problem.line) for problem in problems] == [("too-many-lines", 10_000)]


def test_a_field_of_the_wrong_kind_that_a_skill_can_do_without_is_only_reported():
    (skill,), problems = read(json.dumps(FIELDS | {"failure_modes": {"a": 1}}), "tea.skill.json")
    assert skill.failure_modes == ()
    assert [(problem.level, problem.code) for problem in problems] == [("warning", "field-invalid")]


def test_a_field_given_twice_is_reported():
    (skill,), problems = read(json.dumps(FIELDS)[:-1] + ', "title": "Tea"}', "tea.skill.json")
    assert skill.title == "Tea"
    assert [(problem.level, problem.code) for problem in problems] == [("warning", "field-repeated")]


def test_characters_that_nobody_sees_are_taken_out():
    skill = read_one(FIELDS | {"title": "Te\0a\u202e", "steps": ["half a pair \ud800"], "more": "\u200bx"})
    assert (skill.title, skill.steps, skill.extra) == ("Tea", ("half a pair",), {"more": "x"})


def test_one_text_is_as_good_as_a_list_of_one():
    skill = read_one(FIELDS | {"preconditions": "There is a kettle"})
    assert skill.preconditions == ("There is a kettle",)


def test_an_unknown_task_type_is_unknown_and_kept():
    (skill,), problems = read(json.dumps(FIELDS | {"task_type": "cooking"}), "tea.skill.json")
    assert skill.task_type is TaskType.UNKNOWN
    assert skill.extra == {"task_type": "cooking"}
    assert [(problem.level, problem.code) for problem in problems] == [("info", "task-type-unknown")]


def test_fields_that_nobody_knows_are_kept():
    skill = read_one(FIELDS | {"cluster": "kitchen", "pinned": True, "since": {"year": 2026}})
    assert skill.extra == {"cluster": "kitchen", "pinned": True, "since": {"year": 2026}}
    assert skill.frontmatter["cluster"] == "kitchen"


def test_tools_are_names_or_names_with_a_note():
    skill = read_one(FIELDS | {"tools": ["kettle", {"tool": "cup", "note": "a large one"}, {"tool": "spoon"}]})
    assert skill.tools == (ToolNote("kettle"), ToolNote("cup", "a large one"), ToolNote("spoon"))


def test_missing_recommended_fields_are_only_worth_a_remark():
    fields = {"trigger": "Someone is thirsty", "steps": ["Boil water"]}
    (_,), problems = read(json.dumps(fields), "tea.skill.json")
    assert [(problem.level, problem.code) for problem in problems] == [("info", "recommended-missing")]


def test_white_space_and_order_of_fields_change_nothing_of_a_skill():
    (one,), _ = read(AS_YAML, "tea.skill.yaml")
    (other,), _ = read("# a comment\n" + AS_YAML.replace("\ntags: ", "\n\ntags:     "), "tea.skill.yaml")
    assert one == other
    assert one.content_hash == other.content_hash == read_one(dict(reversed(FIELDS.items()))).content_hash
    assert one.content_hash != read_one(FIELDS | {"trigger": "Another"}).content_hash


def test_markdown_takes_steps_from_the_frontmatter_before_the_body():
    text = "---\ntrigger: Thirst\nsteps: [Boil]\ntags: [a]\ntask_type: api\nfailure_modes: [b]\n---\n# Tea\n\n1. Wait\n"
    (skill,), problems = read(text, "tea.skill.md")
    assert (skill.title, skill.steps, problems) == ("Tea", ("Boil",), [])


def test_markdown_without_a_list_of_steps_is_refused():
    assert refused("---\ntrigger: Thirst\n---\n# Tea\n\n## First\n\nBoil.\n\n## Then\n\n", "tea.skill.md") == [
        ("error", "steps-missing", 0)
    ]


def test_markdown_takes_bullets_under_a_heading_steps():
    (skill,), _ = read("---\ntrigger: Thirst\n---\n\n## Steps\n\n- Boil\n- Wait\n\n## Notes\n\n1. No\n", "tea.skill.md")
    assert skill.steps == ("Boil", "Wait")


def test_what_the_body_says_is_not_said_again_when_published():
    (skill,), _ = read(AS_MARKDOWN, "tea.skill.md")
    assert skill_body(skill) == "# Make tea\n\n" + AS_MARKDOWN.partition("---\n\n")[2].strip()


def test_a_skill_without_a_body_is_published_in_sections():
    assert skill_markdown(read_one(FIELDS | {"name": 'a "b"'}), "tea") == (
        '---\nname: "tea"\ndescription: "How to make a pot of tea. Someone is thirsty"\n'
        'metadata:\n  toolcrib-name: "a \\"b\\""\n---\n\n# Make tea\n\n## Preconditions\n\n- There is a kettle\n\n'
        "## Steps\n\n1. Boil water\n2. Pour it: slowly\n3. Wait four minutes\n\n"
        "## Failure modes\n\n- Cold water\n"
    )


anything = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=40)


@settings(max_examples=40)
@given(st.lists(anything, min_size=4, max_size=4), st.lists(anything, min_size=1, max_size=4), st.sampled_from([1, 60]))
def test_whatever_a_skill_says_it_is_published_by_the_rules(texts: list[str], steps: list[str], times: int):
    name, title, trigger, body = texts
    fields = {"name": name, "title": title, "trigger": trigger * times, "steps": steps, "description": body}
    skills, problems = read(json.dumps(fields), "tea.skill.json")
    assert skills or any(problem.level == "error" for problem in problems)
    for skill in skills:
        folder = slug(skill.name)
        markdown = skill_markdown(skill, folder)
        published, found = read_agent_skill(markdown.encode(), folder_name=folder, path="SKILL.md")
        assert published is not None
        assert [problem for problem in found if problem.level != "info"] == []
        assert conformance(published, folder) == []


@settings(max_examples=40)
@example(b"\x1c", "jsonl")
@example("\u2028".encode(), "jsonl")
@given(st.binary(max_size=60), st.sampled_from(["md", "yaml", "json", "jsonl"]))
def test_no_bytes_make_reading_fail(raw: bytes, suffix: str):
    skills, problems = read(raw, f"tea.skill.{suffix}")
    assert skills or problems
