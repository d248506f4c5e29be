/** Servers for a single test, Redis or Valkey: on free ports, in folders of their own, and removed after the test. */

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** The server program: `TIDEGATE_REDIS_SERVER` names it; else the one installed; undefined if there is none. */
export const PROGRAM = (
  process.env["TIDEGATE_REDIS_SERVER"]
    ? [process.env["TIDEGATE_REDIS_SERVER"]]
    : ["redis-server", "valkey-server"]
).find((name) => spawnSync(name, ["--version"]).status === 0);

if (
  PROGRAM === undefined &&
  (process.env["TIDEGATE_REDIS_SERVER"] || process.env["TIDEGATE_REDIS_REQUIRED"])
) {
  throw new Error("needs redis-server or valkey-server on PATH, or in TIDEGATE_REDIS_SERVER");
}

/** A port without a server, on which to start one or to have a connection refused. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

async function answers(port: number): Promise<boolean> {
  const socket = connect(port, "127.0.0.1");
  try {
    await once(socket, "connect");
    socket.write("PING\r\n");
    const [told] = (await once(socket, "data")) as [Buffer];
    return told.toString().startsWith("+PONG");
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

export class Redis {
  readonly port: number;
  readonly #more: readonly string[];
  readonly #folder = mkdtempSync(join(tmpdir(), "tidegate-redis-"));
  #config: string | undefined;
  #child: ChildProcess | undefined;

  private constructor(port: number, more: readonly string[]) {
    this.port = port;
    this.#more = more;
  }

  /** Starts a server with these options in addition to the common ones. */
  static async start(...more: string[]): Promise<Redis> {
    const made = new Redis(await freePort(), more);
    await made.again();
    return made;
  }

  /** Starts a sentinel that watches the server on a port, under a name. */
  static async watching(name: string, port: number): Promise<Redis> {
    const made = new Redis(await freePort(), ["--sentinel"]);
    const lines = [
      `port ${made.port}`,
      "bind 127.0.0.1",
      `dir ${made.#folder}`,
      `sentinel monitor ${name} 127.0.0.1 ${port} 1`,
      `sentinel down-after-milliseconds ${name} 1000`, // a slow machine must not count as a failure
      `sentinel failover-timeout ${name} 5000`,
    ];
    made.#config = join(made.#folder, "sentinel.conf");
    writeFileSync(made.#config, `${lines.join("\n")}\n`);
    await made.again();
    return made;
  }

  /** Starts a server like a service that forbids scripts. */
  static withoutScripts(): Promise<Redis> {
    return Redis.start("--rename-command", "EVAL", "", "--rename-command", "EVALSHA", "");
  }

  /** Sends one command over a new connection and returns the raw reply. */
  async command(...words: string[]): Promise<string> {
    const socket = connect(this.port, "127.0.0.1");
    try {
      await once(socket, "connect");
      socket.write(`*${words.length}\r\n${words.map((word) => `$${word.length}\r\n${word}\r\n`).join("")}`);
      const [told] = (await once(socket, "data")) as [Buffer];
      return told.toString();
    } finally {
      socket.destroy();
    }
  }

  /** Starts it again on its port, empty. */
  async again(): Promise<void> {
    const options = ["--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--dir", this.#folder];
    const all =
      this.#config === undefined
        ? [...options, "--port", String(this.port), ...this.#more]
        : [this.#config, ...this.#more];
    this.#child = spawn(PROGRAM as string, all, { stdio: "ignore" });
    const end = performance.now() + 20_000;
    while (!(await answers(this.port))) {
      if (performance.now() > end) throw new Error(`${PROGRAM} does not answer on port ${this.port}`);
      await new Promise((done) => setTimeout(done, 10));
    }
  }

  /** Kills the server; its data is lost. */
  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined) return;
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
  }

  /** Pauses the server: connections stay open, and nothing answers. */
  pause(): void {
    this.#child?.kill("SIGSTOP");
  }

  resume(): void {
    this.#child?.kill("SIGCONT");
  }

  async end(): Promise<void> {
    await this.kill();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** One sentinel, with a quorum of one, and the two servers that it watches: a primary and its replica. */
export class Sentinel {
  static readonly NAME = "shop";
  readonly primary: Redis;
  readonly replica: Redis;
  readonly sentinel: Redis;

  private constructor(primary: Redis, replica: Redis, sentinel: Redis) {
    this.primary = primary;
    this.replica = replica;
    this.sentinel = sentinel;
  }

  static async start(): Promise<Sentinel> {
    const primary = await Redis.start("--repl-diskless-sync-delay", "0"); // otherwise it waits 5 s for more replicas
    const replica = await Redis.start("--replicaof", "127.0.0.1", String(primary.port));
    await told(replica, "master_link_status:up", "INFO", "replication");
    const sentinel = await Redis.watching(Sentinel.NAME, primary.port);
    const all = new Sentinel(primary, replica, sentinel);
    await told(sentinel, String(replica.port), "SENTINEL", "replicas", Sentinel.NAME);
    return all;
  }

  async end(): Promise<void> {
    for (const server of [this.sentinel, this.primary, this.replica]) await server.end();
  }
}

/** Waits until a server's reply to a command contains a text. */
async function told(server: Redis, text: string, ...command: string[]): Promise<void> {
  const end = performance.now() + 30_000;
  while (!(await server.command(...command)).includes(text)) {
    if (performance.now() > end) throw new Error(`${command.join(" ")}: no ${text}`);
    await new Promise((done) => setTimeout(done, 20));
  }
}

/** A cluster of three nodes. */
export class Cluster {
  readonly nodes: readonly Redis[];

  private constructor(nodes: readonly Redis[]) {
    this.nodes = nodes;
  }

  static async start(): Promise<Cluster> {
    const buses = await Promise.all([freePort(), freePort(), freePort()]);
    const options = ["--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port"];
    const nodes = await Promise.all(buses.map((bus) => Redis.start(...options, String(bus))));
    const cluster = new Cluster(nodes);
    try {
      await cluster.#join(buses);
    } catch (error) {
      await cluster.end();
      throw error;
    }
    return cluster;
  }

  async #join(buses: readonly number[]): Promise<void> {
    const [first, ...others] = this.nodes as [Redis, ...Redis[]];
    for (const [place, node] of this.nodes.entries()) {
      const [from, to] = [place, place + 1].map((it) => Math.floor((16_384 * it) / 3)) as [number, number];
      await node.command("CLUSTER", "SET-CONFIG-EPOCH", String(place + 1));
      await node.command("CLUSTER", "ADDSLOTSRANGE", String(from), String(to - 1));
    }
    for (const [place, { port }] of others.entries()) {
      await first.command("CLUSTER", "MEET", "127.0.0.1", String(port), String(buses[place + 1]));
    }
    const end = performance.now() + 30_000;
    for (const node of this.nodes) {
      let told = "";
      while (!told.includes("cluster_state:ok") || !told.includes("cluster_known_nodes:3")) {
        if (performance.now() > end) throw new Error(`no cluster: ${told}`);
        await new Promise((done) => setTimeout(done, 50));
        told = await node.command("CLUSTER", "INFO");
      }
    }
  }

  async end(): Promise<void> {
    for (const node of this.nodes) await node.end();
  }
}
