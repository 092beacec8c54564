"""Rules for primitives of one's own, under the names of `jax.interpreters`."""

import typing as _typing

from ...trace.base import names as _names

if _typing.TYPE_CHECKING:
    from . import (
        ad as ad, batching as batching, mlir as mlir, partial_eval as partial_eval,
        xla as xla,
    )

_names.front(globals(), [])


class Rules(dict):
    """A table of rules as JAX writes them: what is put in becomes a row of minijit's.

    Args:
      to_row: (primitive, rule) -> nothing; writes minijit's row.
      from_row: primitive -> the rule, in JAX's form, of minijit's row, or None.
    """

    def __init__(self, to_row, from_row):
        self.to_row, self.from_row = to_row, from_row

    def __setitem__(self, primitive, rule):
        super().__setitem__(primitive, rule)
        self.to_row(primitive, rule)

    def __missing__(self, primitive):
        rule = self.from_row(primitive)
        if rule is None:
            raise KeyError(primitive)
        return rule

    def __contains__(self, primitive):
        return super().__contains__(primitive) or self.from_row(primitive) is not None

    def get(self, primitive, default=None):
        return self[primitive] if primitive in self else default
