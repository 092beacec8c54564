"""Words of JAX's errors that programs look for: ours contain them, and so do JAX's."""

import functools
import re

import numpy as np
import pytest

import minijit as mj

pytestmark = [pytest.mark.chapter(16), pytest.mark.usefixtures("no_words_of_the_test")]

x3, x4, x34 = (np.ones(n, np.float32) for n in (3, 4, (3, 4)))


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


def without_jit(jax, call):
    with jax.disable_jit():
        return call()


# Lines of an expression, and of what it raises with words of the message.  (Of sizes
# that are equal JAX tells those that it was called with first: np.int64(5), say.)
mistakes = [" ".join(row.split()).split(" -> ") for row in re.split(r"\n(?! )", """\
jax.jit(generator) -> TypeError: Expected a function, got a generator function
jax.jit(staticmethod(generator)) -> TypeError: staticmethod arguments are not supported
jax.jit(lambda x: x)(jax.numpy.int32) -> TypeError: Error interpreting argument to
jax.numpy.ones(()) + np.zeros((), jax.float0) -> TypeError: float0s do not support any
    operations by design
jax.numpy.broadcast_to(x34, (4, 5)) -> ValueError: Incompatible types for broadcasting:
    input type=float32[3,4] and requested type=float32[4,5]
jax.numpy.broadcast_to(x34, (4,)) -> ValueError: Cannot broadcast to shape with fewer
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
jax.lax.scan(lambda c, _: (x3[:2], None), x3, None, length=2) -> TypeError: scan body
    function carry input and carry output must have equal types, but they differ
jax.lax.while_loop(lambda c: True, lambda c: (c, c), 1.0) -> TypeError: while_loop body
    function carry input and carry output must have the same pytree structure, but they
    differ
jax.lax.cond(True, lambda: x3, lambda: x4) -> TypeError: cond branches must have equal
    output types but they differ
jax.lax.switch(0, [lambda: (x3,), lambda: x3]) -> TypeError: switch branch outputs must
    have the same pytree structure, but they differ
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
jax.numpy.add(1, 2, out=x3) -> NotImplementedError: out
jax.numpy.negative(1, where=True) -> NotImplementedError: where
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
traced(lambda jax, n: jax.numpy.arange(n))(jax, 3) -> ConcretizationTypeError: Abstract
    tracer value encountered where concrete value is expected
traced(lambda jax, x: x[x > 0])(jax, x3) -> NonConcreteBooleanIndexError: Array boolean
    indices must be concrete; got bool[3]
traced(lambda jax, x: jax.ops.segment_sum(x, x.astype(int)))(jax, x3) ->
    ConcretizationTypeError: Abstract tracer value encountered where concrete value is
jax.numpy.where(True, x3) -> TypeError: requires ndarray or scalar arguments, got
    <class 'NoneType'> at position 2
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
jax.numpy.stack([x3, x4]) -> ValueError: All input arrays must have the same shape. Got
    (3,), (4,)
jax.numpy.squeeze(x34, 0) -> ValueError: cannot select an axis to squeeze out which has
    size not equal to one, got shape=(3, 4) and dimensions=(0,)
jax.numpy.einsum("ij,jk->ik", x34, x34) -> ValueError: Size of label 'j' for operand 1 (
jax.numpy.asarray(x3)["a"] -> TypeError: JAX does not support string indexing; got
    idx='a'
jax.numpy.linalg.inv(x34) -> ValueError: Argument to inv must have shape [..., n, n],
    got (3, 4)
jax.lax.dynamic_slice(x3, (0,), (5,)) -> TypeError: slice slice_sizes must be less than
    or equal to operand shape, got slice_sizes (
fwd_and_bwd(lambda r, g: g)(jax) -> TypeError:
fwd_and_bwd(lambda r, g: ({"a": g},))(jax) -> TypeError:
jax.custom_jvp(lambda x: x)(1.0) -> AttributeError:
jax.grad(functools.partial(capturing, jax))(2.0) -> UnexpectedTracerError:
traced(with_nondiff)(jax) -> UnexpectedTracerError:
jax.linear_transpose(jax.numpy.sin, 1.0)(1.0) -> NotImplementedError:
bool(jax.numpy.ones(3)) -> ValueError: is ambiguous
traced(lambda jax, x: 1 if x else 2)(jax, x3) -> ValueError: is ambiguous
jax.grad(lambda x: x.sum() if x else 0.0)(x3) -> ValueError: is ambiguous
jax.jvp(jax.numpy.sin, (1.0,), (1,)) -> TypeError:
jax.linearize(jax.numpy.sin, x3)[1](x4) -> ValueError:
jax.grad(3) -> TypeError:
traced(lambda jax, x: np.sin(x))(jax) -> TracerArrayConversionError:
jax.jit(lambda x: x, static_argnums=0)([1]) -> ValueError:
traced(lambda jax, x: "text")(jax) -> TypeError:
traced(lambda jax, x: jax.numpy.ones((x,)))(jax, 1) -> TypeError:
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
jax.numpy.asarray(x34)[np.arange(2), np.arange(3)] -> ValueError: Incompatible shapes
    for broadcasting: shapes=[(2,), (3,)]
jax.numpy.argmax(x34, axis=(0, 1)) -> TypeError: integer
jax.numpy.unstack(x34, axis=(0, 1)) -> TypeError: integer
jax.numpy.hsplit(1.0, 2) -> IndexError:
jax.numpy.swapaxes(x34, 0, 2) -> IndexError: 2 is out of bounds for a
jax.numpy.var(x34, axis=2, mean=1.0) -> IndexError:
jax.lax.scan(lambda c, _: (c.astype("int32"), None), x3, None, length=2) -> TypeError:
jax.lax.scan(lambda c, _: c, x3, None, length=2) -> TypeError:
jax.lax.scan(lambda c, _: (c, c, c), x3, None, length=2) -> TypeError:
jax.lax.scan(lambda c, _: (c, None), x3, (np.ones(3), np.ones(4))) -> ValueError:
jax.lax.scan(lambda c, _: (c, None), x3, np.ones(3), length=4) -> ValueError:
jax.lax.scan(lambda c, _: (c, None), x3, 1.0) -> ValueError:
jax.lax.scan(lambda c, _: (c, None), x3, None) -> ValueError:
jax.lax.scan(3, x3, np.ones(3)) -> TypeError:
jax.lax.scan(lambda c, _: (c, None), x3, None, length=3, unroll=-1) -> ValueError:
jax.lax.scan(lambda c, _: (c, None), "a", None, length=3) -> TypeError:
jax.lax.while_loop(lambda c: c, lambda c: c, 1.0) -> TypeError:
jax.lax.while_loop(lambda c: c < 0, lambda c: c, x3) -> TypeError:
jax.lax.while_loop(True, lambda c: c, x3) -> TypeError:
same_until(jax, np.int8(0), np.int32(3)) -> TypeError:
jax.jit(functools.partial(same_until, jax))(np.int8(0), np.int32(3)) -> TypeError:
same_until(jax, 0, np.array([1, 2])) -> TypeError:
jax.lax.fori_loop(0, 3, lambda c: c, x3) -> TypeError:
jax.lax.fori_loop(0, 3, None, x3) -> TypeError:
jax.lax.fori_loop(0, 3, lambda i, c: (c, c), x3) -> TypeError:
jax.jit(lambda n: same_until(jax, 0, n, unroll=2))(3) -> ValueError:
jax.lax.cond(x3 > 0, lambda: 1, lambda: 2) -> TypeError:
jax.lax.cond("a", lambda: 1, lambda: 2) -> TypeError:
jax.lax.cond(None, lambda: 1, lambda: 2) -> TypeError:
jax.lax.cond(np.complex64(1), lambda: 1, lambda: 2) -> TypeError:
jax.lax.cond(lambda: True, lambda: 1, lambda: 2) -> TypeError:
jax.lax.cond(True, 1, 2) -> TypeError:
jax.lax.cond(True, lambda x: x, lambda x: (x,), x3) -> TypeError:
jax.lax.cond(True, lambda x: x, lambda x, y: x, x3) -> TypeError:
jax.lax.cond(True, lambda x: None, lambda x: x, x3) -> TypeError:
jax.lax.switch(1.0, [lambda: 1, lambda: 2]) -> TypeError:
jax.lax.switch(np.array([1, 2]), [lambda: 1, lambda: 2]) -> TypeError:
jax.lax.switch(1, []) -> ValueError:
jax.lax.switch(1, [1, 2]) -> TypeError:
jax.lax.switch(True, [lambda: 1, lambda: 2]) -> TypeError:
jax.lax.map(lambda x: x, 1.0) -> ValueError:
jax.lax.map(lambda x: x, ()) -> ValueError:
jax.lax.map(lambda x: x[0], (x3, x3[:2])) -> ValueError:
jax.lax.associative_scan(1, x3) -> TypeError:
jax.lax.associative_scan(lambda a, b: a, (x3, x3[:2])) -> ValueError:
jax.lax.associative_scan(lambda a, b: a, x3, axis=1) -> ValueError:
without_jit(jax, lambda: jax.lax.scan(lambda c, x: (c + x, c), x3, x34[:0])) ->
    ValueError:
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
        eval(wrong, globals() | {"jax": jax}) if isinstance(wrong, str) else wrong(jax)
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
