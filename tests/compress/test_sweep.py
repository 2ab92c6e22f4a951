"""A sweep says of every method what making and reading its model says."""

from __future__ import annotations

import json

import pytest
import torch

from gramian import compress
from gramian.errors import GramianError
from gramian.evaluate import perplexity, read
from gramian.networks import apply, realise
from gramian.networks import open as open_checkpoint
from gramian.report.sections.compress_sweep import compress_sweep_section
from tests.compress.narrowed import moments_of, opened

IDS = torch.randint(3, 90, (160,), generator=torch.Generator().manual_seed(0))
TEXT = {"length": 32, "windows": 4}


class Everything:
    @staticmethod
    def needs(checkpoint):
        jobs = (compress.depth, compress.mlp, compress.heads, compress.slicing, compress.kv)
        needs = compress.rank.needs(checkpoint)
        for job in jobs:
            needs = needs + job.needs(checkpoint)
        return needs


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return opened(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def trials(checkpoint):
    moments = moments_of(checkpoint, Everything)
    return list(compress.sweep(checkpoint, moments, IDS, keep=(0.75,), **TEXT))


def test_every_method_is_there_and_was_made(trials):
    assert trials[0].job == "none"
    assert (trials[0].size_ratio, trials[0].agreement) == (1, 1)
    jobs = {trial.job for trial in trials[1:]}
    assert jobs == {"depth", "mlp", "heads", "slice", "rank", "kv"}
    for trial in trials[1:]:
        assert trial.perplexity is not None, trial
        assert 0 <= trial.agreement <= 1
    by = {(trial.job, trial.method): trial for trial in trials}
    assert by["mlp", "refit"].size_ratio < 1
    assert by["kv", "palu"].kv_ratio == pytest.approx(0.75, abs=0.05)
    json.dumps([trial.to_json() for trial in trials], allow_nan=False)


def test_it_is_what_the_written_checkpoint_says(checkpoint, trials, tmp_path):
    plan = compress.mlp.plan(checkpoint, moments_of(checkpoint, compress.mlp), keep=0.75)
    apply(checkpoint, plan, tmp_path / "out")
    written = open_checkpoint(tmp_path / "out").model
    found = next(trial for trial in trials if (trial.job, trial.method) == ("mlp", "refit"))
    assert perplexity(written, IDS, **TEXT).perplexity == pytest.approx(found.perplexity, rel=1e-5)
    again = realise(checkpoint, plan)
    assert read(again, IDS, **TEXT).agreement(read(written, IDS, **TEXT)) == 1


def test_what_cannot_be_made_says_why(checkpoint):
    moments = moments_of(checkpoint, compress.mlp)
    found = list(
        compress.sweep(checkpoint, moments, IDS, jobs=("mlp", "depth"), keep=(0.5,), **TEXT)
    )
    notes = {(trial.job, trial.method): trial.note for trial in found}
    assert "--for depth" in notes["depth", "replace"]
    assert notes["mlp", "refit"] == ""
    section = compress_sweep_section([trial.to_json() for trial in found], command="x")
    assert any("--for depth" in warning for warning in section.warnings)
    assert len(section.figures) == 1


@pytest.mark.parametrize(
    "change, message",
    [({"jobs": ("width",)}, "job 'width'"), ({"keep": (1.5,)}, "keep is 1.5")],
)
def test_refusals(checkpoint, change, message):
    moments = moments_of(checkpoint, compress.mlp)
    with pytest.raises(GramianError, match=message):
        list(compress.sweep(checkpoint, moments, IDS, **change, **TEXT))
