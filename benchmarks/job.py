"""A whole unlearning job, against the published way of doing it, and where the time goes.

    python benchmarks/job.py --weights initial.safetensors --data cifar10:/path --epochs 10
    python benchmarks/job.py --limit 1500 --epochs 2     # digits-sized smoke run, random weights

The job: SCRUB with the focus vector on a random tenth of the data, evaluated after every epoch
(UA, RA, TA, FID and the five membership attacks), with crops and mirror images. The two sides take
turns, epoch by epoch, from the same weights:

- published: images are decoded, cropped, mirrored and made tensors one by one in a Python loop
  under a ``DataLoader``; teacher and student run once for every term of the losses; the focus
  vector is the textbook's; every metric makes a forward pass of its own over such a loader, and
  every attack one for each of its three sets; scikit-learn's SVC is fitted to all examples.
- ours: ``expunge.unlearn`` with ``expunge.evaluate`` in a callback's place.

Both learn from as many members as there are test images. Seconds are wall clock; on a busy machine
use ``--clock cpu``.
"""

from __future__ import annotations

import argparse
import copy
import os
import platform
import random
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from sklearn.svm import SVC
from torch import Tensor, nn
from torch.distributions import Normal
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

import expunge
from expunge.data import Augment, ImageSet, load, parse_scenario
from expunge.data._batches import Data
from expunge.engine import Callback
from expunge.engine._artifact import load_artifact
from expunge.evaluation import (
    FEATURES,
    PAPER_FIVE,
    Predictions,
    member_shares,
    predict,
    score,
    view,
)
from expunge.models import build_model

ALPHA, BETA, DECAY, EPS, GAMMA, LR = 0.05, 0.95, 0.999, 1e-8, 1.0, 1e-4
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


class Watch:
    """Seconds by phase."""

    def __init__(self, clock: str) -> None:
        self.clock = CLOCKS[clock]
        self.seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def on(self, phase: str) -> Iterator[None]:
        start = self.clock()
        yield
        self.seconds[phase] += self.clock() - start


class OneByOne(Dataset[tuple[Tensor, int]]):
    """Images as the published code reads them: each through PIL, with transforms of its own."""

    def __init__(self, data: ImageSet, *, augment: bool) -> None:
        self.images = data.images.permute(0, 2, 3, 1).contiguous().numpy()
        self.labels = data.labels.tolist()
        self.augment = augment

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, k: int) -> tuple[Tensor, int]:
        image = Image.fromarray(self.images[k])
        if self.augment:
            size = image.size
            padded = ImageOps.expand(image, 4)
            left, top = random.randint(0, 8), random.randint(0, 8)
            image = padded.crop((left, top, left + size[0], top + size[1]))
            if random.random() < 0.5:
                image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()
        return pixels.float().div(255), self.labels[k]


class Published:
    """The job as published."""

    def __init__(
        self, model: nn.Module, ideal: nn.Module, splits: dict[str, ImageSet], watch: Watch
    ) -> None:
        self.model, self.teacher = copy.deepcopy(model), copy.deepcopy(model).eval()
        self.ideal, self.splits, self.watch = ideal, splits, watch
        self.params = list(self.model.parameters())
        self.optimizer = torch.optim.Adam(self.params, lr=LR)
        self.moments = [[torch.zeros_like(p) for p in self.params] for _ in range(2)]
        self.steps = 0
        self.retain: Iterator[Any] = iter(())

    def epoch(self) -> dict[str, float]:
        """One pass over the forget set, then every metric."""
        self.model.train()
        batches = iter(self._loader("forget", augment=True))
        while True:
            with self.watch.on("data"):
                forget = next(batches, None)
                if forget is None:
                    break
                retain = self._next_retain()
            with self.watch.on("steps"):
                self._step(forget, retain)
        return self._evaluate()

    def _step(self, forget: Any, retain: Any) -> None:
        self.steps += 1
        (x_f, _), (x_r, y_r) = forget, retain
        g_u = self._gradient(-self._divergence(x_f))
        # The student sees the batch once for the divergence, and again for the loss.
        g_c = self._gradient(self._divergence(x_r) + GAMMA * F.cross_entropy(self.model(x_r), y_r))
        for p, u, c, v_u, v_c in zip(self.params, g_u, g_c, *self.moments, strict=True):
            phi_u, phi_c = self._phi(u, v_u), self._phi(c, v_c)
            p.grad = (phi_u * phi_c + (1 - phi_u) * (1 - phi_c)) * (ALPHA * u + BETA * c)
        self.optimizer.step()

    def _divergence(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            teacher = F.log_softmax(self.teacher(x), -1)
        student = F.log_softmax(self.model(x), -1)
        return F.kl_div(student, teacher, reduction="batchmean", log_target=True)

    def _gradient(self, loss: Tensor) -> list[Tensor]:
        self.optimizer.zero_grad()
        loss.backward()
        return [p.grad.clone() for p in self.params if p.grad is not None]

    def _phi(self, g: Tensor, moment: Tensor) -> Tensor:
        moment.mul_(DECAY).add_((1 - DECAY) * g**2)
        return Normal(0.0, 1.0).cdf(g / torch.sqrt(moment / (1 - DECAY**self.steps) + EPS))

    def _next_retain(self) -> Any:
        batch = next(self.retain, None)
        if batch is None:
            self.retain = iter(self._loader("retain", augment=True))
            batch = next(self.retain)
        return batch

    def _loader(self, split: str, *, augment: bool) -> DataLoader[Any]:
        data = OneByOne(self.splits[split], augment=augment)
        return DataLoader(data, batch_size=256, shuffle=augment, drop_last=False)

    def _evaluate(self) -> dict[str, float]:
        self.model.eval()
        with self.watch.on("passes"):
            found = {
                name: self._accuracy(self._outputs(self.model, split))
                for name, split in (("ua", "forget"), ("ra", "retain"), ("ta", "test"))
            }
            mine, best = (self._outputs(m, "forget") for m in (self.model, self.ideal))
            found["fid"] = 100 * float((mine.classes == best.classes).float().mean())
        for name in PAPER_FIVE:
            with self.watch.on("passes"):
                members, others, targets = (
                    self._outputs(self.model, split) for split in ("members", "test", "forget")
                )
            with self.watch.on("attacks"):
                feature = FEATURES[name]
                x = np.concatenate([feature(members), feature(others)])
                y = np.arange(len(x)) < len(members.labels)
                fitted: Any = SVC(C=3, gamma="auto", kernel="rbf").fit(x, y)
                found[f"mia_{name}"] = float(fitted.predict(feature(targets)).mean())
        return found

    @torch.no_grad()
    def _outputs(self, model: nn.Module, split: str) -> Predictions:
        pairs = [(model(x), y) for x, y in self._loader(split, augment=False)]
        return Predictions(torch.cat([p[0] for p in pairs]), torch.cat([p[1] for p in pairs]))

    @staticmethod
    def _accuracy(outputs: Predictions) -> float:
        return 100 * float((outputs.classes == outputs.labels).float().mean())


class Turns(Callback):
    """After each of our epochs: our evaluation, then the other side's epoch."""

    def __init__(
        self,
        published: Published,
        ideal: nn.Module,
        splits: dict[str, Data],
        watch: Watch,
    ) -> None:
        self.published, self.splits, self.watch = published, splits, watch
        with watch.on("passes"):
            self.ideal = predict(ideal, splits["forget"])
        self.since = watch.clock()

    def on_epoch(self, run: Any) -> None:
        self.watch.seconds["steps"] += self.watch.clock() - self.since
        with self.watch.on("passes"):
            views = view(run.model.eval(), **self.splits)
            scores = score(views, self.ideal)
        with self.watch.on("attacks"):
            shares = member_shares(views)
        theirs = self.published.epoch()
        mine = {name: getattr(scores, name) for name in ("ua", "ra", "ta", "fid")}
        mine |= {f"mia_{name}": share for name, share in shares.items()}
        print(f"epoch {run.epoch}: " + _totals(self.watch, self.published.watch))
        for name in mine:
            print(f"  {name:22} published {theirs[name]:8.3f}   ours {mine[name]:8.3f}", flush=True)
        self.since = self.watch.clock()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weights", help="a file written by `expunge train`; random if not given")
    parser.add_argument("--data", default="cifar10", help="its data, such as cifar10:/path")
    parser.add_argument("--forget", default="random:0.1", help="scenario (default: random:0.1)")
    parser.add_argument("--limit", type=int, help="without weights: so many random images")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    options = parser.parse_args()
    model, splits = _subject(options)
    sizes = ", ".join(f"{name} {len(part)}" for name, part in splits.items())
    print(
        f"{platform.machine()}, {torch.get_num_threads()} of {os.cpu_count()} threads, torch "
        f"{torch.__version__}, {options.clock} clock, load {os.getloadavg()[0]:.1f}; {sizes}"
    )
    watches = Watch(options.clock), Watch(options.clock)
    given: dict[str, Data] = {name: splits[name] for name in ("forget", "retain", "test")}
    ideal = copy.deepcopy(model).eval()  # what it predicts does not change what passes cost
    published = Published(model, ideal, splits, watches[1])
    expunge.unlearn(
        model,
        forget=given["forget"],
        retain=given["retain"],
        method="SCRUB",
        addon="focus",
        epochs=options.epochs,
        lr=LR,
        augment=Augment(),
        execution=expunge.Execution(
            callbacks=[Turns(published, ideal, given, watches[0])], progress=False
        ),
    )
    print(f"\n{'':10}{'published':>11}{'ours':>10}{'ratio':>8}")
    for phase in ("data", "steps", "passes", "attacks"):
        theirs, mine = (watch.seconds.get(phase, 0.0) for watch in reversed(watches))
        ratio = f"{theirs / mine:7.1f}x" if mine else " in steps"
        print(f"{phase:10}{theirs:10.1f}s{mine:9.1f}s{ratio}")
    print(f"in all: {_totals(*watches)}")


def _totals(ours: Watch, theirs: Watch) -> str:
    mine, other = (sum(watch.seconds.values()) for watch in (ours, theirs))
    return f"published {other:.1f} s, ours {mine:.1f} s, {other / mine:.2f} times faster"


def _subject(options: argparse.Namespace) -> tuple[nn.Module, dict[str, ImageSet]]:
    if options.weights:
        artifact = load_artifact(options.weights)
        model, data = artifact.model, load(options.data, limit=artifact.card.data.limit)
        train, test = data.train, data.test
    else:
        model = build_model("vgg16", width=0.25, seed=0)
        train, test = _noise(options.limit or 10_000), _noise((options.limit or 10_000) // 5)
    chosen = parse_scenario(options.forget).pick(train, 0)
    splits = {"forget": train.subset(chosen.forget), "retain": train.subset(chosen.retain)}
    members = splits["retain"].subset(range(min(len(test), len(splits["retain"]))))
    return model, splits | {"test": test, "members": members}


def _noise(count: int) -> ImageSet:
    generator = torch.Generator().manual_seed(count)
    pixels = torch.randint(0, 256, (count, 3, 32, 32), dtype=torch.uint8, generator=generator)
    return ImageSet(pixels, torch.arange(count) % 10, [str(k) for k in range(10)])


if __name__ == "__main__":
    main()
