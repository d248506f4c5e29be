// The scenario that runs on every platform: in a page, in a worker, on Node, Deno, Bun and workerd. The caller passes the package,
// because not every platform resolves it by name.

/** Runs all checks against the origin at `url`. Returns a list of failed expectations, empty if there are none. */
export async function scenario(tidegate, url, { browser, queues = true }) {
  const { AttemptTimeout, BreakerOpen, BulkheadFull, Engine, policy, PolicyError, reportOf, within } =
    tidegate;
  const wrong = [];
  const same = (what, found, wanted) => {
    const [one, other] = [JSON.stringify(found), JSON.stringify(wanted)];
    if (one !== other) wrong.push(`${what}: ${one} is not ${other}`);
  };
  const failureOf = async (promise) => {
    try {
      return ["a value", await promise];
    } catch (error) {
      return error;
    }
  };
  const engine = new Engine({ seed: 7 });
  const http = (more = {}) =>
    policy({ engine, preset: "http", retry: { backoff: { base: 1, max: 5 } }, ...more });

  let tries = 0;
  const worked = await http().run(async () => {
    tries += 1;
    if (tries < 3) throw Object.assign(new Error("reset"), { code: "ECONNRESET" });
    return tries;
  });
  same("a function is repeated", worked, 3);

  // A bound function, because SDKs call it as a method of their own.
  const { fetch } = http();
  const answer = await fetch(`${url}/flaky`);
  same("a fetch is repeated", [answer.status, await answer.text()], [200, "there"]);
  same("and says so", reportOf(answer)?.attempts, 2);

  const broken = await fetch(`${url}/reset`);
  same("so is a connection that broke", [broken.status, await broken.text()], [200, "after all"]);

  const posted = await fetch(`${url}/post`, { method: "POST", body: "pay" });
  same("a POST is not", [posted.status, reportOf(posted)?.reason], [503, "method"]);
  await posted.text();

  const hanging = await failureOf(
    http({ attemptTimeout: 40, retry: { maxAttempts: 1 } }).fetch(`${url}/hang`),
  );
  same(
    "an attempt runs out of its time",
    [hanging instanceof AttemptTimeout, hanging.policy !== undefined],
    [true, true],
  );

  const slow = http({
    retry: { maxAttempts: 5, backoff: { base: 60_000, max: 60_000, jitter: "none" } },
    deadline: 600_000,
  });
  const controller = new AbortController();
  const reason = new Error("enough");
  const waiting = failureOf(slow.fetch(`${url}/down`, { signal: controller.signal }));
  setTimeout(() => controller.abort(reason), 60);
  const start = performance.now();
  const stopped = await waiting;
  same(
    "a wait ends with its caller, for its reason",
    [stopped === reason, performance.now() - start < 20_000],
    [true, true],
  );

  const narrow = http({ bulkhead: { maxConcurrency: 1, maxQueue: 1 } });
  const first = await narrow.fetch(`${url}/flaky`);
  let done = false;
  const second = narrow.fetch(`${url}/flaky`).then(
    (response) => {
      done = true;
      return response.text();
    },
    (error) => (error instanceof BulkheadFull ? "full" : error),
  );
  await new Promise((turn) => setTimeout(turn, 30));
  same("a slot lasts until the body is read", done, false);
  await first.text();
  same("and is handed on then, where calls may wait", await second, queues ? "there" : "full");

  const fragile = policy({ engine, breaker: { consecutive: 1, breakDuration: 5000 } });
  await failureOf(fragile.run(() => Promise.reject(Object.assign(new Error(), { code: "EPIPE" }))));
  same("a breaker opens", (await failureOf(fragile.run(() => 1))) instanceof BreakerOpen, true);

  // Uses a feature that the small module lacks: the full one is loaded, and calls in flight continue in it.
  const before = policy({ engine, retry: {} });
  let end;
  const under = before.run(
    () =>
      new Promise((done) => {
        end = done;
      }),
  );
  const hedged = policy({ engine, hedge: { delay: 5000 } });
  same("a hedge is to be had on every platform", await hedged.run(() => "hedged"), "hedged");
  end?.("went on");
  same("a call that was under way goes on", await under, "went on");

  const mistakes = await failureOf((async () => policy({ retry: { maxAttempts: 0 } }))());
  same(
    "a mistake is told",
    [mistakes instanceof PolicyError, mistakes.mistakes?.[0]?.key],
    [true, "retry.maxAttempts"],
  );

  const inside = await failureOf(
    (async () => within({ deadline: 1000 }, () => http().run(() => "in time")))(),
  );
  if (browser) same("within says what a page has not", /AsyncLocalStorage/.test(inside.message), true);
  else same("within holds", inside, ["a value", "in time"]);

  await tidegate.ready({ full: true });
  const left = engine.snapshot();
  same("nothing is left", [left.live, left.waiting], [0, 0]);
  same("nobody waits", [engine.waiters.size, engine.ticker.size], [0, 0]);
  return wrong;
}

/** The origin's script for the scenario. `*` lets pages of other origins read the responses. */
export function script() {
  const headers = { "access-control-allow-origin": "*" };
  const fine = (body) => ({ status: 200, body, headers });
  return {
    sequences: {
      "/flaky": [{ status: 503, headers }, fine("there")],
      "/reset": [{ fault: "reset" }, fine("after all")],
      "/post": [{ status: 503, headers }],
      "/hang": [{ fault: "hang" }],
      "/down": [{ status: 503, headers }],
    },
  };
}

/** Compares the origin's log with the requests. Returns a list of failed expectations. */
export function sent(log, { browser }) {
  const wrong = [];
  const preflights = log.filter(({ method }) => method === "OPTIONS").length;
  if (preflights > 0) wrong.push(`${preflights} preflights`);
  const [first, again] = log.filter(({ path }) => path === "/flaky");
  const marked = ({ headers }) => headers.some(([name]) => name === "retry-attempt");
  if (marked(first)) wrong.push("the first attempt says that it is a repeat");
  if (marked(again) === browser)
    wrong.push(`a repeat ${browser ? "costs a page a preflight" : "does not say so"}`);
  const posts = log.filter(({ path }) => path === "/post").length;
  if (posts !== 1) wrong.push(`${posts} POSTs`);
  return wrong;
}
