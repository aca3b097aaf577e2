from __future__ import annotations

import hashlib
import http.server
import threading

import pytest

from expunge._errors import DataError
from expunge.data import cache_dir, fetch

CONTENT = bytes(i * i % 251 for i in range(300_000))
MD5 = hashlib.md5(CONTENT).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked += 1
        if self.path != "/file":
            return self.send_error(404)
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT[: self.server.cut])
        return None

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.asked, server.cut = 0, len(CONTENT)
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
    assert server.asked == 0


def test_a_download_that_is_cut_leaves_nothing_behind(tmp_path, server):
    server.cut = 100_000
    with pytest.raises(DataError, match=rf"should have the MD5 {MD5}|Could not download"):
        fetch(server.url, tmp_path / "file", MD5)
    assert leftovers(tmp_path) == []


def test_a_wrong_checksum_leaves_nothing_behind(tmp_path, server):
    with pytest.raises(DataError, match=rf"MD5 {'0' * 32}\. \(got {MD5}\)"):
        fetch(server.url, tmp_path / "file", "0" * 32)
    assert leftovers(tmp_path) == []


def test_offline_says_which_file_to_put_where(tmp_path, server):
    server.shutdown()
    server.server_close()
    with pytest.raises(DataError, match=rf"Could not download .*Put the file at {tmp_path}/file"):
        fetch(server.url, tmp_path / "file", MD5)


def test_a_missing_page_says_so(tmp_path, server):
    with pytest.raises(DataError, match=r"404.*by hand"):
        fetch(server.url + "s", tmp_path / "file", MD5)


def test_the_cache_is_where_the_environment_says(tmp_path, monkeypatch):
    monkeypatch.setenv("EXPUNGE_CACHE", str(tmp_path))
    assert cache_dir() == tmp_path
    monkeypatch.delenv("EXPUNGE_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_dir() == tmp_path / ".cache" / "expunge"
