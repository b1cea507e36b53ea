"""Sphinx settings."""

from importlib.metadata import version as installed_version

project = "spectralops"
author = "The spectralops developers"
copyright = "the spectralops developers"
version = release = installed_version("spectralops")

extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"spectralops {release}"

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
numpydoc_show_class_members = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"
default_role = "code"
