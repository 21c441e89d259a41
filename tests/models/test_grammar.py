"""The architecture grammar, and how it tells what is wrong."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstspike.errors import FirstspikeError
from firstspike.models import ZOO, parse, resolve


def written(spec: str) -> str:
    return "-".join(map(str, parse(spec)))


@pytest.mark.parametrize(
    ("spec", "plain"),
    [
        ("FC10", "FC10"),
        ("C20K5-P2-FC10", "C20K5-P2-FC10"),
        ("{C2K3}*2-FC3", "C2K3-C2K3-FC3"),
        ("{{C2K3}*2-P2}*2-FC3", "C2K3-C2K3-P2-C2K3-C2K3-P2-FC3"),
        ("C1K1-{P2-{C4K3-C5K3}*2}*1-FC9", "C1K1-P2-C4K3-C5K3-C4K3-C5K3-FC9"),
        ("{FC4}*3-FC2", "FC4-FC4-FC4-FC2"),
        ("{FC4}*3", "FC4-FC4-FC4"),
    ],
)
def test_groups_are_written_out(spec: str, plain: str) -> None:
    assert written(spec) == plain
    assert written(plain) == plain


def test_only_three_by_three_kernels_are_padded() -> None:
    assert [token.padding for token in parse("C1K1-C1K3-C1K5-C1K7-FC2")[:-1]] == [0, 1, 0, 0]


# the caret stands under the first sign of what is wrong
@pytest.mark.parametrize(
    ("spec", "caret", "reason"),
    [
        ("", "^", "expected C{channels}K{kernel}, P{size}, FC{neurons} or a group"),
        ("C20K5-X2-FC10", "      ^", "expected C{channels}K{kernel}"),
        ("C20K5--FC10", "      ^", "expected C{channels}K{kernel}"),
        ("C20K5-P2-", "         ^", "expected C{channels}K{kernel}"),
        ("C20-P2-FC10", "^", "expected C{channels}K{kernel}"),
        ("c20k5-FC10", "^", "expected C{channels}K{kernel}"),
        ("C20K5 -FC10", "     ^", "expected '-' or the end"),
        ("C20K5P2-FC10", "     ^", "expected '-' or the end"),
        ("C20K5}*2-FC10", "     ^", "expected '-' or the end"),
        ("C20K5-P0-FC10", "      ^", "sizes in P0 must be at least 1"),
        ("C0K3-FC10", "^", "sizes in C0K3 must be at least 1"),
        ("{C2K3-P2-FC10", "             ^", "expected '-' or a closing '}'"),
        ("{{C2K3}*2-P2*3-FC10", "            ^", "expected '-' or a closing '}'"),
        ("{C2K3}-FC10", "      ^", "how often to repeat it"),
        ("{C2K3}*-FC10", "      ^", "how often to repeat it"),
        ("{C2K3}*0-FC10", "      ^", "how often to repeat it"),
        ("{}*2-FC10", " ^", "expected C{channels}K{kernel}"),
        ("C2K3-P2", "     ^", "must be FC{classes}"),
        ("FC4-{C2K3-P2}*2", "          ^", "must be FC{classes}"),
        ("FC10-P2-FC10", "     ^", "P2 cannot follow the fully connected FC10"),
        ("FC10-FC10-C2K3-FC10", "          ^", "C2K3 cannot follow the fully connected FC10"),
        ("FC007-P2-FC10", "      ^", "P2 cannot follow the fully connected FC7"),
        ("C1K1-FC100-FC10-P2-FC10", "                ^", "P2 cannot follow the fully connected FC10"),
        ("{P2-FC8}*2-FC10", " ^", "P2 cannot follow the fully connected FC8"),
        ("{C1K1}*1000-{C1K1}*1000-FC10", "^", "more than 1000 layers"),
        ("{" * 10 + "C1K1" + "}*1" * 10 + "-FC2", "         ^", "nested more than 8 deep"),
    ],
)
def test_an_error_quotes_the_string_and_points_at_the_bad_place(spec: str, caret: str, reason: str) -> None:
    with pytest.raises(FirstspikeError) as caught:
        parse(spec)
    lines = str(caught.value).split("\n")
    assert lines[1] == f"  {spec}"
    pointer = lines[2].removeprefix("  ")
    assert pointer.startswith(f"{caret} "), f"points at column {pointer.index('^')}"
    assert reason in pointer


@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.lists(st.sampled_from(["C", "K", "P", "FC", "{", "}", "}*2", "-", "3", "10", "x"]), max_size=14))
def test_any_string_is_read_or_refused_in_words(parts: list[str]) -> None:
    spec = "".join(parts)
    try:
        plain = written(spec)
    except FirstspikeError as error:
        message = str(error)
    else:
        assert written(plain) == plain
        return
    assert f"\n  {spec}\n" in message


@pytest.mark.parametrize("name", ZOO)
def test_every_name_of_the_zoo_is_its_string_and_takes_any_number_of_classes(name: str) -> None:
    assert resolve(name) == parse(ZOO[name])
    assert resolve(name, 37)[:-1] == parse(ZOO[name])[:-1]
    assert str(resolve(name, 37)[-1]) == "FC37"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("scnn5", "did you mean SCNN5"),
        ("SCNN55", "did you mean SCNN5"),
        ("resnet", "choose one of FC1, FC2, SCNN1"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(FirstspikeError) as caught:
        resolve(name)
    assert f"Unknown architecture {name!r}" in str(caught.value)
    assert hint in str(caught.value)
    assert "C20K5-P2" in str(caught.value)  # and that one may be written
