"""Operations outside of `jit`: where an argument is on a GPU, so is the result.

    x = device_put(numpy_array, "gpu")
    y = sin(x) + 1                      # two programs of one operation, two launches
    y.device                            # CudaDevice(id=0)

Each is a program that is compiled once for its parameters and the types of its
arguments.  What has no form for a GPU is computed by the CPU, on copies.
"""


from ...trace.api.devices import platform_of
from ...trace.array import aval_of, shape_rules
from ...trace.base.config import config
from ...trace.core import elsewhere
from ...trace.jaxprs.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Var, effectful, subjaxprs
from ...trace.jaxprs.memory import memoised
from ...trace.jit.captures import scalar_key
from ...trace.jit.jit import compiled_call, jit_p
from ...trace.jit.stores import Recent
from .arrays import CudaArray, gpus as gpus
from .executable import compile_cuda as compile_cuda

# {(primitive, types of the arguments, parameters): its closed jaxpr}
operations = Recent(limit=4096)


@memoised
def operations_with(jaxpr):
    """The table for loops and branches: it lives as long as the jaxpr within them."""
    return Recent(limit=64)


def operation(primitive, avals, params):
    """The closed jaxpr of one equation, the same one each time."""
    values = ((name, scalar_key(x) or x) for name, x in sorted(params.items()))
    key = primitive, avals, tuple(values)
    eqn = Eqn(primitive, tuple(map(Var, avals)), (), params)
    inner = subjaxprs(eqn)
    table = operations_with(inner[0]) if inner else operations
    closed = table.find(key)
    if closed is None:
        results = shape_rules[primitive](*avals, **params)
        results = results if primitive.multiple_results else [results]
        eqn = eqn.replace(outvars=tuple(map(Var, results)))
        closed = ClosedJaxpr(Jaxpr((), eqn.invars, (eqn,), eqn.outvars), ())
        table.store(key, closed)
    return closed


def evaluate(primitive, *args, **params):
    """The results of a primitive, on the GPU."""
    closed = operation(primitive, tuple(map(aval_of, args)), params)
    # What the compiler computes of constants is for the CPU.
    with config.override("default_device", None):
        run = compiled_call(closed, primitive.name, "cuda")
    results = run(*args)
    return results if primitive.multiple_results else results[0]


def on_gpu(primitive, args, params):
    """The results of a primitive, if an argument or the default device is a GPU.

    A jitted function sees to it by itself, and so do the operations of a function that
    has a rule of its own.  What has effects has them here, as Python functions do.
    """
    # The usual answer comes first: every operation outside of jit asks.
    if CudaArray not in map(type, args) and not config.default_device:
        return None
    stays = primitive is jit_p or primitive in effectful
    if stays or platform_of(args) != "gpu" or any(map(is_function, params.values())):
        return None
    results = evaluate(primitive, *args, **params)
    return results if primitive.multiple_results else [results]


def is_function(x):
    """Whether a parameter is a function of the user's, which no table should keep."""
    return callable(x) and not isinstance(x, type)


elsewhere.append(on_gpu)
