"""CKA of all pairs: from the cross scatters, and one number per site that is worked out once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from gramian.compare.catalogue import Measure
from gramian.compare.pairs import Pairs
from gramian.measures import hsic, standardised
from gramian.measures.varying import varies
from gramian.moments import CrossQuartic, JointMoments, Moments

Similarity = Callable[[JointMoments], float]

_FORMS: dict[str, Similarity] = {
    "cka": lambda joint: hsic(joint),
    "cka_plain": lambda joint: hsic(joint, debiased=False),
    "cka_standardised": lambda joint: hsic(standardised(joint), debiased=False),
}


class Alignment:
    """The alignment measures of one set of pairs, between any two of its sites."""

    def __init__(self, pairs: Pairs, measures: Sequence[Measure]) -> None:
        self.pairs = pairs
        self.forms = {measure.name: _FORMS[measure.name] for measure in measures}
        self._own: dict[str, dict[str, list[float]]] = {}

    def own(self, site: str) -> dict[str, list[float]]:
        """Measure to the similarity of a site to itself, by subset; nan where it does not vary."""
        if site not in self._own:
            subsets = [_with_itself(moments) for moments in self.pairs.site(site)]
            self._own[site] = {
                name: [_value(form, joint) if varies(joint.x) else math.nan for joint in subsets]
                for name, form in self.forms.items()
            }
        return self._own[site]

    def values(self, x: str, y: str) -> dict[str, list[float]]:
        """Measure to its value by subset."""
        if x == y:
            own = self.own(x)
            return {name: [_ratio(v, v, v) for v in values] for name, values in own.items()}
        left, right = self.own(x), self.own(y)
        joints = self.pairs.cross(x, y)
        return {
            name: [
                _ratio(_value(form, joint), a, b)
                for joint, a, b in zip(joints, left[name], right[name], strict=True)
            ]
            for name, form in self.forms.items()
        }


def _with_itself(moments: Moments) -> JointMoments:
    """Joint moments of a site and itself."""
    own = moments.quartic
    quartic = None if own is None else CrossQuartic(own.vector, own.vector, own.square)
    return JointMoments(moments, moments, moments.scatter, quartic)


def _value(form: Similarity, joint: JointMoments) -> float:
    """The similarity; nan where too few rows are left once a fold is taken out."""
    if joint.count < 4:
        return math.nan
    return form(joint)


def _ratio(both: float, x: float, y: float) -> float:
    # CKA = HSIC(x, y) / sqrt(HSIC(x, x) HSIC(y, y)); nan where a side has no spread of its own
    return both / (math.sqrt(x) * math.sqrt(y)) if x > 0 and y > 0 else math.nan
