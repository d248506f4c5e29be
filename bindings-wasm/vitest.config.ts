import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["tests/**/*.test.ts"],
    setupFiles: ["tests/support/setup.ts"],
    globalSetup: ["tests/support/origin.ts"],
    execArgv: ["--expose-gc"],
    testTimeout: 60_000, // a machine may be slow; what must be quick is said in events, or on a clock of the test's own
    hookTimeout: 60_000,
    fileParallelism: false, // they share one origin, and each test gives it a script of its own
  },
});
