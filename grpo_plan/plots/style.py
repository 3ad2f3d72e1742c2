"""The one style of all pictures: palette, sheet, figures, saving. Global settings of matplotlib are never changed.

Colours are Okabe and Ito's, distinct for colour-blind readers; every line also differs in dash or marker, so that the
pictures read in grey. The ground is white whatever the user's own settings are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from grpo_plan._files import write_whole
from grpo_plan.errors import DomainError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, BLUE, VERMILION, ORANGE = "#1a1a1a", "#0072B2", "#D55E00", "#E69F00"
SKY, GREEN, PURPLE, GREY = "#9ecae8", "#009E73", "#cc79a7", "#6e6e6e"
SILVER, PALE, WHITE = "#c4c4c4", "#f2f2f2", "#ffffff"
ROLES: Mapping[str, str] = MappingProxyType(
    {
        "counted, or recommended": INK,
        "estimate and its interval": BLUE,
        "misleads, or all-fail": VERMILION,
        "planned, or plug-in": ORANGE,
        "mixed, or about as good": SKY,
        "all-pass": GREEN,
        "beside": GREY,
        "not known": SILVER,
    }
)
SERIES = (
    (BLUE, "-", "o"), (VERMILION, "--", "s"), (INK, "-.", "^"), (GREEN, (0, (6, 2)), "D"), (ORANGE, (0, (2, 1)), "v"),
    (PURPLE, (0, (1, 1)), "P"),
)  # fmt: skip
BAND = 0.22  # opacity of an interval
WIDE, HIGH = 5.6, 3.6  # inches of one picture
PANEL = 4.9  # width of one of several
SMALL = 8  # points of everything but axis labels and titles
STYLE: Any = {  # of type Any: matplotlib names every key in its own type
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "sans-serif"],
    "font.size": 9,
    "text.color": INK,
    "figure.facecolor": WHITE,
    "figure.dpi": 100,
    "figure.constrained_layout.h_pad": 0.08,
    "figure.constrained_layout.w_pad": 0.08,
    "savefig.facecolor": WHITE,
    "savefig.edgecolor": WHITE,
    "savefig.dpi": 160,
    "savefig.bbox": None,
    "axes.facecolor": WHITE,
    "axes.edgecolor": INK,
    "axes.linewidth": 0.8,
    "axes.labelcolor": INK,
    "axes.labelsize": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#b0b0b0",
    "grid.alpha": 0.35,
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.frameon": True,
    "legend.framealpha": 0.85,
    "legend.edgecolor": "none",
    "legend.facecolor": WHITE,
    "legend.fontsize": SMALL,
    "legend.handletextpad": 0.5,
    "legend.labelspacing": 0.4,
    "hatch.linewidth": 0.6,
    "lines.linewidth": 1.5,
    "lines.markersize": 4.5,
    "svg.hashsalt": "grpo-plan",
    "svg.fonttype": "none",
    "svg.id": None,
    "path.simplify": True,
}
_COORDINATES = re.compile(rb' (?:d|x|y|x1|y1|x2|y2|width|height|transform)="[^"]*"')
_DIGITS = re.compile(rb"(\.\d\d)\d+")  # hundredths of a point are enough
_METADATA, _INDENT = re.compile(rb"\s*<metadata>.*?</metadata>", re.DOTALL), re.compile(rb">\n\s+<")
BESIDE: Any = ("axes fraction", "data")  # coordinates of text at the right of the axes
LETTERS = 15.5  # of small text, an inch
_MARGIN = 6.0  # points between a title and the axes


@contextmanager
def styled() -> Iterator[None]:
    """The sheet, for as long as the block lasts."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        yield


@contextmanager
def canvas(ax: Axes | None, *, width: float = WIDE, height: float = HIGH) -> Iterator[Axes]:
    """Axes to draw on under the sheet: the given ones, dressed as the sheet says, or those of a new figure."""
    with styled():
        yield figure(1, width=width, height=height).axes[0] if ax is None else _dressed(ax)


def figure(panels: int = 1, *, width: float | None = None, height: float = HIGH, rows: int = 1) -> Figure:
    """A figure with panels side by side or in rows, none for 0; it belongs to no window and needs no closing.

    A notebook shows it where it ends a cell: ``gp.plot(fit).figure``.
    """
    from grpo_plan.plots.picture import Picture

    wide = (WIDE if panels < 2 else PANEL * panels) if width is None else width
    made = Picture(figsize=(wide, height), layout="constrained")
    if panels:
        made.subplots(rows, panels)
    return made


def _dressed(ax: Axes) -> Axes:
    ax.set_facecolor(WHITE)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_axisbelow(True)
    ax.grid(visible=True, color=STYLE["grid.color"], alpha=STYLE["grid.alpha"], linewidth=STYLE["grid.linewidth"])
    ax.tick_params(labelsize=SMALL)
    return ax


def titled(ax: Axes, title: str, below: str = "", *, pad: float = _MARGIN) -> None:
    """A title, and below it in grey what the reader must know first: a status, or a range."""
    import textwrap

    if not below:
        ax.set_title(title, pad=pad)
        return
    lines = textwrap.wrap(below, max(24, int(LETTERS * _inches(ax))))
    ax.annotate(
        "\n".join(lines), (0.0, 1.0), (0.0, pad - 2.0), xycoords="axes fraction", textcoords="offset points",
        va="bottom", ha="left", color=GREY, fontsize=SMALL, linespacing=1.2,
    )  # fmt: skip
    ax.set_title(title, pad=pad + 10.5 * len(lines))


def _inches(ax: Axes) -> float:
    """Width from the left edge of the axes to that of the picture once names at the left have found room, about."""
    names = [line for label in ax.get_yticklabels() for line in label.get_text().split("\n")]
    letters = max((len(name) for name in names), default=0)
    return float(ax.get_window_extent().width / (ax.figure.dpi or 100.0) - max(letters - 8, 0) / LETTERS)


def save_figure(figure: Figure, path: Path) -> None:
    """Save without a date or maker, so that the same data give the same file."""
    suffix = path.suffix.lower()
    metadata = {".svg": {"Date": None, "Creator": None}, ".pdf": {"CreationDate": None}}.get(suffix)
    picture = BytesIO()
    with styled():
        figure.savefig(picture, format=suffix.removeprefix("."), metadata=metadata)
    drawn = picture.getvalue()
    if suffix == ".svg":
        drawn = _COORDINATES.sub(lambda found: _DIGITS.sub(rb"\1", found[0]), drawn)
        drawn = _INDENT.sub(rb">\n<", _METADATA.sub(b"", drawn))
    try:
        write_whole(path, drawn)
    except OSError as error:
        raise DomainError(f"{path} cannot be written ({error.strerror}). Give another place.") from None
