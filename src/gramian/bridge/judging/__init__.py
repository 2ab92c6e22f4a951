"""Judge a bridge against keeping the old model and against re-embedding everything."""

from gramian.bridge.judging.bootstrap import Bootstrap, Interval
from gramian.bridge.judging.hubs import csls, hubness
from gramian.bridge.judging.judgement import MEASURES, SYSTEMS, Figures, Judgement
from gramian.bridge.judging.relevance import read_qrels
from gramian.bridge.judging.shift import ScoreCalibration, ScoreShift, score_shift
from gramian.bridge.judging.systems import judge
from gramian.bridge.judging.verdict import VERDICTS, Verdict, decide

__all__ = [
    "MEASURES",
    "SYSTEMS",
    "VERDICTS",
    "Bootstrap",
    "Figures",
    "Interval",
    "Judgement",
    "ScoreCalibration",
    "ScoreShift",
    "Verdict",
    "csls",
    "decide",
    "hubness",
    "judge",
    "read_qrels",
    "score_shift",
]
