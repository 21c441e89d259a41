"""A network of your own, made of firstspike's layers and trained like any other: python examples/own_network.py

Two convolutions look at the image side by side, with small and with large kernels, which no architecture string
can say. Whatever takes a batch of images and gives an `Output` can be trained by a recipe. Trains for about
half a minute on a laptop, on the sample of Fashion-MNIST that comes with the package.
"""

import argparse
from dataclasses import replace

import torch
from torch import Tensor, nn

import firstspike as fs
from firstspike.nn import AMOS, AvgPool2d, Conv2d, Linear, Output, Readout, Spiking
from firstspike.training import Options, fit, get_recipe


class TwoPaths(nn.Module):
    """Images `[B, 1, 28, 28]` in, output spikes and membranes over `T` steps out."""

    def __init__(self, T: int) -> None:
        super().__init__()
        self.T = T
        self.fine = Spiking(Conv2d(1, 8, kernel=3, T=T, padding=1), AMOS())
        self.coarse = Spiking(Conv2d(1, 8, kernel=5, T=T, padding=2), AMOS())
        self.pool = AvgPool2d(4)
        self.hidden = Spiking(Linear(16 * 7 * 7, 100, T), AMOS())
        self.out = Readout(Linear(100, 10, T), AMOS())

    def forward(self, images: Tensor) -> Output:
        current = fs.functional.direct((images - 0.3) / 0.35, self.T)
        spikes = torch.cat([self.fine(current), self.coarse(current)], dim=2)
        output: Output = self.out(self.hidden(self.pool(spikes)))
        return output


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--out", help="run folder; by default a new one under runs/")
    arguments = parser.parse_args()

    recipe = replace(get_recipe("fashion-mnist-sample"), name="own-network", T=4, epochs=arguments.epochs)
    torch.manual_seed(recipe.seed)
    net = TwoPaths(recipe.T)
    run = fit(recipe, arguments.out, model=net, options=Options(device="cpu"))

    for line in run.metrics("epoch"):
        print(
            f"epoch {line['epoch']}: loss {line['train_loss']:.3f}, accuracy {line['train_accuracy']:.1f} %, "
            f"answer after {line['train_steps']:.2f} of {recipe.T} steps"
        )
    print("share of neurons that fire, by layer:")
    for name, layer in run.metrics("layers")[-1]["layers"].items():
        print(f"  {name:<7} {100 * (1 - layer['silent']):3.0f} %")
    print(f"the run, with all its numbers: {run.folder}")


if __name__ == "__main__":
    main()
