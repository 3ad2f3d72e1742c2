"""The testbed's policy as a model of transformers: for TRL it is a causal language model with a tokenizer.

Same weights, same probabilities: `Hosted` holds a `Decoder` and adds two symbols, one that ends and one that pads. An
answer ends after its five tokens, with probability 1, so the end adds nothing to a log-probability or a gradient.
"""

from __future__ import annotations

from typing import Any

import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from torch import Tensor, nn
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutput

from figures.validation.model import VOCABULARY, Decoder
from figures.validation.tasks import ANSWER, PROMPT

SYMBOLS = "0123456789+="
END, PAD = VOCABULARY, VOCABULARY + 1
NEVER = -1e4  # logit of what has no probability


def tokenizer() -> Any:
    """One token a character, and the two that end and pad."""
    names = {name: i for i, name in enumerate([*SYMBOLS, "<end>", "<pad>"])}
    core = Tokenizer(models.WordLevel(names, unk_token="<pad>"))
    core.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    return PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token="<end>", pad_token="<pad>", unk_token="<pad>", padding_side="left"
    )


def as_text(prompts: Tensor) -> list[str]:
    """Prompts (N, 10) as a trainer's data set holds them."""
    return ["".join(SYMBOLS[i] for i in row) for row in prompts.tolist()]


def as_tokens(texts: list[str]) -> Tensor:
    """The way back: (N, 10)."""
    return torch.tensor([[SYMBOLS.index(c) for c in text] for text in texts])


class HostedConfig(PretrainedConfig):  # type: ignore[misc,unused-ignore]
    """What transformers asks of a configuration."""

    model_type = "validation"

    def __init__(self, **given: Any) -> None:
        super().__init__(
            **{"vocab_size": PAD + 1, "eos_token_id": END, "pad_token_id": PAD, "use_cache": False, **given}
        )
        self.num_hidden_layers, self.hidden_size = 2, PAD + 1


class Backbone(nn.Module):  # type: ignore[misc,unused-ignore]
    """All of the decoder. What it calls hidden states are logits of 14 symbols."""

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any) -> Any:
        """Logits (N, T, 14) for prompts and answers (N, T); zeros before the end of a prompt."""
        n, length = input_ids.shape
        prompts, same = input_ids[:, :PROMPT].unique(dim=0, return_inverse=True)  # each is read once
        first, cache = self.decoder.read(prompts)
        cache = [(k[same], v[same]) for k, v in cache]
        parts = [first[same, None]]
        if length > PROMPT:
            given = input_ids[:, None, PROMPT : PROMPT + ANSWER].clamp(max=VOCABULARY - 1)
            parts.append(self.decoder.extend(cache, given)[0][:, 0])
        known = torch.cat(parts, 1)[:, :ANSWER]
        digits = torch.cat([known, known.new_full((n, known.shape[1], 2), NEVER)], -1)
        over = known.new_full((n, max(0, length + 1 - PROMPT - ANSWER), PAD + 1), NEVER)
        over[..., END] = 0.0
        return BaseModelOutput(torch.cat([known.new_zeros(n, PROMPT - 1, PAD + 1), digits, over], 1))


class _Identity(nn.Module):  # type: ignore[misc,unused-ignore]
    """A head that leaves logits as they are, in the shape that TRL reads: a weight, and no bias."""

    bias = None

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.eye(size))

    def forward(self, x: Tensor) -> Tensor:
        return x


class Hosted(PreTrainedModel, GenerationMixin):  # type: ignore[misc,unused-ignore]
    """A `Decoder` that transformers can generate from and TRL can train; its parameters are those of the decoder."""

    config_class = HostedConfig
    base_model_prefix = "backbone"
    main_input_name = "input_ids"

    def __init__(self, decoder: Decoder) -> None:
        super().__init__(HostedConfig())
        self.backbone = Backbone(decoder)
        self.lm_head = _Identity(PAD + 1)

    @property
    def decoder(self) -> Decoder:
        """The policy itself."""
        return self.backbone.decoder

    def get_output_embeddings(self) -> Any:
        """The head."""
        return self.lm_head

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any) -> Any:
        """Logits (N, T, 14)."""
        return CausalLMOutput(logits=self.backbone(input_ids).last_hidden_state)

    def prepare_inputs_for_generation(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Everything so far: there is no cache between calls."""
        return {"input_ids": input_ids}
