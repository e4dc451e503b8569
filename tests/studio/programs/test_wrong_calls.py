"""Wrong calls of what `pmsacl_studio` offers: each sentence names the argument, what came, and what is wanted."""

# ruff: noqa: E501 (each call is one line)

from __future__ import annotations

import copy
import re
from typing import Any

import numpy as np
import pytest
import torch
from pmsacl_studio import PMSACL, AnomalyDetector, MedMix, PMSACLLoss, Screen, Studio, draw_case, pmsacl_loss

from tests.conftest import ARCH, plain_folder

PIXELS = np.zeros((4, 32, 32, 3), np.uint8)
X = torch.rand(4, 3, 32, 32)
Z, LABELS, PARTNERS, CENTRES = (
    torch.randn(4, 8),
    torch.tensor([0, 1, 0, 1]),
    torch.tensor([2, 3, 0, 1]),
    torch.eye(2, 8),
)
LOSS = PMSACLLoss(CENTRES)


def made(**changes: Any) -> PMSACL:
    return PMSACL(ARCH, **{"k": 1, "preset": "quick", "size": 32, **changes})


@pytest.fixture(scope="module")
def model() -> PMSACL:
    return made()


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    """A studio with a study of 24 and 12 images, an encoder and a fit, which was not scored."""
    tmp = tmp_path_factory.mktemp("studio")
    with Studio(tmp / "home", "cpu") as studio:
        studio.study = studio.import_folder("tiny", plain_folder(tmp / "images"))
        studio.encoder = studio.pretrained(studio.study, ARCH, 32, init="random")
        studio.run = studio.fit(studio.encoder, "padim", channels=20)
        yield studio


AS_IMAGES = "images are uint8 or floats from 0 to 1"
FREE = {  # call: what its sentence holds
    "MedMix(preset)": (lambda: MedMix(preset="none"), "unknown MedMix preset 'none'; choose from: .*quick"),
    "MedMix(k)": (lambda: MedMix(k=99), "k must be within 1..*not 99"),
    "MedMix(seed)": (lambda: MedMix(seed=-1), "seed must be a whole number of 0 or more, or None, not -1"),
    "MedMix(sise)": (lambda: MedMix(sise=0.1), "has no sise; it has: .*size"),
    "MedMix(size)": (lambda: MedMix(size=(0.5, 0.1)), "size must be a range"),
    "MedMix(0..255)": (lambda: MedMix()(X * 255), "from 0 to 1, not from .* to 2.*: divide values up to 255 by 255"),
    "MedMix(normalised)": (lambda: MedMix()(X * 4 - 2), "not from -.*normalise after MedMix"),
    "MedMix(NaN)": (lambda: MedMix()(X * torch.nan), "from 0 to 1, not from nan"),
    "MedMix(int)": (lambda: MedMix()((X * 255).int()), f"{AS_IMAGES}.*not torch.int32"),
    "MedMix(text)": (lambda: MedMix()("a.png"), f"{AS_IMAGES}.*not str; torchvision's v2.ToImage"),
    "MedMix(H, W)": (lambda: MedMix()(X[0, 0]), f"{AS_IMAGES}.*not \\(32, 32\\)"),
    "MedMix(none)": (lambda: MedMix()(X[:0]), f"{AS_IMAGES}.*not \\(0, 3, 32, 32\\)"),
    "MedMix(small)": (lambda: MedMix()(X[..., :4]), "sides of 16 pixels or more, not \\(4, 3, 32, 4\\)"),
    "MedMix(roi)": (lambda: MedMix()(X, roi=torch.ones(8, 8)), "roi must be \\(32, 32\\) or .*not \\(8, 8\\)"),
    "MedMix(roi, none)": (lambda: MedMix()(X, roi=torch.zeros(32, 32)), "roi is 0 all over an image"),
    "MedMix(list)": (lambda: MedMix()([X[0], X[1]]), "a list of 2 images is not a batch; stack the"),
    "MedMix(counts)": (lambda: MedMix(k=2)(X, counts=5), "counts must lie from 0 to 2.*not from 5 to 5"),
    "MedMix(counts, many)": (lambda: MedMix()(X, counts=[1, 2]), "one for each of the 4 images, not torch.int64 \\(2,\\)"),
    "PMSACL(backbone)": (lambda: PMSACL("resnet19"), "no encoder is called 'resnet19'; choose from: "),
    "PMSACL(module)": (lambda: PMSACL(torch.nn.ReLU()), "backbone is the name of a network or an encoder, not ReLU"),
    "PMSACL(comparator)": (lambda: made(preset="published-csi"), "unknown preset 'published-csi'; choose from: paper.*sphere$"),
    "PMSACL(preset)": (lambda: made(preset="none"), "unknown preset 'none'; choose from: .*sphere"),
    "PMSACL(k)": (lambda: made(k=0), "k must be within 1..*not 0"),
    "PMSACL(medmix.k)": (lambda: made(**{"medmix.k": 3}), "pass the number of lesions as k"),
    "PMSACL(lrr)": (lambda: made(lrr=1), "has no lrr; it has: .*lr"),
    "PMSACL(objective)": (lambda: made(objective="csi"), "objective is pmsacl or pmsacl-local, not csi"),
    "PMSACLLoss(centres)": (lambda: PMSACLLoss(torch.zeros(8)), "centres must be finite and \\(k \\+ 1, D\\).*not \\(8,\\)"),
    "PMSACLLoss(tau)": (lambda: PMSACLLoss(CENTRES, tau=0), "tau and alpha must be above 0 and finite, not 0"),
    "loss(none)": (lambda: LOSS(Z[:0], LABELS[:0], PARTNERS[:0]), "z holds no sample"),
    "loss(shapes)": (lambda: LOSS(Z, LABELS[:2], PARTNERS), "z must be \\(M, D\\).*not \\(4, 8\\), \\(2,\\)"),
    "loss(labels)": (lambda: LOSS(Z, LABELS + 1, PARTNERS), "labels must lie from 0 to 1, not from 1 to 2"),
    "loss(float)": (lambda: LOSS(Z, LABELS.float(), PARTNERS), "labels must be whole numbers, not torch.float32"),
    "loss(partners)": (lambda: pmsacl_loss(Z, LABELS, PARTNERS + 1, CENTRES), "partners must lie from 0 to 3, not from 1 to 4"),
    "loss(class)": (lambda: LOSS(Z, LABELS, PARTNERS.flip(0)), "partners\\[0\\] is 1, of class 1.*sample of its class, 0"),
    "loss(itself)": (lambda: LOSS(Z, LABELS, torch.arange(4)), "partners\\[0\\] is 0.*another sample of its class"),
    "fit(floats)": (lambda: AnomalyDetector().fit(X.numpy()), "X must be images uint8 \\(N, S, S, 3\\), not float32"),
    "fit(table)": (lambda: AnomalyDetector().fit(np.zeros((4, 8))), "uint8 \\(N, S, S, 3\\), not float64 \\(4, 8\\)"),
    "fit(none)": (lambda: AnomalyDetector().fit(PIXELS[:0]), "uint8 \\(N, S, S, 3\\), not uint8 \\(0, 32, 32, 3\\)"),
    "contamination": (lambda: AnomalyDetector(contamination=2).fit(PIXELS), "contamination must be .*'auto', not 2"),
    "contamination, text": (lambda: AnomalyDetector(contamination="x").fit(PIXELS), "or 'auto', not 'x'"),
    "detector": (lambda: AnomalyDetector("none").fit(PIXELS), "no detector is called 'none'; choose from: .*padim"),
    "encoder": (lambda: AnomalyDetector(encoder="model").fit(PIXELS), "encoder must be a trained PMSACL, .* not str"),
    "settings": (lambda: AnomalyDetector(settings={"x": 1}).fit(PIXELS), "has no x; it has: .*channels"),
    "cv": (lambda: AnomalyDetector(cv=1).fit(PIXELS), "two folds and two groups: cv is 1"),
    "groups": (lambda: AnomalyDetector().fit(PIXELS, groups=[1]), "one group for each of the 4 images, not int64 \\(1,\\)"),
    "groups, one": (lambda: AnomalyDetector().fit(PIXELS, groups=[1] * 4), "two folds and two groups.*X has 1 groups"),
    "predict": (lambda: AnomalyDetector().predict(PIXELS), "not fitted yet"),
    "score(y)": (lambda: AnomalyDetector().score(PIXELS, [0, 1, 1, 1]), "y must hold 1 .normal. or -1.*not int64 .4,. with 0, 1"),
    "score(one class)": (lambda: AnomalyDetector().score(PIXELS, [1] * 4), "y must contain normal images \\(1\\) and outliers"),
    "Screen": (lambda: Screen("nowhere"), "nowhere is not an exported model: it contains no"),
    "draw_case(size)": (lambda: draw_case((0,), 0), "size must be a whole number of 8 or more, not 0"),
    "draw_case(key)": (lambda: draw_case((-1,), 64), "key must be a whole number of 0 or more, not \\(-1,\\)"),
}  # fmt: skip
OF_MODEL = {
    "loss before centres": (lambda m: m.loss(X), "no centres yet: call estimate_centres\\(loader\\) once"),
    "accuracy before loss": (lambda m: m.accuracy, "no step yet: call loss\\(images\\) first"),
    "estimate_centres(none)": (lambda m: m.estimate_centres([]), "each class needs an image for its centre"),
    "estimate_centres(one)": (lambda m: m.estimate_centres([X[:1]]), "at least 2 images, not \\(1, 3, 32, 32\\)"),
    "loss(oblong)": (lambda m: m.estimate_centres([X[..., :24]]), "square and in colour.*not \\(4, 3, 32, 24\\)"),
    "loss(0..255)": (lambda m: m.estimate_centres([X * 255]), "from 0 to 1, not from"),
    "roi, none": (lambda m: (m.estimate_centres([X]), m.loss(X, roi=X[:, 0] * 0)), "roi is 0 all over an image"),
    "roi": (lambda m: (m.estimate_centres([X]), m.loss(X, roi=torch.ones(2, 32, 32))), "roi must be \\(4, 32, 32\\).*not \\(2, "),
}  # fmt: skip
OF_STUDIO = {
    "Studio(device)": (lambda s: Studio(s.store.home.path, "none"), "device 'none' is not one of auto, cpu"),
    "runs(study)": (lambda s: s.runs("none"), "none"),
    "score(encoder)": (lambda s: s.score(s.encoder), "is not a finished fit .*kind pretrain, status done"),
    "heat_maps(none)": (lambda s: s.heat_maps(s.run, []), "images: 1 or more images are needed"),
    "import_arrays(none)": (lambda s: s.import_arrays("a", []), "normal: 1 or more images are needed"),
    "pretrained(arch)": (lambda s: s.pretrained(s.study, "resnet19"), "no encoder is called 'resnet19'"),
    "pretrained(size)": (lambda s: s.pretrained(s.study, ARCH, 3), "size must be at least 16, not 3"),
    "evaluate(bootstrap)": (lambda s: s.evaluate(s.run, bootstrap=-1), "bootstrap must be a number .*not -1"),
    "worklist(splits)": (lambda s: s.worklist(s.study, splits="train"), "splits are a tuple of test, .*not 'train'"),
    "worklist(flagged)": (lambda s: s.worklist(s.study, flagged="x"), "flagged is True, False or None, not 'x'"),
    "decide(reader)": (lambda s: s.decide(1, "normal", " "), "reader must be the name of a reader, not ' '"),
    "score(run)": (lambda s: s.score("none", PIXELS), "none"),
    "score(floats)": (lambda s: s.score(s.run, X.numpy()[0]), "uint8 \\(H, W, 3\\)"),
    "score(5 axes)": (lambda s: s.score(s.run, PIXELS[None]), "or a folder, not uint8 \\(1, 4, 32, 32, 3\\)"),
    "score(number)": (lambda s: s.score(s.run, 7), "images must be arrays uint8 .*not int"),
    "score(file)": (lambda s: s.score(s.run, "nowhere.png"), "nowhere.png"),
    "score(empty folder)": (lambda s: s.score(s.run, s.store.home.cache), "contains no image that can be read"),
    "heat_maps(pixels)": (lambda s: s.heat_maps(s.run, [PIXELS[0, :0]]), "at least one pixel; .*\\(0, 32, 3\\)"),
    "import_arrays(abnormal)": (
        lambda s: s.import_arrays("a", PIXELS, PIXELS, np.array([True])),
        "abnormal must hold one value per test image: 4, not 1",
    ),
    "import_arrays(kinds)": (lambda s: s.import_arrays("a", PIXELS, PIXELS, [2, 0, 0, 0]), "abnormal must hold True or False"),
    "import_arrays(masks)": (
        lambda s: s.import_arrays("a", PIXELS, PIXELS, masks=[np.ones((8, 8)), None, None, None]),
        "masks\\[0\\] has the shape \\(8, 8\\), .*\\(32, 32\\)",
    ),
    "import_arrays(whole mask)": (
        lambda s: s.import_arrays("a", PIXELS, PIXELS[:1], masks=[np.ones((32, 32))]),
        "masks\\[0\\] covers the whole image",
    ),
    "import_arrays(mask of a normal)": (
        lambda s: s.import_arrays("a", PIXELS, PIXELS[:1], [False], [np.eye(32)]),
        "masks\\[0\\] contains a lesion, but abnormal\\[0\\] calls the image normal",
    ),
    "worklist(asked)": (lambda s: s.worklist(s.study, flaged=True), "unknown worklist option flaged; choose from: .*flagged"),
    "worklist(sort)": (lambda s: s.worklist(s.study, sort="none"), "sorted by one of percentile, .*not 'none'"),
    "import_folder(layout)": (lambda s: s.import_folder("b", s.store.home.path, layout="none"), "unknown layout 'none'; choose"),
    "import_arrays(name)": (lambda s: s.import_arrays("tiny", PIXELS), "tiny"),
    "import_folder(folder)": (lambda s: s.import_folder("b", "/nowhere/at/all"), "/nowhere/at/all"),
    "pretrain(preset)": (lambda s: s.pretrain(s.study, "none"), "unknown preset 'none'; choose from: .*sphere"),
    "pretrain(settings)": (lambda s: s.pretrain(s.study, epocs=1), "has no epocs; it has: .*epochs"),
    "fit(detector)": (lambda s: s.fit(s.encoder, "none"), "no detector is called 'none'; choose from: .*padim"),
    "fit(settings)": (lambda s: s.fit(s.encoder, "padim", chanels=3), "has no chanels; it has: .*channels"),
    "operating_point": (lambda s: s.operating_point(s.run), "has no threshold yet: call score"),
    "export_run(out)": (lambda s: s.export_run(s.run, s.store.home.path), "is not empty"),
    "import_model": (lambda s: s.import_model("/nowhere", s.study), "/nowhere is not an exported model"),
}  # fmt: skip


def refused(call: Any, *given: Any) -> str:
    """The sentence of a call that raises ValueError or, for a step too early, RuntimeError."""
    with pytest.raises((ValueError, RuntimeError)) as error:
        call(*given)
    return str(error.value)


@pytest.mark.parametrize("name", FREE)
def test_a_wrong_call_says_what_is_wanted(name):
    call, wanted = FREE[name]
    assert re.search(wanted, refused(call), re.DOTALL)


@pytest.mark.parametrize("name", OF_MODEL)
def test_a_wrong_call_of_a_model(name, model):
    call, wanted = OF_MODEL[name]
    assert re.search(wanted, refused(call, copy.deepcopy(model)), re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_STUDIO)
def test_a_wrong_call_of_a_studio(name, studio):
    call, wanted = OF_STUDIO[name]
    assert re.search(wanted, refused(call, studio), re.DOTALL)
