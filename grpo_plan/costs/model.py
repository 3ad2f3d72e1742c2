"""Cost of groups, steps and runs: linear in the groups of a step (theory.md, eq. 66 and 67)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from grpo_plan._suggest import not_one_of
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
    "prompt_tokens pass_tokens fail_tokens prefill_tokens_per_s decode_tokens_per_s train_tokens_per_s "
    "job_tokens_per_s usd_per_gpu_hour"
).split()


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
            raise DomainError(not_one_of("trained", trained, TRAINED))
        if self.refill and trained == "all":
            raise DomainError("refill trains on mixed groups only; got trained='all'. Leave out one of the two.")
        object.__setattr__(self, "trained", trained)
        phases = ("prefill_tokens_per_s", "decode_tokens_per_s", "train_tokens_per_s", "reward_s")
        if self.job_tokens_per_s is not None and (given := [n for n in phases if getattr(self, n)]):
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
        """Cost of generating and scoring one group, whatever becomes of it; its training is not in it.

        With ``job_tokens_per_s`` the time of training is spread over the groups generated, and is in it.
        """
        size = content.group_size
        tokens = self._responses(content.passes, size - content.passes)
        prompts = self.prompt_tokens
        if self.job_tokens_per_s is not None:
            counted = _sum(tokens, _times(prompts, size)) if self.job_counts_prompts else tokens
            seconds = _over(counted, self.job_tokens_per_s)
        else:
            prefill = _over(prompts, self.prefill_tokens_per_s) if self.prefill_tokens_per_s is not None else 0.0
            scoring = size * self.reward_s / self.reward_parallel
            seconds = _sum(_over(tokens, self.decode_tokens_per_s), prefill, scoring)
        return self._cost(
            groups=1.0, rollouts=float(size), rollout_equivalents=self.group(size), prefilled_tokens=prompts,
            generated_tokens=tokens, seconds=seconds,
        )  # fmt: skip

    def trained_group(self, content: GroupContent) -> Cost:
        """Cost of training on one trained group, without its generation: a mean group, or a mean mixed group."""
        size, passes = content.group_size, content.passes
        if self.trained == "mixed":
            if content.mixed_fraction <= 0.0:
                return self._cost(trained_groups=1.0, trained_tokens=None, seconds=None)
            passes = content.mixed_passes / content.mixed_fraction
        tokens = _sum(self._responses(passes, size - passes), _times(self.prompt_tokens, size))
        seconds = 0.0 if self.job_tokens_per_s is not None else _over(tokens, self.train_tokens_per_s)
        return self._cost(trained_groups=1.0, trained_tokens=tokens, seconds=seconds)

    def prompt(self, content: GroupContent, at: str = "value") -> Cost:
        """Cost that one more prompt per step adds to a step (theory.md, eq. 66); ``at`` as for `step`.

        Raises:
            InfeasiblePlanError: With ``refill``, if no group is mixed: the step would never end.
        """
        mixed = _mixed(content, at)
        if not self.refill:
            trained = 1.0 if self.trained == "all" else mixed
            generated = 1.0
        elif mixed > 0.0:
            trained, generated = 1.0, 1.0 / mixed
        else:
            raise InfeasiblePlanError(
                f"Refill would never end: no group of {content.group_size} is mixed"
                + ("." if at == "value" else f" at the {at} limit of the dead fraction.")
                + " Use other prompts, or a larger group size."
            )
        cost = self.generated_group(content).times(generated)
        return cost if trained == 0.0 else cost.plus(self.trained_group(content).times(trained))

    def overhead(self) -> Cost:
        """Cost of a step besides its groups."""
        return self._cost(seconds=self.step_overhead_s)

    def step(self, content: GroupContent, prompts_per_step: int, at: str = "value") -> Cost:
        """Cost of one step (theory.md, eq. 67).

        Args:
            content: What a group holds.
            prompts_per_step: Groups of the step; with ``refill`` the mixed ones that it waits for.
            at: The dead fraction at its ``"value"``, its ``"low"`` or its ``"high"`` limit; a mixed group then holds
                what it holds at the value.

        Raises:
            InfeasiblePlanError: With ``refill``, if no group is mixed: the step would never end.
        """
        groups = as_count(prompts_per_step, "prompts_per_step")
        return self.prompt(content, at).times(groups).plus(self.overhead())

    def run(self, content: GroupContent, prompts_per_step: int, steps: int, at: str = "value") -> Cost:
        """Cost of a run of so many steps; see `step`."""
        return self.step(content, prompts_per_step, at).times(as_count(steps, "steps"))

    def needs(self, unit: str) -> str | None:
        """What is missing to know a cost in ``unit`` (a field of `Cost`, or ``"tokens"``), in one sentence; else None.

        >>> CostModel(pass_tokens=400, fail_tokens=900, decode_tokens_per_s=1e4).needs("gpu_hours")
        'GPU-hours need --prompt-tokens, --train-tokens-per-s and --gpus; or --calibrate RUN instead of the rates.'
        """
        lengths = [option for option in ("pass_tokens", "fail_tokens") if getattr(self, option) is None]
        prompts = [] if self.prompt_tokens is not None else ["prompt_tokens"]
        if self.job_tokens_per_s is not None:
            rates, time = [], [*lengths, *(prompts if self.job_counts_prompts else [])]
        else:
            rates = [n for n in ("decode_tokens_per_s", "train_tokens_per_s") if getattr(self, n) is None]
            time = [*lengths, *prompts, *rates]
        price = [n for n in ("gpus", "usd_per_gpu_hour") if getattr(self, n) is None]
        known: dict[str, tuple[str, list[str]]] = {
            "tokens": ("Tokens", lengths),
            "generated_tokens": ("Generated tokens", lengths),
            "prefilled_tokens": ("Prefilled tokens", prompts),
            "trained_tokens": ("Trained tokens", [*lengths, *prompts]),
            "seconds": ("Seconds", time),
            "gpu_hours": ("GPU-hours", [*time, *price[: 1 if self.gpus is None else 0]]),
            "usd": ("USD", [*time, *price]),
        }
        if unit not in known:
            if unit in ("rollouts", "rollout_equivalents", "groups", "trained_groups"):
                return None
            raise DomainError(not_one_of("unit", unit, ("rollouts", *known)))
        label, names = known[unit]
        if not names:
            return None
        options = ["--" + name.replace("_", "-") for name in names]
        text = " and ".join([", ".join(options[:-1]), options[-1]]) if len(options) > 1 else options[0]
        instead = []
        if lengths and set(lengths) <= set(names):
            instead.append("a pilot with a column of response tokens (--tokens-column) instead of the lengths")
        if rates and set(rates) <= set(names):
            instead.append("--calibrate RUN instead of the rates")
        return f"{label} need {text}" + "".join(f"; or {words}" for words in instead) + "."

    def assumptions(self) -> tuple[str, ...]:
        """What costs take for granted, one sentence each."""
        notes = []
        if None not in (self.pass_tokens, self.fail_tokens):
            notes.append(
                "Right and wrong rollouts keep their mean lengths in every group: lengths do not drift, and do not "
                "differ between mixed and dead groups."
            )
        if self.needs("seconds") is None:
            if self.job_tokens_per_s is not None:
                notes.append("Steps run as fast as those of the calibrated run, on the same GPUs with the same engine.")
            else:
                left = [] if self.prefill_tokens_per_s is not None else ["prefill (--prefill-tokens-per-s)"]
                left += [] if self.step_overhead_s else ["step overhead (--step-overhead-s)"]
                left += [] if self.reward_s else ["scoring (--reward-s)"]
                notes.append(
                    "Generation, scoring and training follow each other on all GPUs"
                    + (f"; no time is counted for {', '.join(left)}." if left else ".")
                )
        if self.refill:
            notes.append(
                "Refill draws exactly as many prompts as it needs on average: rounds that overshoot cost more."
            )
        return tuple(notes)

    def _responses(self, passes: float, fails: float) -> float | None:
        return _sum(_times(self.pass_tokens, passes), _times(self.fail_tokens, fails))

    def _cost(self, *, seconds: float | None, **amounts: float | None) -> Cost:
        hours = None if seconds is None or self.gpus is None else seconds * self.gpus / SECONDS_PER_HOUR
        values: dict[str, float | None] = {
            **dict.fromkeys(("groups", "trained_groups", "rollouts", "rollout_equivalents"), 0.0),
            **dict.fromkeys(("prefilled_tokens", "generated_tokens", "trained_tokens"), 0.0),
            **amounts,
            "seconds": seconds,
            "gpu_hours": hours,
            "usd": _times(self.usd_per_gpu_hour, hours),
        }
        unknown = tuple(unit for unit in values if values[unit] is None)
        missing = dict(_missing(self, unknown)) if unknown else {}
        return Cost(**values, missing=missing)  # type: ignore[arg-type]


@lru_cache(maxsize=64)
def _missing(model: CostModel, unknown: tuple[str, ...]) -> dict[str, str]:
    """What is missing for each unit that a model cannot tell; the same for every group size."""
    return {unit: text for unit in unknown if (text := model.needs(unit))}


def _mixed(content: GroupContent, at: str) -> float:
    """Mixed share at the value, the low or the high limit of the dead fraction."""
    if at not in ENDS:
        raise DomainError(not_one_of("at", at, ENDS))
    share = {"value": content.mixed_fraction, "low": content.mixed_high, "high": content.mixed_low}[at]
    if share is None:
        raise DomainError(f"at={at!r} needs the limits of the dead fraction. Use GroupContent.of(fit, group_size).")
    return share


def _times(value: float | None, factor: float | None) -> float | None:
    return None if value is None or factor is None else value * factor


def _over(value: float | None, rate: float | None) -> float | None:
    return None if value is None or rate is None else value / rate


def _sum(*values: float | None) -> float | None:
    total = 0.0
    for value in values:
        if value is None:
            return None
        total += value
    return total
