"""The book machinery: the notebooks in `chapters/` build the library.

In a notebook, `%load_ext minijit.book` gives

    %chapter 6                      minijit is now what the chapters before 6 built
    %tour random_numbers            ... the finished one
    %%build minijit/trace/core.py   run this text in that module, patching what it edits
    %show minijit/lax.py reciprocal print a statement of the library
    %check NAME                     is exercise NAME solved?  or which case fails
    %skip NAME                      go on with the book's text of a cell to write
    %progress                       what is right so far
    %solution NAME                  show the solution, or the book's text of a cell
    %tb                             the whole of the last traceback, shown short before

and in a shell, `python -m minijit.book` (or `python minijit/book`, which also works
when the library itself does not import) gives readers `start` and `reset`, and authors
`check`, `stats`, `sync`, `run`, `stage`, `test`, `html` and more.

The library's files are the truth.  A chapter builds some, statement by statement, and
brings others along whole.  The build cells of a file, in book order, one after another,
are that file letter for letter, so stage k of a file is a prefix of it, and staging
reads no notebook.  Nothing here imports the rest of minijit.

    text, project, notebook        statements; book.toml; notebooks as JSON
    stage                          the prefixes, as modules and as files
    build, units, records          %%build: a cell's statements run in their module
    patch, tables, follow, caches  ... so that edits are live everywhere
    check, imports, ran, measure   what must hold of the book, and whether it does
    author, sync, run, headings    notebooks from sources, from the library; executed
    show, style, colours           statements, pictures and programs in notebooks
    pages, lite                    the book as HTML, and to be run in a browser
    reader, course, splice, grade  the reader's copy, and build cells to be written
    classroom, confine             a class, graded and kept apart
    stages, exercise, cases, judge tests and exercises, each on its chapter's stage
    tracebacks                     of the reader's frames alone
    magics, cli                    the two ways in
"""


def load_ipython_extension(shell):
    """Register `%chapter`, `%%build`, `%check`, `%show`; shorten tracebacks."""
    from . import magics

    magics.register(shell)
