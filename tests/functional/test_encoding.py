"""Images as input over time."""

import pytest
import torch

from firstspike.errors import FirstspikeError
from firstspike.functional import direct, latency, spike_times


def test_direct_input_is_the_image_at_every_step_without_a_copy() -> None:
    image = torch.rand(2, 1, 3, 3)
    current = direct(image, 5)
    assert current.shape == (5, 2, 1, 3, 3)
    assert all(torch.equal(frame, image) for frame in current)
    assert current.data_ptr() == image.data_ptr()


@pytest.mark.parametrize("T", [1, 2, 3, 8, 20])
def test_a_pixel_fires_once_at_its_rounded_time(T: int) -> None:
    """round((1 - x) * (T - 1)), by Python's own rounding, for all 8-bit pixels."""
    image = (torch.arange(256, dtype=torch.float64) / 255)[None]
    spikes = latency(image, T)
    assert torch.equal(spikes.sum(0), torch.ones_like(image))
    assert spike_times(spikes)[0].tolist() == [round((1 - i / 255) * (T - 1)) for i in range(256)]


def test_white_fires_first_black_last_and_halves_round_to_even() -> None:
    times = spike_times(latency(torch.tensor([[1.0, 0.0, 0.5, 0.25, 0.75]]), 3))
    assert times.tolist() == [[0, 2, 1, 2, 0]]  # 0.75 * 2 = 1.5 goes to 2, and 0.25 * 2 = 0.5 to 0


def test_one_step_has_all_pixels_at_once() -> None:
    assert torch.equal(latency(torch.rand(2, 3), 1), torch.ones(1, 2, 3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_spikes_come_in_the_dtype_of_the_image(dtype: torch.dtype) -> None:
    assert latency(torch.rand(2, 3, dtype=dtype), 4).dtype == dtype


@pytest.mark.parametrize(
    ("pixels", "message"),
    [
        ([0.0, 255.0], r"\[0, 1\].*lie in \[0, 255\].*divide 8-bit images by 255"),
        ([-0.4, 1.0], r"lie in \[-0.4, 1\].*leave out the standardisation"),
        ([0.5, float("nan")], r"\[0, 1\]"),
    ],
)
def test_pixels_out_of_range_are_refused(pixels: list[float], message: str) -> None:
    with pytest.raises(FirstspikeError, match=message):
        latency(torch.tensor([pixels]), 4)


@pytest.mark.parametrize("encode", [direct, latency])
@pytest.mark.parametrize("T", [0, -3, 256])
def test_a_bad_number_of_steps_is_refused(encode, T: int) -> None:
    with pytest.raises(FirstspikeError, match=f"T must be between 1 and 255.*not {T}"):
        encode(torch.rand(1, 2), T)
