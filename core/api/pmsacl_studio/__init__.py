"""PMSACL Studio for Python: learn what normal medical images look like, score others, keep what readers say.

    from pmsacl_studio import Studio

    with Studio("home") as studio:
        study = studio.import_folder("colon", "images")
        run = studio.fit(studio.pretrained(study), "blend")
        print(studio.score(run))

`Studio` is a home with studies, runs and reviews. `AnomalyDetector` is a detector with scikit-learn's conventions.
`PMSACL` is the pre-training as a module for any loop, `MedMix` its augmentation as a transform of torchvision,
`PMSACLLoss` and `pmsacl_loss` its contrastive loss. `Screen` is a model that `Studio.export_run` wrote, used elsewhere.
`draw_case` draws an image to try things on. Research use; not a medical device.
"""

from core.engine.augment.transform import MedMix
from core.engine.losses.pmsacl import PMSACLLoss, pmsacl_loss
from core.engine.phantom.frame import draw_case
from core.engine.training.model import PMSACL
from core.studio.programs.estimator import AnomalyDetector
from core.studio.programs.studio import Studio
from core.studio.runs.screen import Screen

__all__ = ["PMSACL", "AnomalyDetector", "MedMix", "PMSACLLoss", "Screen", "Studio", "draw_case", "pmsacl_loss"]
