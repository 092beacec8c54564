"""Where equations come from: jaxprs have the user's line, and no stack of names."""

from contextlib import contextmanager

from ...trace.base import errors as _errors, names as _names
from ...trace.base.errors import register_exclusion as register_exclusion
from ...trace.base.frames import in_library

SourceInfo = _errors.Source
current = _errors.user_source


class NameStack:
    """The names of `named_scope`s, which jaxprs here do not have."""

    stack = ()

    def extend(self, name):
        return self

    def __str__(self):
        return ""


def current_name_stack():
    """The names of the scopes around us: none."""
    return NameStack()


new_name_stack = current_name_stack


@contextmanager
def extend_name_stack(name):
    """A name for the operations of a `with` block; for readers only."""
    yield NameStack()


@contextmanager
def reset_name_stack():
    """No names in a `with` block."""
    yield


def summarize(source_info):
    """A line of the user's as text."""
    return str(source_info)


def api_boundary(fun, **options):
    """`fun`: frames are left out of errors where they leave minijit."""
    return fun


def include_frame(frame):
    """Whether a frame is one of the user's program."""
    return not in_library(frame.f_code.co_filename)


_names.publish(globals(), """
    NameStack SourceInfo api_boundary current current_name_stack extend_name_stack
    include_frame new_name_stack register_exclusion reset_name_stack summarize
""")
