"""``toolcrib secret``: stores secrets that configs refer to, lists their names, and deletes them.

A secret is typed or piped in, never an argument, where other users of the machine could read it; none is ever shown.
"""

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from toolcrib.base.errors import BadRequest
from toolcrib.base.model import JsonObject
from toolcrib.cli.output import JsonOption, RowsOption, print_answer, table

if TYPE_CHECKING:
    from toolcrib.auth.secrets import GivenSecret, SecretStore

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The secret's name.")]

commands = typer.Typer(help="Manage secrets that the config refers to.", no_args_is_help=True)


@commands.command("set")
def set_secret(name: NameArgument, as_json: JsonOption = False) -> None:
    """Store a secret, typed without echo or read from stdin. Prints what to write in the config."""
    given = _store().save(name, _read_secret(name))
    place = "the system's keyring" if given.is_in_keyring else "a file that only you can read"
    text = f"{name} is stored in {place}. In the config, write {given.reference} in its place."
    print_answer(_given_json(given), text, as_json=as_json)


@commands.command("list")
def names(limit: RowsOption = None, as_json: JsonOption = False) -> None:
    """List the stored secrets and how a config refers to each; never their values."""
    stored = _store().names()[:limit]
    text = "No secret is stored. `toolcrib secret set NAME` stores one."
    if stored:
        text = table(("name", "in the config"), [(each.name, each.reference) for each in stored])
    print_answer({"secrets": [_given_json(each) for each in stored]}, text, as_json=as_json)


@commands.command()
def remove(name: NameArgument, as_json: JsonOption = False) -> None:
    """Delete a secret."""
    from toolcrib.config.findings import did_you_mean

    store = _store()
    if not store.remove(name):
        known = did_you_mean(name, [each.name for each in store.names()])
        raise BadRequest(
            f"There is no secret {name!r}: {known or 'none is stored, `toolcrib secret set NAME` stores one'}"
        )
    print_answer({"removed": name}, f"{name} is deleted.", as_json=as_json)


def _store() -> "SecretStore":
    from toolcrib.auth.keyring import SystemKeyring
    from toolcrib.auth.secrets import SecretStore
    from toolcrib.config.paths import SECRETS, user_data_root

    environ = dict(os.environ)
    return SecretStore(user_data_root(environ) / SECRETS, SystemKeyring(), environ)


def _read_secret(name: str) -> str:
    """Return what the person types, which is not shown, or all of stdin."""
    from toolcrib.config.variables import FILE_MAX_BYTES

    if sys.stdin.isatty():
        return typer.prompt(name, hide_input=True, err=True)
    try:
        # One more than the maximum, and a line end: a longer secret is refused, not truncated.
        return sys.stdin.read(FILE_MAX_BYTES + 2).rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise BadRequest("A secret must be UTF-8 text; nothing was stored.") from error


def _given_json(given: "GivenSecret") -> JsonObject:
    return {"name": given.name, "reference": given.reference, "in_keyring": given.is_in_keyring}
