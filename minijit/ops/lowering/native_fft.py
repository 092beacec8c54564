"""Fourier transforms in native loops: NumPy's machine code by address, and no Python.

    fori_loop(0, 100, lambda i, psi: ifft(fft(psi * potential) * kinetic), psi)

A generalised ufunc of NumPy holds addresses: of a loop over many vectors for each type
of number, and of what that loop is told besides.  So a transform in a loop is a call of
a function of ours that takes everything by address, as a routine of LAPACK does, and
calls the loop.  Outside of loops SciPy is called, by Python.
"""

import ctypes
import functools
import math

import numpy as np

from ...compile.control.obstacles import call_obstacles
from ...compile.control.region_functions import view_of
from ...compile.control.regions import Part, call_builders
from ...compile.loops.buffers import Buffer
from ...compile.loops.statements import Call
from ...run.lapack import elsewhere
from ...run.llvm.engine import share
from ...run.llvm.target import binding, forever
from ...trace.numpy_values import real_part
from ..fft import fft_p
from .native_linalg import element, finish, loops

# The function of ours: the vectors, a factor, the results, and three sizes and five
# steps in bytes.  What it calls, and is told, stands at two addresses.
CALL = """
@minijit_{name}_at = external global [2 x ptr]
define void @minijit_{name}(ptr %in, ptr %factor, ptr %out, ptr %sizes) {{
  %arrays = alloca [3 x ptr]
  store ptr %in, ptr %arrays
  %second = getelementptr ptr, ptr %arrays, i64 1
  store ptr %factor, ptr %second
  %third = getelementptr ptr, ptr %arrays, i64 2
  store ptr %out, ptr %third
  %steps = getelementptr i64, ptr %sizes, i64 3
  %loop = load ptr, ptr @minijit_{name}_at
  %beside = getelementptr ptr, ptr @minijit_{name}_at, i64 1
  %told = load ptr, ptr %beside
  call void %loop(ptr %arrays, ptr %sizes, ptr %steps, ptr %told)
  ret void
}}
"""


class Ufunc(ctypes.Structure):
    """The first fields of NumPy's PyUFuncObject, after what every object has."""

    _fields_ = [
        ("counts", ctypes.c_int * 4),
        ("loops", ctypes.POINTER(ctypes.c_void_p)),
        ("told", ctypes.POINTER(ctypes.c_void_p)),
    ]


def find(kind, char):
    """The address of our function for one of NumPy's transforms.

    Args:
      kind: the ufunc's name; char: the letter of the real numbers' dtype.
    """
    from numpy.fft import _pocketfft_umath

    ufunc = getattr(_pocketfft_umath, kind)
    which = [types[1] for types in ufunc.types].index(char)
    fields = Ufunc.from_address(id(ufunc) + object.__basicsize__)
    told = fields.told[which] if fields.told else None
    at = forever((ctypes.c_void_p * 2)(fields.loops[which], told))
    name = f"{kind}_{char}"
    binding().add_symbol(f"minijit_{name}_at", ctypes.addressof(at))
    return share(f"minijit_{name}", CALL.format(name=name))


KINDS = "fft", "ifft", "rfft_n_even", "rfft_n_odd", "irfft"
elsewhere |= {
    f"{kind}_{char}": functools.partial(find, kind, char)
    for kind in KINDS for char in "fd"
}  # fmt: skip


@functools.lru_cache(None, typed=True)
def constant(values, dtype):
    """Numbers that a call is given, as one array for all who want the same."""
    return np.array(values, dtype)


def transform(builder, kind, source, target, axis):
    """Vectors along an axis of a place become their transforms, at another one."""
    part, lead = real_part(target.dtype), target.shape[:axis]
    n, m = (x.shape[axis] for x in (source, target))
    if kind == "rfft":
        kind = "rfft_n_odd" if n % 2 else "rfft_n_even"
    inner = math.prod(target.shape[axis + 1 :])
    steps = [x.dtype.itemsize for x in (source, target)]
    # One call does what lies side by side, or else all that lies one behind another.
    if inner > 1:
        sizes = inner, n, m, steps[0], 0, steps[1], *(inner * step for step in steps)
    else:
        many, lead = math.prod(lead), ()
        sizes = many, n, m, n * steps[0], 0, m * steps[1], *steps
    factor = 1.0 / m if kind in ("ifft", "irfft") else 1.0
    factor, sizes = constant((factor,), part), constant(sizes, np.int64)
    factor, sizes = (
        builder.constant(Buffer("", x.shape, x.dtype), x) for x in (factor, sizes)
    )
    with loops(builder, lead) as index:
        source, target = (Part(x.buffer, (*x.prefix, *index)) for x in (source, target))
        given = read, factor, made, sizes = [
            view_of(place) for place in (source, factor, target, sizes)
        ]
        attrs = dict(name=f"{kind}_{part.char}", given=tuple(given))
        builder.add(Call("lapack", (read, factor, sizes), (made,), attrs))


def build(builder, call, places):
    """A transform of each array of a batch, axis after axis."""
    params, (view,) = call.attrs["params"], call.inputs
    source = places[view.buffer][0]
    if not view.whole:
        read, source = element(view, source), builder.room(view.shape, source.dtype)
        with loops(builder, view.shape) as index:
            builder.add(source.store(index, read(index)))
    name, count = params["fft_type"].name.lower(), len(params["fft_lengths"])
    target = places[call.outputs[0].buffer][0]
    axes = [len(target.shape) - 1 - i for i in range(count)]
    if name == "irfft":
        for axis in axes[1:]:
            place = builder.room(source.shape, source.dtype)
            transform(builder, "ifft", source, place, axis)
            source = place
        transform(builder, name, source, target, axes[0])
    else:
        transform(builder, name, source, target, axes[0])
        for axis in axes[1:]:
            along = "fft" if name == "rfft" else name
            transform(builder, along, target, target, axis)
    finish(builder, call, places)


def obstacle(call):
    """Why a transform is left to Python, or None."""
    if any(0 in view.shape for view in (*call.inputs, *call.outputs)):
        return "fft in its body is of nothing"
    return None


call_obstacles |= {fft_p: obstacle}
call_builders |= {fft_p: build}
