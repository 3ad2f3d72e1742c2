"""Cost of groups, steps and runs: linear in the groups of a step (theory.md, eq. 66 and 67)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from grpo_plan._validate import as_count, require
from grpo_plan.costs.amounts import Cost
from grpo_plan.costs.bounds import as_amount
from grpo_plan.costs.content import GroupContent
from grpo_plan.errors import DomainError, InfeasiblePlanError
from grpo_plan.throughput import Throughput

TRAINED = ("all", "mixed")
ENDS = ("value", "low", "high")
MAX_GPUS = 10**7
SECONDS_PER_HOUR = 3600.0
OPTIONAL_AMOUNTS = (
    "prompt_tokens pass_tokens fail_tokens prefill_tokens_per_s decode_tokens_per_s train_tokens_per_s job_tokens_per_s "
    "usd_per_gpu_hour"
).split()
LENGTHS_HINT = "or a pilot with a column of response tokens (--tokens-column)"


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel:
    """What a group costs. Every rate is of the whole job, all GPUs together; phases of a step add up.

    Time is known either from the rates of the phases (``decode_tokens_per_s``, ``train_tokens_per_s``) or from the one
    rate of a logged run (``job_tokens_per_s``, see `from_throughput`), never both.

    Attributes:
        prompt_rollouts: Fixed cost of a prompt in units of one rollout, c0; at least 0. Enters rollouts only.
        prompt_tokens: Mean tokens of a prompt.
        pass_tokens: Mean response tokens of a right rollout.
        fail_tokens: Mean response tokens of a wrong rollout.
        prefill_tokens_per_s: Prompt tokens read per second, each prompt once a group; None leaves prefill time out.
        decode_tokens_per_s: Response tokens generated per second.
        train_tokens_per_s: Prompt and response tokens trained on per second.
        job_tokens_per_s: Tokens per second of whole steps, generation and training together.
        job_counts_prompts: Whether that rate counts the prompt of every rollout, or responses only.
        reward_s: Seconds to score one rollout.
        reward_parallel: Rollouts scored at a time.
        step_overhead_s: Seconds a step takes besides (weight sync, optimiser, start of generation).
        refill: Prompts are drawn until ``prompts_per_step`` groups are mixed; each then costs ``1 / (1 - D)`` groups.
        trained: ``"all"`` groups are trained on, or only ``"mixed"`` ones; default mixed with refill, else all.
        gpus: GPUs of the job.
        usd_per_gpu_hour: Price of one of them.

    >>> cost = CostModel(pass_tokens=400, fail_tokens=900)
    >>> cost.generated_group(GroupContent.from_pmf([0.25, 0.5, 0.25])).generated_tokens
    1300.0
    """

    prompt_rollouts: float = 0.0
    prompt_tokens: float | None = None
    pass_tokens: float | None = None
    fail_tokens: float | None = None
    prefill_tokens_per_s: float | None = None
    decode_tokens_per_s: float | None = None
    train_tokens_per_s: float | None = None
    job_tokens_per_s: float | None = None
    job_counts_prompts: bool = True
    reward_s: float = 0.0
    reward_parallel: int = 1
    step_overhead_s: float = 0.0
    refill: bool = False
    trained: str | None = None
    gpus: int | None = None
    usd_per_gpu_hour: float | None = None

    def __post_init__(self) -> None:
        """Check the numbers, and that they do not contradict each other."""
        for name in OPTIONAL_AMOUNTS:
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, as_amount(value, name))
        for name in ("prompt_rollouts", "reward_s", "step_overhead_s"):
            object.__setattr__(self, name, as_amount(getattr(self, name), name, allow_zero=True))
        object.__setattr__(self, "reward_parallel", as_count(self.reward_parallel, "reward_parallel", maximum=10**9))
        if self.gpus is not None:
            object.__setattr__(self, "gpus", as_count(self.gpus, "gpus", maximum=MAX_GPUS))
        trained = self.trained if self.trained is not None else "mixed" if self.refill else "all"
        if trained not in TRAINED:
            raise DomainError(f"trained must be one of {', '.join(TRAINED)}; got {trained!r}.")
        if self.refill and trained == "all":
            raise DomainError("refill trains on mixed groups only; got trained='all'. Leave trained out, or refill.")
        object.__setattr__(self, "trained", trained)
        phases = ("prefill_tokens_per_s", "decode_tokens_per_s", "train_tokens_per_s")
        if self.job_tokens_per_s is not None and (given := [n for n in phases if getattr(self, n) is not None]):
            raise DomainError(
                f"job_tokens_per_s (--calibrate) already covers every phase; got {' and '.join(given)} too. Give one "
                "or the other."
            )

    @classmethod
    def from_throughput(cls, throughput: Throughput, **values: object) -> CostModel:
        """A model with the rate and the step overhead of a logged run; the other attributes by name.

        An overhead that the log cannot tell apart is inside the rate and taken as 0 here.
        """
        require(throughput, Throughput, "throughput", "Read a log first: read_throughput(...).")
        overhead = throughput.step_overhead_s
        measured = {
            "job_tokens_per_s": throughput.tokens_per_s,
            "job_counts_prompts": throughput.counts_prompts,
            "step_overhead_s": 0.0 if overhead is None else overhead,
        }
        return cls(**{**measured, **values})  # type: ignore[arg-type]

    def group(self, group_size: int) -> float:
        """Cost of one group, in rollouts."""
        return group_size + self.prompt_rollouts

    def generated_group(self, content: GroupContent) -> Cost:
        """Cost of generating and scoring one group, whatever becomes of it; its share of training is not in it."""
        raise NotImplementedError

    def trained_group(self, content: GroupContent) -> Cost:
        """Cost of training on one trained group, its generation not included."""
        raise NotImplementedError

    def step(self, content: GroupContent, prompts_per_step: int, at: str = "value") -> Cost:
        """Cost of one step.

        Args:
            content: What a group holds.
            prompts_per_step: Groups of the step; with ``refill`` the mixed ones that it waits for.
            at: The dead fraction at its ``"value"``, its ``"low"`` or its ``"high"`` limit.

        Raises:
            InfeasiblePlanError: With ``refill``, if no group is mixed: the step would never end.
        """
        raise NotImplementedError

    def run(self, content: GroupContent, prompts_per_step: int, steps: int, at: str = "value") -> Cost:
        """Cost of a run of so many steps."""
        raise NotImplementedError

    def needs(self, unit: str) -> str | None:
        """What is missing to know ``"tokens"``, ``"gpu_hours"`` or ``"usd"``, in one sentence; None if nothing is."""
        raise NotImplementedError

    def assumptions(self) -> tuple[str, ...]:
        """What the costs take for granted, one sentence each."""
        raise NotImplementedError
