"""minijit: trace Python and NumPy programs, transform them, compile them."""

# chapter 1
from . import errors as errors

# chapter 2
from .trace.array import ShapedArray as ShapedArray
from .trace.config import (
    checking_leaks as checking_leaks,
    config as config,
    disable_jit as disable_jit,
    enable_x64 as enable_x64,
    log_compiles as log_compiles,
)
from .trace.core import Array as Array

# chapter 3
from .trace import jaxpr_text as jaxpr_text
from .trace.jaxpr import make_jaxpr as make_jaxpr

# chapter 4
from . import tree as tree
from . import tree_util as tree_util
from .trace.pytree import tree_map as tree_map

# chapter 5
from .trace.jit import (
    StaleGlobalWarning as StaleGlobalWarning,
    block_until_ready as block_until_ready,
    clear_caches as clear_caches,
    device_get as device_get,
    device_put as device_put,
    eval_shape as eval_shape,
    jit as jit,
)
from .trace.stages import ShapeDtypeStruct as ShapeDtypeStruct
