"""``python -m toolcrib``."""

from toolcrib.cli import main

raise SystemExit(main())
