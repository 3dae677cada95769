"""Whether programs can run here."""

from importlib.util import find_spec


def are_installed() -> bool:
    """Return whether the extra ``programs`` is installed. Imports nothing of it."""
    return find_spec("pydantic_monty") is not None
