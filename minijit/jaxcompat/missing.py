"""The names that JAX has and minijit does not, and what to say of each.

    minijit.nn.scaled_matmul
    # AttributeError: minijit.nn has no 'scaled_matmul', which JAX has: numbers of
    # 8 bits and fewer are stored here, and not multiplied. Instead: multiply in
    # bfloat16 with jnp.matmul.
"""

from ..trace.base.demand import public_name


def no_such_name(module, name):
    """The message for a name that a module does not have."""
    module = public_name(module)
    known = jax_names.get(module.partition(".")[2], {})
    if name not in known:
        return f"module {module!r} has no attribute {name!r}"
    return f"{module} has no {name!r}, which JAX has{known[name]}"


one_device = "minijit computes on one CPU"
inside = "what is inside of JAX is arranged in another way here"
not_yet = "it is not written yet"
storage = "numbers of 8 bits and fewer are stored here, and not multiplied"

# Modules, and below them the public names of JAX's that minijit does not have, with
# what to say of them: "- names: reason -> advice".  Those of modules end with a "/".
rows = f"""
interpreters.batching nn.initializers scipy dtypes scipy.special ops flatten_util
scipy.linalg scipy.stats scipy.signal scipy.fft scipy.sparse.linalg scipy.optimize
.
- smap: {one_device} -> minijit.shard_map
- auto_pcast remove_size_one_mesh_axis_from_type distributed/: {one_device}
- array_garbage_collection_guard allow_f16_reductions jax2tf_associative_scan_reductions
  make_user_context host_count host_id host_ids
- ad lib/ version: {inside} -> read minijit.trace and minijit.transform; the book
  explains them
- ffi/: {not_yet}
experimental
- array_serialization/ buffer_callback/ colocated_python/ compilation_cache/ compute_on/
  control_deps/ custom_partitioning/ fused/ jax2tf/ key_reuse/ pallas/ profiler/ rnn/
  roofline/ scheduling_groups/ serialize_executable/ shard_alike/ source_mapper/ sparse/
  topologies/ transfer/ xla_metadata/ EArray cur_qdd primal_tangent_dtype
core
- ParamDict Value max_dim min_dim: {inside}
extend
- ifrt_programs/ lowering/ mlir/ pallas/ sharding/ xla/: {inside}
extend.core
- AbstractToken CallPrimitive Token TraceTag array_types call_impl
  nonempty_axis_env_DO_NOT_USE primitives set_current_trace
  unsafe_get_axis_names_DO_NOT_USE: {inside}
- InconclusiveDimensionOperation: sizes are always known here
extend.source_info_util
- new_source_info set_name_stack transform_name_stack user_context: an equation has the
  user's line and no more
interpreters
- pxla/: {inside}
interpreters.ad
- annotations jvp linearize: {inside} -> minijit.jvp
interpreters.mlir
- AxisContext ConstantHandler DEVICE_TO_DEVICE_TYPE LoweringParameters LoweringResult
  LoweringRule LoweringRuleContext Mesh MeshAxisName ModuleContext RECV_FROM_HOST_TYPE
  SEND_TO_HOST_TYPE SPMDAxisContext ShapePolyLoweringState ShardingContext Token
  TokenSet Value aval_to_ir_type aval_to_ir_types core_call_lowering dense_int_array
  dense_int_elements dtype_to_ir_type emit_python_callback flatten_ir_types
  flatten_ir_values i32_attr i64_attr ir ir_attribute ir_constant ir_constants
  ir_tree_registry ir_type_handlers jaxpr_subcomp lower_jaxpr_to_fun
  lower_jaxpr_to_module lowerable_effects make_ir_context merge_mlir_modules
  module_to_bytecode module_to_string register_constant_handler shape_tensor token_type
  unflatten_ir_values_like_types: programs are compiled without MLIR -> lower_fun of a
  function of arrays
interpreters.partial_eval
- Val dce_jaxpr_call_rule dce_jaxpr_closed_call_rule: {inside} -> minijit.linearize,
  which splits a function into two
interpreters.xla
- Backend: {inside}
api_util
- donation_vector rebase_donate_argnums: {inside}
profiler
- ProfileData ProfileEvent ProfileOptions ProfilePlane register_subprocess start_server
  stop_server: a time line is a file for Perfetto -> minijit.profile()
experimental.mesh_utils
- create_hybrid_device_mesh device_kind_handler_dict: {one_device}
numpy
- object_ character flexible: arrays hold numbers only
- float6_e2m3fn float6_e3m2fn int1 uint1: XLA does not compile them either ->
  jnp.float4_e2m1fn, jnp.float8_e4m3fn, jnp.int2 or jnp.uint2
lax
- sharding_constraint_p pbroadcast precv psend ragged_all_to_all ragged_all_to_all_p:
  {one_device} -> leave it out
- rng_uniform_p: it calls NumPy's generator -> lax.rng_uniform
- index_take -> jnp.take, or x[indices]
- scaled_dot: {storage} -> lax.dot_general in bfloat16
- stage stage_p: {not_yet} -> call the function itself
- after_all after_all_p create_token create_token_p dce_sink dce_sink_p: effects keep
  their order without tokens
- DotAlgorithm DotAlgorithmPreset: products are computed in the dtype of the result ->
  preferred_element_type=
- ConvGeneralDilatedDimensionNumbers -> lax.ConvDimensionNumbers
- scatter_apply: {not_yet} -> x.at[i].apply(f)
- AccuracyMode Tolerance
- PrecisionLike -> lax.Precision, or its name
- conv_general_shape_tuple conv_shape_tuple conv_transpose_shape_tuple
  reduce_window_shape_tuple shape_as_value -> minijit.eval_shape(f, x), which gives the
  shapes of any function
- all_gather_p all_to_all_p approx_top_k_p axis_index_p device_put_p eq_to_p
  igamma_grad_a_p le_to_p linear_solve_p lt_to_p pmax_p pmin_p mulhi_p ppermute_p psum_p
  reduce_p reduce_window_p select_and_gather_add_p select_and_scatter_add_p
  select_and_scatter_p split_p stack_p tile_p unstack_p: it is no primitive here, but
  made of others -> minijit.make_jaxpr(f)(x) shows of which
nn
- scaled_matmul scaled_dot_general get_scaled_dot_general_config: {storage} -> multiply
  in bfloat16 with jnp.matmul
random
- random_gamma_p -> minijit.random.gamma
tree_util
- default_registry: there is one registry -> register_pytree_node
errors
- InconclusiveDimensionOperation: sizes are always known here
debug
- breakpoint: {not_yet} -> breakpoint() under minijit.disable_jit()
- log: {not_yet} -> minijit.debug.print
- inspect_array_sharding visualize_array_sharding visualize_sharding: {one_device} ->
  minijit.sharding has it
- DebugEffect OrderedDebugEffect
custom_derivatives
- custom_jvp_call_p custom_vjp_call_p remat_opt_p: {inside}
sharding
- AbstractDevice GSPMDSharding ManualAxisType PmapSharding: {one_device}
"""


def table(text):
    """module -> {name: what to say of it}."""
    found = {}
    for lines in text.replace("\n  ", " ").replace("\n-", "-").strip().split("\n"):
        modules, *entries = lines.split("- ")
        for module in modules.split():
            known = found[module.strip(".")] = {}
            for entry in entries:
                first, _, advice = entry.partition(" -> ")
                names, _, reason = first.partition(": ")
                said = f": {reason}." if reason else "."
                said += f" Instead: {advice}." if advice else ""
                known |= dict.fromkeys(names.replace("/", "").split(), said)
                inner = (name[:-1] for name in names.split() if name[-1] == "/")
                missing_modules.update(f"{module}.{m}".strip(".") for m in inner)
    return found


missing_modules: set = set()
jax_names = table(rows)
