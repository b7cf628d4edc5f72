"""Sums over many parties of which nobody sees a part: one round, for all components that add.

Pure: `SumPlan`, `SecureMember` and `SecureSum` take and return messages; the caller moves them.
"""
