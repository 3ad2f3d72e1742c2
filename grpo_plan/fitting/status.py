"""What a fit or one of its numbers can and cannot say: an enum whose members hold a sentence."""

from __future__ import annotations

from enum import Enum

LOOKS = ("LOOKS_FILTERED", "LOOKS_SELECTED", "SELECTED")


class FitStatus(Enum):
    """Status of a fit, or of one dead fraction. The value is the sentence shown to the user."""

    DEPENDENT = (
        "Rollouts of a prompt depend on each other or on when they were drawn (see the check): the numbers describe "
        "this log, not groups drawn anew. Remove repeats and cached answers, or roll out again, before planning."
    )
    TRUNCATED = (
        "Only groups with mixed rewards were kept. Prompts that never or always pass leave no trace in them, so "
        "nothing keeps D(G) below 1, and the value assumes a smooth mix of pass rates without such prompts. The number "
        "of dropped groups closes the interval (--dropped-groups)."
    )
    DROPPED_COUNT_DOUBTFUL = (
        "The mixed groups lie so close to all-pass and all-fail that more dead groups must have been dropped than the "
        "number given: check it."
    )
    LOOKS_FILTERED = (
        "No prompt is all-pass or all-fail, though many are one rollout away from it. If nothing was left out, that is "
        "next to impossible, so D(G) is probably too low. If dead groups were dropped before this source was written, "
        "fit it with --truncated, best with --dropped-groups N (0: all are there); if prompts were removed for good by "
        "their count, with --removed dead."
    )
    SELECTED = (
        "Prompts were removed by their own count, so the counts of the others are biased. Every number is of the "
        "prompts that were kept, rolled out anew: the interval allows for any pass rates of theirs, the value in it "
        "rests on a smooth mix."
    )
    LOOKS_SELECTED = (
        "One kind of dead prompt (all-pass or all-fail) is missing, though many prompts are one rollout away from it. "
        "If nothing was left out, that is next to impossible, so D(G) is probably too low. If prompts were removed by "
        "their count, fit with --removed all-pass (or all-fail)."
    )
    WEAK_PRIOR = (
        "These are pass rates of another model (see the notes): every number is a guess for yours, unless you train "
        "that model and sample it in the same way. Check with a small pilot of your own policy."
    )
    POOLED_POLICIES = (
        "Rollouts of several training steps are pooled: pass rates are averages over changing policies. A prompt "
        "visited at several steps looks more mixed than each of its groups was, so groups at any one step are dead "
        "more often than this says (Jensen). Keep the last steps."
    )
    OK = "Enough prompts and rollouts for D(G) up to the pilot's own rollouts per prompt."
    NO_SUCCESS = "No rollout passed: the pass rates may be 0 or merely small; more rollouts per prompt would tell."
    NO_FAILURE = "No rollout failed: the pass rates may be 1 or merely close; more rollouts per prompt would tell."
    SINGLE_ROLLOUT = "One rollout per prompt shows the mean pass rate only; take at least 2, better 8, per prompt."
    FEW_ROLLOUTS = (
        "Fewer than a fifth of the prompts have two or more rollouts: no D(G) is measured, every one rests on a "
        "smooth fit."
    )
    ALL_DEAD = "Every prompt's rollouts agree: there is no mixed prompt to learn the spread of pass rates from."
    TOO_FEW_PROMPTS = "Under 30 prompts: intervals are rough and a fitted shape means little."
    UNDERDISPERSED = (
        "Passes vary less between prompts than independent rollouts would: are rollouts of a prompt cached, "
        "deduplicated or filtered?"
    )
    UNEVEN_ROLLOUTS = (
        "Prompts with many rollouts pass at another rate than those with few: was sampling stopped by outcome? "
        "Then D(G) speaks of the prompts with at least G rollouts only."
    )
    DEAD_KINDS_UNKNOWN = (
        "Dropped groups are known by their number only: D(G) is counted, but how it splits into all-fail and all-pass "
        "rests on a smooth fit. Give both numbers (--dropped-groups FAIL,PASS) if the log has them."
    )
    EXTRAPOLATED = (
        "Beyond twice the pilot's rollouts per prompt: the interval allows for any mix of pass rates, the value "
        "inside it rests on a smooth one."
    )
    BEYOND_REACH = "The interval is wider than 0.5: this pilot cannot tell; take more rollouts per prompt."
    UNKNOWN = "The pilot does not determine this number."

    @property
    def sentence(self) -> str:
        """The meaning in words."""
        return str(self.value)

    @property
    def about_source(self) -> bool:
        """Whether it speaks of where the rollouts come from, so that every answer from them must show it."""
        return self.name in (
            "DEPENDENT",
            "WEAK_PRIOR",
            "TRUNCATED",
            "DROPPED_COUNT_DOUBTFUL",
            "POOLED_POLICIES",
            *LOOKS,
        )
