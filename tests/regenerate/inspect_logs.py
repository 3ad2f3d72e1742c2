"""Write two small Inspect logs, one ``.eval`` and one ``.json``: ``python tests/regenerate/inspect_logs.py OUT``.

Needs inspect_ai. The model is a mock whose answers are laid down here: sample i of 4 is answered in 4 epochs. Two
scorers grade each answer; one of them fails on one word and gives no number on another. ``truth.json`` holds what was
graded how, so that a test can compare.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SAMPLES, EPOCHS = 4, 4
CUT = (5, 11)  # answers that hit the limit of tokens
CRASH, EMPTY = 7, 13  # answers on which the second scorer fails, and gives NaN


def answer(call: int) -> str:
    """Answer of a call; calls come epoch by epoch."""
    sample = call % SAMPLES
    if call == CRASH:
        return "crash"
    if call == EMPTY:
        return "empty"
    return "yes" if (call // SAMPLES) < sample else "no"


def run(out: Path) -> None:
    from inspect_ai import Epochs, Task, eval
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import Score, match, mean, scorer
    from inspect_ai.solver import generate

    @scorer(metrics=[mean()])  # type: ignore[untyped-decorator]
    def graded() -> Any:
        async def score(state: Any, target: Any) -> Any:
            text = state.output.completion
            if text == "crash":
                raise ValueError("the grader failed")
            value: Any = math.nan if text == "empty" else {"right": text == "yes", "tidy": 0.5}
            return Score(value=value)

        return score

    def outputs() -> Iterator[Any]:
        call = 0
        while True:
            output = ModelOutput.from_content("mockllm/model", answer(call))
            output.choices[0].stop_reason = "max_tokens" if call in CUT else "stop"
            output.usage = ModelUsage(input_tokens=5, output_tokens=call + 1, total_tokens=call + 6)
            yield output
            call += 1

    for kind in ("eval", "json"):
        samples = [Sample(id=f"q{i}" if i else 7, input=f"question {i}", target="yes") for i in range(SAMPLES)]
        eval(
            Task(
                dataset=MemoryDataset(samples, name="toy"),
                solver=generate(),
                scorer=[match(), graded()],
                epochs=Epochs(EPOCHS, "mean"),
                name=f"toy_{kind}",
            ),
            model=get_model("mockllm/model", custom_outputs=outputs()),
            log_dir=str(out),
            log_format=kind,
            fail_on_error=False,
            display="none",
            max_samples=1,
            temperature=0.7,
        )
    calls = range(SAMPLES * EPOCHS)
    right = sum(answer(c) == "yes" for c in calls)
    (out / "truth.json").write_text(json.dumps({"right": right, "errors": 1, "cut": len(CUT), "calls": len(calls)}))


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    run(folder)
