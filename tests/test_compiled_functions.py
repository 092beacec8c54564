"""Every public function, compiled: the generated source against eager evaluation.

The source runs as plain Python over the cases, on tiny shapes, and is compiled by
numba for one case of every sixteenth function (of all of them by LLVM, which takes less
time, in `test_llvm`).  Integers, bools and the operations that IEEE 754 defines
to the last bit must agree bitwise; for the others a tolerance stands below.
"""

import zlib
from functools import partial

import numpy as np
import pytest
from function_cases import lax_cases, leaves, numpy_cases

import minijit.lax
import minijit.numpy
from minijit import Array, jit
from minijit.trace.array import ArrayImpl

pytestmark = pytest.mark.chapter(16)

tables = [(minijit.numpy, numpy_cases), (minijit.lax, lax_cases)]
functions = [
    pytest.param(module, name, cases, id=f"{module.__name__.split('.')[1]}.{name}")
    for module, table in tables
    for name, cases in table.items()
]

# Functions that are exact in floating arithmetic too.
exact = set(
    """
    abs absolute add subtract multiply divide true_divide negative positive sqrt square
    sub mul div neg max min maximum minimum fmax fmin clip clamp floor ceil trunc fix
    rint round sign where select select_n reshape transpose ravel squeeze expand_dims
    flip fliplr flipud roll rot90 concatenate stack vstack hstack dstack tile repeat
    take slice pad broadcast_to broadcast_in_dim swapaxes moveaxis sort rev iota
    dynamic_slice dynamic_update_slice gather diag diagonal tril triu eye ones zeros
    full isnan isinf isfinite signbit copysign nextafter amax amin
    """.split()
)
# Relative to the result, and to the largest number in it: sums add in another order.
tolerances = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 4e-6, "complex64": 4e-6}


def run(module, name, case, backend):
    """-> (eager results, compiled results), both as lists of leaves."""
    arrays, function = case.traceable(module, name)
    wanted = leaves(function(*arrays))
    if not all(isinstance(x, Array) for x in wanted):
        pytest.skip("returns something else than arrays")
    found = leaves(jit(function, backend=backend)(*arrays))
    return wanted, found


def check(name, case, wanted, found):
    """The same number of results, the same types, the same values."""
    assert len(found) == len(wanted)
    for f, w in zip(found, wanted, strict=True):
        if name in ("power", "pow"):
            # As in JAX, a known exponent and a traced one differ in the weak type.
            f, w = (ArrayImpl(x.numpy(), x.aval.strip_weak_type()) for x in (f, w))
        assert f.aval == w.aval, case
        dtype, f, w = f.dtype.name, np.asarray(f), np.asarray(w)
        if name in exact or dtype not in tolerances:
            np.testing.assert_array_equal(f, w, err_msg=str(case))
            continue
        wide = "complex128" if dtype.startswith("c") else "float64"
        f, w = f.astype(wide), w.astype(wide)
        tolerance = max(case.tolerance or 0, tolerances[dtype])
        largest = np.max(np.abs(w), where=np.isfinite(w), initial=0)
        np.testing.assert_allclose(
            f, w, tolerance, tolerance * largest, err_msg=str(case)
        )


@pytest.mark.parametrize("module, name, cases", functions)
def test_as_plain_python(module, name, cases):
    dynamic = [case for case in cases if case.dynamic]
    if not dynamic:
        pytest.skip("all calls need concrete values")
    # Of pairs of dtypes a third, and each function another one: the same scalars meet
    # in all of them, and `test_scalar_math` has every one.
    of_pairs = all(len(case.args) == 2 and not case.kwargs for case in dynamic)
    apart = 3 if len(dynamic) > 13 and of_pairs else 1
    for case in dynamic[zlib.crc32(name.encode()) % apart :: apart]:
        check(name, case, *run(module, name, case, "plain"))


@pytest.mark.parametrize("module, name, cases", functions[::16])
def test_compiled_by_numba(module, name, cases):
    """The first case that has anything to compute."""
    for case in cases:
        if case.dynamic:
            wanted, found = run(module, name, case, "python")
            if any(x.size for x in wanted):
                check(name, case, wanted, found)
                return
    pytest.skip("all calls need concrete values, or give empty results")


def test_derivatives_by_integers_are_float0_in_compiled_programs():
    """There is nothing in a float0, so nothing of it reaches a kernel."""
    mj, float0 = minijit, np.dtype([("float0", np.void, 0)])
    nothing = np.zeros((), float0)
    double = lambda x: 2 * x
    pull = lambda p, ct: mj.vjp(double, p)[1](ct)[0]
    slope = mj.grad(lambda x: x * 2.0, allow_int=True)
    many = minijit.numpy.arange(3)
    branches = [slope, mj.grad(lambda x: x * 3.0, allow_int=True)]
    lax = minijit.lax
    for backend in ("python", "plain", "eval"):
        compiled = lambda f, backend=backend: jit(f, backend=backend)
        results = {
            (): [compiled(pull)(4, 1), compiled(lambda p: pull(p, nothing))(4),
                 compiled(pull)(4, nothing),
                 compiled(lambda p: mj.jvp(double, (p,), (nothing,)))(4)[1],
                 compiled(slope)(4),
                 compiled(lambda p, x: lax.cond(p, *branches, x))(True, 3)],
            (3,): [compiled(mj.vmap(slope))(many),
                   compiled(partial(lax.map, slope))(many),
                   compiled(lambda x: x)(np.zeros(3, float0)),
                   compiled(partial(lax.map, lambda x: x))(np.zeros(3, float0))],
        }
        for shape, found in results.items():
            assert [(x.dtype, x.shape) for x in found] == [(float0, shape)] * len(found)
