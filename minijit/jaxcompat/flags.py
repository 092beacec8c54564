"""The flags of `jax.config` that programs set, beside those that change something here.

    config.update("jax_compilation_cache_dir", path)     # nothing here asks for it
    config.update("jax_platform_name", "gpu")            # ValueError: there is a CPU

A flag either is accepted, since no program's results depend on it here, or it has the
one value that minijit computes with, and any other is refused.
"""

import os
import sys
from contextlib import suppress
from functools import partial
from numbers import Real

from ..trace.base.config import config
from ..trace.jit.jit import trace_checks
from .plain_answers import guard_levels, matmul_precisions

# Flags about XLA, caches of its programs, debugging of JAX itself, how it prints: the
# value that JAX has without being told, and which flags have it.
accepted = (
    (False, """
        bcoo_cusparse_lowering check_static_indices check_vma
        compilation_cache_check_contents compilation_cache_expect_pgle
        compilation_cache_include_metadata_in_key custom_vjp3 debug_key_reuse
        debug_leaked_clients_on_clear_backends disable_bwd_checks
        disable_most_optimizations disable_vmap_shmap_error
        disallow_mesh_context_manager distributed_debug eager_constant_folding
        enable_pgle enable_recoverability experimental_unsafe_xla_runtime_errors
        explain_cache_misses export_ignore_forward_compatibility
        force_dcn_cross_host_transfers high_dynamic_range_gumbel
        jax2tf_associative_scan_reductions log_checkpoint_residuals mosaic_allow_hlo
        pallas_enable_debug_checks pallas_poison_buffers pallas_verbose_errors
        ragged_dot_use_gpu_pallas_triton_lowering raise_persistent_cache_errors
        refs_to_pins remat3 remove_custom_partitioning_ptr_from_cache_key
        remove_size_one_mesh_axis_from_type scan3 share_binary_between_hosts
        softmax_custom_jvp thread_guard threefry_gpu_kernel_lowering
        use_emit_pipeline_primitive use_simplified_jaxpr_constants
    """),
    (True, """
        allow_f16_reductions auto_pcast check_proxy_envs compiler_enable_remat_pass
        cpu_enable_async_dispatch enable_compilation_cache enable_preemption_service
        include_debug_info_in_dumps include_full_tracebacks_in_locations
        jax2tf_default_native_serialization mutable_array_checks pallas_use_mosaic_gpu
        pprint_use_color ragged_dot_use_ragged_dot_instruction
        sort_devices_by_process_index use_direct_linearize use_shardy_partitioner
    """),
    (None, "cross_host_transfer_timeout_seconds cross_host_transfer_transfer_size"),
    (0, """
        captured_constants_report_frames mock_num_gpu_processes
        persistent_cache_min_entry_size_bytes serialization_version xla_profile_version
    """),
    (-1, "compilation_cache_max_size"),
    (2, "cpu_get_local_topology_timeout_minutes"),
    (3, "pgle_profiling_runs"),
    (5, """
        cpu_get_global_topology_timeout_minutes tracer_error_num_traceback_frames
    """),
    (10, "compiler_detailed_logging_min_ops export_calling_convention_version"),
    (32, "embedded_constants_max_bytes"),
    (90, "pgle_aggregation_percentile"),
    (100, "traceback_in_locations_limit"),
    (1_200_000, "share_binary_between_hosts_timeout_ms"),
    (2_000_000_000, "captured_constants_warn_bytes"),
    (0.0, "exec_time_optimization_effort memory_fitting_effort"),
    (1.0, "persistent_cache_min_compile_time_secs"),
    ("", """
        backend_target cross_host_transfer_socket_address
        cross_host_transport_addresses debug_log_modules dump_ir_to mock_gpu_topology
        xla_backend
    """),
    ("all", "cuda_visible_devices oneapi_visible_devices rocm_visible_devices"),
    ("stablehlo", "dump_ir_modes"),
    ("xla_gpu_per_fusion_autotune_cache_dir", "persistent_cache_enable_xla_caches"),
)

# Those that have no value without being told, and then a text.
texts = """
    compilation_cache_dir hlo_source_file_canonicalization_regex
    pjrt_client_create_options source_url_schema
""".split()

# flag -> the values that it may have, the first one as long as nobody says another.
levels = "O0 O1 O2 O3".split()
words = {
    "array_garbage_collection_guard": (None, "allow", "log", "fatal"),
    "cpu_collectives_implementation": ("gloo", "mpi", "megascale", None),
    "logging_level": ("NOTSET", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", None),
    "memory_fitting_level": ("O2", "UNKNOWN", *levels),
    "optimization_level": ("UNKNOWN", *levels),
    "send_traceback_to_runtime": ("off", "on", "full"),
    "use_magma": ("auto", "on", "off"),
}

guards = (
    "transfer_guard transfer_guard_host_to_device transfer_guard_device_to_host "
    "transfer_guard_device_to_device"
).split()

# flag -> (its value, other values that mean the same here).
fixed = {
    "platforms": (None, "", "cpu"),
    "platform_name": ("", None, "cpu"),
    "num_cpu_devices": (-1, 1, None),
    "no_execution": (False,),
    "error_checking_behavior_divide": ("ignore",),
    "error_checking_behavior_nan": ("ignore",),
    "error_checking_behavior_oob": ("ignore",),
    "explicit_x64_dtypes": ("warn",),
    "random_seed_offset": (0,),
}
fixed |= {name: (None, *guard_levels) for name in guards}

# A number with a point may be whole as well.
kinds = {bool: None, type(None): None, float: Real}
for _default, _names in accepted:
    _kind = kinds.get(type(_default), type(_default))
    for _name in _names.split():
        config.define(_name, _default, "accepted for JAX's sake", allowed=_kind)
for _name in texts:
    config.define(_name, None, "accepted for JAX's sake", allowed=str)
for _name, _values in (fixed | words).items():
    config.define(_name, _values[0], "one of JAX's flags", allowed=_values)
config.define(
    "default_matmul_precision", None,
    "for JAX's sake: products are as precise as their dtype; a trace says it",
    changes_traces=True, allowed=(None, *matmul_precisions),
)
config.define("no_tracing", False, "raise where a function is traced")


def refuse_trace(trace):
    """A check of traces that are over: with `no_tracing` there are to be none."""
    if config.no_tracing:
        name, kind = trace.info.name, trace.info.kind
        raise RuntimeError(
            f"re-tracing function {name} for `{kind}`, but 'no_tracing' is set"
        )


trace_checks += [refuse_trace]
config.renamed |= {"enable_checks": "debug_checks", "x64_enabled": "enable_x64"}


def update_from_text(name, text):
    """Set a flag to what a text says: a command line, or the environment."""
    config.read(name)
    default = config.defaults[config.own_name(name)]
    known = {"none": None}
    if isinstance(default, bool):
        known |= dict.fromkeys("true t yes y on 1".split(), True)
        known |= dict.fromkeys("false f no n off 0".split(), False)
    elif isinstance(default, int | float):
        with suppress(ValueError):
            known[text.lower()] = type(default)(text)
    config.update(name, known.get(text.lower(), text))


def from_jax_environment():
    """Set the flags that JAX would read from the environment: JAX_ENABLE_X64=1."""
    for name in [name for name in os.environ if name.startswith("JAX_")]:
        known = config.own_name(name.lower()) in config.values
        if known and name.replace("JAX", "MINIJIT", 1) not in os.environ:
            update_from_text(name.lower(), os.environ[name])


def parse_flags_with_absl():
    """Set the flags that the program was started with, `--jax_NAME=value`.

    JAX: `jax.config.parse_flags_with_absl`, and `config_with_absl`.  Where absl reads
    the other flags of the program it is told of these, and does not complain of them.
    """
    absl = sys.modules.get("absl.flags")
    for text in sys.argv[1:]:
        name, equal, value = text.removeprefix("--").partition("=")
        if text.startswith("--jax_"):
            update_from_text(name, value if equal else "true")
            if absl is not None and name not in absl.FLAGS:
                absl.DEFINE_string(name, value, "one of JAX's flags")


vars(config).update(
    dict.fromkeys(("config_with_absl", "parse_flags_with_absl"), parse_flags_with_absl)
)


class State:
    """A flag as JAX has it: `state.value`, and `with state(value):`, a bool to True."""

    def __init__(self, name):
        self._name = name

    value = property(lambda self: config.read(self._name))

    def __call__(self, *args, **kwargs):
        is_bool = isinstance(config.defaults[self._name], bool)
        of_bool = lambda new_val=True: config.override(self._name, new_val)
        other = partial(config.override, self._name)
        return (of_bool if is_bool else other)(*args, **kwargs)


class States(dict):
    """{"jax_NAME": its state}, made when it is asked for (`config.config_states`)."""

    def __missing__(self, name):
        config.read(name)
        return self.setdefault(name, State(config.own_name(name)))


config_states = States()


def __getattr__(name):
    """`thread_guard` and its like: the state of each flag."""
    flag = config.own_name(name)
    if name.startswith("_") or flag not in config.values:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return config_states[name]
