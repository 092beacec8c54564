"""Where a traced value comes from, as a sentence for error messages.

    It was traced as part of f, defined at <notebook cell>:1 (f), for jit, and depends
    on the argument x.
    It was computed at <notebook cell>:2 (f): y = x * 2.0
"""


def origin(tracer):
    """What is being traced, which arguments a tracer needs, and the line it is from."""
    trace = tracer.owner
    info = trace.info
    where = f", defined at {info.source}," if info.source else ""
    text = f"\n  It was traced as part of {info.name}{where} for {info.kind}"
    names = arguments_behind(trace, tracer.variable)
    text += f", and depends on the argument {', '.join(names)}." if names else "."
    if tracer.source:
        text += f"\n  It was computed at {tracer.source}: {tracer.source.text()}"
    return text


def arguments_behind(trace, var):
    """The names of the arguments of a trace that its variable is computed from."""
    needed = {var}
    for eqn in reversed(trace.eqns):
        if not needed.isdisjoint(eqn.outvars):
            needed.update(eqn.invars)
    names = zip(trace.invars, trace.info.arg_names, strict=False)
    return [name for v, name in names if v in needed]
