"""Rows with labels, weights and numeric features; prediction tables: what models read and write."""
