"""Gradient boosted trees over the columns of several parties with the same rows.

`hetero_secureboost` is the component, `guest_tree` and `host_tree` are one tree, `rounds` the
training, `walking` the way of rows through trees, `eini` (with `eini_host` and `regions`)
prediction by sums under encryption, `stored` the model. Sums of gradients are in `sums`.
`leaf_features` is a component that makes features of leaves.
"""
