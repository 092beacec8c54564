"""Scalar arithmetic for numba, which does not know what JAX means by a sum.

numba compiles most functions of `scalar_math` as they stand.  A few have a second body
here, LLVM instructions: where Python has no word for what the machine can do in one
step, such as "add, in any order".  Importing this module does not import numba.
"""

import functools
import inspect
from types import FunctionType

import numpy as np

from .scalar_math import functions, numbers

# name -> (result, emit): the type of the result (a name, or a function of the argument
# types), and a function in numba's form that appends LLVM instructions and returns the
# value.
instructions = {}
# name -> function of the dtypes of arguments: -> a Python function for these.
by_type = {}


def first(x, *others):
    """The type of the first argument."""
    return x


def call_llvm(builder, name, overloads, result, *values):
    """Call an intrinsic function of LLVM, such as llvm.ctpop, by name."""
    from llvmlite import ir

    signature = ir.FunctionType(result, [v.type for v in values])
    function = builder.module.declare_intrinsic(name, overloads, signature)
    return builder.call(function, values)


def is_float(type):
    """Whether a numba type is a real floating one."""
    return type.__class__.__name__ == "Float"


def emitted(method, **flags):
    """One instruction: of integers it wraps around."""
    return lambda context, builder, signature, values: (
        getattr(builder, method)(*values, **flags)
    )


def extreme(name, comparison):
    """llvm.maximum or llvm.minimum; for integers a comparison and a select."""

    def emit(context, builder, signature, values):
        x, y = values
        if is_float(signature.return_type):
            return call_llvm(builder, name, [x.type], x.type, x, y)
        signed = getattr(signature.return_type, "signed", False)
        compare = builder.icmp_signed if signed else builder.icmp_unsigned
        return builder.select(compare(comparison, x, y), x, y)

    return emit


def division(word):
    """An integer division, which depends on the sign."""

    def emit(context, builder, signature, values):
        letter = "s" if signature.return_type.signed else "u"
        return getattr(builder, letter + word)(*values)

    return emit


# An operation of floats may be regrouped with its like, and nothing else.
regrouped = dict(flags=("reassoc",))
instructions |= {
    "add_wrapping": (first, emitted("add")),
    "subtract_wrapping": (first, emitted("sub")),
    "multiply_wrapping": (first, emitted("mul")),
    "machine_div": (first, division("div")),
    "machine_rem": (first, division("rem")),
    "add_any_order": (first, emitted("fadd", **regrouped)),
    "multiply_any_order": (first, emitted("fmul", **regrouped)),
    "maximum": (first, extreme("llvm.maximum", ">")),
    "minimum": (first, extreme("llvm.minimum", "<")),
}


def emit_convert(context, builder, signature, values):
    """A conversion, which from float to integer saturates (llvm.fptosi.sat)."""
    (x,), (source,), target = values, signature.args, signature.return_type
    if not is_float(source) or target.__class__.__name__ != "Integer":
        return context.cast(builder, x, source, target)
    kind = "llvm.fptosi.sat" if target.signed else "llvm.fptoui.sat"
    to = context.get_value_type(target)
    return call_llvm(builder, kind, [to, x.type], to, x)


def emit_like(context, builder, signature, values):
    """The first argument, converted to the type of the second."""
    return context.cast(builder, values[0], signature.args[0], signature.args[1])


instructions |= {
    "like": (lambda value, x: x, emit_like),
    "to_bool": ("boolean", emit_convert),
    **{f"to_{name}": (name, emit_convert) for name in numbers},
}


def intrinsic(name, make):
    """The numba function for a row of `instructions`, by numba's own `intrinsic`."""
    from numba import types

    result, emit = instructions[name]

    def typed(*args):
        chosen = getattr(types, result) if isinstance(result, str) else result(*args)
        return chosen(*args), emit

    # numba reads off the function's own parameters how many arguments there are.
    if len(inspect.signature(functions[name]).parameters) == 1:
        return make(lambda typing_context, x: typed(x))
    return make(lambda typing_context, x, y: typed(x, y))


def overloaded(overload, name, namespace, *more):
    """What stands for a row of `by_type`: a function for each kind of arguments."""
    from numba.core.types import unliteral
    from numba.np.numpy_support import as_dtype

    def stub(*args):
        pass

    @overload(stub, strict=False)
    def chosen(*args):
        function = by_type[name](tuple(as_dtype(unliteral(x)) for x in args), *more)
        return FunctionType(function.__code__, function.__globals__ | namespace, name)

    return stub


@functools.cache
def native_functions():
    """{name: what numba is to compile for it}, for every row of `functions`.

    Each Python function is copied, with this dict for its globals: so the functions
    that it calls are the native ones too.
    """
    from numba.extending import intrinsic as make, overload, register_jitable

    namespace = {"np": np}
    for function in functions.values():
        namespace |= function.__globals__
    for name, function in functions.items():
        if name in instructions:
            namespace[name] = intrinsic(name, make)
        elif name in by_type:
            namespace[name] = overloaded(overload, name, namespace)
        else:
            copy = FunctionType(function.__code__, namespace, name)
            namespace[name] = register_jitable(copy)
    return namespace
