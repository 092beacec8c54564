"""Groups: the kernels and calls to be, while the walk of `lower` goes on."""

from dataclasses import dataclass, field


@dataclass(eq=False)
class Group:
    """What will become one kernel, or one call, while the walk goes on.

    Attributes:
      number: groups made later run earlier, if nothing else decides.
      axes, nest: the index at which it stores, and the same from the outermost loop on.
      stores: statements, on variables where buffers will be.
      values: the stored variables at `axes`, known there without a load.
      make: if it is no loop nest, `make(finish, eqns)` is its statement.
      shape: of the stored variables, if more of them may join.
      reads: the variables that it loads, as far as one can tell.
    """

    number: int
    axes: tuple = ()
    nest: tuple = ()
    stores: list = field(default_factory=list)
    values: dict = field(default_factory=dict)
    make: object = None
    eqns: dict = field(default_factory=dict)
    seen: set = field(default_factory=set)
    shape: tuple | None = None
    reads: frozenset = frozenset()
    size: int = 0
    has_total: bool = False
    fed: bool = False
