"""docs/calibration.md from figures/calibration.csv and figures/census.csv.

Run ``python -m figures.calibration_page`` after either table was measured anew. A test compares.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import mean, median

from figures.truths import SYNTHETIC

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "calibration.md"
Row = dict[str, str]
BAR = 0.92
ESTIMATORS = {
    "auto": "grpo-plan",
    "beta": "Beta",
    "nonparametric": "raw NPMLE",
    "plug-in": "plug-in",
    "iid": "i.i.d.",
}
REAL_NAMES = {
    "gsm8k 8B": "GSM8K, Llama-3-8B-Instruct, 127 prompts, n = 10,000",
    "gsm8k 70B": "GSM8K, Llama-3-70B-Instruct, 127 prompts, n = 10,000",
    "math 8B": "MATH, Llama-3-8B-Instruct, 128 prompts, n = 10,000",
    "math 70B": "MATH, Llama-3-70B-Instruct, 128 prompts, n = 10,000",
    "math500 1B": "MATH-500, Llama-3.2-1B-Instruct, 500 prompts, n = 1,280",
}


def rows_of(name: str) -> list[Row]:
    """Rows of a table beside this file."""
    with (HERE / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def standard_error(replications: float) -> float:
    """Of a coverage near 95 %."""
    return float((0.95 * 0.05 / replications) ** 0.5)


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """A Markdown table."""
    names = list(header)
    return [f"| {' | '.join(names)} |", "|" + "---|" * len(names), *(f"| {' | '.join(row)} |" for row in rows), ""]


def by_cell(rows: list[Row], cell: Callable[[list[Row]], str]) -> list[list[str]]:
    """One line for each (M, n), one entry for each multiple of n."""
    lines = []
    for prompts in sorted({int(r["prompts"]) for r in rows}):
        for n in sorted({int(r["rollouts"]) for r in rows}):
            here = [r for r in rows if (int(r["prompts"]), int(r["rollouts"])) == (prompts, n)]
            if here:
                groups = [[r for r in here if int(r["group_size"]) == m * n] for m in (1, 2, 4, 8)]
                lines.append([f"{prompts:,}", str(n), *(cell(group) for group in groups)])
    return lines


def coverage_cell(column: str, width: str) -> Callable[[list[Row]], str]:
    """Mean and least coverage over populations, and the mean width."""

    def cell(rows: list[Row]) -> str:
        known = [r for r in rows if r[column]]
        values = [float(r[column]) for r in known]
        return f"{mean(values):.3f} / {min(values):.3f} [{mean(float(r[width]) for r in known):.3f}]"

    return cell


def coverage_section(rows: list[Row]) -> list[str]:
    """Coverage of the default interval."""
    values = [float(r["coverage"]) for r in rows]
    replications = int(rows[0]["replications"])
    error = standard_error(replications)
    below = sorted((r for r in rows if float(r["coverage"]) < BAR), key=lambda r: float(r["coverage"]))
    lines = [
        "## Coverage of the 95 % interval",
        "",
        f"{len(rows)} cells of {replications} pilots; the standard error of one coverage is about {error:.3f}. Median over "
        f"cells {median(values):.3f}; {sum(v >= 0.93 for v in values)} cells are at .93 or above, "
        f"{len(below)} below .92. Entries: mean / least over populations [mean width].",
        "",
        *table(["M", "n", "G = n", "2n", "4n", "8n"], by_cell(rows, coverage_cell("coverage", "width"))),
    ]
    if below:
        lines += [
            f"Cells below .92 (three standard errors below .95 is {0.95 - 3 * error:.3f}):",
            "",
            *table(
                ["population", "M", "n", "G", "coverage", "truth above high", "truth below low"],
                (
                    [
                        r["truth"],
                        f"{int(r['prompts']):,}",
                        r["rollouts"],
                        r["group_size"],
                        f"{float(r['coverage']):.3f}",
                        f"{float(r['below']):.3f}",
                        f"{float(r['above']):.3f}",
                    ]
                    for r in below
                ),
            ),
        ]
    else:
        lines += ["No cell is below .92.", ""]
    return lines


def smooth_section(rows: list[Row]) -> list[str]:
    """Coverage of the second, narrower interval."""
    return [
        "## The second interval, which assumes a smooth F",
        "",
        "`smooth` in the JSON, `DeadFraction.smooth_interval` in Python: the spread within and between the averaged fits "
        "(theory.md, eq. 40). Narrower, and not honest where pass rates take few values or sit in atoms and G is far "
        "beyond n. It is never the default. Same entries, over the pilots that have one.",
        "",
        *table(["M", "n", "G = n", "2n", "4n", "8n"], by_cell(rows, coverage_cell("smooth_coverage", "smooth_width"))),
    ]


def few_section(rows: list[Row]) -> list[str]:
    """Coverage where pass rates take few values."""
    body = []
    for row in rows:
        if int(row["group_size"]) <= 4 * int(row["rollouts"]):
            body.append(row)
    cells = sorted({(r["truth"], int(r["prompts"]), int(r["rollouts"])) for r in body})
    lines = []
    for truth, prompts, n in cells:
        at = {
            int(r["group_size"]): r
            for r in body
            if (r["truth"], int(r["prompts"]), int(r["rollouts"])) == (truth, prompts, n)
        }
        entries = [f"{float(at[m * n]['coverage']):.3f} [{float(at[m * n]['width']):.3f}]" for m in (1, 2, 4)]
        lines.append([truth, f"{prompts:,}", str(n), *entries])
    least = min(float(r["coverage"]) for r in rows)
    return [
        "## Where pass rates take few values",
        "",
        "The weak spot, at larger n too: all prompts alike, or two or three pass rates only. The law of k then lies on the edge "
        "of what mixtures can make, and from G = 2n on the lower limit is too high too often (D itself is small there, and so "
        f"are the misses). Least coverage {least:.3f}. Coverage [mean width]; 8n is in `figures/few_values.csv`.",
        "",
        *table(["population", "M", "n", "G = n", "2n", "4n"], lines),
    ]


def error_section(rows: list[Row]) -> list[str]:
    """RMSE of the estimators."""
    at = [r for r in rows if (r["prompts"], r["rollouts"], r["group_size"]) == ("1000", "8", "16")]
    lines = [
        "## Error of the estimates",
        "",
        "Root mean square error of D(16) from 1,000 prompts of 8 rollouts:",
        "",
        *table(
            ["population", "D(16)", *ESTIMATORS.values()],
            (
                [r["truth"], f"{float(r['dead']):.3f}", *(f"{float(r[f'rmse_{e}']):.4f}" for e in ESTIMATORS)]
                for r in at
            ),
        ),
    ]
    synthetic = [r for r in at if r["real"] == "0"]
    ours = [float(r["rmse_auto"]) for r in synthetic]
    beta = [float(r["rmse_beta"]) for r in synthetic]
    lines += [
        f"Over the {len(synthetic)} synthetic populations: grpo-plan mean {mean(ours):.4f}, worst {max(ours):.4f}; Beta mean "
        f"{mean(beta):.4f}, worst {max(beta):.4f}.",
        "",
    ]
    real = [r for r in rows if r["real"] == "1" and r["rollouts"] == "8"]
    if real:
        body = []
        for prompts in ("200", "1000"):
            for size in ("16", "32", "64"):
                here = [r for r in real if (r["prompts"], r["group_size"]) == (prompts, size)]
                means = [mean(float(r[f"rmse_{e}"]) for r in here) for e in ("auto", "beta", "nonparametric")]
                body.append(
                    [
                        f"{int(prompts):,}",
                        size,
                        *(f"{m:.4f}" for m in means),
                        f"{100 * (means[0] / means[1] - 1):+.1f} %",
                    ]
                )
        lines += [
            f"Mean over the {len({r['truth'] for r in real})} measured populations, 8 rollouts per prompt. (With n = 4 or M = 50 a "
            f"plain Beta is ahead there, by at most {100 * _worst_against_beta(rows):.0f} %: noise is then larger than its bias.)",
            "",
            *table(["M", "G", "grpo-plan", "Beta", "raw NPMLE", "against the Beta"], body),
        ]
    return lines


def _worst_against_beta(rows: list[Row]) -> float:
    """Largest relative excess of the mean error over the Beta's on measured populations, any M and n, up to 8n."""
    worst = 0.0
    for cell in {(r["prompts"], r["rollouts"], r["group_size"]) for r in rows}:
        here = [r for r in rows if r["real"] == "1" and (r["prompts"], r["rollouts"], r["group_size"]) == cell]
        ours, beta = (mean(float(r[f"rmse_{e}"]) for r in here) for e in ("auto", "beta"))
        worst = max(worst, ours / beta - 1)
    return worst


def parts_section(rows: list[Row]) -> list[str]:
    """Coverage of the parts and of the simultaneous band."""
    here = [r for r in rows if r["simultaneous_coverage"]]
    body = []
    for m in (1, 2, 4, 8):
        at = [r for r in here if int(r["group_size"]) == m * int(r["rollouts"])]
        passes, fails = ([float(r[c]) for r in at] for c in ("pass_coverage", "fail_coverage"))
        body.append(
            [
                at[0]["group_size"],
                f"{mean(passes):.3f} / {min(passes):.3f}",
                f"{mean(fails):.3f} / {min(fails):.3f}",
                f"{mean(float(r['width']) for r in at):.3f}",
                f"{mean(float(r['simultaneous_width']) for r in at):.3f}",
            ]
        )
    together = [float(r["simultaneous_coverage"]) for r in here]
    return [
        "## Parts, and all group sizes at once",
        "",
        "200 prompts of 8 rollouts. Coverage of the all-pass and all-fail parts (mean / least over populations), and mean "
        "widths of the usual and of the simultaneous interval of D.",
        "",
        *table(["G", "all-pass", "all-fail", "width", "width, all G at once"], body),
        f"The simultaneous intervals hold at all four G together in {min(together):.3f} to {max(together):.3f} of the "
        "pilots: they are conservative, since chi-square with n degrees covers every functional of F.",
        "",
    ]


def census_section(rows: list[Row]) -> list[str]:
    """Coverage of census intervals."""
    replications = int(rows[0]["replications"])
    body = [
        [
            r["population"],
            f"{int(r['prompts']):,}",
            r["group_size"],
            f"{float(r['dead']):.3f}",
            f"{float(r['coverage']):.3f} [{float(r['width']):.3f}]",
            f"{float(r['sample_coverage']):.3f} [{float(r['sample_width']):.3f}]",
            f"{float(r['rmse_auto']):.4f}",
            f"{float(r['rmse_beta']):.4f}",
        ]
        for r in rows
    ]
    values = [float(r["coverage"]) for r in rows]
    beyond = [float(r["coverage"]) for r in rows if r["real"] == "1" and int(r["group_size"]) > 8]
    text = (
        f"{replications} pilots of 8 rollouts for each population, the prompts always the same ones. Synthetic: 500 pass "
        "rates drawn once. Measured: 8 of each prompt's rollouts drawn without replacement, against the unbiased D(G) of all "
        f"of them. Standard error of a coverage about {standard_error(replications):.3f}. Least coverage {min(values):.3f}"
    )
    if beyond:
        text += f"; on the measured sets beyond n: mean {mean(beyond):.3f}, least {min(beyond):.3f}"
    return [
        '## Census: `population="census"`',
        "",
        f"{text}. Entries: coverage [mean width] of the census and of the sample interval; errors of the value and of the "
        "Beta fit.",
        "",
        *table(["population", "prompts", "G", "D(G)", "census", "sample", "RMSE", "RMSE of the Beta"], body),
    ]


def page() -> str:
    """The whole page."""
    rows, census = rows_of("calibration.csv"), rows_of("census.csv")
    lines = [
        "# Calibration",
        "",
        "Do the intervals hold, and how far off are the values? Simulated pilots from populations whose D(G) is known. The "
        "tables are written by `figures/calibration_page.py` from `figures/calibration.csv`, `figures/few_values.csv` and `figures/census.csv`, "
        "which `python -m figures.calibration`, the same with `few`, and `python -m figures.census` measure (about an hour on two "
        "cores); seeds are in the scripts. Only the 95 % level was measured on this grid.",
        "",
        "## Populations",
        "",
        *table(["name", "pass rates"], ([t.name, t.what] for t in SYNTHETIC)),
        "Measured (prompts drawn with replacement, each with its observed share of many rollouts as p): "
        + "; ".join(f"*{name}*: {what}" for name, what in REAL_NAMES.items() if name in {r["truth"] for r in rows})
        + ".",
        "",
        *coverage_section(rows),
        *few_section(rows_of("few_values.csv")),
        *error_section(rows),
        *smooth_section(rows),
        *parts_section(rows),
        *census_section(census),
    ]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    """Write it."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
