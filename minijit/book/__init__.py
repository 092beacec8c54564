"""The book machinery: the notebooks in `chapters/` build the library.

In a notebook, `%load_ext minijit.book` gives

    %chapter 6                      minijit is now what the chapters before 6 built
    %%build minijit/trace/core.py   run this text in that module, patching what it edits
    %check NAME                     is exercise NAME solved?  prints `right`, or a hint

and in a shell, `python -m minijit.book` (or `python minijit/book`, which also works
when the library itself does not import) gives `check`, `sync`, `run`, `stage`, `test`
and more.

The library's files are the truth.  The build cells of a file, in book order, one after
another, are that file letter for letter, so stage k of a file is a prefix of it, and
staging reads no notebook.  `text` cuts files into statements, `project` reads
`book.toml`, `stage` serves the prefixes, `build` and `patch` make edits live; `check`,
`sync`, `author`, `run`, `stages` and `exercise` look after the notebooks.  Nothing here
imports the rest of minijit.
"""


def load_ipython_extension(shell):
    """Register `%chapter`, `%%build` and `%check` in an IPython shell."""
    from . import magics

    magics.register(shell)
