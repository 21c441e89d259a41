"""Downloads from a server on this machine: resumed, refused, unpacked within bounds, renamed at the end."""

import gzip
import hashlib
import http.server
import io
import re
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from firstspike.data import download, get, verify
from firstspike.data.download import fetch
from firstspike.data.sources import ORIGINAL, SOURCES, Download, Source
from firstspike.data.unpack import unpack
from firstspike.errors import FirstspikeError

CONTENT = bytes(range(256)) * 4000


class Server(http.server.ThreadingHTTPServer):
    """Serves `files`; `cut` ends an answer after that many bytes, `ranges` says whether parts may be asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.cut: int | None = None
        self.ranges = True
        self.asked: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.asked.append(wanted)
        content = self.server.files.get(self.path[1:])
        if content is None:
            self.send_error(404)
            return
        first = int(re.findall(r"\d+", wanted)[0]) if wanted and self.server.ranges else 0
        if first >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if first else 200)
        self.send_header("Content-Length", str(len(content) - first))
        self.end_headers()
        self.wfile.write(content[first:][: self.server.cut])

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    serving = Server()
    thread = threading.Thread(target=serving.serve_forever, args=(0.01,))
    thread.start()
    yield serving
    serving.shutdown()
    thread.join()
    serving.server_close()


def item(server: Server, name: str = "set.gz", content: bytes = CONTENT) -> Download:
    server.files[name] = content
    return Download(name, (server.url + name,), hashlib.md5(content).hexdigest())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_fetched_with_progress_and_renamed(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    path = fetch(item(server), tmp_path, lambda *state: seen.append(state))
    assert path.read_bytes() == CONTENT
    assert names(tmp_path) == ["set.gz"]
    assert seen[-1] == ("set.gz", len(CONTENT), len(CONTENT))


def test_a_cut_connection_leaves_only_a_part_that_the_next_attempt_continues(
    server: Server, tmp_path: Path
) -> None:
    wanted = item(server)
    server.cut = 1000
    with pytest.raises(FirstspikeError, match=r"set\.gz could not be fetched .*connection was cut"):
        fetch(wanted, tmp_path)
    assert names(tmp_path) == ["set.gz.part"]
    assert (tmp_path / "set.gz.part").read_bytes() == CONTENT[:3000]  # three tries of a thousand bytes
    server.cut = None
    assert fetch(wanted, tmp_path).read_bytes() == CONTENT
    assert server.asked[-1] == "bytes=3000-"
    assert names(tmp_path) == ["set.gz"]


def test_a_server_without_ranges_starts_over(server: Server, tmp_path: Path) -> None:
    wanted = item(server)
    (tmp_path / "set.gz.part").write_bytes(b"x" * 50)
    server.ranges = False
    assert fetch(wanted, tmp_path).read_bytes() == CONTENT


def test_a_part_that_is_whole_already_needs_nothing_more(server: Server, tmp_path: Path) -> None:
    wanted = item(server)
    (tmp_path / "set.gz.part").write_bytes(CONTENT)
    assert fetch(wanted, tmp_path).read_bytes() == CONTENT


def test_a_wrong_digest_is_refused_and_nothing_stays(server: Server, tmp_path: Path) -> None:
    wanted = item(server)
    server.files["set.gz"] = CONTENT[::-1]
    with pytest.raises(FirstspikeError, match=f"expected {wanted.md5}; refused"):
        fetch(wanted, tmp_path)
    assert names(tmp_path) == []


def test_a_mirror_stands_in(server: Server, tmp_path: Path) -> None:
    wanted = item(server)
    mirrored = Download(wanted.file, (server.url + "gone", *wanted.urls), wanted.md5)
    assert fetch(mirrored, tmp_path).read_bytes() == CONTENT


def test_without_a_network_the_error_says_which_file_to_put_where(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise OSError("Network is unreachable")

    monkeypatch.setattr(download.urllib.request, "urlopen", refuse)
    with pytest.raises(
        FirstspikeError, match=r"unreachable.*train-labels.*t10k-labels.* elsewhere and put it into .*/mnist,"
    ):
        get("mnist", tmp_path)
    assert names(tmp_path) == []


def archive(members: dict[str, bytes], **odd: tarfile.TarInfo) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        for member in odd.values():
            tar.addfile(member)
    return raw.getvalue()


@pytest.mark.parametrize("name", ["../escaped", "/tmp/escaped", "a/../../escaped"])
def test_an_archive_that_leads_out_is_refused_before_it_writes(tmp_path: Path, name: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "evil.tar.gz").write_bytes(archive({"fine": b"1", name: b"2"}))
    with pytest.raises(FirstspikeError, match="leads out of"):
        unpack(tmp_path / "evil.tar.gz", tmp_path / "in")
    assert names(tmp_path) == ["evil.tar.gz", "in"]
    assert names(tmp_path / "in") == []


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_an_archive_of_links_is_refused(tmp_path: Path, kind: bytes) -> None:
    link = tarfile.TarInfo("link")
    link.type, link.linkname = kind, "/etc/passwd"
    (tmp_path / "in").mkdir()
    (tmp_path / "evil.tar.gz").write_bytes(archive({}, link=link))
    with pytest.raises(FirstspikeError, match="no plain file or folder"):
        unpack(tmp_path / "evil.tar.gz", tmp_path / "in")
    assert names(tmp_path / "in") == []


@pytest.fixture
def small(server: Server, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """CIFAR-100's source, replaced by a small archive on this machine's server."""
    files = {"cifar-100-binary/train.bin": b"train", "cifar-100-binary/test.bin": b"test"}
    packed = archive(files)
    contents = {name: {hashlib.sha256(content).hexdigest(): ORIGINAL} for name, content in files.items()}
    monkeypatch.setitem(
        SOURCES, "cifar100", Source((item(server, "cifar-100-binary.tar.gz", packed),), contents)
    )
    return packed


def test_get_unpacks_an_archive_and_is_content_the_second_time(
    server: Server, small: bytes, tmp_path: Path
) -> None:
    folder = get("cifar100", tmp_path)
    assert names(folder) == ["cifar-100-binary"]
    assert [note for _, note in verify("cifar100", tmp_path)] == [ORIGINAL, ORIGINAL]
    server.files.clear()
    assert get("cifar100", tmp_path) == folder


def test_an_archive_put_there_by_hand_is_checked_and_used(
    server: Server, small: bytes, tmp_path: Path
) -> None:
    server.files.clear()
    (tmp_path / "cifar100").mkdir()
    place = tmp_path / "cifar100/cifar-100-binary.tar.gz"
    place.write_bytes(small[:-1])
    with pytest.raises(FirstspikeError, match=r"cifar-100-binary\.tar\.gz: its md5 is"):
        get("cifar100", tmp_path)
    place.write_bytes(small)
    # It stays, as it is the user's.
    assert names(get("cifar100", tmp_path)) == ["cifar-100-binary", "cifar-100-binary.tar.gz"]


def test_get_fetches_the_idx_files_that_are_missing(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stems = list(SOURCES["mnist"].contents)
    packed = {stem: gzip.compress(stem.encode()) for stem in stems}
    downloads = tuple(item(server, f"{stem}.gz", packed[stem]) for stem in stems)
    contents = {stem: {hashlib.sha256(stem.encode()).hexdigest(): ORIGINAL} for stem in stems}
    monkeypatch.setitem(SOURCES, "mnist", Source(downloads, contents))
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / stems[0]).write_bytes(stems[0].encode())  # one is there already, not compressed
    assert names(get("mnist", tmp_path)) == sorted([stems[0], *(f"{stem}.gz" for stem in stems[1:])])
    assert len(server.asked) == 3


def test_verify_refuses_another_content_and_names_both_digests(small: bytes, tmp_path: Path) -> None:
    path = get("cifar100", tmp_path) / "cifar-100-binary/test.bin"
    path.write_bytes(b"tess")
    found, expected = (hashlib.sha256(content).hexdigest() for content in (b"tess", b"test"))
    with pytest.raises(FirstspikeError, match=rf"test\.bin: .*{found}; expected {expected}"):
        verify("cifar100", tmp_path)
    path.unlink()
    with pytest.raises(FirstspikeError, match=r"test\.bin: there is no such file"):
        verify("cifar100", tmp_path)


def test_dvs_gesture_says_what_to_put_where(tmp_path: Path) -> None:
    with pytest.raises(
        FirstspikeError, match=r"Get DvsGesture\.tar\.gz from https://.*put it at .*dvs-gesture"
    ):
        get("dvs-gesture", tmp_path)
    (tmp_path / "dvs-gesture").mkdir()
    (tmp_path / "dvs-gesture/DvsGesture.tar.gz").write_bytes(b"something else")
    with pytest.raises(FirstspikeError, match="its md5 is"):
        get("dvs-gesture", tmp_path)


def test_recordings_that_lack_gestures_do_not_verify(recordings: Path) -> None:
    with pytest.raises(FirstspikeError, match="mark 4 gestures; expected 1176"):
        verify("dvs-gesture", recordings)


def test_a_root_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FirstspikeError, match="cannot be written"):
        get("mnist", tmp_path / "file")


def test_the_sample_is_always_there(tmp_path: Path) -> None:
    assert (get("fashion-mnist-sample", tmp_path) / "LICENSE").is_file()
    assert len(verify("fashion-mnist-sample", tmp_path)) == 1


@pytest.mark.parametrize("act", [get, verify])
def test_unknown_names_are_quoted(act, tmp_path: Path) -> None:
    with pytest.raises(FirstspikeError, match="no data set 'mnits'; did you mean mnist"):
        act("mnits", tmp_path)
