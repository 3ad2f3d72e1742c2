"""Which public name is explained on which page of the API reference. A test holds it against ``grpo_plan.__all__``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Group:
    """One page of the reference.

    Attributes:
        slug: Its file, ``docs/api/SLUG.md``.
        title: Its heading.
        about: One or two sentences on what its names are for.
        names: Names of ``grpo_plan`` in the order of the page: functions first, then what they take and return.
    """

    slug: str
    title: str
    about: str
    names: tuple[str, ...]


GROUPS = (
    Group(
        "one-group",
        "One group",
        "Closed forms for a prompt whose pass rate is known. Arrays in, arrays out.",
        (
            "mixed_probability", "dead_probability", "all_pass_probability", "all_fail_probability", "pass_at",
            "graded_dead_probability", "rare_mode_miss_probability", "expected_group_variance", "expected_group_std",
            "group_std_fidelity", "group_size_for_fidelity",
        ),
    ),
    Group(
        "pilot-and-fit",
        "Pilot and fit",
        "From rollouts to the dead fraction with its limits.",
        (
            "read_pilot", "fit_pass_rates", "compare_estimates", "identified_range", "Pilot", "PassRateFit",
            "DeadFraction", "Estimate", "Comparison", "FitStatus",
        ),
    ),
    Group(
        "independence",
        "Checks of a pilot",
        "Are the rollouts of a prompt independent? Everything else takes that for granted.",
        (
            "read_independence", "check_independence", "check_sequences", "duplicate_rollouts", "IndependenceReport",
            "IndependenceCheck", "IndependenceVerdict", "SequenceCheck", "DuplicateCheck",
        ),
    ),
    Group(
        "planning",
        "Planning a group size",
        "From a fit and a budget to a design, with what the choice rests on.",
        (
            "plan_group_size", "effective_batch", "effective_batch_of_list", "solve_design", "largest_group_size",
            "measure_kappa", "Plan", "Budget", "Design", "SolvedDesign", "EffectiveBatch", "KappaRange",
            "KappaMeasurement",
        ),
    ),
    Group(
        "costs",
        "Costs",
        "What groups, steps and runs use in tokens, GPU-hours and dollars.",
        (
            "token_lengths", "read_throughput", "estimate_throughput", "CostModel", "Cost", "GroupContent",
            "TokenLengths", "LengthStatus", "Throughput",
        ),
    ),
    Group(
        "refill",
        "Refill and adaptive sampling",
        "What it takes to replace dead groups, or to stop a prompt once it is mixed.",
        (
            "refill", "compare_sampling", "adaptive_sampling", "Refill", "RefillAt", "RefillStatus", "SamplingCost",
            "AdaptiveSampling",
        ),
    ),
    Group(
        "temperature",
        "Temperature",
        "Sampling temperatures compared on the same prompts.",
        (
            "plan_temperature", "compare_dead_counts", "TemperaturePlan", "TemperatureVerdict", "DeadCountComparison",
        ),
    ),
    Group(
        "mix",
        "Mix, dropping and allocation",
        "Which prompts, how often, with how many rollouts each.",
        (
            "plan_mix", "effect_of_dropping", "allocate_rollouts", "hit_probability", "rollouts_to_first_pass", "Mix",
            "Dropping", "Allocation",
        ),
    ),
    Group(
        "pilot-size",
        "Pilot size",
        "How many prompts and rollouts a pilot needs to answer.",
        ("plan_pilot", "PilotPlan", "PilotSize"),
    ),
    Group(
        "runs",
        "Runs and diagnosis",
        "Read the log of a run, hold it against its plan, and watch it.",
        (
            "read_run", "diagnose", "follow_run", "forecast", "recover", "recover_steps", "composition_bounds",
            "read_groups", "RunLog", "Diagnosis", "DiagnosisSettings", "Finding", "Severity", "Remedy", "Waste",
            "Expectation", "Monitor", "Alert", "RunFollower", "Forecast", "ForecastStatus", "Recovered",
            "RecoveredShare", "RecoveredSteps", "RecoveryStatus", "CompositionBounds", "GroupLog", "Quantity",
            "Absent",
        ),
    ),
    Group(
        "estimators",
        "Estimators",
        "From the rewards of a group to its advantages, as each trainer computes them.",
        ("advantages", "amplification", "Advantages", "Convention", "Scaling", "Amplification"),
    ),
    Group(
        "losses",
        "Losses",
        "What each token weighs in the loss of a batch, and what splitting it changes.",
        (
            "token_weights", "aggregations", "get_aggregation", "length_bias", "rollout_advantages", "split_weights",
            "split_errors", "read_rollouts", "TokenWeights", "Aggregation", "LengthBias", "WeightShares", "BatchSplit",
            "SplitWeights", "SplitError", "SplitErrors", "Rollouts", "RolloutLengths",
        ),
    ),
    Group(
        "remedies",
        "Remedies",
        "What other estimators, refill, other group sizes or hints would do on a pilot.",
        ("compare_remedies", "RemedyComparison", "EstimatorEffect", "SamplingEffect", "Hint", "Effect"),
    ),
    Group(
        "passk",
        "pass@k",
        "What k tries reach, of one policy or of two.",
        (
            "pass_curve", "compare_pass", "pass_tail", "pass_at_k", "PassCurve", "PassComparison", "PassVerdict",
            "PassTail", "TailStatus",
        ),
    ),
    Group(
        "simulation",
        "Simulation",
        "Training of a policy with one logit a prompt.",
        (
            "simulate", "compare_simulations", "SimulatedPolicy", "SimulatedTraining", "Curriculum", "Simulation",
            "SimulationComparison",
        ),
    ),
    Group(
        "report",
        "Report",
        "Every answer to a pilot, a run, or both, as one page (docs/report.md).",
        ("build_report", "Report"),
    ),
    Group(
        "plots",
        "Plots",
        "Each takes a result and matplotlib axes, and returns the axes.",
        (
            "plot", "plot_dead_fraction", "plot_pass_rates", "plot_frontier", "plot_effective_batch", "plot_refill",
            "plot_temperature", "plot_mix", "plot_pass_curve", "plot_remedies", "plot_composition",
            "plot_dead_against_plan", "plot_effective_batch_over_steps",
        ),
    ),
    Group(
        "trainers",
        "Trainers",
        "A design as the configuration of a trainer, checked against its rules.",
        ("emit", "nearest_design", "rules_for", "Block", "Hardware", "Refilling", "NearestDesigns"),
    ),
    Group(
        "probe",
        "Probe",
        "Measure kappa on a model of your own. These need PyTorch; the callback and the trainer form need TRL.",
        ("GradientProbe", "probe_trainer", "kappa_callback"),
    ),
    Group(
        "errors",
        "Errors and version",
        "Every error that is raised on purpose has one line that can be printed, and one base.",
        (
            "GrpoPlanError", "DomainError", "PilotError", "PilotFormatError", "PlanFormatError", "FitError",
            "InfeasiblePlanError", "MissingExtraError", "__version__",
        ),
    ),
)  # fmt: skip
