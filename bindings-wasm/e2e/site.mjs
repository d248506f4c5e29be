// Looks at the documentation site in Chromium: two widths, both themes, the search, and what a first visit transfers. It lies here because
// this folder has the browser's driver. `CHROMIUM` names the program; Debian's by default. node e2e/site.mjs <folder of the site>

import { existsSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { gzipSync } from "node:zlib";
import { chromium } from "playwright-core";
import { runAll } from "./fresh.mjs";

const TYPES = {
  ".css": "text/css",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".json": "application/json",
  ".png": "image/png",
  ".svg": "image/svg+xml",
};
const PAGES = [
  "",
  "tutorial/python/",
  "javascript/",
  "reference/kotlin/",
  "explanation/why-servers-stay-down/",
  "architecture/",
  "performance/",
];
const VIEWS = [
  { name: "wide", viewport: { width: 1280, height: 850 }, colorScheme: "light" },
  { name: "narrow", viewport: { width: 360, height: 740 }, colorScheme: "light" },
  { name: "dark", viewport: { width: 1280, height: 850 }, colorScheme: "dark" },
];
const LIMIT = 200_000;
const folder = process.argv[2];
let transferred = 0;

/** Serves the site as a host would: text is compressed. */
const server = createServer((request, response) => {
  const path = normalize(decodeURIComponent(new URL(request.url, "http://x").pathname));
  const file = join(folder, path.endsWith("/") ? `${path}index.html` : path);
  if (!existsSync(file) || !statSync(file).isFile()) return response.writeHead(404).end();
  const type = TYPES[extname(file)] ?? "application/octet-stream";
  const text = !["image/png", "application/octet-stream"].includes(type);
  const body = text ? gzipSync(readFileSync(file)) : readFileSync(file);
  transferred += body.length;
  response
    .writeHead(200, { "content-type": type, ...(text ? { "content-encoding": "gzip" } : {}) })
    .end(body);
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const base = `http://127.0.0.1:${server.address().port}/`;
const quiet = [
  "--disable-gpu",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
];
const args = process.getuid?.() === 0 ? [...quiet, "--no-sandbox"] : quiet;
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  headless: true,
  args,
});

/** Opens a new profile. What goes wrong in it is collected in `wrong`. */
async function opened(view, work) {
  const context = await browser.newContext({ viewport: view.viewport, colorScheme: view.colorScheme });
  const tab = await context.newPage();
  const wrong = [];
  tab.on("pageerror", (error) => wrong.push(String(error)));
  tab.on("console", (message) => message.type() === "error" && wrong.push(message.text()));
  tab.on("request", (request) => {
    if (!request.url().startsWith(base) && !request.url().startsWith("data:"))
      wrong.push(`asked another server: ${request.url()}`);
  });
  tab.on(
    "response",
    (response) => response.status() >= 400 && wrong.push(`${response.status()} ${response.url()}`),
  );
  try {
    const told = await work(tab);
    if (wrong.length > 0) throw new Error(wrong.join("\n"));
    return told;
  } finally {
    await context.close();
  }
}

/** Brightness of the page's ground, from 0 to 255. */
const brightness = (tab) =>
  tab.evaluate(() => {
    const colours = getComputedStyle(document.body).backgroundColor.match(/\d+/g).slice(0, 3).map(Number);
    return Math.round(colours.reduce((sum, colour) => sum + colour) / 3);
  });

async function looks(view) {
  return await opened(view, async (tab) => {
    for (const page of PAGES) {
      await tab.goto(base + page, { waitUntil: "networkidle", timeout: 60_000 });
      const over = await tab.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (over > 0) throw new Error(`/${page} is ${over} pixels wider than the window`);
      const blind = await tab.evaluate(() =>
        [...document.images].filter((it) => !it.naturalWidth).map((it) => it.src),
      );
      if (blind.length > 0) throw new Error(`/${page} has pictures without a picture: ${blind}`);
    }
    const ground = await brightness(tab);
    if (view.colorScheme === "dark" ? ground > 60 : ground < 200)
      throw new Error(`the ground has ${ground} of 255`);
    return `${PAGES.length} pages, ground ${ground} of 255`;
  });
}

await runAll({
  ...Object.fromEntries(VIEWS.map((view) => [view.name, () => looks(view)])),
  "the theme can be switched by hand": () =>
    opened(VIEWS[0], async (tab) => {
      await tab.goto(base, { waitUntil: "networkidle" });
      for (let tries = 0; tries < 3 && (await brightness(tab)) > 60; tries += 1) {
        await tab.locator("form[data-md-component=palette] label:visible").click();
      }
      const ground = await brightness(tab);
      if (ground > 60) throw new Error(`the ground has ${ground} of 255 after three clicks`);
    }),
  "the search finds Retry-After": () =>
    opened(VIEWS[0], async (tab) => {
      await tab.goto(base, { waitUntil: "networkidle" });
      await tab.locator("[data-md-component=search-query]").click();
      await tab.locator("[data-md-component=search-query]").fill("Retry-After");
      const first = tab.locator("[data-md-component=search-result] article").first();
      await first.waitFor({ timeout: 60_000 });
      const found = await tab.locator("[data-md-component=search-result] article").allTextContents();
      if (!found.some((text) => text.includes("Retry-After"))) throw new Error(found.join("\n---\n"));
      return `${found.length} results`;
    }),
  "a first visit is light": () =>
    opened(VIEWS[0], async (tab) => {
      transferred = 0;
      await tab.goto(base, { waitUntil: "networkidle" });
      if (transferred >= LIMIT) throw new Error(`${transferred} bytes; the limit is ${LIMIT}`);
      return `${transferred} bytes`;
    }),
});
await browser.close();
server.close();
