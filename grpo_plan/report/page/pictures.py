"""The pictures of the page that come from a pilot and a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grpo_plan.report.page.scales import round_ticks, size_ticks
from grpo_plan.report.page.svg import Axis, Canvas, Key, Picture, Plot, Table, band, element, line, mark, text
from grpo_plan.report.page.words import amount, few, interval, limits, percent, rate, whole

Row = Mapping[str, Any]
SHARES = [(t, f"{t:g}") for t in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)]


def size_axis(sizes: Sequence[int]) -> Axis:
    """Group sizes on a logarithmic axis."""
    low, high = min(sizes), max(sizes)
    ends = (low / 1.12, high * 1.12) if low < high else (low / 2, high * 2)
    ticks = [(float(t), f"{t}") for t in size_ticks(sizes)]
    return Axis(title="group size G (rollouts per prompt)", low=ends[0], high=ends[1], ticks=ticks, log=True)


def share_axis(title: str) -> Axis:
    """Shares from 0 to 1."""
    return Axis(title=title, low=0.0, high=1.0, ticks=SHARES)


def count_axis(title: str, most: float, *, least: float = 0.0, goal: int = 5) -> Axis:
    """Counts from ``least`` on."""
    top = most if most > least else least + 1.0
    ticks = [(t, amount(t) if t else "0") for t in round_ticks(least, top, goal)]
    return Axis(title=title, low=least, high=top, ticks=ticks)


def limits_bar(plot: Plot, x: float, low: float, high: float, class_: str) -> str:
    """A bar from the low to the high limit."""
    place = plot.x(x)
    return line([(place, plot.y(low)), (place, plot.y(high))], class_)


def dead_picture(rows: Sequence[Row], measured: int | None) -> Picture:
    """Dead fraction against group size, with its interval, the identified range and the two formulas people use."""
    rows = sorted(rows, key=lambda row: row["group_size"])
    sizes = [row["group_size"] for row in rows]
    level = percent(rows[0]["level"])
    known = [row for row in rows if row["value"] is not None]
    bounded = [row for row in rows if row["low"] is not None and row["high"] is not None]
    first = measured or sizes[0]
    open_ = [row for row in rows if row["identified"] and row["identified"][1] - row["identified"][0] > 1e-9]

    def draw(plot: Plot) -> list[str]:
        def of(name: str, found: Sequence[Row]) -> list[tuple[float, float]]:
            return plot.points((row["group_size"], row[name]) for row in found if row[name] is not None)

        parts = []
        if bounded:
            parts.append(band(of("low", bounded), of("high", bounded), "band"))
        for end in (0, 1) if open_ else ():
            edge = [
                (r["group_size"], r["identified"][end]) for r in rows if r["identified"] and r["group_size"] >= first
            ]
            parts.append(line(plot.points(edge), "open-range"))
        parts += [line(of("plug_in", rows), "plug-in"), line(of("iid", rows), "iid")]
        if measured is not None and sizes[0] < measured < sizes[-1]:
            place = plot.x(measured)
            parts.append(line([(place, plot.y.start), (place, plot.y.stop)], "border"))
            parts.append(
                element("text", text(f"pilot: n = {measured}"), x=place + 5, y=plot.y.stop + 22, class_="note")
            )
        if known:
            parts.append(line(of("value", known), "value"))
        for row in known:
            parts.append(mark("dot", *plot.at(row["group_size"], row["value"]), "dot" if row in seen else "dot hollow"))
        return parts

    seen = [row for row in known if measured is not None and row["group_size"] <= measured]
    keys = [
        *([Key(class_="dot", shape="dot", words="dead fraction, counted in the pilot")] if seen else []),
        *(
            [Key(class_="dot hollow", shape="dot", words="dead fraction, estimated beyond n")]
            if len(seen) < len(known)
            else []
        ),
        Key(class_="band", shape="band", words=f"{level} interval, whatever the mix of pass rates"),
        Key(class_="plug-in", shape="line", words="plug-in k/n (too high)"),
        Key(class_="iid", shape="line", words="i.i.d. formula at the mean pass rate (too low)"),
    ]
    if open_:
        keys.insert(-2, Key(class_="open-range", shape="line", words="left open by n rollouts for ever"))
    table = Table(
        caption="Dead fraction by group size",
        head=("G", "dead", "all-fail", "all-pass", "identified range", "i.i.d.", "plug-in", "status"),
        rows=[
            (
                f"{row['group_size']}",
                interval(row),
                interval(row, "all_fail"),
                interval(row, "all_pass"),
                "unknown" if row["identified"] is None else limits(*row["identified"]),
                rate(row["iid"]),
                rate(row["plug_in"]),
                row["status"],
            )
            for row in rows
        ],
    )
    canvas = Canvas(
        name="dead-picture",
        title="Dead fraction against group size",
        description="Share of groups whose rewards all agree, with its interval; the i.i.d. formula lies below, the "
        "plug-in above. The numbers are in the table below the picture.",
        x=size_axis(sizes),
        y=share_axis("share of groups that are dead"),
        follows="dead",
        keys=keys,
    )
    return canvas.draw(draw, table)


def batch_picture(rows: Sequence[Row], chosen: int) -> Picture:
    """Mixed groups of a step for each design: mean, and the middle 90 % of steps."""
    rows = sorted(rows, key=lambda row: row["group_size"])
    counts = [row["effective_batch"]["mixed_groups"] for row in rows]
    sizes = [row["group_size"] for row in rows]
    top = max(1.0, *(count["p95"] for count in counts)) * 1.06

    def draw(plot: Plot) -> list[str]:
        parts = []
        for size, count in zip(sizes, counts, strict=True):
            if count["mean_low"] is not None:
                parts.append(limits_bar(plot, size, count["mean_low"], count["mean_high"], "mean-limits"))
            parts.append(limits_bar(plot, size, count["p05"], count["p95"], "spread"))
            shape, class_ = ("square", "planned") if size == chosen else ("dot", "dot")
            parts.append(mark(shape, *plot.at(size, count["mean"]), class_))
        return parts

    table = Table(
        caption="Mixed groups of a step, by design",
        head=("G", "prompts a step", "mixed groups (mean)", "limits of the mean", "5 to 95 % of steps", "all dead"),
        rows=[
            (
                f"{row['group_size']}",
                whole(row["prompts_per_step"]),
                few(count["mean"]),
                "-" if count["mean_low"] is None else limits(count["mean_low"], count["mean_high"], few),
                f"{whole(count['p05'])} to {whole(count['p95'])}",
                "<1e-9" if row["effective_batch"]["dead_batch_probability"] < 1e-9
                else rate(row["effective_batch"]["dead_batch_probability"]),
            )
            for row, count in zip(rows, counts, strict=True)
        ],
        marked=sizes.index(chosen) if chosen in sizes else None,
    )  # fmt: skip
    canvas = Canvas(
        name="batch-picture",
        title="Mixed groups of a step against group size",
        description=f"Mean number of mixed groups of a step for each design within the budget; the plan's G = {chosen} "
        "is the square. Bars: 5 to 95 % of steps, and the limits of the mean.",
        x=size_axis(sizes),
        y=count_axis("mixed groups a step", top),
        follows="mixed",
        keys=[
            Key(class_="planned", shape="square", words="the plan (mean)"),
            Key(class_="dot", shape="dot", words="other designs within the budget (mean)"),
            Key(class_="spread", shape="line", words="5 to 95 % of steps: luck of the draw"),
            Key(class_="mean-limits", shape="line", words="limits of the mean: what the pilot leaves open"),
        ],
    )
    return canvas.draw(draw, table)


def frontier_picture(plan: Row) -> Picture:
    """Progress of each design against the best at the ends of the range of kappa, and the flat range."""
    rows = sorted(plan["frontier"], key=lambda row: row["group_size"])
    sizes = [row["group_size"] for row in rows]
    kappa, chosen, flat = plan["kappa"], plan["recommended"]["group_size"], plan["flat_range"]
    known = kappa["measured"] or kappa["low"] == kappa["high"]
    low, high = f"{kappa['low']:.3g}", f"{kappa['high']:.3g}"
    ends = [("progress_at_kappa_low", "low-kappa", "dot", low)]
    if not known:
        ends.append(("progress_at_kappa_high", "high-kappa", "triangle", high))

    def draw(plot: Plot) -> list[str]:
        left, right = plot.x(flat[0]) - 4, plot.x(flat[1]) + 4
        shade = element(
            "rect", x=left, y=plot.y.stop, width=right - left, height=plot.y.start - plot.y.stop, class_="flat"
        )
        parts = [shade, line(plot.points([(plot_low, 0.9) for plot_low in (plot.x.low, plot.x.high)]), "border")]
        for name, class_, shape, _ in ends:
            pairs = [(row["group_size"], row["signal"][name]) for row in rows]
            for row in rows:
                found = row["signal"][f"{name}_limits"]
                if found is not None:
                    parts.append(limits_bar(plot, row["group_size"], found[0], found[1], f"{class_} limits"))
            parts.append(line(plot.points(pairs), class_))
            parts += [mark(shape, *plot.at(*pair), f"{class_} point") for pair in pairs]
        best = next(row for row in rows if row["group_size"] == chosen)
        parts += [mark("square", *plot.at(chosen, best["signal"][name]), "planned") for name, *_ in ends]
        parts.append(element("path", class_="chosen-kappa", display="none", d="M0 0"))
        return parts

    def cell(row: Row, name: str) -> str:
        found = row["signal"][f"{name}_limits"]
        return f"{row['signal'][name]:.3f}" + ("" if found is None else f" {limits(*found)}")

    keys = [Key(class_="planned", shape="square", words="the plan")]
    keys += [Key(class_=class_, shape="line", words=f"kappa {value}") for _, class_, _, value in ends]
    keys.append(Key(class_="flat", shape="band", words=f"flat range: G = {flat[0]} to {flat[1]}"))
    keys.append(Key(class_="chosen-kappa", shape="line", words="the kappa of your what-if choice"))
    table = Table(
        caption="Designs: prompts a step, dead fraction, progress against the best design at each kappa, worst regret",
        head=("G", "prompts a step", "steps", "dead", *(f"kappa {value}" for *_, value in ends), "worst regret"),
        rows=[
            (
                f"{row['group_size']}",
                whole(row["prompts_per_step"]),
                "not fixed" if row["steps"] is None else whole(row["steps"]),
                interval(row["dead"]),
                *(cell(row, name) for name, *_ in ends),
                rate(row["signal"]["worst_regret"]),
            )
            for row in rows
        ],
        marked=sizes.index(chosen) if chosen in sizes else None,
    )
    canvas = Canvas(
        name="frontier-picture",
        title="Progress against group size",
        description=f"Progress of each design over that of the best one, at kappa {low}"
        f"{'' if known else f' and {high}'}. The shaded flat range is G = {flat[0]} to {flat[1]}; the plan's G = "
        f"{chosen} is the square.",
        x=size_axis(sizes),
        y=share_axis("progress over that of the best G"),
        follows="progress",
        keys=keys,
    )
    return canvas.draw(draw, table)
