"""Convolutions as products of patches: right for all their parameters, and counted."""

import numpy as np
import pytest
from convolution_cases import check, convolve, numbers, random_convolution

import minijit as mj
from minijit import lax
from minijit.trace.base.config import config

pytestmark = pytest.mark.chapter(18)


@pytest.fixture(autouse=True)
def small_products_are_calls():
    settings = config.fusion.but(small_product=0, direct_convolutions=False)
    with config.override("fusion", settings):
        yield


@pytest.mark.parametrize("seed", range(12))
def test_convolutions_and_gradients_of_all_kinds(seed):
    check(*random_convolution(seed))


def steps(program):
    return [
        step.routine if step in program.calls else step.eqns[0].primitive.name
        for step in program.body
    ]


def test_the_gradient_by_the_kernel_is_written_where_it_is_wanted():
    rng = np.random.default_rng(0)
    x, w = numbers(rng, 2, 5, 6, 5), numbers(rng, 3, 3, 5, 4)
    conv = convolve()
    g = numbers(rng, 2, 5, 6, 4)
    program = check(lambda x, w, g: mj.vjp(lambda w: conv(x, w), w)[1](g)[0], x, w, g)
    assert steps(program) == ["patches", "matmul"]
    # That by the image turns the kernel round within the patches; the kernel's features
    # change places, and no view of it has the places and them as one axis.
    program = check(lambda x, w, g: mj.vjp(lambda x: conv(x, w), x)[1](g)[0], x, w, g)
    assert sorted(steps(program)) == ["matmul", "patches", "transpose"]


def test_a_kernel_of_one_place_needs_no_patches():
    rng = np.random.default_rng(0)
    x, w = numbers(rng, 2, 5, 6, 3), numbers(rng, 1, 1, 3, 4)
    assert steps(check(convolve(), x, w)) == ["matmul"]


def test_a_kernel_is_read_turned_round_along_axes_of_the_image_alone():
    rng = np.random.default_rng(0)
    x, w = numbers(rng, 2, 4, 5, 3), numbers(rng, 3, 2, 3, 4)
    for axes in ([0], [1], [0, 1], [2], [3], [0, 2], [0, 1, 2, 3]):
        turned = lambda x, w, axes=axes: convolve()(x, lax.rev(w, axes))
        assert ("rev" in steps(check(turned, x, w))) == any(k > 1 for k in axes)
