"""Decompositions of matrices in compiled programs: LAPACK's values, and no Python."""

import itertools
import os
import signal
import warnings
from functools import partial

import numpy as np
import pytest

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.ops import linalg
from minijit.run import lapack

pytestmark = pytest.mark.chapter(21)

random = np.random.default_rng(7)


def R(*shape):
    return random.normal(size=shape).astype(np.float32)


def shifted(a):
    return a + 3 * np.eye(a.shape[-1], dtype=np.float32)


def solver(**flags):
    """`triangular_solve` with these flags, of a view of some matrices."""
    side = flags["left_side"]

    def solve(a, b):
        a, b = jnp.swapaxes(shifted(a), 1, 2)[1:], b[1:]
        b = b if side else jnp.swapaxes(b, 1, 2)
        return lax.linalg.triangular_solve(a, b, **flags)

    return solve


def solved(a, b):
    return jnp.linalg.solve(shifted(a), b)


def slopes(a, b):
    return mj.grad(lambda a, b: (solved(a, b) ** 2).sum(), (0, 1))(a, b)


a, b = R(3, 5, 5), R(3, 5, 2)
definite = a @ a.transpose(0, 2, 1) + np.eye(5, dtype=np.float32)
indefinite = definite - np.float32([0, 9, 0])[:, None, None] * np.eye(5)
sides = itertools.product((False, True), repeat=3)
names = "left_side", "lower", "transpose_a"
# name -> (function, arguments)
calls = {
    "cholesky": (lax.linalg.cholesky, definite),
    "cholesky, one indefinite": (lax.linalg.cholesky, indefinite.astype(np.float32)),
    "cholesky of numbers": (lax.linalg.cholesky, definite[:, :1, :1]),
    "lu": (lax.linalg.lu, a),
    "lu, wide": (lax.linalg.lu, R(3, 5)),
    "lu, tall": (lax.linalg.lu, R(2, 5, 3)),
    "lu of zeros": (lax.linalg.lu, np.zeros((3, 3), np.float32)),
    "unit diagonal": (solver(left_side=True, unit_diagonal=True), a, b),
    "det": (jnp.linalg.det, a),
    "solve": (solved, a, b),
    "gradient of solve": (slopes, a, b),
} | {
    f"triangular {flags}": (solver(**dict(zip(names, flags, strict=True))), a, b)
    for flags in sides
}


# More than the loops over elements take: LAPACK is called.
big, sides_of_big = R(2, 18, 18), R(2, 18, 2)
definite_big = big @ big.transpose(0, 2, 1) + np.eye(18, dtype=np.float32)
with_nan = np.where(np.arange(3)[:, None, None] == 1, np.float32(np.nan), a)
diagonals = R(2, 5), R(2, 5) + 4, R(2, 5)
z = a + 1j * R(3, 5, 5)
conjugated = dict(left_side=True, lower=True, transpose_a=True, conjugate_a=True)
calls |= {
    "lu of complex numbers": (lax.linalg.lu, z),
    "triangular, conjugated": (solver(**conjugated), z, z[..., :2]),
    "solve of complex numbers": (solved, z, z[..., :2]),
    "cholesky, LAPACK": (lax.linalg.cholesky, definite_big),
    "lu, LAPACK": (lax.linalg.lu, R(2, 18, 20)),
    "solve, LAPACK": (solved, big, sides_of_big),
    "gradient of solve, LAPACK": (slopes, big, sides_of_big),
    "eigh": (lax.linalg.eigh, definite),
    "eigh, upper": (lambda x: lax.linalg.eigh(x, lower=False), a),
    "eigh of a NaN": (lambda x: lax.linalg.eigh(x)[1], with_nan),
    "svd": (lax.linalg.svd, R(2, 4, 5)),
    "svd, tall": (lambda x: lax.linalg.svd(x, full_matrices=False), R(5, 3)),
    "svd, values": (lambda x: lax.linalg.svd(x, compute_uv=False), with_nan),
    "schur": (lax.linalg.schur, a),
    "schur, values": (partial(lax.linalg.schur, compute_schur_vectors=False), a),
    "geqrf": (linalg.geqrf, R(2, 3, 5)),
    "householder": (lax.linalg.householder_product, R(2, 5, 3), R(2, 3) / 4),
    "hessenberg": (lax.linalg.hessenberg, a),
    "hessenberg of numbers": (lax.linalg.hessenberg, a[:, :1, :1]),
    "tridiagonal": (lax.linalg.tridiagonal, definite),
    "tridiagonal, upper": (
        lambda x: lax.linalg.tridiagonal(x, lower=False), definite
    ),
    "tridiagonal solve": (lax.linalg.tridiagonal_solve, *diagonals, R(2, 5, 3)),
    "tridiagonal solve of numbers": (
        lambda *d: lax.linalg.tridiagonal_solve(*(x[:, :1] for x in d), b[:2, :1]),
        *diagonals,
    ),
    "permutation": (
        lambda p: lax.linalg.lu_pivots_to_permutation(p, 4), np.int32([[2, 2], [0, 1]])
    ),
    "double": (lax.linalg.eigh, definite.astype(np.float64)),
} | {
    f"qr {shape} pivoting={pivoting} full={full}": (
        partial(lax.linalg.qr, pivoting=pivoting, full_matrices=full), R(*shape)
    )
    for shape in ((2, 4, 4), (5, 3), (3, 5))
    for pivoting in (False, True) for full in (False, True)
}  # fmt: skip


def in_a_loop(which):
    """A function of {name: arguments}: the results, computed in a loop of two steps."""

    def every(arguments):
        return {name: calls[name][0](*arguments[name]) for name in which}

    def looped(arguments):
        zeros = mj.tree.map(
            lambda x: jnp.zeros(x.shape, x.dtype), mj.eval_shape(every, arguments)
        )
        # What no step changes is computed before the loop, so each step has its own.
        own = lambda i: lambda x: jnp.where(i < 2, x, jnp.zeros_like(x))
        step = lambda i, _: every(mj.tree.map(own(i), arguments))
        return lax.fori_loop(0, 2, step, zeros)

    return looped


def in_a_row(which):
    """A function of {name: arguments}: the results, one after the other."""
    return lambda arguments: {
        name: outside[name][0](*arguments[name]) for name in which
    }


def check(which, backend, monkeypatch, make=in_a_loop):
    """Of these calls the values are right, and none of them is Python's."""
    arguments = {name: outside[name][1:] for name in which}
    compiled = mj.jit(make(which), backend=backend).lower(arguments).compile()
    assert compiled.fallbacks == ()
    of_python = []
    with monkeypatch.context() as patch:
        patch.setattr(linalg, "each", lambda *args, **params: of_python.append(args))
        found = compiled(arguments)
    assert not of_python
    for name, got in found.items():
        want = outside[name][0](*arguments[name])
        for x, y in zip(mj.tree.leaves(got), mj.tree.leaves(want), strict=True):
            assert x.dtype == y.dtype
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("third", range(3))
def test_as_plain_python(third, monkeypatch):
    check(list(calls)[third::3], "plain", monkeypatch)


def test_by_numba(monkeypatch):
    check(["geqrf"], "python", monkeypatch)


@pytest.mark.chapter(23)
def test_compiled(monkeypatch):
    of_lapack = ["cholesky, LAPACK", "eigh", "svd, tall"]
    check(["lu, tall", "solve", *of_lapack], None, monkeypatch)


# ---- outside of loops

def grad_of(f, *args):
    """The gradient of the squares of all results."""
    square = lambda *xs: sum((y**2).sum() for y in mj.tree.leaves(f(*xs)))
    return mj.grad(square)(*args)


# What has a gradient, as its own results or as such that no sign changes.
functions = {
    "cholesky": jnp.linalg.cholesky,
    "solve": lambda x: jnp.linalg.solve(x, x[..., :1] + 1),
    "eigh": lambda x: jnp.linalg.eigvalsh(x),
    "svd": lambda x: jnp.linalg.svd(x, compute_uv=False),
    "qr": lambda x: jnp.linalg.qr(x)[1],
    "lu": lambda x: lax.linalg.lu(x)[0],
    "triangular_solve": lambda x: lax.linalg.triangular_solve(x, x[..., :2, :] + 1),
    "det": jnp.linalg.det,
}
outside = calls | {
    f"gradient of {name}, {x.shape}": (partial(grad_of, f), x)
    for name, f in functions.items() for x in (definite, definite_big[0])
} | {
    f"lanes of {name}": (mj.vmap(f, 2), definite_big.transpose(1, 2, 0))
    for name, f in functions.items()
}  # fmt: skip


@pytest.mark.parametrize("third", range(3))
def test_outside_of_loops_as_plain_python(third, monkeypatch):
    check(list(outside)[third::3], "plain", monkeypatch, in_a_row)


@pytest.mark.chapter(23)
def test_outside_of_loops_compiled(monkeypatch):
    names = "cholesky solve eigh svd qr lu triangular_solve".split()
    which = [f"gradient of {name}, (3, 5, 5)" for name in names]
    which += ["schur", *(f"lanes of {name}" for name in names)]
    check(which, None, monkeypatch, in_a_row)


def test_what_stays_with_python_outside_of_loops_is_said():
    compiled = mj.jit(jnp.linalg.cholesky).lower(np.eye(3) * 1j).compile()
    assert dict(compiled.fallbacks)["cholesky"] == "decompositions are left to LAPACK"


def test_a_scan_of_empty_arrays():
    f = mj.jit(lambda x: lax.scan(lambda c, _: (c * c, None), x, length=2)[0])
    assert f(np.ones((0, 3))).shape == (0, 3)


@pytest.mark.chapter(23)
def test_the_blas_has_its_threads_again():
    read, write = lapack.one_thread.threads()
    before = read()
    write(2)
    several = read()
    with lapack.one_thread, lapack.one_thread:
        assert read() == 1
    assert read() == several
    write(before)


@pytest.mark.chapter(23)
def test_a_process_forked_amid_lapack_has_all_its_threads_again():
    """Neither does it wait for who was within, nor stay with one thread."""
    pytest.importorskip("scipy")
    read, write = lapack.one_thread.threads()
    before = read()
    write(2)
    several = read()
    try:
        with lapack.one_thread, lapack.one_thread.lock, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Threads of others do not matter here.
            child = os.fork()
            if not child:
                signal.alarm(20)
                with lapack.one_thread:
                    within = read()
                os._exit((within, read()) != (1, several))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert read() == several
    finally:
        write(before)


@pytest.mark.chapter(23)
@pytest.mark.parametrize("n, alone", [(48, True), (420, False)])
def test_a_loop_of_small_matrices_has_one_thread_of_the_blas(n, alone, monkeypatch):
    """Threads that wait for each other after each small matrix cost more than it."""
    entered = []
    monkeypatch.setattr(
        lapack.OneThread, "__enter__", lambda self: entered.append(self)
    )
    monkeypatch.setattr(lapack.OneThread, "__exit__", lambda self, *error: None)
    x = 4 * np.eye(n, dtype="f4") + 1
    step = lambda i, c: jnp.linalg.cholesky(c) + x
    f, y = mj.jit(lambda x: lax.fori_loop(0, 2, step, x)), x
    for _ in range(2):
        y = np.linalg.cholesky((y + y.T) / 2) + x
    np.testing.assert_allclose(f(x), y, atol=1e-3)
    assert len(entered) == alone
