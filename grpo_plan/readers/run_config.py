"""Settings of a run that lie beside its log: JSON files of arguments, and the version in a model card."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from grpo_plan.readers.files import InputFile
from grpo_plan.readers.run_builder import RunBuilder, flattened

SETTINGS_FILES = ("run_config.json", "args.json", "config.json", "training_args.json")
ONLY_WITH = frozenset((
    "num_generations", "scale_rewards", "loss_type", "group_size", "groups_per_batch", "actor_rollout_ref", "algorithm",
    "grpo", "orchestrator", "generator", "rollout_batch_size", "n_samples_per_prompt", "dynamic_sample", "data", "trl",
))  # fmt: skip
MAX_BYTES = 1 << 22
TRL_VERSION = re.compile(r"^\s*[-*]\s*TRL:\s*(\d\S*)", re.MULTILINE)


def settings_beside(files: Sequence[InputFile], builder: RunBuilder) -> dict[str, object]:
    """Settings from files in the folders of a log and above checkpoints; what was read is noted.

    A file counts if it names a setting of a trainer: the settings of a model have the same file name.
    """
    out: dict[str, object] = {}
    for folder in _folders(files):
        for name in SETTINGS_FILES:
            found = _settings(folder / name)
            if found:
                out = {**flattened(found), **out}
                builder.note(f"Settings were read from {folder / name}.")
        version = _version(folder / "README.md")
        if version is not None and "trl_version" not in out:
            out["trl_version"] = version
            builder.note(f"The version of TRL, {version}, is that of {folder / 'README.md'}.")
        if "trl_version" not in out and next(iter((folder / "completions").glob("completions_*.parquet")), None):
            out.setdefault("trl_version_at_least", "0.28.0")  # older versions write no completions
    return out


def _folders(files: Sequence[InputFile]) -> list[Path]:
    """Folders of the files, and above those of checkpoints."""
    found: dict[Path, None] = {}
    for file in files:
        if file.path is None:
            continue
        folder = file.path.parent
        found[folder] = None
        if folder.name.startswith("checkpoint-") or folder.name in ("tb", "runs", "logs"):
            found[folder.parent] = None
        elif folder.parent.name == "runs":
            found[folder.parent.parent] = None
    return list(found)


def _settings(path: Path) -> dict[str, object] | None:
    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            return None
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and ONLY_WITH & set(found) else None


def _version(card: Path) -> str | None:
    try:
        if not card.is_file() or card.stat().st_size > MAX_BYTES:
            return None
        match = TRL_VERSION.search(card.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None
    return None if match is None else match.group(1)
