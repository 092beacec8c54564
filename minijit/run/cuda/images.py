"""Code for a GPU, kept on the disk: PTX, and machine code where it can be made.

A file is named after all that it depends on.
"""

from ..cache_folder import keep_of_key, of_key
from ..report.environment import version_of

# The packages on which the code depends.
MAKERS = "minijit llvmlite nvidia-nvjitlink nvidia-cuda-runtime"


def kept(kind, key, make):
    """The bytes for a key: those of an earlier process, or new ones.

    Args:
      kind: the end of the file's name; key: all that they depend on but the makers.
    """
    versions = [(name, version_of(name)) for name in MAKERS.split()]
    key = repr((kind, versions, key))
    if (code := of_key("cuda", key, kind)) is None:
        keep_of_key("cuda", key, kind, code := make())
    return code


def ptx_of(kernel, capability):
    """The PTX of a `CudaKernel`, as bytes."""
    key = kernel.name, kernel.llvm, capability
    return kept("ptx", key, lambda: as_bytes(kernel.ptx(capability)))


def as_bytes(text):
    return text if isinstance(text, bytes) else text.encode() + b"\0"


def image_of(kernel, capability):
    """What the driver loads for a `CudaKernel`: machine code if it can be made here.

    Without the package nvidia-nvjitlink it is PTX, which the driver compiles itself.
    """
    text = ptx_of(kernel, capability)
    if version_of("nvidia-nvjitlink") == "not installed":
        return text
    return kept("cubin", (text, capability), lambda: linked([text], capability)[0])


def linked_with_runtime(text, capability):
    """Machine code of a PTX text that calls functions of NVIDIA's device library.

    Raises:
      RuntimeError: that library is not here.
    """

    def make():
        from cuda.pathfinder import find_static_lib

        try:
            path = find_static_lib("cudadevrt")
        except RuntimeError as error:
            raise RuntimeError(
                "a loop or branch of a graph needs NVIDIA's library for device code, "
                f"libcudadevrt.a: `pip install nvidia-cuda-runtime` brings it ({error})"
            ) from None
        with open(path, "rb") as file:
            return linked([as_bytes(text)], capability, file.read())[0]

    return kept("cubin", (text, capability, "cudadevrt"), make)


def linked(texts, capability, library=None):
    """PTX texts, and maybe a library, as machine code: by nvJitLink.

    Returns:
      (machine code, what the assembler says of registers and spills).

    Raises:
      ImportError: there are no bindings for it.
      RuntimeError: it refuses them; with its own words.
    """
    from cuda.bindings import nvjitlink

    major, minor = capability
    options = [f"-arch=sm_{major}{minor}", "-Xptxas=-v"]
    handle = nvjitlink.create(len(options), options)
    try:
        for text in texts:
            text = text.rstrip(b"\0")
            nvjitlink.add_data(
                handle, nvjitlink.InputType.PTX, text, len(text), "kernel"
            )
        if library is not None:
            kind = nvjitlink.InputType.LIBRARY
            nvjitlink.add_data(handle, kind, library, len(library), "cudadevrt")
        nvjitlink.complete(handle)
        code = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, code)
        said = bytearray(nvjitlink.get_info_log_size(handle))
        nvjitlink.get_info_log(handle, said)
    except nvjitlink.nvJitLinkError as error:
        log = bytearray(nvjitlink.get_error_log_size(handle))
        nvjitlink.get_error_log(handle, log)
        words = log.rstrip(b"\0").decode()
        raise RuntimeError(f"nvJitLink refused a kernel: {error}\n{words}") from None
    finally:
        nvjitlink.destroy(handle)
    return bytes(code), said.decode()
