"""The flags of `jax.config` that programs set, beside those that change something here.

    config.update("jax_compilation_cache_dir", path)     # nothing here asks for it
    config.update("jax_platform_name", "gpu")            # ValueError: there is a CPU

A flag either is accepted, since no program's results depend on it here, or it has the
one value that minijit computes with, and any other is refused.
"""

import sys
from functools import partial

from .config import config
from .plain_answers import guard_levels, matmul_precisions

# Flags about XLA, caches of its programs, debugging of JAX itself, how it prints.
accepted = {
    False: """
        enable_compilation_cache explain_cache_misses log_checkpoint_residuals
        raise_persistent_cache_errors share_binary_between_hosts enable_pgle
        disable_most_optimizations cpu_enable_async_dispatch pprint_use_color
        remove_size_one_mesh_axis_from_type use_shardy_partitioner
        sort_devices_by_process_index
        experimental_unsafe_xla_runtime_errors compiler_enable_remat_pass
        disable_vmap_shmap_error mutable_array_checks refs_to_pins disable_bwd_checks
        use_direct_linearize use_simplified_jaxpr_constants check_static_indices
        debug_leaked_clients_on_clear_backends distributed_debug allow_f16_reductions
        include_full_tracebacks_in_locations check_vma auto_pcast softmax_custom_jvp
        high_dynamic_range_gumbel compilation_cache_include_metadata_in_key
        debug_key_reuse legacy_prng_key
    """,
    None: """
        compilation_cache_dir compilation_cache_max_size dump_ir_to debug_log_modules
        logging_level persistent_cache_min_compile_time_secs xla_backend backend_target
        persistent_cache_min_entry_size_bytes persistent_cache_enable_xla_caches
        optimization_level exec_time_optimization_effort memory_fitting_effort
        memory_fitting_level traceback_in_locations_limit cuda_visible_devices
        rocm_visible_devices hlo_source_file_canonicalization_regex
        tracer_error_num_traceback_frames captured_constants_warn_bytes
        array_garbage_collection_guard thread_guard cpu_collectives_implementation
        compiler_detailed_logging_min_ops xla_profile_version
    """,
    3: "pgle_profiling_runs",
}

guards = (
    "transfer_guard transfer_guard_host_to_device transfer_guard_device_to_host "
    "transfer_guard_device_to_device"
).split()

# flag -> (its value, other values that mean the same here).
fixed = {
    "platforms": (None, "", "cpu"),
    "platform_name": (None, "", "cpu"),
    "num_cpu_devices": (-1, 1, None),
    "default_matmul_precision": (None, *matmul_precisions),
    "no_tracing": (False,),
    "no_execution": (False,),
}
fixed |= {name: (None, *guard_levels) for name in guards}

for _default, _names in accepted.items():
    for _name in _names.split():
        config.define(_name, _default, "accepted for JAX's sake")
for _name, _values in fixed.items():
    config.define(_name, _values[0], "one of JAX's flags", allowed=_values)
config.renamed |= {"enable_checks": "debug_checks", "x64_enabled": "enable_x64"}


def parse_flags_with_absl():
    """Set the flags that the program was started with, `--jax_NAME=value`.

    JAX: `jax.config.parse_flags_with_absl`.  Where absl reads the other flags of the
    program it is told of these, so that it does not complain of them.
    """
    absl = sys.modules.get("absl.flags")
    for text in sys.argv[1:]:
        name, equal, value = text.removeprefix("--").partition("=")
        if text.startswith("--jax_") and equal:
            known = {"true": True, "false": False, "none": None}
            config.update(name, known.get(value.lower(), value))
            if absl is not None and name not in absl.FLAGS:
                absl.DEFINE_string(name, value, "one of JAX's flags")


config.parse_flags_with_absl = parse_flags_with_absl  # type: ignore[attr-defined]


def switch(name):
    """A context manager that sets a flag, as `jax.NAME(value)` does: a bool to True."""
    of_bool = lambda new_val=True: config.override(name, new_val)
    other = partial(config.override, name)

    def setting(*args, **kwargs):
        # Asked when it is called: a later module may define the flag.
        is_bool = isinstance(config.values[name], bool)
        return (of_bool if is_bool else other)(*args, **kwargs)

    return setting


check_tracer_leaks = switch("check_tracer_leaks")
debug_key_reuse = switch("debug_key_reuse")
default_prng_impl = switch("default_prng_impl")
enable_checks = switch("debug_checks")
enable_custom_prng = switch("enable_custom_prng")
explain_cache_misses = switch("explain_cache_misses")
legacy_prng_key = switch("legacy_prng_key")
no_execution = switch("no_execution")
no_tracing = switch("no_tracing")
numpy_dtype_promotion = switch("numpy_dtype_promotion")
numpy_rank_promotion = switch("numpy_rank_promotion")
softmax_custom_jvp = switch("softmax_custom_jvp")
thread_guard = switch("thread_guard")
threefry_partitionable = switch("threefry_partitionable")
