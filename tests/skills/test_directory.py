"""The short directory and the full catalog: who is in them, in what order, and within which bounds."""

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.base.model import TaskType
from toolcrib.config.schema import SkillsDirectoryConfig
from toolcrib.skills.overviews import CatalogEntry, DirectoryEntry, catalog_block, skill_directory

SECTION = SkillsDirectoryConfig()
FORM = DirectoryEntry("fill-form", "Fill a form", "A PDF form is to be filled in.", TaskType.UNKNOWN, False, 0, None)
CATALOG = CatalogEntry("fill-form", "Fills in PDF forms.", "skill://repo/fill-form/SKILL.md", "repo")


def section(**changes: object) -> SkillsDirectoryConfig:
    return SECTION.model_copy(update=changes)


def names(text: str) -> list[str]:
    return re.findall(r"^- ([\w-]+)", text, re.MULTILINE)


def test_a_directory_has_a_line_for_each_skill():
    assert skill_directory([FORM], SECTION)[0].split("\n") == [
        "<skill_directory>",
        "Skills that skill_get loads by name:",
        '- fill-form — "Fill a form": A PDF form is to be filled in.',
        "</skill_directory>",
    ]


def test_no_skills_are_no_directory_and_no_catalog():
    assert skill_directory([], SECTION) == ("", 0)
    assert catalog_block([], 0, 32_768) == ("", 0)


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        (("name",), "- fill-form"),
        (("title",), '- fill-form — "Fill a form"'),
        (("name", "trigger"), "- fill-form: A PDF form is to be filled in."),
        (("name", "task_type"), "- fill-form [browser]"),
    ],
)
def test_the_fields_asked_for_are_shown_and_the_name_always(fields: tuple[str, ...], line: str):
    text, _ = skill_directory([replace(FORM, task_type=TaskType.BROWSER)], section(include_fields=fields))
    assert text.split("\n")[2] == line


def test_pinned_skills_come_first_by_name_then_the_ones_used_last():
    entries = [
        replace(FORM, name="never"),
        replace(FORM, name="also-never"),
        replace(FORM, name="early", last_used=10, use_count=9),
        replace(FORM, name="late", last_used=20, use_count=1),
        replace(FORM, name="pinned-b", is_pinned=True, last_used=99),
        replace(FORM, name="pinned-a", is_pinned=True),
    ]
    assert names(skill_directory(entries, SECTION)[0]) == [
        "pinned-a",
        "pinned-b",
        "late",
        "early",
        "never",
        "also-never",
    ]
    by_use = section(selection_strategy="pinned_then_top")
    assert names(skill_directory(entries, by_use)[0]) == [
        "pinned-a",
        "pinned-b",
        "early",
        "late",
        "never",
        "also-never",
    ]


def test_no_more_entries_than_allowed_and_the_others_are_counted():
    entries = [replace(FORM, name=f"skill-{number:02}", is_pinned=True) for number in range(40)]
    text, count = skill_directory(entries, section(max_entries=5))
    assert count == 5
    assert names(text) == [f"skill-{number:02}" for number in range(5)]
    assert "Skills that skill_get loads by name (5 of 40; skill_search finds the others):" in text


def test_triggers_are_shortened_before_a_skill_is_left_out():
    entries = [replace(FORM, name=f"skill-{number:02}", trigger="words " * 30) for number in range(12)]
    text, count = skill_directory(entries, SECTION)
    assert count == 12
    assert len(text.encode()) <= 1000
    assert text.count("…") == 12
    assert text.count('"Fill a form"') == 12


def test_places_that_nobody_has_earned_go_to_each_source_in_turn():
    entries = [replace(FORM, name=f"{source}-{number}", source=source) for source in "abc" for number in range(9)]
    assert names(skill_directory(entries, section(max_entries=7))[0]) == [
        "a-0",
        "b-0",
        "c-0",
        "a-1",
        "b-1",
        "c-1",
        "a-2",
    ]


def test_a_directory_shrinks_field_by_field_and_entry_by_entry():
    entries = [replace(FORM, name=f"skill-{number:02}") for number in range(12)]
    seen: list[tuple[int, int, int]] = []
    for max_bytes in range(1200, 100, -10):
        text, count = skill_directory(entries, section(max_bytes=max_bytes))
        lines = text.split("\n")[2:-1]
        assert len(text.encode()) <= max_bytes
        assert [line for line in lines if ": A" in line] == lines[: text.count(": A")]
        assert [line for line in lines if '"' in line] == lines[: text.count('"') // 2]
        seen.append((count, text.count('"') // 2, text.count(": A")))
    assert seen == sorted(seen, reverse=True)
    assert {triggers for _, _, triggers in seen} > set(range(1, 12))
    assert {titles for _, titles, _ in seen} > set(range(1, 12))


def test_names_alone_are_listed_where_there_is_no_room_for_more():
    entries = [replace(FORM, name=f"skill-{number:02}") for number in range(30)]
    text, count = skill_directory(entries, section(max_bytes=300))
    assert 10 < count < 30
    assert f"({count} of 30; skill_search finds the others)" in text
    assert "Fill" not in text
    assert len(text.encode()) <= 300


def test_one_name_of_great_length_does_not_take_the_room_of_the_others():
    giant = replace(FORM, name="a" * 5000, is_pinned=True)
    assert names(skill_directory([giant, FORM], SECTION)[0]) == ["fill-form"]
    assert catalog_block([replace(CATALOG, name="a" * 5000), CATALOG], 2, 900)[1] == 1


@pytest.mark.parametrize("text", ["</skill_directory>", "<b>", "a & b", "a\n- b", "\u202eb"])
def test_no_text_ends_a_line_or_the_directory(text: str):
    entry = replace(FORM, name=text, title=text, trigger=text)
    shown, _ = skill_directory([entry], SECTION)
    assert len(shown.split("\n")) == 4
    assert shown.count("</skill_directory>") == 1
    assert "\u202e" not in shown
    assert "<b>" not in shown


def test_a_catalog_is_xml_with_every_skill():
    lines = catalog_block([CATALOG], 1, 32_768)[0].split("\n")
    assert lines.pop(1).startswith("<skills_usage>Each skill is a set of instructions for one kind of task.")
    assert lines == [
        "<skills_context>",
        '<skills_catalog truncated="false">',
        '<skill name="fill-form" source="repo" uri="skill://repo/fill-form/SKILL.md">Fills in PDF forms.</skill>',
        "</skills_catalog>",
        "</skills_context>",
    ]


def test_a_catalog_is_json_where_asked():
    text, _ = catalog_block([CATALOG], 1, 32_768, "json")
    assert json.loads(text) == {
        "skills": [
            {
                "name": "fill-form",
                "description": "Fills in PDF forms.",
                "uri": "skill://repo/fill-form/SKILL.md",
                "source": "repo",
            }
        ],
        "truncated": False,
    }


def test_a_catalog_that_leaves_skills_out_says_so_and_names_the_search():
    entries = [CATALOG] * 200
    xml, count = catalog_block(entries, 300, 32_768)
    assert count == 200
    assert 'truncated="true"' in xml
    assert "use skill_search" in xml
    made = json.loads(catalog_block(entries, 300, 32_768, "json")[0])
    assert made["truncated"]
    assert "skill_search" in made["note"]
    assert len(made["skills"]) == 200


def test_descriptions_are_shortened_before_a_skill_is_left_out_of_the_catalog():
    text, count = catalog_block([replace(CATALOG, description="words " * 200)] * 200, 200, 32_768)
    assert count == 200
    assert 'truncated="false"' in text
    assert "words…</skill>" in text


def test_no_skill_of_a_catalog_goes_without_a_description_and_the_rest_is_on_the_next_page():
    entries = [replace(CATALOG, name=f"skill-{number:03}", description="words " * 200) for number in range(200)]
    text, count = catalog_block(entries, 300, 8_000, "json", "toolcrib://skills/{}".format)
    made = json.loads(text)
    assert 0 < count < 200
    assert all(len(each["description"]) > 40 for each in made["skills"])
    assert made["note"].endswith(f"The next are in toolcrib://skills/{count}.")


@settings(max_examples=40)
@given(
    texts=st.lists(st.text(max_size=40) | st.sampled_from(["<", "&", '"', "日本語" * 9, "\ud800"]), max_size=40),
    max_entries=st.integers(min_value=1, max_value=30),
    max_bytes=st.integers(min_value=1, max_value=3000),
)
def test_the_bounds_hold_for_any_texts(texts: list[str], max_entries: int, max_bytes: int):
    entries = [replace(FORM, name=text or "x", title=text, trigger=text * 3) for text in texts]
    catalog = [CatalogEntry(text, text * 5, text, text) for text in texts]
    directory = skill_directory(entries, section(max_entries=max_entries, max_bytes=max_bytes))
    assert directory[1] <= max_entries
    for text, count in (
        directory,
        catalog_block(catalog, len(catalog), max_bytes),
        catalog_block(catalog, len(catalog) + 1, max_bytes, "json"),
    ):
        assert len(text.encode()) <= max_bytes
        assert bool(text) == bool(count)
