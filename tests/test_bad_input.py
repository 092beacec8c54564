"""Bad input is refused in words: the function, the argument, what came, the line."""

import os
import warnings
from operator import setitem

import numpy as np
import pytest
from bad_calls import complaint, outcome, report, spoiled, unclear_errors

import minijit as mj
import minijit.numpy as jnp
from minijit import lax, nn, random
from minijit.trace.api import calls

pytestmark = [pytest.mark.chapter(16), pytest.mark.usefixtures("no_words_of_the_test")]

# MINIJIT_BAD_INPUTS=10000 pytest tests/test_bad_input.py: as many as one likes.
COUNT = int(os.environ.get("MINIJIT_BAD_INPUTS", 1200))


def test_no_message_is_unclear():
    kinds, tried, accepted = unclear_errors(COUNT)
    assert tried >= COUNT and accepted < tried / 3
    assert not kinds, report(kinds)


def test_the_fuzzer_finds_what_is_unclear():
    """A fuzzer that accepts everything would be content with everything."""

    def unclear(function):
        call = next(spoiled(1, only=r"jnp\.sum$"))
        object.__setattr__(call, "function", function)
        object.__setattr__(call, "args", ((),))
        object.__setattr__(call, "kwargs", {})
        return complaint(call, outcome(call))

    def deep(x):
        return deep(x)

    for function in (lambda x: x[0], lambda x: x < "a", lambda x: {}[0],
                     lambda x: 1 / len(x), lambda x: x.shape, deep):
        assert unclear(inside(function)) is not None
    assert unclear(jnp.sum) is None


def inside(function):
    """The function as if it were minijit's own."""
    code = function.__code__
    code = code.replace(co_filename=calls.__file__)
    return type(function)(code, function.__globals__, "f", None, function.__closure__)


def message(function, *args, **kwargs):
    with pytest.raises(Exception) as caught:
        function(*args, **kwargs)
    return caught.value, str(caught.value).split("\n")


def gathered(*numbers, indices=np.ones((2, 1), int)):  # noqa: B008
    """A gather with these numbers, of an array of three axes."""
    names = lax.GatherDimensionNumbers(*numbers)
    return lax.gather(jnp.ones((4, 4, 4)), indices, names, (1, 1, 1))


def in_groups(name):
    f = lambda x: getattr(lax, name)(x, "i", axis_index_groups=[[0, 1]])
    return lambda: mj.vmap(f, axis_name="i")(jnp.ones(2))


def convolved(**options):
    options = {"window_strides": (1,), "padding": "SAME"} | options
    return lax.conv_general_dilated(jnp.ones((1, 2, 5)), jnp.ones((2, 2, 3)), **options)


@pytest.mark.parametrize("function, text", [
    *((in_groups(name), "axis_index_groups are not supported under vmap")
      for name in "psum pmean pmax pmin all_gather psum_scatter".split()),
    (lambda: gathered((2, 1), (0,), (0,)), "offset_dims in gather op must be sorted"),
    (lambda: gathered((1, 2), (1, 0), (0,)), "collapsed_slice_dims in gather op must"),
    (lambda: gathered((1, 2), (0,), (0, 0)), "start_index_map in gather op must not"),
    (lambda: gathered((1, 2), (3,), (0,)), "valid range is [0, 3), got (3,)"),
    (lambda: gathered((1, 2), (0,), (-1,)), "Invalid start_index_map set in gather op"),
    (lambda: gathered((1,), (), (1,), (1, 0), (0,)), "operand_batching_dims in gather"),
    (lambda: lax.fft(jnp.ones([2] * 4), "FFT", (2,) * 4), "FFT takes 1 to 3 lengths"),
    (lambda: lax.fft(jnp.ones(2), "FFT", (1, 2)), "at most as many as the array has"),
    (lambda: lax.linalg.householder_product(jnp.ones((2, 4, 3)), jnp.ones(3)),
     "householder_product takes vectors [..., m, n] and taus [..., k]"),
    (lambda: lax.linalg.householder_product(jnp.eye(3), jnp.ones(4)), "k <= min(m, n)"),
    (lambda: mj.jit(lambda i: jnp.ones(3)[i:])(1), "dynamic_slice_in_dim"),
    (lambda: jnp.ones((3, 4)).at[0].set(jnp.ones(5)), "(5,) does not broadcast"),
    (lambda: lax.pad(jnp.ones(3), np.int32(0), [(0, 0, 0)]), "got float32, int32"),
    (lambda: lax.pad(jnp.ones(3), 0.0, [(0, 0)]), "must hold triples"),
    (lambda: lax.dynamic_slice(jnp.eye(3), (0, 0), (1,)), "one size for each axis"),
    (lambda: lax.dynamic_slice(jnp.eye(3), (0, 0), (-1, 1)), "be nonnegative"),
    (lambda: gathered((), (0,), (0,), indices=jnp.ones((2, 1))),
     "gather indices must be integers, got float32"),
    (lambda: jnp.frompyfunc(jnp.sin, 1, 1)(1, 2), "takes 1 arguments, got 2"),
    (lambda: gathered((), (0,), (0,), indices=1), "axis that holds index vectors"),
    (lambda: lax.reduce_precision(1.0, 0, 3), "requires exponent_bits >= 1"),
    (lambda: lax.cumsum(jnp.ones(3), 1), "cumsum axis must be in the range [0, 1)"),
    (lambda: lax.fft(jnp.ones(3) * 1j, "FFT", (4,)), "whose last axes are (4,)"),
    (lambda: jnp.fft.rfft(jnp.ones(3) * 1j), "only accepts real inputs"),
    (lambda: jnp.fft.fft(jnp.ones(3), n=0), "at least 1 data point"),
    (lambda: jnp.ones(3).at[0].set("a"), "Array.at.set was given values='a'"),
    (lambda: jnp.reshape(1, [[jnp.ones(2)]]), "shape=[[f32[2]]]"),
    (lambda: jnp.reshape(1, [[[jnp.ones(2)]]]), "shape=[[[Array("),
    (lambda: jnp.rot90(jnp.eye(2), "a"), "k must be an integer, got 'a'"),
    (lambda: jnp.kaiser(5, "b"), "jnp.kaiser: the argument beta must be"),
    (lambda: jnp.full(3, 2.0, "x"), "jnp.full: the argument dtype must be"),
    (lambda: jnp.pad(jnp.ones(3), "a", constant_values=1),
     "jnp.pad was given array=f32[3], pad_width='a', constant_values=1"),
    (lambda: jnp.from_dlpack([1]), "from_dlpack needs an array with a method"),
    (lambda: lax.cumsum(jnp.ones(3), ()), "lax.cumsum: the argument axis must"),
    (lambda: lax.top_k(jnp.ones(3), 1.5), "lax.top_k: the argument k must be"),
    (lambda: jnp.ones(3).sum("a"), "jnp.sum was given a=f32[3], axis='a'"),
    (lambda: nn.glu(0), "axis -1 is out of bounds"),
    (lambda: mj.tree.map("f", [1]), "the argument f must be a function, got 'f'"),
    (lambda: mj.grad(jnp.sin, "x")(1.0), "the argument argnums must be an integer"),
    (lambda: jnp.add(1, 2, where=True), "The 'where' argument to jnp.add is not"),
    (lambda: jnp.ones(3).at[0].foo, "has no attribute 'foo', but get, set, add,"),
    (lambda: mj.jit(lambda x: f"{x:.2f}")(1.0), "print numbers as they become known"),
    (lambda: mj.jit(lambda n: lax.scan(lambda c, x: (c, x), 0, None, n))(3),
     "the argument 'length' of lax.scan must be known while the function is traced"),
    (lambda: mj.scipy.linalg.solve_triangular(jnp.eye(3), jnp.ones(4)),
     "triangular_solve, vectorized with signature='(n,n),(n)->(n)': inconsistent"),
    (lambda: jnp.linalg.solve(jnp.eye(3), jnp.ones(4)), "must have 3 rows, got 4"),
    (lambda: jnp.ones(3).at.set(1), "its methods are those of x.at[idx], such as"),
    (lambda: setitem(jnp.ones(3).at, 0, 1), "use x = x.at[idx].set(y) or another"),
    *((f, f"at {__file__}:") for f in (
        lambda: jnp.ones(3).at[0].foo, lambda: jnp.ones(3).at.set(1),
        lambda: setitem(jnp.ones(3).at, 0, 1), lambda: bool(jnp.ones(3)),
        lambda: mj.custom_vjp(lambda x: x)(1.0), lambda: mj.custom_jvp(lambda x: x)(1),
    )),
    (lambda: jnp.sin("a"), "sin requires ndarray or scalar arguments, got <class 'str"),
    (lambda: jnp.array("a"), "only numbers, bools"),
    (lambda: jnp.where(jnp.ones(2), 1, 2, size=3), "takes size and fill_value with a"),
    (lambda: jnp.einsum("ij,jk", jnp.eye(2)), "name 2 operands, got 1"),
    (lambda: jnp.einsum("ij", jnp.ones(3)), "has 1 axes, but its subscripts name 2"),
    (lambda: jnp.einsum("i->ij", jnp.ones(2)), "'j' of the result is in no operand"),
    (lambda: jnp.einsum("i-", jnp.eye(2)), "'-' is not a valid name"),
    (lambda: jnp.linalg.matrix_power(jnp.ones(3), 2), "must be square, got shape"),
    (lambda: jnp.linalg.solve(jnp.ones((2, 3)), jnp.ones(2)), "solve must have shape"),
    (lambda: jnp.linalg.cholesky(jnp.ones((2, 2), "float16")), "float16"),
    (lambda: mj.grad(lambda x: jnp.linalg.svd(x)[0].sum())(jnp.ones((2, 3))),
     "full_matrices=False"),
    (lambda: lax.linalg.symmetric_product(jnp.eye(2), jnp.eye(2), alpha=jnp.ones(2)),
     "symmetric_product takes numbers for alpha"),
    (lambda: lax.linalg.cholesky(jnp.ones((2, 3))), "an array of square matrices"),
    (lambda: lax.linalg.tridiagonal_solve(*[jnp.ones((4, 3))] * 3, jnp.ones((4, 2, 1))),
     "all diagonal arguments"),
    (lambda: nn.glu(jnp.ones(3)), "divisible by 2"),
    (lambda: nn.dot_product_attention(*[jnp.ones((1, 2, 1, 1))] * 3,
                                      implementation="cudnn"), "Unsupported implement"),
    (lambda: lax.ragged_dot(jnp.ones((4, 3)), jnp.ones((2, 3, 5)), jnp.array(3)),
     "to have shape"),
    (lambda: lax.mulhi(jnp.ones(2), jnp.ones(2)), "integers of one dtype"),
    (lambda: mj.jit(lambda y: lax.composite(lambda x, by: x * by, "f")(2.0, by=y))(3.0),
     "attribute"),
    (lambda: convolved(preferred_element_type="int32"), "cannot have preferred_elem"),
    (lambda: convolved(dimension_numbers=("NCH", "OOH", "NCH")), "must have 3 charac"),
    (lambda: convolved(dimension_numbers=("NCH", "OIHW", "NCH")), "must have 3 charac"),
    (lambda: convolved(rhs_dilation=(1, 2)), "rhs_dilation must have one number"),
    (lambda: convolved(window_strides=(1, 1)), "window_strides"),
    (lambda: convolved(feature_group_count=3, batch_group_count=2), "one of them 1,"),
    (lambda: mj.vmap(3), "Expected a callable value, got 3"),
    (lambda: random.normal(random.key(0), dtype="x"), "random.normal was given"),
    (lambda: nn.initializers.normal(0.1)(random.key(0), ("a",)),
     "the result of nn.initializers.normal was given"),
])  # fmt: skip
def test_the_argument_at_fault_is_named(function, text):
    error, lines = message(function)
    kinds = TypeError, ValueError, IndexError, NotImplementedError, AttributeError
    assert isinstance(error, kinds)
    assert not any("self=" in line for line in lines)
    assert any(text in line for line in lines), lines
    assert sum(" was given " in line[:40] for line in lines) <= 1


def test_warnings_name_the_users_line():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        jnp.zeros(3, "float64")
        lax.convert_element_type(jnp.ones(3) * 1j, "float32")
        jnp.zeros(3, "int32").at[0].set(1.5)
    assert len(caught) == 3
    assert {os.path.basename(w.filename) for w in caught} == {"test_bad_input.py"}


odd = {
    "strings": np.array(["a", "b"]),
    "dates": np.array(["2020-01-01"] * 2, "M8[D]"),
    "objects": np.array([None, 1], object),
    "records": np.zeros(2, [("a", "f4")]),
}
loops = {
    "scan xs": lambda a: lax.scan(lambda c, x: (c, x), 0.0, a),
    "scan init": lambda a: lax.scan(lambda c, x: (c, c), a, None, length=2),
    "cond": lambda a: lax.cond(True, lambda x: x, lambda x: x, a),
    "switch": lambda a: lax.switch(0, [lambda x: x, lambda x: x], a),
    "while_loop": lambda a: lax.while_loop(lambda x: False, lambda x: x, a),
    "fori_loop": lambda a: lax.fori_loop(0, 2, lambda i, x: x, a),
    "map": lambda a: lax.map(lambda x: x, a),
    "associative_scan": lambda a: lax.associative_scan(lambda x, y: x, a),
    "checkpoint": lambda a: mj.checkpoint(lambda x: x)(a),
    "custom_jvp": lambda a: ruled_jvp(a),
    "custom_vjp": lambda a: ruled_vjp(a),
    "vmap": lambda a: mj.vmap(lambda x: x)(a),
    "grad": lambda a: mj.grad(lambda x: 1.0)(a),
    "jvp": lambda a: mj.jvp(lambda x: x, (a,), (a,)),
    "vjp": lambda a: mj.vjp(lambda x: x, a),
    "linearize": lambda a: mj.linearize(lambda x: x, a),
    "jacfwd": lambda a: mj.jacfwd(lambda x: x)(a),
    "eval_shape": lambda a: mj.eval_shape(lambda x: x, a),
    "closed over": lambda a: lax.map(lambda x: lax.add(x, a), jnp.ones(2)),
}


@mj.custom_jvp
def ruled_jvp(x):
    return x


ruled_jvp.defjvp(lambda primals, tangents: (primals[0], tangents[0]))


@mj.custom_vjp
def ruled_vjp(x):
    return x


ruled_vjp.defvjp(lambda x: (x, None), lambda residuals, ct: (ct,))


@pytest.mark.parametrize("leaf", odd)
@pytest.mark.parametrize("function", loops)
@pytest.mark.parametrize("in_jit", [False, True])
def test_leaves_that_arrays_cannot_hold(function, leaf, in_jit):
    """Strings reached numba, which said "numba.core.types has no attribute 'str32'"."""
    run = (lambda: loops[function](odd[leaf])) if not in_jit else (
        lambda: mj.jit(lambda: loops[function](odd[leaf]))()
    )
    with pytest.raises(TypeError) as caught:
        run()
    text = str(caught.value)
    assert str(odd[leaf].dtype) in text and "arra" in text
