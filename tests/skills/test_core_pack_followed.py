"""The skills of the shipped pack followed as written, to the end that they promise: by git, Python and toolcrib."""

import csv
import io
import os
import re
import shlex
import sqlite3
import subprocess
from collections import Counter
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from core_pack import SKILLS, folder_of
from shelving import found, repo

from fakes.menu import tool
from toolcrib.config.schema import LimitsSection
from toolcrib.skills.doctor import check
from worlds import PATIENCE_S, world

BY_NAME = {folder_of(skill): skill for skill in SKILLS}
NOT_FOLLOWED = {
    "extract-a-web-table": "takes a browser",
    "fill-a-web-form": "takes a browser",
    "find-an-element-on-a-page": "takes a browser",
    "log-in-to-a-website": "takes a browser",
    "call-an-http-api": "takes the documentation of an API",
    "fix-authentication-errors": "takes a service that refuses",
    "handle-rate-limits": "takes a service that throttles",
    "review-a-pull-request": "takes judgement: its only command is the diff, which another test takes",
    "check-before-a-risky-call": "takes a user who says yes",
    "treat-tool-output-as-data": "says what not to do",
}


def said(skill: str, *words: str) -> None:
    """Require that a skill says these words: what follows does what they say."""
    text = BY_NAME[skill]
    whole = " ".join((*text.steps, *text.failure_modes, *text.preconditions))
    missing = [each for each in words if each not in whole]
    assert not missing, f"{skill} does not say {missing}"


def commands_in(skill: str) -> list[str]:
    """Return the git commands between backticks in the steps of a skill."""
    return re.findall(r"`(git [^`]+)`", " ".join(BY_NAME[skill].steps))


# -- git -----------------------------------------------------------------------------------------


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder, without the settings of whoever runs the test."""
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_EDITOR": "true"}
    who = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"]
    done = subprocess.run(
        ["git", *who, *arguments], cwd=folder, env=environ, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def follow(folder: Path, skill: str, command: str, more: str = "", **names: str) -> str:
    """Run a command that the skill has, with its names in capitals filled in, and ``more`` behind it."""
    assert command in commands_in(skill), f"{skill} has no {command}"
    for name, value in names.items():
        command = command.replace(name.replace("_", "-"), value)
    return git(folder, *shlex.split(f"{command} {more}")[1:])


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Make a repository of five commits, the third of which breaks it."""
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init")
    for number in range(1, 6):
        write(folder, "value", f"{'bad' if number >= 3 else 'good'} {number}\n")
        git(folder, "add", "value")
        git(folder, "commit", "-m", f"commit {number}")
    return folder


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text, encoding="utf-8")


def test_every_git_command_of_the_pack_is_one():
    known = set(git(Path(), "help", "-a").split())
    named = {command.split()[1] for skill in BY_NAME for command in commands_in(skill)}
    assert named <= known


def test_a_bisection_as_written_finds_the_commit(repository: Path, tmp_path: Path):
    skill = "bisect-a-regression"
    outside = tmp_path / "check.sh"
    outside.write_text("grep -q good value\n", encoding="utf-8")
    commands = commands_in(skill)
    start, run = (next(each for each in commands if verb in each) for verb in ("bisect start", "bisect run"))
    git(repository, *shlex.split(start.replace("BAD", "HEAD").replace("GOOD", "HEAD~4"))[1:])
    told = git(repository, *shlex.split(run.replace("/path/outside/check.sh", str(outside)))[1:])
    assert "is the first bad commit" in told
    assert "commit 3" in told
    assert "git bisect reset" in commands
    git(repository, "bisect", "reset")
    assert git(repository, "status", "--porcelain") == ""


def test_a_bisection_by_hand_skips_what_cannot_be_told(repository: Path, tmp_path: Path):
    said(
        "bisect-a-regression",
        "exit 0 good, 1 bad, 125 cannot tell",
        "By hand: test, `git bisect good`, `bad` or `skip`",
    )
    git(repository, "bisect", "start", "HEAD", "HEAD~4")
    for _ in range(4):
        number = (repository / "value").read_text().split()[1]
        told = git(repository, "bisect", {"3": "bad", "4": "skip"}.get(number, "good"))
    assert "is the first bad commit" in told
    git(repository, "bisect", "reset")
    write(tmp_path, "check.sh", 'grep -q " 4" value && exit 125; grep -q good value\n')
    git(repository, "bisect", "start", "HEAD", "HEAD~4")
    assert "commit 3" in git(repository, "bisect", "run", "sh", str(tmp_path / "check.sh"))


def conflicting(repository: Path) -> None:
    """Begin a merge of main that stops at a conflict."""
    git(repository, "checkout", "-b", "other", "HEAD~1")
    write(repository, "value", "theirs\n")
    git(repository, "commit", "-am", "theirs")
    assert "CONFLICT" in git(repository, "merge", "main")


def test_looking_at_a_conflict_as_written_keeps_what_was_edited(repository: Path):
    conflicting(repository)
    write(repository, "value", "half resolved\n")
    looks = [each for each in commands_in("resolve-merge-conflicts") if each.startswith(("git show", "git log"))]
    told = [git(repository, *shlex.split(each.replace("FILE", "value"))[1:]) for each in looks]
    assert any(text == "bad 4\n" for text in told), told
    assert (repository / "value").read_text(encoding="utf-8") == "half resolved\n"
    assert "git merge --abort" in commands_in("resolve-merge-conflicts")


def test_a_conflict_is_resolved_as_written_or_taken_back(repository: Path):
    skill = "resolve-merge-conflicts"
    conflicting(repository)
    follow(repository, skill, "git merge --abort")
    assert git(repository, "status", "--porcelain") == ""
    git(repository, "merge", "main")
    write(repository, "value", "half resolved\n")
    said(skill, "throws away what was edited in FILE")
    follow(repository, skill, "git checkout --conflict=diff3 FILE", FILE="value")
    assert "|||||||" in (repository / "value").read_text()
    said(skill, "`git add` the files, continue, and read the diff of the result against both parents")
    write(repository, "value", "both\n")
    git(repository, "add", "value")
    git(repository, "merge", "--continue")
    assert all("+both" in git(repository, "diff", parent, "HEAD") for parent in ("HEAD^1", "HEAD^2"))


def test_in_a_rebase_the_sides_are_as_the_skill_says(repository: Path):
    said("resolve-merge-conflicts", '"ours" is the branch you rebase onto and "theirs" is your own commit')
    git(repository, "checkout", "-b", "other", "HEAD~1")
    write(repository, "value", "mine\n")
    git(repository, "commit", "-am", "mine")
    assert "CONFLICT" in git(repository, "rebase", "main")
    assert (git(repository, "show", ":2:value"), git(repository, "show", ":3:value")) == ("bad 5\n", "mine\n")


def test_a_clean_commit_has_what_was_meant_and_leaves_the_rest(repository: Path):
    skill = "make-a-clean-commit"
    write(repository, "value", "good again\n")
    write(repository, "notes", "debug\n")
    assert "notes" in follow(repository, skill, "git status")
    assert "+good again" in follow(repository, skill, "git diff")
    follow(repository, skill, "git add PATH", PATH="value")
    said(skill, "also `--staged`", "no `git add -A` over unknown files")
    assert "+good again" in git(repository, "diff", "--staged")
    assert "commit 5" in follow(repository, skill, "git log --oneline -10")
    git(repository, "commit", "-m", "Make the value good again")
    shown = follow(repository, skill, "git show --stat HEAD")
    assert "value | 2 +-" in shown
    assert "notes" not in shown
    assert git(repository, "status", "--porcelain") == "?? notes\n"


def test_a_large_change_is_split_without_a_difference(repository: Path):
    skill = "split-a-large-change"
    git(repository, "checkout", "-b", "large")
    for name in ("rename", "feature"):
        write(repository, name, f"{name}\n")
    git(repository, "add", "rename", "feature")
    git(repository, "commit", "-m", "All at once")
    git(repository, "branch", "safety")
    assert "2 files changed" in follow(repository, skill, "git diff --stat BASE...HEAD", BASE="main")
    said(skill, "files with `git restore --source`")
    git(repository, "checkout", "-b", "slices", "main")
    for name in ("rename", "feature"):
        assert follow(repository, skill, "git diff SAFETY-BRANCH", SAFETY_BRANCH="safety")
        follow(repository, skill, "git restore --source", f"safety -- {name}")
        git(repository, "add", name)
        git(repository, "commit", "-m", name)
    assert follow(repository, skill, "git diff SAFETY-BRANCH", SAFETY_BRANCH="safety") == ""


def test_lost_and_misplaced_commits_come_back_as_written(repository: Path):
    skill = "undo-git-mistakes"
    git(repository, "reset", "--hard", "HEAD~2")
    follow(repository, skill, "git branch rescue")
    lost = next(line.split()[0] for line in follow(repository, skill, "git reflog").splitlines() if "commit 5" in line)
    assert "bad 5" in follow(repository, skill, "git show", lost)
    follow(repository, skill, "git branch NAME HASH", NAME="found", HASH=lost)
    assert git(repository, "show", "found:value") == "bad 5\n"
    said(skill, "Wrong branch: `git cherry-pick` it onto the right one, then take it back here")
    git(repository, "checkout", "-b", "right", "found~1")
    follow(repository, skill, "git cherry-pick", "found")
    assert (repository / "value").read_text() == "bad 5\n"


def test_what_was_not_pushed_is_taken_back_and_what_was_is_reverted(repository: Path):
    skill = "undo-git-mistakes"
    said(skill, "takes it back and keeps the changes")
    follow(repository, skill, "git reset --soft HEAD~1")
    assert git(repository, "diff", "--staged", "--stat").startswith(" value |")
    git(repository, "commit", "-m", "Comit five")
    follow(repository, skill, "git commit --amend", "-m 'Commit five'")
    told = follow(repository, skill, "git log --oneline --graph")
    assert "Commit five" in told
    assert "Comit" not in told
    follow(repository, skill, "git revert HASH", "--no-edit", HASH="HEAD")
    assert (repository / "value").read_text() == "bad 4\n"
    assert len(git(repository, "log", "--oneline").splitlines()) == 6
    assert git(repository, "status", "--porcelain") == ""


def test_the_history_of_a_word_is_found_as_written(repository: Path):
    told = follow(repository, "explore-a-code-base", "git log -S WORD", "--oneline", WORD="bad")
    assert [line.partition(" ")[2] for line in told.splitlines()] == ["commit 3"]


# -- data, in Python -----------------------------------------------------------------------------

PEOPLE = "\ufeffid;zip;joined;paid\n" + "".join(
    f"{number:03};0{number % 9}115;{day};{paid}\n"
    for number, day, paid in [
        *((number, "2025-01-02", "1,5") for number in range(1, 40)),
        (40, "02/01/2025", "-1"),
        (40, "", "N/A"),
    ]
)
"""What an export looks like that has every trap: sorted, a mark at its start, two forms of dates, a repeated id."""


def test_an_unknown_file_is_explored_as_written():
    said("explore-a-data-file", "first bytes", "find delimiter, quoting and header", "all columns as text first")
    raw = PEOPLE.encode()
    assert raw[:3] == b"\xef\xbb\xbf"
    text = raw.decode("utf-8-sig")
    lines = text.splitlines()
    assert len({line.count(";") for line in lines[:5] + lines[-5:]}) == 1
    assert csv.Sniffer().sniff("\n".join(lines[:5])).delimiter == ";"
    rows = list(csv.DictReader(io.StringIO(text), delimiter=";"))
    assert len(rows) == 41
    said("explore-a-data-file", "share of empty values, number of distinct values, smallest, largest")
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    assert {name: sum(not value for value in values) for name, values in columns.items()}["joined"] == 1
    said(
        "explore-a-data-file", "test that it is unique", "mixed dates, decimal commas, leading zeros, codes for missing"
    )
    assert [key for key, count in Counter(columns["id"]).items() if count > 1] == ["040"]
    assert len({re.sub(r"\d", "9", value) for value in columns["joined"] if value}) == 2
    assert {"-1", "N/A"} <= set(columns["paid"])
    said("explore-a-data-file", "turned into numbers lose zeros", "Judging from the first rows")
    assert str(int(columns["zip"][0])) != columns["zip"][0]
    assert "02/01/2025" not in columns["joined"][:30]


def test_the_quality_of_data_is_checked_as_written():
    said("check-data-quality", "Keys: repeated ids, and near repeats (case, spaces, accents)")
    names = ["Ann", "ann ", "Bob"]
    assert max(Counter(names).values()) == 1
    assert max(Counter(name.strip().casefold() for name in names).values()) == 2
    said("check-data-quality", "totals equal the sum of parts", "Checks passed on an empty file")
    orders = [{"total": 5, "parts": (2, 3)}, {"total": 9, "parts": (4, 4)}]
    broken = [order for order in orders if order["total"] != sum(order["parts"])]
    assert len(broken) == 1
    assert all(order["total"] == 0 for order in [])


def test_two_datasets_are_compared_as_written():
    said("compare-two-datasets", "only left, only right, in both. The three must add up to the counts of each side")
    left, right = {"1": "1.0", "2": "7", "3": "x"}, {"2": "7", "3": "y", "4": "z"}
    only_left, only_right, both = left.keys() - right.keys(), right.keys() - left.keys(), left.keys() & right.keys()
    assert (len(only_left) + len(both), len(only_right) + len(both)) == (len(left), len(right))
    assert [key for key in sorted(both) if left[key] != right[key]] == ["3"]
    said(
        "compare-two-datasets", "Repeated keys make a join of many to many", "Totals are equal though errors cancel out"
    )
    ids = ["1", "1"]
    assert len([(one, other) for one in ids for other in ids if one == other]) == 4


SHOP = """
CREATE TABLE customer(id INTEGER PRIMARY KEY, name TEXT, town TEXT);
CREATE TABLE orders(id INTEGER PRIMARY KEY, customer INTEGER, amount INTEGER, made TEXT);
CREATE TABLE note(customer INTEGER, text TEXT);
INSERT INTO customer VALUES (1, 'Ann', 'Ulm'), (2, 'Bob', NULL), (3, 'Cy', 'Bonn');
INSERT INTO orders VALUES (1, 1, 10, '2025-01-31 23:00'), (2, 1, 20, '2025-01-05 08:00'), (3, 3, 5, '2025-02-01 00:00');
INSERT INTO note VALUES (1, 'a'), (1, 'b');
"""


def test_a_query_is_built_up_as_written_and_shows_what_goes_wrong():
    skill = "write-a-safe-sql-query"
    with closing(sqlite3.connect(":memory:")) as shop:
        shop.executescript(SHOP)

        def value(query: str, *given: object) -> object:
            return shop.execute(query, given).fetchone()[0]

        said(skill, "comparing row counts before and after", "A join that multiplies rows and so doubles sums")
        joined = "FROM orders JOIN note USING (customer) WHERE customer = ?"
        assert (value("SELECT count(*) FROM orders WHERE customer = ?", 1), value(f"SELECT count(*) {joined}", 1)) == (
            2,
            4,
        )
        assert value(f"SELECT sum(amount) {joined}", 1) == 60
        said(skill, "NOT IN, <> and averages leave rows out", "BETWEEN on timestamps cut the last day")
        assert value("SELECT count(*) FROM customer WHERE town <> 'Ulm'") == 1
        assert value("SELECT count(*) FROM customer WHERE id NOT IN (SELECT NULL)") == 0
        assert value("SELECT count(*) FROM orders WHERE made BETWEEN '2025-01-01' AND '2025-01-31'") == 1
        said(skill, "Give values as parameters, never pasted into the text")
        assert value("SELECT count(*) FROM customer WHERE name = ?", "x' OR '1'='1") == 0
        said(skill, "run its WHERE as a SELECT with a count", "in a transaction and compare the number of rows")
        where = "FROM orders WHERE made < '2025-02-01'"
        expected = value(f"SELECT count(*) {where}")
        assert shop.execute(f"DELETE {where}").rowcount == expected == 2
        shop.rollback()
        assert value("SELECT count(*) FROM orders") == 3


# -- toolcrib itself -----------------------------------------------------------------------------

ISSUES = [
    tool(
        "create_issue",
        "Create an issue in a repository.",
        {"repo": "string", "title": "string", "labels": "array"},
        ["repo", "title"],
    ),
    {**tool("list_issues", "List the issues of a repository."), "annotations": {"readOnlyHint": True}},
    {**tool("remove_label", "Remove a label from an issue.")},
]


@pytest.mark.anyio
async def test_a_tool_is_found_and_called_as_written(tmp_path: Path):
    skill = "find-the-right-tool"
    said(
        skill, '"create issue github"', "`search_type: regex`", "`detail: schema`", "`tool_call_read` if it only reads"
    )
    async with world(tmp_path, {"github": ISSUES}) as w, w.client() as client:
        [hit, *_] = (await client.search("create issue github"))["tools"]
        assert hit["name"] == "github__create_issue"
        assert (await client.search("delete label"))["tools"][0]["name"] == "github__remove_label"
        names = [each["name"] for each in (await client.search("remove_.*", search_type="regex"))["tools"]]
        assert names == ["github__remove_label"]
        said("build-tool-arguments", "the tool's full schema (toolcrib's `tool_search` with `detail: schema`)")
        [whole] = (await client.search(hit["name"], search_type="exact", detail="schema"))["tools"]
        assert whole["input_schema"]["required"] == ["repo", "title"]
        read = await client.call("tool_call_read", {"name": "github__list_issues", "arguments": {}})
        assert not read.get("isError")
        arguments = {"repo": "a/b", "title": "It breaks"}
        assert (await client.call("tool_call_read", {"name": hit["name"], "arguments": arguments}))["isError"]
        assert not (await client.tool_call(hit["name"], arguments)).get("isError")


@pytest.mark.anyio
async def test_arguments_and_errors_are_as_the_skills_say(tmp_path: Path):
    said("build-tool-arguments", "a list of one is still a list", "List the required parameters")
    said("recover-from-a-failed-tool-call", "it often holds the problem, the path of the bad argument and the schema")
    async with world(tmp_path, {"github": ISSUES}) as w, w.client() as client:
        good = {"repo": "a/b", "title": "It breaks"}
        for wrong, named in (
            ({**good, "labels": "bug"}, "labels"),
            ({}, "repo"),
            ({"repo": "a/b"}, "title"),
        ):
            refused = await client.tool_call("github__create_issue", wrong)
            assert refused.get("isError"), (wrong, refused)
            assert named in refused["content"][0]["text"]
        said("recover-from-a-failed-tool-call", "Wrong name: find the real one with toolcrib's `tool_search`")
        missed = await client.tool_call("github__make_issue", good)
        assert "github__create_issue" in missed["content"][0]["text"]


@pytest.mark.anyio
async def test_large_results_are_paged_as_written(tmp_path: Path):
    said(
        "page-through-large-results", "Use a cursor as it came", "Stop at no next cursor", "compare the number with the"
    )
    async with world(tmp_path, {}, {"skills": {}}) as w, w.client() as client:
        names: list[str] = []
        page = await client.skill("list", page_size=4)
        while True:
            names += [each["name"] for each in page["skills"]]
            if "next_cursor" not in page:
                break
            page = await client.skill("list", page_size=4, cursor=page["next_cursor"])
    assert len(set(names)) == len(names) == page["total"] == len(SKILLS)


@pytest.mark.anyio
async def test_a_skill_is_written_and_tried_as_written(tmp_path: Path):
    skill = "write-an-agent-skill"
    said(skill, "Check with `skill_search`", "a folder of that name with a `SKILL.md`", "found within two seconds")
    said(skill, "Search in three ways a user would ask", "A colon in an unquoted description breaks the YAML: quote it")
    text = (
        '---\nname: fold-paper-cranes\ndescription: "Folds a crane: use it for origami, paper birds, a present."\n'
        "---\n# Fold paper cranes\n\n1. Fold it in half. Check: both edges meet.\n2. Turn it over.\n"
    )
    async with world(tmp_path, {}, {"skills": {"core_pack": False}}) as w, w.client() as client:
        assert await found(client, "fold an origami crane") == []
        file = repo(tmp_path) / "fold-paper-cranes" / "SKILL.md"
        file.parent.mkdir(parents=True)
        file.write_text(text, encoding="utf-8")
        checked = check(file, LimitsSection())
        assert (checked.skills, checked.problems) == (("fold-paper-cranes",), ())
        with anyio.fail_after(PATIENCE_S):
            while not await found(client, "origami"):
                await anyio.sleep(0.05)
        for asked in ("how do I fold a paper bird", "make a present", "crane"):
            assert await found(client, asked) == ["fold-paper-cranes"]
        given = await client.skill("get", names=["fold-paper-cranes"])
        assert "1. Fold it in half. Check: both edges meet." in given["formatted_context"]
    file.write_text(text.replace('"', ""), encoding="utf-8")
    assert [problem.code for problem in check(file, LimitsSection()).problems] == ["yaml-quoted"]


def test_every_skill_of_the_pack_is_followed_or_cannot_be():
    source = Path(__file__).read_text(encoding="utf-8")
    followed = {name for name in BY_NAME if name not in NOT_FOLLOWED and f'"{name}"' in source}
    assert followed | NOT_FOLLOWED.keys() == BY_NAME.keys()
