"""The contents of the site: which page stands under which heading. A page that is in none ends a strict build."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).resolve().parents[1]
CONTENTS: dict[str, tuple[str, ...]] = {
    "Start": ("start", "choosing", "examples", "tutorial"),
    "Before a run": ("pilot-design", "trainers", "passk", "remedies", "simulation"),
    "During a run": ("diagnosis", "live", "advantages", "losses"),
    "Look and share": ("report", "gallery", "terminal", "python", "frames"),
    "Files": ("formats", "bad-inputs", "scale", "json"),
    "Reference": ("cli", "api", "glossary", "faq"),
    "Why believe it": ("evidence", "theory", "calibration", "validation", "diagnosis-study"),
    "Project": ("design", "changelog"),
}

SHORT = {  # titles in the side bar, where the page's own is long
    "passk": "pass@k",
    "remedies": "Remedies",
    "simulation": "Simulated learning",
    "losses": "Losses",
    "diagnosis-study": "Detection and false alarms",
}


def existing() -> dict[str, tuple[str, ...]]:
    """The contents, with the pages that there are."""
    return {
        heading: tuple(page for page in pages if (DOCS / f"{page}.md").exists()) for heading, pages in CONTENTS.items()
    }


def title_of(page: str) -> str:
    """The first heading of a page."""
    for line in (DOCS / f"{page}.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            return line.removeprefix("# ").strip()
    raise ValueError(f"docs/{page}.md has no heading. Begin it with '# TITLE'.")


def listed() -> str:
    """The contents as Markdown, for docs/index.md."""
    rows = ["| part | pages |", "|---|---|"]
    for heading, pages in existing().items():
        rows.append(f"| {heading} | " + " · ".join(f"[{title_of(page)}]({page}.md)" for page in pages) + " |")
    return "\n".join(rows) + "\n"
