"""A small sample of `python -m tests.fuzz`, and a fresh one."""

import os

import numpy as np
import pytest
from harness import refused
from referee import kept, source_of

import minijit as mj

pytestmark = [pytest.mark.chapter(16), pytest.mark.oracle]


SAMPLES = [("odd", 0, 12), ("real", 0, 5), ("idioms", 0, 6)]


def judged(mode, seed, count, any_way=False):
    from tests.fuzz.judge import Judge, in_any_way
    from tests.fuzz.programs import draw

    judge, right = Judge(jit=in_any_way if any_way else None), 0
    for index in range(count):
        program = draw(mode, seed, index)
        try:
            right += bool(judge(program))
        except Exception as error:
            where = f"python -m tests.fuzz --only {program.name}"
            where += " --any-way" * any_way
            raise AssertionError(f"{where}\n{program.text}") from error
    return right, judge.calls


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode, seed, count", SAMPLES)
def test_a_fixed_sample(mode, seed, count):
    right, calls = judged(mode, seed, count)
    assert right >= count - 3
    assert calls >= 4 * right


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("any_way", [False, True])
def test_a_fresh_sample(any_way):
    """Its seed is in the message: it names the program, and prints it."""
    assert judged("odd", int.from_bytes(os.urandom(3), "big"), 6, any_way)[0] >= 3


@pytest.mark.filterwarnings("ignore")
def test_every_idiom_is_a_program_of_jax(monkeypatch):
    """Of three tries of each, with other sizes, dtypes and spellings."""
    from tests.fuzz import idioms
    from tests.fuzz.programs import namespace

    def accepted():
        """How many texts of each row jax takes."""
        import jax

        taken = dict.fromkeys(texts, 0)
        for row in texts:
            for text in texts[row]:
                try:
                    names = namespace(text, jax)
                    jax.eval_shape(names["run"], *names["arguments"])
                    taken[row] += 1
                except (TypeError, ValueError):
                    pass
        return taken

    texts = {}
    for row in (table := idioms.table()):
        monkeypatch.setattr(idioms, "table", lambda row=row: [row])
        tries = [idioms.attempt(np.random.default_rng(k), "tried") for k in range(3)]
        texts[repr(row)] = [one.text for one in tries]
    taken = kept(f"{texts}\n{source_of(namespace, accepted)}", accepted)
    assert [row for row in texts if taken[row] < 2] == []
    assert len({family for family, *_ in table}) > 20


def test_the_judge_takes_what_is_nearer_to_64_bits():
    """jax without its optimizations is an ulp off in tanh, and a gradient shows it."""
    from tests.fuzz.judge import Judge

    judge = Judge()
    reference = lambda x: np.exp(x)
    x = np.linspace(0, 1, 5, dtype="f4")
    exact = np.exp(x.astype("f8"))
    near, far = (exact + 1e-7).astype("f4"), (exact + 1e-3).astype("f4")
    assert judge.nearer([near], [far], reference, [x]) == [True]
    assert judge.nearer([far], [near], reference, [x]) == [False]


def test_what_may_be_off_follows_the_narrowest_dtype_on_the_way():
    """A float64 result that went through float32 is as good as float32; no other is."""
    from tests.fuzz.judge import alike
    from tests.fuzz.programs import total_of

    exact, through = [np.ones(3)], [np.ones(3) + 1e-7]
    assert alike('x.astype("float32").astype(x.dtype)', through, exact)
    assert not alike(f'argument((3,), "float64", 0){total_of(True)}', through, exact)


def test_the_judge_knows_what_rounding_does_on_the_way():
    """Every value moves, not the arguments alone: a sum of whole numbers is rounded."""
    import jax

    from tests.fuzz.judge import Judge, Wrong

    x, judge = np.arange(1, 50_001, dtype="i4") % 97, Judge()
    plain = lambda x: jax.numpy.cos(x.mean() * 1e6)
    wanted = np.cos(np.float32(x.mean() * 1e6))
    judged = lambda a, f: judge.agree([a], [wanted], jax.jit(f), f, [x], "jit", "")
    judged(wanted * np.float32(0.999), plain)
    with pytest.raises(Wrong, match="if values move"):
        judged(wanted * np.float32(0.999), lambda x: jax.numpy.float32(wanted))
    # A product that was infinite on the way is compared where it is not.
    long = np.full(2000, 1.5, "f4")
    plain = lambda x: jax.numpy.angle(jax.numpy.cumprod(x)[::-1] + 0j)
    wanted, found = np.zeros(2000, "f4"), np.zeros(2000, "f4")
    found[7] = np.nan
    judge.agree([found], [wanted], jax.jit(plain), plain, [long], "jit", "")
    found[1999] = 0.1
    with pytest.raises(Wrong):
        judge.agree([found], [wanted], jax.jit(plain), plain, [long], "jit", "")


def test_the_judge_sees_a_wrong_number_and_a_drift(monkeypatch):
    pytest.importorskip("jax")
    from tests.fuzz.judge import Judge, Wrong
    from tests.fuzz.programs import Program

    text = "run = lambda x: x.at[3].add(1)\narguments = [np.ones(2000, 'f4')]\n"
    program = Program("by hand", text, False, "forward")
    assert Judge()(program)
    real, calls = mj.jit, []

    def falsified(wrong_from):
        def jit(f):
            made = real(f)

            def call(x):
                calls.append(x)
                return made(x) + (np.float32(0.01) * (len(calls) >= wrong_from))

            return call

        return jit

    for wrong_from, message in [(1, "jit, result 0"), (2, "is not the first answer")]:
        calls.clear()
        monkeypatch.setattr(mj, "jit", falsified(wrong_from))
        refused(Wrong, message, lambda: Judge()(program))
