"""Folders with structured modules, loaded by transformers in a process that has no Gramian."""

from __future__ import annotations

import ast
import copy
import json
import os
import pickle
import shutil
import subprocess
import sys

import pytest
import torch

from gramian.errors import GramianError
from gramian.maps import LowRank
from gramian.networks import Plan, SplitLinear, apply
from gramian.networks import open as open_checkpoint
from gramian.networks.certificate import outputs_of
from gramian.networks.structures import load_with_own_code
from tests import tiny

FAMILIES = ("llama", "qwen2", "gpt2", "gemma2", "mixtral")
TOKENS = 10
ELSEWHERE = """
import json, sys
sys.modules["gramian"] = None  # importing it raises ImportError
import torch
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoTokenizer

torch.set_num_threads(1)
ids = torch.tensor(json.loads(sys.argv[1]))
for folder in sys.argv[2:]:
    config = AutoConfig.from_pretrained(folder, trust_remote_code=True)
    found = {}
    def run(name, model):
        with torch.no_grad():
            found[name] = model(ids, use_cache=False).logits.float()
        return model
    load = AutoModelForCausalLM.from_pretrained
    model = run("whole", load(folder, trust_remote_code=True))
    found["generated"] = model.generate(ids, max_new_tokens=TOKENS, do_sample=False)
    run("device map", load(folder, trust_remote_code=True, device_map="cpu"))
    narrow = run("bfloat16", load(folder, trust_remote_code=True, dtype="bfloat16"))
    assert all(p.dtype == torch.bfloat16 for p in narrow.parameters())
    # Saved once more, in shards, from a network that own code made.
    model.save_pretrained(folder + "-again", max_shard_size="20KB")
    run("again", load(folder + "-again", trust_remote_code=True))
    base = AutoModel.from_pretrained(folder, trust_remote_code=True)
    with torch.no_grad():
        found["hidden"] = base(ids, use_cache=False).last_hidden_state
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
    found["text"] = torch.tensor(tokenizer("w1 w2")["input_ids"])
    # Random weights from the configuration alone.
    AutoModelForCausalLM.from_config(config, trust_remote_code=True)
    torch.save(found, folder + "/found.pt")
"""


def split(source, out, *, rank=5):
    """One projection of the attention and one of the MLP as factors; not in every layer."""
    layers = source.blueprint.layers
    names = [layers[1].readers[0].matrix, layers[2].readers[0].matrix]
    names += [w.matrix for w in layers[1].outputs if not w.matrix.is_experts]
    moves = []
    for matrix in names:
        weight = source.model.get_parameter(matrix.weight).double()
        u, s, v = torch.linalg.svd(weight.T if matrix.inputs_first else weight, full_matrices=False)
        moves.append(SplitLinear(matrix.weight, LowRank(u[:, :rank] * s[:rank], v[:rank])))
    return apply(source, Plan.of(source, *moves), out)


@pytest.fixture(scope="module")
def elsewhere(checkpoint, tmp_path_factory):
    """Family -> the folder, its certificate, and what a process without Gramian found in it."""
    place = tmp_path_factory.mktemp("own")
    certificates = {family: split(checkpoint(family), place / family) for family in FAMILIES}
    folders = [str(place / family) for family in FAMILIES]
    script = ELSEWHERE.replace("TOKENS", str(TOKENS))
    environment = os.environ | {
        "HF_MODULES_CACHE": str(place / "modules"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HF_HUB_OFFLINE": "1",
    }
    command = [sys.executable, "-I", "-c", script, json.dumps(tiny.ids().tolist()), *folders]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {
        family: (place / family, certificates[family], torch.load(place / family / "found.pt"))
        for family in FAMILIES
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_transformers_computes_the_same_without_gramian(elsewhere, family):
    folder, certificate, found = elsewhere[family]
    expected = outputs_of(open_checkpoint(folder).model, tiny.ids()).float()
    scale = expected.abs().max()
    for name in ("whole", "device map", "again"):
        assert (found[name] - expected).abs().max() < 1e-5 * scale, name
    assert (found["bfloat16"] - expected).abs().max() < 0.1 * scale
    assert found["text"].tolist() == tiny.tokenizer()("w1 w2")["input_ids"]
    tried = "loaded again with the folder's code (trust_remote_code=True) and compared"
    assert certificate.loads_in["transformers"] == tried


@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_tokens_are_generated(elsewhere, family):
    folder, _, found = elsewhere[family]
    model = open_checkpoint(folder).model
    ours = model.generate(tiny.ids(), max_new_tokens=TOKENS, do_sample=False)
    assert found["generated"].shape[1] > tiny.ids().shape[1]
    assert torch.equal(found["generated"], ours)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_base_model_has_the_structures_too(elsewhere, family):
    """What vLLM loads: ``auto_map.AutoModel``."""
    folder, _, found = elsewhere[family]
    model = open_checkpoint(folder).model
    with torch.no_grad():
        expected = model.base_model(tiny.ids(), use_cache=False).last_hidden_state
    torch.testing.assert_close(found["hidden"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_gramian_opens_what_transformers_saved(elsewhere, family):
    """In shards, and with the mark and the code that came along."""
    folder, _, _ = elsewhere[family]
    again = folder.with_name(f"{folder.name}-again")
    assert len(list(again.glob("*.safetensors"))) > 1
    first, second = (outputs_of(open_checkpoint(f).model, tiny.ids()) for f in (folder, again))
    assert torch.equal(first, second)
    assert sorted(f.name for f in again.glob("*.py")) == sorted(f.name for f in folder.glob("*.py"))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_code_needs_torch_and_transformers_alone(elsewhere, family):
    folder, _, _ = elsewhere[family]
    files = sorted(folder.glob("*.py"))
    assert [f.name for f in files] == ["configuration_gramian.py", "modeling_gramian.py"]
    needed = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                needed |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                needed.add(str(node.module).partition(".")[0])
    assert needed - set(sys.stdlib_module_names) == {"torch", "transformers"}
    assert not (folder / "__pycache__").exists()


def test_opening_runs_no_code_of_the_folder(elsewhere, tmp_path):
    folder = shutil.copytree(elsewhere["llama"][0], tmp_path / "hostile")
    for file in folder.glob("*.py"):
        file.write_text("raise SystemExit('code of the folder was run')")
    opened = open_checkpoint(folder)
    assert outputs_of(opened.model, tiny.ids()).isfinite().all()
    assert opened.tokenizer("w1")["input_ids"]
    with pytest.raises(SystemExit):
        load_with_own_code(folder, "AutoModelForCausalLM", torch.float32)


def test_opening_spreads_over_devices(elsewhere):
    folder, _, found = elsewhere["llama"]
    model = open_checkpoint(folder, device_map={"": "cpu"}).model
    assert (outputs_of(model, tiny.ids()) - found["whole"]).abs().max() < 1e-4


def test_own_code_that_computes_something_else_is_caught(checkpoint, tmp_path, monkeypatch):
    from gramian.networks.structures import own_code

    wrong = own_code._body
    monkeypatch.setattr(
        own_code,
        "_body",
        lambda m: wrong(m).replace("self.up(self.down(x))", "-self.up(self.down(x))"),
    )
    with pytest.raises(GramianError, match="differs from the intended network"):
        split(checkpoint(), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_network_that_code_cannot_name_is_refused(checkpoint, tmp_path, monkeypatch):
    import transformers

    source = checkpoint()
    monkeypatch.setattr(transformers, "LlamaConfig", None)
    with pytest.raises(GramianError, match="transformers has no LlamaConfig"):
        split(source, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_modules_with_factors_are_of_another_class(elsewhere):
    """vLLM decides by class which projections it fuses, from one module of the class."""
    folder, _, _ = elsewhere["llama"]
    model = open_checkpoint(folder).model
    plain, factored, other = (layer.self_attn for layer in model.model.layers)
    assert type(plain) is not type(factored)
    assert type(factored) is not type(other)
    assert issubclass(type(factored), type(plain))
    assert type(factored).__name__ == type(plain).__name__
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model.model.layers))):
        layer = (copied.model.layers if hasattr(copied, "model") else copied)[1]
        assert type(layer.self_attn) is type(factored)
        assert torch.equal(layer.self_attn.o_proj.up.weight, factored.o_proj.up.weight)


def test_factors_are_linears_that_quantizers_see(elsewhere):
    folder, _, _ = elsewhere["llama"]
    model = load_with_own_code(folder, "AutoModelForCausalLM", torch.float32)
    plain = {name for name, m in model.named_modules() if type(m) is torch.nn.Linear}
    assert {"model.layers.1.self_attn.o_proj.down", "model.layers.1.self_attn.o_proj.up"} < plain


@pytest.mark.parametrize(
    ("modules", "message"),
    [
        (None, "expected path"),
        ({"model.layers.1.mlp.up_proj": {"kind": "factors", "rank": -1}}, "of 1 or more"),
        ({"model.layers.1.mlp.up_proj": {"kind": "factors", "rank": 10**12}}, "at most 32"),
        ({"model.layers.7.mlp.up_proj": {"kind": "factors", "rank": 1}}, "has no module"),
        ({"model.embed_tokens": {"kind": "factors", "rank": 1}}, "a Embedding, expected a linear"),
        ({"../up_proj": {"kind": "factors", "rank": 1}}, "no path of a module"),
    ],
)
@pytest.mark.parametrize("auto", ["AutoModel", "AutoModelForCausalLM"])
def test_own_code_refuses_damaged_marks(elsewhere, tmp_path, modules, message, auto):
    folder = shutil.copytree(elsewhere["llama"][0], tmp_path / "damaged")
    config = json.loads((folder / "config.json").read_text())
    config["gramian"]["modules"] = modules
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=message):
        load_with_own_code(folder, auto, torch.float32)
    del config["gramian"]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="no valid entry 'gramian'"):
        load_with_own_code(folder, auto, torch.float32)
