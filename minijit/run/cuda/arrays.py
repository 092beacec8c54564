"""Arrays on a GPU: their memory comes from a pool, and is copied only when asked for.

    x = device_put(numpy_array, devices("cuda")[0])
    y = jit(f)(x)                       # it runs where its arguments are
    y.device                            # CudaDevice(id=0)
    np.asarray(y)                       # copied to the CPU, once
    cupy.asarray(y), torch.from_dlpack(y)           # not copied

Memory goes back to the pool when its array, and all others that show the same memory,
are gone.  The device may still be using it then; whoever gets it next uses it later,
for everything runs on one stream, in order.
"""

import ctypes
import weakref

import numpy as np

from ...trace import dtypes
from ...trace.api.devices import Device, SingleDeviceSharding
from ...trace.array import ArrayImpl, ShapedArray
from ...trace.base.config import config
from ...trace.base.turns import lock
from ...trace.core import Tracer
from ...trace.jaxprs.memory import Living
from ...trace.jit.jit import cache_clearers
from ...trace.primitives import as_array
from ..llvm.tables import Memory
from .driver import cuda_driver

# Addresses and sizes that a driver gives are multiples of this.
LINE = 256


class DeviceMemory:
    """Some memory of a device, which goes back to its pool in the end."""

    __slots__ = ("pointer", "home", "__weakref__")

    def __init__(self, pointer, home):
        self.pointer, self.home = pointer, home

    def __del__(self):
        self.home.free.append(self.pointer)


class Home:
    """The memory of one size that nobody uses now.

    Attributes:
      free: addresses; size: in bytes; pool: the `DevicePool` it belongs to.
    """

    __slots__ = ("free", "size", "pool")

    def __init__(self, size, pool):
        self.free, self.size, self.pool = [], size, pool

    def take(self):
        """A `DeviceMemory`, with whatever is in it."""
        try:
            return DeviceMemory(self.free.pop(), self)
        except IndexError:
            return DeviceMemory(self.pool.more(self.size), self)


class DevicePool:
    """The memory of a device that nobody uses now.

    Attributes:
      homes: {size: `Home`}.
      programs: those that keep memory for their results.
    """

    def __init__(self, driver):
        self.driver, self.homes, self.programs = driver, {}, Living()

    def home(self, nbytes):
        """Where memory for so many bytes comes from."""
        size = max(-(-nbytes // LINE), 1) * LINE
        with lock:
            return self.homes.setdefault(size, Home(size, self))

    def take(self, nbytes):
        """Memory for so many bytes, with whatever is in it."""
        return self.home(nbytes).take()

    def more(self, size):
        """The address of new memory; if too much is idle, that is given back first."""
        idle = sum(len(home.free) * home.size for home in list(self.homes.values()))
        idle += sum(program.nbytes for program in list(self.programs))
        if idle > config.pool_bytes:
            self.clear()
        try:
            return self.driver.alloc(size)
        except RuntimeError:
            # Once more, without what is kept.
            self.clear()
            return self.driver.alloc(size)

    def clear(self):
        """Give what is idle back to the driver."""
        for program in list(self.programs):
            program.forget()
        for home in list(self.homes.values()):
            while home.free:
                self.driver.free(home.free.pop())


# {driver: its pool}
pools: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def pool_of(driver):
    """The pool of a driver."""
    pool = pools.get(driver)
    if pool is None:
        pool = pools[driver] = DevicePool(driver)
    return pool


def clear_pools():
    for pool in list(pools.values()):
        pool.clear()


cache_clearers.append(clear_pools)


class CudaArray(ArrayImpl):
    """An array on a GPU.

    Attributes:
      memory: its `DeviceMemory`, or None if it was deleted.
      _value: the same as a NumPy array, if it was ever asked for.
    """

    __slots__ = ("memory",)

    def __new__(cls, memory, aval):
        self = object.__new__(cls)
        self.memory, self.aval, self._value = memory, aval, None
        return self

    def numpy(self):
        """The value as a read-only NumPy array, copied from the device once."""
        driver = self.driver
        if self._value is None:
            value = np.empty(self.aval.shape, self.aval.dtype)
            if value.nbytes:
                driver.read(self.memory.pointer, value)
            value.setflags(write=False)
            self._value = value
        return self._value

    @property
    def driver(self):
        """The driver of the device that it is on."""
        if self.memory is None:
            raise self._deleted()
        return self.memory.home.pool.driver

    def renewed(self):
        """The same array as an object of its own, which can be deleted on its own."""
        return CudaArray(self.memory, self.aval)

    def is_deleted(self):
        return self.memory is None

    def delete(self):
        """Let the memory go, if no other array shows it."""
        self.memory = self._value = None

    def block_until_ready(self):
        """Itself, once the device has computed it."""
        self.driver.synchronize()
        return self

    @property
    def device(self):
        """The device that it is on; a deleted array was on the one in use."""
        return gpu(self.driver if self.memory else cuda_driver())

    sharding = property(lambda self: SingleDeviceSharding(self.device))
    committed = property(lambda self: True)

    def copy_to_host_async(self):
        """Copy the numbers to where the program can read them."""
        self.numpy()

    def __reduce__(self):
        # Where it is read again there may be no GPU.
        return ArrayImpl(self.numpy(), self.aval).__reduce__()

    def unsafe_buffer_pointer(self):
        """The address of its numbers, on the device."""
        if self.memory is None:
            raise self._deleted()
        return self.memory.pointer

    @property
    def __cuda_array_interface__(self):
        """What CuPy, numba and others read: version 3 of the interface.

        All that computes the array is done before, so that any stream may read it.
        """
        if self.dtype.kind not in "biuf" or self.dtype.isbuiltin != 1:
            raise AttributeError(f"the interface has no type {self.dtype}")
        self.driver.synchronize()
        pointer = self.memory.pointer
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (pointer if self.size else 0, True),
            "strides": None,
            "version": 3,
        }

    def __dlpack__(self, *, max_version=None, **options):
        """A DLPack capsule of the memory on the device, which stays alive with it.

        Args:
          options: the protocol's: `stream`, `dl_device`, `copy`.
        """
        if tuple(options.get("dl_device") or (CUDA,))[0] == CPU:
            return super().__dlpack__(max_version=max_version)
        if max_version and "stream" not in options:
            # NumPy asks like this; one who reads memory of a GPU names a stream.
            raise BufferError("the array is on a GPU; numpy.asarray copies it to NumPy")
        if options.get("copy"):
            raise BufferError("a DLPack capsule shows the memory: copy it afterwards")
        if options.get("stream") != -1:
            self.driver.synchronize()
        return capsule_of(self)

    def __dlpack_device__(self):
        return CUDA, 0


# ---- DLPack: a struct in C that says where numbers are and how they lie

CPU, CUDA = 1, 2
# Where that struct has the number of a kind of devices, and the code of a kind of
# numbers; and the code of bfloat16.
DEVICE_AT, CODE_AT, BFLOAT = 8, 20, 4

# A function of Python's own, in C; with types that no other user of it changes.
in_capsule = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def capsule_of(array):
    """The capsule of a `CudaArray`: NumPy's, that says of the memory whose it is.

    NumPy makes it for an array at an address of the device, which nobody reads, and
    keeps the memory until whoever has taken the capsule lets it go.
    """
    dtype, is_half = array.dtype, array.dtype.kind == "V"
    known = np.dtype(np.uint16) if is_half else dtype
    place = array.unsafe_buffer_pointer()
    shown = np.asarray(Memory(array.memory, place, array.shape, known))
    capsule = shown.__dlpack__()
    start = in_capsule(id(capsule), b"dltensor")
    ctypes.c_int32.from_address(start + DEVICE_AT).value = CUDA
    if is_half:
        ctypes.c_uint8.from_address(start + CODE_AT).value = BFLOAT
    return capsule


# ---- to the device


def gpu(driver):
    """The `Device` of a driver."""
    return Device(0, 0, "gpu", driver.name)


def gpus():
    """The one GPU that is used; raises `CudaUnavailable` if there is none."""
    return [gpu(cuda_driver())]


def put_on_gpu(x):
    """A number or array on the GPU: itself if it is there."""
    if type(x) is CudaArray:
        return x
    if isinstance(x, Tracer):
        raise TypeError(
            "a value that is being traced has no place of its own: a jitted function "
            "runs where its arguments are. Instead: put those on the GPU, or call the "
            "function in `with default_device('gpu'):`"
        )
    if hasattr(x, "__cuda_array_interface__"):
        return from_interface(x)
    array = as_array(x)
    if isinstance(array.dtype, dtypes.ExtendedDtype):
        raise TypeError(
            f"an array of {array.dtype} stays on the CPU: give it to the jitted "
            "function as it is"
        )
    return upload(array, array.aval)


def upload(x, aval=None):
    """A NumPy array, or an array of ours on the CPU, on the device: -> `CudaArray`."""
    driver = cuda_driver()
    value = np.ascontiguousarray(x.numpy() if isinstance(x, ArrayImpl) else x)
    memory = pool_of(driver).take(value.nbytes)
    if value.nbytes:
        driver.write(memory.pointer, value)
    return CudaArray(memory, aval or ShapedArray(value.shape, value.dtype))


def from_interface(x):
    """An array of another library that is on the device, copied there."""
    given = x.__cuda_array_interface__
    value = np.empty(given["shape"], given["typestr"])
    if given.get("strides") not in (None, value.strides):
        raise ValueError(
            f"an array with strides {given['strides']} cannot be taken over: have it "
            "in row-major order, such as by cupy.ascontiguousarray"
        )
    driver = cuda_driver()
    memory = pool_of(driver).take(value.nbytes)
    driver.copy(memory.pointer, given["data"][0], value.nbytes)
    return CudaArray(memory, ShapedArray(value.shape, value.dtype))
