"""Everything for GPUs, on a GPU: `python -m tests.gpu`.

Runs programs by `backend="cuda"` on the device, compares them with the CPU (and jax,
where it is installed), and prints how long the device takes as ratios: to a copy of the
bytes that a program has to move, to cuBLAS, and to jax on the same device.  With
`minijit[numba-cuda]` it does so by `backend="numba-cuda"`, too, and prints how long
kernels compiled by numba take, as a part of what our own take.  Without a GPU it says
so and exits with 2; with differences, with 1.

It needs `pip install -e ".[cuda,test]"`, a driver of CUDA 12.8 or later, and some
minutes.
"""

import os
import sys
import time
from importlib.util import find_spec

import numpy as np

import minijit
import minijit.numpy as jnp
from minijit import jit
from minijit.compile.loops.scalars import storage_dtype
from minijit.run.cuda.driver import CudaUnavailable, cuda_driver
from minijit.run.device.numba_cuda import loaded, program_of
from minijit.trace.base.config import config
from minijit.trace.numpy_values import real_part
from minijit.tree_util import tree_leaves
from tests import random_memory, test_cuda_graphs
from tests.bench.bench_products import convolve
from tests.test_cuda_graphs import numbers

# How often a call is timed, and how many calls are one measurement.
REPEATS, CALLS = 7, 20
# How many random programs are compared.
DRAWN = 100


# ---- programs, as functions of a library: minijit, or jax


def network(lib):
    def loss(p, x, labels):
        z = lib.numpy.tanh(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]
        z = z - lib.numpy.log(lib.numpy.exp(z).sum(1, keepdims=True))
        picked = lib.numpy.where(labels[:, None] == lib.numpy.arange(10), z, 0)
        return -picked.sum() / len(x)

    def step(p, x, labels):
        slopes = lib.grad(loss)(p, x, labels)
        return {name: p[name] - 0.1 * slopes[name] for name in p}

    return step


def recurrence(lib):
    def f(decay, x):
        step = lambda c, row: (row[0] * c + row[1],) * 2
        return lib.lax.scan(step, lib.numpy.zeros(x.shape[1]), (decay, x))[1]

    return f


def collatz(lib):
    def f(n):
        odd = lambda n: lib.numpy.where(n % 2 == 1, 3 * n + 1, n // 2)
        step = lambda c: (lib.numpy.where(c[0] > 1, odd(c[0]), 1), c[1] + (c[0] > 1))
        start = n, lib.numpy.zeros_like(n)
        return lib.lax.while_loop(lambda c: (c[0] > 1).any(), step, start)[1]

    return f


def of_halves(lib):
    def f(x, y):
        x, y = (a.astype(lib.numpy.bfloat16) for a in (x, y))
        return lib.numpy.matmul(x, y, preferred_element_type=np.float32)

    return f


def weights(inputs, hidden):
    shapes = {"w1": (inputs, hidden), "b1": (hidden,), "w2": (hidden, 10), "b2": (10,)}
    return {name: numbers(*shape) for name, shape in shapes.items()}


def programs(n):
    """(name, program, arguments, bytes to move or None) for sizes about n by n."""
    x, labels = numbers(n, n), np.arange(n) % 10
    once, pictures = 2 * x.nbytes, numbers(2, max(n // 4, 8), max(n // 4, 8), 8)
    elementwise = lambda lib: lambda x: lib.numpy.tanh(x) * 2 + lib.numpy.sin(x)
    return [
        ("elementwise", elementwise, (x,), once),
        ("transpose", lambda lib: lambda x: x.T + 1, (x,), once),
        ("sum of rows", lambda lib: lambda x: x.sum(1), (x,), x.nbytes),
        ("sum of columns", lambda lib: lambda x: x.sum(0), (x,), x.nbytes),
        ("softmax", lambda lib: lib.nn.softmax, (x,), once),
        ("layer norm", lambda lib: lib.nn.standardize, (x,), once),
        ("digits step", network, (weights(n, n), x, labels), None),
        ("scan", recurrence, (1 / (1 + np.exp(-x)), x), 3 * x.nbytes),
        ("convolution", convolve, (pictures, numbers(3, 3, 8, 8)), None),
        ("while", collatz, (np.arange(1, n + 1),), None),
        ("product", lambda lib: lambda x, y: x @ y, (x, x), None),
        ("x y.T", lambda lib: lambda x, y: x @ y.T, (x, x), None),
        ("bfloat16", of_halves, (x, x), None),
    ]


# Programs that are a product of cuBLAS -> the type of its factors and of its result.
PRODUCTS = {
    "product": ("float32", "float32"),
    "x y.T": ("float32", "float32"),
    "bfloat16": ("bfloat16", "float32"),
}


# ---- comparing


def import_jax():
    """jax, or None; it leaves memory for others, and multiplies in float32."""
    if not find_spec("jax"):
        return None
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax

    jax.config.update("jax_default_matmul_precision", "highest")
    return jax


def same(made, wanted, tolerance):
    """Whether two trees have the same numbers, but for rounding."""
    pairs = zip(tree_leaves(made), tree_leaves(wanted), strict=True)
    arrays = ([np.asarray(x).astype(np.float64) for x in pair] for pair in pairs)
    return all(np.allclose(*pair, tolerance, tolerance / 10) for pair in arrays)


def differences(n, backend="cuda"):
    """Compare with the CPU, and jax: -> the names of the programs that differ."""
    found, jax = [], import_jax()
    peers = {"the CPU": lambda make: jit(make(minijit))}
    if jax:
        peers["jax"] = lambda make: jax.jit(make(jax))
    for name, make, args, _ in programs(n):
        made = jit(make(minijit), backend=backend)(*args)
        for peer, compiled in peers.items():
            agrees = same(made, compiled(make)(*args), 2e-4)
            word = "same as" if agrees else "DIFFERS FROM"
            print(f"  {name:15}{n:5} by {backend:11}{word} {peer}", flush=True)
            if not agrees:
                found.append(f"{name} {n} by {backend}: {peer}")
    return found


def outside_of_jit(n):
    """The same with each operation a program of its own, on the device."""
    found = []
    for name, make, args, _ in programs(n):
        made = make(minijit)(*minijit.device_put(args, "gpu"))
        there = all(x.device.platform == "gpu" for x in tree_leaves(made))
        if not there or not same(made, jit(make(minijit))(*args), 2e-4):
            found.append(f"{name} {n}: outside of jit")
    return found


def small_programs():
    """Those of the tests, once more as if all steps of loops were large.

    Then loops and branches are nodes of graphs.  Each program is called often enough to
    be told other addresses.
    """
    found = []
    for limit in (config.fusion.block_step, -1):
        with config.override("fusion", config.fusion.but(block_step=limit)):
            for name, make in test_cuda_graphs.PROGRAMS.items():
                f, *args = make()
                wanted, on_gpu = jit(f)(*args), jit(f, backend="cuda")
                if not all(same(on_gpu(*args), wanted, 1e-5) for _ in range(4)):
                    found.append(f"{name}: steps up to {limit} in one block")
    return found


def drawn_programs():
    """Random programs, against what NumPy says."""
    found = []
    for seed in range(DRAWN):
        f, args = random_memory.drawn(seed)
        wanted = tree_leaves(jit(f, backend="eval")(*args))
        made = tree_leaves(jit(f, backend="cuda")(*args))
        for got, want in zip(made, map(np.asarray, wanted), strict=True):
            near = 2e-3 * abs(want).max()
            if np.isfinite(want).all() and not np.allclose(got, want, 2e-3, near):
                found.append(f"random_memory.drawn({seed})")
                break
    return found


# ---- timing


def best(driver, work):
    """Milliseconds of the device for one of several calls, the best of a few times."""

    def several():
        for _ in range(CALLS):
            work()

    several()
    return min(driver.milliseconds(several) for _ in range(REPEATS)) / CALLS


def copy_time(driver, nbytes):
    """How long the device takes to read and write so many bytes in all."""
    source, target = (driver.alloc(nbytes // 2) for _ in range(2))
    spent = best(driver, lambda: driver.copy(target, source, nbytes // 2))
    driver.free(source)
    driver.free(target)
    return spent


def cublas_time(driver, n, *dtypes):
    """How long a product of n by n matrices takes in cuBLAS, called by itself."""
    from minijit.run.cuda.cublas import Gemm

    sizes = (n,) * 3
    zeros = (0,) * 3
    dtypes = map(jnp.dtype, dtypes)
    gemm = Gemm(*dtypes, ("N", "N"), sizes, sizes, zeros, 1, (zeros,))
    pointers = [driver.alloc(4 * n * n) for _ in range(3)]
    spent = best(driver, lambda: driver.cublas().product(gemm, pointers))
    for pointer in pointers:
        driver.free(pointer)
    return spent


def jax_time(make, args):
    """Milliseconds of a call in jax on its GPU, or None."""
    jax = import_jax()
    if not jax or jax.default_backend() != "gpu":
        return None
    f, args = jax.jit(make(jax)), jax.device_put(args)
    jax.block_until_ready(f(*args))
    spent = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        for _ in range(CALLS):
            result = f(*args)
        jax.block_until_ready(result)
        spent.append(time.perf_counter() - start)
    return 1e3 * min(spent) / CALLS


def numba_time(kernel, arrays):
    """Milliseconds of a launch of a kernel compiled by numba, the best of a few."""
    from numba import cuda

    given = [cuda.to_device(a) for a in arrays]
    launch = loaded(program_of([kernel]), kernel.name)[kernel.grid, kernel.block]
    launch(*given)
    spent = []
    for _ in range(REPEATS):
        start, end = cuda.event(), cuda.event()
        start.record()
        for _ in range(CALLS):
            launch(*given)
        end.record()
        end.synchronize()
        spent.append(cuda.event_elapsed_time(start, end))
    return min(spent) / CALLS


def own_time(driver, kernel, arrays):
    """The same of our own PTX: a graph of as many launches, one after the other."""
    pointers, graph = [driver.alloc(a.nbytes) for a in arrays], driver.graph()
    for pointer, array in zip(pointers, arrays, strict=True):
        driver.write(pointer, array)
    for i in range(CALLS):
        graph.kernel(kernel, pointers, range(i)[-1:])
    ready = graph.ready()
    spent = best(driver, ready.launch) / CALLS
    ready.close()
    for pointer in pointers:
        driver.free(pointer)
    return spent


def routes(driver, n=2048):
    """Print for the kernels of each program what they take by both routes: of ones."""
    print(f"  {'':16}{'own ms':>9}{'numba ms':>9}{'ratio':>9}")
    for name, make, args, _ in programs(n):
        lowered = jit(make(minijit), backend="cuda-lockstep").lower(*args)
        own, by_numba = 0.0, 0.0
        for kernel in lowered.compile().executable.loaded.kernels:
            kinds = [real_part(storage_dtype(b.dtype)) for b in kernel.args]
            pairs = zip(kernel.args, kinds, strict=True)
            sizes = [b.nbytes // k.itemsize for b, k in pairs]
            arrays = [np.ones(size, k) for size, k in zip(sizes, kinds, strict=True)]
            own += own_time(driver, kernel, arrays)
            by_numba += numba_time(kernel, arrays)
        if own:
            times = f"{own:9.4f}{by_numba:9.4f}{by_numba / own:9.2f}"
            print(f"  {name:16}{times}", flush=True)


def table(driver, n=2048):
    """Print the milliseconds of each program, and ratios to what could be expected."""
    print(f"  {'':16}{'ms':>9}{'/ copy':>9}{'/ cuBLAS':>9}{'/ jax':>9}")
    for name, make, args, nbytes in programs(n):
        f, args = jit(make(minijit), backend="cuda"), minijit.device_put(args, "gpu")
        f(*args)
        spent = best(driver, lambda f=f, args=args: f(*args))
        against = [
            copy_time(driver, nbytes) if nbytes else None,
            cublas_time(driver, n, *PRODUCTS[name]) if name in PRODUCTS else None,
            jax_time(make, minijit.device_get(args)),
        ]
        ratios = "".join(f"{spent / t:9.2f}" if t else f"{'':9}" for t in against)
        print(f"  {name:16}{spent:9.4f}{ratios}")


def launches():
    """Print what a call costs Python: small programs, again and again."""
    multiply = jit(lambda x, y: jnp.sin(x) * y, backend="cuda")
    step = jit(network(minijit), backend="cuda")
    x, y = (minijit.device_put(numbers(64, 64), "gpu") for _ in range(2))
    p = minijit.device_put(weights(64, 32), "gpu")
    labels = minijit.device_put(np.arange(64) % 10, "gpu")
    for name, call, state in (
        ("two arrays", lambda state: multiply(x, y), None),
        ("digits step", lambda p: step(p, x, labels), p),
    ):
        spent = []
        for _ in range(2):
            start = time.perf_counter()
            for _ in range(5 * CALLS):
                state = call(state)
            spent.append((time.perf_counter() - start) / (5 * CALLS))
            minijit.block_until_ready(state)
        print(f"  {name:16}{1e6 * min(spent):9.2f} us")


def main():
    minijit.config.update("compile_progress", False)
    try:
        driver = cuda_driver()
    except CudaUnavailable as error:
        print(error)
        return 2
    major, minor = driver.capability
    print(f"{driver.name}, compute capability {major}.{minor}")
    print("Numbers:")
    # 45 fills no block and no tile.
    wrong = differences(64) + differences(45) + outside_of_jit(45)
    print("  programs of the tests, and random ones", flush=True)
    wrong += small_programs() + drawn_programs()
    numba_cuda = find_spec("numba_cuda") is not None
    if numba_cuda:
        wrong += differences(64, "numba-cuda") + differences(45, "numba-cuda")
    print("Times of the device:")
    table(driver)
    print("Times of kernels by both routes:")
    if numba_cuda:
        routes(driver)
    else:
        print('  numba\'s needs `pip install "minijit[numba-cuda]"`')
    print("Times of Python:")
    launches()
    print(f"{len(wrong)} differences" + "".join(f"\n  {w}" for w in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
