"""What aggregates can and cannot say: an enum whose members hold a sentence."""

from __future__ import annotations

from enum import Enum


class RecoveryStatus(Enum):
    """Status of pass rates that were recovered from aggregates. The value is the sentence shown to the user."""

    OK = "Mean reward and a second aggregate: the value rests on a Beta with both, the range on nothing but both."
    MEAN_ONLY = (
        "Only the mean reward is known, and it says nothing about the spread of pass rates: there is a range and no "
        "value. Log the dead fraction."
    )
    POINT_MASSES = (
        "Every group is dead: the value takes all prompts to pass always or never. Pass rates near 0 and 1 look the "
        "same; only groups of more rollouts would tell."
    )
    IID = (
        "No more groups are dead than if all prompts had one pass rate: the value takes it so. Nothing in the "
        "aggregates tells the prompts apart."
    )
    ONE_OUTCOME = "All rollouts have the same reward, so that the pass rates may be 0 or 1 or merely close to it."
    PROJECTED = (
        "No distribution of pass rates has exactly these aggregates, as happens where they are of few groups; the "
        "range is that of the nearest aggregates that one has."
    )
    INCONSISTENT = (
        "No distribution of pass rates is near these aggregates: the rewards are not 0 or 1, the metrics are of "
        "different groups (one filtered, one not), or rollouts of a prompt are not independent. Only what holds for "
        "every distribution is shown."
    )
    UNKNOWN = "An aggregate is not logged here, so nothing is known."

    @property
    def sentence(self) -> str:
        """The meaning in words."""
        return str(self.value)
