"""Sphinx settings."""

import re
from importlib.util import find_spec
from typing import Any

from spectralops import __version__

project = "spectralops"
author = "The spectralops developers"
copyright = "the spectralops developers"
version = release = __version__

extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"spectralops {release}"

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
numpydoc_show_class_members = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"
# The faces for other libraries are documented where these are not installed, too.
autodoc_mock_imports = [name for name in ("torch", "xarray", "pandas") if not find_spec(name)]
default_role = "code"

# In docstrings |k| is an absolute value, as anyone would read it; reStructuredText takes it for a substitution.
BARS = re.compile(r"\.\. math::.*(?:\n(?:[ \t].*)?)*|:math:`[^`]*`|``.+?``|`[^`]*`|\\\||(\|)")


def escape_bars(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Escape the bars outside of mathematics and literals."""
    text = BARS.sub(lambda match: "\\|" if match[1] else match[0], "\n".join(lines))
    lines[:] = text.split("\n")


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", escape_bars)
