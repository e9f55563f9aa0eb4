"""Configuration of the documentation; built by scripts/check with warnings as errors."""

from importlib.metadata import version as installed_version

project = "scalewall"
author = "The scalewall authors"
copyright = "2026, The scalewall authors"
version = release = installed_version("scalewall")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinxcontrib.bibtex",
]
exclude_patterns = ["_build"]
nitpicky = False  # names such as array_like or ndarray have no page of ours to link to

html_theme = "furo"
html_title = f"scalewall {release}"

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

bibtex_bibfiles = ["references.bib"]
bibtex_reference_style = "author_year"

autodoc_member_order = "bysource"  # the order in which the author tells the story
autodoc_typehints = "signature"

# The members of a class come from autodoc; numpydoc's own list would show them twice and ask for stub pages.
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
