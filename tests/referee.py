"""jax as the referee of many functions at once.

    want = together({"sin": (jax.numpy.sin, x), "gelu": (jax.nn.gelu, x)})
    want["sin"]

XLA takes longer for fifty small programs than for one of fifty parts, and its optimizer
longer than such programs run.
"""

quick = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def together(calls):
    """{name: (function, *arguments)} -> {name: what jax says}: one compiled program."""
    import jax

    functions = {name: function for name, (function, *_) in calls.items()}

    def program(arguments):
        return {name: functions[name](*args) for name, args in arguments.items()}

    arguments = {name: args for name, (_, *args) in calls.items()}
    return jax.jit(program, compiler_options=quick)(arguments)
