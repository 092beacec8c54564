"""Routines of LAPACK and of the BLAS by address: those that come with SciPy.

    lapack("dpotrf", letters, 0, sizes, 0, a, 0, sizes, 0, info, 0)

They decompose matrices, and solve triangular systems.  Machine code multiplies matrices
without them, on every machine: see `product_tiles`.

All arguments of these routines go by address: each is an array, and the number of its
element that the routine is given.  As plain Python the call goes by ctypes; for numba
and for LLVM it is a call of that address: no Python, no object.
"""

import ctypes
import functools
import importlib
import itertools
import math
import os
import threading

from numpy.linalg import _umath_linalg

from ..compile.loops.statements import Call, statements
from ..trace.base.demand import extension
from ..trace.base.locks import Lock
from .scalars.scalar_math import functions


def scipy_code(name):
    """A module of machine code of `scipy.linalg`."""
    name = f"scipy.linalg.{name}"
    return extension(name) or importlib.import_module(name)


# Routines of others that are called alike: {name: function that finds the address}.
elsewhere: dict = {}


@functools.cache
def address(name):
    """The address of a routine, as `dpotrf`."""
    if name in elsewhere:
        return elsewhere[name]()
    table = scipy_code("cython_lapack").__pyx_capi__
    capsule = (table if name in table else scipy_code("cython_blas").__pyx_capi__)[name]
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))


def lapack(name, *args):
    """Call a routine.

    Args:
      args: for each of its arguments an array, and the number of an element there.
    """
    pairs = zip(args[::2], args[1::2], strict=True)
    places = [x.ctypes.data + int(i) * x.itemsize for x, i in pairs]
    routine = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(places))
    routine(address(name))(*places)


functions |= {"lapack": lapack}


@functools.cache
def native_lapack():
    """`lapack` for numba: a call of the address."""
    from numba.extending import overload

    def stub(name, *args):
        pass

    @overload(stub, prefer_literal=True)
    def chosen(name, *args):
        pairs = [(i, i + 1) for i in range(0, len(args), 2)]
        kinds = [ctypes.c_ssize_t] * len(pairs)
        routine = ctypes.CFUNCTYPE(None, *kinds)(address(name.literal_value))
        place = "args[{0}].ctypes.data + args[{0}].itemsize * args[{1}]"
        given = ", ".join(place.format(*pair) for pair in pairs)
        return eval(f"lambda name, *args: routine({given})", {"routine": routine})

    return stub


# ---- its threads

class OneThread:
    """While anybody is within, a BLAS uses one thread only.

    A process that forks takes along how many threads there were, and nobody within:
    its first call gives them back.
    """

    def __init__(self, threads):
        self.threads, self.before = threads, None
        self.leave_all()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.leave_all)

    def leave_all(self):
        self.lock, self.inside = Lock(threading.Lock()), 0

    def __enter__(self):
        read, write = self.threads()
        with self.lock:
            self.inside += 1
            if self.before is None:
                self.before = read()
                write(1)

    def __exit__(self, *error):
        _, write = self.threads()
        with self.lock:
            self.inside -= 1
            if not self.inside:
                write(self.before)
                self.before = None


def blas_threads(module):
    """Functions that read and write how many threads the BLAS of a module has."""
    library = ctypes.CDLL(module.__file__)
    for begin, end in itertools.product(("scipy_", ""), ("", "64_")):
        try:
            read = getattr(library, f"{begin}openblas_get_num_threads{end}")
            return read, getattr(library, f"{begin}openblas_set_num_threads{end}")
        except AttributeError:
            continue
    # Another BLAS: it is left as it is.
    return (lambda: 1), (lambda count: None)


one_thread = OneThread(functools.cache(lambda: blas_threads(scipy_code("cython_blas"))))
one_thread_of_numpy = OneThread(functools.cache(lambda: blas_threads(_umath_linalg)))


# So many multiplications, 1 ms or more, are worth the threads of the BLAS.
WORTH_WAITING = 1 << 26


def works_alone(bodies):
    """Whether some statements call routines, and only of small matrices.

    Threads of a BLAS wait for each other after each product.  In a loop of small ones
    that takes longer than the products, and on a busy machine many times as long.
    """
    calls = [s for body in bodies for s in statements(body) if isinstance(s, Call)]
    calls = [c for c in calls if c.attrs.get("name", "") not in {"", *elsewhere}]
    works = [max(math.prod(x.shape) for x in c.outputs) ** 1.5 for c in calls]
    return bool(works) and max(works) < WORTH_WAITING


def alone(function):
    """A function during which the BLAS uses one thread."""

    def run(*arrays):
        with one_thread:
            return function(*arrays)

    return run
