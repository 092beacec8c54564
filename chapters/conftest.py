"""How nbval runs notebooks, with the tests or alone."""

import os

# As in tests/conftest.py: threads of a BLAS wait for each other after each product.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def pytest_configure(config):
    if config.pluginmanager.hasplugin("nbval"):
        start_kernels_again_on_lost_ports()
        let_cpus_round()


def start_kernels_again_on_lost_ports(attempts=3):
    """Let nbval start a kernel anew that died before it said a word.

    jupyter_client looks for five free ports, closes them and has the kernel open them
    half a second later.  Where many kernels run side by side, a connection of another
    process may have got one of them in between; the kernel ends then.
    """
    import nbval.kernel

    start_once = nbval.kernel.start_new_kernel

    def start(**settings):
        for _ in range(attempts - 1):
            try:
                return start_once(**settings)
            except RuntimeError as e:
                if "died before replying" not in str(e):
                    raise
        return start_once(**settings)

    nbval.kernel.start_new_kernel = start


def let_cpus_round():
    """Let nbval take floats of which a CPU rounds the last digits otherwise."""
    from nbval import plugin

    compare = plugin.IPyNbCell.compare_outputs

    def compared(self, test, ref, skip_compare=None):
        from minijit.book.run import keep_rounding

        if len(test) == len(ref):
            for new, old in zip(test, ref, strict=True):
                keep_rounding(new, old)
        return compare(self, test, ref, skip_compare)

    plugin.IPyNbCell.compare_outputs = compared
