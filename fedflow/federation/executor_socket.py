"""Reading the unix socket of the own server: blocking, frame by frame, with descriptors."""

from __future__ import annotations

import mmap
import os
import select
import socket

from fedflow.base.errors.data_plane import CodecError
from fedflow.federation.messages import PREFIX, Reply, frame_lengths, parse_reply


def readable(sock: socket.socket, timeout_s: float) -> bool:
    """Wait until there is something to read (or the end), at most `timeout_s`; tell whether."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))


def read_frame(sock: socket.socket) -> tuple[Reply, memoryview, int]:
    """Return the next message, its body and its descriptor (-1 = none).

    Raises: ConnectionError: the server has closed. BadRequest: it is not a frame.
    """
    prefix, fds, _, _ = socket.recv_fds(sock, PREFIX.size, 1)
    if not prefix:
        raise ConnectionError("the server has closed the connection")
    if len(prefix) < PREFIX.size:
        prefix += bytes(_read_exactly(sock, PREFIX.size - len(prefix)))
    header_length, body_length = frame_lengths(prefix)
    try:
        reply = parse_reply(_read_exactly(sock, header_length))
        return reply, _read_exactly(sock, body_length), fds[0] if fds else -1
    except BaseException:
        for fd in fds:
            os.close(fd)
        raise


def _read_exactly(sock: socket.socket, length: int) -> memoryview:
    """Return `length` bytes, read-only."""
    view = memoryview(bytearray(length))
    done = 0
    while done < length:
        count = sock.recv_into(view[done:])
        if not count:
            raise ConnectionError("the server has closed the connection")
        done += count
    return view.toreadonly()


def map_file(fd: int, size: int) -> memoryview:
    """Return the first `size` bytes of a file, mapped read-only; closes `fd`."""
    if fd < 0:
        raise CodecError(reason="a value without its descriptor")
    try:
        if os.fstat(fd).st_size < size:
            raise CodecError(reason="a file that is shorter than its value")
        return memoryview(mmap.mmap(fd, size, prot=mmap.PROT_READ) if size else b"")
    finally:
        os.close(fd)
