"""Whether programs can run here, or could."""

import platform
import sys
from importlib.util import find_spec

_BUILDS = {"darwin": None, "linux": ("x86_64", "aarch64"), "win32": ("AMD64",)}
"""The machines that each system has a build of the interpreter for; None: all."""


def are_installed() -> bool:
    """Return whether the extra ``programs`` is installed. Imports nothing of it."""
    spec = find_spec("pydantic_monty")
    # A folder that was left behind is a package too, of no file.
    return spec is not None and spec.origin is not None


def can_be_installed() -> bool:
    """Return whether there is a build of their interpreter for this machine and its Python. Blocks."""
    return has_build(sys.platform, platform.machine(), platform.python_implementation(), platform.libc_ver()[0])


def has_build(system: str, machine: str, implementation: str, libc: str) -> bool:
    """Return whether there is a build for such a machine: what the marker in pyproject.toml says, and not for musl."""
    machines = _BUILDS.get(system, ())
    is_known = machines is None or machine in machines
    return is_known and implementation == "CPython" and (system != "linux" or libc == "glibc")
