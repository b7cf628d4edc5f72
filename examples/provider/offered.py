"""What this provider offers; `provider.toml` names it."""

from columns import CompareMeans, clip_values
from ridge import RidgeRegression
from rounds import SharedRegression

COMPONENTS = (clip_values, CompareMeans, RidgeRegression, SharedRegression)
