"""What regions call: products of matrices, routines of LAPACK, and Python, for signals.

    call void @kernel_5b0c(ptr @once, ptr %a, ptr %b, ptr %out, ptr @numbers_77e1)

Products of a dtype are calls of one of three functions, which `product_tiles` writes.
Each is compiled once a process, and found by its name.  Its sizes and strides are
numbers of the module that calls it.
"""

import functools
import math

from ...compile.settings import config
from ..cache_folder import short_name
from ..lapack import address
from .engine import share
from .functions import ATTRIBUTES
from .product_tiles import FIELDS, writer_for
from .target import binding
from .types import memory_type

# ---- products

# Rows of a part, at most: what is read of them stays in the second cache.  A number
# that belongs to the tiles of `product_tiles`, and no setting: no result depends on it.
MOST_ROWS = 256


def tiles(call):
    """The key of the function for a product: `kernel_` and the key are its name."""
    return compiled(writer_for(call), call.inputs[0].buffer.dtype)


@functools.cache
def compiled(writer, dtype):
    """The key of the function that a writer of `product_tiles` writes for a dtype."""
    writer = writer(memory_type(dtype))
    text = writer.function()
    key = short_name(text)
    name = f"kernel_{key}"
    module = "\n".join([*writer.declared, text.replace("NAME", name), ATTRIBUTES])
    share(name, module, "vectors")
    return key


def declaration(key):
    return f"declare void @kernel_{key}(ptr, ptr, ptr, ptr, ptr)"


def blocks_of_rows(m, n, k):
    """How many rows, and how many columns, one part of a product has."""
    return min(m, MOST_ROWS), n


def plan_of(call, blocks_of=blocks_of_rows, starts=(0, 0, 0)):
    """(how many parts, the numbers of a `Call` of `matmul`: see `FIELDS`).

    Args:
      blocks_of: function of the sizes of a product: the rows and columns of a part.
      starts: where in both factors and in the result the first matrices begin.
    """
    a, b = call.inputs
    out, = call.outputs
    (m, k), n, batch = a.shape[-2:], b.shape[-1], math.prod(a.shape[:-2])
    m_block, n_block = blocks_of(m, n, k)
    row_blocks, column_blocks = -(-m // m_block), -(-n // n_block)
    axes = list(
        zip(a.shape[:-2], *(view.strides[:-2] for view in (a, b, out)), strict=True)
    )
    blocks = row_blocks * column_blocks
    numbers = [m, n, k, *a.strides[-2:], *b.strides[-2:], out.strides[-2], *starts]
    numbers += [m_block, n_block, row_blocks, blocks, len(axes)]
    assert len(numbers) == len(FIELDS)
    return batch * blocks, numbers + [x for line in reversed(axes) for x in line]


@functools.cache
def lapack_symbol(name):
    """The name by which LLVM finds a routine of the LAPACK of SciPy."""
    binding().add_symbol(f"minijit_{name}", address(name))
    return f"minijit_{name}"


# ---- signals, and exceptions


LOOK = """
define i1 @minijit_look() {
  %lock = call i32 @PyGILState_Ensure()
  %found = call i32 @PyErr_CheckSignals()
  call void @PyGILState_Release(i32 %lock)
  %raised = icmp ne i32 %found, 0
  ret i1 %raised
}
"""

lock_declarations = (
    "declare i32 @PyGILState_Ensure()",
    "declare void @PyGILState_Release(i32)",
)

look_declarations = (
    "declare i1 @minijit_look() cold memory(inaccessiblemem: readwrite)",
    '!0 = !{!"branch_weights", i32 1, i32 10000}',
)


def share_look():
    """Compile what looks for signals, once for the kernels of a process."""
    given = "declare i32 @PyErr_CheckSignals()", *lock_declarations, LOOK
    share("minijit_look", "\n".join(given))



# Data of Python's may be too far away for machine code, so that it asks for it.
FAIL = """
@overflow = internal constant [14 x i8] c"OverflowError\\00"
define internal void @fail(ptr %message) cold noinline {
  %lock = call i32 @PyGILState_Ensure()
  %builtins = call ptr @PyEval_GetBuiltins()
  %kind = call ptr @PyDict_GetItemString(ptr %builtins, ptr @overflow)
  call void @PyErr_SetString(ptr %kind, ptr %message)
  call void @PyGILState_Release(i32 %lock)
  ret void
}
"""

fail_declarations = (
    "declare ptr @PyEval_GetBuiltins()",
    "declare ptr @PyDict_GetItemString(ptr, ptr)",
    "declare void @PyErr_SetString(ptr, ptr)",
    *lock_declarations,
    FAIL,
)


# ---- what a region says


class Calls:
    """Calls of what is compiled already, and of Python: methods for `RegionWriter`.

    Attributes:
      ticks: the slot that counts the work since it last looked for signals, or None.
      leaves: whether the function may end before its end, with an exception.
    """

    ticks: str | None
    leaves: bool

    def product(self, call, offsets):
        """A product of matrices."""
        out, a, b = self.starts((*call.outputs, *call.inputs), offsets)
        key = tiles(call)
        self.declared[declaration(key)] = None
        count, numbers = plan_of(call)
        given = self.numbers([0, count]), a, b, out, self.numbers(numbers)
        self.call_routine(f"kernel_{key}", given)

    def numbers(self, values):
        """The name of some numbers, which stand in the module."""
        typed = ", ".join(f"i64 {x}" for x in values)
        name = f"@numbers_{short_name(typed)}"
        self.declared[f"{name} = internal constant [{len(values)} x i64] [{typed}]"] = (
            None
        )
        return name

    def lapack(self, call, offsets):
        """A routine of LAPACK: of each argument it is given the address."""
        given = self.starts(call.attrs["given"], offsets)
        word = lapack_symbol(call.attrs["name"])
        self.declared[f"declare void @{word}({', '.join(['ptr'] * len(given))})"] = None
        self.call_routine(word, given)

    def starts(self, views, offsets):
        """The addresses of the first elements of views."""
        pairs = zip(views, offsets, strict=True)
        return [
            self.do(
                f"getelementptr {memory_type(view.buffer.dtype)}, "
                f"ptr {self.pointer(view.buffer)}, i64 {i}"
            )
            for view, i in pairs
        ]

    def call_routine(self, word, given):
        self.line(f"call void @{word}({', '.join(f'ptr {x}' for x in given)})")

    def counter(self):
        """The slot that counts the work."""
        if self.ticks is None:
            self.ticks = self.slot("i64")
            self.entry.append(f"  store i64 0, ptr {self.ticks}")
        return self.ticks

    def look(self, work):
        """Count the work; if it is time, run the handlers of signals."""
        ticks = self.counter()
        k, before = self.fresh(), self.do(f"load i64, ptr {ticks}")
        done = self.do(f"add i64 {before}, {work}")
        self.line(f"store i64 {done}, ptr {ticks}")
        due = self.do(f"icmp sgt i64 {done}, {config.fusion.between_looks}")
        self.line(f"br i1 {due}, label %look{k}, label %on{k}, !prof !0")
        self.begin(f"look{k}")
        self.line(f"store i64 0, ptr {ticks}")
        self.stop_if(self.do("call i1 @minijit_look()"), k)
        self.declared |= dict.fromkeys(look_declarations)
        share_look()

    def stop_if(self, condition, k):
        """Leave with the exception that there is then; or go on, in block k."""
        self.line(f"br i1 {condition}, label %stop, label %on{k}")
        self.begin(f"on{k}")
        self.leaves = True

    def fail(self, condition, message):
        """Leave with an exception, which Python then has."""
        k, data = self.fresh(), message.encode() + b"\0"
        name = f"@message_{short_name(data)}"
        text = "".join(f"\\{byte:02x}" for byte in data)
        value = f'{name} = internal constant [{len(data)} x i8] c"{text}"'
        self.declared |= dict.fromkeys((value, *fail_declarations))
        self.line(f"br i1 {condition}, label %fail{k}, label %on{k}")
        self.begin(f"fail{k}")
        self.line(f"call void @fail(ptr {name})")
        self.leaves = True
        self.line("br label %stop")
        self.begin(f"on{k}")
