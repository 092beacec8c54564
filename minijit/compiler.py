"""All that the first compile brings: passes, executors, and rows of their tables.

    demand.add_rows("trace.jit.jit")        # the table of executors is complete

`import minijit` does not import it.  It comes when something is compiled, a flag of it
is asked for, or one of the modules of `compile` and `run` is imported: then come all.
"""

# chapter 14
from .compile.simplify import exact_rules, layout_rules, real_number_rules

# chapter 15
from .compile.loops import index_rules, text as loops_text
from .compile.lower import calls as lower_calls, choices as lower_choices
from .compile.lower import elements as lower_elements, transforms as lower_transforms
from .compile.simplify import storage

# chapter 16
from .run import executable
from .run.python import program as python_program
from .run.python import scalar_functions
from .ops.lowering import cumulative, elementwise, prng, scatter, sorting, windows

# chapter 17
from .compile.fuse import blocks, fuse_settings, fusion
from .compile.schedule import side_by_side
from .ops.lowering import barriers

# chapter 18
from .compile.lower import matrix_products
from .compile.schedule import panels
from .ops.lowering import complex_products, patches

# chapter 19
from .run import donating
from .run.calls import planned_driver

# chapter 20
from .run.report import kernel_log

# chapter 21
from .compile.control import native_loops
from .compile.control import lane_blocks, products
from .compile.schedule import loop_motion
from .compile.control import region_functions
from .ops.lowering import native_linalg, native_selection
from .run.python import regions as python_regions
from .run.python import region_launchers

# chapter 22
from .compile.control import native_tapes, reversal as lower_reversal
from .run.python import table_values

# chapter 23
from .run.llvm import executor as llvm
from .run.llvm import blocks as llvm_blocks
from .run.llvm import instructions as llvm_instructions
from .run.llvm import regions as llvm_regions
from .ops.lowering import native_fft

# chapter 24
from .compile.schedule import partial_totals
from .compile.numbers import vector_functions
from .compile.schedule import vector_loops
from .compile.schedule import register_tiles
from .compile.schedule import choose
from .ops.lowering import direct_convolutions
from .compile.numbers import vector_waves
from .run.llvm import lanes as llvm_lanes, vectors as llvm_vectors
from .run.llvm import strips as llvm_strips
from .run.threads import kernels as threads, shared_work
from .trace.base import demand

choose.winners |= {"kept": demand.on_demand("run.winners:kept_winner")}

# chapter 25
from .run import pool
from .run.calls import pooled_driver
from .ops.lowering import pooled_fft
from .run.calls import dispatch
from .run.llvm import object_cache
from .run.calls import shortcut_rows

# chapter 26
from .run.cuda import rows as cuda_rows
