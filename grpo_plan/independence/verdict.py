"""What a check of independence can say: an enum whose members hold a sentence."""

from __future__ import annotations

from enum import Enum

MIN_MIXED_PROMPTS = 20
SMALL_SHIFT = 0.01


class IndependenceVerdict(Enum):
    """Verdict on Assumption A (theory.md). The value is the sentence shown to the user."""

    INDEPENDENT = "No sign that the rollouts of a prompt depend on each other."
    CORRELATED = (
        "Rollouts of a prompt that were drawn together agree more than independent ones: a seed, cache or setting "
        "is shared. They count as fewer rollouts, and groups drawn together are dead more often than groups that mix "
        "them."
    )
    REPELLED = (
        "Rollouts of a prompt that were drawn together agree less than independent ones: were they deduplicated, "
        "filtered or balanced? D(G) of such a pilot is too low."
    )
    DRIFTING = (
        "The pass rate moved between the parts of the pilot: the policy, the sampling or the scoring changed. Pool "
        "only what one policy and one setting made."
    )
    SMALL_DRIFT = (
        f"The pass rate differs between the parts of the pilot, by less than {SMALL_SHIFT:g}: more than chance, "
        "but too little to change a plan. Rollouts of one part show no other dependence."
    )
    REPEATED = (
        "Many completion texts repeat within their prompt. If they are long, they were cached or drawn with one seed: "
        "remove the repeats. Short answers coincide by chance and then are no fault."
    )
    SORTED = "The lists are sorted by reward, so their order says nothing about independence."
    TOO_FEW = f"Fewer than {MIN_MIXED_PROMPTS} mixed prompts can be compared: nothing is claimed."

    @property
    def alarm(self) -> bool:
        """Whether estimates from these rollouts are in doubt."""
        doubtful = (
            IndependenceVerdict.CORRELATED,
            IndependenceVerdict.REPELLED,
            IndependenceVerdict.DRIFTING,
        )
        return self in doubtful

    @property
    def sentence(self) -> str:
        """The meaning in words."""
        return str(self.value)
