"""Under which heading of a help page a command or an option stands."""

from __future__ import annotations

COMMAND_GROUPS = {
    "Start here": "example fit plan diagnose".split(),
    "A pilot": "pilot-size formats passk plot".split(),
    "Before the run": "temperature mix refill remedies allocate simulate emit".split(),
    "During and after the run": "watch report".split(),
    "Arithmetic": "mixed advantages losses".split(),
}
"""Commands by what they are for; the four that most people need come first."""

QUESTION = "What to answer"
"""The heading of all options that stand in no other group: a command's own."""

OPTION_GROUPS = {
    "Budget and step": (
        "budget-rollouts budget-tokens budget-gpu-hours budget-usd steps prompts-per-step rollouts-per-step"
    ).split(),
    QUESTION: (),
    "Cost": (
        "prompt-cost gpus usd-per-gpu-hour prompt-tokens pass-tokens fail-tokens prefill-tokens-per-s "
        "decode-tokens-per-s train-tokens-per-s reward-s reward-parallel step-overhead-s calibrate train-mixed-only "
        "refill"
    ).split(),
    "Trainer": "trainer trainer-version micro-batch temperature max-response-tokens".split(),
    "What the log does not say": (
        "config group-size prompts-per-step kl-coefficient max-generation-batches gpus usd-per-gpu-hour"
    ).split(),
    "Checks": "dead-threshold sustain false-alarm".split(),
    "What to read": (
        "run split policy-steps where after-where skip-malformed skip-bad workers storage-option weak-prior"
    ).split(),
    "Columns": (
        "prompt-column reward-column n-column k-column pass-rate-column fail-rate-column stratum-column "
        "temperature-column tokens-column model-column prompt-count-column session-column text-column "
        "rollouts-per-prompt"
    ).split(),
    "Rewards": "pass-threshold thresholds reward-weights reward best-reward".split(),
    "Dead groups that the source lacks": "truncated dropped-groups removed".split(),
    "Answer": "level population details plot output title date force fail-on format json help version".split(),
}
"""Options by what they are about, in the order of every page."""

ONLY_FOR = {
    "Budget and step": {"plan", "report"},
    "Cost": {"plan", "report"},
    "Trainer": {"plan", "report"},
    "What the log does not say": {"diagnose", "watch"},
    "Checks": {"diagnose", "watch"},
}
"""Groups whose options are a command's own question elsewhere."""


def group_of(option: str, command: str) -> str:
    """The heading of an option of a command.

    >>> group_of("steps", "plan"), group_of("steps", "emit"), group_of("where", "fit")
    ('Budget and step', 'What to answer', 'What to read')
    """
    for heading, options in OPTION_GROUPS.items():
        allowed = ONLY_FOR.get(heading)
        if option in options and (allowed is None or command in allowed):
            return heading
    return QUESTION
