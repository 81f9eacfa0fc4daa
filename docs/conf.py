"""Sphinx: the documentation as a site. `make docs` builds it into ``build/docs``."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "retrieval-worker"
author = "The retrieval-worker authors"
version = release = metadata.version(project)

extensions = ["myst_parser", "reference_pages"]
exclude_patterns = ["_ext"]
source_suffix = {".md": "markdown"}

# Links as a web view of the repository follows them: page.md#heading.
myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]
myst_links_external_new_tab = False

html_theme = "furo"
html_title = project
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
# The page may be served from any folder and read without a network: nothing is fetched.
html_theme_options = {"top_of_page_buttons": []}

# What Pygments has no lexer for, or only in part, is shown as it is.
suppress_warnings = ["misc.highlighting_failure"]
