"""Settings of the site (`make docs`). Neither the build nor its pages need the network."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import bpfa

project = "bpfa"
author = "The bpfa developers"
project_copyright = "The bpfa developers"
version = release = bpfa.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "repository_pages",
    "command_pages",
    "public_names",
    "whole_docstrings",
]
exclude_patterns = ["_build", "_ext", "_templates", "README.md", "api/_*", "**sg_execution_times.rst"]
templates_path = ["_templates"]
nitpicky = True
default_role = "name"
# Options of commands begin with two hyphens, which must not become a dash.
smartquotes = False
# The default settings of the extensions refer to pages of the network.
intersphinx_mapping: dict[str, tuple[str, None]] = {}

# Pages in Markdown. Headings have the anchors that code hosts give them, so that links work in both places.
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

# Reference: one page for every public name, with the types from the docstrings.
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autoclass_content = "class"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

# `make docs-quick` (and continuous integration) leaves the examples unexecuted.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "plot_gallery": os.environ.get("BPFA_DOCS_GALLERY", "run") == "run",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 60,
    # A page with the times would ask other sites for its styles. A test reads them from this file instead.
    "write_computation_times": False,
    "junit": "../gallery.xml",
    "matplotlib_animations": False,
    # Frames are shown, and not that a legend was made.
    "capture_repr": ("_repr_html_",),
    "doc_module": ("bpfa",),
    "backreferences_dir": None,
    "within_subsection_order": "gallery_order.by_number",
}

html_theme = "pydata_sphinx_theme"
html_title = "bpfa"
html_favicon = "_static/favicon.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_last_updated_fmt = None
html_theme_options = {
    "show_nav_level": 1,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "header_links_before_dropdown": 6,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {"default_mode": "auto"}
html_sidebars = {"index": []}
