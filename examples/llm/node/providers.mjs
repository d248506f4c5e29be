/** The three providers: processes of `tidegate-origin` with a fake provider of language models each, and what the chats meet. */

import { spawn } from "node:child_process";
import { once } from "node:events";

/** What the chats meet; the numbers are those of `../providers.py`. Seconds unless another unit is named. */
export class World {
  chats = 200;
  span = 30;
  /** A user reads for half to one and a half times as long before the next question. */
  think = 8;
  /** An answer that is whole within it is a success. */
  patience = 10;
  /** After so long without a first token the next provider is asked. */
  firstToken = 2;
  seed = 1;

  constructor(given = {}) {
    Object.assign(this, given);
  }

  /** Requests that each provider takes: a quarter more than half of what the chats ask, so that two can carry the load. */
  get perSecond() {
    return (this.chats / (this.think + 0.8) / 2) * 1.25;
  }

  /** The first provider answers 503. */
  get outage() {
    return [0.2 * this.span, 0.4 * this.span];
  }

  /** The second provider takes a tenth. */
  get cut() {
    return [0.5 * this.span, 0.65 * this.span];
  }

  /** Streams of the third provider stall before their first token, one of five; its pings go on. */
  get stalls() {
    return [0.65 * this.span, 0.9 * this.span];
  }

  /** A provider's meter, with windows of two seconds so that a short run sees many. */
  limits(share = 1) {
    const requests = Math.max(1, Math.round(2 * this.perSecond * share));
    return { requests, tokens: 120 * requests, per_s: 2 };
  }

  /** The script of one provider. */
  script(number) {
    const faults = [];
    if (number === 0) faults.push({ from: this.outage[0], until: this.outage[1], fault: "unavailable" });
    if (number === 2) {
      const [from, until] = this.stalls;
      faults.push({ from, until, share: 0.2, fault: "stall", at: 0 });
    }
    return {
      seed: this.seed + number,
      provider: {
        limits: this.limits(),
        answer_tokens: [8, 24],
        first_token: { kind: "lognormal", median_ms: 250, sigma: 0.4, max_ms: 1500 },
        token_every: 25,
        ping_every: 0.5,
        faults,
      },
    };
  }
}

/** One running provider. */
export class Provider {
  #process;
  #control;

  constructor(process, { url, control }) {
    this.#process = process;
    this.#control = control;
    this.url = url;
  }

  /** Starts one; it ends by itself when this process does. */
  static async start(binary) {
    const process = spawn(binary, [], { stdio: ["pipe", "pipe", "inherit"] });
    const [line] = await once(process.stdout, "data");
    return new Provider(process, JSON.parse(line.toString()));
  }

  /** A command, and its answer. */
  async ask(method, path, body) {
    const answer = await fetch(this.#control + path, {
      method,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${text}`);
    return text === "" ? undefined : JSON.parse(text);
  }

  /** Requests and refusals, by the provider's own count. */
  async counted() {
    const used = Object.values(await this.ask("GET", "/provider"));
    const sum = (numbers) => numbers.reduce((all, number) => all + number, 0);
    return {
      requests: sum(used.map(({ requests }) => requests)),
      refused: sum(used.flatMap(({ refused }) => Object.values(refused))),
    };
  }

  async end() {
    this.#process.stdin.end();
    if (this.#process.exitCode === null) await once(this.#process, "exit");
  }
}
