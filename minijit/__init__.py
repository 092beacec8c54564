"""minijit: trace Python and NumPy programs, transform them, compile them."""

# chapter 2
import typing as _typing
from functools import partial as _partial

from .trace.base import names as _names

__version__ = "0.1.0"

_listed = lambda: _names.public_names(globals())
_names.front(globals(), _listed)

# What is imported when it is asked for is written for type checkers.
if _typing.TYPE_CHECKING:
    from . import errors as errors

# chapter 3
from . import numpy as numpy
from .trace.array import ShapedArray as ShapedArray
from .trace.base.config import (
    checking_leaks as checking_leaks, config as config, disable_jit as disable_jit,
    enable_x64 as enable_x64, log_compiles as log_compiles,
)
from .trace.types import Array as Array

# chapter 4
from .trace.jaxprs import text as jaxpr_text
from .trace.jaxprs.jaxpr import make_jaxpr as make_jaxpr

# chapter 5
from . import tree as tree
from . import tree_util as tree_util
from .trace.trees.pytree import tree_map as tree_map

# chapter 6
from .trace.jit.jit import clear_caches as clear_caches, jit as jit
from .trace.jit.captures import StaleGlobalWarning as StaleGlobalWarning

from .trace.jit import leaks
from .trace.jit.refs import (
    Ref as Ref, empty_ref as empty_ref, free_ref as free_ref, freeze as freeze,
    new_ref as new_ref,
)
from .trace.api.stages import (
    ShapeDtypeStruct as ShapeDtypeStruct, block_until_ready as block_until_ready,
    device_get as device_get, device_put as device_put,
)
from .trace.api.stages import eval_shape as eval_shape

# chapter 7
from .transform.derivatives.linearize import jvp as jvp, linearize as linearize

from .transform.derivatives import maxima_and_powers

# chapter 8
from .transform.derivatives.transpose import (
    grad as grad, value_and_grad as value_and_grad, vjp as vjp,
)

from .transform.derivatives.linear_functions import linear_transpose as linear_transpose

# chapter 9
from .transform.batching.vmap import vmap as vmap
from .transform.batching import windows as window_lanes

if _typing.TYPE_CHECKING:
    from .transform.jacobians import (
        hessian as hessian, jacfwd as jacfwd, jacobian as jacobian, jacrev as jacrev,
    )

# chapter 10
from .transform.custom.custom_derivatives import (
    custom_jvp as custom_jvp, custom_vjp as custom_vjp,
)

from .transform.custom import batching as custom_lanes

if _typing.TYPE_CHECKING:
    from .jaxcompat import custom_derivatives as custom_derivatives
    from .transform.custom.closures import (
        closure_convert as closure_convert, custom_gradient as custom_gradient,
        fwd_and_bwd as fwd_and_bwd,
    )

# chapter 11
from .transform.control_flow import joint_loops, batching as lanes_of_loops
from .transform.control_flow import unused_results

# chapter 12
from .transform.debugging import debug_infs as debug_infs, debug_nans as debug_nans

if _typing.TYPE_CHECKING:
    from .jaxcompat import (
        ad_checkpoint as ad_checkpoint, custom_batching as custom_batching,
        debug as debug,
    )
    from .transform.remat.checkpoint import checkpoint as checkpoint, remat as remat
    from .transform.remat.policies import checkpoint_policies as checkpoint_policies
    from .transform.remat.residual_report import saved_residuals as saved_residuals

# chapter 13
from .trace.base import demand
from .transform.control_flow.api import reverse_modes as _reverse_modes

_reverse_modes["checkpoint"] = demand.on_demand(
    "transform.control_flow.checkpointed_loops:checkpoint_mode"
)

# chapter 14
_of_flags = ["compiler"]
demand.additions |= {"trace.jit.jit": ["compiler"], "trace.base.config": _of_flags}

# chapter 16
from .trace.dtypes import float0 as float0
from .trace.api.devices import (
    Device as Device, Shard as Shard, Sharding as _Sharding,
    default_backend as default_backend, device_count as device_count,
    devices as devices,
)
from .numpy.slicing import ds as ds
from . import ops
from .trace.api import calls
from .trace import core as _core, plans
from .trace.base.turns import turns as _turns
from .trace.jit import jit as _jit
from .trace.jaxprs import jaxpr as _jaxpr
from .trace.api import stages as _stages
from .transform.derivatives import linearize as _linearize, transpose as _transpose

_transformations = """
    checkpoint closure_convert custom_gradient fwd_and_bwd grad hessian jacfwd jacobian
    jacrev jit make_jaxpr remat value_and_grad vmap
""".split()
_explain = _partial(calls.explain_calls, "minijit", results=_transformations)
_explain(globals())
_names.front(
    globals(), _listed, lambda found: _explain(found, {*found} & {*_transformations})
)
calls.explain_made(_linearize.PushForward, linearize, "minijit.linearize")
calls.explain_made(_transpose.PullBack, vjp, "minijit.vjp")

_of_flags += ["jaxcompat.flags", "ops.prng"]
demand.additions |= {
    "trace.api.calls": ["jaxcompat.placement"],
    "trace.jaxprs.parser": ["lax", "ops.prng", "transform.remat.checkpoint"],
}
_jit.jit_kinds |= {"placing": demand.on_demand("jaxcompat.placement:PlacingFunction")}
_classes = [_core.Primitive, ShapedArray, _stages.Lowered, _stages.Compiled]
_classes += [_jaxpr.Jaxpr, _jaxpr.ClosedJaxpr, _jaxpr.Eqn]
_classes += [Device, _Sharding]
demand.more_attributes("jaxcompat.attributes", _classes)

if _typing.TYPE_CHECKING:
    from . import (
        dtypes as dtypes, flatten_util as flatten_util, image as image, lax as lax,
        nn as nn, random as random, scipy as scipy, test_util as test_util,
        typing as typing,
    )
    from .jaxcompat import (
        example_libraries as example_libraries, experimental as experimental,
        memory as memory, ref as ref, sharding as sharding,
    )
    from .jaxcompat.flags import (
        check_tracer_leaks as check_tracer_leaks, debug_key_reuse as debug_key_reuse,
        default_prng_impl as default_prng_impl, enable_checks as enable_checks,
        enable_custom_prng as enable_custom_prng,
        explain_cache_misses as explain_cache_misses,
        legacy_prng_key as legacy_prng_key, no_execution as no_execution,
        no_tracing as no_tracing, numpy_dtype_promotion as numpy_dtype_promotion,
        numpy_rank_promotion as numpy_rank_promotion,
        softmax_custom_jvp as softmax_custom_jvp, thread_guard as thread_guard,
        threefry_partitionable as threefry_partitionable,
    )
    from .jaxcompat.meshes import (
        NamedSharding as NamedSharding, P as P, make_mesh as make_mesh,
        set_mesh as set_mesh,
    )
    from .jaxcompat.one_device import pmap as pmap, shard_map as shard_map
    from .jaxcompat.placement import (
        make_array_from_callback as make_array_from_callback,
        make_array_from_process_local_data as make_array_from_process_local_data,
        make_array_from_single_device_arrays as make_array_from_single_device_arrays,
        reshard as reshard,
    )
    from .jaxcompat.plain_answers import (
        copy_to_host_async as copy_to_host_async, default_device as default_device,
        default_matmul_precision as default_matmul_precision,
        effects_barrier as effects_barrier,
        ensure_compile_time_eval as ensure_compile_time_eval,
        local_device_count as local_device_count, local_devices as local_devices,
        named_call as named_call, named_scope as named_scope,
        process_count as process_count, process_index as process_index,
        process_indices as process_indices, transfer_guard as transfer_guard,
        transfer_guard_device_to_device as transfer_guard_device_to_device,
        transfer_guard_device_to_host as transfer_guard_device_to_host,
        transfer_guard_host_to_device as transfer_guard_host_to_device,
        typeof as typeof,
    )
    from .ops.host_calls import pure_callback as pure_callback
    from .run.report.environment import print_environment_info as print_environment_info

# chapter 17
if _typing.TYPE_CHECKING:
    from .compile.fuse.fuse_settings import fuse as fuse
    from .compile.fuse.fusion import Fusion as Fusion

# chapter 20
demand.additions |= {
    "compile.report.explain": """
        compile.report.separations compile.report.text compile.report.pictures
    """.split(),
}

if _typing.TYPE_CHECKING:
    from . import testing as testing
    from .run.report.explaining import explain as explain
    from .run.report.kernel_log import log_kernels as log_kernels, profile as profile
    from .run.report.passes import steps as steps
    from .run.report.stepping import stages as stages

# chapter 24
if _typing.TYPE_CHECKING:
    from .compile.schedule.by_hand import schedule as schedule
    from .run.report.tuning import tune as tune

# chapter 25
from .transform import pieces

calls.composed_calls |= {
    "when repeated": demand.on_demand("ops.composed:Composed"),
    "recorded by": pieces.recording_trace,
}
plans.programs |= {"large": demand.on_demand("ops.composed:of_large")}
_turns.watch = demand.on_demand("trace.jit.progress:watch")
_of_flags += ["trace.jit.progress"]

if _typing.TYPE_CHECKING:
    from .export import export as export
    from .jaxcompat import (
        api_util as api_util, core as core, dlpack as dlpack, extend as extend,
        interpreters as interpreters, monitoring as monitoring, profiler as profiler,
    )
    from .jaxcompat.jax_modules import as_jax as as_jax
    from .jaxcompat.profiler import live_arrays as live_arrays

# chapter 26
demand.additions |= {"trace.api.devices": ["compiler"], "run.device.grid": [
    f"run.device.{name}" for name in
    "grid_totals grid_scans grid_winners grid_parts tiles".split()
]}
