"""numba's own route to a GPU: what is printed for kernels *is* a program of numba.cuda.

    print(program_of(kernels))          # a file: imports, constants, kernels
    numba_ptx(kernel, (9, 0))           # by numba and NVIDIA's libNVVM, without a GPU
    run_by_numba(kernel, x, y)          # on a device, or in numba's simulator

The simulator is there where `NUMBA_ENABLE_CUDASIM=1` is set before numba is imported.
PTX wants the packages of `minijit[numba-cuda]`.  numba copies NumPy's arrays to the
device and back: `backend="cuda"` launches our own PTX, and keeps them there.
"""

import ast
import functools
import math
import re
import threading
import warnings
from types import FunctionType, ModuleType, SimpleNamespace

import numpy as np

from ...compile.loops.scalars import storage_dtype
from ...trace.base.locks import Lock
from ...trace.numpy_values import real_part
from ..python.scalar_functions import functions
from ..python.source import import_text
from ..report.environment import version_of
from ..scalars.numba_scalars import by_type, instructions as rows, intrinsic, overloaded
from ..values import pairs
from .emitter import words
from .functions import instructions, own, swap_in
from .grid_memory import NoCudaForm
from .lockstep import of_math, vector_functions

HEAD = "from __future__ import annotations\n\nimport math\n\nimport numpy as np\n"
turn = Lock(threading.RLock())


def simulated():
    """Whether `numba.cuda` is its simulator in this process."""
    from numba import config

    return bool(config.ENABLE_CUDASIM)


def simulated_swap(array, index, expected, new):
    """`compare_and_swap` of a thread of the simulator."""
    from numba.cuda.simulator.kernelapi import FakeCUDAAtomic

    return FakeCUDAAtomic().cas(array.view(expected.dtype), index, expected, new)


# Hashable, for what is printed with them is kept.
device_words = tuple(words.items())
simulator = vector_functions | functions | {"compare_and_swap": simulated_swap}
known = (simulator.keys() | own.keys()) - {"abs"}
# What numba writes for a CPU, it writes for a device.
as_on_cpu = {"like", "to_bool"} | {
    name for name in rows
    if name.startswith(("bits_", "machine_")) or name.endswith("_wrapping")
}  # fmt: skip


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
        return simulator[name]
    return device_functions()[name]


@functools.cache
def device_functions(capability=None):
    """{name: a device function}; what numba compiles of one is for one kind of device.

    Those of `scalar_math` are copies with this dict for their globals, and so call each
    other here.
    """
    from numba import cuda
    from numba.cuda.extending import intrinsic as make, overload

    space = {"np": ModuleType("np"), "math": math}
    for function in functions.values():
        space = function.__globals__ | space
    half, rounded = cuda.libdevice.half2float, cuda.libdevice.float2half_rn
    stubs = {
        "cbrt": lambda x: cuda.cbrt(x),
        "population_count": lambda x: cuda.popc(x),
        "clz": lambda x: cuda.clz(x),
        "floor": lambda x: math.floor(x),
        "ceil": lambda x: math.ceil(x),
        "trunc": lambda x: math.trunc(x),
        "float16_value": lambda x: half(np.int16(x)),
        "float16_bits": lambda x: np.uint16(rounded(x)),
        "round_float16": lambda x: half(rounded(x)),
    }
    for name, f in (functions | own | stubs).items():
        if name in by_type and name not in stubs:
            space[name] = overloaded(overload, name, space, device_words)
            continue
        copy = FunctionType(f.__code__, space, name, None, f.__closure__)
        space[name] = cuda.jit(device=True)(copy)
    space |= {name: intrinsic(name, make) for name in as_on_cpu}
    # Above, others call what these are for all types.
    for name, row in instructions.items():
        space[name] = instruction_or(row, space.get(name))
    space |= {"erf": math.erf, "erfc": math.erfc, "lgamma": math.lgamma}
    space["compare_and_swap"] = swap_in_memory()
    words = {n: getattr(math, n) for n in "exp log1p sqrt copysign isnan".split()}
    words |= {"floor": space["floor"], "trunc": space["trunc"]}
    vars(space["np"]).update(vars(np) | words)
    return space


def instruction(word):
    """One instruction of PTX, for a type of numbers."""
    from llvmlite import ir
    from numba.cuda.extending import intrinsic

    def write(context, builder, sig, args):
        kind, count = args[0].type, len(args) + 1
        text = f"{word} {', '.join(f'${i}' for i in range(count))};"
        letters = "=" + ",".join(("d" if "64" in word else "f") * count)
        function = ir.FunctionType(kind, [x.type for x in args])
        return builder.asm(function, text, letters, args, False)

    unary, binary = (
        lambda context, x: (x(x), write), lambda context, x, y: (x(x, x), write)
    )  # fmt: skip
    return intrinsic(unary if word.startswith("cvt") else binary)


def swap_in_memory():
    """`compare_and_swap` for numba: of the word of 32 bits that an element is in."""
    from llvmlite.ir import Constant, IntType
    from numba.cuda.cgutils import get_item_pointer
    from numba.cuda.extending import intrinsic

    def write(context, builder, sig, args):
        kind, bits = sig.args[0], sig.return_type.bitwidth
        if bits < 32:
            return context.compile_internal(builder, swap_in(swap), sig, args)
        array, long = context.make_array(kind)(context, builder, args[0]), IntType(64)
        place = get_item_pointer(context, builder, kind, array, args[1:2])
        place = builder.and_(builder.ptrtoint(place, long), Constant(long, -4))
        place = builder.inttoptr(place, args[2].type.as_pointer())
        return builder.extract_value(builder.cmpxchg(place, *args[2:], "monotonic"), 0)

    swap = intrinsic(lambda context, a, i, x, y: (x(a, i, x, y), write))
    return swap


def instruction_or(words, other):
    """A function that is an instruction for some types, and `other` for the rest."""
    from numba.cuda.extending import overload

    def stub(*args):
        pass

    @overload(stub)
    def chosen(*args):
        found = made.get(str(args[0]), other)
        return lambda *args: found(*args)

    made = {kind: instruction(word) for kind, word in words.items()}
    return stub


class UnsignedIndices(ast.NodeTransformer):
    """Has numba know what it cannot: no index is negative, and 32 bits are enough.

    To numba an index may count from the end, and `range` counts its steps before the
    first one.  Addresses that go up in a loop have 64 bits, and so no steps to convert.
    """

    def __init__(self, bits):
        self.bits, self.loops = bits, 0

    def visit_Assign(self, node):
        """The numbers of a block, `b0`, and of a thread, `t0` and `i0`."""
        self.generic_visit(node)
        if not self.loops and re.fullmatch(r"[bti]\d+", ast.unparse(node.targets[0])):
            text = f"np.int64(np.uint{self.bits}({ast.unparse(node.value)}))"
            node.value = ast.parse(text, mode="eval").body
        return node

    def visit_Subscript(self, node):
        self.generic_visit(node)
        text = f"np.uint{64 if self.loops else self.bits}({ast.unparse(node.slice)})"
        node.slice = ast.parse(text, mode="eval").body
        return node

    def visit_While(self, node):
        self.loops += 1
        self.generic_visit(node)
        self.loops -= 1
        return node

    def visit_For(self, node):
        self.visit_While(node)
        i, args = node.target.id, [ast.unparse(x) for x in node.iter.args]
        first, end, step = args if len(args) == 3 else ("0", *args, "1")
        text = f"{i}, {i}_ = {first}, {end}\nwhile {i} < {i}_:\n    {i} = {i} + {step}"
        *before, loop = ast.parse(text).body
        loop.body[:0] = node.body
        return [*before, loop]


def facts_of(kernel):
    """What `space_of` is told of a `CudaKernel`."""
    threads = math.prod((*kernel.grid, *kernel.block))
    most = max(threads, *(math.prod(b.shape) for b in kernel.args))
    return program_of([kernel]), kernel.name, 32 if most < 2**31 else 64


def space_of(text, name, bits):
    """The names that the text of a program defines."""
    tree, space = ast.parse(text), {}
    if not simulated():
        tree = ast.fix_missing_locations(UnsignedIndices(bits).visit(tree))
    exec(compile(tree, f"<{name}>", "exec"), space)
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

    space = space_of(*facts_of(kernel))
    space |= device_functions(capability)
    names = (real_part(storage_dtype(b.dtype)).name for b in kernel.args)
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
def loaded(text, name, bits):
    """What launches a kernel."""
    space = space_of(text, name, bits)
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
        loaded(*facts_of(kernel))[kernel.grid, kernel.block](*given)
