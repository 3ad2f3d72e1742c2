"""Weights of losses as a page that a person can act on."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_uppercase
from typing import Any

from grpo_plan.cli.common import percent
from grpo_plan.cli.page import GAP, Bullet, Grid, Heading, Line, Paragraph, Part
from grpo_plan.losses import Aggregation, LengthBias, Limits, SplitErrors, SplitWeights, WeightShares
from grpo_plan.rollouts import RolloutLengths

MOST_ROWS = 20
WIDEST = 14  # a name that stands before a row, with its gap; wider ones get a letter
ACROSS = 48  # names that stand over the columns
MISPLACED = 0.01  # share of the weight from which a split is worth a word
PUSH = 1e-12
NOTHING = 1e-9
UNKNOWN = "unknown"


def labels_of(
    kinds: Sequence[Aggregation | None], *, across: bool = False
) -> tuple[dict[Aggregation, str], list[Part]]:
    """Names for the tables, and a legend: letters where names are too wide for a row, or across the columns.

    >>> from grpo_plan.losses import get_aggregation
    >>> long, short = get_aggregation("verl:seq-mean-token-sum-norm"), get_aggregation("dapo")
    >>> list(labels_of([short, short])[0].values()), list(labels_of([short, long])[0].values())
    (['dapo'], ['A', 'B'])
    """
    some = list(dict.fromkeys(kind for kind in kinds if kind is not None))
    widths = [len(_option(kind)) + GAP for kind in some]
    if sum(widths) <= ACROSS if across else max(widths) <= WIDEST:
        return {kind: _option(kind) for kind in some}, []
    letters = {kind: ascii_uppercase[i] if i < len(ascii_uppercase) else str(i + 1) for i, kind in enumerate(some)}
    return letters, [Line(f"{letter}", _option(kind), indent=2) for kind, letter in letters.items()]


def lengths_page(found: Sequence[SplitWeights], advantages: Any, *, split: bool) -> list[Part]:
    """Weights of given lengths: what they add up to, each response, and the split."""
    parts: list[Part] = [Line("Answer", _lengths_verdict(found, advantages, split=split), strong=True)]
    parts += [Line("", f"{_short(f)}: {f.intended.sentence}") for f in found if f.intended.empty]
    labels, legend = labels_of([f.intended.aggregation for f in found], across=True)
    parts += legend
    tokens = found[0].intended.lengths
    shown = min(tokens.size, MOST_ROWS)
    base = ["response", "tokens", *(["advantage"] if advantages is not None else [])]
    columns = [*base, *(labels[f.intended.aggregation] for f in found)]
    for title, name in (("Weight of each token", "values"), ("Weight of the whole response", "response_weights")):
        rows = []
        for i in range(shown):
            own = [str(i + 1), f"{tokens[i]:,.0f}", *([f"{advantages[i]:g}"] if advantages is not None else [])]
            rows.append([*own, *(f"{getattr(f.intended, name)[i]:.6g}" for f in found)])
        if name == "response_weights":
            sums = ["all", f"{tokens.sum():,.0f}", *([""] if advantages is not None else [])]
            rows.append([*sums, *(f"{f.intended.total:.6g}" for f in found)])
        parts += [Heading(title), Grid(columns, rows, right=frozenset(range(1, len(columns))))]
    if shown < tokens.size:
        parts.append(Paragraph(f"{tokens.size - shown:,} more responses are in --json."))
    if advantages is not None:
        parts.append(Heading("Net push on the sampled tokens: sum of advantage x tokens x weight"))
        pushes = [[labels[f.intended.aggregation], f"{_round(f.intended.aggregate(advantages)):.6g}"] for f in found]
        parts.append(Grid(["aggregation", "net push"], pushes, right=frozenset({1})))
    if split:
        parts += _split_part(found, advantages, labels)
    return [*parts, *_meanings([f.intended.aggregation for f in found])]


def _lengths_verdict(found: Sequence[SplitWeights], advantages: Any, *, split: bool) -> str:
    if split:
        bad = [f for f in found if f.misplaced is not None and f.misplaced > MISPLACED]
        if bad:
            worst = max(bad, key=lambda f: f.misplaced or 0.0)
            return f"the split misplaces {_percent(worst.misplaced)} of the weight of {_short(worst)}"
        return "the split leaves the shares of the weight as they should be"
    if advantages is not None:
        return "net push " + ", ".join(f"{_short(f)} {_round(f.intended.aggregate(advantages)):.4g}" for f in found)
    empty = all(f.intended.total == 0.0 for f in found)
    if empty:
        return "no response has a loss token, so nothing is learned"
    longest = int(found[0].intended.lengths.argmax())
    shares = ", ".join(f"{_short(f)} {_percent(float(f.intended.shares[longest]))}" for f in found)
    return f"share of the weight on the longest response: {shares}"


def _split_part(found: Sequence[SplitWeights], advantages: Any, labels: dict[Aggregation, str]) -> list[Part]:
    split = found[0].split
    counts = sorted({int(n) for n in split.micro_batches})
    each = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    parts: list[Part] = [Heading(f"After the split: {split.ranks} rank(s) with {each} micro-batch(es) each")]
    columns = ["aggregation", "misplaced", "weight, least", "weight, most", "total"]
    columns += ["net push"] if advantages is not None else []
    rows = []
    for f in found:
        row = [labels[f.intended.aggregation], _percent(f.misplaced), _times(f.smallest_ratio), _times(f.largest_ratio)]
        row.append(f"{f.total:.4g}")
        if advantages is not None:
            row.append(f"{_round(float(advantages @ f.response_weights)):.4g}")
        rows.append(row)
    parts.append(Grid(columns, rows, right=frozenset(range(1, len(columns)))))
    parts.append(Paragraph("Least and most: real over intended weight of a token."))
    return parts


def pilot_page(bias: LengthBias, errors: SplitErrors | None) -> list[Part]:
    """Shares of the weight of a pilot, what moves the policy, and what a split does."""
    parts: list[Part] = [Line("Answer", _pilot_verdict(bias, errors), strong=True)]
    kinds = {k.replace("_", "-"): n for k, n in bias.kinds.items()}
    unscored = kinds.pop("unscored")
    groups = ", ".join(f"{n:,} {k}" for k, n in kinds.items()) + f", {unscored:,} with fewer than 2 scored"
    parts.append(
        Line("Pilot", f"{bias.counted:,} rollouts with a length of {bias.prompts:,} prompts; groups: {groups}")
    )
    left = [f"{bias.unknown:,} without a length"] if bias.unknown else []
    left += [f"{bias.empty:,} of length 0, which have no weight"] if bias.empty else []
    if left:
        parts.append(Line("", "rollouts left out: " + ", ".join(left)))
    lengths = f"mean {bias.mean_tokens:,.0f} tokens"
    if bias.median_tokens is not None and _told(bias, "long"):
        lengths += f"; long is over the median, {bias.median_tokens:,.0f}"
        if bias.decile_tokens is not None and _told(bias, "longest"):
            lengths += f"; the longest tenth is over {bias.decile_tokens:,.0f}"
    parts.append(Line("Length", lengths))
    if bias.lengths is RolloutLengths.MEANS:
        parts.append(Line("", f"{bias.lengths.sentence} So shares on long responses are unknown."))
    parts += [Line("", text) for text in _cut(bias)]
    labels, legend = labels_of([row.aggregation for row in bias.rows])
    parts += legend
    limits = f"{percent(bias.level)} limits over prompts"
    far = [name for name in ("long", "longest") if _told(bias, name)]
    parts.append(Heading(f"Share of the weight ({limits})"))
    parts.append(_shares_grid(bias, [*far, "wrong", "mixed"], labels))
    other = ["all_pass", "all_fail", *(n for n in ("unscored", "failed") if getattr(bias.rollouts, n).value)]
    parts.append(Heading("Other groups and rollouts, share of the weight"))
    parts.append(_shares_grid(bias, other, labels))
    parts.append(Heading(f"What moves the policy: weight x |advantage| of {bias.estimator} ({limits})"))
    parts.append(_shares_grid(bias, [f"gradient_{name}" for name in (*far, "wrong")], labels))
    parts.append(Heading(f"Net push on the sampled tokens, and pull on length ({limits})"))
    rows = [[_name(row, labels), _signed(row.net), _signed(row.pull), _direction(row.pull)] for row in bias.rows]
    parts.append(Grid(["aggregation", "net push", "pull on length", ""], rows, right=frozenset({1, 2})))
    if errors is not None:
        parts += _errors_part(errors, labels)
    return [*parts, *_meanings([row.aggregation for row in bias.rows]), *_assumptions(bias, errors)]


def _pilot_verdict(bias: LengthBias, errors: SplitErrors | None) -> str:
    if errors is not None:
        worst = max(errors.rows, key=lambda e: e.misplaced)
        if worst.misplaced > MISPLACED:
            return (
                f"the split misplaces {_percent(worst.misplaced)} of the weight of {_option(worst.aggregation)} in a "
                f"mean step ({_percent(worst.misplaced_low)} to {_percent(worst.misplaced_high)} in nine of ten)"
            )
        return "the split leaves the shares of the weight as they should be"
    what = "long" if bias.median_tokens is not None and _told(bias, "long") else "wrong"
    told = ", ".join(f"{_name(row)} {_share(getattr(row, what))}" for row in bias.rows)
    return f"weight on {'responses longer than the median' if what == 'long' else 'wrong responses'}: {told}"


NAMES = {
    "long": "long", "longest": "longest tenth", "wrong": "wrong", "mixed": "mixed groups",
    "all_pass": "all-pass groups", "all_fail": "all-fail groups", "unscored": "< 2 scored", "failed": "failed scoring",
    "gradient_long": "long", "gradient_longest": "longest tenth", "gradient_wrong": "wrong",
}  # fmt: skip


def _told(bias: LengthBias, name: str) -> bool:
    """Whether a bound on lengths parts the responses: none is longer than the largest length."""
    bound = {"long": bias.median_tokens, "longest": bias.decile_tokens}[name]
    return bound is None or bias.longest_tokens is None or bound < bias.longest_tokens


def _cut(bias: LengthBias) -> list[str]:
    """What a common largest length does to the words long and longest."""
    if not _told(bias, "long"):
        said = "Half or more of the responses have the largest length"
        what = "so none is longer than the median, and shares on long ones are not shown"
    elif not _told(bias, "longest"):
        said = "A tenth or more of the responses have the largest length"
        what = "so there is no longest tenth beyond it, and its shares are not shown"
    else:
        return []
    return [f"{said}, {bias.longest_tokens:,.0f} (cut at one length?): {what}."]


def _shares_grid(bias: LengthBias, names: Sequence[str], labels: dict[Aggregation, str]) -> Grid:
    rows = [bias.rollouts, *bias.rows]
    cells = [[_name(row, labels), *(_share(getattr(row, name)) for name in names)] for row in rows]
    return Grid(["", *(NAMES[n] for n in names)], cells, right=frozenset(range(1, len(names) + 1)))


def _errors_part(errors: SplitErrors, labels: dict[Aggregation, str]) -> list[Part]:
    title = (
        f"After a split: {errors.groups_per_step:,} groups a step, micro-batches of {errors.micro_batch:,}, "
        f"{errors.ranks:,} rank(s)"
    )
    columns = ["aggregation", "misplaced", "nine steps in ten", "weight, least", "weight, most"]
    rows = [
        [
            labels.get(e.aggregation, _option(e.aggregation)), _percent(e.misplaced),
            f"{_percent(e.misplaced_low)} to {_percent(e.misplaced_high)}",
            _times(e.smallest_ratio), _times(e.largest_ratio),
        ]
        for e in errors.rows
    ]  # fmt: skip
    text = (
        f"Means over {errors.steps:,} steps drawn from the pilot (seed {errors.seed}). Least and most: real over "
        "intended weight of a token in a step."
    )
    return [Heading(title), Grid(columns, rows, right=frozenset(range(1, 5))), Paragraph(text)]


def _meanings(kinds: Sequence[Aggregation | None]) -> list[Part]:
    parts: list[Part] = [Heading("The aggregations")]
    for kind in kinds:
        if kind is None:
            continue
        note = f" {kind.note}" if kind.note else ""
        constant = f", C the {kind.constant}" if kind.constant else ""
        where = f"{kind.trainer} {kind.version}, {kind.setting}"
        weighs = f"a token weighs {kind.formula}{constant}; {kind.reduction.value}.{note}"
        parts.append(Bullet(f"{kind.option} ({where}): {weighs}"))
    parts.append(
        Paragraph("l: loss tokens of the response, L: of all, N: responses, N+: those with a loss token, M: prompts.")
    )
    return parts


def _assumptions(bias: LengthBias, errors: SplitErrors | None) -> list[Part]:
    points = [
        "The responses are taken as one batch at ratio 1: no clipping, no KL term.",
        f"Advantages are those of {bias.estimator} on pass and fail, in groups as large as the pilot's.",
        "Prompts are independent. Long is a fixed length here: limits do not count that it was estimated.",
        "The pull takes one chance of stopping for all tokens: it tells a direction, not a number of tokens.",
    ]
    if errors is not None:
        points.append(
            "Groups are dealt to ranks in order; the responses of a rank are shuffled into micro-batches of one size."
        )
    return [Heading("What this rests on"), *(Bullet(point) for point in points)]


def _short(found: SplitWeights) -> str:
    return _option(found.intended.aggregation)


def _option(kind: Aggregation) -> str:
    return kind.option if kind.trainer == "trl" else kind.name


def _name(row: WeightShares, labels: dict[Aggregation, str] | None = None) -> str:
    if row.aggregation is None:
        return "rollouts"
    return _option(row.aggregation) if labels is None else labels[row.aggregation]


def _percent(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    if value < NOTHING:
        return "0%"
    return "<0.1%" if value < 0.0005 else f"{100.0 * value:.1f}%" if value < 0.0995 else f"{100.0 * value:.0f}%"


def _share(limits: Limits) -> str:
    if limits.value is None:
        return UNKNOWN
    if limits.low is None or limits.high is None:
        return f"{_percent(limits.value)} [no limits]"
    return f"{_percent(limits.value)} [{100.0 * limits.low:.0f}, {100.0 * limits.high:.0f}]"


def _signed(limits: Limits) -> str:
    if limits.value is None:
        return UNKNOWN
    if limits.low is None or limits.high is None:
        return f"{_round(limits.value):+.3f} [no limits]"
    return f"{_round(limits.value):+.3f} [{_round(limits.low):+.3f}, {_round(limits.high):+.3f}]"


def _direction(limits: Limits) -> str:
    if limits.value is None or limits.low is None or limits.high is None:
        return ""
    if limits.low > PUSH:
        return "longer"
    return "shorter" if limits.high < -PUSH else "cannot tell"


def _times(value: float | None) -> str:
    return UNKNOWN if value is None else f"x {value:.3g}"


def _round(value: float) -> float:
    """Without the last bits of a sum that is 0."""
    return 0.0 if abs(value) < PUSH else value
