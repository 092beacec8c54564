"""The rows of CUDA in others' tables: its modules are imported when one is used."""

from ...trace.base.demand import on_demand
from ...trace.jit.jit import executors

executors |= {
    "cuda-lockstep": on_demand("run.cuda.executor:compile_lockstep"),
    "numba-cuda": on_demand("run.cuda.executor:compile_numba"),
}

# chapter 27
from ...trace.api.devices import platform_of, platforms, put_on
from ..reports import places

compile_cuda = on_demand("run.cuda.eager:compile_cuda")
gpus = on_demand("run.cuda.eager:gpus")
executors |= {"cuda": compile_cuda, "gpu": compile_cuda}
platforms |= {"cuda": gpus, "gpu": gpus}
put_on |= {"gpu": on_demand("run.cuda.arrays:put_on_gpu")}
on_gpu = on_demand("run.cuda.executable:on_gpu")


def place(executable, leaves):
    """Where a program runs if an argument is on a GPU, or `default_device` is one."""
    return on_gpu(executable) if platform_of(leaves) == "gpu" else None


places.append(place)
