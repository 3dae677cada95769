"""``toolcrib uninstall``: lists and removes every file and every client entry that toolcrib has written."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolcrib.base.errors import ConfigError, StoreError, ToolcribError
from toolcrib.base.model import JsonObject
from toolcrib.cli.importing import user_environment
from toolcrib.cli.output import (
    ConfigOption,
    ExitCode,
    JsonOption,
    YesOption,
    confirmed,
    load_settings,
    print_json,
    print_lines,
    print_text,
)
from toolcrib.config.paths import USER_FILES, VARIABLES_FILE, is_there, user_config_dir

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from toolcrib.cli.footprint import FolderContents
    from toolcrib.clients.known import Client

_SHOWN_MAX = 20
_COMPLETIONS = (".bash_completions/toolcrib.sh", ".zfunc/_toolcrib", ".config/fish/completions/toolcrib.fish")
"""What ``--install-completion`` writes, in the home directory; it also adds a line to the file of the shell."""


@dataclass(frozen=True, slots=True)
class _Leftovers:
    """All that toolcrib has left behind. ``configs`` are what the person wrote, or had written, to configure it."""

    clients: "Mapping[Path, Client]"
    folders: "tuple[FolderContents, ...]"
    completions: tuple[Path, ...]
    configs: tuple[Path, ...]

    def has_some(self, everything: bool) -> bool:
        """Return whether there is anything to take away."""
        own = any(each.own for each in self.folders)
        return bool(self.clients or own or self.completions or (everything and self.configs))


def uninstall(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be removed.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Also remove your config, and toolcrib.env beside it.")
    ] = False,
    yes: YesOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take toolcrib out of your clients, and remove every file that it keeps. Your config stays, unless --all."""
    left = _find_leftovers(config)
    if not as_json:
        print_lines(_lines(left, everything=everything))
    is_wanted = not dry_run and left.has_some(everything) and confirmed("Remove all of it?", yes=yes, as_json=as_json)
    failed = _remove(left, everything=everything) if is_wanted else []
    if as_json:
        print_json({**_left_json(left, everything=everything), "removed": is_wanted, "failed": failed})
    elif is_wanted and not failed:
        print_text("Done. Uninstall the program with the tool that installed it, such as `pipx uninstall toolcrib`.")
    elif not is_wanted and not dry_run and left.has_some(everything):
        failed = ["Nothing was removed. Add --yes to remove it without asking."]
    if failed:
        if not as_json:
            print_text("\n".join(failed), error=True)
        raise typer.Exit(ExitCode.FAILED)


def _find_leftovers(config: Path | None) -> _Leftovers:
    from toolcrib.cli.footprint import all_folders
    from toolcrib.clients.connecting import connected_entries

    user = user_environment()
    try:
        settings = load_settings(config)
    except ConfigError:  # what it says of folders cannot be known
        settings = None
    try:
        folders = tuple(all_folders(settings, user.environ))
    except OSError as error:
        raise ToolcribError(f"{error.filename} cannot be read: {error.strerror}") from error
    folder = user_config_dir(user.environ)
    return _Leftovers(
        clients={each.file: each.client for each in connected_entries(user)},
        folders=folders,
        completions=tuple(file for name in _COMPLETIONS if is_there(file := user.home / name)),
        configs=tuple(file for name in (*USER_FILES, VARIABLES_FILE) if is_there(file := folder / name)),
    )


def _remove(left: _Leftovers, *, everything: bool) -> list[str]:
    """Remove it all; return what did not work."""
    from toolcrib.auth.keyring import SystemKeyring
    from toolcrib.auth.secrets import forget_in_keyring
    from toolcrib.cli.footprint import remove
    from toolcrib.clients.connecting import disconnect, plan_disconnection

    failed: list[str] = []
    user = user_environment()
    # First, because the copies of the clients' own files are among the files to remove.
    for client in left.clients.values():
        try:
            plan = plan_disconnection(client, user)
            if plan.is_needed:
                disconnect(plan, user)
        except ToolcribError as error:
            failed.append(str(error))
    if failed:
        return [*failed, "No file was removed, because they contain what these clients had before."]
    try:
        # Before the files, as only they name the entries in the keyring.
        forget_in_keyring([file for each in left.folders for file in each.own], SystemKeyring())
    except StoreError as error:
        return [f"No file was removed, because they name entries in the keyring: {error}"]
    configs = [(file, file.parent) for file in (left.configs if everything else ())]
    # Folders of shells stay: a file as its own root removes no folder.
    single = [*((file, file) for file in left.completions), *configs]
    for files, root in [*((each.own, each.root) for each in left.folders), *(((file,), root) for file, root in single)]:
        try:
            remove(files, root)
        except OSError as error:
            failed.append(f"{error.filename} cannot be removed: {error.strerror}")
    return failed


def _lines(left: _Leftovers, *, everything: bool) -> "Iterator[str]":
    for file, client in left.clients.items():
        yield f"{client.title}: the entry that starts toolcrib, in {file}"
    for each in left.folders:
        if each.own:
            size = sum(file.lstat().st_size for file in each.own if os.path.lexists(file))
            yield f"{each.root}: {len(each.own)} file{'' if len(each.own) == 1 else 's'}, {size / 1e6:.1f} MB"
            yield from (f"  {file.relative_to(each.root)}" for file in each.own[:_SHOWN_MAX])
            if len(each.own) > _SHOWN_MAX:
                yield f"  and {len(each.own) - _SHOWN_MAX} more; --json names all"
    yield from map(str, left.completions)
    if left.completions:
        yield "  and its line in your shell's startup file: remove it manually"
    for file in left.configs:
        yield str(file) if everything else f"{file} stays; --all removes it too"
    for each in left.folders:
        yield from (f"{file} stays, because it is not one of toolcrib's files" for file in each.others)
    if not left.has_some(everything):
        yield "Nothing of toolcrib is left."


def _left_json(left: _Leftovers, *, everything: bool) -> JsonObject:
    own = [*(file for each in left.folders for file in each.own), *left.completions]
    others = [file for each in left.folders for file in each.others]
    return {
        "clients": [{"client": client.key, "file": str(file)} for file, client in left.clients.items()],
        "files": [str(file) for file in (*own, *(left.configs if everything else ()))],
        "stays": [str(file) for file in (*others, *(() if everything else left.configs))],
    }
