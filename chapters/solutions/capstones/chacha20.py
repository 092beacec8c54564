"""Solutions to the capstone chacha20.ipynb."""

import numpy as np

import minijit as mj
import minijit.numpy as jnp
from minijit.compile.lower.walk import lower
from minijit.compile.simplify.folding import simplify

DIAGONALS = np.array([[0, 1, 2, 3], [5, 6, 7, 4], [10, 11, 8, 9], [15, 12, 13, 14]])
BACK = np.argsort(DIAGONALS.ravel()).reshape(4, 4)


def rotated(x, n):
    return (x << np.uint32(n)) | (x >> np.uint32(32 - n))


def quarter_round(column):
    a, b, c, d = column
    for first, second in [(16, 12), (8, 7)]:
        a = a + b
        d = rotated(d ^ a, first)
        c = c + d
        b = rotated(b ^ c, second)
    return jnp.array([a, b, c, d])


def block_function(permute, rounds=10):
    columns = mj.vmap(quarter_round, in_axes=1, out_axes=1)

    def block(state):
        m = state
        for _ in range(rounds):
            m = permute(columns(m), DIAGONALS)
            m = permute(columns(m), BACK)
        return m + state

    return block


def states(n, key, nonce):
    state = np.zeros((n, 16), "u4")
    state[:, :4] = np.frombuffer(b"expand 32-byte k", "<u4")
    state[:, 4:12] = np.frombuffer(key, "<u4")
    state[:, 12] = np.arange(n)
    state[:, 13:] = np.frombuffer(nonce, "<u4")
    return state.reshape(n, 4, 4)


def kernel_count(permute):
    f = mj.vmap(block_function(permute))
    shapes = mj.ShapeDtypeStruct((8, 4, 4), np.uint32)
    return len(lower(simplify(mj.make_jaxpr(f)(shapes))).body)


def check_kernel_count(kernel_count):
    """`kernels` of this capstone counts; eight states are `states(8)`."""
    assert kernel_count(lambda m, places: jnp.take(m, places)) == 1
    assert kernel_count(lambda m, places: m) == 1
    rolls = lambda m, places: jnp.stack([jnp.roll(row, i) for i, row in enumerate(m)])
    assert kernel_count(rolls) == 1


def encrypt(message, key, nonce):
    n = -(-len(message) // 64)
    f = mj.jit(mj.vmap(block_function(lambda m, places: jnp.take(m, places))))
    stream = np.asarray(f(states(n + 1, key, nonce)))[1:].astype("<u4")
    given = np.frombuffer(message, "u1")
    return (given ^ stream.view("u1").ravel()[: len(message)]).tobytes()


def check_encrypt(encrypt):
    """`states(n + 1, key, nonce)[1:]` are the states of blocks 1 to n."""
    key, nonce = bytes(range(32)), bytes.fromhex("000000000000004a00000000")
    text = (
        b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip "
        b"for the future, sunscreen would be it."
    )
    hidden = encrypt(text, key, nonce)
    assert hidden[:16] == bytes.fromhex("6e2e359a2568f98041ba0728dd0d6981")
    assert hidden[-8:] == bytes.fromhex("0bbf74a35be6b40b8eedf2785e42874d")[8:]
    assert encrypt(hidden, key, nonce) == text
