"""minijit: trace Python and NumPy programs, transform them, compile them."""

# chapter 1
from . import errors as errors

# chapter 2
from .trace.array import ShapedArray as ShapedArray
from .trace.config import config as config
from .trace.core import Array as Array

# chapter 3
from .trace import jaxpr_text as jaxpr_text
from .trace.jaxpr import make_jaxpr as make_jaxpr
