"""minijit: trace Python and NumPy programs, transform them, compile them."""

# chapter 2
from . import errors as errors
from .trace import names as _names

__version__ = "0.1.0"

_on_demand: list[str] = []
_listed = lambda: _names.public_names(globals())
__dir__, __getattr__ = _names.front(__name__, _listed, _on_demand)

# chapter 3
from . import numpy as numpy
from .trace.array import ShapedArray as ShapedArray
from .trace.config import (
    checking_leaks as checking_leaks,
    config as config,
    disable_jit as disable_jit,
    enable_x64 as enable_x64,
    log_compiles as log_compiles,
)
from .trace.core import Array as Array

# chapter 4
from .trace import jaxpr_text as jaxpr_text
from .trace.jaxpr import make_jaxpr as make_jaxpr

from .trace import jaxpr_checks as jaxpr_checks, jaxpr_parser as jaxpr_parser

# chapter 5
from . import tree as tree
from . import tree_util as tree_util
from .trace.pytree import tree_map as tree_map

# chapter 6
from .trace.jit import clear_caches as clear_caches, jit as jit
from .trace.stale_globals import StaleGlobalWarning as StaleGlobalWarning

from .trace import leaks as leaks
from .trace.refs import (
    Ref as Ref,
    empty_ref as empty_ref,
    free_ref as free_ref,
    freeze as freeze,
    new_ref as new_ref,
)
from .trace.stages import (
    ShapeDtypeStruct as ShapeDtypeStruct,
    block_until_ready as block_until_ready,
    device_get as device_get,
    device_put as device_put,
    eval_shape as eval_shape,
)

# chapter 7
from .transform.linearize import jvp as jvp, linearize as linearize

from .transform import (
    delicate_rules as delicate_rules,
    joint_calls as joint_calls,
)

# chapter 8
from .transform.transpose import (
    grad as grad,
    value_and_grad as value_and_grad,
    vjp as vjp,
)

from .transform import (
    plain_transposes as plain_transposes,
    window_transposes as window_transposes,
)
from .transform.linear_functions import linear_transpose as linear_transpose

# chapter 9
from .transform.batching import vmap as vmap
from .transform.jacobians import (
    hessian as hessian,
    jacfwd as jacfwd,
    jacobian as jacobian,
    jacrev as jacrev,
)

from .transform import collectives as collectives, window_lanes as window_lanes

# chapter 10
from .transform.custom import custom_jvp as custom_jvp, custom_vjp as custom_vjp

_on_demand += ["custom_derivatives"]

from .transform import custom_lanes as custom_lanes
from .transform.closures import (
    closure_convert as closure_convert,
    custom_gradient as custom_gradient,
    fwd_and_bwd as fwd_and_bwd,
)

# chapter 11
from .transform import joint_loops as joint_loops, lanes_of_loops as lanes_of_loops

# chapter 12
from .transform.checkpoint import checkpoint as checkpoint, remat as remat
from .transform.policies import checkpoint_policies as checkpoint_policies
from .transform.residual_report import saved_residuals as saved_residuals

_on_demand += "ad_checkpoint custom_batching debug".split()

from .transform.debugging import debug_infs as debug_infs, debug_nans as debug_nans

# chapter 13
from .transform import reversal_rows as reversal_rows

# chapter 14
from .compile.simplify import (
    exact_rules as exact_rules,
    layout_rules as layout_rules,
    real_number_rules as real_number_rules,
)

# chapter 15
from .compile.loops import index_rules as index_rules, text as loops_text
from .compile.lower import (
    calls as lower_calls,
    choices as lower_choices,
    elements as lower_elements,
    transforms as lower_transforms,
)
from .compile.simplify import storage as storage

# chapter 16
from .run import executable as executable

_on_demand += """
    dtypes example_libraries experimental flatten_util image lax memory nn random ref
    scipy sharding test_util typing
""".split()

from .trace.dtypes import float0 as float0
from .trace.devices import (
    Device as Device,
    Shard as Shard,
    default_backend as default_backend,
    device_count as device_count,
    devices as devices,
    local_device_count as local_device_count,
    local_devices as local_devices,
    process_count as process_count,
    process_index as process_index,
    process_indices as process_indices,
)
from .trace.meshes import (
    NamedSharding as NamedSharding,
    P as P,
    make_mesh as make_mesh,
    set_mesh as set_mesh,
)
from .trace.placement import (
    make_array_from_callback as make_array_from_callback,
    make_array_from_process_local_data as make_array_from_process_local_data,
    make_array_from_single_device_arrays as make_array_from_single_device_arrays,
    reshard as reshard,
)
from .numpy.slicing import ds as ds
from .ops.host_calls import pure_callback as pure_callback
from .run.report.environment import print_environment_info as print_environment_info
from .run.python import program as python_program
from .run.python import scalar_functions as scalar_functions
from . import ops as ops
from .trace import calls, demand
from .trace import core as _core, jaxpr as _jaxpr, stages as _stages

_transformations = """
    checkpoint closure_convert custom_gradient fwd_and_bwd grad hessian jacfwd jacobian
    jacrev jit make_jaxpr remat value_and_grad vmap
""".split()
calls.explain_calls("minijit", globals(), results=_transformations)

_of_jax = {
    "jaxcompat.flags": """
        check_tracer_leaks debug_key_reuse default_prng_impl enable_checks
        enable_custom_prng explain_cache_misses legacy_prng_key no_execution no_tracing
        numpy_dtype_promotion numpy_rank_promotion softmax_custom_jvp thread_guard
        threefry_partitionable
    """,
    "jaxcompat.one_device": "pmap shard_map",
    "jaxcompat.plain_answers": """
        default_device default_matmul_precision effects_barrier ensure_compile_time_eval
        named_call named_scope transfer_guard transfer_guard_device_to_device
        transfer_guard_device_to_host transfer_guard_host_to_device typeof
    """,
}
_on_demand += [f"{file}:{name}" for file, ns in _of_jax.items() for name in ns.split()]
demand.additions |= {"trace.config": ["jaxcompat.flags"]}
_classes = [_core.Primitive, ShapedArray, _stages.Lowered, _stages.Compiled]
_classes += [_jaxpr.Jaxpr, _jaxpr.ClosedJaxpr, _jaxpr.Eqn]
demand.more_attributes("jaxcompat.attributes", _classes)

# chapter 17
from .compile.fuse.passes import Fusion as Fusion

from .compile.fuse import folds as folds
from .compile.fuse.fusing import fuse as fuse

# chapter 18
from .compile.lower import layout as layout
from .compile.schedule import panels as panels
from .ops import complex_products as complex_products, patches as patches

# chapter 19
from .run import donating as donating
from .run.calls import planned_driver as planned_driver

# chapter 20
from .run.report.kernel_log import log_kernels as log_kernels, profile as profile

explain: object  # a name that is asked for before the chapter has it
_on_demand += "testing run.report.explaining:explain run.report.stepping:stages".split()
demand.additions |= {
    "compile.report.explain": """
        compile.report.separations compile.report.text compile.report.pictures
    """.split(),
}

# chapter 21
from .compile.control import native_loops as native_loops
from .compile.control import lane_blocks as lane_blocks, products as products
from .compile.schedule import loop_motion as loop_motion
from .compile.control import region_functions as region_functions
from .ops import native_lapack as native_lapack
from .run.python import regions as python_regions
from .run.python import region_launchers as region_launchers

# chapter 22
from .compile.control import native_tapes as native_tapes, reversal as lower_reversal
from .run.python import table_values as table_values

# chapter 23
from .compile.numbers import exact_forms as exact_forms
from .compile.numbers import special_forms as special_forms
from .run.llvm import executor as llvm
from .run.llvm import blocks as llvm_blocks
from .run.llvm import instructions as llvm_instructions
from .run.llvm import regions as llvm_regions

# chapter 24
from .compile.schedule import partial_totals as partial_totals
from .compile.numbers import vector_functions as vector_functions
from .compile.schedule import vector_loops as vector_loops
from .compile.schedule import register_tiles as register_tiles
from .compile.schedule import choose as choose
from .ops import direct_convolutions as direct_convolutions
from .compile.numbers import vector_waves as vector_waves
from .run.llvm import lanes as llvm_lanes, vectors as llvm_vectors
from .run.threads import kernels as threads

demand.additions |= {"run.report.explaining": ["run.report.thread_reports"]}

# chapter 25
from .run import pool as pool
from .run.calls import pooled_driver as pooled_driver
from .run.calls import dispatch as dispatch
from .run.llvm import object_files as object_files

from .run.calls import progress as progress, shortcut_rows as shortcut_rows

_on_demand += """
    api_util core dlpack export extend interpreters jax_modules:as_jax monitoring
    profiler profiler:live_arrays
""".split()

# chapter 26
from .run.cuda import rows as cuda_rows

demand.additions |= {"run.device.grid": ["run.device.tiles"]}
