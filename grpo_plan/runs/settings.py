"""What a user may say about a run that its log does not, and the knobs of the checks."""

from __future__ import annotations

from dataclasses import dataclass

from grpo_plan._validate import MAX_COUNT, as_count, as_level, as_positive, as_probability

LARGEST_GROUP = 100_000  # rollouts per prompt; no trainer comes near
MOST_PROMPTS = 10**9  # groups of a step


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosisSettings:
    """Facts and knobs of a diagnosis.

    Attributes:
        group_size: Rollouts per prompt, where the log does not say it; at most 100,000.
        prompts_per_step: Groups of a step, where the log does not say it; at most 1,000,000,000.
        dead_threshold: Dead fraction above which the published rule fires, in [0, 1].
        sustain_rows: Consecutive rows above it that the rule asks for.
        late_share: Share of the rows at the end over which it takes a mean, in (0, 1].
        late_rows: Fewest rows of that window.
        false_alarm: Chance that one sequential test of a run that is in line ever fires, in (0, 1).
        level: Confidence level of the limits that are shown.
        gpus: GPUs of the run, for its cost.
        usd_per_gpu_hour: Price of one of them for an hour.
        kl_coefficient: Weight of the penalty on the distance to the reference (``beta``); None: as in the log.
        max_generation_batches: Batches after which a refill gives up; None: as in the log.
    """

    group_size: int | None = None
    prompts_per_step: int | None = None
    dead_threshold: float = 0.4
    sustain_rows: int = 15
    late_share: float = 0.2
    late_rows: int = 10
    false_alarm: float = 0.002
    level: float = 0.95
    gpus: int | None = None
    usd_per_gpu_hour: float | None = None
    kl_coefficient: float | None = None
    max_generation_batches: int | None = None

    def __post_init__(self) -> None:
        most = {"group_size": LARGEST_GROUP, "prompts_per_step": MOST_PROMPTS}
        for name in ("group_size", "prompts_per_step", "gpus", "max_generation_batches"):
            if getattr(self, name) is not None:
                as_count(getattr(self, name), name, maximum=most.get(name, MAX_COUNT))
        for name in ("sustain_rows", "late_rows"):
            as_count(getattr(self, name), name)
        for name in ("dead_threshold", "late_share"):
            as_probability(getattr(self, name), name)
        for name in ("level", "false_alarm"):
            as_level(getattr(self, name), name)
        for name in ("usd_per_gpu_hour", "kl_coefficient"):
            if getattr(self, name) is not None:
                as_positive(getattr(self, name), name, allow_zero=True)
