"""Skills, files of skills and whole indexes of them, made for tests."""

import hashlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from toolcrib.base.model import (
    FileMark,
    SearchType,
    Skill,
    SkillFile,
    SkillOrigin,
    SkillProblem,
    SkillRecord,
    SkillScope,
    SkillText,
    TaskType,
)
from toolcrib.search.documents import Found
from toolcrib.search.engine import SearchSettings
from toolcrib.skills.index import SKILLS_SCHEMA, SkillIndex
from toolcrib.skills.search import SkillQuery, SkillSearcher
from toolcrib.skills.visible import VisibleSkills
from toolcrib.storage.store import Store

EVERYBODY = SkillScope("global")
NOW = 1_000_000.0
DAY = 86400.0

SKILL = Skill(
    row=1,
    id="sk_1",
    name="pdf",
    source="repo",
    root="r",
    folder="pdf",
    path="pdf/SKILL.md",
    description="",
    title="",
    trigger="",
    task_type=TaskType.UNKNOWN,
    tags=(),
    requires=(),
    tools=(),
    origin=SkillOrigin.DIR,
    origin_ref="",
    scope_mode="project",
    content_hash="1",
    is_pinned=False,
    is_hidden=False,
    is_conforming=True,
)
"""A skill of the repository, as it is held in memory."""


def text(name: str, description: str = "Does one thing.", **fields: object) -> SkillText:
    """Make a text the way a reader does, as far as the index can tell."""
    made = SkillText(
        name=name,
        title="",
        description=description,
        trigger=description,
        task_type=TaskType.UNKNOWN,
        tags=(),
        steps=(),
        preconditions=(),
        failure_modes=(),
        tools=(),
        requires=(),
        body="",
        frontmatter={"name": name},
        extra={},
        is_hidden=False,
        content_hash="",
    )
    made = replace(made, **fields)
    return replace(made, content_hash=hashlib.sha256(repr(made).encode("utf-8", "surrogatepass")).hexdigest())


def record(said: SkillText, folder: str = "", *, root: str = "r", scope: SkillScope = EVERYBODY, **facts: object):
    folder = folder or said.name
    key = hashlib.sha256(f"{root}\n{folder}\n{scope}".encode()).hexdigest()
    made = SkillRecord(
        id=f"sk_{key[:16]}",
        text=said,
        source="repo",
        folder=folder,
        path=f"{folder}/SKILL.md",
        origin=SkillOrigin.DIR,
        origin_ref="",
        scope=scope,
        is_pinned=False,
        is_conforming=True,
    )
    return replace(made, **facts)


def file(*records: SkillRecord, path: str = "", mtime: int = 1, problems: Sequence[SkillProblem] = ()) -> SkillFile:
    return SkillFile(path or records[0].path, FileMark(mtime, 10, f"digest {mtime}"), records, tuple(problems))


def files(*texts: SkillText, **facts: Any) -> list[SkillFile]:
    return [file(record(said, **facts)) for said in texts]


@dataclass
class Skills:
    """An index of skills with its searcher."""

    store: Store
    index: SkillIndex
    searcher: SkillSearcher
    roots: Mapping[str, str] = field(default_factory=lambda: {"r": "repo"})

    def apply(self, *changed: SkillFile, root: str = "r", gone: Sequence[str] = (), **options: Any):
        return self.index.apply(root, changed, gone, now=NOW, **options)

    def have(self, *texts: SkillText, root: str = "r", **facts: Any) -> None:
        self.apply(*files(*texts, root=root, **facts), root=root)

    def all(self, tenant: str | None = None, project: str | None = None) -> list[Skill]:
        return self.index.load(self.roots, tenant, project)

    def one(self, name: str) -> Skill:
        (found,) = (skill for skill in self.all() if skill.name == name)
        return found

    def names(self, tenant: str | None = None, project: str | None = None) -> list[str]:
        return [skill.name for skill in self.all(tenant, project)]

    def search(self, query: str, kind: str = "fts", **options: Any) -> Found[Skill]:
        return self.searcher.search(SkillQuery(query, SearchType(kind), **options), VisibleSkills(self.all()))


@contextmanager
def opened(path: Path, *, fts: Literal["auto", "off"] = "auto", **options: Any) -> Iterator[Skills]:
    with Store(path, SKILLS_SCHEMA, fts=fts) as store:
        index = SkillIndex(store)
        yield Skills(store, index, SkillSearcher(index, SearchSettings(**options)))


def outside(path: Path, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """Run a statement as another program would."""
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute(statement, values).fetchall()
        connection.commit()
        return found
