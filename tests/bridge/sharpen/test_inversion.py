"""Image vectors as states of a text encoder, on a small CLIP of random weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import CLIPConfig, CLIPModel

from gramian.bridge.sharpen import prompt_inverse, prompt_states
from gramian.errors import GramianError
from gramian.maps import Dense
from gramian.moments import JointMoments
from gramian.solvers import ridge
from gramian.solvers.invert_head import invert_head


@pytest.fixture(scope="module")
def clip():
    torch.manual_seed(0)
    size = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
    config = CLIPConfig(
        text_config=size
        | {"num_attention_heads": 2, "vocab_size": 50, "max_position_embeddings": 12}
        | {"bos_token_id": 48, "eos_token_id": 49},
        vision_config=size | {"num_attention_heads": 2, "image_size": 8, "patch_size": 4},
        projection_dim=16,
    )
    model = CLIPModel(config).eval()
    ids = torch.randint(0, 48, (400, 6))
    ids[:, 0], ids[:, -1] = 48, 49
    with torch.no_grad():
        states = model.text_model(ids)
    return model, states.pooler_output.double(), states.last_hidden_state


def test_text_to_joint_and_back(clip):
    model, hidden, _ = clip
    weight = model.text_projection.weight.detach()
    joint = hidden @ weight.double().T
    lengths = joint.norm(dim=1)
    back = prompt_inverse(invert_head(weight).map, length=float(lengths.mean()))
    cosine = torch.nn.functional.cosine_similarity(torch.from_numpy(back(joint)), hidden)
    assert float(cosine.min()) > 1 - 1e-6
    unit = joint / lengths[:, None]
    fit = ridge(JointMoments.from_rows(unit[:200], hidden[:200]))
    learned = prompt_inverse(fit.map)(joint[200:])
    cosine = torch.nn.functional.cosine_similarity(torch.from_numpy(learned), hidden[200:])
    assert float(cosine.min()) > 0.9


def test_the_gap_and_lengths(clip):
    _, hidden, _ = clip
    texts = hidden.numpy()
    shift = np.linspace(-1, 1, 16)
    unit = texts / np.linalg.norm(texts, axis=1, keepdims=True)
    images = unit + shift
    inverse = prompt_inverse(
        Dense(torch.eye(16, dtype=torch.float64)), texts=texts, images=images, state_length=27.0
    )
    found = inverse(images)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 27.0)
    plain = (images * unit).sum(1) / np.linalg.norm(images, axis=1)
    assert ((found * unit).sum(1) / 27.0).mean() > plain.mean()
    want = unit.mean(0) - (images / np.linalg.norm(images, axis=1, keepdims=True)).mean(0)
    np.testing.assert_allclose(inverse.gap, want, atol=1e-12)


def test_conditioning_keeps_the_start_token(clip):
    _, hidden, all_states = clip
    start = all_states[0, 0]
    torch.testing.assert_close(all_states[:, 0], start.expand(400, -1))  # causal
    states = prompt_states(hidden[:3], start, 12)
    assert states.shape == (3, 12, 16)
    torch.testing.assert_close(states[:, 0], start.double().expand(3, -1))
    torch.testing.assert_close(states[:, 5], hidden[:3])


def test_refusals():
    eye = Dense(torch.eye(3))
    with pytest.raises(GramianError, match="both or neither"):
        prompt_inverse(eye, texts=np.ones((2, 3)))
    with pytest.raises(GramianError, match="length is 0"):
        prompt_inverse(eye, length=0.0)
    with pytest.raises(GramianError, match="image 1 is a row of zeros"):
        prompt_inverse(eye)(np.array([[1.0, 0, 0], [0, 0, 0]]))
    with pytest.raises(GramianError, match="expected 3"):
        prompt_inverse(eye)(np.ones((2, 4)))
    with pytest.raises(GramianError, match="at least 2"):
        prompt_states(np.ones((1, 3)), np.ones(3), 1)
    with pytest.raises(GramianError, match="start of shape"):
        prompt_states(np.ones((1, 3)), np.ones(4), 5)
