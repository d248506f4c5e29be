/** For how long reads of a body have waited, and which pieces end that (semantics 7.7.13, 7.7.17). */

import { type Native, sayBytes } from "../engine/native.js";
import type { Core } from "../run/core.js";

/** Bytes of events that are read by the engine at once, so that a piece costs no crossing. */
const TOGETHER = 8 * 1024;
/** The part of `idleTimeout` by which a silence may be noticed late, because its pieces are read together. */
const SLACK = 16;

// Captured when the code is loaded: under the fake timers of a test framework it would not come.
const soon: (go: () => void) => unknown =
  (globalThis as { setImmediate?: (go: () => void) => unknown }).setImmediate ?? globalThis.setTimeout;

/** Readers of events whose bodies were dropped before their end. */
const dropped =
  typeof FinalizationRegistry === "undefined"
    ? undefined
    : new FinalizationRegistry<[Native, number]>(([native, reader]) => native.forget_events(reader));

/** Which pieces of a body count. */
export class Pieces {
  readonly #native: Native;
  /** The engine's reader of events; negative if every byte counts. */
  #reader = -1;
  /** The outcome of the last failure that an event has reported; 0 without one. */
  failure = 0;

  /** `plain`: the body has no coding, or the client has decoded it. */
  constructor(core: Core, plain: boolean) {
    this.#native = core.engine.native;
    if (!plain || core.setting("counts") !== "sse_data") return;
    this.#reader = this.#native.events();
    dropped?.register(this, [this.#native, this.#reader], this);
  }

  /** Whether only data of events count. */
  get events(): boolean {
    return this.#reader >= 0;
  }

  /** Reads a piece, and returns whether it counts. */
  counts(piece: Uint8Array): boolean {
    if (this.#reader < 0) return piece.length > 0;
    sayBytes(piece);
    const word = this.#native.read_events(this.#reader);
    const counts = word % 2;
    if (word > counts) this.failure = word - counts;
    return counts === 1;
  }

  /** Forgets the reader. */
  free(): void {
    if (this.#reader < 0) return;
    this.#native.forget_events(this.#reader);
    dropped?.unregister(this);
    this.#reader = -1;
  }
}

/** The silence of one body. */
export class Silence {
  readonly #core: Core;
  readonly #pieces: Pieces;
  readonly #events: boolean;
  /** Microseconds for which reads have waited since the last piece that counts. */
  #waited = 0;
  /** When the read that waits began; negative while nothing reads. */
  #began = -1;
  /** Bytes of events that the engine has not read, and for how long reads have waited among them. */
  #unread: Uint8Array | undefined;
  #size = 0;
  #among = 0;
  readonly #slack: number;
  /** Whether the last report has been put off. */
  #late = false;

  constructor(core: Core, pieces: Pieces) {
    this.#core = core;
    this.#pieces = pieces;
    this.#events = pieces.events;
    this.#slack = (core.count("idle_timeout") ?? Infinity) / SLACK;
  }

  /** The outcome of the last failure that an event has reported; 0 without one. */
  get failure(): number {
    return this.#pieces.failure;
  }

  #now(): number {
    return this.#core.engine.moment();
  }

  /** A read waits from now on. */
  begin(): void {
    if (this.#began < 0) this.#began = this.#now();
  }

  /** Nothing reads any more. */
  rest(): void {
    if (this.#began >= 0) this.#waited += this.#now() - this.#began;
    this.#began = -1;
  }

  /** Notes a piece that a read has got; `more`: another read waits. */
  piece(piece: Uint8Array, more: boolean): void {
    if (!this.#events && piece.length > 0) {
      this.#waited = 0;
      this.#began = more ? this.#now() : -1;
      return;
    }
    const now = this.#now();
    const took = this.#began < 0 ? 0 : now - this.#began;
    this.#began = more ? now : -1;
    if (this.#events && this.#among + took > this.#slack) this.#read();
    this.#waited += took;
    this.#among += took;
    if (this.#events) this.#keep(piece);
  }

  #keep(piece: Uint8Array): void {
    if (piece.length > TOGETHER - this.#size) this.#read();
    if (piece.length > TOGETHER) {
      if (this.#pieces.counts(piece)) this.#waited = 0;
      return;
    }
    this.#unread ??= new Uint8Array(TOGETHER);
    this.#unread.set(piece, this.#size);
    this.#size += piece.length;
  }

  /** Has the engine read what has come. */
  #read(): void {
    this.#among = 0;
    if (this.#size === 0 || this.#unread === undefined) return;
    if (this.#pieces.counts(this.#unread.subarray(0, this.#size))) this.#waited = 0;
    this.#size = 0;
  }

  /**
   * For how long reads have waited, in microseconds. Before a silence that is too long is reported for the first time, the event loop gets
   * a turn: pieces may have come while it was busy. Then the result is undefined, and `again` is called after it.
   */
  age(again: () => void): number | undefined {
    this.#read();
    const { clock } = this.#core.engine;
    const age = this.#waited + (this.#began < 0 ? 0 : Math.max(this.#now() - this.#began, 0));
    const put = !this.#late && clock === undefined && age >= this.#slack * SLACK;
    this.#late = put;
    if (!put) return age;
    soon(again);
    return undefined;
  }

  /** Reads the rest at the end of the body, and forgets the reader. */
  end(): void {
    this.#read();
    this.#pieces.free();
  }
}
