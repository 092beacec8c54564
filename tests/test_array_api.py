"""The array API standard (2024.12): names, signatures, dtypes, inspection, errors."""

import inspect
import operator

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp

pytestmark = pytest.mark.chapter(16)

# The standard's functions by their signatures; `=` marks what has a default.
signatures = {
    "(x, /)": """
        abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp
        expm1 floor imag isfinite isinf isnan log log10 log1p log2 logical_not
        matrix_transpose negative nonzero positive real reciprocal round sign
        signbit sin sinh sqrt square tan tanh trunc unique_all unique_counts
        unique_inverse unique_values linalg.det linalg.eigh linalg.eigvalsh
        linalg.inv linalg.matrix_transpose linalg.slogdet linalg.svdvals
    """,
    "(x1, x2, /)": """
        add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift
        bitwise_xor copysign divide equal floor_divide greater greater_equal hypot
        less less_equal logaddexp logical_and logical_or logical_xor matmul maximum
        minimum multiply nextafter not_equal pow remainder subtract linalg.matmul
        linalg.outer linalg.solve
    """,
    "(x, /, *, axis=, keepdims=)": "all any argmax argmin count_nonzero max mean min",
    "(start, /, stop=, step=, *, dtype=, device=)": "arange",
    "(x, /, *, axis=, descending=, stable=)": "argsort sort",
    "(obj, /, *, dtype=, device=, copy=)": "asarray",
    "(x, dtype, /, *, copy=, device=)": "astype",
    "(*arrays)": "broadcast_arrays",
    "(*shapes)": "broadcast_shapes",
    "(x, /, shape)": "broadcast_to",
    "(from_, to, /)": "can_cast",
    "(x, /, min=, max=)": "clip",
    "(arrays, /, *, axis=)": "concat stack",
    "(x, /, *, axis=, dtype=, include_initial=)": "cumulative_prod cumulative_sum",
    "(x, /, *, axis=, n=, prepend=, append=)": "diff",
    "(shape, *, dtype=, device=)": "empty ones zeros",
    "(x, /, *, dtype=, device=)": "empty_like ones_like zeros_like",
    "(x, /, axis)": "expand_dims squeeze",
    "(n_rows, n_cols=, /, *, k=, dtype=, device=)": "eye",
    "(type, /)": "finfo iinfo",
    "(x, /, *, axis=)": "flip unstack",
    "(x, /, *, device=, copy=)": "from_dlpack",
    "(shape, fill_value, *, dtype=, device=)": "full",
    "(x, /, fill_value, *, dtype=, device=)": "full_like",
    "(dtype, kind)": "isdtype",
    "(x1, x2, /, *, invert=)": "isin",
    "(start, stop, /, num, *, dtype=, device=, endpoint=)": "linspace",
    "(*arrays, indexing=)": "meshgrid",
    "(x, source, destination, /)": "moveaxis",
    "(x, /, axes)": "permute_dims",
    "(x, /, *, axis=, dtype=, keepdims=)": "prod sum",
    "(x, repeats, /, *, axis=)": "repeat",
    "(x, /, shape, *, copy=)": "reshape",
    "(*arrays_and_dtypes)": "result_type",
    "(x, /, shift, *, axis=)": "roll",
    "(x1, x2, /, *, side=, sorter=)": "searchsorted",
    "(x, /, *, axis=, correction=, keepdims=)": "std var",
    "(x, indices, /, *, axis=)": "take take_along_axis",
    "(x1, x2, /, *, axes=)": "tensordot linalg.tensordot",
    "(x, repetitions, /)": "tile",
    "(x, /, *, k=)": "tril triu",
    "(x1, x2, /, *, axis=)": "vecdot linalg.cross linalg.vecdot",
    "(condition, x1, x2, /)": "where",
    "(x, /, *, upper=)": "linalg.cholesky",
    "(x, /, *, offset=)": "linalg.diagonal",
    "(x, /, *, keepdims=, ord=)": "linalg.matrix_norm",
    "(x, n, /)": "linalg.matrix_power",
    "(x, /, *, rtol=)": "linalg.matrix_rank linalg.pinv",
    "(x, /, *, mode=)": "linalg.qr",
    "(x, /, *, full_matrices=)": "linalg.svd",
    "(x, /, *, offset=, dtype=)": "linalg.trace",
    "(x, /, *, axis=, keepdims=, ord=)": "linalg.vector_norm",
    "(n, /, *, d=, dtype=, device=)": "fft.fftfreq fft.rfftfreq",
    "(x, /, *, s=, axes=, norm=)": "fft.fftn fft.ifftn fft.irfftn fft.rfftn",
    "(x, /, *, axes=)": "fft.fftshift fft.ifftshift",
    "(x, /, *, n=, axis=, norm=)": "fft.hfft fft.ifft fft.ihfft fft.irfft fft.rfft",
}
functions = [(n, text) for text, names in signatures.items() for n in names.split()]


def function(name):
    return operator.attrgetter(name)(jnp)


@pytest.mark.parametrize("name, text", functions, ids=[name for name, _ in functions])
def test_a_function_can_be_called_as_the_standard_says(name, text):
    """By position and by name, with everything and with what has no default only."""
    inner = text.strip("()").split(", ")
    named = inner[inner.index("*") + 1 :] if "*" in inner else []
    plain = [p for p in inner[: len(inner) - len(named)] if p not in "/*"]
    kinds = ([p for p in plain if p[0] == "*"], [p for p in plain if p[0] != "*"])
    several, single = kinds
    named += [p for p in single if several and p.endswith("=")]
    given = [p for p in single if p not in named] + several * 2
    signature = inspect.signature(function(name))
    signature.bind(*given, **dict.fromkeys(p.rstrip("=") for p in named))
    signature.bind(*[p for p in given if not p.endswith("=")])
    slash = inner.index("/") if "/" in inner else 0
    for p in plain[slash:]:
        if p[0] != "*":
            assert p.rstrip("=") in signature.parameters


bools, floats, complexes = ["bool"], ["float32", "float64"], ["complex64", "complex128"]
signed = ["int8", "int16", "int32", "int64"]
unsigned = ["uint8", "uint16", "uint32", "uint64"]
integers = signed + unsigned
real = integers + floats
every = bools + real + complexes


def array_of(dtype):
    return jnp.asarray(np.eye(2), dtype=dtype)


operations = "+ - * / // % ** & | ^ << >> == != < <= > >= @".split()


@pytest.mark.parametrize("op", operations)
def test_a_python_scalar_takes_the_dtype_of_an_array(op):
    taken = integers if op in ("<<", ">>", "&", "|", "^") else floats
    with minijit.enable_x64(True):
        assert jnp.asarray([]).dtype == "float64"
        for dtype in taken:
            x, scalar = array_of(dtype) + 1, 2 if dtype in integers else 2.0
            other = x if op == "@" else scalar
            found = eval(f"x {op} other", dict(x=x, other=other)).dtype.name
            assert found == ("bool" if op[0] in "=!" or op in "< <= > >=" else dtype)


def test_inspection():
    x = jnp.ones(3)
    assert jnp.__array_api_version__ == "2024.12"
    assert x.__array_namespace__() is jnp
    assert x.__array_namespace__(api_version="2024.12") is jnp
    assert minijit.jit(lambda x: x.__array_namespace__().sum(x))(x) == 3
    with pytest.raises(ValueError, match="api_version='2019.12' is not available"):
        x.__array_namespace__(api_version="2019.12")
    info = jnp.__array_namespace_info__()
    assert info.capabilities()["data-dependent shapes"] is False
    assert info.default_device() is None and x.device in info.devices()
    assert {d.name for d in info.default_dtypes().values()} == {
        "float32", "complex64", "int32"
    }  # fmt: skip
    kinds = "bool", "signed integer"
    assert [*info.dtypes(kind=kinds)] == ["bool", "int8", "int16", "int32"]
    with minijit.enable_x64(True):
        assert {*info.dtypes()} == {*every}
        assert info.default_dtypes()["indexing"] == np.int64
        assert [*info.dtypes(kind="complex floating")] == complexes
    with pytest.raises(ValueError, match="Unrecognized kind='words'"):
        info.dtypes(kind="words")


@pytest.mark.oracle
def test_inspection_is_that_of_jax():
    theirs = pytest.importorskip("jax.numpy").__array_namespace_info__()
    ours = jnp.__array_namespace_info__()
    assert ours.capabilities() == theirs.capabilities()
    assert ours.default_dtypes() == theirs.default_dtypes()
    for kind in ("bool", "integral", "numeric", ("real floating", "bool"), None):
        assert ours.dtypes(kind=kind) == theirs.dtypes(kind=kind)


x23 = np.ones((2, 3), np.float32)
# What the standard asks to be refused, beside what `test_jax_words` has.
refused = {
    "int": (TypeError, lambda: int(jnp.asarray(x23))),
    "matrix_transpose": (ValueError, lambda: jnp.matrix_transpose(x23[0])),
    "mT": (ValueError, lambda: jnp.asarray(x23[0]).mT),
    "concat": (TypeError, lambda: jnp.concat([x23, x23[:, :2]], axis=0)),
    "isdtype": (ValueError, lambda: jnp.isdtype(np.float32, "words")),
    "unstack": (ValueError, lambda: jnp.unstack(jnp.asarray(1.0))),
    "setting": (TypeError, lambda: operator.setitem(jnp.asarray(x23), 0, 1.0)),
}


@pytest.mark.parametrize("name", refused)
def test_what_the_standard_refuses(name):
    kind, call = refused[name]
    with pytest.raises(kind):
        call()
