"""FeatureScale online."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedflow.components.features.scale import FeatureScaleParams, read_fits, scaled_values
from fedflow.serving.scoring.batch import Batch, OnlineStep
from fedflow.serving.scoring.registry import StepSource


def feature_scale(source: StepSource) -> OnlineStep:
    """Return the step. Raises: ValueError, BadData: rows and model do not fit."""
    if not source.params(FeatureScaleParams).need_run:
        return OnlineStep(header=source.header)
    method, fits = read_fits(source.stored("ScaleParam"))
    places = source.header.numeric(tuple(fits))
    if method is None or not fits:
        return OnlineStep(header=source.header)
    lower, upper, shift, divisor = np.array([fit.terms(method) for fit in fits.values()]).T

    def scale(batch: Batch) -> Batch:
        features = batch.features.copy()
        features[:, places] = scaled_values(features[:, places], lower, upper, shift, divisor)
        return replace(batch, features=features)

    return OnlineStep(header=source.header.now_whole(tuple(fits), whole=False), work=scale)
