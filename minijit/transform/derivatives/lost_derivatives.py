"""Conversions that would lose a derivative without a word: they are refused."""

from ...trace.base.errors import HERE, conversion_advice
from ...trace.core import Tracer


class KeepsDerivative(Tracer):
    """A tracer whose value may be known, but does not become a number of Python's."""

    __slots__ = ()

    def __float__(self):
        raise self.loses_derivative("float")

    def __complex__(self):
        raise self.loses_derivative("complex")

    def tolist(self):
        """Raises ConcretizationTypeError: the numbers would have no derivative."""
        raise self.loses_derivative("tolist")

    def __array__(self, dtype=None, copy=None):
        raise self.loses_derivative("numpy")

    def loses_derivative(self, use):
        """The error for a conversion that would silently give a gradient of zero."""
        kind, _, advice = conversion_advice[use]
        asked = "a NumPy array" if use == "numpy" else f"{use}()"
        return kind(
            f"{asked} was asked of a value that is being differentiated, of type "
            f"{self.aval}: what is computed from it would count as a constant, with "
            f"a derivative of zero.{HERE}\n  Instead: {advice} If "
            "it is to be a constant, say so: `lax.stop_gradient(x)`."
        )
