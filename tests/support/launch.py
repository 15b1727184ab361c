"""`python -m pgstrata` for programs that run beside a test: their clusters begin as copies, too."""

from __future__ import annotations

import signal
import sys
from pathlib import Path


def main() -> None:
    """Runs pgstrata with the arguments of this process."""
    # As pgstrata itself does while it imports: a signal is no traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.path[:0] = [str(Path.cwd()), str(Path(__file__).parents[1])]
    from support.templates import copy_templates

    copy_templates()
    del sys.path[1]
    from pgstrata.__main__ import run

    signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
