"""Pictures as SVG text: elements, axes, and a figure in two widths with its legend and its table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

from grpo_plan.report.page.scales import Scale
from grpo_plan.report.page.words import visible

WIDE, NARROW = (760.0, 340.0), (340.0, 280.0)
TICK, GAP = 5.0, 6.0
ATTRIBUTE = {ord('"'): "&quot;", **{ord(sign): f"&#{ord(sign)};" for sign in "\n\r\t"}}  # else they get lost


def element(name: str, *inside: str, **attributes: str | float | None) -> str:
    """One element; ``_`` of a name stands for ``-``, a trailing one is dropped, and what is inside is markup already.

    >>> element("text", text("a < b"), x=1.5, text_anchor="end", class_="tick")
    '<text x="1.5" text-anchor="end" class="tick">a &lt; b</text>'
    """
    held = "".join(
        f" {key.rstrip('_').replace('_', '-')}={_quoted(_number(value))}"
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{held}>{''.join(inside)}</{name}>" if inside else f"<{name}{held}/>"


def _quoted(value: str) -> str:
    return f'"{escape(value, quote=False).translate(ATTRIBUTE)}"'


def _number(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")


def text(words: object) -> str:
    """Words, escaped."""
    return escape(visible(str(words)), quote=False)


def line(points: Iterable[tuple[float, float]], class_: str) -> str:
    """A line through points, in pixels; nothing where there are none."""
    points = list(points)
    if not points:
        return ""
    return element("path", d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points), class_=class_)


def band(low: Sequence[tuple[float, float]], high: Sequence[tuple[float, float]], class_: str) -> str:
    """What lies between two lines."""
    return line([*low, *reversed(high)], class_)


MARKS = {
    "dot": lambda x, y: element("circle", cx=x, cy=y, r=3.5),
    "square": lambda x, y: element("rect", x=x - 3.5, y=y - 3.5, width=7, height=7),
    "diamond": lambda x, y: element("path", d=f"M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5 -5z"),
    "triangle": lambda x, y: element("path", d=f"M{x:.1f} {y - 5:.1f}l5 9h-10z"),
}


def mark(shape: str, x: float, y: float, class_: str) -> str:
    """A marker: ``dot``, ``square``, ``diamond`` or ``triangle``."""
    return element("g", MARKS[shape](x, y), class_=class_)


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """What an axis shows.

    Attributes:
        title: Its name, with the unit.
        low: Smallest number.
        high: Largest number.
        ticks: Numbers named, and their words.
        log: Whether equal ratios are equal lengths.
    """

    title: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]] = ()
    log: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """The place of a picture and its two axes."""

    width: float
    height: float
    x: Scale
    y: Scale
    narrow: bool

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Place of a point, in pixels."""
        return self.x(x), self.y(y)

    def points(self, pairs: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
        """Places of points, in pixels."""
        return [self.at(x, y) for x, y in pairs]


Draw = Callable[[Plot], list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A line of the legend: a class of ``page.css``, how it is drawn (line, band, bar or a marker), and words."""

    class_: str
    shape: str
    words: str

    @property
    def swatch(self) -> str:
        """The sample that stands before the words."""
        if self.shape == "line":
            drawn = line([(1, 7), (27, 7)], self.class_)
        elif self.shape in ("band", "bar"):
            drawn = element("rect", x=1, y=2, width=26, height=10, class_=self.class_)
        else:
            drawn = mark(self.shape, 14, 7, self.class_)
        return element("svg", drawn, viewBox="0 0 28 14", width=28, height=14, aria_hidden="true", class_="swatch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The numbers of a picture: a caption, headings, and rows of cells as shown; the first cell heads its row."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    marked: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture in the page.

    Attributes:
        name: Its id.
        title: One line for the reader, and the name of the picture for a screen reader.
        description: What it shows, in words.
        wide: SVG for 600 pixels and more.
        narrow: SVG for phones.
        keys: Legend.
        table: Its numbers.
        note: What to know, below it.
    """

    name: str
    title: str
    description: str
    wide: str
    narrow: str
    keys: Sequence[Key]
    table: Table
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Canvas:
    """What every picture has: its name, words, axes, and rows (for bars with names at the left)."""

    name: str
    title: str
    description: str
    x: Axis
    y: Axis
    left: float = 50.0
    sizes: tuple[tuple[float, float], tuple[float, float]] = (WIDE, NARROW)
    follows: str | None = None
    keys: Sequence[Key] = field(default_factory=tuple)

    def draw(self, inside: Draw, table: Table, note: str = "") -> Picture:
        """The picture in both widths."""
        wide, narrow = (self._svg(inside, size, narrow=i == 1) for i, size in enumerate(self.sizes))
        return Picture(
            name=self.name, title=self.title, description=self.description, wide=wide, narrow=narrow, keys=self.keys,
            table=table, note=note,
        )  # fmt: skip

    def _svg(self, inside: Draw, size: tuple[float, float], *, narrow: bool) -> str:
        width, height = size
        left = min(self.left, 0.34 * width)
        x = Scale(low=self.x.low, high=self.x.high, start=left, stop=width - 14, log=self.x.log)
        y = Scale(low=self.y.low, high=self.y.high, start=height - 44, stop=30, log=self.y.log)
        plot = Plot(width=width, height=height, x=x, y=y, narrow=narrow)
        id_ = f"{self.name}-{'narrow' if narrow else 'wide'}"
        parts = [
            element("title", text(self.title), id=f"{id_}-title"),
            element("desc", text(self.description), id=f"{id_}-desc"),
            *_axes(plot, self.x, self.y),
            *inside(plot),
        ]
        if self.follows:
            parts.append(_choice(plot))
        return element(
            "svg", *parts, viewBox=f"0 0 {width:g} {height:g}", role="img",
            aria_labelledby=f"{id_}-title {id_}-desc", class_="narrow" if narrow else "wide",
            data_x=x.data, data_y=y.data, data_follows=self.follows,
        )  # fmt: skip


def _axes(plot: Plot, x: Axis, y: Axis) -> list[str]:
    left, right, bottom = plot.x.start, plot.x.stop, plot.y.start
    parts = []
    for value, words in y.ticks:
        place = plot.y(value)
        parts.append(element("line", x1=left, x2=right, y1=place, y2=place, class_="grid"))
        parts.append(element("text", text(words), x=left - GAP, y=place + 4, class_="tick end"))
    last = -1e9
    for value, words in x.ticks:
        place = plot.x(value)
        if place - last < 7 * len(words) + 6:
            continue
        last = place
        parts.append(element("line", x1=place, x2=place, y1=bottom, y2=bottom + TICK, class_="axis"))
        parts.append(element("text", text(words), x=place, y=bottom + 18, class_="tick middle"))
    parts.append(element("line", x1=left, x2=right, y1=bottom, y2=bottom, class_="axis"))
    if x.title:
        parts.append(element("text", text(x.title), x=right, y=bottom + 36, class_="name end"))
    if y.title:
        parts.append(element("text", text(y.title), x=left, y=14, class_="name"))
    return parts


def _choice(plot: Plot) -> str:
    """The mark that follows the what-if choice; the script places and shows it."""
    return element(
        "g",
        element("line", x1=0, x2=0, y1=plot.y.stop, y2=plot.y.start, class_="choice-line"),
        element("g", MARKS["diamond"](0, 0), class_="choice-mark"),
        class_="choice",
        display="none",
    )
