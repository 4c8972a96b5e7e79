"""A proxy on this machine, as HTTPS_PROXY names one."""

import contextlib
import socket
import socketserver
import threading


class Proxy(socketserver.StreamRequestHandler):
    """Passes connections through; `server.asked`, where there is one, is the set of where to."""

    def handle(self) -> None:
        method, place, _ = self.rfile.readline().decode().split()
        while self.rfile.readline().strip():
            pass
        getattr(self.server, "asked", set()).add(f"{method} {place}")
        host, _, port = place.rpartition(":")
        with socket.create_connection((host, int(port))) as far:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            back = threading.Thread(target=self.carry, args=(far, self.connection))
            back.start()
            self.carry(self.connection, far)
            back.join()

    @staticmethod
    def carry(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while part := source.recv(65536):
                target.sendall(part)
            target.shutdown(socket.SHUT_WR)
