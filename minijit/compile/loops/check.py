"""The checker of the loop IR: what every pass has to leave in order.

    check_program(program)        # raises LoopTypeError, or returns the program
    config.update("debug_checks", True)         # from now on, does it after every pass

Checked are: that buffers have names of their own and are written before they are read,
and by nobody who reads them; that every axis is bound; that indices are as many as the
array has axes, integers, and in bounds by what is known of them; that dtypes agree.
"""

from ...trace.base.config import config
from ...trace.numpy_values import real_part
from .buffers import Buffer, whole
from .expression_text import expr_text
from .expressions import Axis, Const, Load, Op, Reduce
from .graphs import nothing, postorder
from .scalars import BOOL, INDEX, comparisons, exact, is_half
from .statements import (
    Call, Fail, For, If, Kernel, Region, Reserve, Store, Swap, While, after_pass,
    expressions, statements,
)


class LoopTypeError(TypeError):
    """A loop program is ill-formed."""


def require(condition, message, *parts):
    """Raise a `LoopTypeError` unless a condition holds."""
    if not condition:
        texts = [expr_text(p) if hasattr(p, "free") else str(p) for p in parts]
        raise LoopTypeError(message.format(*texts))


def check_program(program):
    """Raise a `LoopTypeError` unless a program is well-formed; -> the program."""
    constants = [buffer for buffer, _ in program.constants]
    known = {*program.inputs, *constants}
    donated = dict(program.donated).keys()
    writable = {*program.temps, *program.outputs, *donated}
    names = [buffer.name for buffer in known | writable]
    require(len(set(names)) == len(names), "two buffers have one name")
    twice = known & writable - donated
    require(not twice, "a result or temporary is an input or a constant")
    for buffer, value in program.constants:
        require(value.shape == buffer.shape, "{} has another shape", buffer)
        require(value.dtype == buffer.dtype, "{} has another dtype", buffer)
    for stmt in program.body:
        require(type(stmt) in checks, "{} is no kernel, no call", stmt)
        known |= checks[type(stmt)](stmt, known, writable)
    for buffer in program.outputs:
        written = buffer in known or 0 in buffer.shape
        require(written, "the result {} is never written", buffer)
    return program


def check_call(call, known, writable):
    """Check a call's views: -> the buffers it writes."""
    for view in (*call.inputs, *call.outputs):
        check_view(view)
    for view in call.inputs:
        there = view.buffer in known or 0 in view.shape
        require(there, "a call reads {} before it is written", view.buffer)
    written = {view.buffer for view in call.outputs}
    require(written <= writable, "a call writes to an input, or to nowhere")
    if call.routine == "program":
        inner = call.attrs["program"]
        check_program(inner)
        sides = (call.inputs, inner.inputs), (call.outputs, inner.outputs)
        for views, buffers in sides:
            types = [(v.shape, v.buffer.dtype, v.whole) for v in views]
            wanted = [(b.shape, b.dtype, whole(b).whole) for b in buffers]
            require(types == wanted, "the arguments do not fit {}", inner.name)
    return written


def check_view(view):
    """Raise unless all elements of a view lie in its buffer."""
    if 0 in view.shape:
        return
    reach = [s * (n - 1) for s, n in zip(view.strides, view.shape, strict=True)]
    first = view.offset + sum(r for r in reach if r < 0)
    last = view.offset + sum(r for r in reach if r > 0)
    size = view.buffer.nbytes // view.buffer.dtype.itemsize
    require(0 <= first and last < size, "a view leaves {}", view.buffer)


def check_kernel(kernel, known, writable):
    """Check a loop nest: -> the buffers it writes."""
    inside = statements(kernel.body)
    stores = [stmt for stmt in inside if isinstance(stmt, Store)]
    every = {stmt.buffer for stmt in stores}
    own = {buffer for buffer in every if buffer.space == "cache"}
    written = every - own
    outermost = [stmt for stmt in kernel.body if isinstance(stmt, For)]
    require(len(outermost) <= 1, "{} has several outermost loops", kernel.name)
    require(written <= writable, "{} writes to an input, or to nowhere", kernel.name)
    for expr in postorder(expressions(kernel.body)):
        check_expr(expr)
    check_order(kernel.body, {*known})
    check_slices(kernel.body, outermost, written - known)
    check_body(kernel.body, nothing, False)
    return written


def check_slices(body, outermost, written):
    """Check that a step of the outermost loop reads only what it writes itself.

    Args:
      written: the buffers that nobody has written before.  Of others it is known where
        they are overwritten that nobody reads them too late.
    """
    axes = [loop.axis for loop in outermost]
    loads = [e for e in postorder(expressions(body)) if isinstance(e, Load)]
    stores = [stmt for stmt in statements(body) if isinstance(stmt, Store)]
    for buffer in {load.buffer for load in loads} & written:
        found = [x.index for x in (*loads, *stores) if x.buffer is buffer]
        slices = [d for d in zip(*found, strict=True) if len({*d}) == 1]
        own = any(without_shift(d[0]) in axes for d in slices)
        own = own or [a.extent for a in axes] == [1]
        require(own, "{} is read before all of it is written", buffer)


def without_shift(index):
    """The axis of `axis + 3`; an index of another form stays as it is."""
    shifted = isinstance(index, Op) and index.name in ("add", "sub")
    return index.args[0] if shifted and isinstance(index.args[1], Const) else index


def check_region(region, known, writable):
    """Check loops and branches: -> the buffers they write."""
    taken = {c for t in region.tables if not t.given for c in t.columns}
    for tables in region.tables:
        there = tables.given or tables.buffer in known
        require(there, "{} is read before it is written", tables.buffer)
    written = check_order(region.body, known | taken)
    written |= {tables.buffer for tables in region.tables if tables.given}
    written = {buffer for buffer in written if isinstance(buffer, Buffer)}
    require(written <= writable | known, "{} writes to nowhere", region.name)
    changed = written & (known - writable)
    require(not changed, "{} writes to an input", region.name)
    for body in (region.body, *(function.body for function in region.functions)):
        for expr in postorder(expressions(body)):
            check_expr(expr, False)
        check_body(body, nothing, False, True)
    return written


def check_order(body, known):
    """Check that what statements read is written by then: -> what they write.

    Args:
      known: the buffers written before; extended.
    """
    found = set()
    for stmt in body:
        check_loads(() if isinstance(stmt, While) else stmt.uses(), known)
        written = written_by(stmt, known)
        known |= written
        found |= written
    return found


def check_loads(exprs, known):
    """Check that the buffers which expressions load from are written."""
    for expr in postorder(exprs):
        if isinstance(expr, Load):
            require(expr.buffer in known, "{} is read before it is written", expr)


def written_by(stmt, known):
    """What a statement, and those in it, write, once they are checked."""
    match stmt:
        case Store():
            first = stmt.combine is None or stmt.buffer in known
            require(first, "{} is combined with nothing", stmt.buffer)
            return {stmt.buffer}
        case Swap():
            kinds = {(b.shape, b.dtype, b.order) for b in (stmt.first, stmt.second)}
            require(len(kinds) == 1, "{} swaps with another kind", stmt.first)
            return {stmt.first, stmt.second}
        case Reserve():
            require(stmt.table.space == "table", "{} cannot grow", stmt.table)
            return {stmt.table}
        case Call():
            for view in stmt.inputs:
                there = view.buffer in known or 0 in view.shape
                require(there, "a call reads {} before it is written", view.buffer)
            written = {view.buffer for view in stmt.outputs}
            calls = stmt.routine == "function"
            return written | check_function(stmt, known) if calls else written
        case While():
            # Its condition is that of the statements before it.
            inner = check_order(stmt.test, known)
            check_loads([stmt.cond], known)
            return inner | check_order(stmt.body, known)
    return set().union(*(check_order(inner, known) for inner in stmt.bodies()))


def check_function(call, known):
    """Check the function of a call, once: -> the buffers it writes, and itself."""
    function, given = call.attrs["function"], call.attrs["given"]
    taken = {id(view) for view in call.inputs}
    pairs = list(zip(function.params, given, strict=True))
    tables = {param for param in function.params if param.space == "table"}
    changed = {given for param, given in pairs if param in tables}
    require(changed <= known, "{} is given tables without rows", function.name)
    for param, view in pairs:
        if param in tables:
            continue
        same = (param.shape, param.dtype) == (view.shape, view.buffer.dtype)
        require(same, "{} is given another kind of array", param)
    if function in known:
        return changed
    inside = tables | {param for param, view in pairs if id(view) in taken}
    written = check_order(function.body, known | inside)
    return written - set(function.params) | changed | {function}


def check_body(body, bound, guarded, placed=False):
    """Check statements inside loops over the axes `bound`.

    Args:
      guarded: whether only a run can tell that an index is in bounds.
      placed: whether `place` has made loops for totals already.
    """
    for stmt in body:
        for expr in stmt.uses():
            free = "{} uses an axis that no loop around it runs over"
            require(expr.free <= bound, free, expr)
        if isinstance(stmt, Store):
            check_index(stmt.buffer, stmt.index, not guarded)
            right = stmt.value.dtype == stmt.buffer.dtype
            require(right, "{} is stored into {}", stmt.value, stmt.buffer)
        elif isinstance(stmt, For):
            fresh = stmt.axis not in bound and (placed or stmt.axis.kind != "reduce")
            require(fresh, "a loop inside a loop over its axis")
            extent = stmt.axis.extent
            require(not isinstance(extent, int) or extent > 0, "a loop over nothing")
        elif isinstance(stmt, (If, While, Fail)):
            pred = stmt.cond if isinstance(stmt, While) else stmt.pred
            require(pred.dtype == BOOL, "{} is no condition", pred)
        axes = {stmt.axis} if isinstance(stmt, For) else nothing
        counted = isinstance(stmt, For) and isinstance(stmt.axis.extent, int)
        inside = guarded or not (counted or isinstance(stmt, (Kernel, While)))
        for inner in stmt.bodies():
            check_body(inner, bound | axes, inside, placed)


checks = {Kernel: check_kernel, Region: check_region, Call: check_call}


def check_index(buffer, index, in_bounds):
    """Raise unless an index fits a buffer, also in its values if that is asked for."""
    require(len(index) == len(buffer.shape), "{} is indexed by {}", buffer, len(index))
    for i, n in zip(index, buffer.shape, strict=True):
        require(i.dtype == INDEX, "{} is indexed by {}, no int64", buffer, i)
        if in_bounds and buffer.space != "table":
            inside = 0 <= i.bounds[0] and i.bounds[1] < n
            require(inside, "index {} in {} may be out of bounds", i, buffer)


def check_expr(expr, in_bounds=True):
    """Check one expression, whose parts are in order."""
    if isinstance(expr, Load):
        check_index(expr.buffer, expr.index, in_bounds)
    elif isinstance(expr, Reduce):
        for axis in expr.axes:
            kind = isinstance(axis, Axis) and axis.kind in ("reduce", "scan")
            require(kind, "{} reduces over no axis of that kind", expr)
        outer = [axis for axis in expr.axes if axis.kind == "scan"]
        require(len(outer) in (0, len(expr.axes)), "{} mixes kinds of axes", expr)
    elif isinstance(expr, Op):
        check_op(expr)
    else:
        require(isinstance(expr, (Const, Axis)), "{} is no expression of the IR", expr)


def check_op(expr):
    """Check the dtypes of an operation."""
    dtypes = [arg.dtype for arg in expr.args]
    if expr.name == "item":
        reduce, which = expr.args
        require(isinstance(reduce, Reduce), "item of {}", reduce)
        dtypes = [reduce.bodies[which.value].dtype]
    elif expr.name == "select":
        require(dtypes.pop(0) == BOOL, "{} selects by no condition", expr)
    elif expr.name in ("convert", "bitcast"):
        same = expr.name == "convert" or dtypes[0].itemsize == expr.dtype.itemsize
        require(same, "{} changes the size", expr)
        return
    result = BOOL if expr.name in comparisons else expr.dtype
    operands = dtypes if expr.name in comparisons else [*dtypes, result]
    if expr.name in ("real", "imag", "complex", "abs"):
        operands = [real_part(dtype) for dtype in operands]
    require(len(set(operands)) == 1, "{} mixes dtypes", expr)
    free = expr.name in (*exact, "select", "item", "nextafter")
    require(free or not is_half(operands[0]), "{} computes in 16 bits", expr)


def check_after_pass(program):
    """Check a program if the flag says so."""
    if config.debug_checks:
        check_program(program)


after_pass.append(check_after_pass)
