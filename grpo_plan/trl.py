"""`GrpoPlanCallback`: watches a run of TRL's GRPOTrainer while it trains, and logs how its groups turn out.

``GRPOTrainer(..., callbacks=[GrpoPlanCallback(plan="plan.json")])``
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from enum import Enum
from functools import cache
from os import PathLike
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from grpo_plan.errors import DomainError, MissingExtraError
from grpo_plan.runs.alerts import Alert
from grpo_plan.runs.finding import Severity
from grpo_plan.runs.measured import Floats
from grpo_plan.runs.monitor import Monitor
from grpo_plan.runs.settings import DiagnosisSettings

if TYPE_CHECKING:

    class GrpoPlanCallback:  # the real one is made when it is asked for: it needs transformers
        """See `_Watching`."""

        monitor: Monitor

        def __init__(self, plan: Any = None, **options: Any) -> None: ...


logger = logging.getLogger("grpo_plan.trl")
PREFIX = "grpo_plan/"
SCORING = "_calculate_rewards"
SETTINGS = (
    "num_generations", "generation_batch_size", "beta", "scale_rewards", "loss_type", "steps_per_generation",
    "num_iterations", "logging_steps", "temperature", "max_completion_length", "multi_objective_aggregation",
    "per_device_train_batch_size", "gradient_accumulation_steps", "mask_truncated_completions", "max_steps",
)  # fmt: skip
SUMMARY = "train_runtime"
LEVELS = {Severity.INFO: logging.INFO, Severity.WARNING: logging.WARNING, Severity.CRITICAL: logging.ERROR}


class _Watching:
    """Watches a run of `trl.GRPOTrainer` while it trains.

    It counts the groups from the rewards of the rollouts themselves, of all processes, so the counts hold whatever
    ``scale_rewards`` makes of TRL's own metric, and logs them as ``grpo_plan/...``. Training is as it would be without
    it. What is found is logged by ``logging.getLogger("grpo_plan.trl")``, once for each finding.

    Args:
        plan: What was expected: a plan, the file that ``plan --json`` or ``fit --json`` wrote, or None.
        settings: What the trainer does not say, and the knobs of the checks.
        pass_threshold: Reward from which a rollout passes; None: told by two levels of rewards.
        stop_on: Severity from which a finding ends training: ``"critical"``, ``"warning"`` or None.
        report_to: File to which each alert is appended as a line of JSON.
        trainer: The trainer; None: found when training begins.

    Raises:
        DomainError: An argument is outside its domain.
        PlanFormatError: ``plan`` is a file that holds no plan.
    """

    def __init__(
        self,
        plan: Any = None,
        *,
        settings: DiagnosisSettings | None = None,
        pass_threshold: float | None = None,
        stop_on: Severity | str | None = None,
        report_to: str | PathLike[str] | None = None,
        trainer: Any = None,
    ) -> None:
        stops = [s.value for s in Severity if s is not Severity.INFO]
        if stop_on is not None and stop_on not in stops:
            raise DomainError(f"stop_on must be {' or '.join(map(repr, stops))} or None; got {stop_on!r}.")
        self._options: dict[str, Any] = {"settings": settings, "pass_threshold": pass_threshold, "source": "the run"}
        self.monitor = Monitor(plan, **self._options)
        self._plan = plan
        self._stop_on = None if stop_on is None else Severity(stop_on)
        self._report = None if report_to is None else Path(report_to)
        self._trainer = trainer
        self._pending: list[Floats] = []  # rewards since the last step
        self._seen: list[Floats] = []  # and since the last row of the log
        self._per_step: float | None = None
        self._failed = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Find the trainer, read its settings, and take the rows of a run that is taken up again."""
        trainer = self._trainer = self._trainer or _trainer_of(self)
        if trainer is not None:
            _put_first(self, trainer.callback_handler)
        config = settings_of(args)
        self.monitor = Monitor(self._plan, tool="trl", config=config, **self._options)
        self._pending, self._seen = [], []
        self._per_step = _groups_a_step(args, config)
        for row in state.log_history:
            if _of_training(row) and isinstance(row.get("step"), int) and row["step"] <= state.global_step:
                self.monitor.collect(row["step"], row)

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """See to it that rewards are seen."""
        trainer = self._trainer
        if trainer is not None and not getattr(vars(trainer).get(SCORING), "of_grpo_plan", False):
            self._listen(trainer)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Take the rewards of this step."""
        widths = {table.shape[1] for table in self._pending}
        if len(widths) == 1:
            rewards = np.concatenate(self._pending)
            self.monitor.collect(int(state.global_step), rewards=rewards)
            self._seen.append(rewards)
        self._pending = []

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        """Add what was counted to the row, look at the run, and tell what is new."""
        if logs is None or not _of_training(logs):
            return
        try:
            alerts = self.monitor.update(int(state.global_step), logs)
        except Exception as error:  # whatever it is: training goes on
            self._give_up(error)
            return
        more = self._counted()
        logs.update(more)
        if state.log_history and state.log_history[-1].get("step") == state.global_step:
            state.log_history[-1].update(more)
        if getattr(state, "is_world_process_zero", True):
            for alert in alerts:
                self._tell(alert)
        if self._stop_on is not None and self._agreed(any(alert.at_least(self._stop_on) for alert in alerts)):
            control.should_training_stop = True

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Let go of the trainer."""
        trainer = self._trainer
        if trainer is not None and getattr(vars(trainer).get(SCORING), "of_grpo_plan", False):
            delattr(trainer, SCORING)

    def _listen(self, trainer: Any) -> None:
        """Take note of the rewards that the trainer works out; it gets them as they are."""
        original = getattr(trainer, SCORING, None)
        if original is None:
            self._trainer = None
            logger.warning("%s shows no rewards of rollouts: only its metrics are watched.", type(trainer).__name__)
            return

        def scored(*arguments: Any, **named: Any) -> Any:
            table = original(*arguments, **named)
            if trainer.model.training:
                try:
                    self._pending.append(rewards_of(trainer, table))
                except Exception as error:  # whatever it is: training goes on
                    self._give_up(error)
            return table

        scored.of_grpo_plan = True  # type: ignore[attr-defined]
        setattr(trainer, SCORING, scored)

    def _counted(self) -> dict[str, float]:
        """Shares of the groups since the last row, and what the last look says of the plan."""
        out: dict[str, float] = {}
        groups = self.monitor.run.groups
        count = sum(table.shape[0] for table in self._seen)
        if groups is not None and count:
            last = slice(groups.groups - count, None)
            shares = {"dead": groups.dead, "all_pass": groups.all_pass, "all_fail": groups.all_fail}
            known = {name: flags[last] for name, flags in shares.items() if flags is not None}
            out |= {f"{PREFIX}{name}_fraction": float(flags.mean()) for name, flags in known.items()}
            if self._per_step is not None:
                out[f"{PREFIX}mixed_groups_per_step"] = self._per_step * float(1.0 - known["dead"].mean())
        self._seen = []
        evidence = self.monitor.log10_evidence_against_plan
        return out if evidence is None else {**out, f"{PREFIX}evidence_against_plan": evidence}

    def _tell(self, alert: Alert) -> None:
        level = LEVELS[alert.severity] if alert.at_least(Severity.INFO) else logging.INFO
        logger.log(level, "%s %s", alert, alert.remedy)
        if self._report is None:
            return
        line = json.dumps({"schema": 1, "event": "alert", **alert.document()}, allow_nan=False)
        try:
            with self._report.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError as error:
            logger.warning("report_to %s cannot be written (%s): alerts are only logged.", self._report, error.strerror)
            self._report = None

    def _agreed(self, stop: bool) -> bool:
        """Whether to stop: as the first process says, where there are several."""
        accelerator = getattr(self._trainer, "accelerator", None)
        if accelerator is None or accelerator.num_processes == 1:
            return stop
        from accelerate.utils import broadcast_object_list  # type: ignore[import-not-found,import-untyped,unused-ignore]

        return bool(broadcast_object_list([stop])[0])

    def _give_up(self, error: Exception) -> None:
        if not self._failed:
            self._failed = True
            logger.warning("a step could not be watched (%s: %s); training goes on.", type(error).__name__, error)


def settings_of(args: Any) -> dict[str, object]:
    """Settings of a `GRPOConfig` that say what its metrics mean, and the version of TRL."""
    found = {name: getattr(args, name) for name in SETTINGS if getattr(args, name, None) is not None}
    config: dict[str, object] = {k: v.value if isinstance(v, Enum) else v for k, v in found.items()}
    version = getattr(sys.modules.get("trl"), "__version__", None)
    return config if version is None else {**config, "trl_version": str(version)}


def rewards_of(trainer: Any, table: Any) -> Floats:
    """Weighted rewards as TRL adds them up, shape (N, G), NaN where no function scored.

    Args:
        trainer: The trainer.
        table: What its reward functions gave to the rollouts of all processes, shape (N * G, functions).
    """
    weighted = (table * trainer.reward_weights.to(table.device).unsqueeze(0)).nansum(dim=1)
    rewards: Floats = weighted.detach().double().cpu().numpy().copy()
    rewards[np.isnan(table.detach().cpu().numpy()).all(axis=1)] = np.nan
    rewards[np.isinf(rewards)] = np.nan
    return rewards.reshape(-1, int(trainer.num_generations))


def _groups_a_step(args: Any, config: Mapping[str, object]) -> float | None:
    """Groups behind an optimiser step."""
    rollouts = [getattr(args, n, None) for n in ("per_device_train_batch_size", "gradient_accumulation_steps")]
    size = config.get("num_generations")
    if not all(isinstance(n, int) for n in (*rollouts, size)):
        return None
    product = rollouts[0] * rollouts[1] * getattr(args, "world_size", 1)  # type: ignore[operator]
    return float(product / size)


def _of_training(row: Mapping[str, Any]) -> bool:
    """Whether a row is of training: not of an evaluation, and not the totals at the end."""
    return SUMMARY not in row and not any(name.startswith("eval_") for name in row)


def _put_first(callback: Any, handler: Any) -> None:
    """Before the callbacks that send a row away, so that they send what is added to it."""
    if callback in handler.callbacks:
        handler.callbacks.remove(callback)
        handler.callbacks.insert(0, callback)


def _trainer_of(callback: Any) -> Any:
    """The trainer that calls a callback: transformers does not hand it over, but it is among those who call."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        caller = frame.f_locals.get("self")
        handler = getattr(caller, "callback_handler", None)
        if handler is not None and any(c is callback for c in getattr(handler, "callbacks", ())):
            return caller
        frame = frame.f_back
    return None


@cache
def _callback() -> type:
    try:
        from transformers import TrainerCallback
    except ImportError:
        raise MissingExtraError(
            "GrpoPlanCallback needs transformers and TRL, which are not installed. Install grpo-plan[trl]."
        ) from None
    body = {"__module__": __name__, "__doc__": _Watching.__doc__}
    return type("GrpoPlanCallback", (_Watching, TrainerCallback), body)


def __getattr__(name: str) -> Any:
    """The callback, made when it is asked for."""
    if name == "GrpoPlanCallback":
        return _callback()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["GrpoPlanCallback"]
