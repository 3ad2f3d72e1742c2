"""Every log and dump of the tools in tests/data, and the real logs, is diagnosed: as JSON, with limits in order."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import grpo_plan as gp
from grpo_plan.cli.diagnose_json import diagnosis_json
from tests.conftest import ROOT

DATA = ROOT / "tests" / "data"
RUNS = (
    "trl/binary", "trl/none2", "trl/batchstd", "trl/gap", "tinker/run", "verl/v1", "verl/legacy", "prime_rl/v0.3", "prime_rl/v0.6",
    "prime_rl/v0.8", "ms_swift", "open_instruct", "slime", "roll", "easyr1", "verifiers/rollouts",
)  # fmt: skip
SETTINGS: dict[str, dict[str, Any]] = {}


def judged(source: Path, **more: Any) -> gp.Diagnosis:
    return gp.diagnose(gp.read_run(source, **more))


def check(found: gp.Diagnosis) -> None:
    body = json.loads(json.dumps(diagnosis_json(found), allow_nan=False))
    assert body["verdict"] == found.verdict
    assert "\n" not in found.verdict
    seen = {f["id"] for f in body["findings"]} | {s["id"] for s in body["skipped"]} | {c["id"] for c in body["clear"]}
    assert len(seen) == 15  # every check says something
    for finding in body["findings"]:
        for name, low in finding["evidence"].items():
            high = finding["evidence"].get(f"{name.removesuffix('_low')}_high")
            if name.endswith("_low") and high is not None:
                assert low <= high, (finding["id"], name)


@pytest.mark.parametrize("name", RUNS)
def test_fixtures_are_diagnosed(name: str) -> None:
    source = DATA / name
    if not source.exists():
        pytest.fail(f"{source} is gone")
    try:
        found = judged(source, **SETTINGS.get(name, {}))
    except gp.MissingExtraError as error:
        pytest.skip(str(error))
    check(found)


def test_the_batch_scaled_metric_is_caught() -> None:
    found = judged(DATA / "trl" / "batchstd").finding("BATCH_SCALED_METRIC")
    assert found is not None
    assert found.severity is gp.Severity.WARNING
    assert found.evidence["metric_mean"] == 0.0
    assert found.evidence["dead_fraction"] == pytest.approx(10 / 36)


def test_survivors_are_flagged() -> None:
    found = judged(DATA / "open_instruct").finding("FILTERED_METRIC")
    assert found is not None
    assert found.severity is gp.Severity.WARNING


REAL = os.environ.get("GRPO_PLAN_REAL_DATA")


@pytest.mark.skipif(REAL is None, reason="GRPO_PLAN_REAL_DATA names no folder with the public logs")
def test_real_logs_are_diagnosed() -> None:
    folder = Path(REAL or "") / "logs"
    for path in sorted(folder.glob("*.json")):
        for name in runs_of(path):
            check(judged(path) if name is None else judged(path, run=name))


def runs_of(path: Path) -> tuple[str | None, ...]:
    """Names of the runs of a file; None where it holds one without a name."""
    try:
        gp.read_run(path)
    except gp.PilotFormatError as error:
        return tuple(str(error).split(" runs: ")[1].split(". Name")[0].split(", "))
    return (None,)
