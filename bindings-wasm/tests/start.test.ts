/** A store that fails from the start: no call waits for it longer than `storeTimeout`. */

import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { Redis as IORedis } from "ioredis";
import { createClient } from "redis";
import { afterEach, expect, test } from "vitest";
import { attach, type RedisClient, RedisStore } from "../ts/fleet.js";
import { policy } from "../ts/node.js";
import { freePort } from "./support/redis.js";
import { until } from "./support/server.js";
import { engine } from "./support/setup.js";

const PASSWORD = "canary-9d41f7";
const ends: (() => void | Promise<void>)[] = [];

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

/** The port of a server that answers every command with the same text, or never. */
async function serve(says: string | undefined): Promise<number> {
  const open = new Set<Socket>();
  const server: Server = createServer((socket) => {
    open.add(socket);
    socket.on("error", () => undefined);
    socket.on("close", () => open.delete(socket));
    socket.on("data", (text) => {
      const commands = text.toString("latin1").match(/(?:^|\r\n)\*\d/g)?.length ?? 1;
      if (says !== undefined) socket.write(`${says}\r\n`.repeat(commands));
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  ends.push(async () => {
    for (const socket of open) socket.destroy();
    server.close();
    await once(server, "close");
  });
  return (server.address() as AddressInfo).port;
}

/** Clients as a program makes them, without waiting for their connections. */
const CLIENTS: Record<string, (host: string, port: number) => RedisClient> = {
  ioredis: (host, port) => {
    const given = { host, port, username: "somebody", password: PASSWORD };
    const client = new IORedis({
      ...given,
      maxRetriesPerRequest: 0,
      enableOfflineQueue: false,
      retryStrategy: () => 20,
    });
    client.on("error", () => undefined); // it keeps trying
    ends.push(() => client.disconnect());
    return client;
  },
  "node-redis": (host, port) => {
    const client = createClient({
      socket: { host, port, reconnectStrategy: 20 },
      username: "somebody",
      password: PASSWORD,
      disableOfflineQueue: true,
    });
    client.on("error", () => undefined);
    client.connect().catch(() => undefined);
    ends.push(() => client.destroy());
    return client;
  },
};

const STARTS: Record<string, () => Promise<[host: string, port: number]>> = {
  "a wrong password": async () => ["127.0.0.1", await serve("-WRONGPASS invalid username-password pair")],
  "a password is wanted": async () => ["127.0.0.1", await serve("-NOAUTH Authentication required.")],
  "no answer": async () => ["127.0.0.1", await serve(undefined)],
  "a refused port": async () => ["127.0.0.1", await freePort()],
  "an unknown name": async () => ["no-such-host.invalid", 6379],
};

test.each(Object.keys(CLIENTS).flatMap((kind) => Object.keys(STARTS).map((start) => [kind, start])))(
  "%s, %s: calls are decided by onLoss",
  async (kind, start) => {
    const [host, port] = await (STARTS[start] as (typeof STARTS)[string])();
    const client = (CLIENTS[kind] as (typeof CLIENTS)[string])(host, port);
    const lab = engine();
    const told: (string | undefined)[] = [];
    lab.listen(({ type, reason }) => {
      if (type === "store_degraded") told.push(reason);
    });
    attach(new RedisStore(client), { engine: lab });
    const limited = (name: string, onLoss: "open" | "closed") =>
      policy({ name, engine: lab, rateLimit: { permits: 50, per: 1000, store: "fleet", onLoss } });
    const open = limited("open", "open");
    for (let n = 0; n < 3; n += 1) {
      const began = performance.now();
      expect(await open.run(() => n)).toBe(n);
      expect(performance.now() - began).toBeLessThan(30_000); // 50 ms plus delays of this machine
    }
    await until(() => told.length > 0);
    // Whether a client passes on the server's error about the password is up to the client.
    expect(["WRONGPASS", "NOAUTH", "connection", "timeout"]).toContain(told[0]);
    const error = await limited("closed", "closed")
      .run(() => 1)
      .catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ reason: "store_unavailable" });
    const said = `${String(error)} ${JSON.stringify(error)} ${JSON.stringify(lab.snapshot())} ${told.join()}`;
    expect(said).not.toContain(PASSWORD);
  },
);
