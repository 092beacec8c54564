"""Linear systems by lineax: solved, under jit and vmap, and differentiated."""

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx

matrix = jnp.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]])
tall = jnp.array([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]])
b = jnp.array([1.0, 2.0, 3.0])
systems = {
    "LU": (lx.MatrixLinearOperator(matrix), lx.LU()),
    "Cholesky": (lx.MatrixLinearOperator(matrix, lx.positive_semidefinite_tag),
                 lx.Cholesky()),
    "Diagonal": (lx.DiagonalLinearOperator(b), lx.Diagonal()),
    "QR": (lx.MatrixLinearOperator(tall), lx.QR()),
    "SVD": (lx.MatrixLinearOperator(tall), lx.SVD()),
    "CG": (lx.MatrixLinearOperator(matrix, lx.positive_semidefinite_tag),
           lx.CG(1e-6, 1e-6)),
    "GMRES": (lx.MatrixLinearOperator(matrix), lx.GMRES(1e-6, 1e-6)),
}
for name, (operator, solver) in systems.items():

    def solve(operator, b, solver=solver):
        return lx.linear_solve(operator, b, solver).value

    def loss(operator, b=b, solve=solve):
        return jnp.sum(solve(operator, b) ** 2)

    print(name, solve(operator, b), eqx.filter_jit(solve)(operator, b))
    lanes = jax.vmap(lambda v, s=solve, op=operator: s(op, v))
    print(name, "vmap", lanes(jnp.stack([b, 2 * b])))
    print(name, "grad", jax.tree.leaves(eqx.filter_grad(loss)(operator)))
    print(name, "jvp", jax.jvp(lambda v, s=solve, op=operator: s(op, v), (b,), (b,)))

jacobian = lx.JacobianLinearOperator(lambda y, args: y**2 + y[::-1], b)
product = jacobian @ jacobian.T + lx.IdentityLinearOperator(jacobian.in_structure())
print("composed", product.as_matrix(), lx.linearise(product).mv(b))
