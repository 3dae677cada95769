"""The pack that ships with toolcrib: every skill loads, is short, keeps the rules, and is found by what it is for."""

import re
from collections import Counter
from pathlib import Path

import pytest
from core_pack import FILES, SKILLS, folder_of, read_all

from toolcrib.base.model import SkillText, TaskType
from toolcrib.base.text import estimate_tokens
from toolcrib.config.loading import load
from toolcrib.search.engine import SearchSettings
from toolcrib.skills.formats.agent_skill import conformance, read_agent_skill
from toolcrib.skills.formats.pack import pack_format, skill_markdown
from toolcrib.skills.index import SKILLS_SCHEMA, SkillIndex
from toolcrib.skills.search import SkillQuery, SkillSearcher
from toolcrib.skills.sources.roots import find_roots
from toolcrib.skills.sources.scanning import scan
from toolcrib.skills.visible import VisibleSkills
from toolcrib.storage.store import Store
from worlds import OWN_TOOLS

IDENTIFIER = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")
each_skill = pytest.mark.parametrize("skill", SKILLS, ids=[skill.name for skill in SKILLS])


def test_every_file_of_the_core_pack_loads_without_a_problem():
    assert [problem for _, _, problems in read_all() for problem in problems] == []
    assert all(skills for _, skills, _ in read_all())


def test_the_core_pack_has_many_skills_in_all_four_formats():
    assert len(SKILLS) >= 14
    assert {pack_format(path.name) for path in FILES} == {"md", "yaml", "json", "jsonl"}
    assert {skill.task_type for skill in SKILLS} == set(TaskType) - {TaskType.UNKNOWN}


def test_names_and_slugs_are_unique_and_say_the_pack():
    names = Counter(skill.name for skill in SKILLS)
    assert names.most_common(1)[0][1] == 1
    assert {f"pack.core.{folder_of(skill)}" for skill in SKILLS} == set(names)


def test_three_or_four_skills_are_pinned():
    assert 3 <= sum(skill.extra.get("pinned") is True for skill in SKILLS) <= 4


@each_skill
def test_a_core_skill_says_when_how_and_what_goes_wrong(skill: SkillText):
    assert skill.title
    assert 40 <= len(skill.trigger) <= 300
    assert 4 <= len(skill.steps) <= 9
    assert 2 <= len(skill.failure_modes) <= 5
    assert len(skill.tags) >= 3


@each_skill
def test_a_core_skill_is_short(skill: SkillText):
    assert estimate_tokens(skill_markdown(skill, folder_of(skill))) <= 350


@each_skill
def test_a_core_skill_names_no_tool_that_may_not_exist(skill: SkillText):
    written = " ".join((skill.trigger, *skill.steps, *skill.preconditions, *skill.failure_modes))
    assert set(IDENTIFIER.findall(written)) <= {*OWN_TOOLS, "search_type"}
    assert not skill.tools


@each_skill
def test_a_core_skill_is_published_by_the_rules_of_agent_skills(skill: SkillText):
    folder = folder_of(skill)
    published, problems = read_agent_skill(
        skill_markdown(skill, folder).encode(), folder_name=folder, path=f"{folder}/SKILL.md"
    )
    assert published is not None
    assert problems == []
    assert conformance(published, folder) == []
    assert published.steps == skill.steps
    assert published.preconditions == skill.preconditions
    assert published.failure_modes == skill.failure_modes


REQUESTS = {
    "is there a tool to make a github issue": "find-the-right-tool",
    "the server did not answer in time, should I send it again": "recover-from-a-failed-tool-call",
    "get all results, there is a next page cursor": "page-through-large-results",
    "delete all the old branches and files": "check-before-a-risky-call",
    "I keep getting 429": "handle-rate-limits",
    "401 unauthorized although my token is right": "fix-authentication-errors",
    "fill out the registration form on this site": "fill-a-web-form",
    "clicking the button does nothing": "find-an-element-on-a-page",
    "this PR is huge, break it up": "split-a-large-change",
    "it worked last week and now it does not": "bisect-a-regression",
    "I lost my commits after a reset": "undo-git-mistakes",
    "what is in this csv file": "explore-a-data-file",
    "why do these two exports have different totals": "compare-two-datasets",
}
"""What people say, and the skill for it."""


def test_the_core_pack_is_found_by_what_people_say(tmp_path: Path):
    settings = load(None, {}, tmp_path)
    root = find_roots(settings).roots[0]
    with Store(tmp_path / "skills.db", SKILLS_SCHEMA) as store:
        index = SkillIndex(store)
        index.apply(root.key, scan(root, {}, settings.toolcrib.limits).changed, (), now=0)
        visible = VisibleSkills(index.load({root.key: root.source}, None, None))
        found = {
            request: [
                match.document.folder
                for match in SkillSearcher(index, SearchSettings())
                .search(SkillQuery(request, limit=3), visible)
                .matches
            ]
            for request in REQUESTS
        }
    assert {request: folders for request, folders in found.items() if REQUESTS[request] not in folders} == {}
