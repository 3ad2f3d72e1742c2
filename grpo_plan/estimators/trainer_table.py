"""The section "What each trainer does" of the page on advantages, from the presets."""

from __future__ import annotations

from grpo_plan.estimators.presets import FAMILY, Preset, presets

TITLES = {
    "trl": "TRL", "verl": "verl", "openrlhf": "OpenRLHF", "nemo-rl": "NeMo-RL", "prime-rl": "prime-rl",
    "skyrl": "SkyRL", "slime": "slime", "roll": "ROLL", "tinker": "tinker-cookbook", "open-instruct": "open-instruct",
    "easyr1": "EasyR1", "torchforge": "torchforge", "ms-swift": "ms-swift",
}  # fmt: skip
SINGLE = {"zero": "0", "reward": "its reward", "nan": "NaN", "refused": "refused"}
FAILED = {
    "left_out": "left out, advantage 0",
    "as_zero": "counts as reward 0",
    "spreads": "NaN spreads",
    "refused": "refused",
}
INTRO = """\
Every row is a preset: `gp.advantages(rewards, trainer="trl", version="1.16", scale_rewards="batch")`. The first row of
a trainer is its default among the estimators that need no value model. "One scored" is the advantage in a group with
one scored rollout, "failed" what a rollout without a reward does. "Checked": `run` means that the trainer's own code,
taken from its package, gives the same numbers in the tests; `excerpt` that the function as its repository publishes it
does, run alone; `read` that the row was derived from the source. Trainers compute in single precision, so they differ
from these numbers by about 1e-6; in dead groups of equal but inexact rewards that is not nothing (below)."""
NOISE = """\
Equal rewards need not have a spread of 0. Eight rewards of 0.3 have a mean that single precision rounds to another
number, so every one of them has the same tiny distance to it, and the eps alone decides what comes of it: with sample
std + 1e-9 (OpenRLHF `group_norm`) the advantage of all eight is +10, the clip; with + 1e-6 (verl, SkyRL, EasyR1) it is
about .03, with + 1e-4 (TRL) .0003. Rewards that are sums of powers of two, such as 0, 1 and 0.5, are exact and have
none of this."""


def _range(preset: Preset) -> str:
    if not preset.since:
        return "any"
    return f"{preset.since} to before {preset.until}" if preset.until else f"{preset.since} on"


def _row(preset: Preset) -> str:
    convention = preset.convention
    single = SINGLE[convention.single]
    if convention.baseline in ("none", "batch_mean"):
        single = "as in any group"
    elif convention.single == "nan" and convention.failed == "left_out":
        single = "0, left out of whitening"
    elif convention.single == "reward" and convention.whiten != "none":
        single = "its reward, before whitening"
    setting = ", ".join(f"`{key}={value}`" for key, value in preset.options if value != "GRPOTrainer") or "-"
    cells = (
        _range(preset), setting, convention.words(), single,
        FAILED[convention.failed], preset.evidence,
    )  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def trainer_table() -> str:
    """The section as Markdown.

    >>> trainer_table().splitlines()[0]
    '## What each trainer does'
    """
    parts = ["## What each trainer does", INTRO]
    rows = presets()
    for trainer in dict.fromkeys(p.trainer for p in rows):
        mine = [p for p in rows if p.trainer == trainer]
        lines = ["| version | setting | advantage | one scored | failed | checked |", "|---|---|---|---|---|---|"]
        lines += [_row(p) for p in mine]
        notes = [n for n in dict.fromkeys(p.note for p in mine) if n]
        dead = "; ".join(dict.fromkeys(p.dead for p in mine))
        files = dict.fromkeys(f"{p.source.repository} {p.source.version}, `{p.source.file}`" for p in mine)
        same = [name for name, of in FAMILY.items() if of == trainer]
        parts += [f"### {TITLES[trainer]}", "\n".join(lines), f"Dead groups: {dead}."]
        parts += [" ".join(notes)] if notes else []
        parts += [f"{' and '.join(n.capitalize() for n in same)} use the installed TRL."] if same else []
        parts += [f"Read in: {'; '.join(files)}."]
    return "\n\n".join([*parts, "### Equal rewards, unequal advantages", NOISE]) + "\n"
