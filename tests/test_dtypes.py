"""Promotion: the whole table as JAX has it; defaults, overflow, kinds."""

import enum
import itertools
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from harness import refused
from referee import kept

import minijit as mj
import minijit.numpy as jnp
from minijit.trace import dtypes
from minijit.trace.base.config import enable_x64

pytestmark = pytest.mark.chapter(3)

# Chapter 16 brings dtypes that are not promoted.
widths = [name for names in dtypes.families.values() for name in names]
nodes = [node for node in dtypes.wider if node.endswith("*") or node in widths]


def weak_value(dtype):
    return SimpleNamespace(dtype=np.dtype(dtype), weak_type=True)


def strong_value(dtype):
    return SimpleNamespace(dtype=np.dtype(dtype), weak_type=False)


@pytest.mark.parametrize("value, error, text", [
    (None, ValueError, "Invalid argument to dtype: None"),
    ([1, 2], TypeError, r"Cannot determine dtype of \[1, 2\]"),
    (np.array(["a"]), TypeError, "with dtype <U1 is not a valid array type"),
    ("datetime64[s]", TypeError, "with dtype datetime64"),
    (np.array([None]), TypeError, "with dtype object"),
])  # fmt: skip
def test_what_has_no_dtype(value, error, text):
    refused(error, text, dtypes.dtype, value)


def test_the_dtype_argument_of_a_function():
    assert dtypes.user_dtype(float, "zeros") == np.float32
    assert dtypes.user_dtype("int8", "zeros") == np.int8
    assert dtypes.user_dtype(np.float16, "zeros") == np.float16
    with pytest.warns(UserWarning, match="int64 requested in zeros"):
        assert dtypes.user_dtype(np.int64, "zeros") == np.int32
    refused(TypeError, "'U3' in zeros with dtype <U3", dtypes.user_dtype, "U3", "zeros")
    # NumPy's own strings are scalars, and have a shape.
    assert jnp.zeros(3, np.str_("int8")).dtype == np.int8
    with pytest.raises(ValueError, match="zeros got an array .*dtype=arr.dtype"):
        dtypes.user_dtype(np.zeros(2), "zeros")
    refused(ValueError, "must be specified in zeros", dtypes.user_dtype, None, "zeros")


@pytest.mark.chapter(16)
def test_lax_dtype_is_that_of_arrays_numbers_and_types():
    given = np.ones(2, np.int8), 1, 2.0, 1j, True, np.float16, "uint8"
    found = [mj.lax.dtype(x).name for x in given]
    assert found == "int8 int32 float32 complex64 bool float16 uint8".split()
    refused(TypeError, "Cannot determine dtype", mj.lax.dtype, {"a": 1})


def test_python_ints_that_do_not_fit():
    assert dtypes.scalar_dtype(2**31 - 1) == np.int32
    assert dtypes.scalar_dtype(True) == np.bool_
    refused(OverflowError, "2147483648 too large .* int32", dtypes.scalar_dtype, 2**31)
    with enable_x64(True):
        assert dtypes.scalar_dtype(2**31) == np.int64
        refused(OverflowError, "to int64", dtypes.scalar_dtype, 2**63)
    with pytest.raises(OverflowError, match="-1 too large to convert to uint8"):
        dtypes.check_python_int(-1, np.dtype("uint8"))


def test_weakness():
    assert all(map(dtypes.is_weakly_typed, (1, 1.0, 1j, weak_value("int32"))))
    strong = (True, np.float64(1), np.ones(2), strong_value("int32"))
    assert not any(map(dtypes.is_weakly_typed, strong))
    assert dtypes.is_python_scalar(True) and not dtypes.is_python_scalar(np.float64(1))


class Kind(enum.IntEnum):
    left = 1
    right = 2


class Metres(float):
    pass


@pytest.mark.chapter(7)
@pytest.mark.parametrize("number", [Kind.right, enum.IntFlag("F", "a b").b, Metres(2)])
def test_classes_of_numbers_are_numbers(number):
    """As Python's: an `IntEnum` names the cases of many a state machine."""
    x = jnp.ones(2, np.float16)
    for f in (lambda x: x + number, lambda x: jnp.where(x > number, x, number)):
        for result in (f(x), mj.jit(f)(x)):
            assert result.dtype == np.float16 and not result.weak_type
    assert (x < number).tolist() == [True, True]
    assert mj.jit(lambda n: n + 1)(number).weak_type and jnp.asarray(number).weak_type


def test_short_names():
    assert dtypes.short_dtype_name(np.dtype("uint16")) == "u16"
    assert dtypes.short_dtype_name(np.dtype("bfloat16")) == "bf16"
    assert dtypes.short_dtype_name(dtypes.float0) == "float0"


def value_of(node):
    """A value at a node of the graph, for jax and for us."""
    numbers = {"int*": 1, "float*": 1.0, "complex*": 1j}
    return numbers[node] if node in numbers else np.ones((), node)


def groups(x64):
    """All pairs of nodes and all sets of three, without those of 64 bits or with."""
    found = [n for n in nodes if x64 or "64" not in n and "128" not in n]
    found += ["complex64"] * (not x64)
    return [*itertools.product(found, repeat=2), *itertools.combinations(found, 3)]


@pytest.mark.parametrize("x64", [True, False])
def test_every_pair_and_all_triples_are_promoted_as_jax_does(x64):
    def answers():
        import jax

        with jax.enable_x64(x64):
            return [jax.dtypes.result_type(*map(value_of, group),
                                           return_weak_type_flag=True)
                    for group in groups(x64)]  # fmt: skip

    told = kept(f"promotion: {groups(x64)}", answers)
    assert len(told) > 350
    with enable_x64(x64):
        for group, wanted in zip(groups(x64), told, strict=True):
            args = [value_of(node) for node in group]
            assert dtypes.result_type(*args, return_weak_type_flag=True) == wanted


def test_scalar_types_of_64_bits_are_results_without_a_warning():
    """Names and NumPy's types have one (numpyro's von Mises)."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert jnp.result_type(jnp.float64) == np.float32
        with pytest.raises(UserWarning, match="truncated to dtype float32"):
            jnp.result_type("float64")


def promoted(module, a, b):
    """The dtype of both, or the name of the error."""
    try:
        return module.promote_types(a, b)
    except ValueError as error:
        return type(error).__name__


@pytest.mark.oracle
def test_jax_agrees_on_promote_types_and_kinds():
    jax = pytest.importorskip("jax")
    names = [*dtypes.dtype_names.values(), int, float, complex]
    for x64 in (True, False):
        with jax.enable_x64(x64), enable_x64(x64):
            for a, b in itertools.product(names, repeat=2):
                expected = promoted(jax.numpy, a, b)
                assert promoted(dtypes, a, b) == expected, (a, b)
    classes = [np.number, np.integer, np.signedinteger, np.unsignedinteger]
    classes += [np.inexact, np.floating, np.complexfloating, np.generic]
    for a, b in itertools.product(names, names + classes):
        assert dtypes.issubdtype(a, b) == jax.numpy.issubdtype(a, b), (a, b)


# ---- as users name them


def test_scalar_types():
    f32 = dtypes.float32
    assert np.dtype(f32) == f32.dtype == np.float32 == f32
    assert {np.float32: 1}[f32] == 1
    assert f32 != dtypes.float64 and f32 is not None and f32 != np.int32
    assert repr(dtypes.bool_) == "<class 'minijit.numpy.bool_'>"
    assert np.zeros(2, dtypes.bfloat16).dtype == dtypes.bfloat16.dtype
    assert dtypes.dtype(dtypes.bfloat16) == np.dtype("bfloat16")
    assert dtypes.user_dtype(dtypes.float16, "zeros") == np.float16
    assert dtypes.issubdtype(dtypes.bfloat16, dtypes.floating)
    assert dtypes.finfo(dtypes.bfloat16).eps == 0.0078125


def test_kinds_of_the_array_api_standard():
    assert dtypes.isdtype("bfloat16", "real floating")
    assert dtypes.isdtype("int8", ("bool", "integral"))
    assert dtypes.isdtype(np.int8, "int8") and not dtypes.isdtype("int8", "int16")
    refused(ValueError, "Unrecognized kind='whole'", dtypes.isdtype, "int8", "whole")
