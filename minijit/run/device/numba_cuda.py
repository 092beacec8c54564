"""numba's own route to a GPU: what is printed for kernels *is* a program of numba.cuda.

    print(program_of(kernels))          # a file: imports, constants, kernels
    numba_ptx(kernel, (9, 0))           # by numba and NVIDIA's libNVVM, without a GPU
    run_by_numba(kernel, x, y)          # on a device, or in numba's simulator

The simulator is there where `NUMBA_ENABLE_CUDASIM=1` is set before numba is imported.
PTX wants the packages of `minijit[numba-cuda]`.  numba copies NumPy's arrays to the
device and back: `backend="cuda"` launches our own PTX, and keeps them there.
"""

import functools
import math
import re
import threading
import warnings
from types import FunctionType, ModuleType, SimpleNamespace

import numpy as np

from ...compile.loops.scalars import part_dtype, storage_dtype
from ...trace.base.locks import Lock
from ..python.scalar_functions import functions
from ..python.source import import_text
from ..report.environment import version_of
from ..values import pairs
from .functions import own
from .grid_memory import NoCudaForm
from .lockstep import of_math, vector_functions

HEAD = "from __future__ import annotations\n\nimport math\n\nimport numpy as np\n"
known = (functions.keys() | own.keys() | vector_functions.keys()) - {"abs"}
turn = Lock(threading.RLock())


def simulated():
    """Whether `numba.cuda` is its simulator in this process."""
    from numba import config

    return bool(config.ENABLE_CUDASIM)


def program_of(kernels):
    """A file of Python that numba.cuda compiles: some `CudaKernel`s, by their names."""
    texts = [f"{k.printed.comment}\n@cuda.jit\n{k.printed.text}" for k in kernels]
    called = set(re.findall(r"(?<![.\w])[a-z]\w*(?=\()", "\n".join(texts)))
    head = HEAD + "from numba import cuda\n\n"
    if names := sorted(called & known):
        head += import_text(__name__, names) + "\n\n"
    if "vector" in called:
        head += "vector = range  # its steps load together, and store together\n"
    constants = dict(pair for k in kernels for pair in k.constants.items())
    head += "".join(f"{name} = {text}\n" for name, text in constants.items())
    return "\n\n".join([head, *texts])


def __getattr__(name):
    """A function that kernels import, as numba.cuda takes it in this process."""
    if name not in known:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    if simulated():
        return functions.get(name) or vector_functions[name]
    return device_functions()[name]


@functools.cache
def device_functions(capability=None):
    """{name: a device function}; what numba compiles of one is for one kind of device.

    Those of `scalar_math` are copies with this dict for their globals, and so call each
    other here.
    """
    from numba import cuda

    space = {"np": ModuleType("np"), "math": math}
    for function in functions.values():
        space = function.__globals__ | space
    stubs = {
        "cbrt": lambda x: cuda.cbrt(x),
        "population_count": lambda x: cuda.popc(x),
        "clz": lambda x: cuda.clz(x),
    }
    for name, f in (functions | own | stubs).items():
        copy = FunctionType(f.__code__, space, name, None, f.__closure__)
        space[name] = cuda.jit(device=True)(copy)
    space |= {"erf": math.erf, "erfc": math.erfc, "lgamma": math.lgamma}
    words = {n: getattr(math, n) for n in "exp log1p sqrt copysign isnan".split()}
    words |= {"floor": space["floor"], "trunc": space["trunc"]}
    vars(space["np"]).update(vars(np) | words)
    return space


def numba_ptx(kernel, capability):
    """The PTX that numba makes of a `CudaKernel`: arrays of one axis are its arguments.

    Raises:
      NoCudaForm: the packages are missing, or numba.cuda is its simulator here.
    """
    if version_of("numba-cuda") == "not installed" or simulated():
        why = "numba.cuda is its simulator here" if simulated() else (
            'numba.cuda compiles PTX after `pip install "minijit[numba-cuda]"`')
        raise NoCudaForm(f"{kernel.name} is a program of numba.cuda: {why}")
    from numba import cuda, types
    from numba.cuda import dispatcher

    # To libNVVM the number of a block might be negative, and so might each index.
    sure = re.sub(r"cuda\.\w+Idx\.\w", r"(\g<0> & 0x7FFFFFFF)", program_of([kernel]))
    space: dict = {}
    exec(compile(sure, f"<{kernel.name}>", "exec"), space)
    space |= device_functions(capability)
    names = (part_dtype(storage_dtype(b.dtype)).name for b in kernel.args)
    arrays = (getattr(types, n.replace("bool", "boolean"))[::1] for n in names)
    with turn:
        # Device functions ask for the device that is there.
        found = dispatcher.get_current_device
        device = SimpleNamespace(compute_capability=capability)
        dispatcher.get_current_device = lambda: device
        try:
            function = space[kernel.name].py_func
            ptx, _ = cuda.compile(
                function, types.void(*arrays), device=False, abi="numba", cc=capability,
                launch_bounds=kernel.block[0],
            )  # fmt: skip
        finally:
            dispatcher.get_current_device = found
    return ptx.replace(re.search(r"\.entry (\w+)\(", ptx)[1], kernel.name)


@functools.lru_cache(maxsize=1024)
def loaded(text, name):
    """A kernel of a program's text."""
    space: dict = {}
    exec(compile(text, f"<{name}>", "exec"), space)
    if simulated():
        # Python's own functions compute in float64, and raise.
        space["math"] = of_math
    return space[name]


def run_by_numba(kernel, *arrays):
    """Run a `CudaKernel` on NumPy arrays, as numba runs it.

    Raises:
      NoCudaForm: there is no device, and no simulator.
    """
    from numba import cuda

    if not cuda.is_available():
        raise NoCudaForm(
            f"{kernel.name} is a program of numba.cuda, and there is no device here. "
            "NUMBA_ENABLE_CUDASIM=1 in the environment has its simulator run it, slowly"
        )
    flat = [(pairs(x) if x.dtype.kind == "c" else x).reshape(-1) for x in arrays]
    # All arrays are written back, those too that are only read.
    given = [x if x.flags.writeable else x.copy() for x in flat]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        loaded(program_of([kernel]), kernel.name)[kernel.grid, kernel.block](*given)
