"""HTML from Jinja2 templates: what is put in is escaped, and equal values give equal bytes.

Templates only lay out; values are prepared in Python. A name that a template misspells is an error.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path
from typing import TYPE_CHECKING

from exporters.archive.figures import blocks_text, size_text, times_text

if TYPE_CHECKING:
    from jinja2 import Environment


def render(package: str, template: str, **values: object) -> bytes:
    """A page as UTF-8, from the folder `templates` of `package`, or else from that of this one."""
    return _environment(package).get_template(template).render(values).encode()


@cache
def _environment(package: str) -> Environment:
    # Most commands render no page.
    from jinja2 import (
        ChoiceLoader,
        Environment,
        FileSystemBytecodeCache,
        PackageLoader,
        StrictUndefined,
    )

    # To compile templates takes 0.1 s: they are kept where Python keeps compiled modules.
    folder = Path(cache_from_source(__file__)).parent
    is_kept = os.access(folder, os.W_OK) and not sys.dont_write_bytecode
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("exporters.archive")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
        bytecode_cache=FileSystemBytecodeCache(str(folder), "%s.jinja") if is_kept else None,
    )
    environment.filters |= {"blocks": blocks_text, "number": "{:,}".format, "size": size_text}
    environment.filters["times"] = times_text
    return environment
