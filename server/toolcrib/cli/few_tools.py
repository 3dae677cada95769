"""The question of ``toolcrib init`` whether few tools are to be listed all at once, with what both ways take (R370)."""

from pathlib import Path
from typing import TYPE_CHECKING

from toolcrib.base.errors import ToolcribError
from toolcrib.base.json_values import as_object, value_at
from toolcrib.cli.in_process import NeverListed, with_index, with_tools
from toolcrib.cli.output import confirmed, counted, load_settings, print_text
from toolcrib.cli.tokens import prices_now
from toolcrib.cli.waiting import WaitingLine

if TYPE_CHECKING:
    from toolcrib.cli.in_process import Indexed
    from toolcrib.gateway.tools import ToolUseCases
    from toolcrib.policy.sessions import Session

_GATE = ("toolcrib", "gate")
_KEY = "pass_through_tokens"


def offer_whole_list(config: Path) -> None:
    """Ask the person at the terminal whether to list all tools, if that saves tokens, and write it after a yes.

    What tools take is known once they were listed: starting servers for that is asked first. A config that says how
    many tools are few has its answer. A failure is only printed: the command has done what it is for.
    """
    try:
        _offer(config)
    except ToolcribError as error:
        print_text(f"What your tools cost a model is not known yet: {error}", error=True)


def _offer(config: Path) -> None:
    from toolcrib.clients.importing import existing_document, write_config
    from toolcrib.config.editing.changes import SetMember

    settings = load_settings(config)
    gate = as_object(value_at(existing_document(config), _GATE))
    if not settings.servers or _KEY in gate or "pass_through_below" in gate:
        return
    unlisted = with_index(config, _unlisted, command="init")
    if unlisted:
        question = f"Start {counted(len(unlisted), 'server')} once, to see what the tools cost a model?"
        if not confirmed(question, yes=False, as_json=False):
            return
        for key, why in _list(config, unlisted).items():
            print_text(f"{key}: {why}", error=True)
    prices = prices_now(config, settings)
    if not prices.proposal:
        unknown = f"; {', '.join(prices.unlisted)} not counted" if prices.unlisted else ""
        print_text(
            f"All tools listed take {prices.everything:,} tokens{unknown}; with toolcrib, a model first reads "
            f"{prices.counter:,}."
        )
        return
    print_text(prices.proposal)
    if confirmed("List all of them, and nothing for searching?", yes=False, as_json=False):
        write_config(config, [SetMember((*_GATE, _KEY), prices.whole_limit)], is_private=False)
        print_text(f"Written: toolcrib.gate.{_KEY}: {prices.whole_limit}. With more tools they are found by search.")
    else:
        print_text(f"toolcrib.gate.{_KEY}: {prices.whole_limit} does it later.")


async def _unlisted(indexed: "Indexed", _session: "Session") -> list[str]:
    return indexed.unlisted


def _list(config: Path, servers: list[str]) -> dict[str, str]:
    """Start these servers once, list their tools, and return why those that failed did."""
    from toolcrib.downstream.fleet import failed

    async def list_them(tools: "ToolUseCases", _session: "Session") -> dict[str, str]:
        return failed(await tools.fleet.list_all(servers))

    return with_tools(
        config, list_them, WaitingLine(), command="init", choose=lambda _catalog, _never: NeverListed([], {})
    )
