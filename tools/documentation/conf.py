"""Sphinx's settings for the site; `__main__.py` says how it is built."""

from ottla import __version__

project = "ottla"
copyright = "the ottla authors"
version = release = __version__

extensions = ["myst_parser"]
myst_enable_extensions = ["attrs_inline", "colon_fence"]
myst_heading_anchors = 4
exclude_patterns = [".doctrees"]

# "--help" stays two hyphens.
smartquotes = False

html_theme = "furo"
html_title = "ottla"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
add_module_names = False
python_maximum_signature_line_length = 100
# What blocks without a language hold is a terminal's text.
highlight_language = "none"
