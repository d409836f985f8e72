// The wire between the browser and the server, which a journey can cut: a proxy that ends every connection.
import { createServer, request, type Server } from "node:http";
import { once } from "node:events";
import type { AddressInfo, Socket } from "node:net";

export class Wire {
  #server: Server;
  #sockets = new Set<Socket>();
  #whole = true;

  private constructor(server: Server) {
    this.#server = server;
    server.on("connection", (socket: Socket) => {
      if (!this.#whole) {
        socket.destroy();
        return;
      }
      this.#sockets.add(socket);
      socket.on("close", () => this.#sockets.delete(socket));
    });
  }

  static async open(): Promise<Wire> {
    const server = createServer((from, to) => {
      // A browser sends its proxy the whole address.
      const url = new URL(from.url ?? "/");
      const onward = request({ host: url.hostname, port: url.port, path: url.pathname + url.search, method: from.method, headers: from.headers }, (answer) => {
        to.writeHead(answer.statusCode ?? 502, answer.headers);
        to.flushHeaders();
        answer.pipe(to);
      });
      onward.on("error", () => to.destroy());
      to.on("close", () => onward.destroy());
      from.pipe(onward);
    });
    const wire = new Wire(server);
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return wire;
  }

  get address(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Ends every connection and refuses new ones. */
  cut(): void {
    this.#whole = false;
    for (const socket of this.#sockets) socket.destroy();
  }

  mend(): void {
    this.#whole = true;
  }

  close(): void {
    this.cut();
    this.#server.close();
  }
}
