"""minijit: trace Python and NumPy programs, transform them, compile them."""

# chapter 1
from . import errors as errors
