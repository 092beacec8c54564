"""Rotations in three dimensions: `jax.scipy.spatial.transform`.

    r = Rotation.from_euler("xyz", [30, 0, 45], degrees=True)
    (r * r.inv()).as_matrix()           # the identity
    Slerp.init([0, 1], Rotation.concatenate([...]))(0.5)

A rotation is a unit quaternion (x, y, z, w); several stand on the axis before.
"""

from typing import Any, NamedTuple

import numpy as np

from ... import numpy as jnp
from ...trace.api import calls
from ...trace.base import names as _names


def of_vectors(signature):
    """Applied to each vector or matrix of a batch, as `jnp.vectorize` does."""
    return lambda function: jnp.vectorize(function, signature=signature)


def checked_axes(seq, counts):
    """(the axes as numbers, whether each turns about the axes turned before)."""
    if len(seq) not in counts:
        allowed = "a string of 3 axes" if counts == (3,) else "1 to 3 axes"
        raise ValueError(f"Expected {allowed}, got {seq}")
    if not (set(seq) <= set("xyz") or set(seq) <= set("XYZ")):
        raise ValueError(
            "Expected axes from `seq` to be from ['x', 'y', 'z'] or "
            f"['X', 'Y', 'Z'], got {seq}"
        )
    if any(x == y for x, y in zip(seq, seq[1:], strict=False)):
        raise ValueError(f"Expected consecutive axes to be different, got {seq}")
    return ["xyz".index(x) for x in seq.lower()], seq.isupper()


class Rotation(NamedTuple):
    """Rotations, as `scipy.spatial.transform.Rotation`.

    Attributes:
      quat: the quaternions (x, y, z, w), [4] or [n, 4].
    """

    quat: Any

    @classmethod
    def concatenate(cls, rotations):
        """Several objects, each of several rotations, as one."""
        return cls(jnp.concatenate([rotation.quat for rotation in rotations]))

    @classmethod
    def from_euler(cls, seq, angles, degrees=False):
        """From angles [..., len(seq)] about axes: xyz fixed ones, XYZ turned ones."""
        axes, turned = checked_axes(seq, (1, 2, 3))
        angles = jnp.atleast_1d(angles)
        angles = jnp.deg2rad(angles) if degrees else angles
        return cls(of_angles(axes, turned)(angles))

    @classmethod
    def from_matrix(cls, matrix):
        """From orthogonal matrices [..., 3, 3]."""
        return cls(quaternion_of_matrix(matrix))

    @classmethod
    def from_mrp(cls, mrp):
        """From modified Rodrigues parameters [..., 3]."""
        return cls(quaternion_of_mrp(mrp))

    @classmethod
    def from_quat(cls, quat):
        """From quaternions [..., 4] of any length."""
        return cls(normalized(quat))

    @classmethod
    def from_rotvec(cls, rotvec, degrees=False):
        """From vectors [..., 3] along the axes, as long as the angles."""
        rotvec = jnp.deg2rad(rotvec) if degrees else rotvec
        return cls(quaternion_of_vector(rotvec))

    @classmethod
    def identity(cls, num=None, dtype=float):
        """The rotation by nothing."""
        if num is not None:
            raise NotImplementedError("Rotation.identity: num must be None, as in JAX")
        return cls(jnp.array([0.0, 0.0, 0.0, 1.0], dtype=dtype))

    def __getitem__(self, indexer):
        if self.single:
            raise TypeError("Single rotation is not subscriptable.")
        return Rotation(self.quat[indexer])

    def __len__(self):
        if self.single:
            raise TypeError("Single rotation has no len().")
        return self.quat.shape[0]

    def __mul__(self, other):
        """First the other one, then this one."""
        return Rotation.from_quat(composed(self.quat, other.quat))

    def apply(self, vectors, inverse=False):
        """The vectors [..., 3] rotated."""
        matrix = self.as_matrix()
        return rotated(jnp.swapaxes(matrix, -1, -2) if inverse else matrix, vectors)

    def as_euler(self, seq, degrees=False):
        """Angles [..., 3]: see `from_euler`."""
        axes, turned = checked_axes(seq, (3,))
        angles = angles_of(axes, turned)(self.quat)
        return jnp.rad2deg(angles) if degrees else angles

    def as_matrix(self):
        """Orthogonal matrices [..., 3, 3]."""
        return matrix_of(self.quat)

    def as_mrp(self):
        """Modified Rodrigues parameters [..., 3]."""
        return mrp_of(self.quat)

    def as_rotvec(self, degrees=False):
        """Vectors [..., 3] along the axes, as long as the angles."""
        vector = vector_of(self.quat)
        return jnp.rad2deg(vector) if degrees else vector

    def as_quat(self, canonical=False, scalar_first=False):
        """Quaternions [..., 4]; canonical: with a last part that is not negative."""
        quat = canonical_of(self.quat) if canonical else self.quat
        return jnp.roll(quat, 1, axis=-1) if scalar_first else quat

    def inv(self):
        """The rotations back."""
        return Rotation(self.quat * np.array([-1, -1, -1, 1], self.quat.dtype))

    def magnitude(self):
        """The angles, from 0 to pi."""
        return magnitude_of(self.quat)

    def mean(self, weights=None):
        """The rotation in the middle of several."""
        dtype, n = self.quat.dtype, self.quat.shape[0]
        w = jnp.ones(n, dtype) if weights is None else jnp.asarray(weights, dtype)
        if w.ndim != 1:
            raise ValueError(
                f"Expected `weights` to be 1 dimensional, got shape {w.shape}."
            )
        if w.shape[0] != len(self):
            raise ValueError(
                "Expected `weights` to have number of values equal to number of "
                f"rotations, got {w.shape[0]} values and {len(self)} rotations."
            )
        _, v = jnp.linalg.eigh((w[None, :] * self.quat.T) @ self.quat)
        return Rotation(v[:, -1])

    @property
    def single(self):
        """Whether it is one rotation without an axis of several."""
        return self.quat.ndim == 1


class Slerp(NamedTuple):
    """Rotations between given ones, at even speed: made by `Slerp.init`.

    Attributes:
      times: of the given rotations; timedelta: from each to the next.
      rotations: all but the last one; rotvecs: from each to the next.
    """

    times: Any
    timedelta: Any
    rotations: Rotation
    rotvecs: Any

    @classmethod
    def init(cls, times, rotations):
        """Between rotations at increasing times [n]."""
        if not isinstance(rotations, Rotation):
            raise TypeError("`rotations` must be a `Rotation` instance.")
        if rotations.single or len(rotations) == 1:
            raise ValueError("`rotations` must be a sequence of at least 2 rotations.")
        times = jnp.asarray(times, dtype=rotations.quat.dtype)
        if times.ndim != 1:
            raise ValueError(
                "Expected times to be specified in a 1 dimensional array, got "
                f"{times.ndim} dimensions."
            )
        if times.shape[0] != len(rotations):
            raise ValueError(
                "Expected number of rotations to be equal to number of timestamps given"
                f", got {len(rotations)} rotations and {times.shape[0]} timestamps."
            )
        first, then = Rotation(rotations.quat[:-1]), Rotation(rotations.quat[1:])
        return cls(times, jnp.diff(times), first, (first.inv() * then).as_rotvec())

    def __call__(self, times):
        """The rotations at some times, [] or [m]."""
        times = jnp.asarray(times, dtype=self.times.dtype)
        if times.ndim > 1:
            raise ValueError("`times` must be at most 1-dimensional.")
        at = jnp.atleast_1d(times)
        i = jnp.maximum(jnp.searchsorted(self.times, at) - 1, 0)
        share = (at - self.times[i]) / self.timedelta[i]
        more = Rotation.from_rotvec(self.rotvecs[i] * share[:, None])
        result = self.rotations[i] * more
        return result if times.ndim else result[0]


# ---- quaternions


def length(x):
    return jnp.sqrt(jnp.dot(x, x))


@of_vectors("(n)->(n)")
def normalized(quat):
    return quat / length(quat)


@of_vectors("(n),(n)->(n)")
def composed(p, q):
    vector = p[3] * q[:3] + q[3] * p[:3] + jnp.cross(p[:3], q[:3])
    return jnp.append(vector, p[3] * q[3] - jnp.dot(p[:3], q[:3]))


@of_vectors("(m,m),(m)->(m)")
def rotated(matrix, vector):
    return matrix @ vector


@of_vectors("(m)->(n,n)")
def matrix_of(quat):
    x, y, z, w = quat
    return jnp.array([
        [x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), y * y - x * x - z * z + w * w, 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), z * z - x * x - y * y + w * w],
    ])  # fmt: skip


@of_vectors("(m,m)->(n)")
def quaternion_of_matrix(m):
    """By the largest part of the quaternion, by which the others are divided."""
    trace = m[0, 0] + m[1, 1] + m[2, 2]

    def largest_is(i):
        j, k = (i + 1) % 3, (i + 2) % 3
        parts = dict(
            zip((i, j, k), (1 - trace + 2 * m[i, i], m[j, i] + m[i, j],
                            m[k, i] + m[i, k]), strict=True)
        )  # fmt: skip
        return jnp.stack([*(parts[d] for d in range(3)), m[k, j] - m[j, k]])

    turned = m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]
    choices = jnp.stack([*map(largest_is, range(3)), jnp.stack([*turned, 1 + trace])])
    largest = jnp.argmax(jnp.stack([m[0, 0], m[1, 1], m[2, 2], trace]))
    return normalized(choices[largest])


@of_vectors("(m)->(n)")
def mrp_of(quat):
    sign = jnp.where(quat[3] < 0, -1.0, 1.0).astype(quat.dtype)
    return sign * quat[:3] / (1 + sign * quat[3])


@of_vectors("(m)->(n)")
def quaternion_of_mrp(mrp):
    square = jnp.dot(mrp, mrp) + 1
    return jnp.append(2 * mrp, 2 - square) / square


@of_vectors("(m)->(n)")
def vector_of(quat):
    quat = jnp.where(quat[3] < 0, -quat, quat)
    angle = 2 * jnp.arctan2(length(quat[:3]), quat[3])
    small = 2 + angle**2 / 12 + 7 * angle**4 / 2880
    return jnp.where(angle <= 1e-3, small, angle / jnp.sin(angle / 2)) * quat[:3]


@of_vectors("(m)->(n)")
def quaternion_of_vector(vector):
    angle = length(vector)
    small = 0.5 - angle**2 / 48 + angle**4 / 3840
    scale = jnp.where(angle <= 1e-3, small, jnp.sin(angle / 2) / angle)
    return jnp.append(scale * vector, jnp.cos(angle / 2))


@of_vectors("(n)->()")
def magnitude_of(quat):
    return 2 * jnp.arctan2(length(quat[:3]), jnp.abs(quat[3]))


@of_vectors("(n)->(n)")
def canonical_of(quat):
    x, y, z, w = quat
    zero, negative = (quat == 0), (quat < 0)
    flips = negative[2]
    for part in (1, 0, 3):
        flips = negative[part] | (zero[part] & flips)
    return jnp.where(flips, -quat, quat)


def of_angles(axes, turned):
    """A function of vectors of angles about these axes."""

    def one(angles):
        result = None
        for axis, angle in zip(axes, angles, strict=True):
            half, zero = angle / 2, jnp.zeros_like(angle / 2)
            parts = [zero, zero, zero, jnp.cos(half)]
            parts[axis] = jnp.sin(half)
            quat = jnp.stack(parts)
            if result is not None:
                quat = composed(*(result, quat) if turned else (quat, result))
            result = quat
        return result

    return jnp.vectorize(one, signature="(m)->(n)")


def angles_of(axes, turned):
    """A function of quaternions: Bernardes and Viollet, 2022."""
    i, j, k = reversed(axes) if turned else axes
    symmetric = i == k
    k = 3 - i - j if symmetric else k
    sign = (i - j) * (j - k) * (k - i) // 2

    def one(quat):
        x, y, z, w = quat[i], quat[j], quat[k] * sign, quat[3]
        a, b, c, d = (w, x, y, z) if symmetric else (w - y, x + z, y + w, z - x)
        middle = 2 * jnp.arctan2(jnp.hypot(c, d), jnp.hypot(a, b))
        total, difference = jnp.arctan2(b, a), jnp.arctan2(d, c)
        # Where the first and the last axis coincide, the last angle is 0.
        at_zero, at_pi = jnp.abs(middle) <= 1e-7, jnp.abs(middle - np.pi) <= 1e-7
        degenerate = at_zero | at_pi
        only = jnp.where(at_zero, 2 * total, 2 * difference * (1 if turned else -1))
        first = jnp.where(degenerate, only, total - difference)
        last = jnp.where(degenerate, 0, total + difference)
        if turned:
            first, last = (
                jnp.where(degenerate, only, total + difference),
                jnp.where(degenerate, 0, total - difference),
            )
        if not symmetric:
            middle = middle - np.pi / 2
            first, last = (first * sign, last) if turned else (first, last * sign)
        angles = jnp.stack([first, middle, last])
        return (angles + np.pi) % (2 * np.pi) - np.pi

    return jnp.vectorize(one, signature="(m)->(n)")


calls.explain_methods("Rotation", Rotation)
calls.explain_methods("Slerp", Slerp, ["init", "__call__"])
_names.publish(globals(), "Rotation Slerp")
