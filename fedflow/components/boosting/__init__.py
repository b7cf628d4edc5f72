"""Gradient boosted trees over the columns of several parties with the same rows.

`hetero_secureboost` is the component, `growing` one tree, `rounds` the training, `walking` the way
of rows through trees, `eini` the other one (with `regions`), `stored` the model. Sums under
encryption are in `sums`.
"""
