"""Entry point of the ``grpo-plan`` script and of ``python -m grpo_plan``.

Nothing is imported before Ctrl-C is handled, so that it never leaves a traceback.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType

INTERRUPTED = 130


def main() -> None:
    """Run the command line."""
    signal.signal(signal.SIGINT, _interrupted)
    from grpo_plan.cli.main import main as run

    run()


def _interrupted(_signum: int, _frame: FrameType | None) -> None:
    sys.stderr.write("grpo-plan: interrupted.\n")
    sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
