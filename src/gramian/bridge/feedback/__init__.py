"""Sparse feedback: recommenders from the item Gram, and the baselines they have to beat."""

from gramian.bridge.feedback.baselines import Popularity, Random
from gramian.bridge.feedback.estimator import Ease
from gramian.bridge.feedback.gram import ItemGram, inverse_propensity

__all__ = ["Ease", "ItemGram", "Popularity", "Random", "inverse_propensity"]
