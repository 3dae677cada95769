"""What comes first for requests to the servers of the demo: what reads before what writes, and examples last."""

import pytest

from toolcrib.base.model import JsonObject
from worlds import world

pytestmark = pytest.mark.anyio

ZONE = "IANA timezone name (e.g., 'America/New_York', 'Europe/London'). Use 'Etc/UTC' if no timezone is provided."
TARGET = "Target IANA timezone name (e.g., 'Asia/Tokyo', 'America/San_Francisco'). Use 'Etc/UTC' if none is provided."


def tool(name: str, description: str, **params: str) -> JsonObject:
    properties = {key: {"type": "string", **({"description": said} if said else {})} for key, said in params.items()}
    return {"name": name, "description": description, "inputSchema": {"type": "object", "properties": properties}}


TIME = [
    tool("get_current_time", "Get current time in a specific timezone", timezone=ZONE),
    tool(
        "convert_time",
        "Convert time between timezones",
        source_timezone=f"Source {ZONE}",
        time="Time to convert in 24-hour format (HH:MM)",
        target_timezone=TARGET,
    ),
]
GIT = [
    tool("git_status", "Shows the working tree status", repo_path=""),
    tool("git_diff_unstaged", "Shows changes in the working directory that are not yet staged", repo_path=""),
    tool("git_diff_staged", "Shows changes that are staged for commit", repo_path=""),
    tool("git_diff", "Shows differences between branches or commits", repo_path="", target=""),
    tool("git_commit", "Records changes to the repository", repo_path="", message=""),
    tool("git_add", "Adds file contents to the staging area", repo_path="", files=""),
    tool("git_reset", "Unstages all staged changes", repo_path=""),
    tool("git_log", "Shows the commit logs", repo_path="", max_count=""),
    tool("git_create_branch", "Creates a new branch from an optional base branch", repo_path="", branch_name=""),
    tool("git_show", "Shows the contents of a commit", repo_path="", revision=""),
    tool("git_branch", "List Git branches", repo_path="", branch_type=""),
]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("query", "right"),
    [
        ("show the commit history", {"git__git_log"}),
        ("commit history", {"git__git_log"}),
        ("history of commits", {"git__git_log"}),
        ("see uncommitted changes", {"git__git_diff_unstaged", "git__git_status"}),
        ("add files to the staging area", {"git__git_add"}),
        ("start a new branch", {"git__git_create_branch"}),
        ("what time is it in Tokyo", {"time__get_current_time"}),
        ("what is the time in New York now", {"time__get_current_time"}),
        ("what is the time in New York", {"time__get_current_time"}),
        ("time in London", {"time__get_current_time"}),
        ("current time in New York", {"time__get_current_time"}),
        ("convert 9:00 to Tokyo time", {"time__convert_time"}),
    ],
)
async def test_what_does_as_asked_comes_first(tmp_path, query: str, right: set[str]):
    async with world(tmp_path, {"git": GIT, "time": TIME}) as w, w.client() as client:
        answer = await client.search(query)
    assert answer["tools"][0]["name"] in right


async def test_a_place_in_an_example_makes_no_answer_sure(tmp_path):
    async with world(tmp_path, {"git": GIT, "time": TIME[1:]}) as w, w.client() as client:
        answer = await client.search("what time is it in Tokyo")
    assert answer["confidence"] != "high"
