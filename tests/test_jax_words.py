"""Words of JAX's errors that programs look for: ours contain them, and so do JAX's."""

import functools
import re

import numpy as np
import pytest

import minijit as mj

pytestmark = [pytest.mark.chapter(16), pytest.mark.usefixtures("no_words_of_the_test")]

x3, x4, x34, x43 = (np.ones(n, np.float32) for n in (3, 4, (3, 4), (4, 3)))
x135, x223, cube = (np.ones(n, np.float32) for n in ((1, 3, 5), (2, 2, 3), (2, 3, 5)))
q, kv, key = np.ones((2, 5, 4, 3), "f4"), np.ones((2, 6, 2, 3), "f4"), np.uint32([0, 0])
places = np.ones((2, 1), int)


def ruled(kind, method, *rules):
    """A function of one number with rules of its own."""

    def make(jax):
        f = getattr(jax, kind)(lambda x: x * 1.0)
        getattr(f, method)(*rules)
        return f

    return make


def fwd_and_bwd(bwd, fwd=lambda x: (x, None)):
    return lambda jax: jax.grad(ruled("custom_vjp", "defvjp", fwd, bwd)(jax))(1.0)


def with_jvp(rule):
    f = ruled("custom_jvp", "defjvp", rule)
    return lambda jax: jax.jvp(f(jax), (1.0,), (1.0,))


def traced(f):
    """`f(jax)` on a traced float, or on `x`."""
    return lambda jax, x=1.0: jax.jit(functools.partial(f, jax))(x)


def generator(x):
    yield x


def capturing(jax, y):
    """A function with a rule, which captured what is differentiated."""
    f = jax.custom_jvp(lambda x: x * y)
    f.defjvp(lambda p, t: (f(*p), t[0] * y))
    return f(1.0)


def with_nondiff(jax, n):
    f = jax.custom_vjp(lambda n, x: n * x, nondiff_argnums=(0,))
    f.defvjp(lambda n, x: (n * x, None), lambda n, _, ct: (ct,))
    return f(n, 2.0)


def set_at(index, shape):
    return lambda jax: jax.numpy.asarray(x34).at[index].set(np.ones(shape, np.float32))


def same_until(jax, *bounds, **options):
    return jax.lax.fori_loop(*bounds, lambda i, c: c, x3, **options)


def ragged(lax, *dimensions):
    """Numbers of a ragged product, beside those of its contraction."""
    return lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), *dimensions)


def gather_rows(lax, sizes=(1, 4), indices=places, **changes):
    numbers = dict(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    numbers = lax.GatherDimensionNumbers(**numbers | changes)
    return lax.gather(x34, indices, numbers, sizes)


def add_rows(lax, rows, x=x34):
    numbers = lax.ScatterDimensionNumbers((1,), (0,), (0,))
    return lax.scatter_add(x, places, rows, numbers)


def without_jit(jax, call):
    with jax.disable_jit():
        return call()


# Lines of an expression, and of what it raises with words of the message.  (Of sizes
# that are equal JAX tells those that it was called with first: np.int64(5), say.)
mistakes = [" ".join(row.split()).split(" -> ") for row in re.split(r"\n(?! )", """\
jax.jit(generator) -> TypeError: Expected a function, got a generator function
jax.jit(staticmethod(generator)) -> TypeError: staticmethod arguments are not supported
jax.jit(lambda x: x)(jnp.int32) -> TypeError: Error interpreting argument to
jnp.ones(()) + np.zeros((), jax.float0) -> TypeError: float0s do not support any
    operations by design
jnp.broadcast_to(x34, (4, 5)) -> ValueError: Incompatible types for broadcasting: input
    type=float32[3,4] and requested type=float32[4,5]
jnp.broadcast_to(x34, (4,)) -> ValueError: Cannot broadcast to shape with fewer
    dimensions: arr_shape=(3, 4) shape=(4,)
jax.tree.transpose(jax.tree.structure([0, 0]), jax.tree.structure((0, 0)), [(1, 2), (3,
    4, 5)]) -> TypeError: Mismatch
jax.tree.map(min, {"a": [1]}, {"a": 1}) -> ValueError: pytree structure error: different
    types at key path
jax.tree.map(min, [1, 2], [1]) -> ValueError: pytree structure error: different lengths
    of list at key path
jax.tree.map(min, {"a": 1}, {"b": 1}) -> ValueError: pytree structure error: different
    pytree metadata at key path
jax.tree.unflatten(jax.tree.structure([1, 2]), [1]) -> ValueError: Too few leaves for
    PyTreeDef; expected 2, got 1
lax.scan(lambda c, _: (x3[:2], None), x3, None, length=2) -> TypeError: scan body
    function carry input and carry output must have equal types, but they differ
lax.while_loop(lambda c: True, lambda c: (c, c), 1.0) -> TypeError: while_loop body
    function carry input and carry output must have the same pytree structure, but they
    differ
lax.cond(True, lambda: x3, lambda: x4) -> TypeError: cond branches must have equal
    output types but they differ
lax.switch(0, [lambda: (x3,), lambda: x3]) -> TypeError: switch branch outputs must have
    the same pytree structure, but they differ
jax.vmap(lambda x, y: x)(x3, x4) -> ValueError: vmap got inconsistent sizes for array
    axes to be mapped: * one axis had size 3: axis 0 of argument x of type f
jax.vmap(abs, axis_size=4)(x3) -> ValueError: the `axis_size` argument was 4
jax.vmap(abs)(1.0) -> ValueError: vmap was requested to map its argument along axis 0,
    which implies that its rank should be at least 1, but is only 0
jax.vmap(abs, in_axes=None)(x3) -> ValueError: vmap must have at least one non-None
    value in in_axes
jax.vmap(abs, in_axes=({"b": 0},))({"a": x3}) -> ValueError: vmap in_axes specification
    must be a tree prefix of the corresponding value
jax.vmap(abs, out_axes=None)(x3) -> ValueError: at vmap out_axes, got axis spec None but
    output was batched on axis 0
jax.vmap(lambda x: {"k": [x, x], "m": x}, out_axes={"k": [0, None], "m": 0})(x3) ->
    ValueError: at vmap out_axes['k'][1], got axis spec None but output was batched on
    axis 0
jax.vmap(lambda x: (x, (x, x)), out_axes=(0, None))(x3) -> ValueError: at vmap
    out_axes[1][0], got axis spec None but output was batched on axis 0
jax.vmap(abs, out_axes=3)(x3) -> ValueError: axis 3 is out of bounds for array of
    dimension 1
jax.grad(lambda x: x)(x3) -> TypeError: Gradient only defined for scalar-output
    functions. Output had shape: (3,)
jax.grad(lambda x: None)(1.0) -> TypeError: Gradient only defined for scalar-output
    functions. Output was None
jax.grad(lambda x: x * 1j)(1.0) -> TypeError: grad requires real-valued outputs (output
    dtype that is a sub-dtype of np.floating), but got complex64
jax.grad(lambda x: x, has_aux=True)(1.0) -> TypeError: expected function with aux output
    to return a two-element tuple
jax.jvp(abs, (x3,), (x4,)) -> ValueError: jvp called with different primal and tangent
    shapes
jax.vjp(lambda x: (x, x), x3)[1](x3) -> ValueError: unexpected tree structure
jax.vjp(lambda x: (x, x), x3)[1](x3, x3) -> TypeError: was called with 2 arguments, but
jnp.add(1, 2, out=x3) -> NotImplementedError: out
jnp.negative(1, where=True) -> NotImplementedError: where
jax.vjp(lambda x: x, x3)[1](x4) -> ValueError: unexpected JAX type (e.g. shape/dtype)
    for argument to VJP function: got f
traced(lambda jax, x: 1 if x > 0 else 2)(jax) -> TracerBoolConversionError: Attempted
    boolean conversion of traced array
traced(lambda jax, n: [1, 2][n])(jax, 1) -> TracerIntegerConversionError: The
    __index__() method was called on traced array
traced(lambda jax, x: np.asarray(x))(jax) -> TracerArrayConversionError: The
    numpy.ndarray conversion method __array__() was called on traced array
traced(lambda jax, x: float(x))(jax) -> ConcretizationTypeError: Abstract tracer value
    encountered where concrete value is expected
traced(lambda jax, n: jnp.arange(n))(jax, 3) -> ConcretizationTypeError: Abstract tracer
    value encountered where concrete value is expected
traced(lambda jax, x: x[x > 0])(jax, x3) -> NonConcreteBooleanIndexError: Array boolean
    indices must be concrete; got bool[3]
traced(lambda jax, x: jax.ops.segment_sum(x, x.astype(int)))(jax, x3) ->
    ConcretizationTypeError: Abstract tracer value encountered where concrete value is
jnp.where(True, x3) -> TypeError: requires ndarray or scalar arguments, got <class
    'NoneType'> at position 2
jax.jit(lambda x: x)("a") -> TypeError: as an abstract array. The problematic value is
    of type <class 'str'> and was passed to the function at path x
jax.grad(lambda x: 1.0)("a") -> TypeError: Argument 'a' of type <class 'str'> is not a
    valid JAX type
jax.grad(jax.custom_vjp(lambda x: x))(1.0) -> AttributeError: No VJP defined for
    custom_vjp function <lambda> using defvjp
jax.jvp(jax.custom_jvp(lambda x: x), (1.0,), (1.0,)) -> AttributeError: No JVP defined
    for custom_jvp function <lambda> using defjvp
fwd_and_bwd(lambda r, g: (g,), fwd=lambda x: x)(jax) -> TypeError: must produce a pair
    (list or tuple of length two)
fwd_and_bwd(lambda r, g: (g, g))(jax) -> TypeError: Custom VJP bwd rule must produce an
    output with the same container (pytree) structure as the args tuple of the primal
    function
fwd_and_bwd(lambda r, g: (x3,))(jax) -> ValueError: Custom VJP bwd rule must produce an
    output with the same type as the args tuple of the primal function
jax.jvp(ruled("custom_vjp", "defvjp", lambda x: (x, x), min)(jax), (1.0,), (1.0,)) ->
    TypeError: can't apply forward-mode autodiff (jvp) to a custom_vjp function
with_jvp(lambda p, t: p[0])(jax) -> TypeError: Custom JVP rule <lambda> for function
    <lambda> must produce a pair (list or tuple of length two)
with_jvp(lambda p, t: (p[0], (t[0], t[0])))(jax) -> TypeError: must produce primal and
    tangent outputs with equal container (pytree) structures
with_jvp(lambda p, t: (p[0], x3))(jax) -> TypeError: Custom JVP rule must produce primal
    and tangent outputs with corresponding shapes and dtypes
jax.vmap(jax.custom_batching.custom_vmap(lambda x: x))(x3) -> AttributeError: No
    batching rule defined for custom_vmap function <lambda> using def_vmap
jnp.stack([x3, x4]) -> ValueError: All input arrays must have the same shape. Got (3,),
    (4,)
jnp.squeeze(x34, 0) -> ValueError: cannot select an axis to squeeze out which has size
    not equal to one, got shape=(3, 4) and dimensions=(0,)
jnp.einsum("ij,jk->ik", x34, x34) -> ValueError: Size of label 'j' for operand 1 (
jnp.asarray(x3)["a"] -> TypeError: JAX does not support string indexing; got idx='a'
jnp.linalg.inv(x34) -> ValueError: Argument to inv must have shape [..., n, n], got (3,
    4)
lax.dynamic_slice(x3, (0,), (5,)) -> TypeError: slice slice_sizes must be less than or
    equal to operand shape, got slice_sizes (
fwd_and_bwd(lambda r, g: g)(jax) -> TypeError:
fwd_and_bwd(lambda r, g: ({"a": g},))(jax) -> TypeError:
jax.custom_jvp(lambda x: x)(1.0) -> AttributeError:
jax.grad(functools.partial(capturing, jax))(2.0) -> UnexpectedTracerError:
traced(with_nondiff)(jax) -> UnexpectedTracerError:
jax.linear_transpose(jnp.sin, 1.0)(1.0) -> NotImplementedError:
bool(jnp.ones(3)) -> ValueError: is ambiguous
traced(lambda jax, x: 1 if x else 2)(jax, x3) -> ValueError: is ambiguous
jax.grad(lambda x: x.sum() if x else 0.0)(x3) -> ValueError: is ambiguous
jax.jvp(jnp.sin, (1.0,), (1,)) -> TypeError:
jax.linearize(jnp.sin, x3)[1](x4) -> ValueError:
jax.grad(3) -> TypeError:
traced(lambda jax, x: np.sin(x))(jax) -> TracerArrayConversionError:
jax.jit(lambda x: x, static_argnums=0)([1]) -> ValueError:
traced(lambda jax, x: "text")(jax) -> TypeError:
traced(lambda jax, x: jnp.ones((x,)))(jax, 1) -> TypeError:
jax.jit(lambda x: x, static_argnums=2) -> ValueError:
jax.jit(lambda x: x, static_argnames="y") -> ValueError:
jax.jit(lambda x, y: x)(1.0) -> TypeError:
jax.jit(3) -> TypeError:
set_at(0, 5)(jax) -> ValueError: Incompatible types for broadcasting: input
    type=float32[5] and requested type=float32[4]
set_at(np.array([0, 2]), (3, 4))(jax) -> ValueError: Incompatible types for
    broadcasting: input type=float32[3,4] and requested type=float32[2,4]
set_at((0, 1), 2)(jax) -> ValueError: Cannot broadcast to shape with fewer dimensions:
    arr_shape=(2,) shape=()
jnp.asarray(x34)[np.arange(2), np.arange(3)] -> ValueError: Incompatible shapes for
    broadcasting: shapes=[(2,), (3,)]
jnp.argmax(x34, axis=(0, 1)) -> TypeError: integer
jnp.unstack(x34, axis=(0, 1)) -> TypeError: integer
jnp.hsplit(1.0, 2) -> IndexError:
jnp.swapaxes(x34, 0, 2) -> IndexError: 2 is out of bounds for a
jnp.var(x34, axis=2, mean=1.0) -> IndexError:
lax.scan(lambda c, _: (c.astype("int32"), None), x3, None, length=2) -> TypeError:
lax.scan(lambda c, _: c, x3, None, length=2) -> TypeError:
lax.scan(lambda c, _: (c, c, c), x3, None, length=2) -> TypeError:
lax.scan(lambda c, _: (c, None), x3, (np.ones(3), np.ones(4))) -> ValueError:
lax.scan(lambda c, _: (c, None), x3, np.ones(3), length=4) -> ValueError:
lax.scan(lambda c, _: (c, None), x3, 1.0) -> ValueError:
lax.scan(lambda c, _: (c, None), x3, None) -> ValueError:
lax.scan(3, x3, np.ones(3)) -> TypeError:
lax.scan(lambda c, _: (c, None), x3, None, length=3, unroll=-1) -> ValueError:
lax.scan(lambda c, _: (c, None), "a", None, length=3) -> TypeError:
lax.while_loop(lambda c: c, lambda c: c, 1.0) -> TypeError:
lax.while_loop(lambda c: c < 0, lambda c: c, x3) -> TypeError:
lax.while_loop(True, lambda c: c, x3) -> TypeError:
same_until(jax, np.int8(0), np.int32(3)) -> TypeError:
jax.jit(functools.partial(same_until, jax))(np.int8(0), np.int32(3)) -> TypeError:
same_until(jax, 0, np.array([1, 2])) -> TypeError:
lax.fori_loop(0, 3, lambda c: c, x3) -> TypeError:
lax.fori_loop(0, 3, None, x3) -> TypeError:
lax.fori_loop(0, 3, lambda i, c: (c, c), x3) -> TypeError:
jax.jit(lambda n: same_until(jax, 0, n, unroll=2))(3) -> ValueError:
lax.cond(x3 > 0, lambda: 1, lambda: 2) -> TypeError:
lax.cond("a", lambda: 1, lambda: 2) -> TypeError:
lax.cond(None, lambda: 1, lambda: 2) -> TypeError:
lax.cond(np.complex64(1), lambda: 1, lambda: 2) -> TypeError:
lax.cond(lambda: True, lambda: 1, lambda: 2) -> TypeError:
lax.cond(True, 1, 2) -> TypeError:
lax.cond(True, lambda x: x, lambda x: (x,), x3) -> TypeError:
lax.cond(True, lambda x: x, lambda x, y: x, x3) -> TypeError:
lax.cond(True, lambda x: None, lambda x: x, x3) -> TypeError:
lax.switch(1.0, [lambda: 1, lambda: 2]) -> TypeError:
lax.switch(np.array([1, 2]), [lambda: 1, lambda: 2]) -> TypeError:
lax.switch(1, []) -> ValueError:
lax.switch(1, [1, 2]) -> TypeError:
lax.switch(True, [lambda: 1, lambda: 2]) -> TypeError:
lax.map(lambda x: x, 1.0) -> ValueError:
lax.map(lambda x: x, ()) -> ValueError:
lax.map(lambda x: x[0], (x3, x3[:2])) -> ValueError:
lax.associative_scan(1, x3) -> TypeError:
lax.associative_scan(lambda a, b: a, (x3, x3[:2])) -> ValueError:
lax.associative_scan(lambda a, b: a, x3, axis=1) -> ValueError:
without_jit(jax, lambda: lax.scan(lambda c, x: (c + x, c), x3, x34[:0])) -> ValueError:
jnp.sin([1, 2]) -> TypeError: sin requires ndarray or scalar arguments, got <class
jnp.sum([1, 2]) -> TypeError: sum requires
jnp.ones(3) + [1, 2, 3] -> TypeError: unsupported operand type(s) for +
jnp.ones(3) + jnp.ones(2) -> TypeError: add got incompatible shapes for broadcasting
jnp.ones((3, 2)).reshape(4, -1) -> TypeError: does not evenly divide 6
jnp.ones((3, 2)).reshape(4, 2) -> TypeError: into shape (4, 2) (size 8)
jnp.ones((3, 2)).reshape(-1, -1) -> TypeError: only specify one unknown axis size
jnp.zeros(2.5) -> TypeError: Shapes must be 1D
jnp.ones((3, 2)) @ jnp.ones((3, 2)) -> TypeError: contracting dimensions
jnp.tensordot(jnp.ones(2), jnp.ones(2), 2) -> TypeError: exceeds input ranks
jnp.ones(3) << 1 -> TypeError: shift_left does not accept dtype float32
iter(jnp.float32(2)) -> TypeError: iteration over a 0-d array
len(jnp.float32(2)) -> TypeError: unsized
jnp.sort(jnp.ones(2), kind="quicksort") -> TypeError: 'kind' argument to sort
"a" in jnp.ones(3) -> TypeError: unsupported operand type <class 'str'>
jnp.select([True], [None]) -> TypeError: select requires ndarray or scalar
jnp.add(1, None) -> TypeError: add requires ndarray or scalar arguments, got <class
    'NoneType'> at position 1
jnp.zeros(2, 3) -> TypeError: Did you accidentally write
jnp.sum(jnp.ones((3, 3)), axis=(0, 0)) -> ValueError: duplicate value in 'axis'
jnp.max(jnp.ones(0)) -> ValueError: zero-size array to reduction operation max
jnp.max(jnp.ones(2), where=jnp.ones(2, bool)) -> ValueError: not have an identity
jnp.sum(jnp.ones(2), where=jnp.ones(2)) -> ValueError: must be None or a boolean
jnp.argmax(jnp.ones(0)) -> ValueError: attempt to get argmax of an empty sequence
jnp.concatenate([]) -> ValueError: Need at least one array to concatenate
jnp.concatenate([1.0, 2.0]) -> ValueError: Zero-dimensional arrays cannot be concat
jnp.array([1, None]) -> ValueError: None is not a valid value for jnp.array
jnp.array(None) -> ValueError: None is not a valid value for jnp.array
jnp.array([[1, 2], [3]]) -> ValueError: inhomogeneous
jnp.broadcast_shapes((2,), (3,)) -> ValueError: Incompatible shapes for broadcasting
jnp.ones(3) @ 1 -> ValueError: matmul input operand 1 must have ndim at least 1
jnp.nonzero(1) -> ValueError: Calling nonzero on 0d arrays
jnp.diag(jnp.ones((2, 2, 2))) -> ValueError: diag input must be 1d or 2d
jnp.clip(1j, 0, 1) -> ValueError: complex
jnp.split(jnp.ones(5), 2) -> ValueError: equal division: rest is 1
jnp.pad(jnp.ones(2), -1) -> ValueError: negative
jnp.quantile(jnp.ones(2), 0.5, method="?") -> ValueError: method can only be
jnp.triu_indices_from(jnp.ones(3)) -> ValueError: Only 2-D inputs are accepted
jnp.convolve(jnp.ones(3), jnp.ones((2, 2))) -> ValueError: only support 1-dim
jnp.ldexp(1j, 2) -> ValueError: ldexp not supported for input types
jnp.linalg.eigh(jnp.eye(2), UPLO="x") -> ValueError: UPLO must be one of None, 'L'
jax.image.resize(x34, (3,), "linear") -> ValueError: length equal to the number of
    dimensions
jax.image.resize(x34, (3, 4), "sharp") -> ValueError: Unknown resize method "sharp"
jax.image.scale_and_translate(x34, (1, 1), (0,), x3, x3, "nearest") -> ValueError: not
    currently supported
nn.relu("a") -> TypeError:
nn.standardize(x3, algorithm="slow") -> ValueError: Unknown algorithm
nn.one_hot(np.array([1]), 3, axis=5) -> ValueError: out of bounds
nn.dot_product_attention(q[..., :2], kv, kv) -> ValueError: query shape should be
nn.dot_product_attention(q[:, :, :3], kv, kv) -> ValueError: multiple of
nn.dot_product_attention(q, kv, kv.astype("f2")) -> ValueError: value dtype should be
nn.initializers.glorot_normal()(key, (3,)) -> ValueError: 1-dimensional weights
nn.initializers.variance_scaling(1, "fan", "normal")(key, (3, 4)) -> ValueError: invalid
    mode
nn.initializers.variance_scaling(1, "fan_in", "cauchy")(key, (3, 4)) -> ValueError:
    invalid distribution
nn.initializers.orthogonal()(key, (3,)) -> ValueError: at least a 2D
nn.initializers.delta_orthogonal()(key, (3, 3)) -> ValueError: 3D, 4D or 5D
lax.ragged_dot(x43, cube, np.ones(2)) -> TypeError: np.integer
lax.ragged_dot(x43, cube, np.ones(3, int)) -> TypeError: size to be 3
lax.ragged_dot_general(x43, cube, np.array([1, 2]), ragged(lax, (), (0,))) -> TypeError:
    exactly
lax.ragged_dot_general(x43, cube, np.array([1, 2]), ragged(lax, (4,), (0,))) ->
    TypeError: rank
jnp.polyfit(x43, x43, 2) -> TypeError: 1D vector for x
jnp.polyfit(x3, x3, -1) -> ValueError: deg >= 0
jnp.polyfit(x3, x3, 1, None, False, x34) -> TypeError: for weights
jnp.polyfit(x3, x3, 2, None, False, None, True) -> ValueError: exceed
jnp.roots(x34) -> ValueError: rank-1
jax.jit(jnp.roots)(x3) -> ConcretizationTypeError: strip_zeros=False
jnp.fromfile("f") -> NotImplementedError: np.fromfile
jnp.fromiter((1, 2)) -> NotImplementedError: np.fromiter
lax.linalg.tridiagonal(x34) -> ValueError: square
lax.linalg.tridiagonal_solve(x43, x43, x43, np.ones((4, 2, 1))) -> TypeError: diagonal
lax.conv(x135, x223, (1,), "SAME") -> ValueError: 3 // 1 != 2
lax.conv(x135, x223[0], (1,), "SAME") -> TypeError: ndim to be equal, got 3 and 2
lax.conv_general_dilated(x135, x223, (1,), "SAME", (2,)) -> ValueError: use
    conv_transpose
lax.conv_general_dilated(x135, x223, (1,), 3) -> ValueError: sequence of (low, high)
    pairs, got 3
lax.conv_general_dilated(x135, x223, (1,), "SAME", feature_group_count=3,
    batch_group_count=2) -> ValueError:
lax.conv(x135, x135, (1, 1), "SAME") -> ValueError:
lax.conv_general_dilated(x135, x135, (1,), "SAME", None, (1, 2)) -> ValueError:
jnp.linalg.solve(x34, x3) -> ValueError:
jnp.linalg.solve(np.eye(2), x3) -> ValueError:
jnp.linalg.qr(x34, mode="raws") -> ValueError:
random.multivariate_normal(key, np.float32(1), np.eye(1)) -> ValueError: mean.ndim
random.multivariate_normal(key, np.ones(2), np.ones(2)) -> ValueError: cov.ndim
random.binomial(key, 3, 0.5, dtype=int) -> ValueError: float dtype
random.binomial(key, np.ones(2), 0.5, (3,)) -> ValueError: (3,)
random.uniform(key, (2,), int) -> ValueError: `uniform` must be a float dtype
random.bits(key, (2,), "int32") -> ValueError: `bits` must be an unsigned int dtype
random.randint(key, (2,), 0, 3, "float32") -> TypeError: randint only accepts integer
random.randint(key, (2,), jnp.zeros(3, int), 3) -> ValueError: broadcast
random.bernoulli(key, 1) -> TypeError: must have a floating dtype
random.choice(key, 3, (4,), replace=False) -> ValueError: population
random.choice(key, 3, (2,), p=jnp.ones(4)) -> ValueError: same size as a
random.choice(key, 3, 2) -> TypeError: must be a sequence
random.categorical(key, jnp.zeros(3), shape=(4,), replace=False) -> ValueError: cannot
    exceed number of categories
random.permutation(key, 1.5) -> TypeError: integer or at least 1-dimensional
random.gumbel(key, mode="lowest") -> ValueError: valid mode
random.multivariate_normal(key, np.ones(2), np.eye(3)) -> ValueError: n=2
random.multivariate_normal(key, np.ones(2), np.eye(2), method="lu") -> ValueError:
    method must be one of
random.multivariate_normal(key, np.ones((3, 2)), np.eye(2), (5,)) -> ValueError: (5,)
random.binomial(random.split(key), 3, 0.5) -> ValueError: single key
jax.jit(lambda n: random.normal(key, (n,)))(3) -> TypeError: Shapes must be 1D sequences
    of concrete
jnp.asarray(cube)[0, 0, 0, 0] -> IndexError: array is 3-dimensional, but 4 were indexed
jnp.asarray(cube)[..., ...] -> IndexError: single ellipsis
jnp.asarray(cube)[1.5] -> TypeError: Indexer must have integer or boolean type
jnp.asarray(cube)["a"] -> TypeError: string indexing
jnp.asarray(cube)[object] -> IndexError: only integers, slices
jnp.asarray(cube)[[0, 1]] -> TypeError: Using a non-tuple sequence
jnp.asarray(cube)[np.ones((2, 4), bool)] -> IndexError: got (2, 4), expected
jnp.asarray(x3[:0])[0] -> IndexError: out of bounds for axis 0 with size 0
jax.jit(lambda i: jnp.asarray(cube)[i:])(1) -> IndexError: at position 0
jnp.asarray(cube)[np.arange(2), np.arange(3)] -> ValueError: shapes for broadcasting:
    shapes=[(2,), (3,)]
jnp.asarray(x3).at[np.arange(2)].get(mode="wrop") -> ValueError: Unknown gather mode
lax.pad(x34, 0.0, [(0, 0, 0)]) -> ValueError: must equal the number of axes
lax.pad(x34, 0.0, [(0, 0, -1)] * 2) -> ValueError: interior padding
lax.pad(x34, 0.0, [(-3, -3, 0)] * 2) -> ValueError: size after padding is not at least 0
lax.rev(x34, (0, 0)) -> TypeError: rev dimensions must be unique
lax.rev(x34, (2,)) -> TypeError: rev dimensions must
lax.dynamic_slice(x34, (0, -1), (1, 1), allow_negative_indices=False) -> ValueError:
    Index -1 is out of bounds for dimension 4
lax.dynamic_slice(x34, (0,), (1, 1)) -> ValueError: must match number of operand
    dimensions
lax.dynamic_slice(x34, (0.0, 0), (1, 1)) -> TypeError: integers of the same type
lax.dynamic_slice(x34, (np.int8(0), 0), (1, 1)) -> TypeError: integers of the same type,
    got: int8, int32
lax.dynamic_update_slice(x34, x3, (0, 0)) -> TypeError: same rank as operand
lax.dynamic_update_slice(x34, x43, (0, 0)) -> TypeError: must be smaller than operand
    shape
gather_rows(lax, (1,)) -> TypeError: one slice size for every input dimension
gather_rows(lax, (1, 5)) -> TypeError: Slice size at index 1 in gather op is out of
    range
gather_rows(lax, (2, 4)) -> TypeError: only collapse slice dims with bound 1
gather_rows(lax, offset_dims=(2,)) -> TypeError: Offset dimension 0 in gather op is out
    of bounds
gather_rows(lax, offset_dims=(0, 1)) -> TypeError: either be a offset dimension or
gather_rows(lax, collapsed_slice_dims=(1, 0)) -> TypeError: collapsed_slice_dims in
    gather op must be sorted
gather_rows(lax, start_index_map=(0, 1)) -> TypeError: 2 elements in start_index_map and
gather_rows(lax, operand_batching_dims=(0,)) -> TypeError: be disjoint
gather_rows(lax, start_indices_batching_dims=(1,)) -> TypeError: cannot have the index
    vector
gather_rows(lax, start_indices_batching_dims=(0,)) -> TypeError: requires equal numbers
    of operand_batching_dims
gather_rows(lax, (1, 1), operand_batching_dims=(1,), start_indices_batching_dims=(0,),
    offset_dims=()) -> TypeError: to have the same shape
gather_rows(lax, start_indices_batching_dims=(2,)) -> TypeError: valid range is [0, 2)
gather_rows(lax, (2, 1), np.ones((3, 1), int), operand_batching_dims=(0,),
    start_indices_batching_dims=(0,), collapsed_slice_dims=(), start_index_map=(1,))
    -> TypeError: operand batching dims with bound 0/1
add_rows(lax, x4[:2]) -> TypeError: must be of rank 2; got 1
add_rows(lax, np.ones((3, 4), "f4")) -> TypeError: Bounds of the scatter dimensions of
    updates
add_rows(lax, np.ones((2, 5), "f4")) -> TypeError: Bounds of the window dimensions of
    updates must not exceed
add_rows(lax, np.ones((2, 4), int)) -> TypeError: same dtypes
add_rows(lax, x34[:2] > 0, x34 > 0) -> TypeError: does not accept dtype bool
lax.tan(1) -> TypeError: tan does not accept dtype int32
lax.erf(1j) -> TypeError: erf does not accept dtype complex64
lax.shift_left(1.0, 2.0) -> TypeError: shift_left does not accept dtype float32
lax.real(1.0) -> TypeError: real does not accept dtype float32
lax.shift_left(np.ones(2, int), np.ones(2, "int8")) -> TypeError: same dtypes, got
    int32, int8
lax.clamp(x4, x34, x34) -> TypeError: min.shape == operand.shape or
lax.clamp(np.int32(0), x3, x3) -> TypeError: same dtypes, got int32, float32, float32
lax.bitcast_convert_type(np.ones(3, "i2"), np.int32) -> ValueError: convert array of
    shape (3,) from int16
lax.bitcast_convert_type(x4 > 0, "uint8") -> TypeError: does not support bool or complex
lax.cumsum(x3 > 0) -> TypeError: does not accept dtype bool
lax.padtype_to_pads((6,), (3,), (2,), "FULL") -> RuntimeError: Unrecognized padding type
lax.sort(()) -> TypeError: at least one operand
lax.sort((x3, x3), num_keys=3) -> ValueError: num_keys=3 must be between 1 and
lax.sort(x34, dimension=2) -> ValueError: axis 2 is out of bounds
lax.sort((x34, x4)) -> TypeError: must have equal shapes, got: (3, 4) (4,)
lax.top_k(x34, 5) -> ValueError: no larger than size along axis; got k=5
lax.top_k(x34, -1) -> ValueError: nonnegative, got -1
lax.top_k(x3 + 0j, 1) -> ValueError: not compatible with complex inputs
jnp.fft.fft(x3, norm="half") -> ValueError: Invalid norm
jnp.fft.fft2(x3, axes=(0,)) -> ValueError: only supports 2 axes
lax.fft(x3, "DCT", (3,)) -> ValueError: Unknown FFT type
jnp.corrcoef(x3, x3, dtype=int) -> ValueError: corrcoef: dtype must be a subclass of
    float
jnp.pad(x34, 3, mode="mean", stat_length=0) -> ValueError: stat_length of 0
jnp.nansum(x3, promote_integers=False) -> TypeError: got an unexpected keyword argument
    'promote_integers'
jnp.frompyfunc(jnp.sin, 1, 1).reduce(x3) -> ValueError: binary ufuncs
jnp.add.at(x3, 0, 1.0) -> NotImplementedError: inplace=False
jnp.subtract.reduce(x3[:0]) -> ValueError: no identity
jnp.subtract.reduce(x3, where=x3 > 0) -> ValueError: specify 'initial'
random.key(0, impl="fry") -> ValueError: unrecognized PRNG implementation "fry"
random.key(1.5) -> TypeError: seed must be an integer
random.key(np.zeros(2, int)) -> TypeError: accepts a scalar seed
random.key(random.key(0)) -> TypeError: was given a PRNG key
random.PRNGKey(2**64) -> OverflowError: too large
random.wrap_key_data(key, impl="rbg") -> TypeError: end with (4,); got shape=(2,)
random.poisson(random.key(0, impl="rbg"), 2.0) -> NotImplementedError: only implemented
    for the threefry
random.fold_in(key, np.arange(2)) -> TypeError: fold_in accepts a scalar
random.orthogonal(key, 3, (), int) -> ValueError: must be a float or complex dtype
lax.rng_uniform(1.0, 2, (3,)) -> ValueError: identical dtypes
lax.rng_uniform(x3, x3, (3,)) -> ValueError: must be scalars; got shapes (3,) and (3,)
""".strip())]


def along(name, *more):
    """A function of (jax, x, axis): one of `jnp`'s, `more` between x and the axis."""
    return lambda jax, x, axis: getattr(jax.numpy, name)(x, *more, axis=axis)


# Functions that say ValueError of an axis that is not there, and what it is.
alongs = [
    *map(along, """
        all any argsort average count_nonzero cumprod cumsum expand_dims flip max median
        min nanmedian nansum prod ptp sort squeeze sum trapezoid unstack
    """.split()),
    along("percentile", 50), along("quantile", 0.5), along("roll", 1), along("take", 0),
    along("delete", 0), along("insert", 0, 1.0),
    lambda jax, x, axis: jax.numpy.stack([x, x], axis),
    lambda jax, x, axis: jax.numpy.moveaxis(x, axis, 0),
]  # fmt: skip
# Those that say something else of a scalar.
alongs_of_arrays = [
    along("diff"), along("repeat", 2),
    lambda jax, x, axis: jax.numpy.append(x, x, axis=axis),
    lambda jax, x, axis: jax.numpy.concatenate([x, x], axis),
    lambda jax, x, axis: jax.numpy.moveaxis(x, 0, axis),
    lambda jax, x, axis: jax.numpy.rot90(x, axes=(0, axis)),
]  # fmt: skip
# Those in which JAX looks the axis up in the shape, which Python answers with
# "tuple index out of range": here the words are those of the others.
lookups = [
    *map(along, "argmax argmin mean nanargmax nanargmin std var".split()),
    along("array_split", 1), along("split", 1),
    lambda jax, x, axis: jax.numpy.swapaxes(x, axis, 0),
]  # fmt: skip


def check(jax, wrong, words):
    kind, _, phrase = words.partition(":")
    with pytest.raises(Exception) as caught:
        names = {"jax": jax, "jnp": jax.numpy, "lax": jax.lax}
        names |= {"nn": jax.nn, "random": jax.random}
        eval(wrong, globals() | names) if isinstance(wrong, str) else wrong(jax)
    assert kind == type(caught.value).__name__
    assert phrase.strip() in " ".join(str(caught.value).split())


@pytest.mark.parametrize("wrong, words", mistakes)
def test_what_an_error_says(wrong, words):
    check(mj, wrong, words)


no_such_axis = pytest.mark.parametrize(
    "x, axis", [(x34, 3), (x34, -4), (np.float32(1), 2), (np.float32(1), -3)]
)


def check_axes(jax, x, axis, words_of_lookups):
    words = f"axis {axis} is out of bounds for array of dimension"
    for f in alongs + alongs_of_arrays * (x.ndim > 0):
        check(jax, functools.partial(f, x=x, axis=axis), f"ValueError: {words}")
    for f in lookups:
        wrong = functools.partial(f, x=x, axis=axis)
        check(jax, wrong, f"IndexError: {words_of_lookups or words}")


@no_such_axis
def test_what_an_axis_that_is_not_there_says(x, axis):
    check_axes(mj, x, axis, "")


@pytest.mark.oracle
@no_such_axis
def test_jax_says_so_of_axes(x, axis):
    import jax

    check_axes(jax, x, axis, "index")


@pytest.mark.oracle
def test_jax_says_so_too():
    import jax
    import jax.custom_batching

    for wrong, words in mistakes:
        check(jax, wrong, words)


@pytest.mark.oracle
def test_what_errors_are():
    import jax

    kinds = "JAXTypeError JAXIndexError ConcretizationTypeError".split()
    builtin = (TypeError, IndexError, ValueError, RuntimeError)
    for name in mj.errors.__all__:
        ours, theirs = getattr(mj.errors, name), getattr(jax.errors, name, None)
        bases = [(b, b) for b in builtin]
        bases += [(getattr(mj.errors, k), getattr(jax.errors, k)) for k in kinds]
        for mine, of_jax in bases if theirs else []:
            assert issubclass(ours, mine) == issubclass(theirs, of_jax), name


different = [
    ({"a": [1, 2]}, {"a": (1, 2)}),
    ([1, (2, 3)], [1, (2, 3, 4)]),
    ({"a": 1}, {"b": 1}),
    ((1, None), (1, 2)),
]


@pytest.mark.oracle
@pytest.mark.parametrize("first, second", different)
def test_where_trees_differ(first, second):
    from jax._src import tree_util as of_jax

    from minijit.trace.trees import tools as tree_tools

    ours, = tree_tools.prefix_errors(first, second)
    theirs, = of_jax.prefix_errors(first, second)
    words = [str(error("x")).partition(" at key path")[0] for error in (ours, theirs)]
    assert words[0] == words[1] and type(ours("x")) is type(theirs("x"))
    (path, *_), = tree_tools.equality_errors(first, second)
    (expected, *_), = of_jax.equality_errors(first, second)
    assert mj.tree_util.keystr(path) == of_jax.keystr(expected)
    assert tree_tools.prefix_errors(0, second) == []
    assert not [*tree_tools.equality_errors(second, second)]
