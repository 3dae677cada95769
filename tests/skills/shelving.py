"""Skills written into the folders of a world, and the questions that all tests of the skill tools ask."""

import json
from pathlib import Path
from typing import Any

PLAIN = {"core_pack": False}
"""The section ``skills`` of a config with nothing but a test's own skills."""

BODY = "# {name}\n\n1. Open the thing.\n2. Fill it in.\n3. Look at it once more.\n"


def skill_text(name: str, description: str = "Fills in forms.", body: str | None = None, **fields: Any) -> str:
    """Return a SKILL.md; ``fields`` are more of its frontmatter, as JSON values."""
    said = {"name": name, "description": description, **fields}
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in said.items()]
    return "\n".join(["---", *lines, "---", BODY.format(name=name) if body is None else body])


def put(folder: Path, name: str, description: str = "Fills in forms.", body: str | None = None, **fields: Any) -> Path:
    """Write a skill into a folder of its own below ``folder``, and return its SKILL.md."""
    file = folder / name / "SKILL.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(skill_text(name, description, body, **fields), encoding="utf-8")
    return file


def repo(folder: Path) -> Path:
    """Return where the repository's skills of the world in ``folder`` lie."""
    return folder / "project" / ".agents" / "skills"


def user(folder: Path) -> Path:
    """Return where the person's own skills of the world in ``folder`` lie."""
    return folder / "home" / ".agents" / "skills"


def skills(**section: Any) -> dict[str, Any]:
    """Return a config with a test's own skills only; ``section`` are more keys of its section ``skills``."""
    return {"skills": {**PLAIN, **section}}


async def refused(client: Any, tool: str, arguments: Any) -> str:
    """Return the text with which a call of a skill tool is refused."""
    result = await client.call(f"skill_{tool}", arguments)
    assert result["isError"] is True, result
    assert "structuredContent" not in result
    [block] = result["content"]
    return block["text"]


async def listed(client: Any, **arguments: Any) -> list[str]:
    """Return the names on the first page of ``skill_list``."""
    return [skill["name"] for skill in (await client.skill("list", **arguments))["skills"]]


async def found(client: Any, query: str, **arguments: Any) -> list[str]:
    """Return the names of the hits of ``skill_search``."""
    return [skill["name"] for skill in (await client.skill("search", query=query, **arguments))["skills"]]


async def instructions(client: Any) -> str:
    """Return what a model is told on connecting; in the sessionless era a client asks for it."""
    return client.instructions or (await client.ask("server/discover")).get("instructions", "")
