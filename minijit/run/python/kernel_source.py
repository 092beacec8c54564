"""What is printed for a kernel, and what stands above it."""

import os
import textwrap
from dataclasses import dataclass, field

from ...compile.loops.scalars import storage_dtype, wide_dtype
from .source_text import WIDTH


@dataclass(frozen=True)
class KernelSource:
    """One printed kernel.

    Attributes:
      name: of the function.
      text: its source, `def` line and all, without the comment above.
      comment: which lines of the user's program it computes.
      buffers: the `Buffer`s to call it with.
      locals: {variable: dtype name}.
      constants: the names of constants it uses.
      numbers: the `Const`s to call it with, before the buffers.
    """

    name: str
    text: str
    comment: str
    buffers: tuple
    locals: dict = field(repr=False)
    constants: tuple = ()
    numbers: tuple = ()

    @property
    def body(self):
        """The text without the name: kernels with the same body are the same."""
        return self.text.partition("(")[2]

    @property
    def signature(self):
        """(dtype name, number of axes) of each argument; of a number (dtype name,)."""
        arrays = ((storage_dtype(b.dtype).name, len(b.shape)) for b in self.buffers)
        return (*((wide_dtype(c.dtype).name,) for c in self.numbers), *arrays)


def param_text(name, buffer):
    """`x0: float32[3, 4]`: a parameter and what array it is; `()` for no axes."""
    shape = (":", *buffer.shape[1:]) if buffer.space == "table" else buffer.shape
    text = ", ".join(map(str, shape)) or "()"
    return f"{name}: {storage_dtype(buffer.dtype).name}[{text}]"


def source_comment(kernel):
    """The user's lines and the primitives that a kernel computes, as a comment."""
    lines = [
        f"# {os.path.basename(str(source))}: {source.text()}".rstrip(": ")[:WIDTH]
        for source in kernel.sources[:8]
    ]
    if len(kernel.sources) > 8:
        lines.append(f"# and {len(kernel.sources) - 8} more lines")
    names = dict.fromkeys(eqn.primitive.name for eqn in kernel.eqns)
    primitives = textwrap.wrap(", ".join(names), WIDTH - 2)[:4]
    return "\n".join([*lines, *("# " + line for line in primitives)])


def heading(name, numbers, buffers):
    """The `def` line, which says what each number and each array is."""
    params = [f"{n.name}: {wide_dtype(n.dtype).name}" for n in numbers.values()]
    params += [param_text(name, buffer) for buffer, name in buffers.items()]
    return heading_lines(name, params)


def heading_lines(name, params):
    """A `def` line, or several."""
    line = f"def {name}({', '.join(params)}):"
    if len(line) <= WIDTH:
        return [line]
    return [f"def {name}(", *(f"    {param}," for param in params), "):"]
