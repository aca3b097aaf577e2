from __future__ import annotations

import hashlib
import http.server
import threading

import pytest

from expunge._errors import DataError, InvalidInput
from expunge.data import cache_dir, fetch

CONTENT = bytes(i * i % 251 for i in range(300_000))
MD5 = hashlib.md5(CONTENT).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        wanted = self.headers.get("Range")
        server.asked.append(wanted)
        start = int(wanted[6:-1]) if wanted and server.ranges else 0
        if self.path != "/file":
            return self.send_error(404)
        if start and start >= len(CONTENT):
            return self.send_error(416)
        body = CONTENT[start - server.slip if start else 0 :]
        self.send_response(206 if start else 200)
        if start:
            said = start - server.slip
            self.send_header("Content-Range", f"bytes {said}-{len(CONTENT) - 1}/{len(CONTENT)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        cut = server.cuts.pop(0) if server.cuts else len(body)
        self.wfile.write(body[:cut])
        return None

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.asked, server.cuts, server.ranges, server.slip = [], [], True, 0
        server.url = f"http://127.0.0.1:{server.server_port}/file"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def leftovers(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_download_appears_under_its_name_alone(tmp_path, server):
    path = fetch(server.url, tmp_path / "new" / "file", MD5)
    assert path.read_bytes() == CONTENT
    assert leftovers(path.parent) == ["file"]


def test_what_is_there_is_not_fetched_again(tmp_path, server):
    (tmp_path / "file").write_bytes(b"mine")
    assert fetch(server.url, tmp_path / "file", MD5).read_bytes() == b"mine"
    assert server.asked == []


def test_a_cut_download_goes_on_within_a_call(tmp_path, server):
    server.cuts = [100_000, 50_000]
    assert fetch(server.url, tmp_path / "file", MD5).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=100000-", "bytes=150000-"]


def test_a_cut_download_goes_on_in_a_later_call(tmp_path, server):
    server.cuts = [100_000]
    with pytest.raises(
        DataError, match=r"connection was cut.*file\.part, from where the next call"
    ):
        fetch(server.url, tmp_path / "file", MD5, attempts=1)
    assert leftovers(tmp_path) == ["file.part"]
    assert fetch(server.url, tmp_path / "file", MD5).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=100000-"]
    assert leftovers(tmp_path) == ["file"]


def test_a_server_without_ranges_starts_over(tmp_path, server):
    server.ranges = False
    (tmp_path / "file.part").write_bytes(CONTENT[:70_000])
    assert fetch(server.url, tmp_path / "file", MD5).read_bytes() == CONTENT


def test_a_range_from_elsewhere_is_not_appended(tmp_path, server):
    server.slip = 70_000  # the server sends from the start, and says so
    (tmp_path / "file.part").write_bytes(CONTENT[:70_000])
    assert fetch(server.url, tmp_path / "file", MD5).read_bytes() == CONTENT


def test_a_complete_part_only_needs_its_name(tmp_path, server):
    (tmp_path / "file.part").write_bytes(CONTENT)
    assert fetch(server.url, tmp_path / "file", MD5).read_bytes() == CONTENT


def test_a_wrong_checksum_leaves_nothing_behind(tmp_path, server):
    with pytest.raises(DataError, match=rf"MD5 {'0' * 32}\. \(got {MD5}\)"):
        fetch(server.url, tmp_path / "file", "0" * 32)
    assert leftovers(tmp_path) == []


def test_a_spoiled_part_is_removed_and_the_next_call_succeeds(tmp_path, server):
    (tmp_path / "file.part").write_bytes(b"x" * 1000)
    with pytest.raises(DataError, match="The file was removed"):
        fetch(server.url, tmp_path / "file", MD5)
    assert leftovers(tmp_path) == []
    assert fetch(server.url, tmp_path / "file", MD5).read_bytes() == CONTENT


def test_offline_says_which_file_to_put_where(tmp_path, server):
    server.shutdown()
    server.server_close()
    with pytest.raises(DataError, match=rf"Could not download .*Put the file at {tmp_path}/file"):
        fetch(server.url, tmp_path / "file", MD5)


def test_a_missing_page_says_so(tmp_path, server):
    with pytest.raises(DataError, match=r"404.*by hand"):
        fetch(server.url + "s", tmp_path / "file", MD5)


def test_other_schemes_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match="http:// or https://"):
        fetch("file:///etc/passwd", tmp_path / "file", MD5)


def test_the_cache_is_where_the_environment_says(tmp_path, monkeypatch):
    monkeypatch.setenv("EXPUNGE_CACHE", str(tmp_path))
    assert cache_dir() == tmp_path
    monkeypatch.delenv("EXPUNGE_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_dir() == tmp_path / ".cache" / "expunge"
