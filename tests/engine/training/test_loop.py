"""The loop: history, stop, resume, divergence, on a training small enough to follow by hand."""

import math

import pytest
import torch

from core.engine.progress import Stopped
from core.engine.training import checkpoint, loop
from core.engine.training.base import STEP, Diverged, Training, generator
from core.engine.training.checkpoint import Checkpoints


class Line(Training):
    """Fits a line to noise; a number of steps and the learning rate are all there is to set."""

    title = "the line"

    def __init__(self, steps=6, lr=0.1):
        torch.manual_seed(0)
        self.net, self.steps, self.total = torch.nn.Linear(3, 1), steps, torch.zeros(())
        self.networks = {"net": self.net}
        self.optimisers = {"optimiser": torch.optim.Adam(self.net.parameters(), lr)}

    def advance(self):
        x = torch.rand(4, 3, generator=generator(0, STEP, self.step))
        loss = self.net(x).square().mean()
        self.optimisers["optimiser"].zero_grad()
        loss.backward()
        self.optimisers["optimiser"].step()
        self.step += 1
        self.total = self.total + loss.detach()
        return {"loss": loss.item(), "seen": 4}

    def tensors(self):
        return {"total": self.total}

    def restore_tensors(self, tensors):
        self.total = tensors["total"]


def weights(training):
    return torch.cat([training.net.weight.detach().flatten(), training.total.reshape(1)])


def test_lines_of_the_history(tmp_path):
    training, seen = Line(), []
    checkpoints = Checkpoints(tmp_path, {})
    loop.run(training, checkpoints, seen.append, after=lambda: {"twice": 2 * training.step})
    assert [line["step"] for line in seen] == [1, 2, 3, 4, 5, 6] and {line["steps"] for line in seen} == {6}
    assert seen[2]["twice"] == 6 and seen[0]["images_per_second"] > 0 and "seen" not in seen[0]
    checkpoints.save(training)
    assert checkpoint.history(tmp_path) == seen


@pytest.mark.parametrize("stop", [0, 1, 4])
def test_stopped_and_resumed_is_undisturbed(tmp_path, stop):
    whole, begun, seen = Line(), Line(), []
    loop.run(whole)
    with pytest.raises(Stopped, match=f"the line was stopped after {stop} of 6 steps"):
        loop.run(begun, Checkpoints(tmp_path, {"a": 1}), seen.append, lambda: len(seen) == stop)
    resumed, checkpoints = Line(), Checkpoints(tmp_path, {"a": 1})
    checkpoints.resume(resumed)
    assert resumed.step == stop
    loop.run(resumed, checkpoints, seen.append)
    assert [line["step"] for line in seen] == [1, 2, 3, 4, 5, 6]
    assert torch.equal(weights(whole), weights(resumed))


def test_the_last_checkpoint_of_a_killed_training_is_gone_on_from(tmp_path):
    class Killed(BaseException):
        pass

    def kill(line):
        if line["step"] == 4:
            raise Killed

    with pytest.raises(Killed):
        loop.run(Line(), Checkpoints(tmp_path, {}, seconds=0), kill)
    resumed, whole = Line(), Line()
    Checkpoints(tmp_path, {}).resume(resumed)
    assert resumed.step == 3, "one is written after each step"
    loop.run(resumed), loop.run(whole)
    assert torch.equal(weights(whole), weights(resumed))


@pytest.mark.parametrize("damage", [False, True])
def test_another_trainings_checkpoint_is_removed(tmp_path, damage):
    checkpoints, training = Checkpoints(tmp_path, {"a": 1}), Line()
    loop.run(training, checkpoints, last=2)
    checkpoints.save(training)
    if damage:
        next(tmp_path.glob("*.safetensors")).write_bytes(b"x")
    fresh = Line()
    Checkpoints(tmp_path, {"a": 1 if damage else 2}).resume(fresh)
    assert fresh.step == 0 and not list(tmp_path.iterdir())


def test_a_loss_that_is_not_finite_ends_it_in_words(tmp_path):
    class Bad(Line):
        def advance(self):
            return super().advance() | ({"loss": math.nan} if self.step == 3 else {})

    seen = []
    with pytest.raises(Diverged, match="the line broke down at step 3: its loss is no longer a number") as error:
        loop.run(Bad(), Checkpoints(tmp_path, {}), seen.append, after=lambda: {})
    assert seen[-1]["loss"] is None and checkpoint.history(tmp_path) == seen
    with pytest.raises(Diverged, match="at step 3") as again:
        Checkpoints(tmp_path, {}).resume(Bad())
    assert str(again.value) == str(error.value)


@pytest.mark.parametrize("seconds", [0, 1000])
def test_weights_that_are_not_finite_are_never_kept(tmp_path, seconds):
    class Bad(Line):
        def advance(self):
            numbers = super().advance()
            if self.step == self.steps:  # the loss is still finite, and no further step would show it
                self.net.weight.data[0, 0] = torch.inf
            return numbers

    with pytest.raises(Diverged, match="its weights are no longer numbers"):
        loop.run(Bad(), Checkpoints(tmp_path, {}, seconds))
    _, tensors = checkpoint.load(tmp_path)
    assert not tensors
    with pytest.raises(Diverged):
        loop.run(Bad())
