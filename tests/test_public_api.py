"""The names, parameters and fields that users' scripts rely on."""

from __future__ import annotations

import dataclasses
import inspect

import pytest

import grpo_plan as gp

FUNCTIONS = {
    "mixed_probability": "pass_rate group_size",
    "dead_probability": "pass_rate group_size",
    "all_pass_probability": "pass_rate group_size",
    "all_fail_probability": "pass_rate group_size",
    "pass_at": "pass_rate group_size",
    "graded_dead_probability": "level_probabilities group_size",
    "rare_mode_miss_probability": "pass_rate mode_mass group_size",
    "expected_group_std": "pass_rate group_size",
    "expected_group_variance": "pass_rate group_size",
    "group_std_fidelity": "pass_rate group_size",
    "group_size_for_fidelity": "pass_rate fidelity max_group_size",
    "pass_at_k": "successes rollouts k",
    "pass_curve": "source ks level",
    "pass_tail": "fit octaves ks level",
    "compare_pass": "before after ks level margin",
    "plot_pass_curve": "source ax",
    "read_pilot": (
        "source prompt reward n k pass_rate fail_rate stratum temperature response_tokens policy pass_threshold "
        "rollouts_per_prompt where skip_malformed progress format reward_weights split policy_steps workers "
        "storage_options weak_prior prompt_count histogram groups_apart"
    ),
    "read_independence": (
        "source session text order level prompt reward n k pass_rate fail_rate stratum temperature response_tokens policy "
        "pass_threshold rollouts_per_prompt where skip_malformed progress format reward_weights split policy_steps "
        "workers storage_options weak_prior groups_apart"
    ),
    "read_groups": (
        "source reward rollouts_per_prompt where skip_malformed format reward_weights split policy_steps progress "
        "details pass_threshold"
    ),
    "read_run": "source run config group_size groups skip_malformed format progress reward pass_threshold",
    "check_independence": "successes rollouts level names",
    "check_sequences": "rewards level",
    "duplicate_rollouts": "prompt_ids texts",
    "simulate": "source estimator training model seeds seed every pass_at level shuffled progress",
    "compare_simulations": (
        "source estimators group_sizes learning_rates training model seeds seed measure every pass_at level shuffled "
        "progress"
    ),
    "fit_pass_rates": "pilot family population independence truncated dropped_groups removed",
    "compare_estimates": "fit group_sizes level",
    "identified_range": "frequencies functional",
    "plan_pilot": "prior target_group_size half_width level rollouts_per_prompt max_prompts max_rollouts",
    "effective_batch": "fit prompts_per_step group_size level",
    "effective_batch_of_list": "pass_rates group_size",
    "plan_group_size": (
        "fit budget objective estimator kappa max_dead group_sizes cost coherence level rules hard_below min_coverage "
        "rare_share"
    ),
    "solve_design": "budget cost content",
    "largest_group_size": "budget cost content_of maximum",
    "token_lengths": "pilot level",
    "read_throughput": "source step_time tokens rollouts_per_step level",
    "estimate_throughput": "seconds tokens steps counts_prompts level dropped gpus notes",
    "emit": "plan trainer version hardware temperature max_response_tokens refill estimator",
    "rules_for": "trainer hardware version",
    "nearest_design": "rules design",
    "plot_dead_fraction": "fit ax max_group_size level",
    "plot_pass_rates": "fit ax",
    "plot_frontier": "plan ax",
    "plot_effective_batch": "plan ax",
    "plan_mix": (
        "pilot group_size buckets correction objective estimator kappa max_kl floors caps prompts_per_step steps "
        "data_prompts pools max_epochs visits level seed"
    ),
    "effect_of_dropping": "fit group_size level visits",
    "allocate_rollouts": "pass_rates total_rollouts estimator low high",
    "hit_probability": "successes rollouts more prior",
    "rollouts_to_first_pass": "pass_rate probability",
    "plot_mix": "mix ax",
    "plot_refill": "fit ax prompts_per_step group_size max_rounds level",
    "refill": "fit prompts_per_step group_size batch_multiplier gen_batch_size max_rounds steps data_prompts level",
    "adaptive_sampling": "fit max_group_size round_size passes fails level",
    "compare_remedies": (
        "fit group_size kappa coherence prompts_per_step estimators reference group_sizes hint variants variant_spread level"
    ),
    "plot_remedies": "comparison ax estimators",
    "compare_sampling": "fit plan max_group_size round_size",
    "plan_temperature": "pilot group_size baseline objective level smallest_difference power",
    "compare_dead_counts": "counts baseline level",
    "plot_temperature": "plan ax",
    "measure_kappa": "squared_norms_by_group_size rewards fit mean_gradient_square level resamples seed",
    "GradientProbe": "model subgroup_sizes sketch_size seed",
    "probe_trainer": "trainer prompts rollouts subgroup_sizes sketch_size fit level seed",
    "kappa_callback": "trainer path options",
    "diagnose": "run plan settings remedies",
    "composition_bounds": "mean dead group_size group_std std rounding",
    "recover": "mean group_size dead all_pass all_fail group_std std groups level",
    "recover_steps": "mean dead group_size sizes groups level",
    "forecast": "steps values limit groups horizon_steps level below",
    "plot_composition": "run ax",
    "plot_dead_against_plan": "run ax",
    "plot_effective_batch_over_steps": "run ax",
    "follow_run": "source poll_s stop sleep options",
    "token_weights": "lengths aggregation trainer mask max_tokens prompts",
    "split_weights": "lengths split aggregation trainer max_tokens prompts",
    "get_aggregation": "name trainer",
    "length_bias": "rollouts aggregations estimator level",
    "rollout_advantages": "rollouts estimator",
    "split_errors": "rollouts aggregations micro_batch ranks prompts_per_step max_tokens steps seed",
    "read_rollouts": (
        "source prompt reward n k pass_rate fail_rate stratum temperature response_tokens policy pass_threshold "
        "rollouts_per_prompt where skip_malformed progress format reward_weights split policy_steps workers "
        "storage_options weak_prior prompt_count groups_apart"
    ),
    "advantages": (
        "rewards estimator std eps trainer version weights tolerance pass_threshold convention lengths parameters"
    ),
    "amplification": "rewards estimator tolerance choices",
}
RECORDS = {
    "DeadFraction": "group_size value level all_pass all_fail iid plug_in method prompts_used simultaneous",
    "Estimate": "name value level",
    "PassComparison": (
        "verdict reason before after differences crossing turnover paired prompts only_before only_after level margin "
        "notes assumptions"
    ),
    "PassCurve": "points level counted_k fit",
    "PassTail": "status exponent low high floor floor_low floor_high never_high likelihood_ratio reason local level",
    "Pilot": (
        "successes rollouts prompt_id stratum temperature response_tokens pass_tokens fail_tokens dropped notes provenance "
        "prompt_count"
    ),
    "GroupLog": (
        "step prompt_id rollouts scored reward_min reward_max reward_mean dropped notes provenance pass_threshold passes "
        "truncated distinct distinct_rewards reward_var response_tokens measured"
    ),
    "RunLog": (
        "steps metrics format source tool eval_steps eval_metrics group_size config groups dropped notes pass_threshold"
    ),
    "Quantity": "name values metrics stage cumulative notes",
    "Absent": "name cause reason metrics lower upper",
    "IndependenceCheck": (
        "verdict level prompts mixed_prompts correlation low high correlation_z correlation_p design_effect "
        "effective_rollouts drift_chi2 drift_degrees drift_p drift_inflation shifts names"
    ),
    "SequenceCheck": "verdict level prompts mixed_prompts neighbour_correlation low high neighbour_z neighbour_p design_effect halves",
    "DuplicateCheck": "rollouts repeats prompts prompts_with_repeats distinct unknown",
    "IndependenceReport": "pilot sessions sequence duplicates notes",
    "Budget": "rollouts tokens gpu_hours usd steps prompts_per_step rollouts_per_step",
    "Cost": (
        "groups trained_groups rollouts rollout_equivalents prefilled_tokens generated_tokens trained_tokens seconds "
        "gpu_hours usd missing"
    ),
    "CostModel": (
        "prompt_rollouts prompt_tokens pass_tokens fail_tokens prefill_tokens_per_s decode_tokens_per_s "
        "train_tokens_per_s job_tokens_per_s job_counts_prompts reward_s reward_parallel step_overhead_s refill trained "
        "gpus usd_per_gpu_hour"
    ),
    "Design": "group_size prompts_per_step steps",
    "GroupContent": "group_size passes mixed_fraction mixed_passes mixed_low mixed_high",
    "SolvedDesign": "design cost cost_low cost_high binding shortfalls largest_steps largest_prompts_per_step advice",
    "Throughput": (
        "tokens_per_s tokens_per_s_low tokens_per_s_high step_overhead_s step_overhead_low_s step_overhead_high_s "
        "counts_prompts level steps_used rows_used dropped gpus notes"
    ),
    "TokenLengths": "pass_tokens pass_low pass_high fail_tokens fail_low fail_high level status",
    "KappaRange": "low high value",
    "Plan": (
        "objective recommended pick least_regret frontier alternatives flat_range sensitivity kappa estimator coherence "
        "cost_model binding_constraint per_cost refused assumptions trainer fit"
    ),
    "Hardware": "gpus micro_batch",
    "Refilling": "batch_multiplier max_rounds",
    "Block": "trainer versions language text settings checks notes",
    "NearestDesigns": "within above other_group_size",
    "EffectiveBatch": "prompts_per_step group_size dead_fraction mixed_groups live_rollouts dead_batch_probability dead",
    "Mix": (
        "objective estimator group_size prompts_per_step steps kappa best_at_kappa method strata kl max_kl binding gains worst_regret "
        "optimism frontier corner dead_before dead_after dropping seed replicates level assumptions fit"
    ),
    "Dropping": "group_size visits prompts never always rest rest_dead naive_dead lost",
    "Allocation": "estimator rollouts relaxed multiplier objective uniform_objective mixed_groups uniform_mixed_groups warning",
    "Refill": (
        "prompts_per_step group_size gen_batch_size max_rounds steps data_prompts status dead at_value at_low at_high "
        "surplus_limits"
    ),
    "RefillAt": (
        "dead_fraction mixed_prompts one_by_one rounds prompts rollouts mixed_groups surplus_mixed_groups "
        "cap_probability run_cap_probability safe_max_rounds one_round_gen_batch_size capped_gen_batch_size "
        "rounds_to_fill steps_per_pass"
    ),
    "AdaptiveSampling": "max_group_size round_size passes fails level rollouts_per_prompt unmet_fraction rollouts_per_kept_prompt status",
    "SamplingCost": "scheme group_size round_size rollouts_per_prompt dropped_fraction rollouts_per_group status",
    "Hint": "odds gain share when tries",
    "RemedyComparison": (
        "group_size reference level kappa coherence prompts_per_step dead estimators sampling verdict elsewhere claims "
        "assumptions fit"
    ),
    "EstimatorEffect": (
        "name description objective source same_plan_as refused live live_by_kind all_fail_advantage all_pass_advantage "
        "signal noise signal_by_kind noise_by_kind progress turn effect"
    ),
    "SamplingEffect": (
        "name group_size rollouts dead all_fail all_pass rollouts_per_mixed mixed_per_step progress turn effect status "
        "comment command"
    ),
    "TemperaturePlan": "group_size objective baseline level verdict recommended reason temperatures differences notes assumptions",
    "DeadCountComparison": "baseline level verdict recommended counts differences assumptions",
    "KappaMeasurement": "group_sizes squared_norms passes scored pilot_moments mean_gradient_square level resamples seed notes",
    "Diagnosis": "verdict findings skipped clear facts",
    "Finding": "id severity says onset_step evidence remedy reference waste remedies",
    "Remedy": "action expected price numbers",
    "Waste": "rollouts rollouts_low rollouts_high gpu_hours usd steps missing beyond",
    "Expectation": "group_size by_group_size mean_pass_rate source",
    "DiagnosisSettings": "group_size prompts_per_step dead_threshold sustain_rows late_share late_rows false_alarm level gpus usd_per_gpu_hour kl_coefficient max_generation_batches",
    "Recovered": "group_size known groups level beta status inflation misfit",
    "RecoveredShare": "name group_size value low high status",
    "RecoveredSteps": "group_size sizes value low high correlation status level",
    "Forecast": "status limit direction horizon_steps level rows chance crossing crossing_low crossing_high steps mid low high",
    "Advantages": ("values rewards present kinds estimator trainer convention description tolerance notes"),
    "Amplification": (
        "advantages amplifies spreads weights half_gap full_gap smallest_gap tolerance rounding proposed reason"
    ),
    "Convention": (
        "name combine partial baseline scale scaling clip clip_of whiten whiten_centre whitening single failed "
        "filter_tolerance gain offset"
    ),
    "Scaling": "ddof eps eps_place not_positive",
    "Alert": "step id severity says remedy new onset_step",
    "SimulatedPolicy": "prompts held_out shared coherence dimension kappa harmful damage end_logit",
    "SimulatedTraining": (
        "group_size rollouts_per_step steps learning_rate optimizer warmup_steps kl_coefficient max_gradient_norm sampling "
        "refill max_rounds budget_rollouts"
    ),
    "Curriculum": "low high outside by weight",
    "Simulation": (
        "estimator training model seeds steps pass_at train held_out train_pass_at held_out_pass_at train_logit "
        "held_out_logit drift_cost kl mean_failure turned turned_back dead_now noise_to_signal direction dead all_fail all_pass mixed "
        "dead_expected gradient_norm cosine steps_done generated_groups generated_rollouts trained_groups "
        "trained_rollouts empty_steps off_band_draws shuffled level statuses"
    ),
    "SimulationComparison": "runs measure level tuning_seeds notes left_out",
    "Aggregation": (
        "trainer option setting per over reduction constant constant_is_width none_is_zero version source evidence note"
    ),
    "TokenWeights": "aggregation values lengths mask constant note",
    "BatchSplit": "rank micro",
    "SplitWeights": "values intended split",
    "LengthBias": (
        "rows rollouts estimator level prompts counted unknown empty kinds mean_tokens median_tokens decile_tokens longest_tokens lengths"
    ),
    "WeightShares": (
        "aggregation long longest wrong failed mixed all_pass all_fail unscored gradient_long gradient_longest "
        "gradient_wrong net pull"
    ),
    "SplitError": (
        "aggregation misplaced misplaced_low misplaced_high largest_ratio smallest_ratio total_low total_high"
    ),
    "SplitErrors": "rows steps groups_per_step responses micro_batch ranks seed",
    "Rollouts": "group cluster scored passed tokens lengths dropped notes rewards advantages step format counts",
}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_parameters(name: str) -> None:
    assert list(inspect.signature(getattr(gp, name)).parameters) == FUNCTIONS[name].split()


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_fields(name: str) -> None:
    record = getattr(gp, name)
    assert [f.name for f in dataclasses.fields(record) if not f.name.startswith("_")] == RECORDS[name].split()
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(object.__new__(record), RECORDS[name].split()[0], 1)


def test_every_public_name_is_there_and_documented() -> None:
    assert sorted(set(gp.__all__) - {"__version__"}) == sorted(gp._PUBLIC)
    for name in gp._PUBLIC:
        assert inspect.getdoc(getattr(gp, name)), name
    assert set(dir(gp)) >= set(gp.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        gp.nope  # noqa: B018


def test_errors_refine_builtins_and_carry_exit_codes() -> None:
    for error, builtin, code in (
        (gp.DomainError, ValueError, 2),
        (gp.PilotFormatError, ValueError, 1),
        (gp.PilotError, ValueError, 1),
        (gp.PlanFormatError, ValueError, 1),
        (gp.InfeasiblePlanError, ValueError, 3),
        (gp.FitError, RuntimeError, 1),
        (gp.MissingExtraError, ImportError, 1),
    ):
        assert issubclass(error, gp.GrpoPlanError)
        assert issubclass(error, builtin)
        assert error.exit_code == code
