"""Nothing here may reach a network; without torch the whole folder is skipped."""

from __future__ import annotations

import os
from importlib.util import find_spec

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"

collect_ignore = [] if find_spec("torch") else ["addition.py"]
