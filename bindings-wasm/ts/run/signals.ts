/** Callers' signals: all calls that follow the same signal share one listener. */

interface Followers {
  readonly works: Set<() => void>;
  readonly listener: () => void;
}

const followed = new WeakMap<AbortSignal, Followers>();

/** The reason of an aborted signal. Those of older packages (`abort-controller`) have none. */
export function reasonOf(signal: AbortSignal | undefined): unknown {
  const reason: unknown = signal?.reason;
  return reason === undefined ? new DOMException("This operation was aborted", "AbortError") : reason;
}

/**
 * Runs `work` when the signal is aborted. Node warns of a leak at the eleventh listener of one signal, so all calls share one
 * listener, which is removed with the last of them.
 *
 * @returns A function that cancels the registration.
 */
export function onAbort(signal: AbortSignal, work: () => void): () => void {
  let found = followed.get(signal);
  if (found === undefined) {
    const works = new Set<() => void>();
    const listener = () => {
      for (const each of [...works]) each();
    };
    found = { works, listener };
    followed.set(signal, found);
    signal.addEventListener("abort", listener);
  }
  const { works, listener } = found;
  works.add(work);
  return () => {
    if (!works.delete(work) || works.size > 0) return;
    followed.delete(signal);
    signal.removeEventListener("abort", listener);
  };
}
