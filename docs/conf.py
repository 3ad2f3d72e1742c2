"""The documentation site: ``python -m sphinx -W --keep-going -n -b html docs OUT`` (extra ``docs``).

The pages are plain Markdown that reads well without the site too. No page of the site needs a network. Links to other
sites are held against ``docs/site/links.txt`` by a test; ``python -m sphinx -b linkcheck docs OUT`` asks these sites.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE / "site")]

from grpo_plan import __version__  # noqa: E402

project = "grpo-plan"
author = "The grpo-plan authors"
copyright = "The grpo-plan authors, Apache-2.0"
release = version = __version__

extensions = ["myst_parser", "sphinx_copybutton", "mathml", "pages", "crosslinks"]
root_doc = "index"
exclude_patterns = ["site"]
nitpicky = True
smartquotes = False  # --option is no dash

# Markdown as code-hosting sites read it: $...$ and ```math, anchors of headings, tables.
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_fence_as_directive = ["math"]
myst_heading_anchors = 4
myst_dmath_double_inline = True
html_math_renderer = "mathml"

html_theme = "furo"
html_title = f"grpo-plan {version}"
html_static_path = ["site/static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_search_summary = False  # summaries are fetched, which browsers refuse for pages on disk
pygments_dark_style = "github-dark"
# Only the commands of a console block are copied, not what they print.
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True

default_role = "code"  # docstrings write `name`
toc_object_entries_show_parents = "hide"
python_maximum_signature_line_length = 90
# Names in annotations that are of other libraries, whose pages would need a network to link to.
nitpick_ignore_regex = [
    ("py:.*", r"Axes|Path|(os\.)?PathLike|pl\.DataFrame"),
    ("py:.*", r"(np|numpy)\..*|NDArray|ArrayLike"),
    ("py:.*", r"(collections\.abc\.)?(Callable|Iterable|Iterator|Mapping|Sequence|Collection)"),
]
