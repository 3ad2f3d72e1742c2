"""docs/validation.md from the committed raw results. ``python -m figures.validation.page`` writes it; a test compares."""

from __future__ import annotations

import importlib
from pathlib import Path

from figures.diagnosis_page import table
from figures.validation import claims, claims_of_parts
from figures.validation.outcome_plan import Plan, plans
from figures.validation.page_words import changes, head, kept, limits_of, rerun

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "validation.md"
PARTS = ("outcome_page", "forecast_page", "gradients_page", "upper_end_page", "client_page")


def sections() -> dict[str, str]:
    """The sections of each part that is there."""
    found = {}
    for name in PARTS:
        if (Path(__file__).parent / f"{name}.py").exists():
            found[name] = importlib.import_module(f"figures.validation.{name}").page().strip()
    return found


def predictions() -> dict[str, Plan]:
    """The plans, or none while the gradients are not measured."""
    try:
        return plans()
    except FileNotFoundError:
        return {}


def page() -> str:
    """The page."""
    found = predictions()
    rows = [*claims.of_sizes(found), *claims.of_the_rest(found), *claims_of_parts.rows()]
    first = table(["claim", "held against", "result"], rows)
    parts = [*head(), *first, *claims.notes()]
    return (
        "\n".join(parts)
        + "\n"
        + "\n\n".join([*sections().values(), kept(), changes(), limits_of(), rerun()]).rstrip()
        + "\n"
    )


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
