"""What an array with numbers in it can do for Python, NumPy and other libraries.

    print(x), f"{x:.2f}", float(x), x.tolist()      # as NumPy's arrays do
    np.asarray(x), torch.from_dlpack(x)             # handed over without a copy
    pickle.dumps(x), copy.deepcopy(x)               # saved; copied
    x.delete()                                      # what donating an array does

`ArrayImpl` in `trace/array.py` adds the numbers: its attributes `aval` and `_value`.
"""

from typing import Any

import numpy as np

from .base.errors import HERE, ambiguous_truth
from .core import Array


class ConcreteArray(Array):
    """The methods of concrete arrays; `self.numpy()` is the value."""

    __slots__ = ()

    def __repr__(self):
        if self.is_deleted():
            return f"<deleted Array of type {self.aval}>"
        weak = ", weak_type=True" if self.aval.weak_type else ""
        end = f", dtype={self.dtype.name}{weak})"
        body = np.array2string(self.numpy(), separator=", ", prefix="Array(")
        if self.size == 0:
            body = f"[], shape={self.shape}"
        return f"Array({body}{end}"

    def __dir__(self):
        names = Array.__dir__(self)
        return [n for n in names if not n.startswith("_") or n.startswith("__")]

    def __str__(self):
        return str(self.numpy())

    def __format__(self, spec):
        return format(self.numpy()[()] if self.ndim == 0 else self.numpy(), spec)

    def __array__(self, dtype=None, copy=None):
        value = self.numpy()
        if dtype is not None and np.dtype(dtype) != value.dtype:
            if copy is False:
                raise ValueError(f"a copy is needed to change {value.dtype} to {dtype}")
            return value.astype(dtype)
        # A view cannot be made writable; the array that owns the memory could.
        return value.copy() if copy else value.view()

    def __buffer__(self, flags):
        """From Python 3.12 on: what `memoryview`, `bytes` and `np.frombuffer` read."""
        return self.__array__().__buffer__(flags)

    def __dlpack__(self, *, max_version=None, **options):
        value = self.numpy()
        # Only DLPack 1.0 can say "read only"; an older consumer gets its own copy.
        if max_version is None or max_version < (1, 0):
            return value.copy().__dlpack__(**options)
        return value.__dlpack__(max_version=max_version, **options)

    def __dlpack_device__(self):
        return self.numpy().__dlpack_device__()

    def __bool__(self):
        value = self.numpy()
        if value.size != 1:
            raise ambiguous_truth(self)
        return bool(value)

    def __int__(self):
        return int(self.only_number())

    def __float__(self):
        return float(self.only_number())

    def __complex__(self):
        return complex(self.only_number())

    def only_number(self):
        """The number that an array without axes is."""
        if self.ndim:
            raise TypeError(
                f"only an array without axes is a Python number, and this one has "
                f"shape {self.shape}: x.item() is its only element, if it has one{HERE}"
            )
        return self.numpy().item()

    def __index__(self):
        return self.numpy().__index__()

    def item(self, *args):
        """The value as a Python scalar."""
        return self.numpy().item(*args)

    def tolist(self):
        """The value as nested Python lists."""
        return self.numpy().tolist()

    def tobytes(self, order="C"):
        """The value's bytes, row by row."""
        return self.numpy().tobytes(order)

    def __reduce__(self):
        return type(self), (np.array(self.numpy()), self.aval)

    def block_until_ready(self):
        """Itself: on the CPU a result is there when the call returns."""
        if self.is_deleted():
            raise self._deleted()
        return self

    def renewed(self):
        """The same array as an object of its own, which can be deleted on its own."""
        make: Any = type(self)
        return make(self.numpy(), self.aval)

    def is_deleted(self):
        """Whether the array was donated or deleted."""
        return self._value is None

    def delete(self):
        """Let the array's memory go; using the array afterwards is an error."""
        self._value = None

    def _deleted(self):
        """The error for using an array after that."""
        return RuntimeError(
            f"Array has been deleted with shape={self.aval}: it was donated to a "
            "jitted function (donate_argnums) or delete() was called. Keep a copy, or "
            "do not donate it."
        )


def is_array_like(x):
    """Whether `x` may be an argument of a primitive."""
    return isinstance(x, (Array, np.ndarray, np.generic, bool, int, float, complex))
