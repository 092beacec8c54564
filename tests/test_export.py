"""Programs as StableHLO: what XLA makes of them is what we make of them.

A module is compiled by jax's XLA, once for many functions.
"""

import itertools
import re
import sys

import numpy as np
import pytest
from derivative_cases import cases, data
from harness import alike, in_a_process, refused

import minijit
import minijit.numpy as jnp
from minijit import export, lax, random
from minijit.scipy import sparse
from minijit.stablehlo.arrays import rules, unsupported
from minijit.stablehlo.programs import program_rules
from minijit.stablehlo.text import constant_text, element_type
from minijit.trace.core import Primitive, eval_rules

pytestmark = pytest.mark.chapter(25)


def run_by_xla(text, *args):
    """The results of a module's @main, by XLA with few optimizations: compiled soon."""
    import jax
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jax._src.lib.mlir import ir
    from jax.extend.backend import get_backend

    client = get_backend("cpu")
    options = xla_client.CompileOptions()
    debug = options.executable_build_options.debug_options
    debug.xla_backend_optimization_level = 0
    devices = xla_client.DeviceList((client.local_devices()[0],))
    with mlir.make_ir_context(), jax.enable_x64(True):
        module = ir.Module.parse(text)
        run = client.compile_and_load(module, devices, options)
        results = run.execute_sharded([jax.device_put(np.asarray(x)) for x in args])
        shards = results.disassemble_into_single_device_arrays()
    return [np.asarray(x) for x, in shards]


def leaves(tree):
    return [np.asarray(x) for x in minijit.tree_util.tree_leaves(tree)]


def agree(fun, *args, tolerance=1e-6):
    """Compare XLA's results for the exported function with ours."""
    pytest.importorskip("jax")
    exported = minijit.export(fun)(*args)
    found = run_by_xla(exported.mlir_module(), *leaves(args))
    wanted = leaves(fun(*minijit.tree_util.tree_map(jnp.asarray, args)))
    alike(found, wanted, rtol=tolerance, atol=tolerance)


def together(calls):
    """One function of all the arguments of many calls: [(function, args)]."""

    def fun(every):
        return [f(*args) for (f, _), args in zip(calls, every, strict=True)]

    return fun, [args for _, args in calls]


def test_every_primitive_has_a_row_or_a_reason():
    from minijit.compile.simplify.storage import stand_ins

    said = {*rules, *program_rules, *unsupported, *stand_ins}
    own = {p for p in eval_rules if p in minijit_primitives()}
    assert {p.name for p in own - said} == set()
    assert not {*unsupported} & {*rules, *program_rules}


def minijit_primitives():
    """What modules of minijit hold; tests, and what JAX has besides, define others."""
    names = [name for name in sys.modules if name.startswith("minijit.")]
    modules = [sys.modules[name] for name in names if "jaxcompat" not in name]
    found = {x for m in modules for x in vars(m).values() if isinstance(x, Primitive)}
    assert len(found) > 150
    return found


def sampled():
    """The first case of each primitive, and those that other params make."""
    names = {p.name for p in unsupported} | {"betainc"}
    seen = dict.fromkeys(names)
    telling = re.compile("dilated|groups|negative|NHWC|complex|(gather|scatter) .*")
    for case in cases:
        first = case.name.split()[0]
        if first not in names and (first not in seen or telling.search(case.name)):
            seen[first] = None
            yield case


@pytest.mark.oracle
@pytest.mark.parametrize("part", range(2))
def test_primitives_compute_what_they_compute_here(part):
    """A case of every primitive, in two modules."""
    chosen = [*sampled()][part::2]
    with minijit.enable_x64(True):
        calls = [(c.function(lax), tuple(c.varying())) for c in chosen]
        agree(*together(calls))


integers = np.array([5, -3, 0, 7], np.int32), np.array([2, 2, 0, 3], np.int32)
unsigned = np.array([5, 250, 0, 7], np.uint8), np.array([2, 9, 1, 3], np.uint8)
bools = np.array([True, False, True, False]), np.array([True, True, False, False])
halves = data(4).astype(np.float16), data(4, seed=1, low=0.5).astype(np.float16)


def each_of(names, *args):
    return [
        (getattr(lax, name), args[: 1 + (name in binary)]) for name in names.split()
    ]


binary = """
    add sub mul div rem max min bitwise_and bitwise_or bitwise_xor eq lt shift_left
    shift_right_logical shift_right_arithmetic pow nextafter
""".split()
other_dtypes = [
    *each_of("add sub mul div rem max min eq lt bitwise_and shift_left", *integers),
    *each_of("shift_right_logical shift_right_arithmetic", *integers),
    *each_of("neg sign abs population_count clz bitwise_not square", *integers),
    *each_of("add mul div rem max lt bitwise_xor shift_right_logical", *unsigned),
    *each_of("neg sign population_count clz bitwise_not", *unsigned),
    *each_of("max min bitwise_and bitwise_or bitwise_xor bitwise_not eq lt", *bools),
    *each_of("add mul div max exp log1p tanh is_finite erf", *halves),
    (lambda x: [x.astype(d) for d in ("f4", "bool", "u1", "f2")], integers[:1]),
    (lambda x: [x.astype(d) for d in ("int32", "bool", "uint8")], (data(5),)),
    (lambda x: [(z := lax.complex(x, x * x)).real, z.conj(), abs(z), jnp.sort(z)],
     (data(3),)),
    (lambda x: [x.sum(), x.any(), x.argmax(), lax.reduce_and(x, (0,))], bools[:1]),
    (lambda x: [x.prod(), x.max(), x.argmin(), lax.reduce_xor(x, (0,))], integers[:1]),
    (lambda x: [jnp.argmax(x), jnp.argmin(x), jnp.sort(x), jnp.argsort(x)],
     (np.array([1.0, np.nan, 0.0, -0.0, np.nan, -np.inf], np.float32),)),
    (lambda x: lax.bitcast_convert_type(x, np.uint8), integers[:1]),
    (lambda x: jnp.fft.irfft(jnp.fft.rfft(x) * 2), (data(2, 6),)),
    (lambda x: jnp.linalg.cholesky(x @ x.T + 4 * jnp.eye(3)),
     (data(3, 3),)),
    (lambda a, b: [
        lax.linalg.triangular_solve(a, b, lower=low, left_side=left, transpose_a=flip)
        for low, left, flip in itertools.product((False, True), repeat=3)
     ], (data(3, 3) + 5 * np.eye(3), data(3, 3))),
    (lambda x, i: [x[i], x.at[i].set(1.0), x[i.astype("uint8")]],
     (data(4, 2), np.array([3, -1, 9, 0]))),
    (lambda x: lax.top_k(x, 2, axis=0), (data(4, 3),)),
    (lambda x: lax.dot(x, x, preferred_element_type=np.float64), (data(3, 3),)),
    (lambda x: lax.optimization_barrier(x) + np.arange(100.0)[30:33], (data(3),)),
    (lambda: [jnp.zeros((0, 3)), jnp.array(np.inf), jnp.array(np.nan)], ()),
    (lambda: [jnp.array(-0.0), np.eye(2) > 0], ()),
    (lambda s: random.normal(random.fold_in(random.key(7), s), (3,)), (np.int32(4),)),
    (lambda s: random.key_data(random.split(random.key(s), 2)), (np.int32(4),)),
]  # fmt: skip


@pytest.mark.oracle
def test_other_dtypes_and_families():
    with minijit.enable_x64(True):
        agree(*together(other_dtypes), tolerance=1e-3)


# ---- programs of programs


def collatz(n):
    """How many steps until 1: a while with a cond in it."""
    half = lambda n: lax.cond(n % 2 == 0, lambda n: n // 2, lambda n: 3 * n + 1, n)
    step = lambda state: (half(state[0]), state[1] + 1)
    return lax.while_loop(lambda state: state[0] != 1, step, (n, 0))[1]


def recurrence(w, xs):
    """A scan with branches in it, whose gradient keeps unions."""

    def step(carry, x):
        carry = lax.cond(x > 0, lambda c: jnp.sin(c * w), lambda c: c * c + w, carry)
        return carry, carry + x

    last, ys = lax.scan(step, w, xs, reverse=True)
    return last + ys.sum()


@minijit.custom_jvp
def doubled(x):
    return x + x


doubled.defjvp(lambda primals, tangents: (doubled(*primals), 2 * tangents[0]))


@minijit.jit
def shared(x):
    return jnp.tanh(x) * x


def nested(x, n):
    inner = lambda y: lax.fori_loop(0, 3, lambda i, y: shared(y) + i, y)
    switched = lax.switch(n, [inner, doubled, lambda y: -y], x)
    kept = minijit.checkpoint(lambda y: jnp.sin(jnp.sin(y)))
    return switched.sum() + shared(minijit.grad(lambda y: kept(y).sum())(x)).sum()


def scans_in_scans(x):
    """A tape of tapes of unions."""
    inner = lambda x: recurrence(x, jnp.stack([x, -x]))
    return lax.scan(lambda c, x: (c + inner(x), None), 0.0, x)[0]


programs = [
    (collatz, (np.int32(27),)),
    (minijit.vmap(collatz), (np.array([1, 6, 7], np.int32),)),
    (minijit.value_and_grad(recurrence, (0, 1)),
     (np.float32(0.4), data(5).astype("f4"))),
    (minijit.vmap(minijit.grad(recurrence, (0, 1)), (0, None)),
     (data(3).astype("f4"), data(5).astype("f4"))),
    (minijit.vmap(minijit.grad(recurrence, (0, 1))),
     (data(3).astype("f4"), data(3, 5).astype("f4"))),
    (minijit.value_and_grad(nested), (data(3).astype("f4"), np.int32(0))),
    (minijit.grad(scans_in_scans), (data(3).astype("f4"),)),
    (lambda n: lax.fori_loop(0, n, lambda i, x: x * 2 + i, 1), (np.int32(5),)),
    (lambda x: lax.scan(lambda c, x: (c + x, c), x[0], x[:0]), (data(3).astype("f4"),)),
    (lambda x: lax.while_loop(lambda s: s[0] < 9.0, lambda s: (s[0] * x, s[1] + 1),
                              (1.0, 0), reverse="checkpoint"), (np.float32(2),)),
]  # fmt: skip


@pytest.mark.oracle
def test_branches_loops_and_their_gradients():
    agree(*together(programs), tolerance=1e-5)


# ---- the text, and what is refused


def text_of(fun, *args):
    return minijit.export(fun)(*args).mlir_module()


def test_a_module_reads_like_the_function():
    def f(x, w):
        return shared(x) + w["scale"], shared(w["scale"])

    text = text_of(f, data(3).astype("f4"), {"scale": data(3).astype("f4")})
    assert text == """\
module @f {
  func.func private @shared(%x: tensor<3xf32>) -> (tensor<3xf32>) {
    %0 = stablehlo.tanh %x : tensor<3xf32>
    %1 = stablehlo.multiply %0, %x : tensor<3xf32>
    return %1 : tensor<3xf32>
  }
  func.func public @main(%x: tensor<3xf32>, %w_scale: tensor<3xf32>) -> \
(tensor<3xf32>, tensor<3xf32>) {
    %0 = call @shared(%x) : (tensor<3xf32>) -> (tensor<3xf32>)
    %1 = stablehlo.add %0, %w_scale : tensor<3xf32>
    %2 = call @shared(%w_scale) : (tensor<3xf32>) -> (tensor<3xf32>)
    return %1, %2 : tensor<3xf32>, tensor<3xf32>
  }
}
"""


def test_types_and_constants():
    names = "bool int8 uint32 float16 float64 bfloat16 complex64 float8_e4m3fn int4"
    found = [element_type(jnp.dtype(name)) for name in names.split()]
    assert found == "i1 i8 ui32 f16 f64 bf16 complex<f32> f8E4M3FN i4".split()
    assert constant_text(np.zeros((2, 0))) == "dense<>"
    assert constant_text(np.full((2, 3), 1.5)) == "dense<1.5e+00>"
    assert constant_text(np.array([True, False])) == "dense<[true, false]>"
    assert constant_text(np.array([1e-9 + 2j, 0])) == (
        "dense<[(1.0e-09, 2.0e+00), (0.0e+00, 0.0e+00)]>"
    )
    assert constant_text(np.float32(np.inf)) == "dense<0x7f800000>"
    assert constant_text(np.arange(99, dtype="u1")).startswith('dense<"0x000102')


def test_an_exported_function_runs_here():
    exported = minijit.export.export(minijit.jit(lambda x, *, n: {"y": x * n}))(
        minijit.ShapeDtypeStruct((2,), "float32"), n=3
    )
    assert repr(exported) == "Exported(<lambda>: f32[2], i32[])"
    assert [a.str_short() for a in exported.out_avals] == ["f32[2]"]
    assert exported.out_tree == minijit.tree_util.tree_structure({"y": 0})
    np.testing.assert_array_equal(exported.call(jnp.ones(2), n=3)["y"], [3, 3])
    with pytest.raises(ValueError, match="argument 0 was exported as f32\\[2\\], and"):
        exported.call(jnp.ones(3), n=3)
    refused(ValueError, "of the structure", exported.call, jnp.ones(2), 3)
    assert exported.platforms == ("cpu",)


# ---- programs as bytes


def rnn(w, xs):
    def step(h, x):
        h = jnp.tanh(w @ h + minijit.nn.relu(x))
        return lax.cond(h[0] > 0, lambda h: h, lambda h: -h, h), h.sum()

    h, sums = lax.scan(step, jnp.ones(3, "float32"), xs)
    return {"h": h, "sums": jnp.fft.fft(sums).real, "w": jnp.linalg.inv(w + 2)}


written = {
    "loops": (rnn, (data(3, 3), data(4, 3))),
    "randomness": (lambda k: random.gamma(k, 2.0, (3,)), (random.key(0),)),
    "integers": (lambda n, x: (n + 1, x[n]), (np.array([1, 0], "int32"), data(2))),
    "images": (lambda x: lax.conv(x, x, (1, 1), "SAME"), (data(1, 1, 4, 4),)),
    "implicit": (lambda a: sparse.linalg.cg(a @ a.T, a[0])[0], (data(2, 2),)),
}


@pytest.mark.parametrize("case", written)
def test_what_is_read_back_computes_the_same(case):
    fun, args = written[case]
    blob = export.export(fun)(*args).serialize(vjp_order=1)
    run = export.deserialize(blob).call
    wanted = fun(*minijit.tree_util.tree_map(jnp.asarray, args))
    alike(leaves(run(*args)), leaves(wanted), rtol=1e-5, atol=1e-5)
    if case != "randomness":
        args = minijit.tree_util.tree_map(jnp.asarray, args)
        floats = [i for i, x in enumerate(args) if x.dtype.kind == "f"]
        sums = lambda f: lambda *a: sum(map(jnp.sum, minijit.tree.leaves(f(*a))))
        found, wanted = (minijit.grad(sums(f), floats)(*args) for f in (run, fun))
        alike(leaves(found), leaves(wanted), rtol=1e-4, atol=1e-4)


def test_another_process_runs_what_was_written(tmp_path):
    x = data(3, 3)
    fun = lambda x: jnp.linalg.svd(jnp.fft.ifft(x).real)[1] + minijit.nn.gelu(x)
    (tmp_path / "program").write_bytes(export.export(fun)(x).serialize())
    np.save(tmp_path / "x.npy", x)
    in_a_process(f"""
        import numpy as np, os; from minijit import export
        os.chdir({str(tmp_path)!r})
        run = export.deserialize(open('program', 'rb').read()).call
        np.save('y.npy', run(np.load('x.npy')))
    """)
    alike([np.load(tmp_path / "y.npy")], leaves(fun(jnp.asarray(x))), rtol=1e-5)


def test_derivatives_are_written_as_often_as_asked():
    cube = lambda x: x**3
    once, twice = (export.export(cube)(2.0).serialize(n) for n in (1, 2))
    call = export.deserialize(once).call
    assert (minijit.grad(call)(2.0), export.deserialize(once).has_vjp()) == (12.0, True)
    assert "weak_type=True" in str(minijit.make_jaxpr(call)(np.float32(2)))
    refused(ValueError, "No VJP is available", minijit.grad(minijit.grad(call)), 2.0)
    refused(ValueError, "No VJP is available", export.deserialize(once).vjp().vjp)
    assert minijit.grad(minijit.grad(export.deserialize(twice).call))(2.0) == 12.0


def test_what_cannot_be_written_or_read():
    prints = export.export(lambda x: (minijit.debug.print("{}", x), x)[1])(1.0)
    refused(NotImplementedError, "as it calls Python", prints.serialize)
    refused(ValueError, "no exported program", export.deserialize, b"something else")


impossible = {
    "cannot be exported: of decompositions": (jnp.linalg.svd, (data(3, 3),)),
    "no such special function": (lambda x: lax.igamma(x, x), (data(3),)),
    "it calls back": (lambda x: minijit.debug.print("{}", x), (data(3),)),
    "keeps a tape that grows": (
        minijit.grad(lambda x: lax.while_loop(lambda y: y < 9.0, lambda y: y * x, x)),
        (2.0,),
    ),
    "no maximum of complex numbers": (lambda x: jnp.maximum(x, 1j), (data(3),)),
}


@pytest.mark.parametrize("message", impossible)
def test_what_stablehlo_cannot_say_is_refused_with_the_line(message):
    fun, args = impossible[message]
    with pytest.raises(NotImplementedError, match=message) as caught:
        text_of(fun, *args)
    assert "test_export.py" in str(caught.value)


# ---- sizes that have names


def test_shapes_of_sizes_with_names():
    n, twice, three = export.symbolic_shape("(n, 2*n, 3)", constraints=["n >= 2"])
    assert (str(n), str(twice), three) == ("n", "2*n", 3) and export.is_symbolic_dim(n)
    assert n == export.symbolic_shape("n")[0] != twice and not export.is_symbolic_dim(3)
    assert export.symbolic_shape("n, _, ...", like=(5, 4, 3, 2)) == (n, 4, 3, 2)
    refused(ValueError, "syntax error", export.symbolic_shape, "n m")
    x = minijit.ShapeDtypeStruct((n, 3), "float32")
    f = lambda x, k: {"rows": x @ x.T, "sum": k * x.sum(0), "flat": x.reshape(-1)[::2]}
    shapes = export.eval_shape(f, x, k=2.0)
    assert shapes["rows"] == minijit.ShapeDtypeStruct((n, n), "float32")
    assert shapes["sum"].shape == (3,)
    assert str(shapes["flat"]) == "ShapeDtypeStruct(shape=(f(n),), dtype=float32)"
    x = minijit.ShapeDtypeStruct((2, 3), "float32")
    assert export.eval_shape(jnp.sin, x) == minijit.eval_shape(jnp.sin, x)


def test_a_function_is_exported_for_sizes_with_names():
    shapes = export.symbolic_args_specs((data(4, 2), data(4)), ("n, ...", "n"))
    assert str(shapes[0].shape) == "(n, 2)" and str(shapes[1].shape) == "(n,)"
    exported = export.export(lambda x, y: y @ x)(*shapes)
    assert str(exported) == "Exported(<lambda>: f32[n,2], f32[n])"
    assert exported.out_avals[0].shape == (2,)
    for n in (3, 5):
        assert exported.call(jnp.ones((n, 2)), jnp.ones(n))[0] == n
    with pytest.raises(ValueError, match="argument 1 was exported as f32\\[n\\], and"):
        exported.call(jnp.ones((3, 2)), jnp.ones(5))
    with pytest.raises(ValueError, match="exported as f32\\[n,2\\], and called with"):
        exported.call(jnp.ones((3, 3)), jnp.ones(3))


def test_only_shapes_have_sizes_with_names():
    (n,) = export.symbolic_shape("n")
    refused(TypeError, "concrete values of integer type", jnp.zeros, (n, 3))
    for ask in (lambda f: f.mlir_module(), lambda f: f.serialize()):
        with pytest.raises(NotImplementedError, match="no numbers, and is traced"):
            ask(export.export(jnp.sin)(minijit.ShapeDtypeStruct((n,), "float32")))
    with pytest.raises(NotImplementedError, match="n == 3"):
        export.symbolic_shape("n", constraints=["n == 3"])


def test_a_struct_without_a_dtype_is_a_value_error():
    refused(ValueError, "dtype must be specified", minijit.ShapeDtypeStruct, (2,), None)
