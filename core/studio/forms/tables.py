"""The controls of MedMix, the weak views and pre-training: labels, limits and where the paper speaks of each."""

from __future__ import annotations

from core.engine.augment.medmix.settings import BLENDS, DONORS, SHAPES
from core.engine.registry import BACKBONES
from core.studio.forms.fields import choice, flag, integer, number, numbers, span, study

_JITTER = ("brightness", "contrast", "saturation", "hue")
_DONORS = {
    "other": "other image",
    "same": "same image",
    "here": "in place",
    "texture": "drawn",
    "foreign": "other study",
}
_CHANCE = "The paper: each with probability 25 % (implementation details)."

MEDMIX = {
    "Lesions": [
        integer("k", "Most lesions per image", 1, 7, "Classes A_0 to A_k: n lesions make class A_n (Sec. MedMix)."),
        span("size", "Size of a lesion", 0.02, 0.8, 0.01, "Part of the image's side. The paper gives no size."),
        flag("even_ratio", "As many small as large", "Sizes of 2 to 4 % come as often as those of 20 to 40 %."),
        number("aspect", "Longest ratio of sides", 1, 5, 0.1, "1 keeps every box square."),
        choice("shape", "Shape", SHAPES, "The paper cuts rectangular crops (Sec. MedMix).", several=True),
        number("irregularity", "Irregularity", 0, 1, 0.05, "Of irregular shapes: 0 an ellipse, 1 a ragged blob."),
        flag("avoid_overlap", "Keep lesions apart", "So that A_2 always shows two."),
        number("inside", "Part inside the region of interest", 0, 1, 0.05, "Lesions do not fall on border or text."),
    ],
    "Edge and blending": [
        choice("blend", "Blending", BLENDS, "paste: opaque. alpha: see-through. poisson: seamless.", several=True),
        span("softness", "Softness of the edge", 0, 1, 0.02, "Part of the lesion's radius; 0 is a hard edge."),
        span("opacity", "Opacity", 0.05, 1, 0.05, "Of alpha and poisson blending."),
    ],
    "Where it is cut from": [
        choice("donor", "Donor", DONORS, "The paper: a random image of the minibatch (Sec. MedMix).", several=True,
               names=_DONORS),
        study("donor_study", "Other study", "Its normal images are cut from; with none, a made-up modality is."),
        span("donor_scale", "Size cut, of size pasted", 0.2, 3, 0.05, "Above 1 shrinks what is cut, below 1 enlarges."),
        span("contrast", "Contrast of drawn textures", 0, 1, 0.02, "For the donor 'texture'."),
    ],
    "Colour and grain": [
        number("p_jitter", "Chance of colour jitter", 0, 1, 0.05, _CHANCE),
        numbers("jitter", "Colour jitter", _JITTER, 1, 0.02, "Strength of each; hue at most 0.5."),
        number("p_noise", "Chance of Gaussian noise", 0, 1, 0.05, _CHANCE),
        span("noise", "Noise", 0, 0.4, 0.005, "Standard deviation, of the range 0 to 1."),
        flag("noise_colour", "Noise in each channel", "Else the same grain in all three."),
        span("match", "Colour brought to its place", 0, 1, 0.05, "How far, before it is pasted; 0 leaves it."),
        span("shading", "Light from one side", 0, 1, 0.02),
    ],
    "Deformation": [
        number("p_fisheye", "Chance of fisheye", 0, 1, 0.05, _CHANCE),
        span("fisheye", "Fisheye", 0, 0.95, 0.05, "Magnification at each control point."),
        number("p_wave", "Chance of a wave", 0, 1, 0.05, _CHANCE),
        span("wave", "Horizontal wave", 0, 0.5, 0.01, "Displacement, of the patch's side."),
        integer("control_points", "Control points", 1, 16, "Of fisheye and wave; the paper takes three."),
        span("bulge", "Bulge", 0, 0.95, 0.05, "Magnification of the whole lesion."),
    ],
}  # fmt: skip

WEAK = {
    "Weak views": [
        span(
            "crop",
            "Area of the crop",
            0.05,
            1,
            0.01,
            "SimCLR's 0.08 leaves a fifth of A_1 without a lesion.",
        ),
        span("ratio", "Width over height", 0.3, 3, 0.01),
        number("flip", "Chance of mirroring", 0, 1, 0.05),
        number("p_jitter", "Chance of colour jitter", 0, 1, 0.05),
        numbers("jitter", "Colour jitter", _JITTER, 1, 0.02),
        number("p_grey", "Chance of greyscale", 0, 1, 0.05),
        number("p_blur", "Chance of blur", 0, 1, 0.05),
        span("sigma", "Blur", 0, 8, 0.1, "Sigma in pixels at 256."),
    ],
}

PRETRAIN = {
    "Length and size": [
        integer("size", "Image side", 32, 512, "Pixels. The paper: 256, and 64 for Liu et al."),
        integer("batch", "Images per step", 1, 256, "The paper: 32. The network sees each as (k + 1) x 2 views."),
        integer("images_per_step", "Views per step", 0, 4096, "0: images per step counts. Else this many views."),
        integer("epochs", "Epochs", 1, 5000, "The paper does not say how many."),
        integer("steps", "Steps", 0, 1_000_000, "0: epochs count. Else as many whole epochs as hold these steps."),
        integer("fit_size", "Side for detectors", 0, 512, "Pixels at which detectors see images; 0: the image side."),
        flag("fit_closer", "Closer where images are large", "Few and large images: detectors see up to 384 pixels."),
        integer("seed", "Seed", 0, 2**31 - 1, "Order of images and every augmentation. The paper runs five."),
    ],
    "Optimiser": [
        choice("optimiser", "Optimiser", ("sgd", "adamw"), "The paper: SGD with momentum (implementation details)."),
        number("lr", "Learning rate", 1e-5, 1, 1e-5, "The paper: 0.01 (implementation details).", log=True),
        choice("schedule", "Schedule", ("constant", "cosine", "onecycle"), "The paper names none."),
        number("momentum", "Momentum", 0, 0.999, 0.001, "Of SGD, and AdamW's first beta."),
        number("weight_decay", "Weight decay", 0, 0.5, 1e-4, "3e-4 as in CCD's released configuration."),
    ],
    "Start from pretrained weights": [
        integer("frozen", "Frozen up to stride", 0, 32, "2 to 32: layers up to this map learn nothing. 0: none."),
        flag("frozen_norm", "Frozen batch norms", "The backbone's batch norms keep their first statistics."),
        number("backbone_rate", "Share of the rate", 0.001, 1, 0.001, "Of the backbone's last stage.", log=True),
        number("layer_decay", "Decay by stage", 0.1, 1, 0.05, "Each finer stage has this share of the next one's."),
    ],
    "Losses": [
        number("w_ctr", "Weight of l_ctr", 0, 10, 0.01, "Pull to the centre c_n (Eq. 1: all weights are 1)."),
        number("w_con", "Weight of l_PMSACL", 0, 10, 0.01, "Contrastive loss of centred features (Eq. 4)."),
        number("w_aug", "Weight of l_aug", 0, 10, 0.01, "Classification of the classes A_n (Eq. 8)."),
        number("w_pos", "Weight of l_pos", 0, 10, 0.01, "Relative position of patches; the local model, CCD."),
        number("tau", "Temperature tau", 0.01, 2, 0.01, "Eq. 7; CCD's configuration has 0.2."),
        number("alpha", "alpha of kappa", 0.1, 10, 0.1, "Above 1, samples of one class repel less (Eq. 7)."),
        choice("centring", "Centred in l_PMSACL", ("both", "denominator"), "both: as printed."),
        choice("positives", "Positives are", ("view", "class"), "view: as printed; else others of the class."),
        number("w_var", "Weight of l_var", 0, 25, 0.1, "Keeps a class's features apart; the paper: none."),
        choice("aug_on", "l_aug classifies", ("z", "features"), "z as printed; features as in CCD's released code."),
    ],
    "Centres": [
        choice("centres", "Centres c_n", ("frozen", "random", "equidistant", "re-estimated"),
               "Frozen: estimated once before training (Eq. 2, Table centers)."),
        integer("reestimate_every", "Re-estimate every", 1, 100, "Epochs, for re-estimated centres; the paper: 5."),
        number("centre_scale", "Scale of drawn centres", 0.1, 20, 0.1, "Of random and equidistant ones."),
        integer("centre_images", "Images they come from", 0, 100_000, "0 takes all, as the paper does."),
        flag("centre_weak", "Through weak views", "Whether a weak view lies over the strong augmentation then too."),
    ],
    "Classes and patches": [
        integer("k", "Strong classes", 1, 7, "A_0 to A_k: k + 1 classes. The paper: 4, ablated from 2 to 8."),
        integer("patch", "Side of a patch", 16, 128, "Of the local model; the paper: 32 x 32."),
        flag("pos_global", "l_pos in the global model", "Table ablation counts l_pos among a global model's terms."),
        choice("pos_on", "l_pos sees", ("pair", "difference"), "Of the two patches' features."),
        integer("pos_jitter", "Jitter of patches", 0, 32, "Pixels; 8 as in CCD."),
    ],
    "Keeping and speed": [
        choice("select", "Keep the encoder", ("last", "best"), "best: by l_aug on held-out normals, never on test."),
        integer("snapshot_every", "Snapshot every", 1, 1000, "Epochs; the cluster browser shows these."),
        integer("check_every", "Confusion every", 1, 1000, "Steps."),
        flag("autocast", "bf16 where the device gains", "Losses stay in float32."),
        flag("channels_last", "Channels last"),
    ],
}  # fmt: skip

ENCODER = {
    "Encoder": [
        choice(
            "init",
            "Start from",
            ("random", "imagenet", "auto"),
            "auto: ImageNet weights where an installed package has them, else random.",
        ),
        integer("seed", "Seed of its weights", 0, 2**31 - 1),
        choice("arch", "Backbone", BACKBONES.names(), "ResNet-18 in the paper (implementation details)."),
        integer("dim", "Dimension of Z", 8, 1024, "The paper: 128."),
        integer("hidden", "Hidden layer of the head", 8, 4096, "512 as in CCD."),
    ],
}

TABLES = {"MedMixConfig": MEDMIX, "WeakConfig": WEAK, "PretrainConfig": PRETRAIN, "EncoderConfig": ENCODER}
HIDDEN = {"PretrainConfig": ("preset", "objective", "strong", "strong_options")}
