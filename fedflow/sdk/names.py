"""Rules for texts that become names."""

from fedflow.domain.data.table_names import has_control

__all__ = ["has_control"]
