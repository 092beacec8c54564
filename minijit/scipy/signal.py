"""Convolutions and spectra under the names of `jax.scipy.signal`."""

import warnings

import numpy as np

from .. import lax, numpy as jnp
from ..numpy.arguments import (
    canonical_axes, canonical_axis, check_arraylike, static_int,
)
from ..numpy.core import check_inexact, promote_dtypes
from ..trace import dtypes
from ..trace.api import calls

modes = ["full", "same", "valid"]


def inexact(name, *args):
    """Arguments as arrays of one inexact dtype, whatever their shapes are."""
    check_arraylike(name, *args)
    check_inexact(name, args)
    return promote_dtypes(args, dtypes.to_inexact_dtype)


# ---- convolutions


def ordered(a, b, mode):
    """(a, b), the larger one first where the mode is "valid" and b is larger."""
    above = all(m >= n for m, n in zip(a.shape, b.shape, strict=True))
    below = all(m <= n for m, n in zip(a.shape, b.shape, strict=True))
    if not (above or below):
        raise ValueError(
            "One input must be at least as large as the other in every dimension, got "
            f"shapes {a.shape} and {b.shape}"
        )
    return (b, a) if below and not above and mode == "valid" else (a, b)


def check_pair(a, b, mode):
    if a.ndim != b.ndim:
        raise ValueError("in1 and in2 must have the same number of dimensions")
    if mode not in modes:
        raise ValueError(f"mode must be one of {modes}, got {mode!r}")


def fftconvolve(in1, in2, mode="full", axes=None):
    """The convolution by Fourier transforms.

    Args:
      in1, in2: arrays of one rank.
      mode: "full"; "same": the middle of it, of the shape of in1; "valid": where the
        smaller one is inside of the larger.
      axes: along which; on the others the shapes must agree.
    """
    in1, in2 = inexact("fftconvolve", in1, in2)
    check_pair(in1, in2, mode)
    axes = range(in1.ndim) if axes is None else canonical_axes(axes, in1.ndim)
    rest = set(range(in1.ndim)) - set(axes)
    if any(in1.shape[d] != in2.shape[d] for d in rest):
        raise ValueError(
            f"mapped axes must have same shape; got in1.shape={in1.shape} "
            f"in2.shape={in2.shape} {axes=}"
        )
    if mode == "valid":
        in1, in2 = ordered(in1, in2, mode)
    full, wanted = list(in1.shape), list(in1.shape)
    for d in axes:
        full[d] = in1.shape[d] + in2.shape[d] - 1
        n = in1.shape[d] - in2.shape[d] + 1
        wanted[d] = {"full": full[d], "same": in1.shape[d], "valid": n}[mode]
    sizes, axes = [full[d] for d in axes], tuple(axes)
    is_complex = in1.dtype.kind == "c"
    there = jnp.fft.fftn if is_complex else jnp.fft.rfftn
    back = jnp.fft.ifftn if is_complex else jnp.fft.irfftn
    result = back(there(in1, sizes, axes) * there(in2, sizes, axes), sizes, axes)
    starts = [(n - w) // 2 for n, w in zip(full, wanted, strict=True)]
    ends = [start + w for start, w in zip(starts, wanted, strict=True)]
    return lax.slice(result, starts, ends)


def direct(in1, in2, mode, precision):
    """The convolution as a sum of products."""
    check_pair(in1, in2, mode)
    if in1.size == 0 or in2.size == 0:
        raise ValueError(
            "zero-size arrays not supported in convolutions, got shapes "
            f"{in1.shape} and {in2.shape}."
        )
    same = in2.shape
    in1, in2 = ordered(in1, in2, "valid")
    sizes = in2.shape
    if mode == "full":
        padding = [(n - 1, n - 1) for n in sizes]
    elif mode == "valid":
        padding = [(0, 0) for n in sizes]
    else:
        padding = [
            (n - 1 - (m - 1) // 2, n - m + (m - 1) // 2)
            for n, m in zip(sizes, same, strict=True)
        ]
    image, kernel = in1[None, None], jnp.flip(in2)[None, None]
    strides = (1,) * in1.ndim
    result = lax.conv_general_dilated(
        image, kernel, strides, padding, precision=precision
    )
    return result[0, 0]


def convolve(in1, in2, mode="full", method="auto", precision=None):
    """The convolution of arrays of one rank; mode as of `fftconvolve`.

    Args:
      method: "direct" and "auto": sums of products; "fft": `fftconvolve`.
    """
    if method == "fft":
        return fftconvolve(in1, in2, mode)
    if method not in ("direct", "auto"):
        raise ValueError(f"Got method={method!r}; expected 'auto', 'fft', or 'direct'.")
    in1, in2 = inexact("convolve", in1, in2)
    return direct(in1, in2, mode, precision)


def check_2d(name, in1, in2, boundary, fillvalue):
    if boundary != "fill" or fillvalue != 0:
        raise NotImplementedError(
            f"{name}() only supports boundary='fill', fillvalue=0"
        )
    if np.ndim(in1) != 2 or np.ndim(in2) != 2:
        raise ValueError(f"{name}() only supports 2-dimensional inputs.")


def convolve2d(in1, in2, mode="full", boundary="fill", fillvalue=0, precision=None):
    """The convolution of matrices; what is outside is zero."""
    check_2d("convolve2d", in1, in2, boundary, fillvalue)
    in1, in2 = inexact("convolve2d", in1, in2)
    return direct(in1, in2, mode, precision)


def correlate(in1, in2, mode="full", method="auto", precision=None):
    """The convolution with in2 turned around and conjugated."""
    in2 = jnp.flip(jnp.conj(in2))
    return convolve(in1, in2, mode, precision=precision, method=method)


def correlate2d(in1, in2, mode="full", boundary="fill", fillvalue=0, precision=None):
    """The correlation of matrices; of two in the mode "same" the middle is SciPy's."""
    check_2d("correlate2d", in1, in2, boundary, fillvalue)
    in1, in2 = inexact("correlate2d", in1, in2)
    pairs = list(zip(in1.shape, in2.shape, strict=True))
    below = all(m <= n for m, n in pairs) and in1.shape != in2.shape
    if mode != "same" and below:
        result = direct(jnp.flip(in2), jnp.conj(in1), mode, precision)
        return jnp.conj(result) if mode == "full" else result
    return jnp.flip(direct(jnp.flip(in1), jnp.conj(in2), mode, precision))


def detrend(data, axis=-1, type="linear", bp=0, overwrite_data=None):
    """Data less their mean ("constant"), or less a line fitted to them ("linear").

    Args:
      bp: where new lines begin.
    """
    if overwrite_data is not None:
        raise NotImplementedError("overwrite_data argument not implemented.")
    if type not in ("constant", "linear"):
        raise ValueError("Trend type must be 'linear' or 'constant'.")
    data, = inexact("detrend", data)
    if type == "constant":
        return data - data.mean(axis, keepdims=True)
    n = data.shape[axis]
    ends = np.unique(np.r_[0, bp, n])
    if ends[0] < 0 or ends[-1] > n:
        raise ValueError(
            "Breakpoints must be non-negative and less than length of data along given "
            "axis."
        )
    rows = jnp.moveaxis(data, axis, -1)
    parts = []
    for start, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        # The line of least squares, on centred places.
        place = np.arange(end - start) - (end - start - 1) / 2
        size = float(place @ place) or 1.0  # One place alone has no slope.
        place = place.astype(data.dtype)
        part = rows[..., start:end]
        part = part - part.mean(-1, keepdims=True)
        slope = (part * place).sum(-1, keepdims=True) / np.array(size, data.dtype)
        parts.append(part - slope * place)
    return jnp.moveaxis(jnp.concatenate(parts, -1), -1, axis)


# ---- spectra


def window_of(window, nperseg, length, dtype):
    """(the window as an array, its length): by name or values, None or a length."""
    if isinstance(window, (str, tuple)):
        n = length if nperseg is None else nperseg
        if n > length:
            warnings.warn(
                f"nperseg = {n} is greater than input length {length}, using "
                f"nperseg = {length}",
                stacklevel=4,
            )
            n = length
        return named_window(window, n, dtype), n
    values = jnp.asarray(window)
    if values.ndim != 1:
        raise ValueError("window must be 1-D")
    if length < values.size:
        raise ValueError("window is longer than input signal")
    if nperseg is not None and nperseg != values.size:
        raise ValueError(
            "value specified for nperseg is different from length of window"
        )
    return values, values.size


def named_window(window, n, dtype):
    if window == "hann":
        place = np.arange(n) / n
        values = np.sin(np.pi * place) ** 2 if n > 1 else np.ones(1)
    else:
        from scipy.signal import get_window

        values = get_window(window, n)
    return jnp.asarray(values, dtype)


def extended(x, n, boundary):
    """x with n more elements on both ends of its last axis."""
    width = [(0, 0)] * (x.ndim - 1) + [(n, n)]
    if boundary != "odd":
        how = {"even": "reflect", "constant": "edge", "zeros": "constant"}[boundary]
        return jnp.pad(x, width, how)
    if n < 1:
        return x
    if n > x.shape[-1] - 1:
        raise ValueError(
            f"The extension length n ({n}) is too big. It must not exceed "
            f"x.shape[axis]-1, which is {x.shape[-1] - 1}."
        )
    return jnp.pad(x, width, "reflect", reflect_type="odd")


def lengthened(x, length):
    """x with zeros behind it, up to a length of its last axis."""
    return jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, length - x.shape[-1])])


def frames(x, size, step, detrend_type):
    """The pieces of the last axis that begin at multiples of `step`: [..., k, size]."""
    starts = np.arange(0, x.shape[-1] - size + 1, step)
    pieces = x[..., starts[:, None] + np.arange(size)]
    if isinstance(detrend_type, str):
        return detrend(pieces, -1, detrend_type)
    return detrend_type(pieces) if callable(detrend_type) else pieces


def frame_sizes(window, nperseg, noverlap, nfft, length, dtype):
    """(the window, a frame's length, the step between frames, their length with zeros).

    Args:
      window, nperseg, noverlap, nfft: as of `stft`; length: of the signal.
    """
    window, nperseg = window_of(window, nperseg, length, dtype)
    noverlap = nperseg // 2 if noverlap is None else static_int(noverlap, "noverlap")
    nfft = nperseg if nfft is None else static_int(nfft, "nfft")
    if nfft < nperseg:
        raise ValueError("nfft must be greater than or equal to nperseg.")
    if noverlap >= nperseg:
        raise ValueError("noverlap must be less than nperseg.")
    return window, nperseg, nperseg - noverlap, nfft


def spectra(
    x, y, fs, window, nperseg, noverlap, nfft, detrend_type, return_onesided, scaling,
    axis, mode, boundary=None, padded=False,
):  # fmt: skip
    """(frequencies, times, spectra of the frames of x, or of x with y)."""
    if boundary not in (None, "even", "odd", "constant", "zeros"):
        raise ValueError(
            f"Unknown boundary option '{boundary}', must be one of: "
            f"{['even', 'odd', 'constant', 'zeros', None]}"
        )
    if scaling not in ("density", "spectrum"):
        raise ValueError(f"Unknown scaling: {scaling}")
    both = inexact("spectral_helper", *((x,) if y is None else (x, y)))
    axis = canonical_axis(axis, both[0].ndim)
    if len({a.ndim for a in both}) > 1:
        raise ValueError("two-arguments must have the same rank")
    both = [jnp.moveaxis(a, axis, -1) for a in both]
    length = max(a.shape[-1] for a in both)
    nperseg = None if nperseg is None else static_int(nperseg, "nperseg")
    if nperseg is not None and nperseg < 1:
        raise ValueError("nperseg must be a positive integer")
    dtype = both[0].dtype
    if any(a.size == 0 for a in both):
        shape = both[0].shape
        real = jnp.zeros(shape, jnp.zeros(0, dtype).real.dtype)
        return real, real, jnp.zeros(shape, dtypes.result_type(dtype, np.complex64))
    win, nperseg, step, nfft = frame_sizes(
        window, nperseg, noverlap, nfft, both[0].shape[-1], dtype
    )
    onesided = bool(return_onesided)
    if onesided and dtype.kind == "c":
        onesided = False
        warnings.warn(
            "Input data is complex, switching to return_onesided=False", stacklevel=3
        )
    total = (win * win).sum() * fs if scaling == "density" else win.sum() ** 2
    transform = jnp.fft.rfft if onesided else jnp.fft.fft
    found = []
    for a in both:
        a = lengthened(a, length)
        a = a if boundary is None else extended(a, nperseg // 2, boundary)
        span = a.shape[-1]
        span += -(span - nperseg) % step % nperseg if padded else 0
        pieces = frames(lengthened(a, span), nperseg, step, detrend_type)
        found.append(transform(pieces * win, nfft))
    if mode == "stft":
        result = found[0] / jnp.sqrt(total)
    else:
        result = jnp.conj(found[0]) * found[-1] / total
        if onesided:
            result = result.at[..., 1 : None if nfft % 2 else -1].multiply(2)
        result = result.real if y is None else result
    real = result.real.dtype
    frequencies = (jnp.fft.rfftfreq if onesided else jnp.fft.fftfreq)(nfft, 1 / fs)
    times = np.arange(nperseg / 2, span - nperseg / 2 + 1, step) / fs
    times = times - nperseg / 2 / fs if boundary is not None else times
    # [..., frames, frequencies] -> frequencies in the place of the axis, frames last.
    result = jnp.moveaxis(result, -1, axis)
    return frequencies.astype(real), jnp.asarray(times, real), result


def stft(
    x, fs=1.0, window="hann", nperseg=256, noverlap=None, nfft=None, detrend=False,
    return_onesided=True, boundary="zeros", padded=True, axis=-1,
):  # fmt: skip
    """(frequencies, times, Fourier transforms of overlapping frames of x).

    Args:
      fs: samples per second; window: a name or an array; nperseg: a frame's length.
      noverlap: how far frames overlap, by default half; nfft: their length with zeros.
      detrend: False, a type of `detrend`, or a function.
      boundary: how x goes on: "zeros", "even", "odd", "constant" or None: not at all.
      padded: whether zeros make up a last frame.
    """
    return spectra(
        x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided,
        "spectrum", axis, "stft", boundary, padded,
    )  # fmt: skip


def csd(
    x, y, fs=1.0, window="hann", nperseg=None, noverlap=None, nfft=None,
    detrend="constant", return_onesided=True, scaling="density", axis=-1,
    average="mean",
):  # fmt: skip
    """(frequencies, the cross spectral density of x and y), by Welch's method.

    Args:
      y: None: x; scaling: "density" (power per frequency) or "spectrum".
      average: of the frames: "mean" or "median"; others: see `stft`.
    """
    frequencies, _, power = spectra(
        x, y, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling,
        axis, "psd",
    )  # fmt: skip
    if y is not None:
        power = power + 0j
    if power.ndim < 2 or not power.size:
        return frequencies, power
    if power.shape[-1] == 1:
        return frequencies, power[..., 0]
    if average == "mean":
        return frequencies, power.mean(-1)
    if average != "median":
        raise ValueError(f'average must be "median" or "mean", got {average}')
    k = np.arange(2, power.shape[-1], 2)
    bias = 1 + float((1 / (k + 1) - 1 / k).sum())
    if power.dtype.kind != "c":
        return frequencies, jnp.median(power, -1) / bias
    middle = lax.complex(jnp.median(power.real, -1), jnp.median(power.imag, -1))
    return frequencies, middle / bias


def welch(
    x, fs=1.0, window="hann", nperseg=None, noverlap=None, nfft=None,
    detrend="constant", return_onesided=True, scaling="density", axis=-1,
    average="mean",
):  # fmt: skip
    """(frequencies, the power spectral density of x); see `csd`."""
    frequencies, power = csd(
        x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided,
        scaling, axis, average,
    )  # fmt: skip
    return frequencies, power.real


def overlapped(x, step):
    """The sum of frames [..., k, n] that begin at multiples of `step`."""
    k, n = x.shape[-2:]
    places = np.arange(k)[:, None] * step + np.arange(n)
    zero = jnp.zeros((*x.shape[:-2], step * (k - 1) + n), x.dtype)
    return zero.at[..., places].add(x)


def inverse_sizes(nperseg, noverlap, nfft, rows, onesided):
    """(nperseg, noverlap, nfft) of an `stft` with so many rows; None or 0: by default.
    """
    default = 2 * (rows - 1) if onesided else rows
    nperseg = static_int(nperseg or default, "nperseg")
    if nperseg < 1:
        raise ValueError("nperseg must be a positive integer")
    if nfft is None:
        nfft = default + (onesided and nperseg == default + 1)
    nfft = static_int(nfft, "nfft")
    if nfft < nperseg:
        raise ValueError(
            f"FFT length ({nfft}) must be longer than nperseg ({nperseg})."
        )
    noverlap = static_int(noverlap or nperseg // 2, "noverlap")
    if noverlap >= nperseg:
        raise ValueError("noverlap must be less than nperseg.")
    return nperseg, noverlap, nfft


def istft(
    Zxx, fs=1.0, window="hann", nperseg=None, noverlap=None, nfft=None,
    input_onesided=True, boundary=True, time_axis=-1, freq_axis=-2,
):  # fmt: skip
    """(times, the signal whose `stft` this is); arguments as there."""
    Zxx, = inexact("istft", Zxx)
    if Zxx.ndim < 2:
        raise ValueError("Input stft must be at least 2d!")
    freq_axis = canonical_axis(freq_axis, Zxx.ndim)
    time_axis = canonical_axis(time_axis, Zxx.ndim)
    if freq_axis == time_axis:
        raise ValueError("Must specify differing time and frequency axes!")
    nperseg, noverlap, nfft = inverse_sizes(
        nperseg, noverlap, nfft, Zxx.shape[freq_axis], input_onesided
    )
    z = jnp.moveaxis(Zxx, (time_axis, freq_axis), (-2, -1))
    z = z.astype(dtypes.result_type(z.dtype, np.complex64))
    back = jnp.fft.irfft if input_onesided else jnp.fft.ifft
    pieces = back(z, nfft)[..., :nperseg]
    if isinstance(window, (str, tuple)):
        win = named_window(window, nperseg, pieces.real.dtype)
    else:
        win = jnp.asarray(window)
        if win.shape != (nperseg,):
            raise ValueError(f"window must be 1-D, and have length of {nperseg}")
    step = nperseg - noverlap
    x = overlapped(pieces * win * win.sum(), step)
    norm = overlapped(jnp.broadcast_to(win * win, (*pieces.shape[-2:],)), step)
    if boundary:
        inner = slice(nperseg // 2, x.shape[-1] - nperseg // 2)
        x, norm = x[..., inner], norm[..., inner]
    x = x / jnp.where(norm > 1e-10, norm, 1.0).astype(norm.dtype)
    times = jnp.asarray(np.arange(x.shape[0]) / fs, x.real.dtype)
    if x.ndim > 1:
        x = jnp.moveaxis(x, -1, time_axis - (freq_axis < time_axis))
    return times, x


calls.publish(globals(), """
    convolve convolve2d correlate correlate2d csd detrend fftconvolve istft stft welch
""")
