"""NVIDIA's driver: memory, kernels and graphs of one GPU, in a handful of calls.

    driver = cuda_driver()              # or CudaUnavailable, which says what to do
    pointer = driver.alloc(4096)
    driver.write(pointer, array)
    graph = driver.graph()
    first = graph.kernel(kernel, pointers, waits=())
    graph.kernel(other, pointers, waits=(first,))
    ready = graph.ready()               # instantiated
    ready.launch()
    ready.rebind(first, pointers)       # the next launch reads elsewhere

Nothing is imported before `cuda_driver` is called.  `cuda_stub` has a driver with the
same methods that needs no GPU.
"""

import ctypes
from contextlib import contextmanager

from ...trace.base.turns import lock
from .cublas import WORKSPACE, Cublas
from .images import image_of, linked_with_runtime


class CudaUnavailable(RuntimeError):
    """There is no GPU that can be used: no package, no driver or no device."""

    def __init__(self, reason):
        super().__init__(
            f"Unknown backend: 'gpu' requested, but no GPU can be used: {reason}.\n"
            "  A program for one needs an NVIDIA GPU, its driver, and the packages "
            "that `pip install 'minijit[cuda]'` installs.\n"
            "  Instead: leave out backend='cuda' and device, which runs it on the CPU; "
            "or `with minijit.run.cuda.stub.stub_driver():`, which runs graphs of "
            "kernels on the CPU, slowly, to look at them."
        )


# The driver that is in use, as a list of at most one.
in_use: list = []


def cuda_driver():
    """The driver of this process, made when it is first asked for.

    Raises:
      CudaUnavailable: there is none.
    """
    with lock:
        if not in_use:
            in_use.append(Driver())
        return in_use[0]


@contextmanager
def using(driver):
    """Within the block, `cuda_driver()` is this one."""
    before, in_use[:] = list(in_use), [driver]
    try:
        yield driver
    finally:
        in_use[:] = before


# A program whose loops' conditions the device decides: it hands a number of its memory
# to the graph.  `cudaGraphSetConditional` is in NVIDIA's library for device code.
DECIDE = """
.version 7.0
.target sm_75
.address_size 64
.extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);
.visible .entry decide_SIZE(.param .u64 handle, .param .u64 where)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [handle];
  ld.param.u64 %rd2, [where];
  cvta.to.global.u64 %rd3, %rd2;
  ld.global.TYPE %r1, [%rd3];
  {
    .param .b64 param0;
    .param .b32 param1;
    st.param.b64 [param0], %rd1;
    st.param.b32 [param1], %r1;
    call.uni cudaGraphSetConditional, (param0, param1);
  }
  ret;
}
"""


def decide_text(size):
    """The PTX of the kernel that decides by a byte, or by a number of four."""
    kind = {1: "u8", 4: "u32"}[size]
    return DECIDE.replace("SIZE", str(size)).replace("TYPE", kind)


def checked(result, what):
    """The values that a function of the driver returns besides its status."""
    status, *values = result
    if int(status):
        raise RuntimeError(f"CUDA: {what} failed: {status.name}")
    return values[0] if len(values) == 1 else values


class Arguments:
    """The addresses for a kernel, where the driver looks for them."""

    def __init__(self, values):
        self.values = (ctypes.c_uint64 * len(values))(*values)
        start = ctypes.addressof(self.values)
        places = (start + 8 * i for i in range(len(values)))
        self.places = (ctypes.c_void_p * len(values))(*places)
        self.address = ctypes.addressof(self.places)

    def set(self, values):
        self.values[:] = values


def bindings():
    """The module with the driver's functions and structs."""
    try:
        from cuda.bindings import driver
    except ImportError as error:
        reason = f"the package cuda-bindings is missing ({error})"
        raise CudaUnavailable(reason) from None
    return driver


class Driver:
    """One GPU, with a stream of our own.

    Attributes:
      api: what has the driver's functions: `cuda.bindings.driver`.
      capability: of the device, such as (9, 0).
      name: of the device.
    """

    def __init__(self):
        self.api = api = bindings()
        try:
            self.call("cuInit", 0)
            count = self.call("cuDeviceGetCount")
        except RuntimeError as error:
            # No library of the driver, or one that finds no device.
            words = str(error).splitlines()[0].rstrip(".")
            raise CudaUnavailable(f"NVIDIA's driver does not start ({words})") from None
        if not count:
            raise CudaUnavailable("the driver knows no device")
        self.device = self.call("cuDeviceGet", 0)
        self.context = self.call("cuDevicePrimaryCtxRetain", self.device)
        self.enter()
        name = self.call("cuDeviceGetName", 256, self.device)
        self.name = name.split(b"\0")[0].decode()
        kinds = api.CUdevice_attribute
        version = (
            kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        )
        numbers = (self.call("cuDeviceGetAttribute", k, self.device) for k in version)
        self.capability = tuple(numbers)
        no_waiting = api.CUstream_flags.CU_STREAM_NON_BLOCKING
        self.stream = self.call("cuStreamCreate", no_waiting)
        pool = self.call("cuDeviceGetDefaultMemPool", self.device)
        keep = api.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        self.call("cuMemPoolSetAttribute", pool, keep, api.cuuint64_t(2**64 - 1))
        self.functions: dict = {}
        self.blas = None

    def call(self, name, *args):
        """A function of the driver: what it returns besides its status."""
        return checked(getattr(self.api, name)(*args), name)

    def enter(self):
        """Have the calls of this thread mean this device."""
        self.call("cuCtxSetCurrent", self.context)

    # Memory.

    def alloc(self, nbytes):
        """The address of new memory, there for what comes later on the stream."""
        self.enter()
        return int(self.call("cuMemAllocAsync", max(nbytes, 1), self.stream))

    def free(self, pointer):
        """Give memory back, once all that is on the stream by now is done."""
        self.enter()
        self.call("cuMemFreeAsync", pointer, self.stream)

    def write(self, pointer, array):
        """Copy a NumPy array to the device; it may be changed afterwards."""
        self.enter()
        given = pointer, array.ctypes.data, array.nbytes
        self.call("cuMemcpyHtoDAsync", *given, self.stream)
        self.synchronize()

    def read(self, pointer, array):
        """Copy from the device into a NumPy array, after all that is on the stream."""
        self.enter()
        given = array.ctypes.data, pointer, array.nbytes
        self.call("cuMemcpyDtoHAsync", *given, self.stream)
        self.synchronize()

    def copy(self, target, source, nbytes):
        """Copy within the device."""
        self.enter()
        self.call("cuMemcpyDtoDAsync", target, source, nbytes, self.stream)

    def synchronize(self):
        """Wait until the device has done all that it was told."""
        self.enter()
        self.call("cuStreamSynchronize", self.stream)

    def milliseconds(self, work):
        """How long the device takes for what a function puts onto the stream."""
        self.enter()
        events = [self.call("cuEventCreate", 0) for _ in range(2)]
        self.call("cuEventRecord", events[0], self.stream)
        work()
        self.call("cuEventRecord", events[1], self.stream)
        self.call("cuEventSynchronize", events[1])
        spent = self.call("cuEventElapsedTime", *events)
        for event in events:
            self.call("cuEventDestroy", event)
        return spent

    # Code.

    def loaded(self, name, image):
        """A function of a PTX text or a cubin, loaded once."""
        if image not in self.functions:
            given = self.call("cuModuleLoadData", image), name.encode()
            self.functions[image] = self.call("cuModuleGetFunction", *given)
        return self.functions[image]

    def function(self, kernel):
        """The function of a `CudaKernel`."""
        return self.loaded(kernel.name, image_of(kernel, self.capability))

    def decide(self, size):
        """The function that decides how a loop or a branch goes on."""
        text = decide_text(size)
        image = linked_with_runtime(text, self.capability)
        return self.loaded(f"decide_{size}", image)

    def cublas(self):
        if self.blas is None:
            self.blas = Cublas(int(self.stream), self.alloc(WORKSPACE))
        return self.blas

    def graph(self):
        self.enter()
        return Graph(self, self.call("cuGraphCreate", 0))


class Graph:
    """A graph, or what a loop or a branch in one consists of.

    Nodes are known by their numbers.

    Attributes:
      nodes: of each the driver's handle, and a function(graph made ready, pointers)
        that tells it other addresses; inside: the graphs of its loops and branches.
    """

    def __init__(self, driver, graph):
        self.driver, self.graph = driver, graph
        self.nodes, self.inside, self.last_product = [], [], None

    def waited(self, waits):
        """The nodes that a new one waits for, as the driver takes them."""
        nodes = [self.nodes[i][0] for i in waits]
        return nodes or None, len(nodes)

    def add(self, node, rebind=None):
        self.nodes.append((node, rebind))
        return len(self.nodes) - 1

    def kernel(self, kernel, pointers, waits):
        function = self.driver.function(kernel)
        return self.launch(function, kernel.grid, kernel.block, pointers, waits)

    def launch(self, function, grid, block, pointers, waits):
        params, call = self.driver.api.CUDA_KERNEL_NODE_PARAMS(), self.driver.call
        arguments = Arguments(pointers)
        params.func = function
        params.gridDimX, params.gridDimY, params.gridDimZ = grid
        params.blockDimX, params.blockDimY, params.blockDimZ = block
        params.kernelParams = arguments.address
        node = call("cuGraphAddKernelNode", self.graph, *self.waited(waits), params)

        def rebind(ready, pointers):
            arguments.set(pointers)
            call("cuGraphExecKernelNodeSetParams", ready, node, params)

        return self.add(node, rebind)

    def product(self, gemm, pointers, waits):
        """All products work in the same memory, and so one after the other."""
        if self.last_product is not None:
            waits = tuple(dict.fromkeys((*waits, self.last_product)))
        given, driver = (self.graph, *self.waited(waits)), self.driver
        with captured(driver, gemm, pointers) as child:
            node = driver.call("cuGraphAddChildGraphNode", *given, child)

        def rebind(ready, pointers):
            with captured(driver, gemm, pointers) as child:
                driver.call("cuGraphExecChildGraphNodeSetParams", ready, node, child)

        self.last_product = self.add(node, rebind)
        return self.last_product

    def copy(self, target, source, nbytes, waits):
        api, call = self.driver.api, self.driver.call
        given = lambda *ends: (copy_params(api, *ends, nbytes), self.driver.context)
        waited = self.graph, *self.waited(waits)
        node = call("cuGraphAddMemcpyNode", *waited, *given(target, source))

        def rebind(ready, pointers):
            call("cuGraphExecMemcpyNodeSetParams", ready, node, *given(*pointers))

        return self.add(node, rebind)

    def conditional(self, kind, size, count, where, waits, fills):
        """A conditional node.

        Args:
          size: of the number at the address `where`, which is read before.
          fills: a function of each `Graph` inside: -> the numbers of its last nodes; it
            is given what a loop has to decide anew when these are done.
        """
        api, call = self.driver.api, self.driver.call
        handle = call(
            "cuGraphConditionalHandleCreate", self.graph, self.driver.context, 0, 0
        )
        decide = self.driver.decide(size), (1, 1, 1), (1, 1, 1), [int(handle), where]
        first = self.launch(*decide, waits)
        params = api.CUgraphNodeParams()
        params.type = api.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
        params.conditional.handle = handle
        params.conditional.type = getattr(
            api.CUgraphConditionalNodeType, f"CU_GRAPH_COND_TYPE_{kind}"
        )
        params.conditional.size = count
        params.conditional.ctx = self.driver.context
        nodes, number = self.waited((first,))
        node = call("cuGraphAddNode", self.graph, nodes, None, number, params)
        inside = [Graph(self.driver, g) for g in params.conditional.phGraph_out[:count]]
        for graph, fill in zip(inside, fills, strict=True):
            last = fill(graph)
            if kind == "WHILE":
                graph.launch(*decide, last)
        self.inside += inside
        return self.add(node)

    def loop(self, more, waits, fill):
        """Nodes that run again while the byte at an address is true."""
        return self.conditional("WHILE", 1, 1, more, waits, [fill])

    def choice(self, index, waits, fills):
        """The nodes whose number is at an address."""
        return self.conditional("SWITCH", 4, len(fills), index, waits, fills)

    def ready(self):
        return Ready(self, self.driver.call("cuGraphInstantiate", self.graph, 0))


@contextmanager
def captured(driver, gemm, pointers):
    """What cuBLAS does for a product, as a graph: who is given it makes a copy."""
    mode = driver.api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    blas = driver.cublas()
    driver.call("cuStreamBeginCapture", driver.stream, mode)
    try:
        blas.product(gemm, pointers)
    finally:
        graph = driver.call("cuStreamEndCapture", driver.stream)
    try:
        yield graph
    finally:
        driver.call("cuGraphDestroy", graph)


def copy_params(api, target, source, nbytes):
    params, device = api.CUDA_MEMCPY3D(), api.CUmemorytype.CU_MEMORYTYPE_DEVICE
    params.srcMemoryType = params.dstMemoryType = device
    params.srcDevice, params.dstDevice = source, target
    params.WidthInBytes, params.Height, params.Depth = nbytes, 1, 1
    return params


class Ready:
    """A graph that can be launched again and again."""

    def __init__(self, graph, exec_):
        self.source, self.exec, self.driver = graph, exec_, graph.driver
        self.start = self.driver.api.cuGraphLaunch

    def rebind(self, number, pointers):
        """Tell a node other addresses; launches that are under way keep theirs."""
        self.source.nodes[number][1](self.exec, pointers)

    def launch(self):
        (status,) = self.start(self.exec, self.driver.stream)
        if status:
            # Perhaps this thread has never had to do with the device.
            self.driver.enter()
            self.driver.call("cuGraphLaunch", self.exec, self.driver.stream)

    def close(self):
        """Give back what the driver keeps of the graph."""
        self.driver.call("cuGraphExecDestroy", self.exec)
        self.driver.call("cuGraphDestroy", self.source.graph)
