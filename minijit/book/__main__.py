"""`python -m minijit.book`, or `python minijit/book` by path.

By path nothing of the library is imported, so the book's tools work while it is broken:
the package is loaded from its folder under another name, and the folder leaves
`sys.path`, where its modules would hide others.
"""

import importlib
import importlib.util
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def by_path() -> None:
    """Load this folder as the package `minijit_book`."""
    sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() != HERE]
    spec = importlib.util.spec_from_file_location(
        "minijit_book", HERE / "__init__.py", submodule_search_locations=[str(HERE)]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["minijit_book"] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    if not __package__:
        by_path()
    cli = importlib.import_module(f"{__package__ or 'minijit_book'}.cli")
    sys.exit(cli.main(sys.argv[1:]))
