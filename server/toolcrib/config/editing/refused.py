"""Why a file cannot be changed.

Knows the reason only; never knows the file.
"""

from toolcrib.base.errors import ToolcribError


class EditRefused(ToolcribError):
    """The text cannot be changed without a guess; the text of the error follows the name of the file."""
