"""PMSACL Studio for Python: fits anomaly detectors to normal medical images, scores images, stores readers' decisions.

    from pmsacl_studio import Studio

    with Studio("home") as studio:
        study = studio.import_folder("colon", "images")
        run = studio.fit(studio.pretrained(study), "blend")
        print(studio.score(run))

`Studio` opens a home folder with studies, runs and reviews. `AnomalyDetector` is a detector with scikit-learn's
interface. `PMSACL` provides pre-training as a module for any training loop, `MedMix` its augmentation as a torchvision
transform, `PMSACLLoss` and `pmsacl_loss` its contrastive loss. `Screen` scores images with a model written by
`Studio.export_run`. `draw_case` draws a synthetic image for examples. Research use; not a medical device.
"""

from core.engine.augment.transform import MedMix
from core.engine.losses.pmsacl import PMSACLLoss, pmsacl_loss
from core.engine.phantom.frame import draw_case
from core.engine.training.model import PMSACL
from core.studio.programs.estimator import AnomalyDetector
from core.studio.programs.studio import Studio
from core.studio.runs.screen import Screen

__all__ = ["PMSACL", "AnomalyDetector", "MedMix", "PMSACLLoss", "Screen", "Studio", "draw_case", "pmsacl_loss"]
