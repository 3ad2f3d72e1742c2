"""The API reference: plain Markdown tables in the repository, full docstrings on the site."""

from __future__ import annotations

import inspect
from functools import cache

from api_groups import GROUPS, Group

import grpo_plan

BEGIN, END = "<!-- names: begin -->", "<!-- names: end -->"


def summary_of(name: str) -> str:
    """First line of the docstring of a public name."""
    if name == "__version__":
        return "The version of the package, a string."
    return (inspect.getdoc(getattr(grpo_plan, name)) or "").partition("\n")[0]


def _table(rows: list[tuple[str, str]], head: tuple[str, str]) -> str:
    cells = ["| {} | {} |".format(*head), "|---|---|", *("| {} | {} |".format(*row) for row in rows)]
    return "\n".join(cells) + "\n"


def _cell(text: str) -> str:
    return text.replace("``", "`").replace("|", "\\|")


def index() -> str:
    """docs/api.md: the groups of names."""
    rows = [
        (f"[{group.title}](api/{group.slug}.md)", ", ".join(f"`{name}`" for name in group.names)) for group in GROUPS
    ]
    about = (
        "Written by `docs/make_docs.py` from the code. Every name is in `grpo_plan` (`import grpo_plan as gp`), is",
        "loaded when it is first used, and has a docstring: `help(gp.plan_group_size)`. How they work together:",
        "[From Python](python.md). What is not listed here may change without notice.",
    )
    return "# API reference\n\n" + "\n".join(about) + "\n\n" + _table(rows, ("page", "names"))


def page(group: Group) -> str:
    """docs/api/SLUG.md: the names of a group with what each is, and a link to the module."""
    rows = [(f"[`{name}`](../../{_file(name)})", _cell(summary_of(name))) for name in group.names]
    return f"# {group.title}\n\n{group.about}\n\n{BEGIN}\n{_table(rows, ('name', 'what it is'))}{END}\n"


def _file(name: str) -> str:
    module = "grpo_plan" if name == "__version__" else getattr(grpo_plan, name).__module__
    path = module.replace(".", "/")
    return f"{path}/__init__.py" if name == "__version__" else f"{path}.py"


def on_the_site(group: Group) -> str:
    """What stands on the site in the place of the table: links to the entries, then the entries."""
    from entries import entry

    rows = [(f"{{py:obj}}`~grpo_plan.{name}`", _cell(summary_of(name))) for name in group.names]
    lines: list[str] = []
    for name in group.names:
        if name == "__version__":
            lines += [
                ".. py:currentmodule:: grpo_plan",
                "",
                ".. py:data:: __version__",
                "   :type: str",
                "",
                "   The version of the package.",
                "",
            ]
        else:
            lines += entry(getattr(grpo_plan, name), name, "grpo_plan")
    text = _table(rows, ("name", "what it is")) + _rst(lines)
    if parts := parts_of()[group.slug]:
        inner = [line for part in parts for line in entry(part, part.__name__, part.__module__)]
        text += (
            "\n## Parts of these\n\nWhat the above hold or take. They are reached through them; import none of them.\n"
        )
        text += _rst(inner)
    return text


def _rst(lines: list[str]) -> str:
    return "\n```{eval-rst}\n" + "\n".join(lines) + "\n```\n"


@cache
def parts_of() -> dict[str, list[type]]:
    """Classes without a public name that public names speak of, each at the first group that leads to it."""
    from entries import types_of

    public = {id(getattr(grpo_plan, name)) for name in grpo_plan.__all__}
    seen: set[int] = set()
    found: dict[str, list[type]] = {}
    for group in GROUPS:
        parts: list[type] = []
        queue = [getattr(grpo_plan, name) for name in group.names if name != "__version__"]
        while queue:
            for kind in types_of(queue.pop(0)):
                if id(kind) not in public and id(kind) not in seen and not kind.__name__.startswith("_"):
                    seen.add(id(kind))
                    parts.append(kind)
                    queue.append(kind)
        found[group.slug] = parts
    return found
