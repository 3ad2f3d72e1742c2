"""Messages of the library in the words of the command line, and options by the names that other tools give them."""

from __future__ import annotations

import re

PYTHON = re.compile(r" \((?:[a-z_]+=(?:, )?)+\)")  # the argument of a function, beside the option
BESIDE = re.compile(r"\b([a-z][a-z_]*) \((--[a-z][a-z-]*)\)")  # the option, beside the argument

OTHER_WORDS = {
    "num-generations": "group-size", "n-samples-per-prompt": "group-size", "rollout-n": "group-size",
    "rollout.n": "group-size", "samples-per-prompt": "group-size", "responses-per-prompt": "group-size",
    "g": "group-size", "n": "group-size", "train-batch-size": "prompts-per-step",
    "groups-per-batch": "prompts-per-step", "rollout-batch-size": "prompts-per-step", "batch-size": "prompts-per-step",
    "max-steps": "steps", "num-steps": "steps", "framework": "trainer", "id-column": "prompt-column",
    "score-column": "reward-column", "threshold": "pass-threshold", "confidence": "level", "out": "output",
    "adv-estimator": "estimator", "advantage-estimator": "estimator", "verbose": "details", "save": "output",
    "samples": "group-sizes", "dataset-column": "stratum-column", "group-column": "stratum-column",
}  # fmt: skip


def without_arguments(message: str) -> str:
    """A message without the names of function arguments that stand beside options.

    >>> without_arguments("Name it with --k-column and --n-column (k=, n=).")
    'Name it with --k-column and --n-column.'
    >>> without_arguments("Give steps (--steps) or prompts_per_step (--prompts-per-step).")
    'Give --steps or --prompts-per-step.'
    """

    def option_alone(match: re.Match[str]) -> str:
        name, option = match.groups()
        return option if option.lstrip("-").replace("-", "_") == name else match.group()

    return BESIDE.sub(option_alone, PYTHON.sub("", message))


def other_word(option: str) -> str:
    """The option that other tools call by this name, or an empty text.

    >>> other_word("--num_generations"), other_word("--steps")
    ('--group-size', '')
    """
    meant = OTHER_WORDS.get(option.lstrip("-").lower().replace("_", "-"))
    return "" if meant is None else f"--{meant}"
