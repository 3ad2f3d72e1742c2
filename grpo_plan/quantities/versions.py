"""Which versions of TRL can have written a log: as told by the source, its settings, and the names it uses."""

from __future__ import annotations

from packaging.version import InvalidVersion, Version

from grpo_plan.quantities.view import RunView

BATCH_STD_SINCE = Version("0.27.0")  # reward_std of the whole batch; before, the mean of the groups' own
FIRST, LAST = Version("0"), Version("9999")
SETTINGS_SINCE = {
    "multi_objective_aggregation": "0.27.0",
    "log_unique_prompts": "0.27.0",
    "num_generations_eval": "0.26.0",
}
METRICS_BEFORE = {"completion_length": "0.26.0"}  # long before; no version of the batch-wide kind logs it
METRICS_SINCE = {
    "vespo/phi_seq_mean": "1.0.0",
    "cispo_clip_ratio": "0.26.0",
    "frac_reward_zero_std": "0.18.0",
}


def version_range(view: RunView) -> tuple[Version, Version, str]:
    """Oldest version, first version that is too new, and what says so in words; an empty text if nothing does."""
    given = view.setting("trl_version", "trl.version")
    if given is not None:
        try:
            version = Version(str(given))
        except InvalidVersion:
            pass
        else:
            return version, version, f"TRL {version}"
    low, high, because = FIRST, LAST, ""
    least = view.setting("trl_version_at_least")
    if least is not None:
        low, because = Version(str(least)), f"the completions beside the log, which TRL writes since {least}"
    for name, since in SETTINGS_SINCE.items():
        if any(key == name or key.endswith(f".{name}") for key in view.config) and Version(since) > low:
            low, because = Version(since), f"the setting {name}, which TRL has since {since}"
    for name, since in METRICS_SINCE.items():
        if name in view and Version(since) > low:
            low, because = Version(since), f"the metric {name}, which TRL logs since {since}"
    for name, before in METRICS_BEFORE.items():
        if name in view and Version(before) < high:
            high, because = Version(before), f"the metric {name}, which only older versions of TRL log"
    return low, high, because
