"""The probe on TRL's GRPOTrainer: its own generation, reward functions and log-probabilities (TRL 1.x)."""

from __future__ import annotations

import copy
import logging
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grpo_plan._validate import as_count
from grpo_plan.errors import DomainError, GrpoPlanError, MissingExtraError, PilotError
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.planning.kappa import KappaMeasurement
from grpo_plan.probe.gradients import GradientProbe
from grpo_plan.probe.vectors import needs

logger = logging.getLogger("grpo_plan.probe")
SUPPORTED = 1  # major version of TRL
USED = ("_generate_and_score_completions", "_calculate_rewards", "_get_per_token_logps_and_entropies")
KEPT = ("_metrics", "_logs", "_pending_metrics", "_pending_extra_logs", "environments", "num_generations")
PICTURES = ("pixel_values", "image_grid_thw", "pixel_attention_mask", "image_sizes", "spatial_shapes")


def probe_trainer(
    trainer: Any,
    *,
    prompts: int = 256,
    rollouts: int = 16,
    subgroup_sizes: tuple[int, ...] = (4, 16),
    sketch_size: int | None = None,
    fit: PassRateFit | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> KappaMeasurement:
    """Measure kappa with a TRL `GRPOTrainer` as it stands (theory.md, eq. 49 to 51).

    For each of ``prompts`` prompts of its training set it generates ``rollouts`` completions, scores them with the
    trainer's reward functions and weights, and takes the gradient of each completion's summed log-probability under
    the trainer's own routine and masks. Weights, ``.grad``, optimizer, metrics, logs, token counters, train or eval
    mode and the global random number generators of torch, NumPy and Python are afterwards as before.

    Args:
        trainer: A `trl.GRPOTrainer` in one process.
        prompts: Prompts to measure on, drawn at random from the training set without replacement (the first ones of a
            stream); all of them if there are fewer.
        rollouts: Completions of each prompt, at least the largest of ``subgroup_sizes``.
        subgroup_sizes: Group sizes to measure at.
        sketch_size: As in `GradientProbe`.
        fit: A pilot's pass rates for kappa; by default those of the probe's own 0/1 rewards.
        level: Confidence level.
        seed: Seed of the choice of prompts, of generation, of the sketch and of the bootstrap.

    Raises:
        MissingExtraError: torch or TRL 1.x is not installed.
        DomainError: Several processes, sharded parameters, images, or arguments outside their domain.
        PilotError: Every group is dead.
    """
    count, size = as_count(prompts, "prompts", minimum=2), as_count(rollouts, "rollouts", minimum=4)
    _check(trainer)
    probe = GradientProbe(trainer.model, subgroup_sizes=subgroup_sizes, sketch_size=sketch_size, seed=seed)
    if size < max(subgroup_sizes):
        raise DomainError(f"rollouts must be at least the largest sub-group, {max(subgroup_sizes)}; got {size}.")
    rows = _rows(trainer.train_dataset, count, seed)
    with _undisturbed(trainer, seed):
        trainer.num_generations = size
        trainer.model.train()  # as in a training step
        for row in rows:
            batch, rewards = _scored(trainer, [dict(row) for _ in range(size)])
            probe.add(_log_probabilities(trainer, batch), rewards)
    return probe.measurement(fit=fit, level=level, seed=seed)


def kappa_callback(trainer: Any, *, path: str | PathLike[str] = "kappa.json", **options: Any) -> Any:
    """A `transformers.TrainerCallback` that measures kappa at the start of training and writes it to a file.

    Training goes on as it would have without it. If nothing can be measured (every group dead), one line is logged as a
    warning and no file is written. After ``train()`` the callback's ``measurement`` holds the result, or None.

    Args:
        trainer: The `trl.GRPOTrainer` to which it is added: ``trainer.add_callback(kappa_callback(trainer))``.
        path: Where the measurement is written (docs/json.md).
        options: As in `probe_trainer`.

    Raises:
        MissingExtraError: torch or TRL 1.x is not installed.
        DomainError: Several processes, sharded parameters, or options outside their domain.
    """
    base: Any = needs("transformers").TrainerCallback
    _check(trainer)
    unknown = sorted(set(options) - set(probe_trainer.__kwdefaults__ or {}))
    if unknown:
        raise DomainError(f"kappa_callback has no option {unknown[0]!r}; it takes those of probe_trainer, and path.")

    class KappaCallback(base):  # type: ignore[misc]
        """Measures kappa when training begins."""

        measurement: KappaMeasurement | None = None

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            """Run the probe and write its file."""
            try:
                self.measurement = probe_trainer(trainer, **options)
            except PilotError as error:
                logger.warning("kappa was not measured: %s", error)
                return
            self.measurement.save(path)
            logger.info("kappa measured, written to %s: %s", path, str(self.measurement).splitlines()[0])

    return KappaCallback()


def _check(trainer: Any) -> None:
    """Refuse, in one line, what the probe cannot do."""
    version = str(getattr(needs("trl"), "__version__", "0"))
    if version.split(".")[0] != str(SUPPORTED):
        raise MissingExtraError(
            f"The probe works with TRL {SUPPORTED}.x; installed is {version}. Use GradientProbe instead."
        )
    missing = [name for name in USED if not hasattr(trainer, name)]
    if missing:
        raise DomainError(
            f"trainer must be a trl.GRPOTrainer; {type(trainer).__name__} has no {missing[0]}. Or use GradientProbe."
        )
    processes = int(trainer.accelerator.num_processes)
    if processes > 1:
        raise DomainError(
            f"The probe runs in one process, where all gradients of a prompt are; this trainer has {processes}. Run "
            "it once in one process, on the same model and prompts, and plan with its file."
        )
    if getattr(trainer, "is_deepspeed_enabled", False) or getattr(trainer, "is_fsdp_enabled", False):
        raise DomainError("The probe needs whole parameters; DeepSpeed and FSDP shard them. Run it once without them.")
    reentrant = (getattr(trainer.args, "gradient_checkpointing_kwargs", None) or {}).get("use_reentrant", False)
    if getattr(trainer.args, "gradient_checkpointing", False) and reentrant:
        raise DomainError(
            "The probe takes gradients of single rollouts, which reentrant checkpointing does not give. Set "
            "gradient_checkpointing_kwargs={'use_reentrant': False}."
        )


def _rows(dataset: Any, count: int, seed: int) -> list[Mapping[str, Any]]:
    """Prompts to measure on."""
    if hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__"):
        total = len(dataset)
        chosen = np.random.default_rng(seed).permutation(total)[:count]
        return [dataset[int(i)] for i in chosen]
    return list(islice(iter(dataset), count))


@contextmanager
def _undisturbed(trainer: Any, seed: int) -> Iterator[None]:
    """Everything that generation and scoring change in the trainer, and global generators, are put back."""
    torch = needs("torch")
    modes = {module: module.training for module in trainer.model.modules()}
    kept = {
        name: copy.deepcopy(getattr(trainer, name)) for name in KEPT if name in vars(trainer) and name != "environments"
    }
    kept |= {"environments": trainer.environments} if "environments" in vars(trainer) else {}
    tokens = trainer.state.num_input_tokens_seen
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - reward functions may use it
    devices = list(range(torch.cuda.device_count()))
    with torch.random.fork_rng(devices=devices), torch.enable_grad():
        torch.manual_seed(seed)
        try:
            yield
        finally:
            for name, value in kept.items():
                setattr(trainer, name, value)
            trainer.state.num_input_tokens_seen = tokens
            for module, training in modes.items():
                module.training = training
            random.setstate(python)
            np.random.set_state(numpy)  # noqa: NPY002


def _scored(trainer: Any, inputs: list[dict[str, Any]]) -> tuple[Mapping[str, Any], NDArray[np.float64]]:
    """Completions of one prompt and their weighted rewards, NaN where no function scored."""
    torch = needs("torch")
    seen: list[Any] = []
    original = trainer._calculate_rewards

    def recording(*arguments: Any, **named: Any) -> Any:
        table = original(*arguments, **named)
        seen.append(table.detach())
        return table

    trainer._calculate_rewards = recording
    try:
        with torch.no_grad():
            batch = trainer._generate_and_score_completions(inputs)
    finally:
        del trainer._calculate_rewards
    if any(name in batch for name in PICTURES):
        raise DomainError(
            "The probe reads text prompts; these have images. Use GradientProbe with your own forward pass."
        )
    table = seen[-1].double()
    rewards = (table * trainer.reward_weights.to(table).unsqueeze(0)).nansum(dim=1)
    rewards[torch.isnan(table).all(dim=1)] = torch.nan
    values: NDArray[np.float64] = rewards.cpu().numpy()
    return batch, values


def _log_probabilities(trainer: Any, batch: Mapping[str, Any]) -> Iterator[Any]:
    """Summed log-probability of each completion, one forward pass at a time."""
    torch = needs("torch")
    mask = batch["completion_mask"]
    if "tool_mask" in batch:
        mask = mask * batch["tool_mask"]
    prompt, prompt_mask = batch["prompt_ids"], batch["prompt_mask"]
    extra = {name: batch[name] for name in ("token_type_ids", "mm_token_type_ids") if name in batch}
    if extra:
        raise GrpoPlanError(
            f"The probe does not know {sorted(extra)[0]}. Use GradientProbe with your own forward pass."
        )
    for i in range(prompt.shape[0]):
        length = max(int(batch["completion_mask"][i].sum()), 1)
        ids = batch["completion_ids"][i : i + 1, :length]
        inputs = torch.cat([prompt[i : i + 1], ids], dim=1)
        attention = torch.cat([prompt_mask[i : i + 1], batch["completion_mask"][i : i + 1, :length]], dim=1)
        logps = trainer._get_per_token_logps_and_entropies(trainer.model, inputs, attention, length)[0]
        yield (logps * mask[i : i + 1, :length]).sum()
