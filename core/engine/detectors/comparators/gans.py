"""Generative adversarial networks with which the paper compares PMSACL: ADGAN, f-AnoGAN and OCGAN."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from core.engine.calibration.heatmap import mean_inside
from core.engine.config import option
from core.engine.detectors.comparators.nets import (
    CodeCritic,
    ConvCode,
    ImageCritic,
    NetConfig,
    NetDetector,
    NetTraining,
    descend,
    gradient_penalty,
    noise,
)
from core.engine.detectors.igd.model import Generator
from core.engine.registry import DETECTORS
from core.engine.tensors import to_device


@dataclass(frozen=True)
class ADGANConfig(NetConfig):
    """Options of ADGAN.

    w_cycle: Weight of the cycle loss |x - G(E(x))| + |z - E(G(z))|, where G generates images and E codes.
    penalty: Weight of both gradient penalties.
    critic_steps: Number of critic steps per generator step.
    """

    lr: float = 1e-4
    w_cycle: float = option(10.0, low=0)
    penalty: float = option(10.0, low=0)
    critic_steps: int = option(2, low=1)


class ADGANNet(nn.Module):
    def __init__(self, config: ADGANConfig, size: int) -> None:
        super().__init__()
        self.generator = Generator(size, config.latent, config.width)  # from codes to images
        self.code = ConvCode(size, config.latent, config.width)  # from images to codes
        self.image_critic = ImageCritic(size, config.width)
        self.code_critic = CodeCritic(config.latent)


class ADGANTraining(NetTraining):
    def build_optimisers(self) -> dict[str, torch.optim.Optimizer]:
        net, lr, betas = self.net, self.config.lr, (0.0, 0.9)
        generators = [*net.generator.parameters(), *net.code.parameters()]
        critic_parameters = [*net.image_critic.parameters(), *net.code_critic.parameters()]
        return {
            "opt_generators": torch.optim.Adam(generators, lr, betas),
            "opt_critics": torch.optim.Adam(critic_parameters, lr, betas),
        }

    def learn(self, x: Tensor, draws: torch.Generator) -> dict[str, Tensor]:
        net, c = self.net, self.config
        z = noise(x, draws, len(x), c.latent)
        shares = to_device(torch.rand(2, len(x), generator=draws), x.device)
        with torch.no_grad():
            fake, coded = net.generator(z), net.code(x)
        of_images = net.image_critic(x).mean() - net.image_critic(fake).mean()
        of_codes = net.code_critic(z).mean() - net.code_critic(coded).mean()
        penalty = gradient_penalty(net.image_critic, x, fake, shares[0])
        penalty = penalty + gradient_penalty(net.code_critic, z, coded, shares[1])
        critic_loss = c.penalty * penalty - of_images - of_codes
        descend(self.optimisers["opt_critics"], critic_loss)
        numbers = {"critic": critic_loss, "distance_images": of_images, "distance_codes": of_codes}
        if (self.step + 1) % c.critic_steps:
            return {"loss": critic_loss, **numbers}
        coded, fake = net.code(x), net.generator(z)
        cycle = (net.generator(coded) - x).abs().mean() + (net.code(fake) - z).abs().mean()
        loss = c.w_cycle * cycle - net.image_critic(fake).mean() - net.code_critic(coded).mean()
        descend(self.optimisers["opt_generators"], loss)
        return {"loss": loss, "cycle": cycle, **numbers}


@DETECTORS.register("adgan", title="ADGAN", section="Table detection; Liu et al. 2020", own_network=True)
class ADGAN(NetDetector):
    """ADGAN (Liu et al. 2020, "Photoshopping Colonoscopy Video Frames"), a dual GAN.

    One generator maps codes to images, the other images to codes. One critic judges images, the other codes, and a
    cycle through both generators must reconstruct its input. Lesions are not reconstructed, because the training images
    are normal. The PMSACL paper only says "two generators and two discriminators". The gradient penalty, the layers,
    Adam and the weight of the cycle loss are our choices. The score of an image is the mean absolute difference between
    the image and its reconstruction.
    """

    name = "adgan"
    Config = ADGANConfig
    Training = ADGANTraining
    Net = ADGANNet
    presets = {
        "paper": ADGANConfig(steps=100_000),
        "quick": ADGANConfig(steps=300, batch=16, lr=1e-3, width=8, latent=32, critic_steps=1),
    }

    def judge(self, x: Tensor) -> dict[str, Tensor]:
        return {"maps": (self.net.generator(self.net.code(x)) - x).abs().mean(1)}


@dataclass(frozen=True)
class FAnoGANConfig(NetConfig):
    """Options of f-AnoGAN.

    steps: Number of training steps of WGAN and encoder together.
    gan: Fraction of these steps in which the WGAN is trained.
    penalty: Weight of the gradient penalty, 10 in f-AnoGAN's paper.
    critic_steps: Number of critic steps per generator step, 5 in f-AnoGAN's paper.
    kappa: Weight of the residual of the critic's features, 1 in f-AnoGAN's paper.
    code_optimiser: Optimiser of the encoder, adam or rmsprop.
    code_lr: Learning rate of the encoder, or 0 for `lr`.
    code_bound: Maximum absolute value of the elements of a code.
    span: Width of the range of pixel values. Images are scaled to [-span / 2, span / 2].
    """

    lr: float = 1e-4
    gan: float = option(0.7, above=0, below=1)
    penalty: float = option(10.0, low=0)
    critic_steps: int = option(5, low=1)
    kappa: float = option(1.0, low=0)
    code_optimiser: str = option("adam", choices=("adam", "rmsprop"))
    code_lr: float = option(0.0, low=0)
    code_bound: float = option(3.0, above=0)
    span: float = option(1.0, above=0)


class FAnoGANNet(nn.Module):
    def __init__(self, config: FAnoGANConfig, size: int) -> None:
        super().__init__()
        self.generator = Generator(size, config.latent, config.width)
        self.critic = ImageCritic(size, config.width)
        self.code = ConvCode(size, config.latent, config.width)
        self.bound, self.span = config.code_bound, config.span

    def shown(self, x: Tensor) -> Tensor:
        """Scales images x in [0, 1] to a range of width `span` around 0.5. The networks subtract 0.5 from inputs."""
        return (x - 0.5) * self.span + 0.5

    def residuals(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Returns squared reconstruction errors of images x by pixel, `(B, S, S)`, and in critic features, `(B,)`."""
        x = self.shown(x)
        back = self.shown(self.generator(torch.tanh(self.code(x)) * self.bound))
        feature_residuals = (self.critic.features(x) - self.critic.features(back)).square().mean(1)
        return (x - back).square().mean(1), feature_residuals


class FAnoGANTraining(NetTraining):
    def build_optimisers(self) -> dict[str, torch.optim.Optimizer]:
        net, c, lr, betas = self.net, self.config, self.config.lr, (0.0, 0.9)
        code_optimiser = {"adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop}[c.code_optimiser]
        return {
            "opt_generator": torch.optim.Adam(net.generator.parameters(), lr, betas),
            "opt_critic": torch.optim.Adam(net.critic.parameters(), lr, betas),
            "opt_code": code_optimiser(net.code.parameters(), c.code_lr or lr),
        }

    def learn(self, x: Tensor, draws: torch.Generator) -> dict[str, Tensor]:
        if self.step < self.config.gan * self.steps:
            return self.wgan(x, draws)
        self.net.generator.eval()
        pixels, feature_residuals = self.net.residuals(x)
        loss = pixels.mean() + self.config.kappa * feature_residuals.mean()  # L_izi_f
        descend(self.optimisers["opt_code"], loss)
        return {"loss": loss, "residual": pixels.mean(), "features": feature_residuals.mean()}

    def wgan(self, x: Tensor, draws: torch.Generator) -> dict[str, Tensor]:
        """Trains the critic for one step and, every `critic_steps` steps, the generator for one step."""
        net, c = self.net, self.config
        z = noise(x, draws, len(x), c.latent)
        share = to_device(torch.rand(len(x), generator=draws), x.device)
        x = net.shown(x)
        with torch.no_grad():
            fake = net.shown(net.generator(z))
        distance = net.critic(x).mean() - net.critic(fake).mean()
        penalty = gradient_penalty(net.critic, x, fake, share)
        loss = c.penalty * penalty - distance
        descend(self.optimisers["opt_critic"], loss)
        if (self.step + 1) % c.critic_steps == 0:
            descend(self.optimisers["opt_generator"], -net.critic(net.shown(net.generator(z))).mean())
        return {"loss": loss, "distance": distance, "penalty": penalty}


@DETECTORS.register("f-anogan", title="f-AnoGAN", section="Table detection; Schlegl et al. 2019", own_network=True)
class FAnoGAN(NetDetector):
    """f-AnoGAN (Schlegl et al. 2019, "Fast Unsupervised Anomaly Detection with Generative Adversarial Networks").

    First, a WGAN with gradient penalty is trained on normal images. Then the WGAN is frozen, and an encoder is trained
    to find the code of an image (the izi_f architecture). The layers are our choice. The score A_R(x) + kappa A_D(x) is
    the residual of the image plus kappa times the residual of the critic's features. The map shows the image residual.

    The following defaults are our choice; the preset `published` has the values of the released code. `code_optimiser`
    and `code_lr` are as for the generator, because Adam learns faster in short training runs. `batch` and `span` are 32
    images with values from 0 to 1, as for all comparators. `code_bound` is 3, because a third of the generator's
    normally distributed inputs have absolute values above 1.
    """

    name = "f-anogan"
    Config = FAnoGANConfig
    Training = FAnoGANTraining
    Net = FAnoGANNet
    presets = {
        "paper": FAnoGANConfig(steps=100_000),
        "published": FAnoGANConfig(
            steps=100_000, batch=64, code_optimiser="rmsprop", code_lr=5e-5, code_bound=1.0, span=2.0
        ),
        "quick": FAnoGANConfig(steps=400, batch=16, lr=1e-3, width=8, latent=32, critic_steps=2),
    }

    def judge(self, x: Tensor) -> dict[str, Tensor]:
        pixels, feature_residuals = self.net.residuals(x)
        return {"maps": pixels, "features": feature_residuals}

    def score(self, values: dict[str, Tensor], roi: Tensor | None) -> Tensor:
        """Computes A_R(x) + kappa A_D(x), `(B,)`. A_R is limited to the region of interest, A_D is not."""
        return mean_inside(values["maps"], roi) + self.config.kappa * values["features"]


@dataclass(frozen=True)
class OCGANConfig(NetConfig):
    """Options of OCGAN.

    w_mse: Weight of the reconstruction error, lambda = 10 in OCGAN's paper.
    w_latent: Weight of the term of the critic that judges codes.
    noise: Standard deviation of the noise added to the input in training. OCGAN's paper uses a variance of 0.2 for
        images from -1 to 1.
    searches: Number of gradient steps in the search for informative negatives (`negatives`).
    rate: Step size of this search.
    squashed: Whether codes are the tanh of the values that this search changes, instead of being clipped to -1 to 1.
    mine_from: Fraction of the training steps after which this search starts.
    """

    lr: float = 2e-4
    w_mse: float = option(10.0, low=0)
    noise: float = option(0.2, low=0)
    searches: int = option(5, low=0)
    rate: float = option(0.1, low=0)
    w_latent: float = option(1.0, low=0)
    squashed: bool = False
    mine_from: float = option(0.0, low=0, high=1)


class OCGANNet(nn.Module):
    def __init__(self, config: OCGANConfig, size: int) -> None:
        super().__init__()
        self.code = ConvCode(size, config.latent, config.width)
        self.decoder = Generator(size, config.latent, config.width)
        self.code_critic = CodeCritic(config.latent)
        self.image_critic = ImageCritic(size, config.width)
        self.classifier = ImageCritic(size, config.width)

    def encode(self, x: Tensor) -> Tensor:
        """Encodes images, `(B, 3, S, S)`, as codes from -1 to 1, `(B, latent)`."""
        return torch.tanh(self.code(x))


def negatives(net: OCGANNet, codes: Tensor, searches: int, rate: float, squashed: bool = False) -> Tensor:
    """Searches for informative negatives: codes whose decoded images the classifier finds least normal.

    Each search step is a step of gradient descent on the classifier's cross-entropy for the label "not normal".

    Args:
        net: Networks of OCGAN.
        codes: Codes from which the search starts, `(B, d)`.
        searches: Number of search steps.
        rate: Step size.
        squashed: Whether the search changes unbounded values, whose tanh is returned, instead of clipping to -1 to 1.
    """
    codes = codes.detach()
    for _ in range(searches):
        codes.requires_grad_()
        verdict = net.classifier(net.decoder(codes.tanh() if squashed else codes))
        loss = F.binary_cross_entropy_with_logits(verdict, torch.zeros_like(verdict), reduction="sum")
        (slope,) = torch.autograd.grad(loss, codes)
        codes = (codes - rate * slope).detach()
        codes = codes if squashed else codes.clamp(-1, 1)
    return codes.tanh() if squashed else codes


def verdict_loss(verdict: Tensor, real: bool) -> Tensor:
    """Computes the mean binary cross-entropy of verdicts (logits), `(B,)`, which all have the label `real`."""
    return F.binary_cross_entropy_with_logits(verdict, torch.full_like(verdict, float(real)))


class OCGANTraining(NetTraining):
    def build_optimisers(self) -> dict[str, torch.optim.Optimizer]:
        net, lr, betas = self.net, self.config.lr, (0.5, 0.999)
        reconstructing = [*net.code.parameters(), *net.decoder.parameters()]
        judges = [*net.code_critic.parameters(), *net.image_critic.parameters()]
        return {
            "opt_autoencoder": torch.optim.Adam(reconstructing, lr, betas),
            "opt_critics": torch.optim.Adam(judges, lr, betas),
            "opt_classifier": torch.optim.Adam(net.classifier.parameters(), lr, betas),
        }

    def learn(self, x: Tensor, draws: torch.Generator) -> dict[str, Tensor]:
        net, c = self.net, self.config
        noisy = x + c.noise * noise(x, draws)
        uniform = to_device(2 * torch.rand(len(x), c.latent, generator=draws) - 1, x.device)
        with torch.no_grad():
            codes = net.encode(noisy)
            reconstructed, decoded = net.decoder(codes), net.decoder(uniform)
        classifier = verdict_loss(net.classifier(reconstructed), True) + verdict_loss(net.classifier(decoded), False)
        descend(self.optimisers["opt_classifier"], classifier)
        critic_loss = (
            verdict_loss(net.code_critic(uniform), True)
            + verdict_loss(net.code_critic(codes), False)
            + verdict_loss(net.image_critic(x), True)
            + verdict_loss(net.image_critic(decoded), False)
        )
        descend(self.optimisers["opt_critics"], critic_loss)
        searches = c.searches if self.step >= c.mine_from * self.steps else 0
        negative_codes = negatives(net, uniform, searches, c.rate, c.squashed)
        codes = net.encode(noisy)
        mse = (net.decoder(codes) - x).square().mean()
        latent = verdict_loss(net.code_critic(codes), True)
        visual = verdict_loss(net.image_critic(net.decoder(negative_codes)), True)
        loss = c.w_mse * mse + c.w_latent * latent + visual
        descend(self.optimisers["opt_autoencoder"], loss)
        return {
            "loss": loss,
            "mse": mse,
            "latent": latent,
            "visual": visual,
            "critic": critic_loss,
            "classifier": classifier,
        }


@DETECTORS.register("ocgan", title="OCGAN", section="Table detection; Perera et al. 2019", own_network=True)
class OCGAN(NetDetector):
    """OCGAN (Perera et al. 2019, "One-class Novelty Detection Using GANs with Constrained Latent Representations").

    The method trains four models (Algorithm 1): a denoising auto-encoder with bounded codes, a critic that makes the
    codes of normal images uniform in (-1, 1)^d, a critic that makes the image of every code look normal, and a
    classifier that finds codes whose images do not look normal. Layers and Adam are our choices. The score of an image
    is the mean squared error of its reconstruction.

    The following defaults are our choice; the preset `published` has the values of the released code. OCGAN's paper
    gives 10 for `w_mse` (lambda), no value for `w_latent`, several steps for `searches`, and no value for `rate`.
    `squashed` is False so that codes stay uniform before the search. `mine_from` is 0, because with the released value
    a short training run would hardly search.
    """

    name = "ocgan"
    Config = OCGANConfig
    Training = OCGANTraining
    Net = OCGANNet
    presets = {
        "paper": OCGANConfig(),
        "published": OCGANConfig(w_mse=250.0, w_latent=10.0, searches=1, rate=2.0, squashed=True, mine_from=0.75),
        "quick": OCGANConfig(steps=200, batch=16, lr=1e-3, width=8, latent=64, searches=2),
    }

    def judge(self, x: Tensor) -> dict[str, Tensor]:
        return {"maps": (self.net.decoder(self.net.encode(x)) - x).square().mean(1)}
