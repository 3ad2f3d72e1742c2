"""Pilot size: the half-width is reached, the rule n = G or G/2, refusals, and what a pilot could tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from grpo_plan.errors import DomainError, InfeasiblePlanError, PilotError
from grpo_plan.fitting import PassRateFit, fit_pass_rates
from grpo_plan.fitting.comparison import compare_estimates
from grpo_plan.passrates import BetaPassRates
from grpo_plan.pilot import Pilot
from grpo_plan.planning.pilot_size import advice, expected_limits, on_grid, plan_pilot
from tests.conftest import pilot_of
from tests.test_cli import Run, document, run  # noqa: F401

pytestmark = pytest.mark.usefixtures("equal_pilots_share")


def test_the_half_width_is_reached_and_no_more_prompts_are_asked_for() -> None:
    plan = plan_pilot((0.3, 0.3), target_group_size=16, half_width=0.04)
    rates = on_grid(BetaPassRates.from_shape(0.3, 0.3))
    assert plan.expected_dead == pytest.approx(float(BetaPassRates.from_shape(0.3, 0.3).dead(16)), rel=1e-6)
    for option in plan.options:
        if option.prompts is None:
            assert not option.settles
            assert option.rollouts is None
            assert option.high - option.low > 0.08
            continue
        assert option.rollouts == option.prompts * option.rollouts_per_prompt
        for prompts, enough in ((option.prompts, True), (round(0.97 * option.prompts), False)):
            low, high = expected_limits(rates, prompts, option.rollouts_per_prompt, 16, 0.95)
            assert (high - low <= 0.08) == enough
    assert plan.recommended.rollouts == min(o.rollouts for o in plan.options if o.rollouts is not None)


def test_at_n_equal_g_it_is_the_textbook_size_of_a_share() -> None:
    """M = D(1-D)(z/h)^2, within 3 %."""
    for g in (4, 16):
        plan = plan_pilot((0.3, 0.3), target_group_size=g, half_width=0.02, rollouts_per_prompt=[g])
        d = plan.expected_dead
        assert plan.recommended.prompts == pytest.approx(d * (1 - d) * (norm.ppf(0.975) / 0.02) ** 2, rel=0.03)


def test_the_rule_n_is_g_or_half_of_it() -> None:
    for shape in ((0.3, 0.3), (0.35, 0.7), (1.0, 1.0)):
        for g in (8, 16, 32):
            plan = plan_pilot(shape, target_group_size=g, half_width=0.05)
            assert plan.recommended.rollouts_per_prompt in (g // 2, g), (shape, g)
            quarter = next(o for o in plan.options if o.rollouts_per_prompt == g // 4)
            assert quarter.rollouts is None or quarter.rollouts > 1.5 * (plan.recommended.rollouts or 0)


def test_what_a_pilot_of_that_size_gets() -> None:
    """40 pilots of the recommended size: the widths of their intervals average the wanted one within 5 %."""
    rng = np.random.default_rng(4)
    plan = plan_pilot((0.3, 0.3), target_group_size=16, half_width=0.05)
    best = plan.recommended
    assert best.prompts is not None
    n = best.rollouts_per_prompt
    widths = []
    for _ in range(40):
        d = fit_pass_rates(Pilot.from_counts(rng.binomial(n, rng.beta(0.3, 0.3, best.prompts)), n)).dead(16)
        widths.append(d.high - d.low)
    assert np.mean(widths) == pytest.approx(0.1, rel=0.05)


def test_a_first_pilot_is_a_prior(example_fit: PassRateFit) -> None:
    plan = plan_pilot(example_fit, target_group_size=16, half_width=0.04)
    assert plan.prior == "as in the first pilot of 1,209 prompts"
    assert plan.expected_dead == pytest.approx(0.333, abs=2e-3)
    again = plan_pilot(example_fit.beta.rates, target_group_size=16, half_width=0.04)
    assert again.recommended.rollouts == pytest.approx(plan.recommended.rollouts, rel=0.05)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"prior": (0.3, 0.3), "target_group_size": 1}, DomainError, "target_group_size must be from 2"),
        ({"prior": (0.3, 0.3), "target_group_size": 8, "half_width": 5}, DomainError, "half_width must be below 0.5"),
        ({"prior": (0.3,), "target_group_size": 8}, DomainError, "prior must be a fit, a Beta"),
        ({"prior": (-1, 2), "target_group_size": 8}, DomainError, "a must be"),
        (
            {"prior": (0.3, 0.3), "target_group_size": 32, "rollouts_per_prompt": [2, 4]},
            InfeasiblePlanError,
            r"No pilot with 2, 4 rollouts per prompt reaches a half-width of 0.03 at G = 32. The narrowest has 0.15",
        ),
        ({"prior": (0.3, 0.3), "target_group_size": 8, "max_prompts": 30}, InfeasiblePlanError, "at most 30 prompts"),
        ({"prior": (0.3, 0.3), "target_group_size": 8, "rollouts_per_prompt": []}, DomainError, "rollouts_per_prompt"),
    ],
)
def test_refusals(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        plan_pilot(arguments.pop("prior"), **arguments)


def test_a_pilot_without_a_mixed_prompt_is_no_prior() -> None:
    with pytest.raises(PilotError, match="cannot serve as a prior"):
        plan_pilot(fit_pass_rates(pilot_of((100, 0, 0))), target_group_size=8)


def test_advice_names_a_pilot_that_could_tell() -> None:
    fit = fit_pass_rates(pilot_of((1792, 417, 282, 255, 454)))
    assert advice(fit, 4) is None
    assert advice(fit, 8) is None
    text = advice(fit, 64)
    assert text is not None
    assert text.startswith(
        "This pilot (n = 4) cannot tell D(64): between 0.04 and 0.59; 32 rollouts per prompt, with as many"
    )
    low, high = (float(word) for word in text.rstrip(".").split("about ")[1].split(" to "))
    d = fit.dead(64)
    assert low < (d.value or 0) < high
    assert high - low <= 0.1 + 1e-9
    assert advice(fit_pass_rates(pilot_of((60, 0, 0, 0, 40))), 64) == (
        "This pilot (n = 4) cannot tell D(64): between 0.55 and 1.00."
    )


# --- the usual estimates side by side -------------------------------------------------------------------------------


def test_signs_of_the_errors_of_the_usual_estimates(example_fit: PassRateFit) -> None:
    for row in compare_estimates(example_fit, [2, 4, 8, 16, 64]):
        d = row.default
        assert d.value is not None
        assert row.iid < d.value < row.plug_in
        assert (row.u_statistic is None) == (row.group_size > 8)
        if row.u_statistic is not None:
            assert row.u_statistic == d.value


def test_jeffreys_is_the_posterior_mean() -> None:
    from scipy.integrate import quad
    from scipy.stats import beta

    pilot = Pilot.from_counts([0, 3, 8], 8)
    expected = np.mean(
        [quad(lambda p, k=k: beta(k + 0.5, 8.5 - k).pdf(p) * (p**5 + (1 - p) ** 5), 0, 1)[0] for k in (0, 3, 8)]
    )
    assert compare_estimates(fit_pass_rates(pilot), [5])[0].jeffreys == pytest.approx(expected, rel=1e-6)


# --- commands -------------------------------------------------------------------------------------------------------


def test_pilot_size_command(run: Run, example_file: Path) -> None:  # noqa: F811
    body = document(run("pilot-size", example_file, "--group-size", 16, "--half-width", 0.03, "--json"))
    best = body["recommended"]
    assert best["rollouts_per_prompt"] in (8, 16)
    assert best["rollouts"] == best["prompts"] * best["rollouts_per_prompt"]
    assert {o["rollouts_per_prompt"]: o["settles"] for o in body["options"]} == {
        2: False, 4: False, 8: True, 16: True, 32: True,
    }  # fmt: skip
    text = run(
        "pilot-size", "--beta", "0.3,0.3", "--group-size", 32, "--half-width", 0.05, "--max-prompts", "1,000"
    ).out
    assert "with all allowed" in text
    assert "open for ever" in text
    assert max(map(len, text.splitlines())) <= 80
    assert run("pilot-size").code == 2
    assert run("pilot-size", example_file, "--beta", "1,1").code == 2
    assert "two numbers with a comma" in run("pilot-size", "--beta", "1").err
    assert run("pilot-size", "--beta", "0.3,0.3", "--max-prompts", 20).code == 3
    few = document(run("pilot-size", "--beta", "0.3,0.3", "--max-rollouts", "9e3", "--half-width", 0.06, "--json"))
    assert few["recommended"]["rollouts"] <= 9000
    assert all(o["rollouts"] is None or o["rollouts"] <= 9000 for o in few["options"])
    assert "The narrowest has" in run("pilot-size", "--beta", "0.3,0.3", "--max-rollouts", "1e3").err


def test_compare_command(run: Run, example_file: Path) -> None:  # noqa: F811
    body = document(run("fit", example_file, "--compare", "--json"))["compare"]
    assert [row["group_size"] for row in body["rows"]] == [2, 4, 8, 16, 32, 64]
    assert body["rows"][2]["u_statistic"] == body["rows"][2]["default"]
    assert body["rows"][3]["u_statistic"] is None
    assert set(body["errors"]) == {"iid", "plug_in", "jeffreys", "beta", "u_statistic", "default"}
    assert "too high on average for every F" in " ".join(run("fit", example_file, "--compare").out.split())


def test_population_and_band_options(run: Run, example_file: Path) -> None:  # noqa: F811
    widths = {}
    for option in ("sample", "census", "5000"):
        row = document(run("fit", example_file, "--population", option, "--group-sizes", 8, "--json"))["dead"][0]
        widths[option] = row["high"] - row["low"]
    assert widths["census"] < widths["5000"] < widths["sample"]
    band = document(run("fit", example_file, "--simultaneous", "--group-sizes", 8, "--json"))["dead"][0]
    assert band["high"] - band["low"] > widths["sample"]
    assert band["simultaneous"] is True
    assert "exactly these prompts (census)" in " ".join(run("fit", example_file, "--population", "census").out.split())
    bad = run("fit", example_file, "--population", "12")
    assert (bad.code, "at least the pilot's 1,209 prompts" in bad.err) == (2, True)


def test_independence_options(run: Run, example_file: Path) -> None:  # noqa: F811
    body = document(run("fit", example_file, "--check-order", "--group-sizes", 8, "--json"))["independence"]
    assert body["verdict"] == "INDEPENDENT"
    assert abs(body["order"]["neighbour_correlation"]) < 0.05
    assert body["sessions"]["effective_rollouts"] == pytest.approx(8, abs=0.5)
    assert "No sign that the rollouts" in " ".join(run("fit", example_file, "--check-order").out.split())
    rows = ["prompt,seed,text,reward"]
    rng = np.random.default_rng(1)
    for prompt in range(200):
        for seed in range(2):
            outcome = int(rng.random() < 0.5)
            rows += [f"{prompt},{seed},answer {outcome},{outcome}"] * 4  # one rollout of a seed, four times
    Path("cached.csv").write_text("\n".join(rows))
    answer = document(run("fit", "cached.csv", "--session-column", "seed", "--text-column", "text", "--json"))
    assert answer["independence"]["verdict"] == "CORRELATED"
    assert answer["independence"]["sessions"]["design_effect"] > 3
    assert answer["independence"]["duplicates"]["repeats"] > 1000
    both = run("fit", "cached.csv", "--session-column", "seed", "--check-order")
    assert (both.code, "exclude each other" in both.err) == (2, True)
    assert run("fit", "cached.csv", "--session-column", "nope").code == 1
