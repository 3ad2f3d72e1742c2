"""Entry point of the ``grpo-plan`` script and of ``python -m grpo_plan``.

Nothing is imported before Ctrl-C is handled, so that it never leaves a traceback.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType

INTERRUPTED = 130
TERMINATED = 143


class Ended(SystemExit):
    """Somebody asked to end: what was begun is undone on the way out, and the last line is written after that."""


def main() -> None:
    """Run the command line."""
    signal.signal(signal.SIGINT, _ended)
    signal.signal(signal.SIGTERM, _ended)
    try:
        from grpo_plan.cli.main import main as run

        run()
    except Ended as end:
        sys.stderr.write(f"grpo-plan: {'interrupted' if end.code == INTERRUPTED else 'terminated'}.\n")
        sys.exit(end.code)


def _ended(number: int, _frame: FrameType | None) -> None:
    raise Ended(INTERRUPTED if number == signal.SIGINT else TERMINATED)


if __name__ == "__main__":
    main()
