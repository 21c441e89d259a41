"""Where the named sets come from, and the digests that tell whether a file is the publisher's.

The md5 digests of what is downloaded are the ones that the publishers' pages (CIFAR, Fashion-MNIST) or
torchvision's sources (MNIST) state. The sha256 digests are of the content, so that an idx file verifies
gzipped or not, however it was compressed; they were computed from copies known to equal the originals.
"""

from __future__ import annotations

from dataclasses import dataclass

ORIGINAL = "the publisher's"
Digests = dict[str, str]
"""Accepted digest (md5 or sha256, told apart by length) to what it is the digest of."""


@dataclass(frozen=True)
class Download:
    """One file to fetch: its name, addresses that all serve the same bytes, and their md5."""

    file: str
    urls: tuple[str, ...]
    md5: str

    @property
    def is_archive(self) -> bool:
        """Whether it is to be unpacked."""
        return self.file.endswith(".tar.gz")


@dataclass(frozen=True)
class Source:
    """What makes up one set on disk: what to fetch, and the files that must then be there."""

    downloads: tuple[Download, ...]
    contents: dict[str, Digests]
    manual: str = ""
    """What a person has to do where a set cannot be fetched by a program."""


def _idx(mirrors: tuple[str, ...], files: dict[str, tuple[str, str]]) -> Source:
    return Source(
        tuple(
            Download(f"{stem}.gz", tuple(f"{mirror}{stem}.gz" for mirror in mirrors), md5)
            for stem, (md5, _) in files.items()
        ),
        {stem: {sha256: ORIGINAL} for stem, (_, sha256) in files.items()},
    )


_MNIST = _idx(
    (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
        "http://yann.lecun.com/exdb/mnist/",
    ),
    {
        "train-images-idx3-ubyte": (
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        ),
        "train-labels-idx1-ubyte": (
            "d53e105ee54ea40749a09fcbcd1e9432",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        ),
        "t10k-images-idx3-ubyte": (
            "9fb629c4189551a2d022fa330f9573f3",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        ),
        "t10k-labels-idx1-ubyte": (
            "ec29112dd5afa0611ce80d1b7f02629c",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
    },
)
_FASHION = _idx(
    (
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    ),
    {
        "train-images-idx3-ubyte": (
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        ),
        "train-labels-idx1-ubyte": (
            "25c81989df183df01b3e8a0aad5dffbe",
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        ),
        "t10k-images-idx3-ubyte": (
            "bef4ecab320f06d8554ea6380940ec79",
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        ),
        "t10k-labels-idx1-ubyte": (
            "bb300cfdad3c16e7a12a480ee83cd310",
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
    },
)
_CIFAR10 = Source(
    (
        Download(
            "cifar-10-binary.tar.gz",
            ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
            "c32a1d4ab5d03f1284b67883e8d87530",
        ),
    ),
    {
        f"cifar-10-batches-bin/{file}.bin": {sha256: ORIGINAL}
        for file, sha256 in {
            "data_batch_1": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
            "data_batch_2": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
            "data_batch_3": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
            "data_batch_4": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
            "data_batch_5": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
            "test_batch": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
        }.items()
    },
)
_SHUFFLED = "a prepared copy: in another order than the publisher's, and without coarse labels"
_CIFAR100 = Source(
    (
        Download(
            "cifar-100-binary.tar.gz",
            ("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",),
            "03b5dce01913d631647c71ecec9e9cb8",
        ),
    ),
    {
        # The md5 of the unpacked files as other projects state them; no original was at hand to compute a sha256.
        "cifar-100-binary/train.bin": {
            "6172c7755cfe09b2fe270c85cebc1b15": ORIGINAL,
            "09ab35ecef458b64a00447f03efebcd852e1c8688248d20e85d065201b40554a": _SHUFFLED,
        },
        "cifar-100-binary/test.bin": {
            "4499cfba6c016c1be1438163640a0898": ORIGINAL,
            "16263592b600db5cb9fce1eaa44b25e091e1bf9060c5d7f43ea1858c5194d5e4": _SHUFFLED,
        },
    },
)
_GESTURES = Source(
    # No address that a program could fetch it from; the md5 is the one that SpikingJelly's sources state.
    (Download("DvsGesture.tar.gz", (), "8a5c71fb11e24e5ca5b11866ca6c00a1"),),
    {},
    manual="DVS128 Gesture is given out through IBM's web page and cannot be fetched by a program. "
    "Get DvsGesture.tar.gz from https://ibm.ent.box.com/s/3hiq58ww1pbbjrinh367ykfdf60xsfm8/folder/50167556794",
)

SOURCES: dict[str, Source] = {
    "mnist": _MNIST,
    "fashion-mnist": _FASHION,
    "cifar10": _CIFAR10,
    "cifar100": _CIFAR100,
    "dvs-gesture": _GESTURES,
}
