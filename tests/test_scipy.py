"""minijit.scipy: values are SciPy's, derivatives are those of the values."""

import importlib
import inspect
from functools import partial

import numpy as np
import pytest
from harness import alike, check_slopes, refused

import minijit as mj
from minijit import scipy as ours
from minijit.jaxcompat.missing import jax_names
from minijit.tree_util import tree_leaves

pytestmark = [pytest.mark.chapter(16), pytest.mark.usefixtures("in_double_precision")]

random = np.random.default_rng(3)


def R(*shape):
    return random.normal(size=shape)


def C(*shape):
    return R(*shape) + 1j * R(*shape)


def positive(a):
    return a @ a.swapaxes(-1, -2).conj() + np.eye(a.shape[-1])


def A(*numbers):
    return np.array(numbers)


square, spd = R(4, 4), positive(R(4, 4))
low = np.linalg.cholesky(spd)
x = A(-3.1, -1.2, 0.35, 0.7, 1.3, 4.5)
away = A(0.1, 0.3, 0.9, 1.7, 3.1, 7.5)
share = A(0.01, 0.1, 0.4, 0.6, 0.95)
counts = A(0.0, 1, 2, 3, 5)

# (name, arguments, keywords): every array of floats is differentiated.
cases = {
    "linalg": [
        ("block_diag", (R(2, 3), R(1, 2)), {}),
        ("cho_solve", ((low, True), R(4)), {}),
        ("cho_solve", ((low.T.copy(), False), R(4, 2)), {}),
        ("cholesky", (spd,), {}),
        ("circulant", (R(4),), {}),
        ("companion", (R(4),), {}),
        ("convolution_matrix", (R(3), 5), {"mode": "same"}),
        ("convolution_matrix", (R(6), 3), {"mode": "valid"}),
        ("det", (square,), {}),
        ("dft", (5,), {"scale": "sqrtn"}),
        ("eigh", (spd,), {"eigvals_only": True}),
        ("eigh_tridiagonal", (R(5), R(4)), {"eigvals_only": True}),
        ("expm", (square,), {}),
        ("expm_frechet", (5 * square[:3, :3], R(3, 3)), {}),
        ("fiedler", (R(4),), {}),
        ("fiedler_companion", (R(6),), {}),
        ("funm", (square, np.square), {}),
        ("hadamard", (8,), {}),
        ("hankel", (R(4), R(3)), {}),
        ("helmert", (4, True), {}),
        ("hessenberg", (square,), {"calc_q": True}),
        ("hilbert", (4,), {}),
        ("invhilbert", (5,), {}),
        ("invpascal", (4,), {}),
        ("inv", (square,), {}),
        ("leslie", (R(4), R(3)), {}),
        ("lu", (R(4, 3),), {}),
        ("lu", (R(3, 4),), {"permute_l": True}),
        ("pascal", (5, "upper"), {}),
        ("polar", (R(4, 3),), {}),
        ("qr", (R(4, 3),), {"mode": "economic"}),
        ("qr_multiply", (R(4, 3), R(2, 4)), {}),
        ("qr_multiply", (R(4, 3), R(3)), {"mode": "left"}),
        ("solve", (square, R(4)), {}),
        ("solve", (spd, R(4, 2)), {"assume_a": "pos"}),
        ("solve_sylvester", (square, R(3, 3), R(4, 3)), {}),
        ("solve_triangular", (low, R(4)), {"lower": True, "trans": "T"}),
        ("sqrtm", (spd,), {}),
        ("svd", (R(3, 4),), {"compute_uv": False}),
        ("toeplitz", (R(3), R(4)), {}),
    ],
    "signal": [
        ("convolve", (R(7), R(3)), {"mode": "same"}),
        ("convolve", (R(3, 4), R(2, 2)), {"mode": "valid"}),
        ("convolve2d", (R(2, 3), R(5, 4)), {}),
        ("correlate", (R(7), R(3)), {"mode": "valid"}),
        ("correlate2d", (R(5, 4), R(2, 3)), {"mode": "same"}),
        ("csd", (R(200), R(200)), {"nperseg": 40, "average": "median"}),
        ("detrend", (R(3, 20),), {"bp": [2, 3, 12]}),
        ("detrend", (R(9),), {"type": "constant"}),
        ("fftconvolve", (R(5, 4), R(2, 3)), {"mode": "same"}),
        ("fftconvolve", (R(2, 3), R(2, 5)), {"axes": 1}),
        ("istft", (C(9, 6),), {"nperseg": 16}),
        ("stft", (R(100),), {"nperseg": 32, "boundary": "odd", "window": "hamming"}),
        ("stft", (R(80, 2),), {"nperseg": 20, "noverlap": 5, "nfft": 24, "axis": 0}),
        ("welch", (R(2, 90),), {"nperseg": 30, "scaling": "spectrum"}),
    ],
    "fft": [
        ("dct", (R(4, 5),), {}),
        ("dct", (R(4, 5),), {"axis": 0, "n": 6, "norm": "ortho"}),
        ("dctn", (R(3, 4, 5),), {"axes": (0, 2)}),
        ("idct", (R(5),), {}),
        ("idctn", (R(3, 4),), {"norm": "ortho"}),
    ],
    "ndimage": [
        ("map_coordinates", (R(4, 5), R(2, 6) * 2 + 1), {"order": order, "mode": mode})
        for order, mode in ((0, "mirror"), (1, "mirror"), (1, "nearest"))
    ],
    "integrate": [("trapezoid", (R(5, 2), R(5, 2)), {"axis": 0})],
    "special": [
        ("log_ndtr", (A(-40.0, *x, 9.0),), {}),
        ("ndtri", (share,), {}),
        ("loggamma", (away,), {}),
        ("loggamma", (x + 0.3j,), {}),
        ("comb", (away + 3, away), {}),
        ("comb", (counts, 2.0), {"repetition": True}),
        ("poch", (away, 1.5), {}),
        ("bernoulli", (13,), {}),
        ("boxcox", (away, x), {}),
        ("boxcox1p", (away, 0.5), {}),
        ("wofz", (x + 0.7j,), {}),
        ("erfcx", (A(*x, 40.0),), {}),
        ("dawsn", (A(*x, 9.0),), {}),
        ("owens_t", (x, x[::-1].copy()), {}),
        ("expn", (0, away), {}),
        ("expn", (3, A(*away, 30.0)), {}),
        ("exp1", (away,), {}),
        ("expi", (A(-3.0, *away, 14.0, 25.0, 50.0, 90.0),), {}),
        ("sici", (A(*x, 30.0),), {}),
        ("fresnel", (A(*x, 30.0),), {}),
        ("spence", (away,), {}),
        ("hyp1f1", (away, 0.8, A(*x[:5], 120.0)), {}),
        ("softmax", (R(2, 3),), {}),
        ("log_softmax", (R(2, 3),), {"axis": 0}),
        *((name, (x,), {}) for name in """erf erfc expit gamma gammasgn i0 i0e i1 i1e
            logsumexp ndtr""".split()),
        *((name, (share,), {}) for name in ("erfinv", "logit")),
        *((name, (away,), {}) for name in ("digamma", "entr", "factorial", "gammaln")),
        *((name, (1.5, away), {}) for name in ("beta", "betaln")),
        *((name, (2.0, away), {}) for name in ("gammainc", "gammaincc")),
        *((name, (share, away[1:]), {})
          for name in ("kl_div", "rel_entr", "xlog1py", "xlogy")),
        ("betainc", (1.5, 2.0, share), {}),
        ("multigammaln", (away + 2, 3), {}),
        ("polygamma", (2, away), {}),
        ("zeta", (2.5, away), {}),
    ],
    "stats": [
        *((f"{name}.{f}", (x, A(0.2), A(1.5)), {})
          for name in ("cauchy", "norm", "logistic", "laplace", "uniform", "expon",
                       "gumbel_l", "gumbel_r")
          for f in ("logpdf", "pdf", "cdf")),
        *((f"{name}.{f}", (away, A(2.3), A(0.05), A(1.5)), {})
          for name in ("chi2", "gamma", "pareto", "t")
          for f in ("logpdf", "pdf")),
        *((f"{name}.{f}", (away, A(2.3), A(0.05), A(1.5)), {})
          for name in ("chi2", "gamma", "pareto") for f in ("cdf", "sf", "logcdf")),
        *((f"beta.{f}", (share, 2.0, 3.1), {})
          for f in ("logpdf", "cdf", "logcdf", "sf", "logsf")),
        *((f"truncnorm.{f}", (x, A(-1.3), A(2.1), A(0.2), A(1.5)), {})
          for f in ("logpdf", "cdf", "logcdf", "sf", "logsf")),
        *((f"{name}.{f}", (x, A(0.2), A(1.5)), {})
          for name in ("cauchy", "norm") for f in ("logcdf", "sf", "logsf")),
        *((f"{name}.ppf", (share, A(0.2), A(1.5)), {})
          for name in ("cauchy", "norm", "logistic", "uniform", "expon", "gumbel_l",
                       "gumbel_r")),
        *((f"{name}.isf", (share, A(0.2), A(1.5)), {})
          for name in ("cauchy", "norm", "logistic")),
        ("bernoulli.logpmf", (A(0.0, 1.0), 0.3), {}),
        ("bernoulli.cdf", (A(-1.0, 0.2, 1.0), A(0.3)), {}),
        ("betabinom.logpmf", (counts, 6.0, A(2.0), A(3.0)), {}),
        ("binom.logpmf", (counts, 6.0, A(0.3)), {}),
        ("binom.pmf", (counts, 4.0, A(0.3)), {}),
        ("dirichlet.logpdf", (A(0.2, 0.3, 0.5), A(1.5, 2.0, 3.0)), {}),
        ("gennorm.cdf", (x, A(1.5)), {}),
        ("gennorm.logpdf", (x, A(1.5)), {}),
        ("geom.logpmf", (counts, A(0.3)), {}),
        ("multivariate_normal.logpdf", (R(5, 4), R(4), spd), {}),
        ("nbinom.logpmf", (counts, 3.0, A(0.3)), {}),
        ("poisson.cdf", (counts, A(2.5)), {}),
        ("poisson.logpmf", (counts, A(2.5)), {}),
        ("poisson.entropy", (A(0.5, 3.0, 20.0),), {}),
        ("vonmises.logpdf", (x, A(1.5)), {}),
        ("wrapcauchy.logpdf", (away[:-1], A(0.4)), {}),
        ("rankdata", (A(3.0, 1, 2, 1, 1, 5),), {}),
        ("sem", (R(3, 4),), {"axis": 1}),
    ],
}  # fmt: skip
numbered = [
    pytest.param(module, *case, id=f"{module}-{i}-{case[0]}")
    for module, rows in cases.items()
    for i, case in enumerate(rows)
]
# What is not differentiated: counts, or not smooth, or without a derivative.
flat = """map_coordinates cholesky solve expm expm_frechet poisson.entropy hessenberg
bernoulli.logpmf hankel rankdata funm schur solve_sylvester sqrtm binom.pmf comb
binom.logpmf betabinom.logpmf nbinom.logpmf geom.logpmf poisson.cdf poisson.logpmf
bernoulli.cdf dirichlet.logpdf fiedler qr_multiply lu""".split()

complete = """cluster.vq fft integrate linalg ndimage optimize signal sparse.linalg
spatial.transform
special stats""".split()


def find(library, module, name):
    found = importlib.import_module(f"{library}.{module}")
    for part in name.split("."):
        found = getattr(found, part)
    return found


def arrays_of(args):
    return [i for i, a in enumerate(args) if isinstance(a, np.ndarray)]


def leaves(result):
    return [np.asarray(leaf) for leaf in tree_leaves(result)]


@pytest.fixture
def one_by_one():
    """What these functions compile costs more here than each operation does."""
    with mj.disable_jit():
        yield


def function_of_arrays(module, name, args, kwargs):
    """-> (indices of the arrays, a function of them that gives one vector)."""
    function, places = find("minijit.scipy", module, name), arrays_of(args)

    def f(*arrays):
        full = list(args)
        for i, array in zip(places, arrays, strict=True):
            full[i] = array
        found = tree_leaves(function(*full, **kwargs))
        return mj.numpy.concatenate([mj.numpy.ravel(y) for y in found])

    return places, f


smooth = [c for c in numbered if c.values[1] not in flat and arrays_of(c.values[2])]
# Some rows are compiled, lanes and all; of the other functions one has lanes.
compiled = smooth[::7]
with_lanes = {c.values[:2]: c for c in reversed(smooth)}
with_lanes = [c for c in with_lanes.values() if c not in compiled]


@pytest.mark.usefixtures("one_by_one")
@pytest.mark.parametrize("module,name,args,kwargs", numbered)
def test_values_are_scipy_s(module, name, args, kwargs):
    got = find("minijit.scipy", module, name)(*args, **kwargs)
    want = find("scipy", module, name)(*args, **kwargs)
    for a, b in zip(leaves(got), leaves(want), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)


@pytest.mark.usefixtures("one_by_one")
def test_arguments_may_be_named_in_any_order():
    """Densities took a `scale=` without a location for the location."""
    densities = [find(m, "stats", "norm.logpdf") for m in ("minijit.scipy", "scipy")]
    np.testing.assert_allclose(*(f(x, scale=2.0) for f in densities))
    for name, args, kwargs in cases["stats"]:
        f = find("minijit.scipy", "stats", name)
        named = [*zip(inspect.signature(f).parameters, args, strict=False)]
        got = f(**dict(reversed(named)), **kwargs)
        for a, b in zip(leaves(got), leaves(f(*args, **kwargs)), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.usefixtures("one_by_one")
@pytest.mark.parametrize("module,name,args,kwargs", smooth)
def test_derivatives_are_those_of_the_values(module, name, args, kwargs):
    places, f = function_of_arrays(module, name, args, kwargs)
    check_slopes(lambda *arrays: [f(*arrays)], [args[i] for i in places], rtol=2e-5)


def lanes(module, name, args, kwargs):
    """-> (a function of lanes, two lanes of each array, what comes of each alone)."""
    places, f = function_of_arrays(module, name, args, kwargs)
    at = [np.stack([args[i], 1.01 * args[i]]) for i in places]
    return mj.vmap(f), at, np.stack([f(*lane) for lane in zip(*at, strict=True)])


@pytest.mark.parametrize("module,name,args,kwargs", with_lanes)
def test_lanes_are_single_calls(module, name, args, kwargs):
    f, at, want = lanes(module, name, args, kwargs)
    np.testing.assert_allclose(f(*at), want, rtol=1e-9, atol=1e-11)


@pytest.mark.chapter(23)
@pytest.mark.parametrize("module,name,args,kwargs", compiled)
def test_compiled_calls_are_single_calls(module, name, args, kwargs):
    f, at, want = lanes(module, name, args, kwargs)
    np.testing.assert_allclose(mj.jit(f)(*at), want, rtol=1e-9, atol=1e-11)


@pytest.mark.oracle
@pytest.mark.parametrize("module", complete)
def test_signatures_are_jax_s(module):
    theirs = pytest.importorskip(f"jax.scipy.{module}")
    mine = importlib.import_module(f"minijit.scipy.{module}")
    for name in [n for n in dir(theirs) if not n.startswith("_")]:
        function = getattr(theirs, name)
        if name in jax_names.get(f"scipy.{module}", {}):
            continue
        assert hasattr(mine, name), name
        if inspect.isfunction(inspect.unwrap(function)):
            got = inspect.signature(getattr(mine, name)).parameters.values()
            want = inspect.signature(function).parameters.values()
            assert [(p.name, p.kind, str(p.default)) for p in got] == [
                (p.name, p.kind, str(p.default)) for p in want
            ], name


def test_what_is_refused():
    linalg, special, stats = ours.linalg, ours.special, ours.stats
    eye = np.eye(2)
    bad = [
        (linalg.expm, (np.ones((2, 3)),), ValueError, "square matrix"),
        (linalg.eigh, (eye, eye), NotImplementedError, "b=None"),
        (linalg.polar, (R(3),), ValueError, "2-D"),
        (linalg.schur, (eye, "upper"), ValueError, "'real' or 'complex'"),
        (linalg.qr, (eye, False, None, "short"), ValueError, "mode 'short'"),
        (linalg.hadamard, (6,), ValueError, "power of 2"),
        (linalg.leslie, (R(3), R(3)), ValueError, "one less than"),
        (linalg.solve_sylvester, (eye, eye, R(3, 3)), ValueError, "Incompatible"),
        (linalg.solve_triangular, (eye, R(2), "X"), ValueError, "Invalid 'trans'"),
        (linalg.block_diag, (R(1, 2, 3),), ValueError, "at most 2"),
        (special.log_ndtr, (1.0, 31), ValueError, "0 to 30"),
        (special.ndtri, (1,), TypeError, "not supported"),
        (special.zeta, (2.0,), NotImplementedError, "pass q"),
        (special.bernoulli, (-1,), ValueError, "non-negative"),
        (stats.dirichlet.logpdf, (R(4), R(2)), ValueError, "one entry fewer"),
        (stats.multinomial.logpmf, (R(2), 2, R(2)), ValueError, "integer type"),
        (stats.mode, (R(2), 0, "omit"), NotImplementedError, "not implemented"),
        (stats.rankdata, (R(2), "best"), ValueError, "unknown method"),
        (stats.gaussian_kde, (R(1),), ValueError, "multiple elements"),
    ]
    for function, args, error, text in bad:
        refused(error, text, function, *args)


def test_bessel_functions_and_spherical_harmonics():
    theirs = pytest.importorskip("scipy.special")
    z = A(0.5, 2.0, 7.5)
    got = ours.special.bessel_jn(z, v=4)
    np.testing.assert_allclose(got, [theirs.jv(k, z) for k in range(5)], rtol=1e-6)
    orders = np.array([3, 2]), np.array([-2, 1])
    angles = A(0.3, 1.1), A(2.0, 0.4)
    got = ours.special.sph_harm_y(*orders, *angles, n_max=3)
    np.testing.assert_allclose(got, theirs.sph_harm_y(*orders, *angles), rtol=1e-6)
    z = A(-0.5, 0.3, 1.0)
    values = np.moveaxis([theirs.assoc_legendre_p_all(3, 3, x)[0] for x in z], 0, -1)
    wanted = np.moveaxis(values[:, :4], 0, 1)
    got = ours.special.lpmn_values(3, 3, z, False)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
    values, slopes = ours.special.lpmn(3, 3, z[:2])
    np.testing.assert_allclose(values, got[..., :2])
    step = ours.special.lpmn_values(3, 3, z[:2] + 1e-2, False)
    step = step - ours.special.lpmn_values(3, 3, z[:2] - 1e-2, False)
    np.testing.assert_allclose(slopes, step / 2e-2, rtol=1e-2, atol=1e-2)
    wave = theirs.sph_harm_y(3, 2, np.arccos(np.asarray(z)), 0.0).real
    got = ours.special.lpmn_values(3, 3, z, True)[2, 3]
    np.testing.assert_allclose(got, wave, rtol=1e-5, atol=1e-6)


def test_matrices_that_are_not_unique():
    """Schur's form, its complex one, and eigenvectors: what they are for holds."""
    t, z = ours.linalg.schur(square)
    upper, turned = ours.linalg.rsf2csf(t, z)
    for form, basis in (t, z), (upper, turned):
        back = basis @ form @ np.conj(basis).T
        np.testing.assert_allclose(back, square, atol=1e-12)
    assert np.abs(np.tril(upper, -1)).max() < 1e-12
    w, v = ours.linalg.eigh_tridiagonal(R(5), R(4), select="i", select_range=(1, 3))
    assert w.shape == (3,) and v.shape == (5, 3)
    factor = ours.linalg.cho_factor(spd, lower=True)
    back = spd @ ours.linalg.cho_solve(factor, low)
    np.testing.assert_allclose(back, low, atol=1e-12)
    packed = ours.linalg.lu_factor(square)
    b = R(3, 4, 2)
    np.testing.assert_allclose(square.T @ ours.linalg.lu_solve(packed, b, 1), b)


@pytest.mark.chapter(23)
def test_gauss_s_function():
    """By its series, a sum that ends, sums in powers of 1 - x, and at its limits."""
    theirs = pytest.importorskip("scipy.special").hyp2f1
    a = A(0.1, 1.7, -2, 0.7, 1.5, 3.0, 2.0, 0.5, 1.2)
    b = A(0.4, 2.2, 1.5, -3, 1.0, 0.5, 0.7, 0.3, 0.6)
    c = A(1.7, 0.9, 0.7, 0.4, 3.5, 1.5, 2.0, 2.5, 1.8)
    x = A(-0.7, 0.6, 0.3, 0.9, 0.95, 0.97, 0.6, 1.0, 0.93)

    of_x = lambda x: mj.jvp(lambda x: ours.special.hyp2f1(a, b, c, x), (x,), (x**0,))
    value, slope = mj.jit(of_x)(x)
    np.testing.assert_allclose(value, theirs(a, b, c, x), rtol=1e-9)
    inside = x < 0.8
    want = (theirs(a, b, c, x + 1e-6) - theirs(a, b, c, x - 1e-6)) / 2e-6
    np.testing.assert_allclose(slope[inside], want[inside], rtol=1e-7)
    assert np.isinf(ours.special.hyp2f1(0.3, 0.4, 0.0, 0.5))
    refused(ValueError, "complex-valued", ours.special.hyp2f1, 1j, 1.0, 1.0, 1.0)


numbers = {
    "norm": (0.3,), "beta": (0.3, 2.0, 3.0), "gamma": (0.5, 2.0), "chi2": (1.0, 3.0),
    "pareto": (2.0, 1.5), "t": (0.5, 3.0), "vonmises": (0.5, 2.0), "binom": (2, 5, 0.4),
    "poisson": (2, 1.5), "betabinom": (2, 5, 1.0, 2.0),
}  # fmt: skip


@pytest.mark.oracle
@pytest.mark.chapter(23)
def test_densities_of_numbers_are_numbers_too():
    theirs = pytest.importorskip("jax.scipy.stats")
    from jax import eval_shape

    for name, (x, *args) in numbers.items():
        kind = "logpmf" if hasattr(getattr(theirs, name), "logpmf") else "logpdf"
        got, want = (getattr(getattr(m, name), kind) for m in (ours.stats, theirs))
        assert got(x, *args).weak_type and eval_shape(want, x, *args).weak_type, name
        half = np.float16(x)
        assert got(half, *args).dtype == eval_shape(want, half, *args).dtype, name


@pytest.mark.chapter(23)
def test_densities_of_samples():
    theirs = pytest.importorskip("scipy.stats").gaussian_kde
    samples, points = R(2, 7), R(2, 3)
    for options in {}, {"bw_method": "silverman"}, {"weights": np.arange(1.0, 8)}:
        a = ours.stats.gaussian_kde(samples, **options)
        b = theirs(samples, **options)
        np.testing.assert_allclose(a(points), b(points))
        np.testing.assert_allclose(a.logpdf(points), b.logpdf(points))
        np.testing.assert_allclose(a.integrate_kde(a), b.integrate_kde(b))
        mean = points[:, 0]
        got, want = (k.integrate_gaussian(mean, np.eye(2)) for k in (a, b))
        np.testing.assert_allclose(got, want)
    a, b = ours.stats.gaussian_kde(samples[0]), theirs(samples[0])
    np.testing.assert_allclose(a.integrate_box_1d(-1, 1), b.integrate_box_1d(-1, 1))
    assert a.resample(mj.random.key(0), (3,)).shape == (1, 3)
    jitted = mj.jit(lambda kde, p: kde.pdf(p))
    np.testing.assert_allclose(jitted(a, points[0]), b(points[0]))
    mode = ours.stats.mode(np.array([[1.0, 2, 2], [1, 3, 2]]), 1)
    assert mode.mode.tolist() == [2, 1] and mode.count.tolist() == [2, 1]


def test_values_between_the_points_of_a_grid():
    theirs = pytest.importorskip("scipy.interpolate").RegularGridInterpolator
    grid = A(0.0, 1, 3), A(0.0, 2, 3, 4)
    values, points = R(3, 4, 2), 2 * R(6, 2) + 1
    for options in {}, {"method": "nearest"}, {"fill_value": None}:
        want = theirs(grid, values, bounds_error=False, **options)(points)
        interpolator = ours.interpolate.RegularGridInterpolator(grid, values, **options)
        for found in interpolator(points), interpolator((points[:, 0], points[:, 1])):
            np.testing.assert_allclose(found, want)
    code, gap = ours.cluster.vq.vq(points, points[[4, 2]])
    assert code[4] == 0 and gap[4] == 0 and code[2] == 1
    with pytest.raises(NotImplementedError, match="order<=1"):
        ours.ndimage.map_coordinates(values, R(3, 2), 3)


@pytest.mark.chapter(23)
@pytest.mark.parametrize("method", ["cg", "bicgstab", "gmres"])
def test_solvers_that_only_multiply(method):
    solver = getattr(ours.sparse.linalg, method)
    a = spd if method == "cg" else square + 3 * np.eye(4)
    b = R(4)

    total = lambda solve, a, b: (solve(a, b) ** 2).sum()
    by_products = lambda a, b: solver(lambda x: a @ x, b, tol=1e-12)[0]
    near = np.linalg.inv(a) + 0.01
    with_help, _ = mj.jit(lambda b: solver(a, b, tol=1e-12, M=near))(b)
    np.testing.assert_allclose(with_help, np.linalg.solve(a, b))
    # Step by step is quicker than to compile, but for the many steps of gmres.
    with mj.disable_jit(method != "gmres"):
        np.testing.assert_allclose(by_products(a, b), np.linalg.solve(a, b))
        got = mj.grad(lambda *x: total(by_products, *x), (0, 1))(a, b)
        double = lambda t: {"u": 2 * t["u"], "v": 3 * t["v"]}
        tree, _ = solver(double, {"u": b, "v": b[:2]})
    want = mj.grad(lambda *x: total(mj.numpy.linalg.solve, *x), (0, 1))(a, b)
    alike(got, want, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(tree["u"], b / 2, rtol=1e-4)
    refused(ValueError, "square matrix", solver, np.ones((2, 3)), b)
    refused(ValueError, "matching shapes", solver, a, b, x0=b[:2])


@pytest.mark.chapter(23)
def test_minima():
    theirs = pytest.importorskip("scipy.optimize").minimize
    rosenbrock = lambda x: (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()
    himmelblau = lambda p: (p[0] ** 2 + p[1] - 11) ** 2 + (p[0] + p[1] ** 2 - 7) ** 2
    minimize = ours.optimize.minimize
    for f, start in (rosenbrock, np.zeros(3)), (himmelblau, A(9.0, 0.3)):
        found = minimize(f, start, method="BFGS")
        assert found.success and found.status == 0 and found.nit > 3
        want = theirs(f, start, method="BFGS")
        np.testing.assert_allclose(found.fun, want.fun, atol=1e-9)
        np.testing.assert_allclose(found.x, want.x, atol=1e-4)
        found = minimize(f, start, method="L-BFGS-Experimental-do-not-rely-on-this")
        assert np.abs(found.jac).max() < 1e-3 and found.fun < 1e-3
        assert found.hess_inv is None and found.nit > 3
    few = minimize(rosenbrock, np.zeros(3), method="BFGS", options={"maxiter": 2})
    assert not few.success and few.status == 1 and few.nit == 2
    with pytest.raises(ValueError, match="not recognized"):
        minimize(rosenbrock, np.zeros(3), method="Powell")
    with pytest.raises(TypeError, match="must be a tuple"):
        minimize(rosenbrock, np.zeros(3), 1.0, method="BFGS")


# ---- rotations

turns = {
    "from_euler": ("xyz", R(3, 3)),
    "from_euler, about turned axes": ("ZXZ", 30 * R(2, 3), True),
    "from_euler, one": ("y", 0.3),
    "from_matrix": (np.linalg.qr(R(4, 3, 3))[0] * [1, 1, 1],),
    "from_mrp": (R(3),),
    "from_quat": (R(3, 4),),
    "from_rotvec": (A([0.1, 0.2, -3.0], [0, 1e-5, 0]),),
}


def rotations(made_of):
    """A rotation of ours and of SciPy's."""
    name = made_of.split(",")[0]
    theirs = pytest.importorskip("scipy.spatial.transform").Rotation
    args = turns[made_of]
    if name == "from_matrix":
        m, = args
        args = (m * np.sign(np.linalg.det(m))[:, None, None],)
    both = ours.spatial.transform.Rotation, theirs
    return [getattr(library, name)(*args) for library in both]


@pytest.mark.parametrize("made_of", turns)
def test_rotations_are_scipy_s(made_of):
    got, want = rotations(made_of)
    same = partial(np.testing.assert_allclose, rtol=1e-7, atol=1e-7)
    same(got.as_matrix(), want.as_matrix())
    same(got.as_quat(canonical=True), want.as_quat(canonical=True))
    same(got.as_rotvec(degrees=True), want.as_rotvec(degrees=True))
    same(got.as_mrp(), want.as_mrp())
    same(got.magnitude(), want.magnitude())
    for seq in "xyz", "ZYZ", "yxz", "XYX":
        same(got.as_euler(seq), want.as_euler(seq))
    same((got * got).as_matrix(), (want * want).as_matrix())
    same(got.inv().as_matrix(), want.inv().as_matrix())
    vector = A(0.3, -1.0, 2.0)
    for back in False, True:
        same(got.apply(vector, back), want.apply(vector, back))
    if not got.single:
        same(got[1:].mean().as_matrix(), want[1:].mean().as_matrix())
        pair = type(got).concatenate([got, got[:1]])
        assert len(pair) == len(got) + 1


def test_rotations_between_rotations():
    got, want = rotations("from_quat")
    theirs = pytest.importorskip("scipy.spatial.transform").Slerp
    times, at = A(0.0, 1.0, 3.0), A(0.0, 0.4, 1.0, 2.5, 3.0)
    slerp = ours.spatial.transform.Slerp.init(times, got)
    wanted = theirs(times, want)(at).as_matrix()
    np.testing.assert_allclose(slerp(at).as_matrix(), wanted, atol=1e-12)
    alone = lambda t: slerp(t).as_matrix()
    np.testing.assert_allclose(mj.jit(mj.vmap(alone))(at), wanted, atol=1e-12)
    slope = (alone(0.4 + 1e-6) - alone(0.4 - 1e-6)) / 2e-6
    np.testing.assert_allclose(mj.jacfwd(alone)(0.4), slope, atol=1e-8)


def test_what_rotations_refuse():
    rotation, slerp = ours.spatial.transform.Rotation, ours.spatial.transform.Slerp
    one, two = rotation.identity(), rotation.from_quat(R(2, 4))
    bad = [
        (lambda: one[0], TypeError, "not subscriptable"),
        (lambda: len(one), TypeError, "no len"),
        (lambda: rotation.from_euler("xX", R(2)), ValueError, "Expected axes"),
        (lambda: rotation.from_euler("xyzx", R(4)), ValueError, "1 to 3 axes"),
        (lambda: one.as_euler("xxy"), ValueError, "consecutive"),
        (lambda: two.mean(R(3)), ValueError, "3 values and 2 rotations"),
        (lambda: slerp.init(R(2), one), ValueError, "at least 2"),
        (lambda: slerp.init(R(3), two), ValueError, "2 rotations and 3 timestamps"),
        (lambda: slerp.init(R(2), R(2, 4)), TypeError, "must be a `Rotation`"),
        (lambda: slerp.init(A(0, 1), two)(R(2, 2)), ValueError, "1-dimensional"),
    ]
    for call, error, text in bad:
        refused(error, text, call)


def test_betaln_of_large_arguments():
    """Logarithms of gamma cancel there: what is left is a logarithm, or b log(a)."""
    big = A(1.0, 10.0, 1e5, 1e10, 1e20, 1e30)
    got, slopes = mj.jvp(ours.special.betaln, (big, 1.0), (big, 0.0))
    np.testing.assert_allclose(got, -np.log(big), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(slopes[:4], -1, rtol=1e-5)
    a, b = 10.0 ** np.random.default_rng(0).uniform(-2, 6, (2, 500))
    from scipy.special import betaln

    wanted = betaln(a, b)
    got = ours.special.betaln(A(*a), A(*b))
    np.testing.assert_allclose(got, wanted, rtol=2e-6, atol=2e-6)
    half = mj.numpy.float16([0.5, 20.0])
    got = ours.special.betaln(half, half)
    np.testing.assert_allclose(got, betaln([0.5, 20], [0.5, 20]), rtol=1e-2)
    assert got.dtype == np.float16


def test_zeta_of_large_exponents():
    got = ours.special.zeta(A(1e5, 1e19, 1e10, 1e5), A(1.0, 40.0, 30.0, 0.5))
    np.testing.assert_array_equal(got, [1, 0, 0, np.inf])


def test_polar_of_half_precision():
    with pytest.raises(NotImplementedError, match="use float32"):
        ours.linalg.polar(mj.numpy.ones((2, 2), mj.numpy.bfloat16))


def test_orders_and_places_are_broadcast():
    special, x = mj.scipy.special, A(0.5, 2.0, 3.0)
    rows = [special.expn(k, x) for k in (0, 3)]
    np.testing.assert_allclose(special.expn(np.array([[0], [3]]), x), rows, rtol=1e-12)


def test_a_function_of_a_larger_matrix_is_no_longer_program():
    funm = partial(ours.linalg.funm, func=mj.numpy.exp)
    small, large = (mj.make_jaxpr(funm)(np.ones((n, n))) for n in (5, 30))
    assert len(small.eqns) == len(large.eqns)
