"""``toolcrib allow``: grants, lists and revokes permanent approvals, whether the person was asked for them or not."""

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from toolcrib.base.errors import BadRequest
from toolcrib.cli.completion import tool_names
from toolcrib.cli.in_process import with_skills
from toolcrib.cli.output import ConfigOption, JsonOption, RowsOption, print_answer, table
from toolcrib.cli.screen import Column

if TYPE_CHECKING:
    from toolcrib.base.model import JsonObject
    from toolcrib.policy.sessions import Session
    from toolcrib.policy.state import Approval
    from toolcrib.skills.use_cases import SkillUseCases

_LOCAL = "local"
_CHANGED = "changed since, so you are asked again"


def allow(
    name: Annotated[
        str | None,
        typer.Argument(help="A tool or a skill; omit it to list what is allowed.", autocompletion=tool_names),
    ] = None,
    limit: RowsOption = None,
    revoke: Annotated[bool, typer.Option("--revoke", help="Revoke the approval.")] = False,
    principal: Annotated[str, typer.Option(help="The caller: the subject of a token.")] = _LOCAL,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Allow a tool or a skill without asking until it changes, list what is allowed, or revoke it."""
    if name is None:
        if revoke:
            raise typer.BadParameter("is required with --revoke", param_hint="NAME")
        _print_list(with_skills(config, _all, command="allow")[:limit], as_json=as_json)
        return
    approval = with_skills(
        config, partial(_revoke if revoke else _approve, name, principal), command="allow", decides=True
    )
    text = "is revoked; you will be asked again."
    if not revoke:
        done = "may run" if approval.kind == "tool" else "is returned"
        text = f"{done} without asking, for {principal}, until it changes."
    print_answer({**_json(approval), "allowed": not revoke}, f"{approval.name} {text}", as_json=as_json)


async def _approve(name: str, principal: str, skill_use_cases: "SkillUseCases", session: "Session") -> "Approval":
    approval = await skill_use_cases.run(partial(_named, name, principal, skill_use_cases, session))
    confirmations = skill_use_cases.dependencies.confirmations
    await skill_use_cases.run(partial(confirmations.allow, approval))
    return approval


async def _revoke(name: str, principal: str, skill_use_cases: "SkillUseCases", session: "Session") -> "Approval":
    def revoke() -> "Approval":
        approvals = skill_use_cases.dependencies.confirmations.approvals
        given = {each.name: each for each, _ in approvals.all() if each.principal == principal}
        # First by the approved name: an approval of what was removed, or denied since, can be revoked too.
        known = given.get(name) or given.get(_named(name, principal, skill_use_cases, session).name)
        if known is None:
            raise BadRequest(f"{name} is not allowed for {principal}. `toolcrib allow` lists what is.")
        approvals.revoke(principal, known.name)
        return known

    return await skill_use_cases.run(revoke)


async def _all(skill_use_cases: "SkillUseCases", session: "Session") -> "list[tuple[Approval, float, bool]]":
    """Return each approval, when it was given, and whether it is valid: its tool or skill exists and is unchanged."""

    def read() -> "list[tuple[Approval, float, bool]]":
        return [
            (approval, at, _holds(approval, skill_use_cases, session))
            for approval, at in skill_use_cases.dependencies.confirmations.approvals.all()
        ]

    return await skill_use_cases.run(read)


def _holds(approval: "Approval", skill_use_cases: "SkillUseCases", session: "Session") -> bool:
    try:
        return _named(approval.name, approval.principal, skill_use_cases, session) == approval
    except BadRequest:
        return False


def _named(name: str, principal: str, skill_use_cases: "SkillUseCases", session: "Session") -> "Approval":
    """Return what a yes to the tool, else to the skill, of this name is.

    Raises:
        BadRequest: there is none, or there are several.

    """
    from toolcrib.policy.state import Approval
    from toolcrib.skills.use_cases import approval_of

    tools = skill_use_cases.dependencies.indexer.current().spelled(name)
    # A yes is to one definition: once the fingerprint differs, the person is asked again (ADR 36).
    if len(tools) == 1:
        return Approval(principal, "tool", tools[0].public_name, tools[0].fingerprint)
    visible, _cleaner = skill_use_cases.visible(session)
    has_skills = skill_use_cases.dependencies.settings.toolcrib.skills.enabled
    # Tools first, as for an agent's call.
    skills = visible.find(name) if has_skills and not tools else ()
    if len(skills) == 1:
        return approval_of(principal, skills[0])
    several = [*(tool.public_name for tool in tools), *map(visible.spelling, skills)]
    if several:
        raise BadRequest(f"{name} is ambiguous: {', '.join(several)}")
    raise BadRequest(
        f"There is no tool or skill {name}. `toolcrib search` and `toolcrib skills list` show all; "
        "`toolcrib index refresh` lists servers that were never listed."
    )


def _print_list(found: "list[tuple[Approval, float, bool]]", *, as_json: bool) -> None:
    rows = [(each.name, each.kind, each.principal, _when(at), "" if holds else _CHANGED) for each, at, holds in found]
    text = (
        table(("name", "kind", "for", "since", Column("", words=True)), rows)
        if found
        else "Nothing is allowed permanently."
    )
    print_answer([{**_json(each), "at": _when(at), "holds": holds} for each, at, holds in found], text, as_json=as_json)


def _json(approval: "Approval") -> "JsonObject":
    return {"name": approval.name, "kind": approval.kind, "principal": approval.principal}


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, tz=UTC).isoformat(timespec="seconds")
