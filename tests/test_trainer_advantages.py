"""Presets against the trainers' own code: recorded runs of their functions, and trainings of the installed TRL."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import grpo_plan as gp
from grpo_plan.errors import DomainError
from grpo_plan.estimators.conventions import Convention, EpsPlace, Scaling
from grpo_plan.estimators.presets import FAMILY, Preset, find_preset, preset_trainers, presets
from grpo_plan.estimators.trainer_table import trainer_table
from tests.advantage_reference import reference
from tests.conftest import ROOT

Array = np.ndarray[Any, np.dtype[np.float64]]
Compute = Callable[..., Array]
RECORDED = json.loads((ROOT / "tests" / "data" / "trainer_advantages.json").read_text(encoding="utf-8"))
ALL_ROWS = [{**r, "version": v} for r in RECORDED["rows"] for v in r["versions"]]
ROWS = [r for r in ALL_ROWS if r["case"] != "equal"]  # those are float noise in the trainers: below


def table(values: Any) -> Array:
    return np.array(values, dtype=float)


CASES = {
    name: {"rewards": table(c["rewards"]), "lengths": table(c["lengths"]), "weights": c["weights"]}
    for name, c in RECORDED["cases"].items()
}


def label(row: dict[str, Any]) -> str:
    return "/".join([row["trainer"], row["version"] or "any", *(str(v) for v in row["options"].values())])


BY_SETTING: dict[str, list[dict[str, Any]]] = {}
for _row in ROWS:
    BY_SETTING.setdefault(label(_row), []).append(_row)


def by_reference(preset: Preset, case: dict[str, Any], **_: Any) -> Array:
    return reference(preset.convention, case["rewards"], weights=case["weights"], lengths=case["lengths"])


def by_package(preset: Preset, case: dict[str, Any], *, asked: str | None, options: dict[str, Any]) -> Array:
    """What a user gets."""
    found = gp.advantages(
        case["rewards"], trainer=preset.trainer, version=asked, weights=case["weights"], lengths=case["lengths"],
        **options,
    )  # fmt: skip
    return np.asarray(found)


def close(found: Array, wanted: Array, case: str) -> bool:
    """Single against double precision; spreads near every eps are powers of 2, which single precision has exactly."""
    scale = float(np.nanmax(np.abs(wanted), initial=0.0))
    tolerance = 1e-5 * scale if case.endswith(("tiny", "light", "dust")) else 3e-5 * max(scale, 1.0)
    return np.allclose(found, wanted, rtol=0, atol=tolerance + 1e-15, equal_nan=True)


def unordered(values: Array) -> Array:
    """Rollouts of a group sorted: where the best rewards tie, the trainer leaves to torch which one is the best."""
    return np.sort(values, axis=1)


def disagreements(preset: Preset, rows: list[dict[str, Any]], compute: Compute) -> list[str]:
    out = []
    for row in rows:
        found = compute(preset, CASES[row["case"]], asked=row["version"], options=row["options"])
        wanted = table(row["advantages"])
        if preset.method == "passk":
            found, wanted = unordered(found), unordered(wanted)
        if not close(found, wanted, row["case"]):
            out.append(f"{row['case']}: {float(np.nan_to_num(np.abs(found - wanted), nan=9e9).max()):.2g}")
    return out


@pytest.mark.parametrize("setting", BY_SETTING)
def test_recorded_code_gives_the_same_numbers(setting: str) -> None:
    rows = BY_SETTING[setting]
    preset = find_preset(rows[0]["trainer"], rows[0]["version"], **rows[0]["options"])
    assert preset.evidence in ("run", "excerpt")
    assert len(rows) >= 2
    assert not disagreements(preset, rows, by_reference)


@pytest.mark.skipif(not hasattr(gp, "advantages"), reason="gp.advantages is not there yet")
@pytest.mark.parametrize("setting", BY_SETTING)
def test_the_package_gives_the_same_numbers(setting: str) -> None:
    rows = BY_SETTING[setting]
    preset = find_preset(rows[0]["trainer"], rows[0]["version"], **rows[0]["options"])
    assert not disagreements(preset, rows, by_package)


def test_every_preset_marked_as_run_is_recorded() -> None:
    recorded = {
        id(find_preset(rows[0]["trainer"], rows[0]["version"], **rows[0]["options"])): True
        for rows in BY_SETTING.values()
    }
    known = {id(p) for p in presets() if id(p) in recorded}
    missing = [f"{p.trainer} {p.since} {p.setting}" for p in presets() if p.evidence != "read" and id(p) not in known]
    assert not missing
    assert {p.trainer for p in presets() if p.evidence == "read"} == {
        "skyrl", "slime", "roll", "open-instruct", "easyr1", "prime-rl"
    }  # fmt: skip


def broken(convention: Convention) -> dict[str, Convention]:
    """The convention with one choice changed at a time."""
    out: dict[str, Convention] = {}
    for name in ("scaling", "whitening"):
        scaling = getattr(convention, name)
        if scaling is None:
            continue

        def change(name: str = name, scaling: Scaling = scaling, **values: Any) -> Convention:
            changed: dict[str, Any] = {name: replace(scaling, **values)}
            return replace(convention, **changed)

        if convention.scale not in ("group_mean", "leave_one_out") or name == "whitening":
            out[f"{name} ddof"] = change(ddof=1 - scaling.ddof)
        if scaling.eps:
            out[f"{name} eps"] = change(eps=2 * scaling.eps)
        if scaling.eps and scaling.not_positive == "divide":
            place: EpsPlace
            for place in ("std", "variance", "floor_std", "floor_variance"):
                if place != scaling.eps_place:
                    out[f"{name} {place}"] = change(eps_place=place)
    if convention.baseline in ("group_mean", "leave_one_out"):
        out["baseline"] = replace(
            convention, baseline="leave_one_out" if convention.baseline == "group_mean" else "group_mean"
        )
    if convention.whiten == "tokens":
        out["whiten"] = replace(convention, whiten="rollouts")
    if convention.clip is not None:
        out["clip"] = replace(convention, clip=None)
    if convention.failed != "spreads":
        out["failed"] = replace(convention, failed="spreads", partial="spreads")
    return out


UNSEEN = {
    "openrlhf/group_norm": ["clip"],  # an advantage of 10 needs more than a hundred rollouts in a group, or float noise
    "nemo-rl/gdpo/True/True": ["baseline"],  # a factor G / (G - 1), which the whitening takes out again
    "nemo-rl/gdpo/True/False": ["baseline"],
    "prime-rl/grpo": ["failed"],  # rollouts with an error are gone before its function is called
    "prime-rl/max_rl": ["failed"],
}
"""Choices that cannot show, by convention."""


@pytest.mark.parametrize("setting", [s for s in BY_SETTING if "1.6.0" not in s and "0.22.0" not in s])
def test_every_choice_of_a_preset_shows_in_the_recorded_numbers(setting: str) -> None:
    """A wrong ddof, eps, place of the eps, baseline, clip or treatment of failures must not pass."""
    rows = BY_SETTING[setting]
    preset = find_preset(rows[0]["trainer"], rows[0]["version"], **rows[0]["options"])
    unseen = [
        name for name, wrong in broken(preset.convention).items()
        if not disagreements(replace(preset, convention=wrong), rows, by_reference)
    ]  # fmt: skip
    assert unseen == UNSEEN.get(preset.convention.name, []), unseen


def worked(rewards: list[float], trainer: str, asked: str | None = None, **options: Any) -> list[float]:
    found = reference(find_preset(trainer, asked, **options).convention, [rewards])
    return [round(float(v), 3) for v in found[0]]


def test_one_pass_in_four_by_trainer() -> None:
    one = [1.0, 0.0, 0.0, 0.0]
    assert worked(one, "trl") == [1.5, -0.5, -0.5, -0.5]
    assert worked(one, "verl") == [1.5, -0.5, -0.5, -0.5]
    assert worked(one, "openrlhf") == [1.5, -0.5, -0.5, -0.5]
    assert worked(one, "open-instruct", advantage_normalization_type="standard") == [1.732, -0.577, -0.577, -0.577]
    assert worked(one, "tinker") == worked(one, "prime-rl") == [0.75, -0.25, -0.25, -0.25]
    assert worked(one, "nemo-rl") == [1.0, -0.577, -0.577, -0.577]  # the others are all equal: the pass is undivided
    assert worked(one, "prime-rl", algorithm="max_rl") == [3.0, -1.0, -1.0, -1.0]
    assert worked(one, "verl", adv_estimator="grpo_passk") == [2.0, 0.0, 0.0, 0.0]
    assert worked([1.0, 1.0, 0.0, 0.5], "easyr1", adv_estimator="grpo_passk")[1:] == [1.0, 0.0, 0.5]


def test_two_releases_of_trl_swap_their_scales() -> None:
    one = [1.0, 0.0, 0.0, 0.0]
    for release in ("0.22", "0.22.0", "0.22.1"):
        assert worked(one, "trl", release) == [0.75, -0.25, -0.25, -0.25]
        assert worked(one, "trl", release, scale_rewards="none") == [1.5, -0.5, -0.5, -0.5]
    assert worked(one, "trl", "0.22.2") == worked(one, "trl", "0.21") == [1.5, -0.5, -0.5, -0.5]


def noise(trainer: str, asked: str | None, **options: Any) -> float:
    """Largest advantage that a trainer's code gave in groups of eight equal rewards, 0.3 or 0.7."""
    row = next(
        r for r in ALL_ROWS
        if (r["trainer"], r["version"], r["case"]) == (trainer, asked, "equal") and r["options"] == options
    )  # fmt: skip
    return float(np.abs(table(row["advantages"])).max())


def test_equal_rewards_get_advantages_in_single_precision() -> None:
    """What the page says about float noise: the eps alone decides."""
    assert noise("openrlhf", "0.11.2", advantage_estimator="group_norm") == 10.0
    assert 0.05 < noise("verl", "0.9.1", adv_estimator="grpo", norm_adv_by_std_in_grpo=True) < 0.06
    assert 5e-4 < noise("trl", "1.16.0", scale_rewards="group") < 7e-4
    assert 0.5 < noise("trl", "1.16.0", multi_objective_aggregation="normalize_then_sum") < 0.6
    assert noise("tinker", "0.6.1") < 1e-7


# Trainings of the installed TRL -------------------------------------------------------------------------------------

trained = pytest.mark.skipif(find_spec("trl") is None or find_spec("torch") is None, reason="TRL is not installed")


@pytest.fixture(scope="module")
def trainings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("advantages")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.trl.advantages", str(folder)], cwd=ROOT, capture_output=True,
        text=True, timeout=300, env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def completions(run: Path) -> list[tuple[Array, Array]]:
    """Rewards (N, 4, R) and advantages (N, 4) of each generation batch."""
    out = []
    for path in sorted((run / "completions").glob("*.parquet")):
        frame = pl.read_parquet(path)
        functions = [c for c in ("first", "second") if c in frame.columns]
        rewards = np.stack([frame[c].cast(pl.Float64).fill_null(np.nan).to_numpy() for c in functions], axis=-1)
        out.append((rewards.reshape(-1, 4, len(functions)), frame["advantage"].to_numpy().reshape(-1, 4)))
    return out


RUNS = {
    **{f"{scale}{n}": {"scale_rewards": scale} for scale in ("group", "batch", "none") for n in (1, 2)},
    "summed": {"multi_objective_aggregation": "sum_then_normalize"},
    "normalized": {"multi_objective_aggregation": "normalize_then_sum"},
    "normalized_all": {"multi_objective_aggregation": "normalize_then_sum"},
}


@trained
@pytest.mark.slow
@pytest.mark.parametrize("compute", ["reference", "package"])
@pytest.mark.parametrize("run", RUNS)
def test_trainings_of_trl_log_these_advantages(trainings: Path, run: str, compute: str) -> None:
    if compute == "package" and not hasattr(gp, "advantages"):
        pytest.skip("gp.advantages is not there yet")
    batches = completions(trainings / run)
    assert len(batches) == 2
    installed = version("trl")
    options: dict[str, Any] = dict(RUNS[run])
    preset = find_preset("trl", installed, **options)
    failed = 0
    for rewards, logged in batches:
        failed += int(np.isnan(rewards).all(axis=2).sum())
        case = {"rewards": rewards, "weights": [1.0, -0.5][: rewards.shape[2]], "lengths": None}
        if compute == "reference":
            found = by_reference(preset, case)
        else:
            found = np.asarray(
                gp.advantages(rewards, trainer="trl", version=installed, weights=case["weights"], **options)
            )
        scale = max(1.0, float(np.abs(logged).max()))
        assert np.abs(found - logged).max() <= 1e-5 * scale  # 5e-7 was seen
        assert np.abs(logged).max() > 0
    assert (failed > 0) == (run != "normalized_all")


# Choosing a preset --------------------------------------------------------------------------------------------------


def test_defaults_come_first() -> None:
    assert find_preset("trl").convention.scale == "group"
    assert find_preset("TRL", scale_rewards=True) is find_preset("trl", scale_rewards="group")
    assert find_preset("trl", scale_rewards=False) is find_preset("trl", scale_rewards="none")
    assert find_preset("verl").setting.startswith("adv_estimator=grpo")
    assert find_preset("verl", adv_estimator=None) is find_preset("verl")
    ignored = find_preset("trl", scale_rewards="batch", multi_objective_aggregation="normalize_then_sum")
    assert ignored.convention.combine == "normalize_then_sum"
    for name, of in FAMILY.items():
        assert find_preset(name) is find_preset(of)


@pytest.mark.parametrize(
    ("asked", "failed"),
    [("0.14", "spreads"), ("0.15.2", "spreads"), ("0.16", "as_zero"), ("1.5.9", "as_zero"), ("1.6", "left_out"),
     ("1.6.0", "left_out"), ("99", "left_out")],
)  # fmt: skip
def test_versions_of_trl(asked: str, failed: str) -> None:
    assert find_preset("trl", asked).convention.failed == failed


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        (("nope",), {}, "trainer must be one of trl, verl"),
        ((None,), {}, "trainer must be one of"),
        (("trl", "0.13"), {}, "trl 0.13 is older than what was read (0.14)"),
        (("trl", "banana"), {}, "version of trl must be like 1.16"),
        (("trl",), {"scale_rewards": "rank"}, "trl has no scale_rewards=rank; it has: "),
        (("trl", "0.18"), {"scale_rewards": "batch"}, "trl 0.18 has no scale_rewards=batch; it has: "),
        (("trl",), {"adv_estimator": "rloo"}, "trl has no setting 'adv_estimator' that changes advantages"),
        (("verl", "0.3"), {"adv_estimator": "gdpo"}, "verl 0.3 has no adv_estimator=gdpo"),
        (("tinker",), {"x": "y"}, "its settings: none"),
        (("unsloth", "2026.10"), {}, "ask for trainer 'trl' with the version of trl"),
    ],
)
def test_refusals_are_one_line(arguments: tuple[Any, ...], options: dict[str, Any], said: str) -> None:
    with pytest.raises(DomainError) as caught:
        find_preset(*arguments, **options)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_ranges_of_versions_neither_overlap_nor_leave_gaps() -> None:
    for trainer in preset_trainers():
        mine = [p for p in presets() if p.trainer == trainer]
        by_options: dict[Any, list[Preset]] = {}
        for preset in mine:
            by_options.setdefault(preset.options, []).append(preset)
        for same in by_options.values():
            ordered = sorted(same, key=lambda p: [int(x) for x in p.since.split(".")] if p.since else [])
            assert [p.until for p in ordered] == [*(p.since for p in ordered[1:]), None] or trainer == "trl"
        names = [p.convention.name for p in mine if p.until is None]
        assert len(set(names)) == len(names), trainer


# Conventions --------------------------------------------------------------------------------------------------------


@given(
    spread=st.floats(0, 1e6), eps=st.floats(1e-12, 1e3), place=st.sampled_from(["std", "variance", "floor_std"]),
)  # fmt: skip
def test_divisors_lie_above_the_spread(spread: float, eps: float, place: EpsPlace) -> None:
    divisor = Scaling(ddof=1, eps=eps, eps_place=place).divisor(spread)
    assert divisor > 0
    assert divisor >= spread * (1 - 1e-12)
    assert Scaling(ddof=0, eps=eps, eps_place=place).divisor(2 * spread + 1) >= divisor - 1e-9


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Scaling(ddof=2, eps=0.1), "ddof must be 0 (population) or 1 (sample); got 2"),
        (lambda: Scaling(ddof=1, eps=-1), "eps must be a finite number"),
        (lambda: Scaling(ddof=1, eps=float("nan")), "eps must be a finite number"),
        (lambda: Scaling(ddof=1, eps=1, eps_place="mean"), "eps_place must be one of std"),  # type: ignore[arg-type]
        (lambda: Scaling(ddof=1, eps=0).divisor(0), "the spread is 0 and no eps"),
        (lambda: Scaling(ddof=1, eps=0).divisor(-1), "at least 0; got -1"),
        (lambda: Scaling(ddof=1, eps=0).divisor(float("nan")), "at least 0; got nan"),
        (lambda: Convention(name="x", scale="group"), "scaling goes with scale"),
        (lambda: Convention(name="x", scaling=Scaling(ddof=1, eps=0)), "scaling goes with scale"),
        (lambda: Convention(name="x", whitening=Scaling(ddof=1, eps=0)), "whiten is none"),
        (lambda: Convention(name="x", clip=(1, 1)), "clip must be (low, high)"),
        (lambda: Convention(name="x", filter_tolerance=-1), "filter_tolerance must be at least 0"),
        (lambda: Convention(name="x", gain=float("inf")), "gain and offset must be finite"),
        (lambda: Convention(name="x", failed="hidden"), "failed must be one of left_out"),  # type: ignore[arg-type]
    ],
)
def test_conventions_are_checked(make: Callable[[], object], said: str) -> None:
    with pytest.raises(DomainError) as caught:
        make()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_a_convention_needs() -> None:
    assert find_preset("verl", adv_estimator="opo").convention.needs_lengths
    assert not find_preset("verl", adv_estimator="opo").convention.needs_batch
    assert find_preset("verl", adv_estimator="gpg").convention.needs_batch
    assert find_preset("trl", scale_rewards="batch").convention.needs_batch
    assert not find_preset("trl").convention.needs_batch


def test_the_page_is_the_table() -> None:
    assert trainer_table() in "".join(
        path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("advantages*"))
    )
    for preset in presets():
        assert "\n" not in preset.convention.words() + preset.note + preset.filters + preset.convention.dead_group
        assert preset.source.words().count(",") >= 2


@pytest.mark.parametrize("preset", presets(), ids=lambda p: p.convention.name + p.since)
def test_dead_groups_get_what_the_page_says(preset: Preset) -> None:
    """A mixed group, an all-pass and an all-fail group of unequal lengths."""
    rewards = [[1.0, 0.0, 0.0, 1.0], [1.0] * 4, [0.0] * 4]
    found = reference(preset.convention, rewards, lengths=[[4, 2, 1, 3], [3] * 4, [2] * 4])
    if preset.convention.dead_group.startswith("0 if") or preset.convention.dead_group == "0":
        assert np.abs(found[1:]).max() < 1e-12
    elif preset.convention.dead_group.startswith("near"):
        assert 1e-4 < np.abs(found[1:]).max() < 0.5
    elif preset.convention.dead_group.startswith("0 for one"):
        assert found[1].tolist() == [0.0, 1.0, 1.0, 1.0]
    else:
        assert np.abs(found[1:]).max() > 0.1
