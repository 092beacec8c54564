"""Convolutions and other sums of products in tiles of registers: right, and counted."""

import functools

import convolution_cases
import numpy as np
import pytest
from harness import alike
from convolution_cases import (
    NCHW, NHWC, convolve, numbers, program_of, random_convolution,
)

import minijit as mj
import minijit.numpy as jnp
from minijit import config, lax
from minijit.compile.decisions import decisions_about
from minijit.compile.schedule.placing_rules import arrange
from minijit.run.llvm.kernels import KernelText

pytestmark = pytest.mark.chapter(24)


@pytest.fixture(autouse=True)
def small_ones_are_worth_it():
    few = dict(tile_work=0, small_product=200, block_elements=0)
    with config.override("fusion", config.fusion.but(**few)):
        yield


check = functools.partial(convolution_cases.check, place=arrange)


def names(program):
    return [step.eqns[-1].primitive.name for step in program.body]


def in_tiles(kernel):
    """(rows, columns) of a tile for each rule of a kernel that made tiles."""
    decisions = decisions_about(kernel, arrange)
    found = [d.numbers for d in decisions if d.rule == "tiles"]
    return [(numbers["rows"], numbers["columns"]) for numbers in found]


def example(names=NHWC, **sizes):
    rng = np.random.default_rng(0)
    size = dict(N=2, C=2, O=8, I=2, H=3, W=4) | sizes
    image = numbers(rng, *(size[c] for c in names[0]))
    window = size | dict(H=3, W=2)
    return image, numbers(rng, *(window[c] for c in names[1]))


def test_a_convolution_its_padding_and_activation_are_one_kernel():
    x, w = example()
    f = lambda x, w, b: jnp.maximum(convolve()(x, w) + b, 0)
    program = check(f, x, w, numbers(np.random.default_rng(1), 8))
    (kernel,) = program.body
    assert in_tiles(kernel) == [(4, 8)] and not program.temps


@pytest.mark.parametrize("names", [NHWC, NCHW])
def test_gradients_are_tiles_as_well(names):
    x, w = example(names, N=1, C=8, I=8)
    g = numbers(np.random.default_rng(1), *x.shape)
    both = lambda x, w, g: mj.vjp(convolve(names), x, w)[1](g)
    program = check(both, x, w, g)
    kinds = {eqn.primitive.name for k in program.kernels for eqn in k.eqns}
    assert kinds >= {"direct_convolution", "direct_convolution_over_images"}
    assert not program.calls and "patches" not in kinds
    # The largest array in memory is the kernel, or an image with its padding.
    padded = x.nbytes * 5 * 5 // (3 * 4)
    assert max(buffer.nbytes for buffer in program.temps) <= max(w.nbytes, padded)


# Of 3 x 2 places of the kernel 2 x 1 are on elements, of 4 x 4 there are 2 x 2.
@pytest.mark.parametrize("window, seen", [((3, 2), (2, 1)), ((4, 4), (2, 2))])
def test_the_gradient_with_strides_has_no_holes(window, seen):
    x, _ = example(N=1)
    w = numbers(np.random.default_rng(0), *window, 2, 8)
    f = convolve(strides=(2, 2))
    g = numbers(np.random.default_rng(1), 1, 2, 2, 8)
    program = check(lambda x, w, g: mj.vjp(lambda x: f(x, w), x)[1](g)[0], x, w, g)
    eqns = [eqn for kernel in program.kernels for eqn in kernel.eqns]
    (conv,) = (e for e in eqns if e.primitive.name == "direct_convolution")
    # Four places are 8 features.
    _, kernel = conv.invars
    assert kernel.aval.shape == (*seen, 8, 8)
    assert conv.params["lhs_dilation"] == (1, 1)


@pytest.mark.parametrize("seed", range(12))
def test_convolutions_and_gradients_of_all_kinds(seed):
    check(*random_convolution(seed))


@pytest.mark.parametrize("seed", [3, 8])
def test_compiled_they_are_the_same(seed):
    f, x, w = random_convolution(seed)
    found, wanted = mj.jit(f)(x, w), mj.jit(f, backend="eval")(x, w)
    alike(found, wanted)


def test_tiles_are_registers_of_many_lanes():
    x, w = example()
    (kernel,) = program_of(convolve(), x, w).body
    text = KernelText(kernel).text
    # As many products in one step, and as many sums, as there are rows.
    assert text.count("= call <8 x float> @llvm.fmuladd.v8f32") == 4
    assert text.count("alloca <8 x float>") == 4


def test_a_step_of_padding_is_no_loop_for_llvm_to_look_at():
    x, w = np.zeros((4, 16, 16, 1), "f4"), np.zeros((5, 5, 1, 8), "f4")
    (kernel,) = program_of(convolve(strides=(2, 2)), x, w).body
    assert KernelText(kernel).vectors


products = {
    "integers, the last tile overlaps": (lambda x, y: x @ y, (9, 3), (3, 23), "i4"),
    "with a bias": (lambda x, y: x @ y + y[0], (5, 2), (2, 16), "f4"),
    "by columns": (lambda x, y: (x @ y).T, (8, 2), (2, 9), "f4"),
    "doubles": (lambda x, y: x @ y, (3, 2), (2, 8), "f8"),
}


@pytest.mark.parametrize("name", products)
def test_small_products_are_tiles(name):
    f, left, right, dtype = products[name]
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-9, 9, shape).astype(dtype) for shape in (left, right))
    with mj.enable_x64(True):
        program = check(f, x, y)
        assert len(program.body) == 1 and in_tiles(program.body[0])
        np.testing.assert_array_equal(mj.jit(f)(x, y), f(x, y))


def test_explain_says_which_form_was_taken():
    x, w = example(C=8, I=8, H=16, W=16)
    report = mj.explain(lambda x, w: convolve()(x, w), x, w)
    tiles = [d for d in report.decisions if d.rule == "tiles"]
    assert tiles and tiles[0].setting == "tile_rows"
    assert "direct_convolution" in str(tiles[0])
    with config.override("fusion", config.fusion.but(direct_convolutions=False)):
        report = mj.explain(lambda x, w: convolve()(x, w), x, w)
    assert not [d for d in report.decisions if d.rule == "tiles"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_convolution_of_halves_is_one_of_floats(dtype):
    """Its sums are in 32 bits, so it runs in tiles as those of float32 do."""
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(2, 8, 40, 40)), dtype)
    w = jnp.asarray(rng.normal(size=(16, 8, 3, 3)), dtype)
    f = lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME")
    gradient = mj.grad(lambda x, w: f(x, w).astype("float32").sum(), (0, 1))
    for function in (f, gradient):
        names = [e.primitive.name for k in mj.explain(function, x, w).kernels
                 for e in k.eqns]  # fmt: skip
        assert "conv_general_dilated" not in names
        assert any(name.startswith("direct_convolution") for name in names)
        found, wanted = mj.jit(function)(x, w), function(x, w)
        for a, b in zip(mj.tree.leaves(found), mj.tree.leaves(wanted), strict=True):
            assert a.dtype == b.dtype == dtype
            a, b = np.asarray(a, "float32"), np.asarray(b, "float32")
            np.testing.assert_allclose(a, b, 0.01, 0.01 * np.abs(b).max())


def test_a_convolution_with_strides_multiplies_no_place_that_they_pass_over():
    """To four features, which are more than products of each place can do for."""
    x, w = jnp.ones((4, 64, 64, 32)), jnp.ones((5, 5, 32, 4))
    conv = lambda stride: lambda x, w: lax.conv_general_dilated(
        x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    assert not mj.explain(conv(2), x, w).calls
    assert mj.explain(conv(1), x, w).calls
