"""``python -m toolcrib``.

Knows the command line's entry; never knows a command.
"""

from toolcrib.cli import main

raise SystemExit(main())
