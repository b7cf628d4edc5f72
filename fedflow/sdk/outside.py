"""What other parties may see of an error, for built-in components that tell them why they end."""

from fedflow.domain.outside import outside_error

__all__ = ["outside_error"]
