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
a trainer is its default among the estimators that need no value model. "Dead group" is the advantage in a group of
equal rewards, "one scored" that in a group with one scored rollout, "failed" what a rollout without a reward does.
"Checked": `run` means that the trainer's own code, taken from its package, gives the same numbers in the tests;
`excerpt` that the function as its repository publishes it does, run alone; `read` that the row was derived from the
source. Trainers compute in single precision, so they differ from these numbers by about 1e-6; in dead groups of equal
but inexact rewards that is not nothing (below)."""
NOISE = """\
Equal rewards need not have a spread of 0. Eight rewards of 0.3 have a mean that single precision rounds to another
number, so every one of them has the same tiny distance to it, and the eps alone decides what comes of it: with sample
std + 1e-9 (OpenRLHF `group_norm`) the advantage of all eight is +10, the clip; with + 1e-6 (verl, SkyRL, EasyR1) it is
about .03, with + 1e-4 (TRL) .0003. Under `normalize_then_sum`, TRL divides by the spread of the whole batch once more:
in a batch with nothing but such groups it is .59. Rewards that are small sums of powers of two, such as 0, 1 and 0.5,
are exact and have none of this."""


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
        _range(preset), setting, convention.words(), convention.dead_group, single, FAILED[convention.failed],
        preset.evidence,
    )  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def _notes(mine: list[Preset]) -> list[str]:
    """Notes as a list, each with the settings or versions that it is about."""
    by_note: dict[str, list[Preset]] = {}
    for preset in mine:
        by_note.setdefault(preset.note, []).append(preset)
    by_note.pop("", None)
    lines = []
    for note, about in by_note.items():
        values = dict.fromkeys(f"`{preset.options[0][1]}`" for preset in about if preset.options)
        if any(preset.until for preset in mine) and "`GRPOTrainer`" in values:
            values = dict.fromkeys(_range(preset) for preset in about)
        lines.append(f"- {', '.join(values)}: {note}" if values and len(about) < len(mine) else f"- {note}")
    return ["\n".join(lines)] if lines else []


def trainer_table() -> str:
    """The section as Markdown.

    >>> trainer_table().splitlines()[0]
    '## What each trainer does'
    """
    parts = ["## What each trainer does", INTRO]
    rows = presets()
    heads = ("version", "setting", "advantage", "dead group", "one scored", "failed", "checked")
    for trainer in dict.fromkeys(p.trainer for p in rows):
        mine = [p for p in rows if p.trainer == trainer]
        lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads), *map(_row, mine)]
        filters = [f for f in dict.fromkeys(p.filters for p in mine) if f]
        files = dict.fromkeys(f"{p.source.repository} {p.source.version}, `{p.source.file}`" for p in mine)
        same = [name for name, of in FAMILY.items() if of == trainer]
        parts += [f"### {TITLES[trainer]}", "\n".join(lines), *_notes(mine)]
        parts += [f"Dead groups: {'; '.join(filters)}." if filters else "Nothing drops dead groups."]
        parts += [f"{' and '.join(n.capitalize() for n in same)} use the installed TRL."] if same else []
        parts += [f"Read in: {'; '.join(files)}."]
    return "\n\n".join([*parts, "### Equal rewards, unequal advantages", NOISE]) + "\n"
