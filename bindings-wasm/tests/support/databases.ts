/** Servers of databases for the recipes: each drops its connection at the first query, and has one user, Ada. */

import { type AddressInfo, createServer, type Server, type Socket } from "node:net";

/** A server that drops its first request: `seen` are the requests. */
export interface Dropping {
  readonly seen: string[];
  readonly url: string;
  end(): Promise<unknown>;
}

/** Starts a server at a free port, and returns the port. */
async function listening(server: Server): Promise<number> {
  await new Promise<void>((there) => server.listen(0, "127.0.0.1", there));
  return (server.address() as AddressInfo).port;
}

function ending(server: Server, sockets: Set<Socket>): () => Promise<unknown> {
  return () => {
    for (const socket of sockets) socket.destroy();
    return new Promise((closed) => server.close(closed));
  };
}

/** A message of the Postgres protocol: a type, the length, and the body. */
function message(type: string, ...body: (string | readonly number[])[]): Buffer {
  const bytes = Buffer.concat(body.map((part) => Buffer.from(part as string)));
  const head = Buffer.alloc(5);
  head.write(type);
  head.writeInt32BE(bytes.length + 4, 1);
  return Buffer.concat([head, bytes]);
}

const READY = message("Z", "I");
/** The answer to a query: one column `name` of the type text, one row, and the end. */
const ADA = Buffer.concat([
  message("T", [0, 1], "name\0", [0, 0, 0, 0, 0, 0, 0, 0, 0, 25, 255, 255, 255, 255, 255, 255, 0, 0]),
  message("D", [0, 1, 0, 0, 0, 3], "Ada"),
  message("C", "SELECT 1\0"),
  READY,
]);

/** A Postgres that lets everybody in. */
export async function droppingPostgres(): Promise<Dropping> {
  const seen: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    let begun = false;
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.on("data", (chunk) => {
      if (!begun) socket.write(Buffer.concat([message("R", [0, 0, 0, 0]), READY]));
      begun = true;
      if (chunk[0] !== "Q".charCodeAt(0)) return;
      seen.push(chunk.toString("utf8", 5, chunk.length - 1));
      if (seen.length === 1) socket.destroy();
      else socket.write(ADA);
    });
  });
  const port = await listening(server);
  return { seen, url: `postgres://shop@127.0.0.1:${port}/shop`, end: ending(server, sockets) };
}

/** A packet of the MySQL protocol: the length, its number, and the body. */
function packet(number: number, ...body: (string | readonly number[])[]): Buffer {
  const bytes = Buffer.concat(body.map((part) => Buffer.from(part as string)));
  return Buffer.concat([Buffer.from([bytes.length, 0, 0, number]), bytes]);
}

/** The first word of a server without TLS, whose passwords are those of `mysql_native_password`. */
const GREETING = packet(
  0,
  [10],
  "8.0.0\0",
  [1, 0, 0, 0],
  "12345678\0",
  [0x01, 0xa2, 33, 2, 0, 0x08, 0, 21], // protocol 4.1, transactions, secure connections; plugins
  Array(10).fill(0),
  "123456789012\0mysql_native_password\0",
);
const OK = packet(2, [0, 0, 0, 2, 0, 0, 0]);
const EOF = [0xfe, 0, 0, 2, 0];
/** The answer to a query: one column `name` of the type varchar, one row, and the end. */
const ADA_OF_MYSQL = Buffer.concat([
  packet(1, [1]),
  packet(2, "\x03def", [0, 0, 0], "\x04name\x04name", [12, 33, 0, 255, 0, 0, 0, 253, 0, 0, 0, 0, 0]),
  packet(3, EOF),
  packet(4, "\x03Ada"),
  packet(5, EOF),
]);

/** A MySQL that lets everybody in. */
export async function droppingMysql(): Promise<Dropping> {
  const seen: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    let begun = false;
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.on("data", (chunk) => {
      if (!begun) socket.write(OK);
      else if (chunk[4] === 3) {
        seen.push(chunk.toString("utf8", 5));
        if (seen.length === 1) socket.destroy();
        else socket.write(ADA_OF_MYSQL);
      }
      begun = true;
    });
    socket.write(GREETING);
  });
  const port = await listening(server);
  return { seen, url: `mysql://shop@127.0.0.1:${port}/shop`, end: ending(server, sockets) };
}
