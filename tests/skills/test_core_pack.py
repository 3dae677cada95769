"""The pack that ships with toolcrib: every skill loads, is short, keeps the rules, and is found by what it is for."""

import os
import re
import shlex
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from toolcrib.base.text import estimate_tokens
from toolcrib.config.loading import load
from toolcrib.model import SkillProblem, SkillText, TaskType
from toolcrib.search.engine import SearchSettings
from toolcrib.skills.formats.agent_skill import conformance, read_agent_skill
from toolcrib.skills.formats.pack import pack_format, read_pack_file
from toolcrib.skills.formats.pack_markdown import skill_markdown
from toolcrib.skills.identity import slug
from toolcrib.skills.index.skill_index import SkillIndex
from toolcrib.skills.index.tables import SKILLS_SCHEMA
from toolcrib.skills.index.visible import VisibleSkills
from toolcrib.skills.search import SkillQuery, SkillSearcher
from toolcrib.skills.sources.roots import find_roots
from toolcrib.skills.sources.scanning import scan
from toolcrib.store.store import Store
from worlds import OWN_TOOLS

CORE = Path(__file__).resolve().parents[2] / "packs" / "core"
FILES = sorted(path for path in CORE.rglob("*.skill.*"))
IDENTIFIER = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")


def read_all() -> list[tuple[Path, list[SkillText], list[SkillProblem]]]:
    return [(path, *read_pack_file(path.read_bytes(), path=path.name, pack="core")[:2]) for path in FILES]


def folder_of(skill: SkillText) -> str:
    return slug(skill.name.removeprefix("pack.core."))


SKILLS = [skill for _, skills, _ in read_all() for skill in skills]
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


# -- followed as written -------------------------------------------------------------------------


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder, without the settings of whoever runs the test."""
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    who = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"]
    done = subprocess.run(
        ["git", *who, *arguments], cwd=folder, env=environ, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Make a repository of five commits, the third of which breaks it."""
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init")
    for number in range(1, 6):
        (folder / "value").write_text(f"{'bad' if number >= 3 else 'good'} {number}\n", encoding="utf-8")
        git(folder, "add", "value")
        git(folder, "commit", "-m", f"commit {number}")
    return folder


def commands_in(skill: str) -> list[str]:
    """Return the commands between backticks in the steps of a skill."""
    [file] = CORE.rglob(f"{skill}.skill.md")
    return re.findall(r"`(git [^`]+)`", file.read_text(encoding="utf-8"))


def test_a_bisection_as_written_finds_the_commit(repository: Path, tmp_path: Path):
    outside = tmp_path / "check.sh"
    outside.write_text("grep -q good value\n", encoding="utf-8")
    commands = commands_in("bisect-a-regression")
    start, run = (next(each for each in commands if verb in each) for verb in ("bisect start", "bisect run"))
    git(repository, *shlex.split(start.replace("BAD", "HEAD").replace("GOOD", "HEAD~4"))[1:])
    said = git(repository, *shlex.split(run.replace("/path/outside/check.sh", str(outside)))[1:])
    assert "is the first bad commit" in said
    assert "commit 3" in said
    assert "git bisect reset" in commands
    git(repository, "bisect", "reset")
    assert git(repository, "status", "--porcelain") == ""


def test_looking_at_a_conflict_as_written_keeps_what_was_edited(repository: Path):
    git(repository, "checkout", "-b", "other", "HEAD~1")
    (repository / "value").write_text("theirs\n", encoding="utf-8")
    git(repository, "commit", "-am", "theirs")
    assert "CONFLICT" in git(repository, "merge", "main")
    (repository / "value").write_text("half resolved\n", encoding="utf-8")
    looks = [each for each in commands_in("resolve-merge-conflicts") if each.startswith(("git show", "git log"))]
    said = [git(repository, *shlex.split(each.replace("FILE", "value"))[1:]) for each in looks]
    assert any(text == "bad 4\n" for text in said), said
    assert (repository / "value").read_text(encoding="utf-8") == "half resolved\n"
    assert "git merge --abort" in commands_in("resolve-merge-conflicts")
