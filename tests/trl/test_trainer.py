"""The probe in a tiny TRL run: a randomly initialised model and a local tokenizer, on the CPU, without a network."""

from __future__ import annotations

import json
import logging
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import grpo_plan as gp
from tests.conftest import ROOT
from tests.trl.snippets import snippet

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

WORDS = ["<pad>", "<eos>", "<unk>", *"0123456789", "+", "="]


# warnings of importing and running third parties, which this project cannot mend
THEIRS = r"(trl|transformers|accelerate|datasets|torch)(\..*)?"
pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{category}:{THEIRS}")
    for category in ("DeprecationWarning", "FutureWarning", "UserWarning")
]


def tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )


def reward(prompts: list[str], completions: list[str], **_: Any) -> list[float | None]:
    """1 where the completion starts with an even digit; the draw shows whether generators are put back."""
    random.random()
    np.random.random()  # noqa: NPY002 - reward functions in the wild do this
    return [1.0 if c.strip()[:1] in tuple("02468") else 0.0 for c in completions]


def never(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
    return [0.0] * len(completions)


def make_trainer(folder: Path, reward_function: Any = reward, **options: Any) -> Any:
    from datasets import Dataset
    from transformers import LlamaConfig, LlamaForCausalLM
    from trl import GRPOConfig, GRPOTrainer

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=32,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=1,
    )
    settings: dict[str, Any] = dict(
        output_dir=str(folder),
        per_device_train_batch_size=4,
        num_generations=4,
        max_completion_length=3,
        max_steps=2,
        learning_rate=1e-2,
        report_to=[],
        use_cpu=True,
        save_strategy="no",
        disable_tqdm=True,
        logging_steps=1,
        seed=3,
    )
    return GRPOTrainer(
        model=LlamaForCausalLM(config),
        reward_funcs=reward_function,
        args=GRPOConfig(**(settings | options)),
        train_dataset=Dataset.from_list([{"prompt": f"{i} + {i % 7} ="} for i in range(9)]),
        processing_class=tokenizer(),
    )


def weights_of(trainer: Any) -> Any:
    return torch.cat([p.detach().reshape(-1) for p in trainer.model.parameters()]).clone()


def metrics_of(trainer: Any) -> list[dict[str, Any]]:
    timed = ("time", "runtime", "per_second")
    return [{k: v for k, v in row.items() if not any(t in k for t in timed)} for row in trainer.state.log_history]


def test_the_callback_measures_and_leaves_training_as_it_was(tmp_path: Path) -> None:
    plain = make_trainer(tmp_path / "plain")
    plain.train()
    probed = make_trainer(tmp_path / "probed")
    callback = gp.kappa_callback(probed, prompts=6, path=tmp_path / "kappa.json")
    probed.add_callback(callback)
    probed.train()
    assert torch.equal(weights_of(plain), weights_of(probed))
    assert metrics_of(plain) == metrics_of(probed)
    m = gp.KappaMeasurement.load(tmp_path / "kappa.json")
    assert m.prompts == 6
    assert m.group_sizes == (4, 16)
    assert m.kappa is not None
    assert m.kappa_source == "rewards"
    assert m.kappa == callback.measurement.kappa


def drawn() -> Any:
    """State of NumPy's global generator."""
    state: Any = np.random.get_state()  # noqa: NPY002
    return state[1].tolist()


def test_a_probe_on_demand_leaves_everything_in_place(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path)
    trainer.model.eval()
    before = (weights_of(trainer), torch.get_rng_state(), random.getstate(), drawn())
    first = gp.probe_trainer(trainer, prompts=5, subgroup_sizes=(2, 4), rollouts=8, seed=1)
    after = (weights_of(trainer), torch.get_rng_state(), random.getstate(), drawn())
    assert torch.equal(before[0], after[0])
    assert torch.equal(before[1], after[1])
    assert before[2:] == after[2:]
    assert not trainer.model.training
    assert trainer.num_generations == 4
    assert "_calculate_rewards" not in vars(trainer)
    assert all(p.grad is None for p in trainer.model.parameters())
    assert not any(trainer._metrics["train"].values())
    assert trainer.state.num_input_tokens_seen == 0
    again, other = (gp.probe_trainer(trainer, prompts=5, subgroup_sizes=(2, 4), rollouts=8, seed=s) for s in (1, 2))
    assert np.array_equal(first.squared_norms, again.squared_norms)
    assert not np.array_equal(first.squared_norms, other.squared_norms)


def test_the_log_probabilities_are_the_trainers_own(tmp_path: Path) -> None:
    """One padded pass over the whole group, as the trainer's loss makes it, gives the same sums."""
    from grpo_plan.probe.trainer import _log_probabilities, _scored

    trainer = make_trainer(tmp_path)
    trainer.num_generations = 8
    batch, rewards = _scored(trainer, [dict(trainer.train_dataset[0]) for _ in range(8)])
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
    whole = trainer._get_per_token_logps_and_entropies(trainer.model, ids, mask, batch["completion_ids"].shape[1])[0]
    sums = (whole * batch["completion_mask"]).sum(1)
    assert torch.allclose(torch.stack(list(_log_probabilities(trainer, batch))), sums, atol=1e-5)
    texts = trainer.processing_class.batch_decode(batch["completion_ids"], skip_special_tokens=True)
    assert rewards.tolist() == reward([], texts)


def test_dead_prompts_are_logged_in_one_line_and_training_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trainer = make_trainer(tmp_path, never, max_steps=1)
    callback = gp.kappa_callback(trainer, prompts=3, path=tmp_path / "kappa.json")
    trainer.add_callback(callback)
    with caplog.at_level(logging.WARNING, "grpo_plan.probe"):
        trainer.train()
    assert trainer.state.global_step == 1
    assert callback.measurement is None
    assert not (tmp_path / "kappa.json").exists()
    (record,) = [r for r in caplog.records if r.name == "grpo_plan.probe"]
    assert "All 3 groups are dead" in record.getMessage()


def stand_in(**changes: Any) -> Any:
    fields = dict(
        _generate_and_score_completions=None,
        _calculate_rewards=None,
        _get_per_token_logps_and_entropies=None,
        accelerator=SimpleNamespace(num_processes=1),
        args=SimpleNamespace(gradient_checkpointing=False),
    )
    return SimpleNamespace(**(fields | changes))


@pytest.mark.parametrize(
    ("trainer", "message"),
    [
        (stand_in(accelerator=SimpleNamespace(num_processes=4)), "runs in one process.*this trainer has 4"),
        (stand_in(is_deepspeed_enabled=True), "DeepSpeed and FSDP shard them"),
        (stand_in(is_fsdp_enabled=True), "DeepSpeed and FSDP shard them"),
        (
            stand_in(
                args=SimpleNamespace(gradient_checkpointing=True, gradient_checkpointing_kwargs={"use_reentrant": True})
            ),
            "reentrant checkpointing",
        ),
        (SimpleNamespace(), "must be a trl.GRPOTrainer; SimpleNamespace has no _generate_and_score"),
    ],
)
def test_what_the_probe_cannot_do_is_refused_in_one_line(trainer: Any, message: str) -> None:
    for call in (gp.probe_trainer, gp.kappa_callback):
        with pytest.raises(gp.DomainError, match=message) as caught:
            call(trainer)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("version", ["0.24.0", "2.0.0"])
def test_other_versions_of_trl_are_refused(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr("trl.__version__", version)
    with pytest.raises(gp.MissingExtraError, match=rf"TRL 1\.x; installed is {version}"):
        gp.kappa_callback(stand_in())


def test_unknown_options_are_refused_before_training() -> None:
    with pytest.raises(gp.DomainError, match="has no option 'prompt'"):
        gp.kappa_callback(stand_in(), prompt=3)


def test_the_trl_snippet_of_the_docs_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = snippet(ROOT / "docs" / "choosing.md", "kappa_callback")

    def build(**given: Any) -> Any:
        assert set(given) == {"model", "reward_funcs", "args", "train_dataset"}
        return make_trainer(tmp_path, max_steps=1)

    names = dict.fromkeys(("model", "reward", "args", "dataset")) | {"GRPOTrainer": build}
    exec(code.replace("prompts=256", "prompts=4"), names)
    assert json.loads((tmp_path / "kappa.json").read_text(encoding="utf-8"))["prompts"] == 4
