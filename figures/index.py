"""The pictures of README and docs beside those of the gallery: page, script and data of each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# Picture -> page that shows it, script that makes it, files with its data; all but the page are of this folder.
FIGURES: Mapping[str, tuple[str, str, tuple[str, ...]]] = MappingProxyType(
    {
        "dead_fraction.svg": ("README", "dead_fraction", ("dead_fraction.csv",)),
        "plan.svg": ("choosing", "plan", ("plan.csv",)),
        "refill.svg": ("choosing", "refill", ("refill.csv",)),
        "run.svg": ("diagnosis", "run", ("run.csv",)),
        "passk.svg": ("passk", "passk_picture", ("passk_picture.csv",)),
        "learning.svg": ("simulation", "learning_plot", ("learning.csv",)),
        "validation_outcome.svg": (
            "validation",
            "validation_plot",
            ("validation/results/runs.parquet", "validation/results/gradients.json"),
        ),
        "learning_sizes.svg": ("simulation", "learning_plot", ("learning.csv", "learning_plan.csv")),
    }
)
