"""LLVM as the package llvmlite has it, and the machine that it compiles for.

    host()                              # ("sapphirerapids", "+sse2,+avx512f,...")
    target_machine(brief=True)          # makes machine code, quickly
"""

import functools
import gc


@functools.cache
def binding():
    """llvmlite's LLVM, imported and made ready when it is first asked for."""
    collecting = gc.isenabled()
    # Thousands of objects come and stay: a collection amid them, of all that the
    # process has, takes as long as the import itself.
    gc.disable()
    try:
        import llvmlite.binding as llvm
    finally:
        if collecting:
            gc.enable()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


@functools.cache
def host():
    """The machine that runs this: (its name, its features)."""
    return binding().get_host_cpu_name(), binding().get_host_cpu_features().flatten()


# How modules are made into machine code: thoroughly, or {brief: True} in little time,
# where so little runs that vectors do not pay.
machine_options = {
    brief: dict(opt=level, reloc="pic", codemodel="jitdefault", jit=True)
    for brief, level in ((False, 2), (True, 0))
}
pass_options = {
    brief: dict(
        speed_level=1 if brief else 2,
        loop_vectorization=not brief,
        loop_interleaving=not brief,
        loop_unrolling=not brief,
        slp_vectorization=False,
    )
    for brief in (False, True)
}


def target_machine(brief=False):
    """What makes machine code for this machine."""
    cpu, features = host()
    target, options = binding().Target.from_default_triple(), machine_options[brief]
    return target.create_target_machine(cpu=cpu, features=features, **options)


# The ones that compile; the others, one for each engine, only load.
shared_machine = functools.cache(target_machine)


def run_passes(module, machine, **options):
    """Optimise a module in place.

    Args:
      options: fields of llvmlite's `PipelineTuningOptions`.
    """
    llvm, tuning = binding(), binding().create_pipeline_tuning_options()
    for name, value in options.items():
        setattr(tuning, name, value)
    builder = llvm.create_pass_builder(machine, tuning)
    passes = builder.getModulePassManager()
    passes.run(module, builder)
    # What `passes.close` of llvmlite 0.50 leaves out: 70 KB for each module.
    llvm.newpassmanagers.NewPassManager._dispose(passes)
    passes.detach()
