"""Help pages: the sentence, an example to copy, then the options by what they are about."""

from __future__ import annotations

import re
import sys
import textwrap
from typing import Any

from typer.core import TyperCommand, TyperGroup

from grpo_plan._suggest import did_you_mean
from grpo_plan.cli.help_groups import COMMAND_GROUPS, OPTION_GROUPS, QUESTION, group_of
from grpo_plan.cli.terminal import colours, page_width, prose_width

EXAMPLE = "Example: "
NAME_WIDTH = 30  # columns of the names of options, gaps included; longer ones stand on a line of their own
NARROW = 60  # columns
TYPES = {"<str>": "TEXT", "<int>": "N", "<float>": "X", "<list[str]>": "", "<bool>": ""}
END = "Shell completion: grpo-plan --install-completion. Help of a command: grpo-plan COMMAND --help."


class Page:
    """Lines of a help page."""

    def __init__(self) -> None:
        self._bold = colours(sys.stdout)
        self._width = prose_width()
        self.lines: list[str] = []

    def heading(self, text: str) -> None:
        """A title, after an empty line."""
        self.lines += ["", f"\x1b[1m{text}:\x1b[0m" if self._bold else f"{text}:"]

    def paragraph(self, text: str, indent: str = "  ") -> None:
        """Sentences, after an empty line; an example stays on one line, to be copied."""
        text = " ".join(text.split())
        if text.startswith(EXAMPLE):
            self.heading("Example")
            self.lines.append(f"  {text.removeprefix(EXAMPLE)}")
        else:
            self.lines += ["", *textwrap.wrap(text, self._width, initial_indent=indent, subsequent_indent=indent)]

    def usage(self, text: str) -> None:
        """The first line."""
        self.lines += textwrap.wrap(text, page_width(), subsequent_indent=" " * 7, break_on_hyphens=False)

    def listing(self, rows: list[tuple[str, str]], wide: int = NAME_WIDTH) -> None:
        """Names and what they mean, side by side; under each other where the page is narrow."""
        wide = 8 if self._width < NARROW else wide
        for name, text in rows:
            parts = textwrap.wrap(text, self._width - wide, break_on_hyphens=False) or [""]
            if len(name) + 4 > wide:
                self.lines += [f"  {name}", *(f"{'':{wide}}{part}" for part in parts)]
            else:
                self.lines.append(f"  {name:{wide - 2}}{parts[0]}".rstrip())
                self.lines += [f"{'':{wide}}{part}" for part in parts[1:]]


def _record(param: Any, ctx: Any) -> tuple[str, str] | None:
    """Name and meaning of an option or argument, with plain words for its type."""
    record = param.get_help_record(ctx)
    if record is None:
        return None
    name, text = record
    for word, plain in TYPES.items():
        name = name.replace(word, plain)
    name = re.sub(r"<([^<>]*)>", r"\1", name)
    return name.strip(), text


class Command(TyperCommand):
    """A command whose help groups its options."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the page."""
        page = Page()
        page.usage(f"Usage: {ctx.command_path} {' '.join(self.collect_usage_pieces(ctx))}")
        for paragraph in (self.help or "").split("\n\n"):
            page.paragraph(paragraph)
        arguments: list[tuple[str, str]] = []
        groups: dict[str, list[tuple[str, str]]] = {heading: [] for heading in OPTION_GROUPS}
        order = {name: i for i, name in enumerate(n for names in OPTION_GROUPS.values() for n in names)}
        params = self.get_params(ctx)
        names = {id(p): max(p.opts, key=len).lstrip("-") for p in params}
        for param in sorted(params, key=lambda p: self._place(names[id(p)], order)):
            record = _record(param, ctx)
            if record is None:
                continue
            if param.param_type_name == "argument":
                arguments.append(record)
            else:
                groups[group_of(names[id(param)], self.name or "")].append(record)
        for heading, rows in {"Arguments": arguments, **groups}.items():
            if rows:
                page.heading(heading)
                page.listing(rows)
        formatter.write("\n".join(page.lines) + "\n")

    def _place(self, name: str, order: dict[str, int]) -> int:
        """Where an option stands in its group: a command's own as they are declared, others as in every page."""
        return -1 if group_of(name, self.name or "") == QUESTION else order[name]

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Options and arguments, without braces."""
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]


class Group(TyperGroup):
    """The program: its help groups the commands by what they are for."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the page."""
        page = Page()
        page.usage(f"Usage: {ctx.command_path} {' '.join(self.collect_usage_pieces(ctx))}")
        for paragraph in (self.help or "").split("\n\n"):
            page.paragraph(paragraph)
        widest = max(map(len, self.commands))
        for heading, names in COMMAND_GROUPS.items():
            rows = [(name, self._sentence(name)) for name in names if name in self.commands]
            if rows:
                page.heading(heading)
                page.listing(rows, widest + 4)
        options = [record for p in self.get_params(ctx) if (record := _record(p, ctx)) is not None]
        page.heading("Options")
        page.listing(options)
        page.paragraph(END, indent="")
        formatter.write("\n".join(page.lines) + "\n")

    def _sentence(self, name: str) -> str:
        return " ".join((self.commands[name].help or "").split("\n\n")[0].split())

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that was typed; a wrong name is met with the one that was meant."""
        name = args[0]
        if name not in self.commands and not name.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"No such command {name!r}.{did_you_mean(name, self.commands) or _other_word(name)}")
        return super().resolve_command(ctx, args)


OTHER_WORDS = {
    "group-size": "plan", "estimate": "fit", "monitor": "watch", "check": "diagnose", "analyze": "diagnose",
    "analyse": "diagnose", "doctor": "diagnose", "config": "emit", "export": "emit", "filter": "mix", "sample-size":
    "pilot-size", "dynamic-sampling": "refill", "advantage": "advantages", "figure": "plot", "pass@k": "passk",
    "curriculum": "mix", "html": "report", "compare": "remedies", "train": "simulate",
}  # fmt: skip


def _other_word(name: str) -> str:
    meant = OTHER_WORDS.get(name.lower())
    return "" if meant is None else f" Is it {meant!r} that you look for?"
