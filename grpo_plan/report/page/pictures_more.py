"""The pictures of difficulty, refill, strata, temperatures and a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grpo_plan.report.page.pictures import count_axis, limits_bar, share_axis
from grpo_plan.report.page.svg import Axis, Canvas, Key, Picture, Plot, Table, element, line, mark, text
from grpo_plan.report.page.words import interval, percent, rate, short, whole

Row = Mapping[str, Any]
ROW_HEIGHT, LONGEST_NAME, MOST_BARS = 34.0, 24, 65
ONE_ATOM, LEAST_ATOM, WIDEST_BAR = 0.02, 0.002, 0.1


def refill_picture(found: Row) -> Picture:
    """Prompts drawn for a step against the generation batch, at the estimate and the limits of the dead fraction."""
    wanted, rows = found["prompts_per_step"], sorted(found["options"], key=lambda row: row["gen_batch_size"])
    rows = [row for row in rows if row["prompts"]["mean"] is not None]
    single = found["one_by_one"]["mean"]
    tops = [row["prompts"]["mean_high"] or row["prompts"]["mean"] for row in rows]
    top = max([*tops, single]) / wanted * 1.05
    right = max(row["gen_batch_size"] for row in rows) / wanted * 1.05

    def draw(plot: Plot) -> list[str]:
        parts = [line(plot.points([(0.0, single / wanted), (right, single / wanted)]), "iid")]
        for row in rows:
            x, drawn = row["gen_batch_size"] / wanted, row["prompts"]
            if drawn["mean_high"] is not None:
                parts.append(
                    limits_bar(plot, x, drawn["mean_low"] / wanted, drawn["mean_high"] / wanted, "mean-limits")
                )
            now = row["gen_batch_size"] == found["gen_batch_size"]
            parts.append(
                mark("square" if now else "dot", *plot.at(x, drawn["mean"] / wanted), "planned" if now else "dot")
            )
        return parts

    table = Table(
        caption="Generation batches: what a refilled step draws",
        head=(
            "generation batch",
            "multiplier",
            "rounds (mean)",
            "prompts (mean)",
            "limits",
            "rollouts (mean)",
            "surplus",
        ),
        rows=[
            (
                whole(row["gen_batch_size"]),
                f"{row['batch_multiplier']:.2f}",
                f"{row['rounds']['mean']:.2f}",
                whole(row["prompts"]["mean"]),
                _ends(row["prompts"]),
                whole(row["rollouts"]["mean"]),
                whole(row["surplus_mixed_groups"]["value"]),
            )
            for row in rows
        ],
        marked=next((i for i, r in enumerate(rows) if r["gen_batch_size"] == found["gen_batch_size"]), None),
    )
    canvas = Canvas(
        name="refill-picture",
        title="What a refilled step draws, by generation batch",
        description="Prompts drawn per mixed group wanted, against the generation batch as a multiple of the mixed "
        "groups wanted. The dashed line is drawing one prompt at a time.",
        x=count_axis("generation batch over the mixed groups wanted", right),
        y=count_axis("prompts drawn per mixed group wanted", top),
        keys=[
            Key(class_="planned", shape="square", words="generation batch of this report"),
            Key(class_="dot", shape="dot", words="others (mean)"),
            Key(class_="mean-limits", shape="line", words="at the limits of the dead fraction"),
            Key(class_="iid", shape="line", words="drawn one at a time"),
        ],
    )
    return canvas.draw(draw, table)


def _ends(count: Row) -> str:
    if count["mean_low"] is None:
        return "unknown"
    return f"[{whole(count['mean_low'])}, {'no limit' if count['mean_high'] is None else whole(count['mean_high'])}]"


def kinds_picture(name: str, title: str, rows: Sequence[tuple[str, Row]], first: str) -> Picture:
    """Bars of all-fail, mixed and all-pass groups, one a stratum or a window of a run.

    Args:
        name: Id of the picture.
        title: Its title.
        rows: Name of a bar, and its ``all_fail``, ``mixed``, ``all_pass``, ``dead``: each with value, low and high.
        first: Heading of the names.
    """
    named = [
        row for row in rows if all(row[1][kind]["value"] is not None for kind in ("all_fail", "mixed", "all_pass"))
    ]
    height = ROW_HEIGHT * len(named) + 60
    y = Axis(title="", low=0.0, high=float(max(len(named), 1)))

    def draw(plot: Plot) -> list[str]:
        parts, thick = [], ROW_HEIGHT * 0.62
        room = 11 if plot.narrow else LONGEST_NAME
        for i, (label, kinds) in enumerate(named):
            top, start = plot.y(len(named) - i) + 5, 0.0
            shown = label if len(label) <= room else f"{label[: room - 1]}\u2026"
            parts.append(
                element("text", text(shown), x=plot.x.start - 6, y=top + thick * 0.7, class_="tick end bar-name")
            )
            for kind in ("all_fail", "mixed", "all_pass"):
                share = kinds[kind]["value"]
                left, right = plot.x(start), plot.x(start + share)
                start += share
                parts.append(element("rect", x=left, y=top, width=right - left, height=thick, class_=f"bar {kind}"))
                if right - left > 34:
                    words = element("text", text(percent(round(share, 2))), x=(left + right) / 2, y=top + thick * 0.7,
                                    class_=f"in-bar on-{kind}")  # fmt: skip
                    parts.append(words)
        return parts

    table = Table(
        caption=title,
        head=(first, "dead", "all-fail", "mixed", "all-pass"),
        rows=[
            (short(label), *(interval(kinds[k]) for k in ("dead", "all_fail", "mixed", "all_pass")))
            for label, kinds in rows
        ],
    )
    canvas = Canvas(
        name=name,
        title=title,
        description="Bars of the shares of groups that are all-fail, mixed and all-pass. The table below holds the "
        "numbers and their limits.",
        x=share_axis("share of groups"),
        y=y,
        left=170.0,
        sizes=((760.0, height), (340.0, height)),
        keys=[
            Key(class_="bar all_fail", shape="bar", words="all-fail (dead)"),
            Key(class_="bar mixed", shape="bar", words="mixed (they teach)"),
            Key(class_="bar all_pass", shape="bar", words="all-pass (dead)"),
        ],
    )
    return canvas.draw(draw, table)


def temperature_picture(found: Row) -> Picture:
    """Dead fraction and pass rate against temperature, with limits."""
    rows = sorted(found["temperatures"], key=lambda row: row["temperature"])
    heats = [row["temperature"] for row in rows]
    wide = max(heats) - min(heats) or 1.0
    x = Axis(
        title="temperature",
        low=min(heats) - 0.12 * wide,
        high=max(heats) + 0.12 * wide,
        ticks=[(heat, f"{heat:g}") for heat in heats],
    )
    lines = (("dead", "value", "dot"), ("pass_rate", "pass-rate", "triangle"))

    def draw(plot: Plot) -> list[str]:
        parts = []
        for shift, (name, class_, shape) in zip((-3.0, 3.0), lines, strict=True):
            known = [row for row in rows if row[name]["value"] is not None]
            places = [(px + shift, py) for px, py in plot.points((r["temperature"], r[name]["value"]) for r in known)]
            for row, (px, _) in zip(known, places, strict=True):
                ends = [(px, plot.y(row[name][end])) for end in ("low", "high") if row[name][end] is not None]
                if len(ends) == 2:
                    parts.append(line(ends, f"{class_} limits"))
            if len(places) > 1:
                parts.append(line(places, class_))
            parts += [mark(shape, *place, "dot" if shape == "dot" else "pass-rate point") for place in places]
        return parts

    table = Table(
        caption=f"Temperatures at G = {found['group_size']}",
        head=("temperature", "prompts", "dead", "all-fail", "all-pass", "pass rate", "status"),
        rows=[
            (
                f"{row['temperature']:g}",
                whole(row["pilot"]["prompts"]),
                interval(row["dead"]),
                interval(row["dead"], "all_fail"),
                interval(row["dead"], "all_pass"),
                interval(row["pass_rate"]),
                row["dead"]["status"],
            )
            for row in rows
        ],
        marked=next((i for i, r in enumerate(rows) if r["temperature"] == found["recommended"]), None),
    )
    canvas = Canvas(
        name="temperature-picture",
        title=f"Dead fraction and pass rate against temperature, groups of {found['group_size']}",
        description="Dead fraction and mean pass rate at each temperature of the pilot, with limits.",
        x=x,
        y=share_axis("share"),
        keys=[
            Key(class_="value", shape="line", words="dead fraction of groups"),
            Key(class_="pass-rate", shape="line", words="mean pass rate (what pass@1 pays)"),
        ],
    )
    return canvas.draw(draw, table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """Prompts of one observed pass rate: where it stands, its share, and its name in the table."""

    low: float
    high: float
    share: float
    label: str


def bars_of(found: Row) -> list[Bar]:
    """Bars of the passes of the pilot: one a count where every prompt has as many rollouts, else 20 bins."""
    histogram = found["histogram"]
    if histogram is not None and len(histogram) == 1 and histogram[0]["rollouts"] < MOST_BARS:
        n, prompts = histogram[0]["rollouts"], histogram[0]["prompts"]
        half, total = min(0.42 / n, WIDEST_BAR), sum(prompts)
        return [
            Bar(low=k / n - half, high=k / n + half, share=count / total, label=f"{k} of {n}")
            for k, count in enumerate(prompts)
        ]
    return [
        Bar(low=row["low"], high=row["high"], share=row["share"], label=f"{row['low']:.2f} to {row['high']:.2f}")
        for row in found["rates"]
    ]


def joined(atoms: Sequence[Row]) -> list[tuple[float, float]]:
    """Atoms with the mass that a grid splits between neighbours put together.

    >>> joined([{"pass_rate": 0.5, "mass": 0.25}, {"pass_rate": 0.505, "mass": 0.25}, {"pass_rate": 1.0, "mass": 0.5}])
    [(0.5025, 0.5), (1.0, 0.5)]
    """
    found: list[list[tuple[float, float]]] = []
    for atom in sorted(atoms, key=lambda row: row["pass_rate"]):
        pair = (float(atom["pass_rate"]), float(atom["mass"]))
        if found and pair[0] - found[-1][-1][0] < ONE_ATOM:
            found[-1].append(pair)
        else:
            found.append([pair])
    masses = [sum(mass for _, mass in group) for group in found]
    return [
        (sum(rate_ * mass for rate_, mass in group) / total, total)
        for group, total in zip(found, masses, strict=True)
        if total > LEAST_ATOM
    ]


def density(smooth: Sequence[Row], width: float) -> list[tuple[float, float]]:
    """Mass of the smooth fit per bar, at the middle of its bins.

    >>> density([{"low": 0.0, "high": 0.1, "mass": 0.1}], 0.5)
    [(0.05, 0.5)]
    """
    return [((row["low"] + row["high"]) / 2, row["mass"] / (row["high"] - row["low"]) * width) for row in smooth]


def difficulty_picture(found: Row) -> Picture:
    """Passes of the prompts of a pilot, the smooth fit's density, and the atoms of the nonparametric fit."""
    bars = bars_of(found)
    width = 1.0 / (len(bars) - 1) if bars[0].low < 0.0 else bars[0].high - bars[0].low
    side = max(0.03, -bars[0].low) + 0.01
    atoms, smooth = joined(found["nonparametric"] or []), found["smooth"] or []
    top = 1.08 * max(0.05, *(bar.share for bar in bars), *(mass for _, mass in atoms))
    last = len(bars) - 1
    kinds = ["all_fail" if i == 0 else "all_pass" if i == last else "mixed" for i in range(len(bars))]

    def draw(plot: Plot) -> list[str]:
        parts = []
        for bar, kind in zip(bars, kinds, strict=True):
            left, right, high = plot.x(bar.low), plot.x(bar.high), plot.y(bar.share)
            parts.append(
                element("rect", x=left, y=high, width=right - left, height=plot.y.start - high, class_=f"bar {kind}")
            )
        if smooth:
            parts.append(line(plot.points(density(smooth, width)), "density"))
        for rate_, mass in atoms:
            parts.append(limits_bar(plot, rate_, 0.0, mass, "atom"))
            parts.append(mark("diamond", *plot.at(rate_, mass), "atom-mark"))
        return parts

    counted = bars[0].low < 0.0
    keys = [
        Key(class_="bar all_fail", shape="bar", words="never passed" if counted else f"k/n up to {bars[0].high:.2f}"),
        *([Key(class_="bar mixed", shape="bar", words="passed now and then")] if len(bars) > 2 else []),
        Key(class_="bar all_pass", shape="bar", words="always passed" if counted else f"k/n from {bars[-1].low:.2f}"),
    ]
    if smooth:
        keys.append(Key(class_="density", shape="line", words="smooth fit of the true pass rates (density, scaled)"))
    if atoms:
        keys.append(Key(class_="atom-mark", shape="diamond", words="likeliest pass rates of any shape (atoms)"))
    table = Table(
        caption="Prompts by their passes in the pilot",
        head=("passes" if counted else "pass rate k/n", "share of prompts"),
        rows=[(bar.label, rate(bar.share)) for bar in bars],
    )
    ticks = [(t, f"{t:g}") for t in (0.0, 0.25, 0.5, 0.75, 1.0)]
    canvas = Canvas(
        name="difficulty-picture",
        title="Prompts differ: share of prompts by their pass rate in the pilot",
        description="A bar for each observed pass rate k/n. The first bar holds prompts that never passed, the last "
        "those that always did.",
        x=Axis(title="pass rate of a prompt", low=-side, high=1 + side, ticks=ticks),
        y=Axis(title="share of prompts", low=0.0, high=top, ticks=_share_ticks(top)),
        keys=keys,
    )
    return canvas.draw(draw, table)


def _share_ticks(top: float) -> list[tuple[float, str]]:
    return [(value, f"{value:g}") for value, _ in count_axis("", top).ticks]
