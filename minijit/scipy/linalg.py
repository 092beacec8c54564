"""Linear algebra under the names of `jax.scipy.linalg`.

    c = linalg.cho_factor(a)
    linalg.cho_solve(c, b), linalg.expm(a), linalg.toeplitz(row)

Matrices stand in the last two axes, the axes before them are a batch.  Arguments that
only say where SciPy may write or what it should check (`overwrite_a`, `check_finite`)
change nothing here.
"""

import math
import operator
from functools import partial

import numpy as np

from .. import lax, numpy as jnp
from ..numpy import arguments, core
from ..numpy.linalg import adjoint, matrices, one_dtype
from ..numpy.polynomials import companion as of_polynomial
from ..ops import linalg as lax_linalg
from ..trace import dtypes
from ..trace.api import calls
from ..trace.jit.jit import jit
from ..transform.derivatives.linearize import jvp
from ..transform.stop_gradient import stop_gradient


def for_vectors_too(function, a, b, *more):
    """function(a, ..., b) of matrices b [..., n, k], or of a vector b [n]."""
    of = ["(n,n)", *["(n)"] * len(more), "(n)" if b.ndim == 1 else "(n,k)"]
    signature = f"{','.join(of)}->{of[-1]}"
    shown = getattr(function, "func", function).__name__
    vectors = [(x, 1) for x in more]
    arguments.tell_of_batches(shown, (a, 2), *vectors, (b, min(b.ndim, 2)))
    return jnp.vectorize(function, signature=signature)(a, *more, b)


# ---- decompositions


def cholesky(a, lower=False, overwrite_a=False, check_finite=True):
    """u with u^H @ u = a, or with `lower` l with l @ l^H = a; NaN if there is none.

    JAX: `jax.scipy.linalg.cholesky`; one triangle of a is read.
    """
    return jnp.linalg.cholesky(a, upper=not lower, symmetrize_input=False)


def cho_factor(a, lower=False, overwrite_a=False, check_finite=True):
    """(cholesky(a, lower), lower), for `cho_solve`."""
    return cholesky(a, lower), lower


def cho_solve(c_and_lower, b, overwrite_b=False, check_finite=True):
    """x with a @ x = b, from cho_factor(a); b [n] or [..., n, k]."""
    c, lower = c_and_lower
    c, b = one_dtype("cho_solve", c, b)
    if c.ndim < 2 or c.shape[-1] != c.shape[-2] or b.ndim < 1:
        raise ValueError(
            "cho_solve takes a factor c [..., n, n] and b [n] or [..., n, k], got "
            f"shapes {c.shape} and {b.shape}"
        )
    first, last = ("N", "C") if lower else ("C", "N")

    def cho_solve(c, b):
        return solve_triangular(c, solve_triangular(c, b, first, lower), last, lower)

    return for_vectors_too(cho_solve, c, b)


def svd(
    a, full_matrices=True, compute_uv=True, overwrite_a=False, check_finite=True,
    lapack_driver="gesdd",
):  # fmt: skip
    """(u, s, vh) with a = (u * s) @ vh, or s; see `jnp.linalg.svd`."""
    found = jnp.linalg.svd(a, full_matrices, compute_uv)
    return tuple(found) if compute_uv else found


def det(a, overwrite_a=False, check_finite=True):
    """The determinant."""
    return jnp.linalg.det(a)


def inv(a, overwrite_a=False, check_finite=True):
    """The inverse."""
    return jnp.linalg.inv(a)


def eigh(
    a, b=None, lower=True, eigvals_only=False, overwrite_a=False, overwrite_b=False,
    turbo=True, eigvals=None, type=1, check_finite=True,
):  # fmt: skip
    """(w, v) with a @ v = v * w of Hermitian a, or w alone; w ascends.

    Raises NotImplementedError for b, eigvals and a type that is not 1, as JAX does.
    """
    if b is not None or type != 1 or eigvals is not None:
        raise NotImplementedError(
            "Only the b=None, type=1, eigvals=None case of eigh is implemented"
        )
    w, v = jnp.linalg.eigh(a, "L" if lower else "U")
    return w if eigvals_only else (w, v)


def eigh_tridiagonal(
    d, e, *, eigvals_only=False, select="a", select_range=None, tol=None, key=None
):
    """(w, v) of the Hermitian matrix with d on its diagonal and e above it.

    Args:
      d: [n]; e: [n - 1], of the same dtype.
      select: "a": all; "i": those from select_range[0] up to and with select_range[1].
      tol, key: ignored: LAPACK takes the whole matrix.
    """
    d, e = jnp.asarray(d), jnp.asarray(e)
    if d.dtype != e.dtype:
        raise TypeError(
            "diagonal and off-diagonal values must have same dtype, got "
            f"{d.dtype} and {e.dtype}"
        )
    if not dtypes.issubdtype(d.dtype, np.inexact):
        raise TypeError(
            "Only float32 and float64 inputs are supported as inputs to "
            f"jax.scipy.linalg.eigh_tridiagonal, got {d.dtype} and {e.dtype}"
        )
    if select not in ("a", "i", "v"):
        raise ValueError("'select must have a value in {'a', 'i', 'v'}.")
    if select == "v":
        raise NotImplementedError(
            "eigh_tridiagonal(..., select='v') is not implemented"
        )
    if select == "i" and select_range is None:
        raise ValueError("for select='i', select_range must be specified.")
    if select == "i" and select_range[0] > select_range[1]:
        raise ValueError("Got empty index range in select_range.")
    d = jnp.real(d).astype(d.dtype)
    w, v = jnp.linalg.eigh(jnp.diag(d) + jnp.diag(e, 1) + jnp.diag(jnp.conj(e), -1))
    if select == "i":
        kept = slice(select_range[0], select_range[1] + 1)
        w, v = w[kept], v[:, kept]
    return w if eigvals_only else (w, v)


def schur(a, output="real"):
    """(t, z) with a = z @ t @ z^H; "complex": t is triangular, also of a real a."""
    if output not in ("real", "complex"):
        raise ValueError(
            f"Expected 'output' to be either 'real' or 'complex', got {output=}."
        )
    a, = matrices("schur", a, square=True)
    a = to_complex(a) if output == "complex" else a
    return lax_linalg.schur(a)


def to_complex(a):
    """a in the complex dtype of its precision."""
    return a.astype(dtypes.to_complex_dtype(a.dtype))


def rsf2csf(T, Z, check_finite=True):
    """A real Schur form (t, z) as a complex one, whose t is triangular."""
    T, Z = one_dtype("rsf2csf", T, Z)
    for name, x in ("T", T), ("Z", Z):
        if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
            raise ValueError(f"Input '{name}' must be square.")
    if T.shape[-1] != Z.shape[-1]:
        raise ValueError(
            f"Input array shapes must match: Z: {Z.shape} vs. T: {T.shape}"
        )
    function = jnp.vectorize(complex_form, signature="(n,n),(n,n)->(n,n),(n,n)")
    return function(to_complex(T), to_complex(Z))


def complex_form(t, z):
    """A rotation for each block of two makes t triangular, the last block first."""
    n = t.shape[0]
    eps = dtypes.finfo(t.dtype).eps

    def rotated(m, t, z):
        block = lax.dynamic_slice(t, (m - 1, m - 1), (2, 2))
        mu = jnp.linalg.eigvals(block)[0] - block[1, 1]
        side = block[1, 0]
        r = jnp.hypot(jnp.abs(mu), jnp.abs(side))
        c, s = mu / r, side / r
        g = jnp.stack([jnp.stack([jnp.conj(c), s]), jnp.stack([-s, c])])
        rows = g @ lax.dynamic_slice_in_dim(t, m - 1, 2, 0)
        t = lax.dynamic_update_slice_in_dim(t, rows, m - 1, 0)
        columns = lambda x: lax.dynamic_slice_in_dim(x, m - 1, 2, 1) @ adjoint(g)
        t = lax.dynamic_update_slice_in_dim(t, columns(t), m - 1, 1)
        return t, lax.dynamic_update_slice_in_dim(z, columns(z), m - 1, 1)

    def step(i, forms):
        m = n - i
        t, z = forms
        size = jnp.abs(t[m - 1, m - 1]) + jnp.abs(t[m, m])
        is_block = jnp.abs(t[m, m - 1]) > eps * size
        t, z = lax.cond(is_block, rotated, lambda m, t, z: (t, z), m, t, z)
        return t.at[m, m - 1].set(0), z

    return lax.fori_loop(1, n, step, (t, z))


def hessenberg(a, *, calc_q=False, overwrite_a=False, check_finite=True):
    """h with a = q @ h @ q^H, zero below the first subdiagonal; or (h, q)."""
    a, = matrices("hessenberg", a, square=True)
    form, taus = lax_linalg.hessenberg(a)
    h = jnp.triu(form, -1)
    if not calc_q:
        return h
    q = jnp.broadcast_to(jnp.eye(a.shape[-1], dtype=a.dtype), a.shape)
    if a.shape[-1] < 2:
        return h, q
    inner = lax_linalg.householder_product(form[..., 1:, :-1], taus)
    return h, q.at[..., 1:, 1:].set(inner)


def lu_factor(a, overwrite_a=False, check_finite=True):
    """(l and u in one matrix, pivots), for `lu_solve`."""
    a, = matrices("lu_factor", a)
    return lax_linalg.lu(a)[:2]


def lu_solve(lu_and_piv, b, trans=0, overwrite_b=False, check_finite=True):
    """x with op(a) @ x = b, from lu_factor(a).

    Args:
      b: [n] or [..., n, k]; trans: 0: a itself; 1: its transpose; 2: its adjoint.
    """
    packed, pivots = lu_and_piv
    packed, b = one_dtype("lu_solve", packed, b)
    order = lax_linalg.lu_pivots_to_permutation(pivots, packed.shape[-1])

    def solve(packed, order, b):
        b = b if b.ndim == 2 else b[:, None]
        return lax_linalg.lu_solve(packed, order, b, trans)

    vector = b.ndim == 1
    b = b[:, None] if vector else b
    x = for_vectors_too(solve, packed, b, order)
    return x[..., 0] if vector else x


def lu(a, permute_l=False, overwrite_a=False, check_finite=True):
    """(p, l, u) with a = p @ l @ u, or (p @ l, u) with `permute_l`."""
    a, = matrices("lu", a)
    m, n = a.shape[-2:]
    k = min(m, n)
    packed, _, order = lax_linalg.lu(a)
    p = (order[..., None, :] == np.arange(m)[:, None]).astype(a.real.dtype)
    low = jnp.tril(packed, -1)[..., :k] + jnp.eye(m, k, dtype=a.dtype)
    up = jnp.triu(packed)[..., :k, :]
    return (p.astype(a.dtype) @ low, up) if permute_l else (p, low, up)


def qr(
    a, overwrite_a=False, lwork=None, mode="full", pivoting=False, check_finite=True
):
    """(q, r) with a = q @ r; with `pivoting` (q, r, p) with a[:, p] = q @ r.

    Args:
      mode: "full": q [m, m]; "economic": q [m, k] with k = min(m, n); "r": no q.
    """
    if mode not in ("full", "r", "economic"):
        raise ValueError(f"Unsupported QR decomposition mode '{mode}'")
    a, = matrices("qr", a)
    found = lax_linalg.qr(a, pivoting=pivoting, full_matrices=mode != "economic")
    return found[1:] if mode == "r" else found


def qr_multiply(
    a, c, mode="right", pivoting=False, conjugate=False, overwrite_a=False,
    overwrite_c=False,
):  # fmt: skip
    """(c @ q, r), or (q @ c, r) with the mode "left", of a = q @ r; see `qr`.

    Args:
      c: a matrix or a vector; conjugate: multiply by the conjugate of q.
    """
    if mode not in ("right", "left"):
        raise ValueError(f"mode must be 'right' or 'left', got {mode!r}")
    a, c = one_dtype("qr_multiply", a, c)
    q, r, *p = lax_linalg.qr(a, pivoting=pivoting, full_matrices=False)
    q = jnp.conj(q) if conjugate else q
    vector = c.ndim == 1
    c = (c[:, None] if mode == "left" else c[None, :]) if vector else c
    wanted, axis = (q.shape[-1], -2) if mode == "left" else (q.shape[-2], -1)
    if c.shape[axis] != wanted:
        raise ValueError(
            f"qr_multiply: a of shape {a.shape} needs {wanted} "
            f"{'rows' if axis == -2 else 'columns'} of c, got shape {c.shape}"
        )
    product = q @ c if mode == "left" else c @ q
    return (product.ravel() if vector else product), r, *p


def polar(a, side="right", *, method="qdwh", eps=None, max_iterations=None):
    """(u, p) with a = u @ p, or p @ u for the side "left": u unitary, p positive.

    Args:
      method: "qdwh" or "svd"; both go by singular values here, so `eps` and
        `max_iterations` change nothing.
    """
    a, = one_dtype("polar", a)
    if a.ndim < 2:
        raise ValueError("The input `a` must be at least a 2-D array.")
    if side not in ("right", "left"):
        raise ValueError("The argument `side` must be either 'right' or 'left'.")
    if method not in ("qdwh", "svd"):
        raise ValueError(f"Unknown polar decomposition method {method}.")
    if a.dtype.itemsize == 2:
        raise NotImplementedError(f"polar of {a.dtype} is not there: use float32.")
    u, s, vh = jnp.linalg.svd(a, full_matrices=False)
    s = s.astype(u.dtype)
    if side == "right":
        return u @ vh, (adjoint(vh) * s[..., None, :]) @ vh
    return u @ vh, (u * s[..., None, :]) @ adjoint(u)


# ---- equations


def solve(
    a, b, lower=False, overwrite_a=False, overwrite_b=False, debug=False,
    check_finite=True, assume_a="gen",
):  # fmt: skip
    """x with a @ x = b; b [n] or [..., n, k].

    Args:
      assume_a: "pos": a is Hermitian and positive definite, and one triangle of it is
        read; "gen", "sym", "her": by the LU decomposition.
    """
    valid = ["gen", "sym", "her", "pos"]
    if assume_a not in valid:
        raise ValueError(f"Expected assume_a to be one of {valid}; got {assume_a!r}")
    if assume_a != "pos":
        return jnp.linalg.solve(a, b)
    a, b = one_dtype("solve", a, b)
    # The factor only helps to solve: what is differentiated is the equation.
    factor = cho_factor(stop_gradient(a), lower)
    by_factor = lambda matvec, b: cho_solve(factor, b)
    return lax.custom_linear_solve(
        lambda x: jnp.matmul(a, x), b, by_factor, symmetric=True
    )


def solve_triangular(
    a, b, trans=0, lower=False, unit_diagonal=False, overwrite_b=False, debug=None,
    check_finite=True,
):  # fmt: skip
    """x with op(a) @ x = b, where one triangle of a is read; b [n] or [..., n, k].

    Args:
      trans: 0 or "N": a itself; 1 or "T": its transpose; 2 or "C": its adjoint.
    """
    ways = {0: 0, "N": 0, 1: 1, "T": 1, 2: 2, "C": 2}
    if trans not in ways:
        raise ValueError(f"Invalid 'trans' value {trans}")
    way = ways[trans]
    a, b = one_dtype("solve_triangular", a, b)
    if a.ndim < 2 or b.ndim < 1:
        raise ValueError(
            "solve_triangular takes a [..., n, n] and b [n] or [..., n, k], got shapes "
            f"{a.shape} and {b.shape}"
        )
    solver = partial(
        lax_linalg.triangular_solve, left_side=True, lower=lower,
        transpose_a=way > 0, conjugate_a=way == 2, unit_diagonal=unit_diagonal,
    )  # fmt: skip
    return for_vectors_too(solver, a, b)


def solve_sylvester(A, B, C, *, method="schur", tol=1e-8):
    """X with A @ X + X @ B = C: A [..., m, m], B [..., n, n], C [..., m, n].

    Args:
      method: "schur" or "eigen": by which decomposition of A and B.
      tol: NaN comes out where eigenvalues of A and of -B are closer than this.
    """
    A, B, C = one_dtype("solve_sylvester", A, B, C)
    m, n = C.shape[-2:]
    if A.shape[-2:] != (m, m) or B.shape[-2:] != (n, n):
        raise ValueError(
            "Incompatible shapes for Sylvester equation:\n"
            f"A: {A.shape}\nB: {B.shape}\nC: {C.shape}"
        )
    if method not in ("schur", "eigen"):
        raise ValueError(
            f"Unrecognized method {method}. The two valid methods are either "
            '"schur" or "eigen".'
        )
    by = by_schur if method == "schur" else by_eigenvectors
    core = "(m,m),(n,n),(m,n)->(m,n)"
    function = partial(sylvester, by=by, tol=tol)
    return jnp.vectorize(function, signature=core)(A, B, C)


def sylvester(a, b, c, by, tol):
    x, values_a, values_b = by(a, b, c)
    x = x if c.dtype.kind == "c" else jnp.real(x)
    singular = (jnp.abs(values_a[:, None] + values_b) < tol).any()
    return jnp.where(singular, core.convert(np.nan, x.dtype), x)


def by_eigenvectors(a, b, c):
    (r, u), (s, v) = jnp.linalg.eig(a), jnp.linalg.eig(b)
    f = jnp.linalg.solve(u, c.astype(u.dtype) @ v)
    return u @ (f / (r[:, None] + s)) @ inv(v), r, s


def by_schur(a, b, c):
    """With triangles r and s, r @ y + y @ s = f has one unknown column at a time."""
    (r, u), (s, v) = schur(a, "complex"), schur(b, "complex")
    f = adjoint(u) @ c.astype(u.dtype) @ v
    unit = jnp.eye(r.shape[0], dtype=r.dtype)

    def column(y, j):
        rest = f[:, j] - y @ s[:, j]
        return y.at[:, j].set(solve_triangular(r + s[j, j] * unit, rest)), None

    y, _ = lax.scan(column, jnp.zeros_like(f), jnp.arange(f.shape[1]))
    return u @ y @ adjoint(v), jnp.diag(r), jnp.diag(s)


# ---- functions of matrices

# dtype's precision -> (norms up to which a quotient of polynomials of the degrees 3, 5,
# 7, 9 is exact, the norm for the last degree); Higham, 2005.
pade_limits = {
    4: ([0.4258730016922831, 1.880152677804762], 3.92572478313866),
    8: (
        [0.01495585217958292, 0.253939833006323, 0.9504178996162932, 2.097847961257068],
        5.371920351148152,
    ),
}


def pade(degree, a):
    """(u, v) with exp(a) about (v - u)^-1 @ (v + u), u odd and v even."""
    of = lambda k: math.factorial(2 * degree - k) / (
        math.factorial(k) * math.factorial(degree - k)
    )
    scale = of(degree)
    square, power = a @ a, jnp.eye(a.shape[0], dtype=a.dtype)
    u = v = jnp.zeros_like(a)
    for k in range(0, degree, 2):
        v = v + np.array(of(k) / scale, a.dtype) * power
        u = u + np.array(of(k + 1) / scale, a.dtype) * power
        power = power @ square
    return a @ u, v


def expm(A, *, upper_triangular=False, max_squarings=16):
    """The exponential of square matrices [..., n, n]; NaN after too many squarings.

    Args:
      upper_triangular: A is; max_squarings: how often the norm may be halved.
    """
    A, = core.promote_args_inexact("expm", A)
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise ValueError(f"Expected A to be a (batched) square matrix, got {A.shape=}.")
    return exponentials(A, bool(upper_triangular), operator.index(max_squarings))


# It has five branches and a loop: run one by one its operations take 100 times longer.
@partial(jit, static_argnums=(1, 2))
def exponentials(A, upper, most):
    one = partial(exponential, upper=upper, most=most)
    return jnp.vectorize(one, signature="(n,n)->(n,n)")(A)


def exponential(a, upper, most):
    size = jnp.linalg.norm(a, 1)
    limits, largest = pade_limits[size.dtype.itemsize]
    halvings = jnp.maximum(0, jnp.floor(jnp.log2(size / largest)))
    a = a / (2**halvings).astype(a.dtype)
    degrees = [3, 5, 7, 9, 13][: len(limits)] + [13 if len(limits) == 4 else 7]
    index = jnp.digitize(size, jnp.array(limits, size.dtype))
    u, v = lax.switch(index, [partial(pade, d) for d in degrees], a)
    divide = solve_triangular if upper else jnp.linalg.solve
    r = divide(v - u, u + v)

    def maybe_squared(r, i):
        return lax.cond(i < halvings, lambda r: r @ r, lambda r: r, r), None

    r, _ = lax.scan(maybe_squared, r, jnp.arange(most, dtype=halvings.dtype))
    return jnp.where(halvings > most, core.convert(np.nan, r.dtype), r)


def expm_frechet(A, E, *, method=None, compute_expm=True):
    """(expm(A), its derivative along E), or the derivative alone."""
    A, E = one_dtype("expm_frechet", A, E)
    for name, x in ("A", A), ("E", E):
        if x.ndim < 2 or x.shape[-2] != x.shape[-1]:
            raise ValueError(
                f"expected {name} to be a (batched) square matrix, got shape {x.shape}"
            )
    if A.shape != E.shape:
        raise ValueError(
            "expected A and E to be the same shape, got "
            f"A.shape={A.shape} E.shape={E.shape}"
        )
    value, slope = jvp(expm, (A,), (E,))
    return (value, slope) if compute_expm else slope


def sqrtm(A, blocksize=1):
    """The square root of a square matrix [n, n], complex."""
    if blocksize > 1:
        raise NotImplementedError("Blocked version is not implemented yet.")
    t, z = schur(A, "complex")
    root = jnp.sqrt(jnp.diag(t))
    n = root.size

    def column(j, u):
        # From the diagonal up: t[i, j] is the sum of u[i, k] * u[k, j].
        def entry(step, u):
            i = j - 1 - step
            rest = t[i, j] - u[i] @ u[:, j]
            value = jnp.where(rest == 0, 0, rest / (root[i] + root[j]))
            return u.at[i, j].set(value)

        return lax.fori_loop(0, j, entry, u)

    u = lax.fori_loop(0, n, column, jnp.diag(root))
    return z @ u @ adjoint(z)


def funm(A, func, disp=True):
    """func of a square matrix [n, n], complex: by Schur and Parlett's recurrence.

    Args:
      func: of its eigenvalues, elementwise; without `disp`, an estimate of the error
        comes with the result.
    """
    A, = one_dtype("funm", A)
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise ValueError("expected square array_like input")
    t, z = schur(A, "complex")
    n, i = A.shape[0], jnp.arange(A.shape[0])
    known = jnp.diag(func(jnp.diag(t)))

    def diagonal(p, state):
        """The entries (i, i + p): what f @ t = t @ f says of them, by others."""
        f, smallest = state
        j = jnp.minimum(i + p, n - 1)
        s = jnp.sum(t * f[:, j].T - f * t[:, j].T, axis=1)
        gap = t[j, j] - t[i, i]
        f = f.at[i, i + p].set(jnp.where(gap != 0, s / gap, s), mode="drop")
        gaps = jnp.where(i + p < n, jnp.abs(gap), smallest)
        return f, jnp.minimum(smallest, jnp.min(gaps))

    f, smallest = lax.fori_loop(1, n, diagonal, (known, jnp.abs(t[0, 0])))
    result = z @ f @ adjoint(z)
    eps = dtypes.finfo(A.dtype).eps
    smallest = jnp.where(smallest == 0, eps, smallest)
    size = jnp.linalg.norm(jnp.triu(t, 1), 1)
    error = jnp.clip(eps / smallest * size, eps, 1.0)
    failed = ~jnp.isfinite(result).all()
    return result if disp else (result, jnp.where(failed, np.inf, error))


# ---- matrices with a pattern


def vectors(name, *args):
    """Arguments as arrays with an axis or more."""
    arguments.check_arraylike(name, *args)
    return [jnp.atleast_1d(jnp.asarray(x)) for x in args]


def block_diag(*arrs):
    """Matrices along the diagonal of a large one, zero elsewhere."""
    arrs = core.promote_dtypes(arrs) if arrs else [jnp.zeros((1, 0))]
    for i, x in enumerate(arrs):
        if np.ndim(x) > 2:
            raise ValueError(
                "Arguments to jax.scipy.linalg.block_diag must have at most 2 "
                f"dimensions, got {x} at argument {i}."
            )
    blocks = [jnp.atleast_2d(x) for x in arrs]
    ends = np.cumsum([0, *(x.shape[1] for x in blocks)])
    rows = [
        jnp.pad(x, ((0, 0), (start, ends[-1] - start - x.shape[1])))
        for x, start in zip(blocks, ends[:-1].tolist(), strict=True)
    ]
    return jnp.concatenate(rows)


def by_differences(c, r, index):
    """[m, n] of vectors c [..., m] and r [..., n]: entry index of (c, r[1:])."""
    lead = np.broadcast_shapes(c.shape[:-1], r.shape[:-1])
    c, r = (jnp.broadcast_to(x, (*lead, x.shape[-1])) for x in (c, r))
    both = jnp.concatenate([c, r[..., 1:]], -1)
    if not c.shape[-1] or not r.shape[-1]:
        return jnp.zeros((*lead, c.shape[-1], r.shape[-1]), both.dtype)
    i, j = np.arange(c.shape[-1])[:, None], np.arange(r.shape[-1])
    return both[..., index(i, j)]


def toeplitz(c, r=None):
    """[..., m, n], constant along diagonals: c [..., m] is its first column, r [..., n]
    its first row, by default conj(c)."""
    c, *rest = vectors("toeplitz", *(x for x in (c, r) if x is not None))
    r = rest[0] if rest else jnp.conj(c)
    m = c.shape[-1]
    return by_differences(c, r, lambda i, j: np.where(i >= j, i - j, m - 1 + j - i))


def hankel(c, r=None):
    """[..., m, n], constant across diagonals: c is its first column, r its last row."""
    for name, x in ("c", c), ("r", 0 if r is None else r):
        if np.ndim(x) == 0 and (name == "c" or r is not None):
            raise ValueError(
                f"hankel: {name} must be at least 1-dimensional, got a scalar."
            )
    c, *rest = vectors("hankel", *(x for x in (c, r) if x is not None))
    r = rest[0] if rest else jnp.zeros_like(c)
    return by_differences(c, r, lambda i, j: i + j)


def circulant(c):
    """[..., n, n]: c [..., n] is the first column, each other one is moved by one."""
    c, = vectors("circulant", c)
    n = c.shape[-1]
    return c[..., (np.arange(n)[:, None] - np.arange(n)) % n]


def leslie(f, s):
    """[..., n, n] with f [..., n] in the first row and s [..., n - 1] below the
    diagonal: fecundity and survival of ages."""
    f, s = core.promote_dtypes(vectors("leslie", f, s))
    if f.shape[-1] < 2:
        raise ValueError(
            "The length of f along the last axis must be at least 2; got shape "
            f"{f.shape}."
        )
    if s.shape[-1] != f.shape[-1] - 1:
        raise ValueError(
            "Incorrect lengths for f and s. The length of s along the last axis must "
            f"be one less than the length of f; got f shape {f.shape} and s shape "
            f"{s.shape}."
        )
    one = lambda f, s: jnp.diag(s, -1).at[0].set(f)
    return jnp.vectorize(one, signature="(n),(m)->(n,n)")(f, s)


def companion(a):
    """[..., n - 1, n - 1], whose eigenvalues are the roots of the polynomial a."""
    a, = core.promote_args_inexact("companion", a)
    a = jnp.atleast_1d(a)
    if a.shape[-1] < 2:
        raise ValueError(
            "The length of `a` along the last axis must be at least 2; got shape "
            f"{a.shape}."
        )
    return jnp.vectorize(of_polynomial, signature="(n)->(m,m)")(a)


def fiedler(a):
    """|a[i] - a[j]|."""
    a, = vectors("fiedler", a)
    return jnp.abs(a[..., :, None] - a[..., None, :])


def fiedler_companion(a):
    """As `companion`, with five diagonals."""
    a, = core.promote_args_inexact("fiedler_companion", a)
    a = jnp.atleast_1d(a)
    n = a.shape[-1] - 1
    if n < 0:
        raise ValueError(
            "fiedler_companion requires the last axis of 'a' to have nonzero length, "
            f"but got an array of shape {a.shape}."
        )
    if n == 0:
        return jnp.zeros((*a.shape[:-1], 0, 0), a.dtype)
    a = -a / a[..., :1]
    # Which coefficient stands where (n + 1: a one, n + 2: a zero).
    i, j = np.indices((n, n))
    even, one = i % 2 == 0, n + 1
    rows = [
        ((i == 0) & (j == 0), 1),
        ((i == 1) & (j == 0), one),
        ((j == i + 1) & even, i + 2),
        ((j == i + 2) & even, one),
        ((j == i - 1) & even & (i >= 2), i + 1),
        ((j == i - 2) & ~even & (i >= 3), one),
    ]
    place = np.select(*zip(*rows, strict=True), default=n + 2)
    ends = jnp.array([1, 0], a.dtype)
    ends = jnp.broadcast_to(ends, (*a.shape[:-1], 2))
    return jnp.concatenate([a, ends], -1)[..., place]


def convolution_matrix(a, n, mode="full"):
    """The matrix that convolves vectors of length n with a [..., m].

    Args:
      mode: "full", "same" or "valid": which rows of it; see `jnp.convolve`.
    """
    n = operator.index(n)
    if n <= 0:
        raise ValueError(f"n must be a positive integer; got {n}.")
    if np.ndim(a) == 0:
        raise ValueError(
            "convolution_matrix: a must be at least 1-dimensional, got a scalar."
        )
    a, = vectors("convolution_matrix", a)
    m = a.shape[-1]
    if m < 1:
        raise ValueError(f"len(a) must be at least 1; got shape {a.shape}.")
    if mode not in ("full", "valid", "same"):
        raise ValueError(f"mode must be one of 'full', 'valid', 'same'; got {mode!r}.")
    trim = {"full": 0, "same": min(n, m) - 1, "valid": 2 * (min(n, m) - 1)}[mode]
    first = trim // 2
    row, column = np.arange(first, m + n - 1 - (trim - first))[:, None], np.arange(n)
    place = row - column
    place = np.where((place >= 0) & (place < m), place, m)
    zero = jnp.zeros((*a.shape[:-1], 1), a.dtype)
    return jnp.concatenate([a, zero], -1)[..., place]


def made(name, n, *args, dtype=None, **options):
    """SciPy's matrix of a size; what is exact in it is rounded once."""
    import scipy.linalg

    matrix = getattr(scipy.linalg, name)(operator.index(n), *args, **options)
    dtype = jnp.zeros(0).dtype if dtype is None else dtype
    return jnp.asarray(matrix.astype(float), dtype)


def hilbert(n):
    """1 / (i + j + 1)."""
    return made("hilbert", n)


def invhilbert(n):
    """The inverse of `hilbert`."""
    return made("invhilbert", n, exact=True)


def check_kind(kind):
    kind = "symmetric" if kind is None else kind
    valid = ["symmetric", "lower", "upper"]
    if kind not in valid:
        raise ValueError(f"Expected kind to be one of: {valid}; got {kind}")
    return kind


def pascal(n, kind=None):
    """Binomials: "symmetric" (the default), or a triangle of them, "lower", "upper"."""
    return made("pascal", n, check_kind(kind), dtype=np.float32)


def invpascal(n, kind=None):
    """The inverse of `pascal`."""
    return made("invpascal", n, check_kind(kind))


def helmert(n, full=False):
    """Orthonormal contrasts [n - 1, n]; with `full` a constant row comes first."""
    if n < 1:
        raise ValueError(f"n must be a positive integer; got {n}.")
    return made("helmert", n, full)


def hadamard(n, dtype=int):
    """Ones and minus ones, with orthogonal rows; n a power of 2."""
    if n < 1 or n & (n - 1):
        raise ValueError(f"n must be a positive power of 2; got {n}.")
    return made("hadamard", n, dtype=dtype)


def dft(n, scale=None, *, dtype=None):
    """The matrix of `jnp.fft.fft`; scale: None, "sqrtn" or "n": divided by that."""
    if scale not in (None, "sqrtn", "n"):
        raise ValueError(f"scale must be None, 'sqrtn', or 'n'; got {scale!r}.")
    dtype = to_complex(jnp.zeros(0)).dtype if dtype is None else jnp.dtype(dtype)
    if dtype.kind != "c":
        raise ValueError(f"dtype must be a complex floating-point type; got {dtype}.")
    i = np.arange(n)
    omegas = np.exp(-2j * np.pi * (i[:, None] * i % max(n, 1)) / max(n, 1))
    omegas = omegas / {None: 1, "sqrtn": np.sqrt(n), "n": n}[scale]
    return jnp.asarray(omegas, dtype)


calls.publish(globals(), """
    block_diag cho_factor cho_solve cholesky circulant companion convolution_matrix det
    dft eigh eigh_tridiagonal expm expm_frechet fiedler fiedler_companion funm hadamard
    hankel helmert hessenberg hilbert inv invhilbert invpascal leslie lu lu_factor
    lu_solve pascal polar qr qr_multiply rsf2csf schur solve solve_sylvester
    solve_triangular sqrtm svd toeplitz
""")
