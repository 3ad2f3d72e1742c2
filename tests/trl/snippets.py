"""Code blocks of the documentation that need more than the core to run."""

from __future__ import annotations

import re
from pathlib import Path


def snippet(page: Path, word: str) -> str:
    """The one Python block without prompts that holds a word."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    (found,) = [block for block in blocks if word in block and ">>>" not in block]
    return str(found)
