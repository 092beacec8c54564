"""Signals in the middle of a native loop: Ctrl-C, and whatever else has a handler.

    n0 += 12                                    # about how much a step computes
    if n0 > 67108864:                           # now and then:
        n0 = 0
        if interrupted(stop):                   # run the handlers of pending signals
            return

Python runs the handler of a signal when it is back in Python, and a native loop may be
minutes away from that.  So loops look: after so much work `interrupted` takes Python's
lock and has it run what is pending.  If a handler raises, the exception waits in `stop`
while the loop returns as at its end, by which its memory is given back; then it is
raised.  If not, the loop goes on.
"""

import ctypes

from ..scalars.numba_scalars import instructions
from ..scalars.scalar_math import functions


def interrupted(stop):
    """Whether the handler of a signal raised; if so, `stop` holds the exception.

    Args:
      stop: int64[3], for the pointers to its type, the exception and its traceback.
    """
    return False  # Python looks for signals by itself


def emit_interrupted(context, builder, signature, values):
    """A call of `look_for_signals`, which each module of LLVM code has once."""
    from llvmlite import ir

    i8, number = ir.IntType(8).as_pointer(), ir.IntType(32)
    array = context.make_array(signature.args[0])(context, builder, values[0])
    held = builder.bitcast(array.data, i8.as_pointer())
    name = "minijit_look_for_signals"
    look = builder.module.globals.get(name)
    if look is None:
        kind = ir.FunctionType(ir.IntType(1), [held.type])
        look = ir.Function(builder.module, kind, name)
        look.linkage = "internal"
        # It is rare, and what a loop keeps in registers may stay there.
        for attribute in ("cold", "noinline", "inaccessiblemem_or_argmemonly"):
            look.attributes.add(attribute)
        define_look(look, number)
    return builder.call(look, [held])


def define_look(look, number):
    """With Python's lock: run the handlers, and take what they raised."""
    from llvmlite import ir
    from numba.core import cgutils

    builder, void = ir.IRBuilder(look.append_basic_block()), ir.VoidType()

    def call(name, result, *args):
        kind = ir.FunctionType(result, [x.type for x in args])
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        return builder.call(function, args)

    lock = call("PyGILState_Ensure", number)
    raised = builder.icmp_signed("!=", call("PyErr_CheckSignals", number), number(0))
    with builder.if_then(raised):
        places = [builder.gep(look.args[0], [number(i)]) for i in range(3)]
        call("PyErr_Fetch", void, *places)
    call("PyGILState_Release", void, lock)
    builder.ret(raised)


functions |= {"interrupted": interrupted}
instructions |= {"interrupted": ("boolean", emit_interrupted)}


def raise_held(stop):
    """Raise the exception that `stop` holds, if it holds one."""
    if stop[0]:
        # It gives the exception to Python, which raises it when the call returns.
        ctypes.pythonapi.PyErr_Restore(*map(ctypes.c_void_p, stop.tolist()))
