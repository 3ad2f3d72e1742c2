"""Predictions of `figures.validation.forecast_more`, grouped and held against what was measured. Needs no torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from grpo_plan.fitting.intervals import wilson_interval

Floats = NDArray[np.float64]
UNIFORM_SD = 12**-0.5


@dataclass(frozen=True)
class Group:
    """Predictions of one kind.

    Attributes:
        label: What was predicted.
        nominal: Chance with which an interval is to hold the truth, in words.
        rows: One prediction each.
        unit: Columns that name the pilot, log or run behind a prediction.
        digits: Of errors and widths.
        joint: All predictions of one unit count as one, inside if all of them are.
    """

    label: str
    nominal: str
    rows: pl.DataFrame
    unit: tuple[str, ...] = ("number",)
    digits: int = 3
    joint: bool = False

    @property
    def units(self) -> int:
        """Pilots, logs or runs behind it."""
        return self.rows.select(self.unit).n_unique()

    @property
    def predictions(self) -> int:
        """How many predictions."""
        return self.units if self.joint else self.rows.height

    @property
    def inside(self) -> float:
        """Share whose interval holds what was measured."""
        held = self.rows.select(*self.unit, held=pl.col("measured").is_between("low", "high"))
        if self.joint:
            held = held.group_by(self.unit).agg(pl.col("held").all())
        return float(held["held"].to_numpy().mean())

    @property
    def inside_limits(self) -> tuple[float, float]:
        """Wilson limits of that share, every unit counted once."""
        low, high = wilson_interval(self.inside, float(self.units), 0.95)
        return float(low), float(high)

    @property
    def error(self) -> tuple[float, float]:
        """Mean of predicted less measured, and its standard error over units."""
        error = self.rows.group_by(self.unit).agg(error=(pl.col("value") - pl.col("measured")).mean())["error"]
        found = error.drop_nulls().to_numpy()
        return float(found.mean()), float(found.std(ddof=1) / np.sqrt(found.size))

    @property
    def absolute_error(self) -> float:
        """Mean distance of predicted and measured."""
        return float((self.rows["value"] - self.rows["measured"]).abs().drop_nulls().to_numpy().mean())

    @property
    def width(self) -> float:
        """Mean width of the intervals."""
        return float((self.rows["high"] - self.rows["low"]).to_numpy().mean())


Groups = dict[str, Group]


def groups(path: Path) -> Groups:
    """The predictions of a results file by kind, in the order of the table."""
    rows = pl.read_parquet(path).with_columns(
        pl.col("what", "case").cast(pl.String), pl.col(pl.Float32).cast(pl.Float64)
    )

    def of(what: str, group: int | None = None, case: str | None = None) -> pl.DataFrame:
        found = rows.filter(pl.col("what") == what)
        if group is not None:
            found = found.filter(pl.col("group") == group)
        return found if case is None else found.filter(pl.col("case").str.ends_with(case))

    found: Groups = {}
    for g in (4, 8, 16):
        found[f"step {g}"] = Group(
            f"mixed groups of a step, 128 fresh prompts, G = {g}", ".95", of("step", g), digits=1
        )
    for g in (4, 8, 16):
        label = f"mixed groups of a step, 128 prompts of known p, G = {g}"
        found[f"list {g}"] = Group(label, ".95", of("list", g), digits=1)
    refill = {
        "prompts": ".9",
        "prompts, limits of D too": "at least .9",
        "rounds": "at least .9",
        "mean rollouts": ".95",
    }
    for case, nominal in refill.items():
        label = f"refill to 64 mixed groups of 8: {case}"
        exact = of("refill").filter(pl.col("case") == case)
        found[f"refill {case}"] = Group(label, nominal, exact, digits=2 if case == "rounds" else 0)
    for g in (4, 8):
        label = f"D({g}) at temperature .6, .8 and 1.2 less D({g}) at 1"
        found[f"temperature {g}"] = Group(label, ".983", of("temperature", g))
        found[f"temperatures {g}"] = Group(f"{label}: all three at once", ".95", of("temperature", g), joint=True)
    found["mix"] = Group("D(8) of mixes of hard prompts and the rest, five shares", ".95", of("mix"))
    for start in ("sum", "either", "easy"):
        label = f"D at other G from mean reward and D(8) of 640 groups, *{start}*"
        found[f"recovery {start}"] = Group(label, "at least .95", of("recovery", case=start), ("case", "number"))
    label = "the same after 120 steps of training, from D(4) or D(16)"
    found["recovery trained"] = Group(label, "at least .95", of("recovery, trained"), ("case", "number"))
    for step in (80, 120):
        rest = of("drift", case=f"step {step}").with_columns(pl.col("case").str.replace(f", step {step}", ""))
        label = f"dead share of step {step}, asked at step 40"
        found[f"drift {step}"] = Group(label, ".95", rest, ("case", "number"))
    label = "dead share of steps 111 to 120, asked at step 80 (8 rows of 10 steps)"
    found["study"] = Group(label, ".95", of("drift, rows of ten"))
    return {name: group for name, group in found.items() if group.rows.height}


def _signed(value: float, digits: int) -> str:
    shown = f"{value:+.{digits}f}"
    return shown[1:] if float(shown) == 0.0 else shown


def more_table(found: Groups) -> list[str]:
    """One line for each kind of prediction."""
    lines = [
        "| what was predicted | predictions (from) | nominal | inside [95 %] | mean error ± s.e. | mean width |",
        "|---|---|---|---|---|---|",
    ]
    for group in found.values():
        low, high = group.inside_limits
        error, spread = group.error
        digits = group.digits
        lines.append(
            f"| {group.label} | {group.predictions:,} ({group.units:,}) | {group.nominal} | {group.inside:.3f} "
            f"[{low:.3f}, {high:.3f}] | {_signed(error, digits)} ± {spread:.{digits}f} | {group.width:.{digits}f} |"
        )
    return [*lines, ""]


def _middle(rows: pl.DataFrame) -> Floats:
    """Where in its predicted law a count lies: the middle of its step of the distribution function."""
    middle: Floats = ((rows["pit_low"] + rows["pit_high"]) / 2).to_numpy()
    return middle


def _spread(found: Groups, kind: str) -> str:
    values = [_middle(found[f"{kind} {g}"].rows) for g in (4, 8, 16)]
    return ", ".join(f"{v.mean():.2f} and {v.std(ddof=1) / UNIFORM_SD:.2f}" for v in values)


def _by(group: Group, column: str) -> list[tuple[str, Group]]:
    parts = group.rows.partition_by(column, as_dict=True, maintain_order=True)
    return [(str(key[0]), Group(group.label, group.nominal, rows, group.unit)) for key, rows in parts.items()]


def _signs(found: Groups) -> str:
    rows = pl.concat([found["temperature 4"].rows, found["temperature 8"].rows])
    told = rows.filter((pl.col("low") > 0) | (pl.col("high") < 0))
    wrong = told.filter(pl.col("value") * pl.col("measured") < 0).height
    return f"{told.height:,} of {rows.height:,} intervals exclude 0, {wrong:,} of these on the wrong side"


def _exact(rows: pl.DataFrame) -> str:
    here = rows.unique("case").sort("case")
    return ", ".join(f"{_signed(m, 3)} at {c}" for c, m in zip(here["case"], here["measured"], strict=True))


def _persistence(group: Group) -> str:
    same = float((group.rows["now"] - group.rows["measured"]).abs().to_numpy().mean())
    return f"{group.absolute_error:.3f} against {same:.3f}"


def _worlds(found: Sequence[tuple[str, Group]]) -> str:
    return ", ".join(f"*{name.replace('_', ' ')}* {g.inside:.2f} of {g.predictions:,}" for name, g in found)


def _on_steps(found: Groups) -> str:
    return (
        "* **Steps.** One step for each of the pilots of *sum* (500 x 8), interval of the law of `gp.effective_batch` at the estimated D: "
        "luck of the draw alone, not the error of the pilot. Place of the measured count in that law, mean and spread (against .50 and "
        f"1.00), at G = 4, 8, 16: {_spread(found, 'step')}; with known pass rates (`gp.effective_batch_of_list`, 10 lists x 40 steps): "
        f"{_spread(found, 'list')}. A spread above 1, or a mean off .50, is the error of the estimated D, which the interval leaves out."
    )


def _on_refills(found: Groups) -> str:
    return (
        f"* **Refill.** One refill for each of {found['refill prompts'].units} pilots, fresh prompts until 64 are mixed; generation batches of 64 "
        "prompts make the rounds. The plan shows 5 and 95 % quantiles over steps at the estimated D; *limits of D too* is from the 5 % "
        "quantile at its low limit to the 95 % one at its high limit. *Mean rollouts* is held against the mean of all these refills."
    )


def _on_temperatures(found: Groups) -> str:
    return (
        "* **Temperature.** The same 500 prompts at four temperatures, 8 rollouts each; exact differences of D(8): "
        f"{_exact(found['temperature 8'].rows)}. {_signs(found)}."
    )


def _on_mixes(found: Groups) -> str:
    return (
        f"* **Mix.** {found['mix'].units} pilots of 250 hard prompts (exact p below .1) and 250 others, 8 rollouts each; shares 0, .25, .5, .75 and "
        "1 of hard ones. D of a mix is linear in the shares, exactly, so this tests the limits of `gp.plan_mix`, whose two parts come from "
        "one pilot."
    )


def _on_recovery(found: Groups) -> str:
    rows = pl.concat([found[f"recovery {s}"].rows for s in ("sum", "either", "easy")])
    by_size = _by(Group("", "", rows, ("case", "number")), "group")
    sizes = "; ".join(f"G = {g}: {_signed(x.error[0], 3)}, {x.absolute_error:.3f}, {x.width:.2f}" for g, x in by_size)
    return (
        f"* **Recovery** (`gp.recover`, two logged numbers at G = 8): mean error, mean distance and mean width over the three starts: {sizes}. "
        "Its range holds every distribution with such aggregates; the value takes a Beta."
    )


def _on_drift(found: Groups) -> str:
    asked = "; ".join(f"step {step} {_persistence(found[f'drift {step}'])}" for step in (80, 120))
    return (
        "* **Drift** (`gp.forecast`): runs of 120 steps with 512 rollouts, four worlds, G = 4 and 16, a row each step. Mean distance of "
        f"forecast and measured against that of the last ten steps' mean, left as it is: {asked}. The bands are "
        f"{found['drift 80'].width:.2f} and {found['drift 120'].width:.2f} wide. By world at step 120: "
        f"{_worlds(_by(found['drift 120'], 'case'))}."
    )


def _on_study(found: Groups) -> str:
    return (
        f"* **Drift in rows of ten steps**, the runs of the study that sweep G: distance {_persistence(found['study'])}. "
        f"Inside by world: {_worlds(_by(found['study'], 'case'))}. Runs of one world and seed share their prompts."
    )


NOTES: dict[str, Callable[[Groups], str]] = {  # kind of prediction that it needs -> note
    "list 16": _on_steps,
    "refill mean rollouts": _on_refills,
    "temperature 8": _on_temperatures,
    "mix": _on_mixes,
    "recovery easy": _on_recovery,
    "drift 120": _on_drift,
    "study": _on_study,
}


def notes(found: Groups) -> list[str]:
    """What the table does not say, of what has been measured."""
    return [note(found) for needed, note in NOTES.items() if needed in found]
