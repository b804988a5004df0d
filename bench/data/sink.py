"""A server that is not what is measured: nginx that discards what is sent and serves files as they lie.

It checks no signature and keeps nothing, so it has three containers: `empty` takes uploads and lists nothing,
`full` has the workloads, `many` is a long listing and nothing else. A blob of `empty` can be looked at all
the same, since rclone looks at what it sent.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.data.listing_pages import blobs_of, invented, page_text, write_flat, write_listing
from bench.data.place import ACCOUNT, Service
from bench.data.server_process import free_port, server_process
from bench.data.workload import Workload
from bench.peers import NGINX
from bench.plan import Plan

EMPTY, FULL, MANY = "empty", "full", "many"
_MODULES = ("ngx_http_echo_module", "ngx_http_headers_more_filter_module")
_CONFIGURATION = """
{modules}
daemon off;
master_process off;
pid {root}/nginx.pid;
error_log stderr error;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 10000000;
    keepalive_timeout 300s;
    client_max_body_size 0;
    client_body_buffer_size 9m;
    client_body_temp_path {root}/bodies;
    proxy_temp_path {root}/unused;
    fastcgi_temp_path {root}/unused;
    uwsgi_temp_path {root}/unused;
    scgi_temp_path {root}/unused;
    open_file_cache max=20000 inactive=1h;
    open_file_cache_valid 1h;
    default_type application/octet-stream;
    more_set_headers "x-ms-version: 2021-12-02" "x-ms-request-id: 00000000-0000-0000-0000-000000000000";
    map $http_x_ms_range $asked_range {{ "" $http_range; default $http_x_ms_range; }}
    map $arg_delimiter $depth {{ "" flat; default level; }}
    server {{
        listen 127.0.0.1:{port} backlog=1024;
        if ($request_method = PUT) {{ rewrite ^ /-put last; }}
        set $page $depth/${{arg_prefix}}_$arg_marker.xml;
        if ($arg_comp = list) {{ rewrite ^/{account}/(\\w+)/?$ /-list/$1/$page last; }}
        location = /-put {{
            echo_read_request_body;
            echo_status 201;
            more_set_headers 'ETag: "0x8DB000000000000"' "Last-Modified: {made_at}" "Content-Length: 0";
            echo -n "";
        }}
        location /-list/ {{
            root {root};
            default_type application/xml;
            try_files $uri /-list/nothing.xml;
        }}
        location /{account}/ {{
            root {root};
            more_set_input_headers "Range: $asked_range";
            more_set_headers "x-ms-blob-type: BlockBlob" "x-ms-lease-status: unlocked";
            more_set_headers -s 404 "x-ms-error-code: BlobNotFound";
            try_files $uri =404;
        }}
        location / {{ return 200; }}
    }}
}}
"""


@contextmanager
def sink(plan: Plan, works: Sequence[Workload]) -> Iterator[Service]:
    """Serves the workloads from the page cache; BenchError when nginx cannot be had."""
    root = plan.places.fresh("sink")
    root.chmod(0o755)
    _prepare(root, works, plan.data_listed)
    port = free_port()
    modules = [plan.peers.program(NGINX, f"{name}.so") for name in _MODULES]
    text = _CONFIGURATION.format(
        modules="\n".join(f"load_module {path};" for path in modules),
        root=root,
        port=port,
        account=ACCOUNT,
        made_at=time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime()),
    )
    (root / "nginx.conf").write_text(text, encoding="ascii")
    argv = [plan.peers.program(NGINX, "nginx"), "-p", str(root), "-c", str(root / "nginx.conf")]
    with server_process(argv, port, log=root / "nginx.log", env=plan.places.environment()):
        yield Service(port, EMPTY, FULL)


def _prepare(root: Path, works: Sequence[Workload], listed: int) -> None:
    for container in (EMPTY, FULL):
        folder = root / ACCOUNT / container
        folder.mkdir(parents=True)
        for work in works:
            (folder / work.name).symlink_to(work.folder)
    (root / "bodies").mkdir()
    lists = root / "-list"
    write_listing(lists / FULL, [blob for work in works for blob in blobs_of(work.folder)])
    write_flat(lists / MANY, invented(listed))
    (lists / "nothing.xml").write_text(page_text("", ""), encoding="ascii")
