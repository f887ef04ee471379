"""Builds the documentation as a site: `python -m tools.documentation` writes build/site, `make docs` calls it.

The pages of docs/ and those that are written from the source (`layout.py`) are laid out in build/site-pages; Sphinx
makes HTML of them. Every warning is an error: a link that leads nowhere, a page that no list names. The site needs no
network and no server: open build/site/index.html.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from tools.documentation.layout import ROOT, lay_out

PAGES = ROOT / "build" / "site-pages"
SITE = ROOT / "build" / "site"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.documentation", description="Build the documentation.")
    parser.add_argument("--pages", type=Path, default=PAGES, help="where the pages are laid out")
    parser.add_argument("--site", type=Path, default=SITE, help="where the site is written")
    given = parser.parse_args(arguments)
    try:
        from sphinx.cmd.build import build_main
    except ImportError:
        print("The documentation needs sphinx, myst-parser and furo: make setup installs them.", file=sys.stderr)
        return 2
    lay_out(given.pages)
    made = given.site.with_name(f"{given.site.name}-made")
    options = ["-W", "--keep-going", "-b", "html", "-c", str(Path(__file__).parent)]
    status = build_main([*options, "-d", str(given.pages / ".doctrees"), str(given.pages), str(made)])
    if status == 0:
        # A site that could not be built leaves the last one as it was.
        shutil.rmtree(given.site, ignore_errors=True)
        made.rename(given.site)
        print(f"{given.site / 'index.html'} is built")
    shutil.rmtree(made, ignore_errors=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
