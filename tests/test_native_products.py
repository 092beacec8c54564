"""Products as machine code: every layout, in parts of rows or columns, on threads."""

import numpy as np
import pytest

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.run import llvm_blas, native_products
from minijit.trace.config import config

pytestmark = pytest.mark.chapter(24)
rng = np.random.default_rng(0)

EQUATIONS = [
    "ik,kj->ij", "ki,kj->ij", "ik,jk->ij", "ik,kj->ji", "ki,jk->ji",
    "bik,bkj->bij", "bik,kj->ibj", "bhik,bhkj->bihj", "bihk,bjhk->bhij",
]  # fmt: skip
SIZES = dict(b=3, h=2, i=150, j=70, k=40)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("equation", EQUATIONS)
def test_products_in_parts(equation, threads, dtype, monkeypatch):
    monkeypatch.setattr(native_products, "WORTH_THREADS", 0)
    monkeypatch.setattr(native_products, "SMALLEST_PART", 10_000)
    monkeypatch.setattr(native_products, "SHORTEST", 8)
    args = [
        rng.integers(-4, 5, [SIZES[x] for x in part]).astype(dtype)
        for part in equation.split("->")[0].split(",")
    ]
    with mj.enable_x64(True), config.override("cpu_threads", threads):
        f = mj.jit(lambda x, y: jnp.einsum(equation, x, y), backend="llvm")
        found = f(*args)
    np.testing.assert_array_equal(found, np.einsum(equation, *args))
    executable = f.lower(*args).compile().executable
    assert not executable.kernels and len(executable.program.calls) == 1


def test_the_blas_has_its_threads_again():
    read, _ = llvm_blas.blas_threads()
    before = read()
    x = rng.normal(size=(400, 400)).astype("f4")
    y = mj.jit(lambda x: x @ x, backend="llvm")(x)
    np.testing.assert_allclose(y, x @ x, rtol=1e-3, atol=1e-3)
    assert read() == before
    with llvm_blas.one_thread, llvm_blas.one_thread:
        assert read() == 1
    assert read() == before


@pytest.mark.parametrize("n, alone", [(48, True), (420, False)])
def test_a_loop_of_small_products_has_one_thread_of_the_blas(n, alone, monkeypatch):
    """Threads that wait for each other after each small product cost more than it."""
    entered = []
    monkeypatch.setattr(
        llvm_blas.OneThread, "__enter__", lambda self: entered.append(self)
    )
    monkeypatch.setattr(llvm_blas.OneThread, "__exit__", lambda self, *error: None)
    x = (rng.normal(size=(n, n)) / n).astype("f4")
    f = mj.jit(lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.tanh(c @ x), x))
    y = x
    for _ in range(3):
        y = np.tanh(y @ x)
    np.testing.assert_allclose(f(x), y, atol=1e-4)
    assert len(entered) == alone
