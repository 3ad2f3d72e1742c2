"""Which window of a run says more, how grave a share is, and from which step on it shows."""

from __future__ import annotations

from grpo_plan.runs.clustered import Clusters
from grpo_plan.runs.finding import Severity
from grpo_plan.runs.sequential import onset
from grpo_plan.runs.series import Share

FROM_START = 0.05  # share of the rows
CLUSTERED = "limits of docs/theory.md, eq. 94"


def graver(whole: Share, late: Share) -> tuple[Share, bool]:
    """The window that says more by its lower limit, and whether it is the late one."""
    return (late, True) if late.low > whole.low else (whole, False)


def severity_by(low: float, info: float, warning: float, critical: float) -> Severity | None:
    """How grave a lower limit is; None if it is below all thresholds.

    >>> severity_by(0.02, 0.01, 0.05, 0.5).value, severity_by(0.01, 0.01, 0.05, 0.5)
    ('info', None)
    """
    for limit, severity in ((critical, Severity.CRITICAL), (warning, Severity.WARNING), (info, Severity.INFO)):
        if low > limit:
            return severity
    return None


def onset_of(clusters: Clusters, limit: float, alpha: float) -> tuple[int | None, bool]:
    """First step of a stretch beyond a share, by a test that allows for clusters; and whether it is the start."""
    found = onset(clusters.shares, limit, alpha=alpha) if clusters.steps.size else None
    if found is None or clusters.steps[found.row] < 0:
        return None, False
    return int(clusters.steps[found.row]), found.earliest <= max(1, int(FROM_START * clusters.steps.size))
