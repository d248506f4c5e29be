/** A Redis or Valkey of a test's own: on a free port, in a folder of its own, and gone with the test. */

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { type AddressInfo, connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** The program: `TIDEGATE_REDIS_SERVER` names it, else the one that is there; undefined where there is none. */
export const PROGRAM = [process.env["TIDEGATE_REDIS_SERVER"], "redis-server", "valkey-server"].find(
  (name) => name !== undefined && spawnSync(name, ["--version"]).status === 0,
);

async function freePort(): Promise<number> {
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
  readonly #folder = mkdtempSync(join(tmpdir(), "tidegate-redis-"));
  #child: ChildProcess | undefined;

  private constructor(port: number) {
    this.port = port;
  }

  static async start(): Promise<Redis> {
    const made = new Redis(await freePort());
    await made.again();
    return made;
  }

  /** Starts it where it was, empty. */
  async again(): Promise<void> {
    const options = ["--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--dir", this.#folder];
    this.#child = spawn(PROGRAM as string, [...options, "--port", String(this.port)], { stdio: "ignore" });
    const end = performance.now() + 20_000;
    while (!(await answers(this.port))) {
      if (performance.now() > end) throw new Error(`${PROGRAM} does not answer on port ${this.port}`);
      await new Promise((done) => setTimeout(done, 10));
    }
  }

  /** Whatever it held is lost. */
  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined) return;
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
  }

  /** Connections stay, and nothing answers. */
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
