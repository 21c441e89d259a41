"""The sets that have a name, and the names of their classes."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Literal

from firstspike.errors import FirstspikeError

Format = Literal["idx", "cifar", "gestures", "sample"]


@dataclass(frozen=True)
class Named:
    """A data set known by name: how it is stored and what is in it."""

    name: str
    title: str
    format: Format
    counts: tuple[int, int]
    """Training and test samples, as published."""
    classes: tuple[str, ...]
    licence: str
    home: str
    """The publisher's page."""
    mirrored: tuple[int, ...] = ()
    """What each class is in a mirror, where some become others."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_DIGITS = tuple("0123456789")
_FASHION = _words("T-shirt/top Trouser Pullover Dress Coat Sandal Shirt Sneaker Bag Ankle_boot")
_CIFAR10 = _words("airplane automobile bird cat deer dog frog horse ship truck")
_CIFAR100 = _words(
    """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly
    camel can castle
    caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin
    elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard
    lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear
    pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal
    shark shrew skunk skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank
    telephone television tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm
    """
)
_GESTURES = _words(
    """
    hand_clapping right_hand_wave left_hand_wave right_arm_clockwise right_arm_counter_clockwise
    left_arm_clockwise
    left_arm_counter_clockwise arm_roll air_drums air_guitar other_gestures
    """
)

catalogue: dict[str, Named] = {
    entry.name: entry
    for entry in (
        Named(
            "mnist",
            "handwritten digits",
            "idx",
            (60_000, 10_000),
            _DIGITS,
            "CC BY-SA 3.0",
            "http://yann.lecun.com/exdb/mnist/",
        ),
        Named(
            "fashion-mnist",
            "articles of clothing",
            "idx",
            (60_000, 10_000),
            _FASHION,
            "MIT",
            "https://github.com/zalandoresearch/fashion-mnist",
        ),
        Named(
            "cifar10",
            "small photographs",
            "cifar",
            (50_000, 10_000),
            _CIFAR10,
            "not stated",
            "https://www.cs.toronto.edu/~kriz/cifar.html",
        ),
        Named(
            "cifar100",
            "small photographs",
            "cifar",
            (50_000, 10_000),
            _CIFAR100,
            "not stated",
            "https://www.cs.toronto.edu/~kriz/cifar.html",
        ),
        Named(
            "dvs-gesture",
            "event camera",
            "gestures",
            (1176, 288),
            _GESTURES,
            "CC BY 4.0",
            "https://research.ibm.com/interactive/dvsgesture/",
            # Right and left change places, and so do clockwise and counter-clockwise.
            mirrored=(0, 2, 1, 6, 5, 4, 3, 7, 8, 9, 10),
        ),
        Named(
            "fashion-mnist-sample",
            "part of Fashion-MNIST",
            "sample",
            (5000, 1000),
            _FASHION,
            "MIT",
            "https://github.com/zalandoresearch/fashion-mnist",
        ),
    )
}


def named(name: str) -> Named:
    """The set of that name."""
    if name not in catalogue:
        raise FirstspikeError(unknown(name))
    return catalogue[name]


def unknown(given: str) -> str:
    """What to say about a name that is none, quoting it and the nearest ones that are."""
    near = difflib.get_close_matches(given.lower(), catalogue, n=2, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else "nor a file or folder of that name."
    return (
        f"there is no data set {given!r}; {hint} Expected one of {', '.join(catalogue)}, a folder of images by "
        "class, or an .npz with x and y."
    )
